"""Parameters of the best-response solver, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from sklearn_dpwg._checks import Rules, accepted_by, share, whole
from sklearn_dpwg.solvers.mixture import MixtureSolver, as_mixture_solver


@dataclass(eq=False, repr=False)
class BestResponseParameters:
    """Parameters of `BestResponse`, which documents them; ``None`` means planned."""

    base: str | MixtureSolver = "phased-erm"
    _: KW_ONLY
    n_rounds: int | None = None
    risk_share: float | None = None


RULES = Rules(
    "BestResponse",
    lambda parameters: as_mixture_solver(parameters.base).check_mixture(),
    base=accepted_by(as_mixture_solver),
    n_rounds=whole(or_none=True),
    risk_share=share(or_none=True),
)
