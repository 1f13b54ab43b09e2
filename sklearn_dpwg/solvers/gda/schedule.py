"""Public numbers of the descent–ascent solver."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.solvers.group_player import shown


@dataclass(frozen=True)
class GDASchedule:
    """Everything that `GDA.run` needs besides the records and the noise.

    Parameters
    ----------
    n_steps : int
        Number of steps T.
    gradient_multiplier : float
        Noise per unit of sensitivity of the gradient.
    gradient_diameter : float
        Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included.
    ceiling : float
        A record's loss counts for at most this much in the group risks.
    feedback_range : float
        A record of group i moves the sum of its group's losses by at most this, rounding included.
    grid : SumGrid
        Blocks and steps of the sums.
    prior : tuple of float
        First group weights π.
    weight_ridge, group_ridge : float
        Strengths ρ_w and ρ_λ of the public regularisers.
    is_paper : bool
        Whether steps are ``1/(ρ t)`` and noise is the same for all groups and group weights, as if
        every group were as small as the smallest.
    group_step : float
        Step length of the group weights; 0 where steps are ``1/(ρ t)``.
    aim : float
        Norm of the weights that step sizes are planned for.
    step_size, longest_step, max_momentum, step_share : float
        Limits of the weights' steps; see `HeavyBall`.
    first_averaged, last_averaged : int
        Which of the points 1, ..., T + 1 are averaged, both included.
    centring : str, default=""
        Says, where rows are taken relative to a released centre, how far slopes are limited.
    remark : str, default=""
        What else a reader of the plan should know.
    """

    n_steps: int
    gradient_multiplier: float
    gradient_diameter: float
    ceiling: float
    feedback_range: float
    grid: SumGrid
    prior: tuple[float, ...]
    weight_ridge: float
    group_ridge: float
    is_paper: bool
    group_step: float
    aim: float
    step_size: float
    longest_step: float
    max_momentum: float
    step_share: float
    first_averaged: int
    last_averaged: int
    centring: str = ""
    remark: str = ""

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
