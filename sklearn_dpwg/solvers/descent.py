"""What MGR, AGS and GDA share: the steps, their bound, their plans, and where records meet noise.

Every step reads all records at released weights and hands over gradients and group risks with the
noise that public facts and those weights ask for. A run learns no more of the records than that,
and a centre and counts before its first step where the plan has them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, any_number, fraction, one_of, positive, whole
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import centring
from sklearn_dpwg.solvers.centring import CentredProblem, GradientClip
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solver, by_loss
from sklearn_dpwg.solvers.steps import SumSensitivity, active, influence, loss_clip, sums_of_groups

GRADIENT, RISKS = "gradient", "group risks"

# Passes of a planned run of `AGS` and `GDA`, and the most of a paper's schedule.
PASSES = 150

# The largest fraction of μ² that is planned for the group risks.
MAX_RISK_FRACTION = 0.5

# Momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# Steps of a smooth loss begin at most this many times as long as is safe for every data set
# (benchmarks/ablation.py).
BOLDNESS = 24.0

# Of a loss with kinks so many times ``initial_distance/(L √T)``, as means of many records curve
# (benchmarks/phased_erm.py kinks); no bolder than steps are left to mend it.
BOLDNESS_AT_KINKS, STEPS_TO_MEND = 32.0, 5.0

# A noisy gradient points uphill if it does so by more than this many deviations of its noise.
UPHILL = 3.0

# What is left of the longest step after that; 1 would promise no end of the shortening.
SHORTER = 0.9


@dataclass(eq=False, repr=False)
class Descent(Solver):
    """The parameters of every solver of the family, which documents them."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    risk_fraction: float | None = None
    loss_clip: float | None = None
    initial_distance: float = 0.3
    averaging: float = 0.5
    max_passes: int | None = None

    knows_overlap: ClassVar[bool] = True


# What the classes' documentations say of them alike, for `documented`.
SHARED_PARAMETERS = {
    "shared": """\
    risk_fraction : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    loss_clip : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: 4.33
        times the loss of a model that predicts nothing for a log loss, 2.16 times the largest for
        others, and for the squared error as much as that. Infinity: no clip.
    initial_distance : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a
        fraction of the radius, of 20 at most.
    averaging : float, default=0.5
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, optional
        Largest number of passes over the rows, where `n_steps` is planned. Planned: 150, but 60 of
        `MGR` for a log loss or the squared error.
"""
}

# What each of them may be.
RULES: dict[str, Any] = {
    "n_steps": whole(or_none=True),
    "max_passes": whole(or_none=True),
    "initial_distance": positive(),
    "risk_fraction": fraction(or_none=True),
    "averaging": fraction(or_all=True),
    "loss_clip": any_number(or_none=True),
    "schedule": one_of("planned", "paper"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class DescentSchedule:
    """What every run of the family needs besides the records and the noise."""

    n_steps: int  # number of steps T, for which step sizes are planned
    # distance from the first weights that is planned for; 0 where every step is `step_size` long
    initial_distance: float
    # length of a planned step, as a fraction of `initial_distance/(s √T)` for a coordinate's noise
    # s
    step_fraction: float = 0.0
    # longest plain step that is safe for all data: 1/H, or with kinks `initial_distance/(L √T)`
    step_size: float
    longest_step: float  # longest plain step that is tried, until `Momentum` shortens it
    max_momentum: float  # largest momentum
    # how many of the last iterates are averaged; with one more than steps, the first weights too
    averaged: int
    # Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    loss_clip: float  # a record's loss counts for at most this much in the group risks
    # b: a record moves the sum of its group's losses by at most this, rounding included
    loss_sensitivity: float
    prior: tuple[float, ...]  # π, of the groups
    # what a gradient is of: the weighted sum of the group risks, the risk of one group drawn from
    # the weights, or the sum as if all were like the smallest group
    step: Literal["weighted", "sampled", "like the smallest group"] = "weighted"
    # where groups are hidden: the infimum of losses, whose middle up to the clip is their centre
    lowest_loss: float | None = None
    # where rows are taken relative to a released centre: how far slopes are limited
    centring: GradientClip | None = None
    remark: str = ""  # what else a reader of the plan should know

    __repr__ = short_repr

    def center_of(self, loss_clip: float) -> float:
        """Return what losses up to a clip are taken relative to: 0 where groups are public."""
        if self.lowest_loss is None:
            return 0.0
        return self.lowest_loss + (loss_clip - self.lowest_loss) / 2.0

    def __str__(self) -> str:
        lines = [
            f"{self.n_steps:,} steps of at most {self.longest_step:.3g}, losses counted up to "
            f"{self.loss_clip:.3g}; the average of {self.averaged:,} iterates",
            str(self.centring or ""),
            self.remark,
        ]
        return "\n".join(line for line in lines if line)


# A run: how its weights move, what a step releases.


class Momentum:
    """The velocity of the weights, which are where it carries them next, from released gradients.

    Where a gradient clearly points uphill along it, the velocity is set to zero and the longest
    step shrinks to nine tenths, or to 4/(3h), h the curvature along the velocity, but never below
    `step_size`. (O'Donoghue and Candès 2015, Adaptive restart for accelerated gradient schemes,
    section 3.2, with the noise's standard deviation as the threshold)
    """

    def __init__(self, limits: DescentSchedule, n_weights: int) -> None:
        self.limits = limits
        self.velocity: FloatArray = np.zeros(n_weights)
        self.longest = limits.longest_step
        self._last_gradient = self.velocity

    def push(self, gradient: FloatArray, noise_std: float) -> FloatArray:
        """Return the next move of the weights, for a released gradient and the std of its noise."""
        limits, velocity = self.limits, self.velocity
        if limits.longest_step > limits.step_size:
            uphill = float(gradient @ velocity)
            if uphill > UPHILL * noise_std * float(np.linalg.norm(velocity)):
                change = uphill - float(self._last_gradient @ velocity)
                stable = 4.0 / 3.0 * float(velocity @ velocity) / change if change > 0.0 else np.inf
                self.longest = max(min(SHORTER * self.longest, stable), limits.step_size)
                velocity = np.zeros_like(velocity)
            self._last_gradient = gradient
        step_size, momentum = limits.step_size, 0.0
        if limits.initial_distance > 0.0:
            # a plain step and a momentum that together move like a planned step
            slowness = noise_std * math.sqrt(limits.n_steps)
            effective = limits.step_fraction * limits.initial_distance / slowness
            momentum = min(max(0.0, 1.0 - self.longest / effective), limits.max_momentum)
            step_size = min(effective * (1.0 - momentum), self.longest)
        self.velocity = momentum * velocity - step_size * gradient
        return momentum * self.velocity - step_size * gradient


class StepRelease(NamedTuple):
    """What a step releases."""

    gradient: FloatArray  # noisy gradient; (n_weights,)
    risks: FloatArray  # noisy group risks; empty with one group; (n_groups,)
    # standard deviation of a coordinate of the gradient that the step size is chosen for
    noise_std: float
    # variance of the noise on the risks and of the coins; empty with one group; (n_groups,)
    risk_variances: FloatArray


def from_pass(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    group_weights: FloatArray,
    noise: NoiseSource,
    loss_clip: float,
) -> StepRelease:
    """Read all records; release the gradient and, by a release of their own, the group risks.

    A record of group i moves the gradient by at most ``λ_i Γ/n_i`` and the sum of losses of its own
    group by at most b; where groups overlap, by what `influence` and `Problem.loss_moves` say.
    """
    schedule, problem = plan.schedule, plan.problem
    sizes = np.asarray(problem.group_sizes, dtype=float)
    # the last releases are those of the steps: gradients, and risks of several groups
    of_gradient, *of_risks = plan.releases[-min(len(sizes), 2) :]
    center = 0.0 if problem.hidden is None else schedule.center_of(loss_clip)
    losses, gradients = data.sums(weights, loss_clip=loss_clip, center=center)
    gradients = gradients / sizes[:, None]
    # b where losses count up to a lower clip; what rounding adds stays
    ranges: float | FloatArray = schedule.loss_sensitivity - (schedule.loss_clip - loss_clip)
    if schedule.step == "sampled":
        drawn = int(noise.rng.choice(len(sizes), p=group_weights))
        gradient, most = gradients[drawn], 1.0 / sizes[drawn]
        typical = float(np.sqrt(group_weights @ sizes**-2.0))
    else:
        gradient, most = group_weights @ gradients, influence(problem, group_weights)
        if schedule.step == "like the smallest group":
            most, ranges = 1.0 / sizes.min(), ranges * (sizes / sizes.min())
        typical = most
    sensitivity = float(schedule.gradient_diameter * most)
    gradient = noise.gaussian(gradient, sensitivity=sensitivity, release=of_gradient)
    noise_std = of_gradient.noise_multiplier * schedule.gradient_diameter * typical
    if not of_risks:
        return StepRelease(gradient, np.zeros(0), noise_std, np.zeros(0))
    risks, variances = _noisy_risks(losses, problem, ranges, of_risks[0], noise)
    if problem.hidden is not None:
        risks, variances = active(risks + center, variances, problem)
    return StepRelease(gradient, risks, noise_std, variances)


def from_one_group(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    choose: Callable[[FloatArray], int],
    noise: NoiseSource,
) -> tuple[FloatArray, float]:
    """Read all records; release the group risks, and the gradient of the group chosen by them.

    ``choose`` is given what was released of the risks and nothing else; with one group, zeros. The
    gradient is returned with the standard deviation of its noise.
    """
    schedule = plan.schedule
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    of_gradient, *of_risks = plan.releases[-min(len(sizes), 2) :]
    losses, gradients = data.sums(weights, loss_clip=schedule.loss_clip)
    risks = np.zeros(1)
    for release in of_risks:
        facts = plan.problem, schedule.loss_sensitivity, release, noise
        risks, _ = _noisy_risks(losses, *facts)
    group = choose(risks)
    mean, sensitivity = gradients[group] / sizes[group], schedule.gradient_diameter / sizes[group]
    noisy = noise.gaussian(mean, sensitivity=float(sensitivity), release=of_gradient)
    return noisy, float(of_gradient.noise_multiplier * sensitivity)


def _noisy_risks(
    losses: FloatArray,
    problem: Problem,
    loss_sensitivity: float | FloatArray,
    release: Release,
    noise: NoiseSource,
) -> tuple[FloatArray, FloatArray]:
    """Return noisy mean losses of the groups, and the variances of their noise.

    A record that is replaced moves the sums, all together, by at most `loss_sensitivity` times
    `loss_moves`. They are divided by the sizes after noise is added: dividing first would round.
    """
    is_gaussian = release.mechanism == "gaussian"
    add_noise = noise.gaussian if is_gaussian else noise.laplace
    sizes = np.asarray(problem.group_sizes, dtype=float)
    noisy = add_noise(losses, sensitivity=loss_sensitivity * problem.loss_moves, release=release)
    if problem.cells is not None:
        noisy = sums_of_groups(problem, noisy)
    of_sum = release.noise_multiplier * (loss_sensitivity * problem.loss_noise)
    stds = of_sum / sizes * (1.0 if is_gaussian else np.sqrt(2.0))
    return np.asarray(noisy / sizes), np.asarray(stds**2)


# The plan of least bound.


class RunNoise(NamedTuple):
    """Variance of the mean over a run of what is released, noise and coins together."""

    # of the gradient, summed over its coordinates, if all weight is on the group; (n_groups,)
    gradient: FloatArray
    risk: FloatArray  # of the risk of the group; empty with one group; (n_groups,)


class StepRule(ABC):
    """Steps, their limits and the loss clip of a run, and its bound.

    The regret of projected gradient descent with noise once all weight is on the group, plus that
    of the group player, which is a solver's: docs/theory/mgr.md, section 6.
    """

    def __init__(
        self, problem: Problem, solver: Descent, n_steps: int, effective_sample_size: float = 0.0
    ) -> None:
        self.problem, self.solver, self.n_steps = problem, solver, n_steps
        of_loss, owner = by_loss(problem.loss, effective_sample_size), solver.rules.owner
        self.loss_clip = loss_clip(problem, solver.loss_clip, owner, multiple=of_loss.loss_clip)
        self.sums = SumSensitivity.of(problem, loss_clip=self.loss_clip)
        self.initial_distance = solver.initial_distance * problem.reach
        self.step_fraction = of_loss.step_fraction
        fixed = getattr(solver, "step_size", None)  # not every solver lets it be set
        self.is_fixed = fixed is not None  # every step is `step_size`, whatever the noise
        boldness = 1.0
        if fixed is not None:
            self.step_size = fixed
        elif math.isfinite(problem.smoothness):
            self.step_size = 1.0 / problem.smoothness
            boldness = BOLDNESS * problem.smoothness / problem.usual_smoothness
        else:
            # the best step without noise against a comparator of norm initial_distance
            self.step_size = self.initial_distance / (problem.lipschitz * math.sqrt(n_steps))
            boldness = min(BOLDNESS_AT_KINKS, max(1.0, n_steps / STEPS_TO_MEND))
        self.longest_step = boldness * self.step_size
        longest_memory = 1.0 if self.is_fixed else max(1.0, LONGEST_MEMORY * n_steps)
        self.max_momentum = 1.0 - 1.0 / longest_memory

    def noise_of_passes(self, mu: float, fraction: float) -> RunNoise:
        """Return the noise of full passes, however many, with a fraction ρ of μ² for the risks.

        It is ``d s_i²`` with ``s_i = Γ/(n_i μ √(1-ρ))``, and ``v_i = (b/(n_i μ √ρ))²``.
        """
        problem = self.problem
        sizes = problem.sizes_to_plan_for
        gradient = problem.gradient_diameter / (sizes * mu * math.sqrt(1.0 - fraction))
        risk = np.zeros(0)
        if problem.n_groups > 1:
            of_sum = self.sums.loss_range * problem.loss_noise
            risk = (of_sum / (sizes * mu)) ** 2 / fraction
        return RunNoise(problem.n_weights * gradient**2, risk)

    def bound(self, noise: RunNoise) -> FloatArray:
        """Return the planning bound for each group as the worst-off one.

        The weights owe ``initial_distance²/(2τ) + τ d s_i²/2`` if all weight is on a group.
        """
        problem, n_steps = self.problem, self.n_steps
        is_smooth = math.isfinite(problem.smoothness)
        reach = n_steps * self.longest_step / (1.0 - self.max_momentum)
        if not is_smooth:
            reach = n_steps * self.step_size
        total_step = np.full_like(noise.gradient, reach)
        if not self.is_fixed:
            of_coordinate = np.sqrt(noise.gradient / problem.n_weights)
            total_step = np.minimum(
                self.step_fraction * self.initial_distance / of_coordinate, reach
            )
        bound = self.initial_distance**2 / (2 * total_step) + total_step * noise.gradient / 2
        if not is_smooth:
            bound = bound + total_step * problem.lipschitz**2 / (2 * n_steps)
        return bound + self.of_groups(noise) if problem.n_groups > 1 else bound

    @abstractmethod
    def of_groups(self, noise: RunNoise) -> FloatArray:
        """Return what the group player owes if a group is the worst-off one."""

    def best_fraction(self, noise_at: Callable[[float], RunNoise]) -> float:
        """Return the budget's fraction for the risks: the user's, or that of the least bound."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.solver.risk_fraction is not None:
            return float(self.solver.risk_fraction)
        prior = np.asarray(self.problem.prior)
        best = minimize_scalar(
            lambda at: float(prior @ self.bound(noise_at(at))),
            bounds=(1e-3, MAX_RISK_FRACTION),
            method="bounded",
        )
        return float(best.x)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a `DescentSchedule` that follow from the rule."""
        problem = self.problem
        return {
            "n_steps": self.n_steps,
            "initial_distance": 0.0 if self.is_fixed else self.initial_distance,
            "step_fraction": self.step_fraction,
            "step_size": self.step_size,
            "longest_step": self.longest_step,
            "max_momentum": self.max_momentum,
            "averaged": max(1, round(self.solver.averaging * self.n_steps)),
            "gradient_diameter": self.sums.gradient_diameter,
            "loss_clip": self.loss_clip,
            "loss_sensitivity": self.sums.loss_range,
            "prior": problem.prior,
            "centring": problem.limit if isinstance(problem, CentredProblem) else None,
        }


def pay_for_passes(rule: StepRule, budget: Budget) -> tuple[tuple[Release, ...], RunNoise]:
    """Share a budget among what comes before the steps, gradients and group risks."""
    n_steps = rule.n_steps
    before = centring.releases_before(rule.problem, math.sqrt(n_steps))
    left = 1.0 - sum([1.0 / release.noise_multiplier**2 for release in before]) / n_steps
    mu = math.sqrt(left) * budget.mu
    fraction = rule.best_fraction(partial(rule.noise_of_passes, mu))
    releases = [Release(GRADIENT, "gaussian", math.sqrt(1.0 / (left * (1.0 - fraction))), n_steps)]
    if rule.problem.n_groups > 1:
        releases.append(Release(RISKS, "gaussian", math.sqrt(1.0 / (left * fraction)), n_steps))
    return calibrate([*before, *releases], budget), rule.noise_of_passes(mu, fraction)


# Noise by the papers' formulas.


class PaperNoise(NamedTuple):
    """Noise by a paper's formulas: constants 1, or all noise times the least affordable factor."""

    releases: tuple[Release, ...]
    tau: float  # noise on the risks of the smallest group
    fields: dict[str, Any]  # of a schedule
    regret: float  # of the weights


def paper_noise(problem: Problem, budget: Budget, n_steps: int, union: float) -> PaperNoise:
    """Return σ on gradients and τ on risks of the smallest group; a larger one needs less.

    The δ of the gradients is divided by `union`.
    """
    n, taken, log_delta = min(problem.group_sizes), n_steps - 1, math.log(1.0 / budget.delta)
    scale, of_gradients = n * budget.epsilon, n_steps * math.log(union / budget.delta) * log_delta
    sigma = problem.lipschitz * math.sqrt(of_gradients) / scale
    tau = problem.loss_range * math.sqrt(n_steps * log_delta) / scale
    sums = SumSensitivity.of(problem, loss_clip=problem.constants.supremum)
    asked = [Release(GRADIENT, "gaussian", sigma * n / sums.gradient_diameter, taken)]
    if problem.n_groups > 1:
        asked.append(Release(RISKS, "laplace", tau * n / sums.loss_range, taken))
    true_epsilon = PrivacyGuarantee.from_releases(asked, budget.delta).epsilon
    releases = tuple(asked) if true_epsilon <= budget.epsilon else calibrate(asked, budget)
    factor = releases[0].noise_multiplier / asked[0].noise_multiplier
    square = problem.lipschitz**2 + problem.n_weights * (sigma * factor) ** 2
    step_size = problem.diameter / math.sqrt(n_steps * square)
    fields = paper_fields(problem, sums, taken, averaged=n_steps, step_size=step_size)
    fields["remark"] = (
        f"the paper's noise with constant 1 costs epsilon = {rounded_up(true_epsilon)}; factor "
        f"on both noises: {factor:.4g}"
    )
    regret = problem.diameter * math.sqrt(square / n_steps)
    return PaperNoise(releases, tau * factor, fields, regret)


def paper_fields(
    problem: Problem, sums: SumSensitivity, n_steps: int, *, averaged: int, step_size: float
) -> dict[str, Any]:
    """Return the fields of a schedule of plain steps, without a clip, for equal groups."""
    return {
        "n_steps": n_steps,
        "initial_distance": 0.0,
        "step_size": step_size,
        "longest_step": step_size,
        "max_momentum": 0.0,
        "averaged": averaged,
        "gradient_diameter": sums.gradient_diameter,
        "loss_clip": problem.constants.supremum,
        "loss_sensitivity": sums.loss_range,
        "prior": (1.0 / problem.n_groups,) * problem.n_groups,
    }
