"""Fits to oracles, whose order of records a public seed decides: the canary comes first."""

from __future__ import annotations

from sklearn_dpwg.data.oracles import GeneratorOracle, InMemoryOracle
from tests.audit.front_door.data import one_group, released
from tests.audit.front_door.fits import online

# The seed with which the canary comes in the first half.
MEMORY_SEED = 1


def from_oracle(oracle, size):
    """Learn in two rounds, of which the first is released, and the second for nothing."""
    model = online(n_rounds=2, batch_size=size // 2)
    model.fit_oracle(oracle, group_sizes={0: size}, n_features=2)
    return released(model), model.privacy_


def from_memory(canary):
    X, y, groups = one_group(canary)
    return from_oracle(InMemoryOracle(X, y, groups, random_state=MEMORY_SEED), 8)


def from_generator(canary):
    """Hand out a table piece by piece, which is a generator without any chance."""
    X, y, _ = one_group(canary)
    state = {"at": 0}

    def generate(group, size, rng):
        taken = slice(state["at"], state["at"] + size)
        state["at"] += size
        return X[taken], y[taken]

    return from_oracle(GeneratorOracle(generate), 8)
