"""Parameters of the moments solver, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from sklearn_dpwg._checks import Rules, at_least_zero, positive, whole


@dataclass(eq=False, repr=False)
class MomentsParameters:
    """Parameters of `Moments`, which documents them."""

    n_rounds: int = 3
    _: KW_ONLY
    growth: float = 2.0
    clip: float = 2.0
    ridge: float = 0.25
    smoothing: float = 3.0
    aim: float = 0.3


RULES = Rules(
    "Moments",
    n_rounds=whole(1, 20),
    growth=positive(),
    clip=positive(),
    aim=positive(),
    ridge=at_least_zero(),
    smoothing=at_least_zero(),
)
