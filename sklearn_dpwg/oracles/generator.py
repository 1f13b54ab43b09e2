"""Records made on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.oracles.base import SampleOracle


class GeneratorOracle(SampleOracle):
    """Draws from a function that makes records, such as a simulator; it never runs dry.

    Parameters
    ----------
    generate : callable
        ``generate(group, size, rng)`` returns X and y of `size` new records of a group.
    random_state : int, Generator or None, default=None
        The generator that is handed to the function.

    Examples
    --------
    >>> from sklearn_dpwg.oracles import GeneratorOracle
    >>> def generate(group, size, rng):
    ...     X = rng.uniform(-1, 1, size=(size, 2))
    ...     return X, (X[:, 0] > (0.2 if group == "north" else -0.2)).astype(int)
    >>> X, y = GeneratorOracle(generate).draw("north", 5)
    >>> X.shape, y.shape
    ((5, 2), (5,))
    """

    def __init__(
        self,
        generate: Callable[[Hashable, int, np.random.Generator], tuple[Any, ArrayLike]],
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        if not callable(generate):
            raise TypeError(f"generate must be a function, got {generate!r}.")
        self._generate = generate
        self._rng = np.random.default_rng(random_state)

    def draw(self, group: Hashable, size: int) -> tuple[Any, ArrayLike]:
        return self._generate(group, size, self._rng)
