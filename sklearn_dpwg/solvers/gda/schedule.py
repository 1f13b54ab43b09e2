"""Public numbers of the descent–ascent solver."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.solvers.group_player import shown


@dataclass(frozen=True)
class GDASchedule:
    """Everything that `GDA.run` needs besides the records and the noise."""

    n_steps: int  # number of steps T
    gradient_multiplier: float  # noise per unit of sensitivity of the gradient
    # Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    ceiling: float  # a record's loss counts for at most this much in the group risks
    # a record of group i moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    grid: SumGrid  # blocks and steps of the sums
    prior: tuple[float, ...]  # first group weights π
    weight_ridge: float  # strengths ρ_w and ρ_λ of the public regularisers
    group_ridge: float
    # whether steps are `1/(ρ t)` and noise is the same for all groups and group weights, as if
    # every group were as small as the smallest
    is_paper: bool
    group_step: float  # step length of the group weights; 0 where steps are `1/(ρ t)`
    aim: float  # norm of the weights that step sizes are planned for
    step_size: float  # limits of the weights' steps; see `HeavyBall`
    longest_step: float
    max_momentum: float
    step_share: float
    first_averaged: int  # which of the points 1, ..., T + 1 are averaged, both included
    last_averaged: int
    # says, where rows are taken relative to a released centre, how far slopes are limited
    centring: str = ""
    remark: str = ""  # what else a reader of the plan should know

    __repr__ = short_repr

    @property
    def averaged(self) -> range:
        """The points that are averaged."""
        return range(self.first_averaged, self.last_averaged + 1)

    @property
    def is_centred(self) -> bool:
        """Whether rows are taken relative to a released centre, with limited slopes."""
        return bool(self.centring)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"both players move at once, average of points {self.first_averaged:,} to "
            f"{self.last_averaged:,} of {self.n_steps + 1:,}, one pass over the rows a step",
            f"steps 1/(rho t) with rho = {self.weight_ridge:.3g}"
            if self.is_paper
            else f"step sizes at most {self.longest_step:.3g}, momentum at most "
            f"{self.max_momentum:.2g}, aimed at weights of norm {self.aim:.3g}",
        ]
        if self.centring:
            lines.append(self.centring)
        if self.weight_ridge or self.group_ridge:
            lines.append(
                f"regularised by {self.weight_ridge:.3g}/2 |w - w1|^2 and "
                f"-{self.group_ridge:.3g}/2 |lambda - prior|^2, which are public"
            )
        if len(self.prior) > 1:
            of_groups = "" if self.is_paper else f", move by {self.group_step:.3g} times the risks"
            lines.append(
                f"group weights start at {shown(self.prior)}{of_groups}, losses counted up to "
                f"{self.ceiling:.3g}"
            )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)
