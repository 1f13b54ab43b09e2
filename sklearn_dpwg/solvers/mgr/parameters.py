"""Parameters of the multiplicative group reweighting solver, and what each may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn_dpwg._checks import Rules, any_number, flag, one_of, positive, share, whole


@dataclass(eq=False, repr=False)
class MGRParameters:
    """Parameters of `MGR`, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    risk_share: float | None = None
    group_rate: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    step_size: float | None = None
    averaging: float = 2 / 3
    max_passes: int = 150
    max_seconds: float | None = None
    sampling_rate: float | Sequence[float] | None = None
    centring: bool | None = None


def _paper_reads_all(parameters: MGRParameters) -> None:
    """Refuse batches and limits on time for the paper's schedule."""
    rate, limit = parameters.sampling_rate, parameters.max_seconds
    if parameters.schedule == "paper" and (rate is not None or limit is not None):
        raise ValueError(
            "sampling_rate and max_seconds of MGR must be None with schedule='paper', whose steps "
            f"read all records, got {rate!r} and {limit!r}."
        )


RULES = Rules(
    "MGR",
    _paper_reads_all,
    n_steps=whole(or_none=True),
    max_passes=whole(),
    group_rate=positive(or_none=True),
    aim=positive(),
    step_size=positive(or_none=True),
    max_seconds=positive(or_none=True),
    risk_share=share(or_none=True),
    averaging=share(or_all=True),
    loss_ceiling=any_number(or_none=True),
    centring=flag(or_none=True),
    schedule=one_of("planned", "paper"),
)
