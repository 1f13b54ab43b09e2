"""Checks of public counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def positive_whole(value: Any, name: str) -> int:
    """Return a positive whole number.

    Parameters
    ----------
    value : int
        The number.
    name : str
        What to call it in an error.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def group_size(value: Any) -> Any:
    """Return the size of a group.

    Parameters
    ----------
    value : int or float
        A positive whole number, or infinity for a group without end.

    Returns
    -------
    int or float
        The size.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return positive_whole(value, "an entry of group_sizes")
