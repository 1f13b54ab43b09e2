"""Checks of what is handed to the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._typing import FloatArray

# Pays for the rounding of the division by the sensitivities, for quotients up to 2²⁸; whoever plans
# a per-coordinate release refuses public facts that allow for more.
UNIT_SENSITIVITY = 1.0 + 2.0**-24
LARGEST_QUOTIENT = 2.0**28

# Beyond it a sum with noise could leave the range of 64 bits.
LARGEST_INTEGER = 2.0**61


def check_value(values: FloatArray) -> None:
    """Refuse an empty value, and one that is not finite."""
    if values.size == 0:
        raise ValueError("value must have at least one entry.")
    if not np.isfinite(values).all():
        raise ValueError("value must be finite, got NaN or infinity.")


def check_integers(counts: ArrayLike) -> NDArray[np.int64]:
    """Return whole numbers as an array, empty ones and those that are none refused."""
    values = np.asarray(counts)
    if values.dtype.kind not in "iu":
        raise TypeError(f"counts must be whole numbers, got {values.dtype}.")
    if values.size == 0:
        raise ValueError("counts must have at least one entry.")
    if abs(float(values.max())) + abs(float(values.min())) > LARGEST_INTEGER:
        raise ValueError(f"counts must be within {LARGEST_INTEGER:.3g}, got {values.max()!r}.")
    return values.astype(np.int64)


def are_positive(numbers: FloatArray) -> bool:
    """Whether all numbers are positive and finite."""
    return bool(((numbers > 0.0) & (numbers < np.inf)).all())


def check_sensitivity(bounds: FloatArray, shape: tuple[int, ...]) -> None:
    """Refuse sensitivities that are not finite or do not have the shape of the value."""
    if bounds.ndim == 0:
        if not 0.0 < bounds < np.inf:
            raise ValueError(f"sensitivity must be positive and finite, got {float(bounds)!r}.")
        return
    if bounds.shape != shape:
        raise ValueError(
            f"sensitivity must be a number or have the shape of the value, {shape}, "
            f"got shape {bounds.shape}."
        )
    if not ((bounds >= 0.0) & (bounds < np.inf)).all():
        raise ValueError(f"sensitivity must be at least 0 and finite everywhere, got {bounds!r}.")
