"""Public numbers of the solver with active group selection."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.solvers.group_player import shown


@dataclass(frozen=True)
class AGSSchedule:
    """Everything that `AGS.run` needs besides the records and the noise."""

    n_steps: int  # steps T
    visits: int  # V: a group is taken in at most so many steps
    # the mean of the released risks runs over about so many steps; 1 for the last ones alone
    memory: int
    # θ: a group of prior weight π_i is handicapped by `log(1/π_i)/θ`; infinity, by nothing
    sharpness: float
    prior: tuple[float, ...]  # π
    # noise per unit of sensitivity of the two releases; 0 where there is none
    gradient_multiplier: float
    risk_multiplier: float
    # Γ: a record of the taken group i moves the gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    ceiling: float  # a record's loss counts for at most this much in the group risks
    # a record moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    grid: SumGrid  # blocks and steps of the sums
    # distance from the first weights that step sizes are planned for; 0 where they are fixed
    aim: float
    step_size: float  # longest plain step
    longest_step: float
    max_momentum: float  # largest heavy-ball momentum
    averaged: int  # how many of the last iterates are averaged
    # length of a planned step, as a share of `aim/(s √T)` for a coordinate's noise s
    step_share: float
    remark: str = ""  # what else a reader of the plan should know

    __repr__ = short_repr

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"average of the last {self.averaged:,} of {self.n_steps:,} iterates, one pass over "
            "the rows each",
            f"step sizes at most {self.longest_step:.3g}, momentum at most {self.max_momentum:.2g}"
            + (f", aimed at weights {self.aim:.3g} from the first" if self.aim else ""),
        ]
        if len(self.prior) > 1:
            heard = "the last" if self.memory == 1 else f"a running mean of {self.memory:,}"
            handicap = (
                ""
                if math.isinf(self.sharpness)
                else f", handicapped by log(1/prior)/{self.sharpness:.3g} for prior weights "
                f"{shown(self.prior)}"
            )
            lines.append(
                f"each step takes the group whose risk is the largest by {heard} released"
                f"{handicap}; losses counted up to {self.ceiling:.3g}"
            )
            if self.visits < self.n_steps:
                lines.append(f"no group is taken more than {self.visits:,} times")
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)
