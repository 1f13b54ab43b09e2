"""Parameters of the descent–ascent solver, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn_dpwg._checks import (
    Rules,
    any_number,
    at_least_zero,
    flag,
    one_of,
    positive,
    share,
    whole,
)


@dataclass(eq=False, repr=False)
class GDAParameters:
    """Parameters of `GDA`, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    weight_ridge: float | None = None
    group_ridge: float | None = None
    risk_share: float | None = None
    group_step: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    averaging: float = 2 / 3
    max_passes: int = 150
    centring: bool | None = None


def _paper_is_as_written(parameters: GDAParameters) -> None:
    """Refuse what the paper's schedule fixes."""
    if parameters.schedule != "paper":
        return
    for name in ("risk_share", "group_step", "loss_ceiling", "centring"):
        value = getattr(parameters, name)
        if value is not None and value is not False:
            raise ValueError(
                f"{name} of GDA must be None with schedule='paper', which fixes it, got {value!r}."
            )
    both = parameters.weight_ridge, parameters.group_ridge
    if both[0] is not None and both[1] is not None and both[0] != both[1]:
        raise ValueError(
            f"weight_ridge and group_ridge of GDA must be the same with schedule='paper', which "
            f"has one strength for both players, got {both[0]!r} and {both[1]!r}."
        )
    if 0.0 in both:
        raise ValueError(
            f"weight_ridge and group_ridge of GDA must be positive with schedule='paper', whose "
            f"steps are 1/(ridge t), got {both[0]!r} and {both[1]!r}."
        )


RULES = Rules(
    "GDA",
    _paper_is_as_written,
    n_steps=whole(or_none=True),
    max_passes=whole(),
    weight_ridge=at_least_zero(or_none=True),
    group_ridge=at_least_zero(or_none=True),
    group_step=positive(or_none=True),
    aim=positive(),
    risk_share=share(or_none=True),
    averaging=share(or_all=True),
    loss_ceiling=any_number(or_none=True),
    centring=flag(or_none=True),
    schedule=one_of("planned", "paper"),
)
