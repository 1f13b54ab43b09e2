"""Parameters of the solver with active group selection, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn_dpwg._checks import Rules, any_number, one_of, positive, share, whole


@dataclass(eq=False, repr=False)
class AGSParameters:
    """Parameters of `AGS`, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    selection: Literal["smoothed", "latest"] = "smoothed"
    visits: int | None = None
    schedule: Literal["planned", "paper"] = "planned"
    sharpness: float | None = None
    risk_share: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    step_size: float | None = None
    averaging: float = 2 / 3
    max_passes: int = 150


RULES = Rules(
    "AGS",
    n_steps=whole(or_none=True),
    visits=whole(or_none=True),
    max_passes=whole(),
    selection=one_of("smoothed", "latest"),
    schedule=one_of("planned", "paper"),
    sharpness=positive(or_infinite=True, or_none=True),
    risk_share=share(or_none=True),
    loss_ceiling=any_number(or_none=True),
    aim=positive(),
    step_size=positive(or_none=True),
    averaging=share(or_all=True),
)
