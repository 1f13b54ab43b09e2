"""Checks of counts that carry noise."""

from __future__ import annotations

import operator

from sklearn_dpwg._checks import whole_number

# Sums of so large counts, times 20, are still far from the largest integer.
_LARGEST_COUNT = 10**15


def signed_count(value: object, name: str) -> int:
    """Return a value as int if it is a whole number, of either sign."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}.") from None
    if abs(number) > _LARGEST_COUNT:
        raise ValueError(f"{name} must be at most {_LARGEST_COUNT:g} in size, got {number}.")
    return number


def cell_pair(value: object) -> tuple[int, int]:
    """Return how many cells were summed into hits and into misses."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(
            f"n_cells must be two whole numbers, of hits and of misses, got {value!r}."
        )
    first, second = (whole_number(number, "n_cells", least=1) for number in value)
    return first, second
