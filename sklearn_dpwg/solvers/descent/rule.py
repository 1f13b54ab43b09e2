"""The rule of steps: parameters, limits and ceiling of a run, and the bound once noise is known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, Rules, any_number, flag, one_of, positive, share, whole
from sklearn_dpwg.data.problem import Cells, Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.solvers.centring import CentredProblem, SlopeLimit
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import (
    StepLimits,
    SumSensitivity,
    best_rate,
    loss_ceiling,
    risk_spread,
    shown,
)

# Public numbers of noisy descent: what runs of MGR, AGS and GDA need besides records and noise.


@dataclass(frozen=True, kw_only=True, repr=False)
class DescentSchedule(StepLimits):
    """What every run of the family needs besides the records and the noise."""

    # how many of the last iterates are averaged; with one more than steps, the first weights too
    averaged: int
    # Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    ceiling: float  # a record's loss counts for at most this much in the group risks
    # b: a record moves the sum of its group's losses by at most this, rounding included
    feedback_range: float
    prior: tuple[float, ...]  # π, of the groups
    # where rows are taken relative to a released centre: how far slopes are limited
    centring: SlopeLimit | None = None
    is_paper: bool = False  # whether it is that of the paper, which plays the game on the records
    remark: str = ""  # what else a reader of the plan should know

    @property
    def _averaged(self) -> str:
        """Say which iterates are averaged."""
        if self.averaged > self.n_steps:
            return f"the start and all {self.n_steps:,} iterates"
        return f"the last {self.averaged:,} of {self.n_steps:,} iterates"

    def _in_words(self, averaged: str, *of_solver: str, steps: str = "") -> str:
        """Return lines for people: what is averaged, steps, centring, what a solver has to say."""
        limits = (
            f"step sizes at most {self.longest_step:.3g}, momentum at most {self.max_momentum:.2g}"
            + (f", aimed at weights of norm {self.aim:.3g}" if self.aim else "")
        )
        centring = str(self.centring or "")
        lines = (averaged, steps or limits, centring, *of_solver, self.remark)
        return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class Batches:
    """Who may join a step, and how large its noise is.

    A step releases the weighted gradient and all group risks of one batch together, with noise of
    standard deviation ``z Δ max_i λ_i/(q n_i) / √(1-ρ)`` and ``z b/(q n_i) / √ρ``. In units of
    these a record counts for at most 1/z: docs/theory/mgr.md, section 8. Where groups overlap
    ``max_a Σ_{k∋a} λ_k/n_k`` is in place of ``max_i λ_i/n_i`` and ``b √m`` in place of b:
    docs/theory/overlapping-groups.md, Lemma 5.
    """

    group_sizes: tuple[int, ...]  # number of records n_i of each group
    rate: float  # probability q with which each record joins a step
    multiplier: float  # noise multiplier z of the release
    gradient_bound: float  # Δ = 2L, with what rounding adds
    # range b of the losses that the group risks count, with what rounding adds
    feedback_range: float
    center: float  # the middle of that range: what the risk of a group is where no record joins
    # what dividing and weighting sums in floating point adds to Δ, in units of the noise
    rounding: float
    # share ρ of the squared sensitivity that the group risks may use; 0 with one group
    risk_share: float
    # root of the mean squared norm of a record's gradient that step sizes are planned for
    gradient_spread: float
    cells: Cells | None = None  # where groups overlap, what they are made of

    @property
    def expected_sizes(self) -> FloatArray:
        """Expected number of records that join from each group; public, and what divides sums."""
        return self.rate * np.asarray(self.group_sizes)

    @property
    def gradient_stds(self) -> FloatArray:
        """Noise on the gradient that each group needs if all weight is on it."""
        bound = self.multiplier * self.gradient_bound
        return np.asarray(bound / self.expected_sizes / np.sqrt(1.0 - self.risk_share))

    @property
    def risk_stds(self) -> FloatArray:
        """Noise on the risk of each group; empty with one group."""
        if self.risk_share == 0.0:
            return np.zeros(0)
        moved = self.feedback_range * (1.0 if self.cells is None else self.cells.group_moves)
        bound = self.multiplier * moved
        return np.asarray(bound / self.expected_sizes / np.sqrt(self.risk_share))

    @property
    def risk_variances(self) -> FloatArray:
        """Variance of a group's risk from noise and coins, which is at most (b/2)² (1-q)/(q n)."""
        if self.risk_share == 0.0:
            return np.zeros(0)
        coins = (1.0 - self.rate) / self.expected_sizes
        return np.asarray(self.risk_stds**2 + (self.feedback_range / 2.0) ** 2 * coins)

    @property
    def sampling_variances(self) -> FloatArray:
        """Variance of each group's gradient from the coins, summed over coordinates, as planned."""
        return np.asarray(self.gradient_spread**2 * (1.0 - self.rate) / self.expected_sizes)

    def log_mean_exp_of_coins(self, group_rate: float) -> FloatArray:
        """Return a bound on log E exp(η_λ S) of what the coins add to each group's risk.

        It is ``q n_i (exp(x_i) - 1 - x_i)`` with ``x_i = η_λ b / (2 q n_i)``.
        """
        expected = self.expected_sizes
        most = group_rate * self.feedback_range / (2.0 * expected)
        return np.asarray(expected * (np.expm1(np.minimum(most, 700.0)) - most))

    def gradient_std(self, coefficients: FloatArray) -> float:
        """Return the noise on a sum of the groups' gradients: that of the group needing most."""
        if self.cells is None:
            return float((coefficients * self.gradient_stds).max())
        first, sizes = self.gradient_stds[0], np.asarray(self.group_sizes, dtype=float)
        return float(first * sizes[0] * self.cells.influence(coefficients / sizes))

    def step_std(self, group_weights: FloatArray, *, n_weights: int) -> float:
        """Return the deviation of a gradient's coordinate that a step size is chosen for.

        Its square is the noise's variance plus the coins' variance over d.
        """
        if self.cells is None:
            coins = group_weights**2 @ self.sampling_variances
        else:
            sizes = np.asarray(self.group_sizes, dtype=float)
            counted = (group_weights / sizes) @ self.cells.membership  # of a record of each cell
            of_record = self.sampling_variances[0] * sizes[0]
            coins = of_record * (np.asarray(self.cells.sizes) @ counted**2)
        variance = self.gradient_std(group_weights) ** 2 + coins / n_weights
        return float(np.sqrt(variance))

    def __str__(self) -> str:
        """Return a line for people."""
        of = sum(self.group_sizes if self.cells is None else self.cells.sizes)
        return (
            f"Poisson batches of about {self.rate * of:,.0f} of {of:,} records, each joining with "
            f"probability {self.rate:.3g}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class MGRSchedule(DescentSchedule):
    """Everything that `MGR.run` needs besides the records and the noise."""

    # gradient of the weighted sum of group risks, or of one group drawn from the weights
    step: Literal["weighted", "sampled"]
    # step size η_λ of the multiplicative weights; where they adapt, what planning takes it to be
    group_rate: float
    # subtracted from each group's exponent at every step: half of log E exp(η_λ N) of the noise N
    # on its risk; empty where group weights adapt, and 0 in the paper's schedule
    noise_correction: tuple[float, ...] = ()
    # who joins a step and with how much noise; by default a step reads every record
    batches: Batches | None = None
    # whether group weights follow the spread of the released risks and what groups can gain
    # (`GroupWeights`), in place of `group_rate` and `noise_correction`
    adapts: bool = False
    assumed_spread: float = 0.0  # standard deviation of the group risks that planning assumes
    # losses count up to this multiple of the mean released loss, where that is below `ceiling`
    # (`LossLevel`)
    ceiling_of_level: float = math.inf
    # whether the averaged weights shrink towards 0 as far as released risks ask for it
    # (`Shrinkage`)
    shrinks: bool = False
    # where groups are hidden: the infimum of losses, as risks are released relative to the middle
    # between it and the ceiling
    lowest_loss: float | None = None

    @property
    def follows_level(self) -> bool:
        """Whether the ceiling of losses follows the level of the released ones."""
        return math.isfinite(self.ceiling_of_level)

    def center_of(self, ceiling: float) -> float:
        """Return what losses up to a ceiling are taken relative to: 0 where groups are public."""
        if self.lowest_loss is None:
            return 0.0
        return self.lowest_loss + (ceiling - self.lowest_loss) / 2.0

    def __str__(self) -> str:
        """Return a few lines for people."""
        read = "one pass over the rows each" if self.batches is None else "one batch each"
        return self._in_words(
            f"{self.step} step, average of {self._averaged}, {read}",
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
                "the rate follows the spread of released risks, and the game is played as far as "
                "these show that a group can gain by it"
            )
        if self.follows_level:
            lines.append(
                f"losses counted up to {self.ceiling_of_level:g} times their mean, where that is "
                "less"
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
        return self._in_words(f"average of {self._averaged}, one pass over the rows each", *lines)


@dataclass(frozen=True, kw_only=True, repr=False)
class GDASchedule(DescentSchedule):
    """Everything that `GDA.run` needs besides the records and the noise."""

    ridge: float = 0.0  # strength ρ of the paper's public regularisers, whose steps are `1/(ρ t)`
    group_step: float = 0.0  # step length of the group weights in planned runs

    @property
    def step(self) -> str:
        """How loud noise is: in the paper's schedule as if all groups were like the smallest."""
        return "like the smallest group" if self.is_paper else "weighted"

    @property
    def points(self) -> range:
        """Which of the points 1, ..., T + 1 are averaged: the last, or all but the last."""
        end = self.n_steps + (1 if self.is_paper else 2)
        return range(end - self.averaged, end)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = []
        if self.is_paper:
            lines.append(
                f"regularised by {self.ridge:.3g}/2 (|w - w1|^2 - |lambda - prior|^2), public"
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
            steps=f"steps 1/(rho t) with rho = {self.ridge:.3g}" if self.is_paper else "",
        )


# Momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# Steps of a smooth loss begin at most this many times as long as is safe for every data set: held
# out, steps of 1/H lose .009 to .013 at every ε, and 8/H .001 to .002 (benchmarks/ablation.py).
BOLDNESS = 24.0

# Of a loss with kinks so many times ``aim/(L √T)``, which only a record that has its slope at every
# weight would need: means of many records curve. With 1 the hinge stands still far from its optimum
# at every ε; 8 and 128 do about as well (benchmarks/phased_erm.py kinks).
# No bolder than steps are left to mend it, or a run is worse than its bound.
BOLDNESS_AT_KINKS, STEPS_TO_MEND = 32.0, 5.0


@dataclass(eq=False, repr=False)
class DescentParameters:
    """Parameters of every solver of the family, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    risk_share: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    averaging: float = 0.5
    max_passes: int | None = None

    rules: ClassVar[Rules]

    def _check_parameters(self) -> None:
        self.rules.check(self)


# What each of them may be.
RULES: dict[str, Any] = {
    "n_steps": whole(or_none=True),
    "max_passes": whole(or_none=True),
    "aim": positive(),
    "risk_share": share(or_none=True),
    "averaging": share(or_all=True),
    "loss_ceiling": any_number(or_none=True),
    "schedule": one_of("planned", "paper"),
}


class RunNoise(NamedTuple):
    """Variance of the mean over a run of what is released, noise and coins together."""

    # of the gradient, summed over its coordinates, if all weight is on the group; (n_groups,)
    gradient: FloatArray
    risk: FloatArray  # of the risk of the group; empty with one group; (n_groups,)


@dataclass(frozen=True, kw_only=True, repr=False)
class StepRule(StepLimits, ABC):
    """Steps, their limits and the loss ceiling of a run; what the group player owes is a solver's.

    The planning bound for a group as the worst-off one is that of docs/theory/mgr.md, section 6:
    the regret of projected gradient descent with noise once all weight is on the group, with the
    step as planned and as far as `longest_step` with `max_momentum` reaches (or of fixed steps,
    whatever the noise), plus the regret of the group player. A loss that is not smooth is counted
    with steps up to ``aim/(L √T)``, the best ones whatever the records are, and pays ``τ L²/(2T)``
    as well, τ the total step.
    """

    problem: Problem
    parameters: Any  # what the user set
    ceiling: float  # a record's loss counts for at most this much in the group risks
    is_fixed: bool  # whether every step is `step_size`, whatever the noise

    is_bold: ClassVar[bool] = True  # whether steps begin longer than is safe for every data set
    largest_share: ClassVar[float] = 0.5  # of μ², for the group risks, where it is planned

    @classmethod
    def of(
        cls,
        problem: Problem,
        parameters: DescentParameters,
        n_steps: int,
        *,
        signal: float = 0.0,
    ) -> Self:
        """Return what the parameters ask for; refuse a ceiling that no loss can be below."""
        of_loss = by_loss(problem.loss, signal)
        ceiling = loss_ceiling(
            problem, parameters.loss_ceiling, parameters.rules.owner, multiple=of_loss.ceiling
        )
        aim = parameters.aim * problem.reach
        wanted = getattr(parameters, "step_size", None)  # not every solver lets it be set
        boldness, max_momentum = 1.0, 0.0
        if wanted is not None:
            step_size = wanted
        elif math.isinf(problem.smoothness):
            # the best step without noise against a comparator of norm aim
            step_size = aim / (problem.lipschitz * math.sqrt(n_steps))
            if cls.is_bold:
                boldness = min(BOLDNESS_AT_KINKS, max(1.0, n_steps / STEPS_TO_MEND))
        else:
            step_size = 1.0 / problem.smoothness
            if cls.is_bold:
                boldness = BOLDNESS * problem.smoothness / problem.usual_smoothness
        if wanted is None and (cls.is_bold or math.isfinite(problem.smoothness)):
            max_momentum = max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * n_steps))
        return cls(
            problem=problem,
            parameters=parameters,
            ceiling=ceiling,
            is_fixed=wanted is not None,
            n_steps=n_steps,
            aim=aim,
            step_share=of_loss.step_share,
            step_size=step_size,
            longest_step=boldness * step_size,
            max_momentum=max_momentum,
        )

    @cached_property
    def sums(self) -> SumSensitivity:
        """What one record moves of the sums of gradients, and of losses up to the ceiling."""
        return SumSensitivity.of(self.problem, ceiling=self.ceiling)

    @property
    def feedback_range(self) -> float:
        """Range b of the losses that the group risks count, rounding included."""
        return self.sums.loss_range

    @property
    def diameter(self) -> float:
        """Γ, as planning counts it."""
        return self.problem.gradient_diameter

    @property
    def visits(self) -> int:
        """In how many steps a record pays for the gradient."""
        return self.n_steps

    def noise_of_passes(self, mu: float, share: float) -> RunNoise:
        """Return the noise of full passes, however many, with a share ρ of μ² for the risks.

        It is ``d s_i²`` with ``s_i = Γ/(n_i μ √(1-ρ))``, and ``v_i = (b/(n_i μ √ρ))²``.
        """
        problem = self.problem
        sizes = problem.sizes_to_plan_for
        gradient = self.diameter / (sizes * mu * math.sqrt(1.0 - share))
        risk = np.zeros(0)
        if problem.n_groups > 1:
            of_sum = self.feedback_range * problem.loss_noise
            risk = (of_sum / (sizes * mu)) ** 2 / share
        return RunNoise(problem.n_weights * gradient**2, risk)

    def bound(self, noise: RunNoise) -> FloatArray:
        """Return the planning bound for each group as the worst-off one."""
        bound = self.of_weights(noise.gradient)
        return bound + self.of_groups(noise) if self.problem.n_groups > 1 else bound

    def of_weights(self, gradient_variances: FloatArray) -> FloatArray:
        """Return what the weights owe if all weight is on a group: ``aim²/(2τ) + τ d s_i²/2``."""
        problem, n_steps = self.problem, self.n_steps
        reach = n_steps * self.longest_step / (1.0 - self.max_momentum)
        if math.isinf(problem.smoothness):
            reach = n_steps * self.step_size
        of_coordinate = np.sqrt(gradient_variances / problem.n_weights)
        total_step = np.minimum(self.step_share * self.aim / of_coordinate, reach)
        if self.is_fixed:
            total_step = np.full_like(gradient_variances, reach)
        bound = np.asarray(self.aim**2 / (2 * total_step) + total_step * gradient_variances / 2)
        if math.isinf(problem.smoothness):
            bound += total_step * problem.lipschitz**2 / (2 * n_steps)
        return bound

    @abstractmethod
    def of_groups(self, noise: RunNoise) -> FloatArray:
        """Return what the group player owes if a group is the worst-off one."""

    def excess(self, noise: RunNoise) -> float:
        """Return the prior average of the planning bound, by which plans are chosen."""
        return float(np.asarray(self.problem.prior) @ self.bound(noise))

    def best_share(self, noise_at: Callable[[float], RunNoise]) -> float:
        """Return the share of the budget for the group risks: what the user set, or the best."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.risk_share is not None:
            return float(self.parameters.risk_share)
        found = minimize_scalar(
            lambda at: self.excess(noise_at(at)),
            bounds=(1e-3, self.largest_share),
            method="bounded",
        )
        return float(found.x)

    def limits(self) -> dict[str, Any]:
        """Return the fields of `StepLimits`."""
        found = {each.name: getattr(self, each.name) for each in fields(StepLimits)}
        return found | {"aim": 0.0} if self.is_fixed else found

    def planned(self) -> dict[str, Any]:
        """Return the fields of a `DescentSchedule`, but for its remark."""
        problem = self.problem
        return self.limits() | {
            "averaged": max(1, round(self.parameters.averaging * self.n_steps)),
            "gradient_diameter": self.sums.gradient_diameter,
            "ceiling": self.ceiling,
            "feedback_range": self.feedback_range,
            "prior": problem.prior,
            "centring": problem.limit if isinstance(problem, CentredProblem) else None,
        }


# Multiplicative weights, on all records or on batches.


@dataclass(eq=False, repr=False, kw_only=True)
class MGRParameters(DescentParameters):
    """Parameters of `MGR`."""

    group_rate: float | None = None
    step_size: float | None = None
    sampling_rate: float = 1.0
    centring: bool | None = None
    whitening: bool | None = None

    def _paper_reads_all(self) -> None:
        """Refuse batches for the paper's schedule."""
        if self.schedule == "paper" and self.sampling_rate != 1.0:
            raise InputError(
                "sampling_rate of MGR must be 1 with schedule='paper', whose steps read all "
                f"records, got {self.sampling_rate!r}."
            )

    rules = Rules(
        "MGR",
        _paper_reads_all,
        **RULES,
        group_rate=positive(or_none=True),
        step_size=positive(or_none=True),
        sampling_rate=share(or_all=True),
        centring=flag(or_none=True),
        whitening=flag(or_none=True),
    )


class HedgeRule(StepRule):
    """The rule with multiplicative group weights."""

    def sharpness(self, noise: RunNoise) -> float:
        """Return the user's θ = η_λ T, or that of least regret if any group may be the worst off.

        It is ``√(entropy(π) / (q²/T + mean_i v_i / 2))`` with q the assumed `risk_spread`: the
        prior's mean in place of the groups' own would let large groups set a rate at which the
        noise of small ones decides. 1 with one group, where it has no effect.
        """
        problem, n_steps = self.problem, self.n_steps
        if problem.n_groups == 1:
            return 1.0
        if self.parameters.group_rate is not None:
            return float(self.parameters.group_rate * n_steps)
        prior = np.asarray(problem.prior)
        entropy = -float(prior @ np.log(prior))
        return best_rate(
            entropy, risk_spread(problem) ** 2 / n_steps + float(noise.risk.mean()) / 2
        )

    def group_rate_at(self, noise: RunNoise) -> float:
        """Return the step size η_λ = θ/T of the group weights; 0 with one group."""
        return self.sharpness(noise) / self.n_steps if self.problem.n_groups > 1 else 0.0

    def of_groups(self, noise: RunNoise) -> FloatArray:
        sharpness = self.sharpness(noise)
        return np.asarray(
            -np.log(np.asarray(self.problem.prior)) / sharpness
            + sharpness * risk_spread(self.problem) ** 2 / self.n_steps
            + sharpness * (noise.risk + noise.risk.max()) / 4
        )

    def noise_of_batches(self, batches: Batches) -> RunNoise:
        """Return the noise of a run on Poisson batches: the variances of a step over T.

        They are those of the noise and of the coins, which for gradients is a model.
        """
        coordinates = self.problem.n_weights * batches.gradient_stds**2
        gradient = (coordinates + batches.sampling_variances) / self.n_steps
        return RunNoise(gradient, batches.risk_variances / self.n_steps)
