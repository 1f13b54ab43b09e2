"""Public numbers of the multiplicative group reweighting solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.group_player import shown
from sklearn_dpwg.solvers.mgr.batches import Batches
from sklearn_dpwg.solvers.sum_sensitivity import on_step

# Where the ceiling may be raised, every so many steps try it.
PROBE_EVERY = 10


@dataclass(frozen=True)
class MGRSchedule:
    """Everything that `MGR.run` needs besides the records and the noise."""

    # gradient of the weighted sum of group risks, or of one group drawn from the weights
    step: Literal["weighted", "sampled"]
    n_steps: int  # number of steps T
    # noise per unit of sensitivity of the two releases of a full pass; 0 where there is none
    gradient_multiplier: float
    risk_multiplier: float
    # Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    ceiling: float  # a record's loss counts for at most this much in the group risks
    # a record of group i moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    grid: SumGrid  # blocks and steps of the sums
    prior: tuple[float, ...]  # first group weights
    group_rate: float  # step size η_λ of the multiplicative weights
    # subtracted from each group's exponent at every step: half of log E exp(η_λ N) of the noise N
    # on its risk (0 in the paper's schedule)
    noise_correction: tuple[float, ...]
    aim: float  # norm of the weights that step sizes are planned for; 0 where `step_size` is fixed
    # longest plain step that is safe for every data set: 1/H where planned, `aim/(L √T)` for a loss
    # that is not smooth
    step_size: float
    # longest plain step that is tried; where it is longer than `step_size`, `HeavyBall` shortens it
    # as released gradients ask for
    longest_step: float
    max_momentum: float  # largest heavy-ball momentum
    # how many of the last iterates are averaged; with one more than there are steps the first
    # weights, before any step, are one of them
    averaged: int
    # who joins a step and with how much noise; by default a step reads every record
    batches: Batches | None = None
    # length of a planned step, as a share of `aim/(s √T)` for a coordinate's noise s
    step_share: float = 0.18
    # whether group weights follow the spread of the released risks and pay for noise
    # (`GroupWeights`), in place of `group_rate` and `noise_correction`
    adapts: bool = False
    assumed_spread: float = 0.0  # standard deviation of the group risks that planning assumes
    # what a group player that adapts pays for a unit of noise on the mean gradient
    noise_price: float = 0.0
    # losses count up to this multiple of the mean released loss, where that is below `ceiling`
    # (`LossLevel`)
    ceiling_of_level: float = math.inf
    # where above `ceiling` and `feedback_range`, every tenth step counts losses up to this, and all
    # of them do once that shows a group that the ceiling hides (`HiddenLosses`)
    raised_ceiling: float = 0.0
    raised_range: float = 0.0
    # whether the averaged weights shrink towards 0 as far as released risks ask for it
    # (`Shrinkage`)
    shrinks: bool = False
    # says, where rows are taken relative to a released centre, how far slopes are limited
    centring: str = ""
    remark: str = ""  # what else a reader of the plan should know
    # where groups are hidden, the infimum of losses: risks are released relative to the middle
    # between it and the ceiling
    lowest_loss: float | None = None
    # where groups are hidden, which are told from empty ones; the others count as doing like all
    heard: tuple[bool, ...] = ()
    # where groups are hidden, the standard deviation of a size over what stands for it
    ratio_stds: tuple[float, ...] = ()

    __repr__ = short_repr

    @property
    def follows_level(self) -> bool:
        """Whether the ceiling of losses follows the level of the released ones."""
        return math.isfinite(self.ceiling_of_level)

    @property
    def may_raise(self) -> bool:
        """Whether the ceiling of losses is raised where it hides a group."""
        return self.raised_ceiling > self.ceiling

    @property
    def is_centred(self) -> bool:
        """Whether rows are taken relative to a released centre, with limited slopes."""
        return bool(self.centring)

    def center_of(self, ceiling: float) -> float:
        """Return what losses up to a ceiling are taken relative to: 0 where groups are public."""
        if self.lowest_loss is None:
            return 0.0
        middle = self.lowest_loss + (ceiling - self.lowest_loss) / 2.0
        return on_step(middle, self.grid.loss_step)

    def gradient_noise(self, problem: Problem) -> FloatArray:
        """Return the noise on a coordinate of the run's mean gradient, all weight on one group."""
        if self.batches is not None:
            return self.batches.gradient_stds / math.sqrt(self.n_steps)
        of_sum = self.gradient_multiplier * self.gradient_diameter / math.sqrt(self.n_steps)
        return of_sum / np.asarray(problem.group_sizes, dtype=float)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.step} step, average of "
            + (
                f"the last {self.averaged:,} of {self.n_steps:,} iterates, "
                if self.averaged <= self.n_steps
                else f"the start and all {self.n_steps:,} iterates, "
            )
            + ("one pass over the rows each" if self.batches is None else "one batch each"),
            f"step sizes at most {self.longest_step:.3g}, momentum at most {self.max_momentum:.2g}"
            + (f", aimed at weights of norm {self.aim:.3g}" if self.aim else ""),
        ]
        if self.centring:
            lines.append(self.centring)
        if self.batches is not None:
            lines.append(str(self.batches))
        if len(self.prior) > 1:
            lines.append(
                f"group weights start at {shown(self.prior)}, rate {self.group_rate:.3g}"
                f"{' at first' if self.adapts else ''}, losses counted up to {self.ceiling:.3g}"
            )
            if self.adapts:
                lines.append(
                    "the rate follows the spread of released risks, and weight on a group has "
                    "to make up for its noise"
                )
            if self.follows_level:
                lines.append(
                    f"losses counted up to {self.ceiling_of_level:g} times their mean, where that "
                    "is less"
                )
            if self.may_raise:
                lines.append(
                    f"every {PROBE_EVERY}th step counts losses up to {self.raised_ceiling:.3g}, "
                    "and all do once that shows a group to be worse off than it looked"
                )
            if self.shrinks:
                lines.append(
                    "up to half of the average is taken back, if the worst-off group gained less "
                    "than the others"
                )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)
