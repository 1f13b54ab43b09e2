"""Checks that the generators share: one sentence for each wrong input."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any


def check_count(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return a whole number within limits."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name}={value!r} must be a whole number {limits}.")
    return int(value)


def check_number(value: Any, name: str, least: float, most: float = math.inf) -> float:
    """Return a finite number within limits."""
    if not _is_finite(value) or not least <= value <= most:
        limits = f"at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"
        raise ValueError(f"{name}={value!r} must be a finite number {limits}.")
    return float(value)


def check_positive(value: Any, name: str, most: float = math.inf) -> float:
    """Return a finite number above zero."""
    if not _is_finite(value) or not 0 < value <= most:
        limits = "above 0" if most == math.inf else f"above 0 and at most {most:g}"
        raise ValueError(f"{name}={value!r} must be a finite number {limits}.")
    return float(value)


def check_group_sizes(group_sizes: int | Sequence[int], n_groups: int) -> list[int]:
    """Return one positive size for each group."""
    if isinstance(group_sizes, (int, numbers.Integral)):
        return [check_count(group_sizes, "group_sizes", 1)] * n_groups
    sizes = [check_count(size, "group_sizes", 1) for size in group_sizes]
    if len(sizes) != n_groups:
        raise ValueError(f"group_sizes has {len(sizes)} entries, but there are {n_groups} groups.")
    return sizes


def _is_finite(value: Any) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and math.isfinite(value)
