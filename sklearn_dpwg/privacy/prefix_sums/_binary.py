"""Arithmetic on the binary digits of the steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray


def sums_over_bits(n_steps: int, values: FloatArray) -> FloatArray:
    """Return, for every step from 1 on, the sum of the values at its binary ones."""
    sums = np.zeros(2 ** n_steps.bit_length())
    for digit, value in enumerate(values):
        sums[2**digit : 2 ** (digit + 1)] = sums[: 2**digit] + value
    return sums[1 : n_steps + 1]


def trailing_zeros(n_steps: int) -> NDArray[np.int64]:
    """Return, for every step from 1 on, how often two divides it."""
    steps = np.arange(1, n_steps + 1, dtype=np.int64)
    # frexp is exact where a logarithm may round
    return np.frexp((steps & -steps).astype(np.float64))[1].astype(np.int64) - 1
