"""What may seed a source of noise."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.privacy._checks import whole_number

Seed = int | np.integer | np.random.RandomState | np.random.Generator | np.random.SeedSequence


def seed_sequence(random_state: Seed) -> np.random.SeedSequence:
    """Return the root of all streams; a generator is advanced, so that it never repeats them."""
    if isinstance(random_state, np.random.SeedSequence):
        return random_state.spawn(1)[0]
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(2**32, size=4, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**32, size=4, dtype=np.uint32)
    else:
        return np.random.SeedSequence(whole_number(random_state, "random_state", least=0))
    return np.random.SeedSequence([int(word) for word in words])
