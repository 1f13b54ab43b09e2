"""Parameters of the online-to-batch solver, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn_dpwg._checks import Rules, accepted_by, key_of, one_of, positive, whole, within
from sklearn_dpwg.learners import Learner, ParameterFree, make_learner
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS


@dataclass(eq=False, repr=False)
class OnlineToBatchParameters:
    """Parameters of `OnlineToBatch`, which documents them; ``None`` means planned."""

    learner: str | Learner = "optimistic"
    _: KW_ONLY
    power: float | None = None
    noise: str | None = None
    n_rounds: int | None = None
    batch_size: int | None = None
    schedule: Literal["planned", "paper"] = "planned"
    convexity: float = 0.0
    aim: float = 0.4
    max_rounds: int = 256
    horizon: int = 10

    @property
    def mechanism(self) -> str:
        """Name of the prefix-sum mechanism; the paper's is the tree."""
        if self.noise is not None:
            return self.noise
        return "tree" if self.schedule == "paper" else "toeplitz"

    @property
    def exponent(self) -> float:
        """Power k of the rounds' weights t^k; the paper's is 3 for parameter-free learners."""
        if self.power is not None:
            return float(self.power)
        papers = self.schedule == "paper" and isinstance(make_learner(self.learner), ParameterFree)
        return 3.0 if papers else 1.0


RULES = Rules(
    "OnlineToBatch",
    n_rounds=whole(or_none=True),
    batch_size=whole(or_none=True),
    horizon=whole(),
    max_rounds=whole(),
    aim=positive(),
    power=within(0.0, 10.0, or_none=True),
    convexity=within(0.0, 1e100),
    schedule=one_of("planned", "paper"),
    noise=key_of(PREFIX_SUMS, or_none=True),
    learner=accepted_by(make_learner),
)
