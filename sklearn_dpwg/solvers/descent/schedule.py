"""Public numbers of noisy descent: what runs of MGR, AGS and GDA need besides records and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.steps import StepLimits, shown
from sklearn_dpwg.solvers.sums import on_step

# Where the ceiling may be raised, every so many steps try it.
PROBE_EVERY = 10


@dataclass(frozen=True, kw_only=True, repr=False)
class DescentSchedule(StepLimits):
    """What every run of the family needs besides the records and the noise."""

    averaged: int  # how many of the last iterates are averaged
    # Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    ceiling: float  # a record's loss counts for at most this much in the group risks
    # b: a record moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    grid: SumGrid  # blocks and steps of the sums
    prior: tuple[float, ...]  # π, of the groups
    # says, where rows are taken relative to a released centre, how far slopes are limited
    centring: str = ""
    remark: str = ""  # what else a reader of the plan should know

    def _in_words(self, averaged: str, *of_solver: str, steps: str = "") -> str:
        """Return lines for people: what is averaged, steps, centring, what a solver has to say."""
        limits = (
            f"step sizes at most {self.longest_step:.3g}, momentum at most {self.max_momentum:.2g}"
            + (f", aimed at weights of norm {self.aim:.3g}" if self.aim else "")
        )
        lines = (averaged, steps or limits, self.centring, *of_solver, self.remark)
        return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class Batches:
    """Who may join a step, and how large its noise is; an entry a group.

    A step releases the weighted gradient and all group risks of one batch together, with noise of
    standard deviation ``max_i z_i Δ_i λ_i/(q_i n_i) / √(1-ρ)`` and ``z_i b/(q_i n_i) / √ρ``. In
    units of these a record of group i counts for at most 1/z_i: docs/theory/mgr.md, section 8.
    """

    group_sizes: tuple[int, ...]  # number of records n_i
    # probability q_i with which each record joins a step; 1 for a group read in full
    rates: tuple[float, ...]
    parts: tuple[int, ...]  # which of the plan's releases the records of the group pay for
    multipliers: tuple[float, ...]  # noise multiplier z_i of that release
    # Δ_i, what the noise on gradients counts a record for: 2L where records are sampled, Γ where
    # all are read; with what rounding adds
    gradient_bounds: tuple[float, ...]
    # range b of the losses that the group risks count, with what rounding adds
    feedback_range: float
    center: float  # the middle of that range: what the risk of a group is where no record joins
    # what dividing and weighting sums in floating point adds to Δ, in units of the noise
    rounding: float
    # share ρ of the squared sensitivity that the group risks may use; 0 with one group
    risk_share: float
    # root of the mean squared norm of a record's gradient that step sizes are planned for
    gradient_spread: float

    @property
    def expected_sizes(self) -> FloatArray:
        """Expected number of records that join from each group; public, and what divides sums."""
        return np.asarray(self.rates) * np.asarray(self.group_sizes)

    @property
    def gradient_stds(self) -> FloatArray:
        """Noise on the gradient that each group needs if all weight is on it."""
        bounds = np.asarray(self.multipliers) * np.asarray(self.gradient_bounds)
        return np.asarray(bounds / self.expected_sizes / np.sqrt(1.0 - self.risk_share))

    @property
    def risk_stds(self) -> FloatArray:
        """Noise on the risk of each group; empty with one group."""
        if self.risk_share == 0.0:
            return np.zeros(0)
        bounds = np.asarray(self.multipliers) * self.feedback_range
        return np.asarray(bounds / self.expected_sizes / np.sqrt(self.risk_share))

    @property
    def risk_variances(self) -> FloatArray:
        """Variance of a group's risk from noise and coins, which is at most (b/2)² (1-q)/(q n)."""
        if self.risk_share == 0.0:
            return np.zeros(0)
        coins = (1.0 - np.asarray(self.rates)) / self.expected_sizes
        return np.asarray(self.risk_stds**2 + (self.feedback_range / 2.0) ** 2 * coins)

    @property
    def sampling_variances(self) -> FloatArray:
        """Variance of each group's gradient from the coins, summed over coordinates, as planned."""
        return self.gradient_spread**2 * (1.0 - np.asarray(self.rates)) / self.expected_sizes

    def log_mean_exp_of_coins(self, group_rate: float) -> FloatArray:
        """Return a bound on log E exp(η_λ S) of what the coins add to each group's risk.

        It is ``q_i n_i (exp(x_i) - 1 - x_i)`` with ``x_i = η_λ b / (2 q_i n_i)``; 0 where all join.
        """
        expected = self.expected_sizes
        most = group_rate * self.feedback_range / (2.0 * expected)
        bounds = expected * (np.expm1(np.minimum(most, 700.0)) - most)
        return np.where(np.asarray(self.rates) < 1.0, bounds, 0.0)

    def gradient_std(self, coefficients: FloatArray) -> float:
        """Return the noise on a sum of the groups' gradients: that of the group needing most."""
        return (coefficients * self.gradient_stds).max()

    def step_std(self, group_weights: FloatArray, *, n_weights: int) -> float:
        """Return the deviation of a gradient's coordinate that a step size is chosen for.

        Its square is the noise's variance plus the coins' variance over d.
        """
        coins = group_weights**2 @ self.sampling_variances
        variance = self.gradient_std(group_weights) ** 2 + coins / n_weights
        return float(np.sqrt(variance))

    def __str__(self) -> str:
        """Return a line for people."""
        sampled = sorted({rate for rate in self.rates if rate < 1.0}, reverse=True)
        shown = ", ".join(f"{rate:.3g}" for rate in sampled[:6]) + (", ..." if sampled[6:] else "")
        n_full = sum(rate == 1.0 for rate in self.rates)
        full = f", {n_full} group(s) read in full" if n_full else ""
        return (
            f"Poisson batches of about {self.expected_sizes.sum():,.0f} of "
            f"{sum(self.group_sizes):,} records, each joining with probability {shown}{full}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class MGRSchedule(DescentSchedule):
    """Everything that `MGR.run` needs besides the records and the noise.

    With one more in `averaged` than there are steps, the first weights are averaged too.
    """

    # gradient of the weighted sum of group risks, or of one group drawn from the weights
    step: Literal["weighted", "sampled"]
    # step size η_λ of the multiplicative weights; where they adapt, what planning takes it to be
    group_rate: float
    # subtracted from each group's exponent at every step: half of log E exp(η_λ N) of the noise N
    # on its risk; empty where group weights adapt, and 0 in the paper's schedule
    noise_correction: tuple[float, ...] = ()
    # who joins a step and with how much noise; by default a step reads every record
    batches: Batches | None = None
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
    # of them do once that shows a group that the ceiling hides (`RaisedCeiling`)
    raised_ceiling: float = 0.0
    raised_range: float = 0.0
    # whether the averaged weights shrink towards 0 as far as released risks ask for it
    # (`Shrinkage`)
    shrinks: bool = False
    # where groups are hidden: the infimum of losses, as risks are released relative to the middle
    # between it and the ceiling; which groups are told from empty ones, as the others count as
    # doing like all; and the standard deviation of a size over what stands for it
    lowest_loss: float | None = None
    heard: tuple[bool, ...] = ()
    ratio_stds: tuple[float, ...] = ()

    @property
    def follows_level(self) -> bool:
        """Whether the ceiling of losses follows the level of the released ones."""
        return math.isfinite(self.ceiling_of_level)

    @property
    def may_raise(self) -> bool:
        """Whether the ceiling of losses is raised where it hides a group."""
        return self.raised_ceiling > self.ceiling

    def center_of(self, ceiling: float) -> float:
        """Return what losses up to a ceiling are taken relative to: 0 where groups are public."""
        if self.lowest_loss is None:
            return 0.0
        middle = self.lowest_loss + (ceiling - self.lowest_loss) / 2.0
        return on_step(middle, self.grid.loss_step)

    def gradient_noise(self, plan: Plan) -> FloatArray:
        """Return the noise on a coordinate of the run's mean gradient, all weight on one group."""
        if self.batches is not None:
            return self.batches.gradient_stds / math.sqrt(self.n_steps)
        release = plan.releases[2 if self.centring else 0]
        of_sum = release.noise_multiplier * self.gradient_diameter / math.sqrt(self.n_steps)
        return of_sum / np.asarray(plan.problem.group_sizes, dtype=float)

    def __str__(self) -> str:
        """Return a few lines for people."""
        which = (
            f"the last {self.averaged:,} of {self.n_steps:,}"
            if self.averaged <= self.n_steps
            else f"the start and all {self.n_steps:,}"
        )
        read = "one pass over the rows each" if self.batches is None else "one batch each"
        return self._in_words(
            f"{self.step} step, average of {which} iterates, {read}",
            "" if self.batches is None else str(self.batches),
            *(self._of_groups() if len(self.prior) > 1 else ()),
        )

    def _of_groups(self) -> list[str]:
        """Say what the group weights and the ceiling of losses follow."""
        lines = [
            f"group weights start at {shown(self.prior)}, rate {self.group_rate:.3g}"
            f"{' at first' if self.adapts else ''}, losses counted up to {self.ceiling:.3g}"
        ]
        if self.adapts:
            lines.append(
                "the rate follows the spread of released risks, and weight on a group has to make "
                "up for its noise"
            )
        if self.follows_level:
            lines.append(
                f"losses counted up to {self.ceiling_of_level:g} times their mean, where that is "
                "less"
            )
        if self.may_raise:
            lines.append(
                f"every {PROBE_EVERY}th step counts losses up to {self.raised_ceiling:.3g}, and "
                "all do once that shows a group to be worse off than it looked"
            )
        if self.shrinks:
            lines.append(
                "up to half of the average is taken back, if the worst-off group gained less than "
                "the others"
            )
        return lines


@dataclass(frozen=True, kw_only=True, repr=False)
class AGSSchedule(DescentSchedule):
    """Everything that `AGS.run` needs besides the records and the noise."""

    visits: int  # V: a group is taken in at most so many steps
    # the mean of the released risks runs over about so many steps; 1 for the last ones alone
    memory: int
    # θ: a group of prior weight π_i is handicapped by `log(1/π_i)/θ`; infinity, by nothing
    sharpness: float

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = []
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
        return self._in_words(
            f"average of the last {self.averaged:,} of {self.n_steps:,} iterates, one pass over "
            "the rows each",
            *lines,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class GDASchedule(DescentSchedule):
    """Everything that `GDA.run` needs besides the records and the noise."""

    weight_ridge: float  # strengths ρ_w and ρ_λ of the public regularisers
    group_ridge: float
    # whether steps are `1/(ρ t)` and noise is the same for all groups and group weights, as if
    # every group were as small as the smallest
    is_paper: bool = False
    group_step: float = 0.0  # step length of the group weights; 0 where steps are `1/(ρ t)`

    @property
    def points(self) -> range:
        """Which of the points 1, ..., T + 1 are averaged: the last, or all but the last."""
        end = self.n_steps + (1 if self.is_paper else 2)
        return range(end - self.averaged, end)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = []
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
        return self._in_words(
            f"both players move at once, average of points {self.points[0]:,} to "
            f"{self.points[-1]:,} of {self.n_steps + 1:,}, one pass over the rows a step",
            *lines,
            steps=f"steps 1/(rho t) with rho = {self.weight_ridge:.3g}" if self.is_paper else "",
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class MixtureSteps(StepLimits):
    """What steps that answer for a fixed mixture need; `n_steps` are those of all calls."""

    steps_a_call: int
    averaged: int  # how many of a call's last iterates are averaged
    gradient_diameter: float  # Γ, rounding included
    ceiling: float
    grid: SumGrid

    def __str__(self) -> str:
        """Return a line for people."""
        answer = f"the average of the last {self.averaged:,}" if self.averaged > 1 else "the last"
        return (
            f"{self.steps_a_call:,} weighted step(s) a call, one pass each, at most "
            f"{self.longest_step:.3g} long, momentum at most {self.max_momentum:.2g}; the answer "
            f"is {answer}"
        )
