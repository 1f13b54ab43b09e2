"""Parameters of the online solver, and what each may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sklearn_dpwg._checks import (
    Rules,
    accepted_by,
    any_number,
    key_of,
    one_of,
    positive,
    share,
    whole,
    within,
)
from sklearn_dpwg.learners import Learner, ParameterFree, make_learner
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS


@dataclass(eq=False, repr=False)
class OCOParameters:
    """Parameters of `OCO`, which documents them; ``None`` means planned."""

    learner: str | Learner = "ftrl"
    _: KW_ONLY
    play: Literal["weighted", "sampled"] = "weighted"
    noise: str | None = None
    n_rounds: int | None = None
    batch_size: int | None = None
    weight_share: float | None = None
    schedule: Literal["planned", "paper"] = "planned"
    group_rate: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.4
    averaging: float = 2.0
    max_rounds: int = 256
    horizon: int = 10

    @property
    def mechanism(self) -> str:
        """Name of the prefix-sum mechanism; the paper's is the tree."""
        if self.noise is not None:
            return self.noise
        return "tree" if self.schedule == "paper" else "toeplitz"


def _learner_has_a_strength(parameters: OCOParameters) -> None:
    """Refuse a learner that no regulariser holds, which the noise could not be planned for."""
    if isinstance(make_learner(parameters.learner), ParameterFree):
        raise ValueError(
            f"learner of OCO must be one that a strength regularises, such as 'ftrl', got "
            f"{parameters.learner!r}: OnlineToBatch takes it."
        )


RULES = Rules(
    "OCO",
    _learner_has_a_strength,
    n_rounds=whole(or_none=True),
    batch_size=whole(or_none=True),
    horizon=whole(),
    max_rounds=whole(),
    group_rate=positive(or_none=True),
    aim=positive(),
    weight_share=share(or_none=True),
    averaging=within(0.0, 100.0),
    loss_ceiling=any_number(or_none=True),
    play=one_of("weighted", "sampled"),
    schedule=one_of("planned", "paper"),
    noise=key_of(PREFIX_SUMS, or_none=True),
    learner=accepted_by(make_learner),
)
