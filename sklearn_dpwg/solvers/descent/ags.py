"""Noisy gradient descent on the group that looks worst off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, Rules, any_number, one_of, positive, share, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.solvers.descent import releases
from sklearn_dpwg.solvers.descent.releases import AGS_GRADIENT, RISKS
from sklearn_dpwg.solvers.descent.schedule import AGSSchedule
from sklearn_dpwg.solvers.plan import Plan, first_of_least, predict_seconds
from sklearn_dpwg.solvers.solver import Solution, Solver, by_loss
from sklearn_dpwg.solvers.steps import HeavyBall, loss_ceiling
from sklearn_dpwg.solvers.sums import SumSensitivity

# Parameters of the solver with active group selection, and what each may be.


@dataclass(eq=False, repr=False)
class AGSParameters:
    """Parameters of `AGS`, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    selection: Literal["smoothed", "latest"] = "smoothed"
    visits: int | None = None
    schedule: Literal["planned", "paper"] = "planned"
    sharpness: float | None = None
    risk_share: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    step_size: float | None = None
    averaging: float = 2 / 3
    max_passes: int = 150


RULES = Rules(
    "AGS",
    n_steps=whole(or_none=True),
    visits=whole(or_none=True),
    max_passes=whole(),
    selection=one_of("smoothed", "latest"),
    schedule=one_of("planned", "paper"),
    sharpness=positive(or_infinite=True, or_none=True),
    risk_share=share(or_none=True),
    loss_ceiling=any_number(or_none=True),
    aim=positive(),
    step_size=positive(or_none=True),
    averaging=share(or_all=True),
)


# Plans of least planning bound, calibrated to a budget.

# Heavy-ball momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# For predicting time: what a fit plans, and what a step takes on top of its pass and its noise.
SECONDS_TO_PLAN, SECONDS_TO_PLAN_A_GROUP, SECONDS_A_STEP = 0.02, 1e-5, 2e-4

# A planned θ is at most the first where risks are smoothed, as a running mean lags behind what it
# is the mean of, which no bound here knows (benchmarks/ags.py sharpness); and else at most the
# second, beyond which no group is handicapped by anything that matters.
SHARPEST_OF_MEANS, SHARPEST = 10.0, 1e6

# Shares of μ² for the risks by which so many numbers of steps are compared.
SHARES, N_TRIED = (0.03, 0.1, 0.3, 0.6), 30


@dataclass(frozen=True)
class Course:
    """Steps, visits and limits of a run; the bound follows once the share of the risks is known."""

    problem: Problem
    mu: float  # of the budget
    parameters: AGSParameters  # what was asked for
    n_steps: int  # steps T
    visits: int  # largest number V of steps that take any one group

    @classmethod
    def of(cls, problem: Problem, mu: float, parameters: AGSParameters, n_steps: int) -> Course:
        """Return a run of at most so many steps, fewer where all groups run out of visits."""
        most = n_steps if parameters.visits is None else parameters.visits
        n_steps = min(n_steps, most * problem.n_groups)
        return cls(problem, mu, parameters, n_steps, min(most, n_steps))

    @property
    def ceiling(self) -> float:
        """What a record's loss counts for at most."""
        return loss_ceiling(self.problem, self.parameters.loss_ceiling, "AGS")

    @cached_property
    def sums(self) -> SumSensitivity:
        """What one record moves of the sums."""
        return SumSensitivity.of(self.problem, ceiling=self.ceiling)

    @property
    def memory(self) -> int:
        """How many steps the mean of the released risks runs over."""
        return self.n_steps if self.parameters.selection == "smoothed" else 1

    @property
    def aim(self) -> float:
        """Distance from the first weights that step sizes are planned for."""
        return self.parameters.aim * self.problem.radius

    @property
    def longest_step(self) -> float:
        """Longest plain step: 1/H, or the best without noise where a loss is not smooth."""
        if self.parameters.step_size is not None:
            return self.parameters.step_size
        if math.isinf(self.problem.smoothness):
            return self.aim / (self.problem.lipschitz * math.sqrt(self.n_steps))
        return 1.0 / self.problem.smoothness

    @property
    def max_momentum(self) -> float:
        """Largest momentum."""
        if self.parameters.step_size is not None or math.isinf(self.problem.smoothness):
            return 0.0
        return max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * self.n_steps))

    def of_weights(self, share: float) -> FloatArray:
        """Return the part of the bound that is the weights', for each group as the worst off."""
        sizes = np.asarray(self.problem.group_sizes, dtype=float)
        of_sum = math.sqrt(self.visits / (1.0 - share)) * self.sums.gradient_diameter
        std = of_sum / (sizes * self.mu)
        reach = self.n_steps * self.longest_step / (1.0 - self.max_momentum)
        planned = by_loss(self.problem.loss).step_share * self.aim * math.sqrt(self.n_steps) / std
        total = np.minimum(planned, reach)
        if self.parameters.step_size is not None:
            total = np.full_like(std, reach)
        square = self.problem.n_weights * std**2
        if math.isinf(self.problem.smoothness):
            square = square + self.problem.lipschitz**2
        return np.asarray(self.aim**2 / (2.0 * total) + total * square / (2.0 * self.n_steps))

    def risk_variances(self, share: float) -> FloatArray:
        """Return the variance of the noise on what groups are taken by."""
        sizes = np.asarray(self.problem.group_sizes, dtype=float)
        stds = self.sums.loss_range * math.sqrt(self.n_steps / share) / (sizes * self.mu)
        return np.asarray(stds**2 / self.memory)

    def of_choice(self, share: float, sharpness: float) -> FloatArray:
        """Return the part that is the choice's: log(1/π_i)/θ + log Σ_j π_j exp(θ² v_j/2) / θ."""
        return _of_choice(np.asarray(self.problem.prior), self.risk_variances(share), sharpness)

    def sharpness(self, share: float) -> float:
        """Return θ of the user, or that of the least prior average of the bound."""
        if self.parameters.sharpness is not None:
            return min(self.parameters.sharpness, SHARPEST)
        if self.problem.n_groups == 1:
            return SHARPEST
        most = SHARPEST_OF_MEANS if self.parameters.selection == "smoothed" else SHARPEST
        prior, variances = np.asarray(self.problem.prior), self.risk_variances(share)
        found = minimize_scalar(
            lambda at: float(prior @ _of_choice(prior, variances, math.exp(at))),
            bounds=(math.log(1e-6), math.log(most)),
            method="bounded",
        )
        return math.exp(found.x)

    def bound(self, share: float) -> FloatArray:
        """Return the planning bound for each group as the worst-off one."""
        if self.problem.n_groups == 1:
            return self.of_weights(0.0)
        return self.of_weights(share) + self.of_choice(share, self.sharpness(share))

    @cached_property
    def best_share(self) -> float:
        """Share of μ² for the group risks: what the user set, or that of the least bound."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.risk_share is not None:
            return self.parameters.risk_share
        found = minimize_scalar(self._excess, bounds=(1e-3, 0.9), method="bounded")
        return float(found.x)

    def _excess(self, share: float) -> float:
        return float(np.asarray(self.problem.prior) @ self.bound(share))

    @property
    def excess(self) -> float:
        """Prior average of the planning bound, nearly, by which numbers of steps are compared."""
        return min(map(self._excess, SHARES))


def _of_choice(prior: FloatArray, variances: FloatArray, sharpness: float) -> FloatArray:
    logs = np.log(prior)
    exponents = logs + sharpness**2 * variances / 2.0
    most = exponents.max()
    return np.asarray((most + math.log(np.exp(exponents - most).sum()) - logs) / sharpness)


def least_bound_plan(problem: Problem, budget: Budget, parameters: AGSParameters) -> Plan:
    """Plan by minimising the bound over whatever the parameters leave open."""
    most = parameters.max_passes
    numbers = [most]  # where risks are smoothed the bound knows no price of a step
    if parameters.n_steps is not None:
        numbers = [parameters.n_steps]
    elif parameters.selection == "latest":
        numbers = sorted({round(float(number)) for number in np.geomspace(1, most, N_TRIED)})
    courses = [Course.of(problem, budget.mu, parameters, number) for number in numbers]
    course = first_of_least(courses, lambda each: each.excess)
    share, n_steps, visits = course.best_share, course.n_steps, course.visits
    some = visits if visits < n_steps else None
    wanted = math.sqrt(visits / (1.0 - share))
    releases = [Release(AGS_GRADIENT, "gaussian", wanted, n_steps, draws_per_record=some)]
    if problem.n_groups > 1:
        releases.append(Release(RISKS, "gaussian", math.sqrt(n_steps / share), n_steps))
    calibrated = calibrate(releases, budget)
    is_fixed = parameters.step_size is not None
    schedule = AGSSchedule(
        n_steps=n_steps,
        visits=visits,
        memory=course.memory,
        sharpness=math.inf if parameters.sharpness == math.inf else course.sharpness(share),
        prior=problem.prior,
        gradient_multiplier=calibrated[0].noise_multiplier,
        risk_multiplier=calibrated[1].noise_multiplier if problem.n_groups > 1 else 0.0,
        gradient_diameter=course.sums.gradient_diameter,
        ceiling=course.ceiling,
        feedback_range=course.sums.loss_range,
        grid=course.sums.grid,
        aim=0.0 if is_fixed else course.aim,
        step_size=course.longest_step,
        longest_step=course.longest_step,
        max_momentum=course.max_momentum,
        averaged=max(1, round(parameters.averaging * n_steps)),
        step_share=by_loss(problem.loss).step_share,
    )
    return plan_of_schedule(problem, budget, calibrated, schedule, course.bound(share))


def plan_of_schedule(
    problem: Problem,
    budget: Budget,
    releases: Sequence[Release],
    schedule: AGSSchedule,
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule."""
    n_steps, several = schedule.n_steps, problem.n_groups > 1
    n_coordinates = problem.n_weights + (problem.n_groups if several else 0)
    seconds = predict_seconds(
        problem, n_steps, n_draws=n_steps * (1 + several), n_coordinates=n_steps * n_coordinates
    )
    return Plan.of(
        "ags",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_steps,
        seconds=seconds + n_steps * SECONDS_A_STEP,
        seconds_to_plan=SECONDS_TO_PLAN + problem.n_groups * SECONDS_TO_PLAN_A_GROUP,
    )


# Plan with steps, rate and noise as in Zhou and Bassily's theorems.


def paper_plan(problem: Problem, budget: Budget, *, max_passes: int) -> Plan:
    """Plan with the paper's formulas, at most `max_passes` steps, and account for them exactly.

    The constant of both noises is 1, or the least that exact accounting allows;
    docs/theory/ags.md, section 5, has the formulas. (Zhou and Bassily 2024, Theorems 13 and 14)
    """
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    lipschitz, loss_range, diameter = problem.lipschitz, problem.loss_range, problem.diameter
    log_delta = math.log(1.0 / budget.delta)
    scale = n * budget.epsilon
    steps = diameter * lipschitz * scale / (16.0 * loss_range * math.sqrt(log_delta))
    n_steps = max(1, min(max_passes, math.floor(steps)))
    sigma = lipschitz * math.sqrt(n_steps * math.log(n * p / budget.delta) * log_delta) / scale
    tau = loss_range * math.sqrt(n_steps * log_delta) / scale
    # σ and τ are those of the smallest group; a larger one needs less in proportion to its size
    sums = SumSensitivity.of(problem, ceiling=problem.constants.supremum)
    releases: Sequence[Release] = [
        Release(AGS_GRADIENT, "gaussian", sigma * n / sums.gradient_diameter, n_steps)
    ]
    if p > 1:
        releases = [*releases, Release(RISKS, "laplace", tau * n / sums.loss_range, n_steps)]
    true_epsilon = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
    constant = 1.0
    if true_epsilon > budget.epsilon:
        affordable = calibrate(releases, budget)
        constant = affordable[0].noise_multiplier / releases[0].noise_multiplier
        releases, sigma, tau = affordable, sigma * constant, tau * constant
    step_size = diameter / math.sqrt(n_steps * (lipschitz**2 + d * sigma**2))
    schedule = AGSSchedule(
        n_steps=n_steps,
        visits=n_steps,
        memory=1,
        sharpness=math.inf,
        prior=(1.0 / p,) * p,
        gradient_multiplier=releases[0].noise_multiplier,
        risk_multiplier=releases[1].noise_multiplier if p > 1 else 0.0,
        gradient_diameter=sums.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        aim=0.0,
        step_size=step_size,
        longest_step=step_size,
        max_momentum=0.0,
        averaged=n_steps,
        step_share=1.0,
        remark=(
            f"the paper's noise with constant 1 costs epsilon = {true_epsilon:.4g}; "
            f"constant used: {constant:.4g}"
        ),
    )
    # the bound in the proof of Theorem 14: regret, and twice the largest noise on a risk
    excess = diameter * math.sqrt((lipschitz**2 + d * sigma**2) / n_steps)
    if p > 1:
        excess += 16.0 * tau * math.log(p * n * n_steps / 2.0)
    return plan_of_schedule(problem, budget, releases, schedule, np.full(p, excess))


class AGS(AGSParameters, Solver):
    """Noisy gradient descent on the group that looks worst off, by released risks.

    Every step releases the risks of all groups with noise, takes the group that looks worst off,
    and moves the weights against the noisy gradient of that group alone. ``None`` means planned
    from public facts. Measured, it is nowhere better than `MGR` (``benchmarks/ags.py``); it is
    here as the paper's.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: that of the least bound, at most `max_passes`. No more than
        `visits` times the number of groups are taken.
    selection : {"smoothed", "latest"}, default="smoothed"
        Whether the group is taken by the running mean of all released risks or, as in the paper,
        by the last ones alone.
    visits : int, optional
        Largest number V of steps that take any one group. A record pays for the gradients of its
        own group alone, so noise on these is that of V draws. Planned: T, as fewer would forbid
        what one group that is always the worst off needs.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rate and noise from Zhou and Bassily's Theorems 13 and 14 with their
        constant set to 1 (the noise's larger where 1 would break the budget), the last risks with
        Laplace noise, no handicap and the average of all iterates.
    sharpness : float, optional
        θ: a group of prior weight π_i is taken as if its risk were smaller by ``log(1/π_i)/θ``;
        infinity leaves that out. Planned: the least of the planning bound.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: as `MGR`'s.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a share
        of the radius.
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.
    averaging : float, default=2/3
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, default=150
        Largest number of steps, of one pass over the rows each.

    Notes
    -----
    A record moves the vector of the group risks in one coordinate, and the gradient only in steps
    that take its group, at most V. Which group a step takes follows from earlier releases, so
    μ² = V/z_w² + T/z_λ² exactly. The noise source is told whose gradient it is and refuses the
    group's draw V + 1. `docs/theory/ags.md` proves this.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 5, Theorems 13 and 14.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import AGS
    >>> AGS(n_steps=50, visits=25)
    AGS(n_steps=50, visits=25)
    """

    name: ClassVar[str] = "ags"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, max_passes=self.max_passes)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, AGSSchedule)
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        choice = GroupChoice(schedule)
        ball, total = HeavyBall(schedule, len(weights)), np.zeros_like(weights)
        for t in range(schedule.n_steps):
            released = releases.ags_from_pass(plan, data, weights, choice.take, noise)
            move = ball.push(released.gradient, released.noise_std)
            weights = project_to_ball(weights + move, problem.radius)
            if t >= schedule.n_steps - schedule.averaged:
                total += weights
        return Solution(total / schedule.averaged, choice.shares, schedule.n_steps)


class GroupChoice:
    """The group that each step takes, from released risks and public facts alone."""

    def __init__(self, schedule: AGSSchedule) -> None:
        self._memory, self._most = schedule.memory, schedule.visits
        self._handicap = -np.log(np.asarray(schedule.prior)) / schedule.sharpness
        self._mean = np.zeros(len(schedule.prior))
        self._n_heard = 0
        self.visits = np.zeros(len(schedule.prior), dtype=int)

    def take(self, risks: FloatArray) -> int:
        """Return the group that a step with these released risks takes.

        It is that of the largest mean among the groups that may still be taken, or of equals the
        first.
        """
        self._n_heard += 1
        self._mean = self._mean + (risks - self._mean) / min(self._n_heard, self._memory)
        score = np.where(self.visits < self._most, self._mean - self._handicap, -np.inf)
        group = int(np.argmax(score))
        self.visits[group] += 1
        return group

    @property
    def shares(self) -> FloatArray:
        """Return the share of the steps that each group was taken in."""
        return np.asarray(self.visits / self.visits.sum())
