"""Parameters of the phased solver, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn_dpwg._checks import Rules, flag, one_of, positive, share, whole, within

# Below it the noise overflows, whatever the records are.
_WEAKEST = 1e-30

# Strengths that grow tenfold stay squarable so long; planning takes the square of the phases.
MOST_PHASES = 128


@dataclass(eq=False, repr=False)
class PhasedERMParameters:
    """Parameters of `PhasedERM`, which documents them; ``None`` means planned."""

    n_phases: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    mu_weights: float | None = None
    sharpening: float | None = None
    mu_groups: float | None = None
    risk_share: float | None = None
    averaging: float | None = None
    aim: float = 0.3
    smoothing_width: float | None = None
    max_passes: int = 300
    centring: bool | None = None


def _not_too_many(parameters: PhasedERMParameters) -> None:
    """Refuse more phases than can be planned."""
    if (parameters.n_phases or 1) > MOST_PHASES:
        raise ValueError(
            f"n_phases of PhasedERM must be at most {MOST_PHASES}, got {parameters.n_phases}."
        )


def _paper_sets_the_rest(parameters: PhasedERMParameters) -> None:
    """Refuse what the paper's schedule sets itself."""
    if parameters.schedule != "paper":
        return
    for name in ("n_phases", "mu_weights", "sharpening", "mu_groups", "risk_share", "averaging"):
        value = getattr(parameters, name)
        if value is not None:
            raise ValueError(
                f"{name} of PhasedERM must be None with schedule='paper', which sets it, got "
                f"{value!r}."
            )


RULES = Rules(
    "PhasedERM",
    _paper_sets_the_rest,
    _not_too_many,
    schedule=one_of("planned", "paper"),
    centring=flag(or_none=True),
    n_phases=whole(or_none=True),
    max_passes=whole(),
    mu_weights=positive(least=_WEAKEST, or_none=True),
    aim=positive(),
    smoothing_width=positive(or_none=True),
    mu_groups=positive(least=_WEAKEST, or_infinite=True, or_none=True),
    risk_share=share(or_none=True),
    averaging=share(or_all=True, or_none=True),
    sharpening=within(1.0, 10.0, or_none=True),
)
