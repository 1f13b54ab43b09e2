"""Checks of plain numbers, each with one sentence that says what is allowed."""

from __future__ import annotations

import math
import operator


def real_number(value: object, name: str) -> float:
    """Return a value as float, NaN refused."""
    if isinstance(value, bool | str | bytes):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}.") from None
    if math.isnan(number):
        raise ValueError(f"{name} must be a number, got NaN.")
    return number


def positive_finite(value: object, name: str) -> float:
    """Return a value as float if it is positive and finite."""
    number = real_number(value, name)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {number!r}.")
    return number


def open_unit(value: object, name: str) -> float:
    """Return a value as float if it is strictly between 0 and 1."""
    number = real_number(value, name)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be strictly between 0 and 1, got {number!r}.")
    return number


def non_negative(value: object, name: str) -> float:
    """Return a value as float if it is at least 0; it may be infinite."""
    number = real_number(value, name)
    if number < 0.0:
        raise ValueError(f"{name} must be at least 0, got {number!r}.")
    return number


def whole_number(value: object, name: str, *, least: int) -> int:
    """Return a value as int if it is a whole number and large enough."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}.") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}.")
    return number


def non_empty_string(value: object, name: str) -> str:
    """Return a value if it is a string with something in it."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty string, got {value!r}.")
    return value
