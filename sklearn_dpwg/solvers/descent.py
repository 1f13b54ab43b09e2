"""Shared by MGR, AGS and GDA: private steps on all records, momentum, planning bound, noise.

A step reads all records at released weights and releases a noisy gradient and noisy group risks.
Beside these a run sees only the releases before its first step: a centre, counts of groups.
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
from sklearn_dpwg.solvers import centring, steps
from sklearn_dpwg.solvers.centring import CentredProblem, GradientClip
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solver, by_loss
from sklearn_dpwg.solvers.steps import SumSensitivity, active, influence, sums_of_groups

GRADIENT, RISKS = "gradient", "group risks"
# Passes of a planned run of `AGS` and `GDA`, and the most of a paper's schedule.
PASSES = 150
# The largest fraction of μ² that is planned for the group risks.
MAX_RISK_FRACTION = 0.5
# Momentum remembers at most this fraction of the steps.
LONGEST_MEMORY = 0.2
# First longest step of a smooth loss times H: 1 is safe for all data (benchmarks/ablation.py).
BOLDNESS = 24.0
# That of a loss with kinks, over ``initial_distance/(L √T)``: a mean of many records is nearly
# smooth (benchmarks/phased_erm.py kinks). At most T/5, so that steps are left to correct it.
BOLDNESS_AT_KINKS, STEPS_TO_MEND = 32.0, 5.0
# Standard deviations of its noise by which a gradient must point uphill to stop the velocity.
UPHILL = 3.0
# Factor on the longest step after that; below 1, so that the step gets safe in the end.
SHORTER = 0.9


@dataclass(eq=False, repr=False)
class Descent(Solver):
    """Base of MGR, AGS and GDA: the parameters they share."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    risk_fraction: float | None = None
    loss_clip: float | None = None
    initial_distance: float = 0.3
    averaging: float = 0.5
    max_passes: int | None = None

    knows_overlap: ClassVar[bool] = True


# Their documentation, which `documented` puts into the docstrings of the solvers.
SHARED_PARAMETERS = {
    "shared": """\
    risk_fraction : float, optional
        Fraction of the budget (of μ²) spent on group risks, between 0 and 1.
    loss_clip : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: 4.33
        times the loss of a model that predicts nothing for a log loss, 2.16 times the largest for
        others, and for the squared error as much as that. Infinity: no clip.
    initial_distance : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a
        fraction of the radius, of 20 at most.
    averaging : float, default=0.5
        Fraction of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, optional
        Largest number of passes over the rows, where `n_steps` is planned. Planned: 150, but 60 of
        `MGR` for a log loss or the squared error.
"""
}

# Their allowed values.
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
    """Public numbers of a run of MGR, AGS or GDA, fixed before the first record is read."""

    n_steps: int  # number of steps T, for which step sizes are planned
    # planned distance of the solution from the first weights; 0 where every step is `step_size`
    initial_distance: float
    # planned step size over `initial_distance/(s √T)`, s the noise on a coordinate of the gradient
    step_fraction: float = 0.0
    # step size that is safe for all data: 1/H, or with kinks `initial_distance/(L √T)`
    step_size: float
    longest_step: float  # first limit on the step size, until `Momentum` lowers it
    max_momentum: float  # largest momentum
    # number of last iterates that are averaged; T + 1 if the first weights count too
    n_averaged: int
    # Γ: a record of group i moves its group's gradient by at most Γ/n_i, rounding included
    gradient_diameter: float
    loss_clip: float  # a record's loss counts for at most this much in the group risks
    # b: a record moves the sum of its group's losses by at most this, rounding included
    loss_sensitivity: float
    prior: tuple[float, ...]  # π, of the groups
    # the gradient of a step: of the weighted sum of the group risks; of one group, drawn by the
    # weights; or the first with noise as if all groups were as small as the smallest
    step: Literal["weighted", "sampled", "like the smallest group"] = "weighted"
    lowest_loss: float | None = None  # infimum of the losses; None where groups are public
    # limit on the gradients of centred rows; None where rows are not centred
    centring: GradientClip | None = None
    remark: str = ""  # a note that the plan prints

    __repr__ = short_repr

    def center_of(self, loss_clip: float) -> float:
        """Return the number to subtract from losses: the middle of the range, 0 for public groups.

        A record that changes its group then moves two sums by half the range each.
        """
        if self.lowest_loss is None:
            return 0.0
        return self.lowest_loss + (loss_clip - self.lowest_loss) / 2.0

    def __str__(self) -> str:
        lines = [
            f"{self.n_steps:,} steps of at most {self.longest_step:.3g}, losses counted up to "
            f"{self.loss_clip:.3g}; the average of {self.n_averaged:,} iterates",
            str(self.centring or ""),
            self.remark,
        ]
        return "\n".join(line for line in lines if line)


# A run: steps of the weights, and the private release of each step.


class Momentum:
    """Moves of the weights by released gradients: Nesterov momentum with restarts.

    Where a gradient clearly points uphill along the velocity, the velocity is set to zero and the
    longest step shrinks to nine tenths, or to 4/(3h), h the curvature along the velocity, but never
    below `step_size`. (O'Donoghue and Candès 2015, Adaptive restart for accelerated gradient
    schemes, section 3.2, with standard deviations of the noise as the threshold)
    """

    def __init__(self, schedule: DescentSchedule, n_weights: int) -> None:
        self.schedule = schedule
        self.velocity: FloatArray = np.zeros(n_weights)
        self.longest_step = schedule.longest_step
        self._last_gradient = self.velocity

    def push(self, gradient: FloatArray, noise_std: float) -> FloatArray:
        """Return what to add to the weights; noise_std is the noise on a coordinate of gradient."""
        schedule, velocity = self.schedule, self.velocity
        if schedule.longest_step > schedule.step_size:
            slope = float(gradient @ velocity)
            if slope > UPHILL * noise_std * float(np.linalg.norm(velocity)):
                change = slope - float(self._last_gradient @ velocity)
                safe = 4.0 / 3.0 * float(velocity @ velocity) / change if change > 0.0 else np.inf
                self.longest_step = max(min(SHORTER * self.longest_step, safe), schedule.step_size)
                velocity = np.zeros_like(velocity)
            self._last_gradient = gradient
        step_size, momentum = schedule.step_size, 0.0
        if schedule.initial_distance > 0.0:
            # with momentum a gradient moves the weights by step_size/(1 - momentum) = planned_step
            run_noise = noise_std * math.sqrt(schedule.n_steps)
            planned_step = schedule.step_fraction * schedule.initial_distance / run_noise
            momentum = min(max(0.0, 1.0 - self.longest_step / planned_step), schedule.max_momentum)
            step_size = min(planned_step * (1.0 - momentum), self.longest_step)
        self.velocity = momentum * velocity - step_size * gradient
        return momentum * self.velocity - step_size * gradient


class StepRelease(NamedTuple):
    """Private outputs of one step, and how noisy they are."""

    gradient: FloatArray  # noisy gradient; (n_weights,)
    risks: FloatArray  # noisy group risks; empty with one group; (n_groups,)
    # standard deviation of a gradient's coordinate, by noise and sampling: for the step size
    noise_std: float
    # variances of the risks, by noise and sampling; empty with one group; (n_groups,)
    risk_variances: FloatArray


def release_full_pass(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    group_weights: FloatArray,
    noise: NoiseSource,
    loss_clip: float,
) -> StepRelease:
    """Release the gradient on all records and, with several groups, the group risks.

    A record of group i moves the gradient, which `group_weights` weight, by at most ``λ_i Γ/n_i``
    and its group's sum of losses by at most b; see `influence` for groups that overlap.
    """
    schedule, problem = plan.schedule, plan.problem
    sizes = np.asarray(problem.group_sizes, dtype=float)
    # the last releases of a plan are the steps': gradients and, with several groups, risks
    gradient_release, *risks_release = plan.releases[-min(len(sizes), 2) :]
    center = 0.0 if problem.hidden is None else schedule.center_of(loss_clip)
    losses, gradients = data.sums(weights, loss_clip=loss_clip, center=center)
    gradients = gradients / sizes[:, None]
    # b at this step's clip; the part of b that rounding adds stays
    loss_moves: float | FloatArray = schedule.loss_sensitivity - (schedule.loss_clip - loss_clip)
    if schedule.step == "sampled":
        group = int(noise.rng.choice(len(sizes), p=group_weights))
        gradient, record_weight = gradients[group], 1.0 / sizes[group]
        usual_weight = float(np.sqrt(group_weights @ sizes**-2.0))  # root mean square of draws
    else:
        gradient, record_weight = group_weights @ gradients, influence(problem, group_weights)
        if schedule.step == "like the smallest group":
            smallest = sizes.min()
            record_weight, loss_moves = 1.0 / smallest, loss_moves * (sizes / smallest)
        usual_weight = record_weight
    sensitivity = float(schedule.gradient_diameter * record_weight)
    gradient = noise.gaussian(gradient, sensitivity=sensitivity, release=gradient_release)
    noise_std = gradient_release.noise_multiplier * schedule.gradient_diameter * usual_weight
    if not risks_release:
        return StepRelease(gradient, np.zeros(0), noise_std, risk_variances=np.zeros(0))
    risks, variances = _noisy_risks(losses, problem, loss_moves, risks_release[0], noise)
    if problem.hidden is not None:
        risks, variances = active(risks + center, variances, problem)
    return StepRelease(gradient, risks, noise_std, variances)


def release_chosen_group(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    choose: Callable[[FloatArray], int],
    noise: NoiseSource,
) -> tuple[FloatArray, float]:
    """Release the group risks, then the gradient of the group that `choose` picks by them.

    Returned are the noisy gradient, (n_weights,), and the standard deviation of a coordinate's
    noise. With one group `choose` gets a risk of 0.
    """
    schedule, loss_moves = plan.schedule, plan.schedule.loss_sensitivity
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    gradient_release, *risks_release = plan.releases[-min(len(sizes), 2) :]
    losses, gradients = data.sums(weights, loss_clip=schedule.loss_clip)
    risks = np.zeros(1)
    for release in risks_release:  # one, or none with one group
        risks, _ = _noisy_risks(losses, plan.problem, loss_moves, release, noise)
    group = choose(risks)
    mean, sensitivity = gradients[group] / sizes[group], schedule.gradient_diameter / sizes[group]
    noisy = noise.gaussian(mean, sensitivity=float(sensitivity), release=gradient_release)
    return noisy, float(gradient_release.noise_multiplier * sensitivity)


def _noisy_risks(
    losses: FloatArray,
    problem: Problem,
    loss_sensitivity: float | FloatArray,
    release: Release,
    noise: NoiseSource,
) -> tuple[FloatArray, FloatArray]:
    """Return noisy mean losses of the groups, and the variances of their noise; both (n_groups,).

    Replacing a record moves `losses`, sums by group or by cell, by `loss_sensitivity * loss_moves`
    at most. Noise is added before the division by the sizes, which would round.
    """
    is_gaussian = release.mechanism == "gaussian"
    add_noise = noise.gaussian if is_gaussian else noise.laplace
    sizes = np.asarray(problem.group_sizes, dtype=float)
    noisy = add_noise(losses, sensitivity=loss_sensitivity * problem.loss_moves, release=release)
    if problem.cells is not None:
        noisy = sums_of_groups(problem, noisy)
    scales = release.noise_multiplier * (loss_sensitivity * problem.loss_noise)
    # the standard deviation of Laplace noise is √2 times its scale
    stds = scales / sizes * (1.0 if is_gaussian else np.sqrt(2.0))
    return np.asarray(noisy / sizes), np.asarray(stds**2)


# The plan of least bound.


class RunNoise(NamedTuple):
    """Variances of the averages over a run of released gradients and risks, for each group."""

    # of the gradient, summed over its coordinates, if all weight is on the group; (n_groups,)
    gradient: FloatArray
    risk: FloatArray  # of the risk of the group; empty with one group; (n_groups,)


class StepRule(ABC):
    """Step sizes and loss clip of a planned run, and its bound on the excess risk.

    The bound is the regret of noisy projected gradient descent plus that of the group weights
    (`group_regret`, by solver): docs/theory/mgr.md, section 6.
    """

    def __init__(
        self, problem: Problem, solver: Descent, n_steps: int, effective_sample_size: float = 0.0
    ) -> None:
        self.problem, self.solver, self.n_steps = problem, solver, n_steps
        constants = by_loss(problem.loss, effective_sample_size)
        multiple, owner = constants.loss_clip, solver.rules.owner
        self.loss_clip = steps.loss_clip(problem, solver.loss_clip, owner, multiple=multiple)
        self.sums = SumSensitivity.of(problem, loss_clip=self.loss_clip)
        self.initial_distance = solver.initial_distance * problem.reach
        self.step_fraction = constants.step_fraction
        stated_step_size = getattr(solver, "step_size", None)  # only MGR has this parameter
        self.is_fixed = stated_step_size is not None  # every step is `step_size`, at any noise
        boldness = 1.0
        if stated_step_size is not None:
            self.step_size = stated_step_size
        elif math.isfinite(problem.smoothness):
            self.step_size = 1.0 / problem.smoothness
            boldness = BOLDNESS * problem.smoothness / problem.usual_smoothness
        else:
            # best step without noise if the solution is initial_distance away
            self.step_size = self.initial_distance / (problem.lipschitz * math.sqrt(n_steps))
            boldness = min(BOLDNESS_AT_KINKS, max(1.0, n_steps / STEPS_TO_MEND))
        self.longest_step = boldness * self.step_size
        longest_memory = 1.0 if self.is_fixed else max(1.0, LONGEST_MEMORY * n_steps)
        self.max_momentum = 1.0 - 1.0 / longest_memory

    def noise_of_passes(self, mu: float, risk_fraction: float) -> RunNoise:
        """Return the noise of full passes at a total of μ, a fraction ρ of μ² for the risks.

        The variances are ``d (Γ/(n_i μ))²/(1-ρ)`` and ``(b/(n_i μ))²/ρ``, with d = n_weights, Γ =
        gradient_diameter, b = loss_range. T passes at μ/√T average to the same: T is not needed.
        """
        problem = self.problem
        sizes = problem.sizes_to_plan_for
        gradient_stds = problem.gradient_diameter / (sizes * mu * math.sqrt(1.0 - risk_fraction))
        risk_variances = np.zeros(0)
        if problem.n_groups > 1:
            loss_moves = self.sums.loss_range * problem.loss_noise
            risk_variances = (loss_moves / (sizes * mu)) ** 2 / risk_fraction
        return RunNoise(problem.n_weights * gradient_stds**2, risk_variances)

    def bound(self, noise: RunNoise) -> FloatArray:
        """Return the bound on the excess risk if group i is the worst off, for all i; (n_groups,).

        Regret of the weights: ``initial_distance²/(2τ) + τ noise.gradient/2``, τ the sum of the
        step sizes; at kinks ``τ L²/(2T)`` more.
        """
        problem, n_steps = self.problem, self.n_steps
        is_smooth = math.isfinite(problem.smoothness)
        longest_total = n_steps * self.step_size
        if is_smooth:
            longest_total = n_steps * self.longest_step / (1.0 - self.max_momentum)
        total_step = np.full_like(noise.gradient, longest_total)
        if not self.is_fixed:
            coordinate_stds = np.sqrt(noise.gradient / problem.n_weights)
            planned_total = self.step_fraction * self.initial_distance / coordinate_stds
            total_step = np.minimum(planned_total, longest_total)
        bound = self.initial_distance**2 / (2 * total_step) + total_step * noise.gradient / 2
        if not is_smooth:
            bound = bound + total_step * problem.lipschitz**2 / (2 * n_steps)
        return bound + self.group_regret(noise) if problem.n_groups > 1 else bound

    @abstractmethod
    def group_regret(self, noise: RunNoise) -> FloatArray:
        """Return the regret of the group weights if group i is the worst off; (n_groups,)."""

    def best_risk_fraction(self, noise_at: Callable[[float], RunNoise]) -> float:
        """Return the fraction of μ² for the risks: the solver's, or the one of least bound.

        ``noise_at`` maps a fraction to the noise of the run at that fraction.
        """
        if self.problem.n_groups == 1:
            return 0.0
        if self.solver.risk_fraction is not None:
            return float(self.solver.risk_fraction)
        prior = np.asarray(self.problem.prior)
        best = minimize_scalar(
            lambda risk_fraction: float(prior @ self.bound(noise_at(risk_fraction))),
            bounds=(1e-3, MAX_RISK_FRACTION),
            method="bounded",
        )
        return float(best.x)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a `DescentSchedule` that this rule decides."""
        problem = self.problem
        return {
            "n_steps": self.n_steps,
            "initial_distance": 0.0 if self.is_fixed else self.initial_distance,
            "step_fraction": self.step_fraction,
            "step_size": self.step_size,
            "longest_step": self.longest_step,
            "max_momentum": self.max_momentum,
            "n_averaged": max(1, round(self.solver.averaging * self.n_steps)),
            "gradient_diameter": self.sums.gradient_diameter,
            "loss_clip": self.loss_clip,
            "loss_sensitivity": self.sums.loss_range,
            "prior": problem.prior,
            "centring": problem.limit if isinstance(problem, CentredProblem) else None,
        }


def pay_for_passes(rule: StepRule, budget: Budget) -> tuple[tuple[Release, ...], RunNoise]:
    """Return the releases of a run on full passes, which spend the budget, and their noise."""
    n_steps = rule.n_steps
    # all multipliers are for a total of μ² = n_steps; `calibrate` scales them to the budget
    centring_releases = centring.releases_before(rule.problem, math.sqrt(n_steps))
    centring_cost = sum([1.0 / release.noise_multiplier**2 for release in centring_releases])
    fraction_left = 1.0 - centring_cost / n_steps
    mu = math.sqrt(fraction_left) * budget.mu
    risk_fraction = rule.best_risk_fraction(partial(rule.noise_of_passes, mu))
    multiplier = math.sqrt(1.0 / (fraction_left * (1.0 - risk_fraction)))
    releases = [*centring_releases, Release(GRADIENT, "gaussian", multiplier, n_steps)]
    if rule.problem.n_groups > 1:
        multiplier = math.sqrt(1.0 / (fraction_left * risk_fraction))
        releases.append(Release(RISKS, "gaussian", multiplier, n_steps))
    return calibrate(releases, budget), rule.noise_of_passes(mu, risk_fraction)


# Noise by the papers' formulas.


class PaperNoise(NamedTuple):
    """Noise of Zhou and Bassily's schedules, and the numbers that follow from it."""

    releases: tuple[Release, ...]
    tau: float  # scale of the noise on the risk of the smallest group
    fields: dict[str, Any]  # fields of a `DescentSchedule`
    regret: float  # bound on the regret of the weights


def paper_noise(problem: Problem, budget: Budget, n_steps: int, union: float) -> PaperNoise:
    """Return the paper's σ on gradients and τ on risks, with its constants set to 1.

    Where that exceeds the budget, both are raised by one factor. σ and τ are for the smallest
    group, larger ones have less noise; `union` is the number in the paper's ``log(union/δ)``.
    """
    n, log_delta = min(problem.group_sizes), math.log(1.0 / budget.delta)
    n_released = n_steps - 1  # the average of w_1, ..., w_T makes no use of a release at w_T
    scale, gradient_cost = n * budget.epsilon, n_steps * math.log(union / budget.delta) * log_delta
    sigma = problem.lipschitz * math.sqrt(gradient_cost) / scale
    tau = problem.loss_range * math.sqrt(n_steps * log_delta) / scale
    sums = SumSensitivity.of(problem, loss_clip=problem.constants.supremum)
    templates = [Release(GRADIENT, "gaussian", sigma * n / sums.gradient_diameter, n_released)]
    if problem.n_groups > 1:
        templates.append(Release(RISKS, "laplace", tau * n / sums.loss_range, n_released))
    true_epsilon = PrivacyGuarantee.from_releases(templates, budget.delta).epsilon
    releases = tuple(templates) if true_epsilon <= budget.epsilon else calibrate(templates, budget)
    factor = releases[0].noise_multiplier / templates[0].noise_multiplier
    # bound on the mean squared norm of a noisy gradient
    squared_norm = problem.lipschitz**2 + problem.n_weights * (sigma * factor) ** 2
    step_size = problem.diameter / math.sqrt(n_steps * squared_norm)
    fields = paper_fields(problem, sums, n_released, n_averaged=n_steps, step_size=step_size)
    fields["remark"] = (
        f"the paper's noise with constant 1 costs epsilon = {rounded_up(true_epsilon)}; factor "
        f"on both noises: {factor:.4g}"
    )
    regret = problem.diameter * math.sqrt(squared_norm / n_steps)
    return PaperNoise(releases, tau=tau * factor, fields=fields, regret=regret)


def paper_fields(
    problem: Problem, sums: SumSensitivity, n_steps: int, *, n_averaged: int, step_size: float
) -> dict[str, Any]:
    """Return `DescentSchedule` fields of a paper: fixed steps, no loss clip, uniform prior."""
    return {
        "n_steps": n_steps,
        "initial_distance": 0.0,
        "step_size": step_size,
        "longest_step": step_size,
        "max_momentum": 0.0,
        "n_averaged": n_averaged,
        "gradient_diameter": sums.gradient_diameter,
        "loss_clip": problem.constants.supremum,
        "loss_sensitivity": sums.loss_range,
        "prior": (1.0 / problem.n_groups,) * problem.n_groups,
    }
