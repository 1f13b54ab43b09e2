"""Checks of what is handed to the noise."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray


def check_value(values: FloatArray) -> None:
    """Refuse an empty value, and one that is not finite."""
    if values.size == 0:
        raise ValueError("value must have at least one entry.")
    if not np.isfinite(values).all():
        raise ValueError("value must be finite, got NaN or infinity.")


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
