"""Noisy gradient descent with multiplicative group reweighting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, SumGrid, calibrate
from sklearn_dpwg.solvers.centring import (
    CentredProblem,
    centred_problem,
    largest_clip,
    least_unit,
    release_centre,
)
from sklearn_dpwg.solvers.descent import releases
from sklearn_dpwg.solvers.descent.group_weights import (
    GroupWeights,
    HiddenLosses,
    LossLevel,
    PlannedLimits,
    Shrinkage,
)
from sklearn_dpwg.solvers.descent.planning import is_centred, least_bound_plan, plan_of_schedule
from sklearn_dpwg.solvers.descent.releases import GRADIENT, RISKS, gradient_of_mixture
from sklearn_dpwg.solvers.descent.rule import (
    LONGEST_MEMORY,
    RULES,
    MGRParameters,
    StepRule,
    descent_bound_by_group,
)
from sklearn_dpwg.solvers.descent.schedule import MGRSchedule
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan, MixtureSolver
from sklearn_dpwg.solvers.plan import Plan, predict_seconds
from sklearn_dpwg.solvers.solver import Solution, by_loss
from sklearn_dpwg.solvers.steps import HeavyBall
from sklearn_dpwg.solvers.sums import SumSensitivity

# Plan with steps, rates and noise as in Zhou and Bassily's theorems.


def paper_plan(problem: Problem, budget: Budget, *, max_passes: int) -> Plan:
    """Plan with the paper's formulas, at most `max_passes` steps, and account for them exactly.

    T - 1 steps average ``w_1, …, w_T``, from T = 2 on. The constant that Theorem 9 leaves open is
    1, or the smallest that exact accounting allows; docs/theory/mgr.md, section 7, has the
    formulas. (Zhou and Bassily 2024, Theorems 9 and 10 and the proof in Appendix C.1)
    """
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    lipschitz, loss_range, diameter = problem.lipschitz, problem.loss_range, problem.diameter
    n_steps, sigma, tau = _steps_and_noise(problem, budget, max_passes)
    # σ and τ are those of the smallest group; a larger one needs less in proportion to its size
    sums = SumSensitivity.of(problem, ceiling=problem.constants.supremum)
    taken = n_steps - 1
    releases: Sequence[Release] = [
        Release(GRADIENT, "gaussian", sigma * n / sums.gradient_diameter, taken)
    ]
    if p > 1:
        releases = [*releases, Release(RISKS, "laplace", tau * n / sums.loss_range, taken)]
    true_epsilon = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
    constant = 1.0
    if true_epsilon > budget.epsilon:
        affordable = calibrate(releases, budget)
        constant = affordable[0].noise_multiplier / releases[0].noise_multiplier
        releases, sigma, tau = affordable, sigma * constant, tau * constant
    feedback_bound = loss_range
    if p > 1:
        feedback_bound += 8.0 * tau * max(0.0, math.log(p * n * n_steps / 2.0))
    step_size = diameter / math.sqrt(n_steps * (lipschitz**2 + d * sigma**2))
    schedule = MGRSchedule(
        step="sampled",
        n_steps=taken,
        gradient_multiplier=releases[0].noise_multiplier,
        risk_multiplier=releases[1].noise_multiplier if p > 1 else 0.0,
        gradient_diameter=sums.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        prior=(1.0 / p,) * p,
        group_rate=math.sqrt(math.log(p) / (n_steps * feedback_bound**2)),
        noise_correction=(0.0,) * p,
        aim=0.0,
        step_size=step_size,
        longest_step=step_size,
        max_momentum=0.0,
        averaged=n_steps,
        remark=(
            f"the paper's noise with constant 1 costs epsilon = {true_epsilon:.4g}; "
            f"constant used: {constant:.4g}"
        ),
    )
    # the regret bounds in the proof of Theorem 10
    excess = diameter * math.sqrt((lipschitz**2 + d * sigma**2) / n_steps)
    excess += 2.0 * feedback_bound * math.sqrt(math.log(p) / n_steps)
    return plan_of_schedule(problem, budget, releases, schedule, np.full(p, excess))


def _steps_and_noise(problem: Problem, budget: Budget, max_passes: int) -> tuple[int, float, float]:
    """Return T, σ and τ with the universal constant 1; at least one step is taken."""
    n, d = min(problem.group_sizes), problem.n_weights
    lipschitz, loss_range = problem.lipschitz, problem.loss_range
    log_delta = math.log(1.0 / budget.delta)
    steps = (problem.diameter * lipschitz + loss_range * math.sqrt(math.log(problem.n_groups))) * (
        n**2 * budget.epsilon**2 / (lipschitz * loss_range * d * log_delta)
    )
    n_steps = max(2, min(max_passes + 1, math.floor(steps)))
    sigma = (
        lipschitz
        * math.sqrt(n_steps * math.log(n_steps / budget.delta) * log_delta)
        / (n * budget.epsilon)
    )
    return n_steps, sigma, loss_range * math.sqrt(n_steps * log_delta) / (n * budget.epsilon)


# Noisy gradient steps as answers for fixed mixtures of groups.

# What who asks for mixtures decides, and how it is left to them.
SET_BY_CALLER: dict[str, tuple[object, ...]] = {
    "schedule": ("planned",),
    "risk_share": (None,),
    "group_rate": (None,),
    "loss_ceiling": (None,),
    "max_seconds": (None,),
    "sampling_rate": (None, 1),
}

# Numbers of calls that a plan may choose from: momentum does not outlast a call, and with 16 of
# them steps do not get far enough where there is little noise (benchmarks/best_response.py rounds).
CALLS = (1, 2, 4, 8)


@dataclass(frozen=True)
class MixtureSteps:
    """Everything that the steps of a call need besides the records and the noise."""

    n_steps: int  # of all calls together, for which step sizes are planned
    steps_a_call: int
    averaged: int  # how many of a call's last iterates are averaged
    aim: float  # norm of the weights that steps are planned for; 0 where they are fixed
    step_share: float
    step_size: float
    longest_step: float
    max_momentum: float
    gradient_diameter: float  # Γ, rounding included
    ceiling: float
    grid: SumGrid

    __repr__ = short_repr

    def __str__(self) -> str:
        """Return a line for people."""
        answer = f"the average of the last {self.averaged:,}" if self.averaged > 1 else "the last"
        return (
            f"{self.steps_a_call:,} weighted step(s) a call, one pass each, at most "
            f"{self.longest_step:.3g} long, momentum at most {self.max_momentum:.2g}; the answer "
            f"is {answer}"
        )


def learned_problem(problem: Problem, parameters: MGRParameters) -> Problem:
    """Return the problem, or that of centred rows where steps would centre them."""
    if not is_centred(problem, parameters):
        return problem
    return centred_problem(problem, unit=least_unit(problem.loss))


def numbers_of_calls(parameters: MGRParameters) -> tuple[int, ...]:
    """Return the numbers of calls that there are steps for."""
    return tuple(n_calls for n_calls in CALLS if n_calls <= _steps(parameters))


def _steps(parameters: MGRParameters) -> int:
    return parameters.max_passes if parameters.n_steps is None else parameters.n_steps


def plan_of_calls(problem: Problem, calls: Calls, parameters: MGRParameters) -> MixturePlan:
    """Return the plan of as many steps as the passes allow, shared among the calls."""
    steps_a_call = _steps(parameters) // calls.n_calls
    if steps_a_call < 1:
        raise ValueError(
            f"n_steps and max_passes of MGR must allow a step in each of {calls.n_calls} rounds, "
            f"got {parameters.n_steps!r} and {parameters.max_passes!r}."
        )
    n_steps = steps_a_call * calls.n_calls
    rule = StepRule.of(problem, parameters, n_steps)
    # momentum does not outlast a call
    memory = max(1.0, LONGEST_MEMORY * steps_a_call)
    max_momentum = min(rule.max_momentum, 1.0 - 1.0 / memory)
    bounds = descent_bound_by_group(
        problem,
        _gradient_variances(problem, rule, calls),
        n_steps=n_steps,
        aim=rule.aim,
        step_size=rule.longest_step,
        max_momentum=max_momentum,
        fixed_step=rule.is_fixed,
    )
    schedule = MixtureSteps(
        n_steps=n_steps,
        steps_a_call=steps_a_call,
        # the next call goes on from an answer, and answers are averaged
        averaged=1 if calls.n_calls > 1 else max(1, round(parameters.averaging * steps_a_call)),
        aim=0.0 if rule.is_fixed else rule.aim,
        step_share=by_loss(problem.loss).step_share,
        step_size=rule.step_size,
        longest_step=rule.longest_step,
        max_momentum=max_momentum,
        gradient_diameter=rule.sums.gradient_diameter,
        ceiling=rule.ceiling,
        grid=rule.sums.grid,
    )
    return MixturePlan(
        solver="mgr",
        problem=problem,
        calls=calls,
        release=calls.release(GRADIENT, steps_a_call),
        schedule=schedule,
        bounds=tuple(float(bound) for bound in bounds),
        averaged=max(1, round(parameters.averaging * calls.n_calls)),
        seconds=predict_seconds(
            problem, n_steps, n_draws=n_steps, n_coordinates=n_steps * problem.n_weights
        ),
    )


def _gradient_variances(problem: Problem, rule: StepRule, calls: Calls) -> FloatArray:
    """Return the variance of the mean gradient of all steps, if all weight is on a group."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
    of_coordinate = rule.problem.gradient_diameter / (sizes * calls.mu)
    return np.asarray(problem.n_weights * of_coordinate**2 / calls.n_calls)


def run_call(
    plan: MixturePlan,
    group_weights: FloatArray,
    center: FloatArray,
    data: Risks,
    noise: NoiseSource,
) -> FloatArray:
    """Take the steps of a call from the centre; return the average of its last iterates."""
    schedule, problem = plan.schedule, plan.problem
    assert isinstance(schedule, MixtureSteps)
    unit = 1.0
    if isinstance(problem, CentredProblem):
        unit = problem.clip / largest_clip(problem.loss)
    weights, ball = center, HeavyBall(schedule, len(center))
    total = np.zeros_like(center)
    for t in range(schedule.steps_a_call):
        gradient, noise_std = gradient_of_mixture(
            data,
            weights,
            group_weights,
            gradient_diameter=schedule.gradient_diameter,
            ceiling=schedule.ceiling,
            grid=schedule.grid,
            unit=unit,
            noise=noise,
            release=plan.release,
        )
        weights = project_to_ball(weights + ball.push(gradient, noise_std), problem.radius)
        if t >= schedule.steps_a_call - schedule.averaged:
            total += weights
    return total / schedule.averaged


class MGR(MGRParameters, MixtureSolver):
    """Noisy gradient descent with multiplicative group reweighting, on all records or batches.

    Every step takes a noisy gradient of the group-weighted risk, moves the weights within their
    ball, and raises the weights of groups whose noisy risks are high. ``None`` means planned
    from public facts.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: as many as `max_passes` and `max_seconds` allow.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rates and noise from Zhou and Bassily's Theorems 9 and 10 with
        their constants set to 1 (the noise's larger where 1 would break the budget): the gradient
        of one group, drawn from the group weights, Laplace noise on the risks, a uniform prior.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    group_rate : float, optional
        Step size η_λ of the group weights, positive: Hedge at this rate. Planned: by the spread of
        the released risks, and weight on a group has to make up for the noise that it brings.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: 2.16
        times the largest loss of a model that predicts nothing, and three times that once released
        risks show that it hides a group; for the squared error as much as that largest loss, or
        six times the mean released loss where it is less. Infinity: no ceiling.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a share
        of the radius.
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.
    averaging : float, default=2/3
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, default=150
        Largest number of passes over the rows that a planned `n_steps` may use; batches may take no
        longer than so many passes either.
    max_seconds : float, optional
        Largest predicted time of a fit's steps and calibration, in seconds on two cores with secure
        noise. What is predicted follows from public facts, and is no clock.
    sampling_rate : float or sequence of float, optional
        Probability with which a record joins a step, the same for all groups or one for each in
        the order of the group labels: Poisson batches. 1 reads every record in every step.
        Planned: 1, unless the bound of batches is clearly less within the same time, as it is
        for some hundred thousand records or a small `max_seconds`.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for a log loss or the squared error with an intercept, where steps
        are planned.

    Notes
    -----
    A record of group i moves the weighted gradient by at most λ_i Γ/n_i and the clipped risk of
    its own group by at most b/n_i, so each step releases a gradient with noise
    ``z_w Γ max_i λ_i/n_i`` and risks with noise ``z_λ b/n_i``, for multipliers z fixed in
    advance; the step sizes follow earlier releases. `docs/theory/mgr.md` proves each.

    On batches a step releases both together. A record that may join or not counts with the norm of
    its gradient, at most L, in place of a distance, and every group pays at its own rate, whether
    or not any of its records joined. Sums are divided by the expected size of a batch.

    For smooth losses steps begin up to 8/H long, shrink towards 1/H where released gradients show
    that they are too long, and momentum stands in for longer ones (`HeavyBall`). A loss that is
    not smooth takes plain steps, none longer than ``aim/(L √T)``, the best without noise.

    The default of `aim` is the middle of a flat minimum over six classification and two regression
    data sets (``benchmarks/mgr_defaults.py`` prints it, with those of `averaging` and
    `max_passes`).

    References
    ----------
    Zhou and Bassily (2024), Algorithm 3, Theorems 9 and 10.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import MGR
    >>> MGR(n_steps=50)
    MGR(n_steps=50)
    """

    name: ClassVar[str] = "mgr"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        """Refuse what is not proved, or not fixed before counts are released."""
        reason = ""
        if self.schedule == "paper":
            reason = "schedule='planned', got 'paper'"
        elif len(set(np.ravel(np.asarray(self.sampling_rate, dtype=object)))) > 1:
            reason = f"one sampling_rate for all groups, got {self.sampling_rate!r}"
        if reason:
            raise ValueError(f"solver 'mgr' with neighbours='replace-any' needs {reason}.")

    def for_persons(self) -> MGR:
        """Return one that plans full passes, where `sampling_rate` is open."""
        if self.schedule == "paper" or self.sampling_rate is not None:
            return self
        found = copy(self)
        found.sampling_rate = 1.0
        return found

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, max_passes=self.max_passes)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, MGRSchedule)
        release = releases.from_pass if schedule.batches is None else releases.from_batch
        weights, log_group_weights = _first_weights(problem, schedule, start)
        centring, unit = None, 1.0
        if schedule.is_centred:
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, unit = centring.view(data), centring.clip / largest_clip(problem.loss)
            weights = centring.to_centred(weights, problem)
        following = _limits_of_run(schedule, problem)
        gradient_noise = unit * schedule.gradient_noise(problem)
        players = GroupWeights(schedule, log_group_weights, gradient_noise)
        ball = HeavyBall(schedule, len(weights))
        shrinkage = Shrinkage(problem.constants.zero_score, problem.n_groups)
        weights_sum, group_weights_sum = np.zeros_like(weights), np.zeros(problem.n_groups)
        if schedule.averaged > schedule.n_steps:
            weights_sum, group_weights_sum = weights.copy(), players.current.copy()
        for t in range(schedule.n_steps):
            limits = following.limits(unit)
            released = release(plan, data, weights, players.current, noise, limits)
            move = ball.push(released.gradient, released.noise_std)
            weights = project_to_ball(weights + move, problem.radius)
            feedback = released.risks, released.risk_variances, players.current
            following.push(*feedback)
            if problem.n_groups > 1 and following.is_heard:
                players.push(released.risks, released.risk_variances)
            # after the step, so that the last releases count too
            if t >= schedule.n_steps - schedule.averaged:
                weights_sum += weights
                group_weights_sum += players.current
                if schedule.shrinks and following.is_heard:
                    shrinkage.push(*feedback)
        learned = weights_sum / schedule.averaged
        if schedule.shrinks and start is None:
            learned *= shrinkage.kept
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, group_weights_sum / schedule.averaged, schedule.n_steps)

    def _set_by_caller(self) -> dict[str, tuple[object, ...]]:
        return SET_BY_CALLER

    def mixture_problem(self, problem: Problem) -> Problem:
        return learned_problem(problem, self)

    def numbers_of_calls(self, problem: Problem) -> tuple[int, ...]:
        return numbers_of_calls(self)

    def plan_mixture(self, problem: Problem, calls: Calls) -> MixturePlan:
        return plan_of_calls(problem, calls, self)

    def run_mixture(
        self,
        plan: MixturePlan,
        group_weights: FloatArray,
        center: FloatArray,
        data: Risks,
        noise: NoiseSource,
        *,
        call: int,
        risks: FloatArray | None = None,
    ) -> FloatArray:
        return run_call(plan, group_weights, center, data, noise)


def _limits_of_run(schedule: MGRSchedule, problem: Problem) -> PlannedLimits:
    """Return what sets the limits of each step."""
    if schedule.follows_level:
        return LossLevel(schedule, problem)
    return HiddenLosses(schedule) if schedule.may_raise else PlannedLimits(schedule)


def _first_weights(
    problem: Problem, schedule: MGRSchedule, start: Solution | None
) -> tuple[FloatArray, FloatArray]:
    """Return the weights and the logarithms of the group weights that a run starts with."""
    weights, log_group_weights = np.zeros(problem.n_weights), np.log(np.asarray(schedule.prior))
    if start is not None:
        weights = project_to_ball(start.weights, problem.radius)
        if start.group_weights is not None:
            log_group_weights = np.log(np.maximum(start.group_weights, 1e-300))
    return weights, log_group_weights
