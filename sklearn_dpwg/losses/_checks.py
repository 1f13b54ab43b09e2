"""What the parameters of losses may be."""

from __future__ import annotations

import math
from numbers import Real


def check_between(value: object, name: str, low: float, high: float = math.inf) -> None:
    """Refuse what is not a number strictly between two others."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number and low < float(value) < high:  # type: ignore[arg-type]
        return
    allowed = (
        "positive and finite" if math.isinf(high) else f"strictly between {low:g} and {high:g}"
    )
    raise ValueError(f"{name} must be {allowed}, got {value!r}.")
