"""Checks of plain numbers, each with one sentence that says what is allowed."""

from __future__ import annotations

import math
import operator

import numpy as np
from numpy.typing import ArrayLike, NDArray


def positive(value: float, name: str) -> float:
    """Return a number if it is positive and finite."""
    number = float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}.")
    return number


def whole(value: int, name: str) -> int:
    """Return a whole number if it is at least 1."""
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}.")
    return number


def rate_of(value: float) -> float:
    """Return the rate of a group player if it is at least 0 and finite."""
    number = float(value)
    if not 0.0 <= number < math.inf:
        raise ValueError(f"rate must be at least 0 and finite, got {value!r}.")
    return number


def prior_of(value: ArrayLike) -> NDArray[np.float64]:
    """Return prior weights, made to add up to 1, if all are positive."""
    prior = np.array(value, dtype=np.float64)
    if prior.ndim != 1 or prior.size == 0:
        raise ValueError(f"prior must have one entry a group, got shape {prior.shape}.")
    if not ((prior > 0.0) & (prior < np.inf)).all():
        raise ValueError(f"prior must be positive and finite everywhere, got {prior!r}.")
    return prior / prior.sum()
