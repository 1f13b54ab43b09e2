"""Noisy gradient descent–ascent."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import (
    FloatArray,
    Rules,
    any_number,
    at_least_zero,
    flag,
    one_of,
    positive,
    share,
    whole,
)
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.optimum.minimax import (
    Regulariser,
    StronglyConvexSteps,
    descent_ascent,
    project_to_simplex,
)
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.solvers.centring import (
    CentredProblem,
    centred_problem,
    centring_releases,
    check_centring,
    in_words,
    is_worth_centring,
    largest_clip,
    least_unit,
    release_centre,
)
from sklearn_dpwg.solvers.descent.releases import GRADIENT, RISKS, GroupGame
from sklearn_dpwg.solvers.descent.schedule import GDASchedule
from sklearn_dpwg.solvers.plan import Plan, predict_seconds
from sklearn_dpwg.solvers.solver import Solution, Solver, by_loss
from sklearn_dpwg.solvers.steps import HeavyBall, loss_ceiling, risk_spread
from sklearn_dpwg.solvers.sums import SumSensitivity

# Parameters of the descent–ascent solver, and what each may be.


@dataclass(eq=False, repr=False)
class GDAParameters:
    """Parameters of `GDA`, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    weight_ridge: float | None = None
    group_ridge: float | None = None
    risk_share: float | None = None
    group_step: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    averaging: float = 2 / 3
    max_passes: int = 150
    centring: bool | None = None


def _paper_is_as_written(parameters: GDAParameters) -> None:
    """Refuse what the paper's schedule fixes."""
    if parameters.schedule != "paper":
        return
    for name in ("risk_share", "group_step", "loss_ceiling", "centring"):
        value = getattr(parameters, name)
        if value is not None and value is not False:
            raise ValueError(
                f"{name} of GDA must be None with schedule='paper', which fixes it, got {value!r}."
            )
    both = parameters.weight_ridge, parameters.group_ridge
    if both[0] is not None and both[1] is not None and both[0] != both[1]:
        raise ValueError(
            f"weight_ridge and group_ridge of GDA must be the same with schedule='paper', which "
            f"has one strength for both players, got {both[0]!r} and {both[1]!r}."
        )
    if 0.0 in both:
        raise ValueError(
            f"weight_ridge and group_ridge of GDA must be positive with schedule='paper', whose "
            f"steps are 1/(ridge t), got {both[0]!r} and {both[1]!r}."
        )


RULES = Rules(
    "GDA",
    _paper_is_as_written,
    n_steps=whole(or_none=True),
    max_passes=whole(),
    weight_ridge=at_least_zero(or_none=True),
    group_ridge=at_least_zero(or_none=True),
    group_step=positive(or_none=True),
    aim=positive(),
    risk_share=share(or_none=True),
    averaging=share(or_all=True),
    loss_ceiling=any_number(or_none=True),
    centring=flag(or_none=True),
    schedule=one_of("planned", "paper"),
)


# Plans of least planning bound, calibrated to a budget.

# As in the solver with multiplicative weights: momentum remembers at most a fifth of the run, and
# steps of a smooth loss begin at most this many times as long as is safe for every data set.
LONGEST_MEMORY, BOLDNESS = 0.2, 8.0

# For predicting time: what a step takes on top of its pass, whatever the records.
SECONDS_A_STEP = 4e-4


@dataclass(frozen=True)
class StepRule:
    """Steps and their limits before the noise is known, and the bound once it is."""

    problem: Problem  # public facts of what is learned on: centred rows, where rows are centred
    parameters: GDAParameters  # what the user set
    n_steps: int  # steps T
    sums: SumSensitivity  # what one record moves of the sums
    ceiling: float  # a record's loss counts for at most this much in the group risks

    @property
    def aim(self) -> float:
        """Norm of the weights that step sizes are planned for."""
        return self.parameters.aim * self.problem.radius

    @property
    def step_size(self) -> float:
        """Longest plain step that is safe for every data set.

        For a loss that is not smooth, the best step without noise; both players' curvature counts.
        """
        ridge = self.parameters.weight_ridge or 0.0
        if math.isinf(self.problem.smoothness):
            return self.aim / (
                (self.problem.lipschitz + ridge * self.aim) * math.sqrt(self.n_steps)
            )
        return 1.0 / (self.problem.smoothness + ridge)

    @property
    def longest_step(self) -> float:
        """Longest plain step that is tried."""
        return self.step_size * (1.0 if math.isinf(self.problem.smoothness) else BOLDNESS)

    @property
    def max_momentum(self) -> float:
        """Largest momentum; none where the loss is not smooth, as it would rest on 1/H."""
        if math.isinf(self.problem.smoothness):
            return 0.0
        return max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * self.n_steps))

    def stds(self, mu: float, risk_share: float) -> tuple[FloatArray, FloatArray]:
        """Return the noise of a step's gradient, all weight on one group, and of its risks."""
        unit = math.sqrt(self.n_steps) / (mu * np.asarray(self.problem.group_sizes, dtype=float))
        of_gradient = unit * self.problem.gradient_diameter / math.sqrt(1.0 - risk_share)
        if self.problem.n_groups == 1:
            return of_gradient, np.zeros(1)
        return of_gradient, unit * self.sums.loss_range / math.sqrt(risk_share)

    def spread(self, risk_stds: FloatArray) -> float:
        """Return the square of a step's group gradient that counts: what groups differ by."""
        return self.problem.n_groups * risk_spread(self.problem) ** 2 + float(risk_stds @ risk_stds)

    def group_step(self, risk_stds: FloatArray) -> float:
        """Return the step of least regret of the group weights, or what the user set."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.group_step is not None:
            return self.parameters.group_step
        prior = np.asarray(self.problem.prior)
        return math.sqrt((1.0 - prior @ prior) / (self.n_steps * self.spread(risk_stds)))

    def bound(self, gradient_stds: FloatArray, risk_stds: FloatArray) -> FloatArray:
        """Return the planning bound for each group as the worst-off one: the regrets of both.

        For group i it is ``aim²/(2τ) + τ d s_i²/(2T)`` with τ the total step as planned, as far as
        steps reach, plus ``‖e_i - π‖²/(2ηT) + η (p q² + Σ_j s_j²)/2`` with the step η and the
        assumed spread q, and the bias of the regularisers.
        """
        problem, parameters, n_steps = self.problem, self.parameters, self.n_steps
        reach = n_steps * self.longest_step / (1.0 - self.max_momentum)
        mean_std = gradient_stds / math.sqrt(n_steps)
        total = np.minimum(by_loss(problem.loss).step_share * self.aim / mean_std, reach)
        bound = self.aim**2 / (2.0 * total) + total * problem.n_weights * mean_std**2 / 2.0
        if math.isinf(problem.smoothness):
            bound += total * problem.lipschitz**2 / (2.0 * n_steps)
        bound += (parameters.weight_ridge or 0.0) * self.aim**2 / 2.0
        if problem.n_groups > 1:
            prior = np.asarray(problem.prior)
            distance = 1.0 - 2.0 * prior + prior @ prior
            step = self.group_step(risk_stds)
            bound += distance / (2.0 * step * n_steps) + step * self.spread(risk_stds) / 2.0
            bound += (parameters.group_ridge or 0.0) * distance / 2.0
        return np.asarray(bound)

    def best_share(self, mu: float) -> float:
        """Return the share of the budget for the group risks: what the user set, or the best."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.risk_share is not None:
            return self.parameters.risk_share
        prior = np.asarray(self.problem.prior)
        found = minimize_scalar(
            lambda share: float(prior @ self.bound(*self.stds(mu, share))),
            bounds=(1e-3, 0.5),
            method="bounded",
        )
        return float(found.x)


def least_bound_plan(problem: Problem, budget: Budget, parameters: GDAParameters) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the parameters leave open."""
    learned = problem
    if _is_centred(problem, parameters):
        learned = centred_problem(problem, unit=least_unit(problem.loss))
    n_steps = parameters.max_passes if parameters.n_steps is None else parameters.n_steps
    ceiling = loss_ceiling(learned, parameters.loss_ceiling, "GDA")
    rule = StepRule(
        learned, parameters, n_steps, SumSensitivity.of(learned, ceiling=ceiling), ceiling
    )
    before = centring_releases(math.sqrt(n_steps)) if isinstance(learned, CentredProblem) else ()
    left = 1.0 - sum(1.0 / release.noise_multiplier**2 for release in before) / n_steps
    mu = math.sqrt(left) * budget.mu
    risk_share = rule.best_share(mu)
    releases = [Release(GRADIENT, "gaussian", 1.0 / math.sqrt(left * (1.0 - risk_share)), n_steps)]
    if problem.n_groups > 1:
        releases.append(Release(RISKS, "gaussian", 1.0 / math.sqrt(left * risk_share), n_steps))
    calibrated = calibrate([*before, *releases], budget)
    gradient_stds, risk_stds = rule.stds(mu, risk_share)
    schedule = GDASchedule(
        n_steps=n_steps,
        gradient_multiplier=calibrated[len(before)].noise_multiplier,
        gradient_diameter=rule.sums.gradient_diameter,
        ceiling=ceiling,
        feedback_range=rule.sums.loss_range,
        grid=rule.sums.grid,
        prior=problem.prior,
        weight_ridge=parameters.weight_ridge or 0.0,
        group_ridge=parameters.group_ridge or 0.0,
        is_paper=False,
        group_step=rule.group_step(risk_stds),
        aim=rule.aim,
        step_size=rule.step_size,
        longest_step=rule.longest_step,
        max_momentum=rule.max_momentum,
        step_share=by_loss(learned.loss).step_share,
        first_averaged=n_steps + 2 - max(1, round(parameters.averaging * n_steps)),
        last_averaged=n_steps + 1,
        centring=in_words(learned.loss) if isinstance(learned, CentredProblem) else "",
    )
    return plan_of_schedule(
        problem, budget, calibrated, schedule, rule.bound(gradient_stds, risk_stds)
    )


def _is_centred(problem: Problem, parameters: GDAParameters) -> bool:
    """Return whether rows are centred: as asked for, or where it is worth its price."""
    if parameters.centring:
        check_centring(problem, "GDA")
    return is_worth_centring(problem) if parameters.centring is None else parameters.centring


def plan_of_schedule(
    problem: Problem,
    budget: Budget,
    releases: tuple[Release, ...],
    schedule: GDASchedule,
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule."""
    n_steps, has_risks = schedule.n_steps, problem.n_groups > 1
    return Plan.of(
        "gda",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_steps,
        seconds=n_steps * SECONDS_A_STEP
        + predict_seconds(
            problem,
            n_steps,
            n_draws=n_steps * (1 + has_risks),
            n_coordinates=n_steps * (problem.n_weights + has_risks * problem.n_groups),
        ),
    )


# Plan with steps, length and noise as Kang et al. have them.


def paper_plan(problem: Problem, budget: Budget, parameters: GDAParameters) -> Plan:
    """Plan with the paper's formulas, and the least constant that exact accounting allows.

    docs/theory/gda.md, section 4, has the formulas, and what the paper says otherwise. Its ρ is
    that of its losses, which it assumes strongly convex-concave. Ours are not, so ρ is added; where
    nobody sets it, it is the one of least bound (`strong_gap_bound`).
    """
    sizes = np.asarray(problem.group_sizes, dtype=float)
    n_records, smallest = problem.n_records, float(sizes.min())
    n_steps = math.ceil(n_records ** (2 / 3)) if parameters.n_steps is None else parameters.n_steps
    sums = SumSensitivity.of(problem, ceiling=problem.constants.supremum)
    # one standard deviation for both: multipliers in proportion to 1/Γ and 1/b
    wanted = [Release(GRADIENT, "gaussian", 1.0 / sums.gradient_diameter, n_steps)]
    if problem.n_groups > 1:
        wanted.append(Release(RISKS, "gaussian", 1.0 / sums.loss_range, n_steps))
    releases = calibrate(wanted, budget)
    sigma = releases[0].noise_multiplier * sums.gradient_diameter / smallest
    set_by_user = [
        each for each in (parameters.weight_ridge, parameters.group_ridge) if each is not None
    ]
    ridge = set_by_user[0] if set_by_user else best_ridge(problem, n_steps, sigma)
    lipschitz = max(
        n_records / smallest * problem.lipschitz + problem.diameter * ridge,
        n_records / smallest * problem.loss_range + math.sqrt(2.0) * ridge,
    )
    with_constant_1 = (
        lipschitz * math.sqrt(n_steps * math.log(1.0 / budget.delta)) / (n_records * budget.epsilon)
    )
    schedule = GDASchedule(
        n_steps=n_steps,
        gradient_multiplier=releases[0].noise_multiplier,
        gradient_diameter=sums.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=sums.loss_range,
        grid=sums.grid,
        prior=(1.0 / problem.n_groups,) * problem.n_groups,
        weight_ridge=ridge,
        group_ridge=ridge,
        is_paper=True,
        group_step=0.0,
        aim=0.0,
        step_size=1.0 / ridge,
        longest_step=1.0 / ridge,
        max_momentum=0.0,
        step_share=0.0,
        first_averaged=1,
        last_averaged=n_steps,
        remark=(
            f"the paper's noise for both players, {sigma:.3g} a coordinate, with the least "
            f"constant that keeps the budget: {sigma / with_constant_1:.3g}"
        ),
    )
    bound = strong_gap_bound(problem, n_steps, sigma, ridge)
    return plan_of_schedule(problem, budget, releases, schedule, np.full(problem.n_groups, bound))


def strong_gap_bound(problem: Problem, n_steps: int, sigma: float, ridge: float) -> float:
    """Bound the expected strong gap of the group game, the regularisers' bias included.

    It is ``(1 + ln T)/(2 T ρ) [(L + 2Rρ)² + d σ² + (b√p/2 + √2 ρ)² + p σ²] + ρ R²/2 + ρ/2``: the
    regrets of both players with steps 1/(ρt), noise included, of which the projection onto the
    simplex sees no constant, so that losses count from the middle of their range.
    """
    p = problem.n_groups
    of_weights = (problem.lipschitz + problem.diameter * ridge) ** 2 + problem.n_weights * sigma**2
    of_groups = 0.0
    if p > 1:
        gradient = problem.loss_range * math.sqrt(p) / 2.0 + math.sqrt(2.0) * ridge
        of_groups = gradient**2 + p * sigma**2
    regret = (1.0 + math.log(n_steps)) / (2.0 * n_steps * ridge) * (of_weights + of_groups)
    return regret + ridge * problem.radius**2 / 2.0 + (ridge / 2.0 if p > 1 else 0.0)


def best_ridge(problem: Problem, n_steps: int, sigma: float) -> float:
    """Return the ρ of least bound."""
    found = minimize_scalar(
        lambda log_ridge: strong_gap_bound(problem, n_steps, sigma, math.exp(log_ridge)),
        bounds=(-30.0, 30.0),
        method="bounded",
    )
    return math.exp(float(found.x))


class GDA(GDAParameters, Solver):
    """Noisy gradient descent–ascent with Euclidean steps of the group weights.

    Every step takes noisy gradients of the group-weighted risk in the weights and in the group
    weights at one point, and moves both at once. It is `MGR` with projected steps in place of
    multiplicative ones, and with public regularisers. ``None`` means planned from public facts.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: `max_passes`, or ``⌈K^(2/3)⌉`` in the paper's schedule.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps 1/(ρt), T and noise from Kang et al., with the least constant that keeps
        the budget; it implies a uniform prior, plain averages, and no ceiling.
    weight_ridge : float, optional
        Strength ρ_w of the public ``ρ_w/2 ‖w - w₁‖²``; planned: 0, or the ρ of least bound in the
        paper's schedule, which has one for both players.
    group_ridge : float, optional
        Strength ρ_λ of the public ``-ρ_λ/2 ‖λ - π‖²``; planned: 0, or as `weight_ridge`.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    group_step : float, optional
        Step length of the group weights, positive; planned: by the noise on the risks and their
        assumed spread.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: a multiple of
        the largest loss of a model that predicts nothing. Infinity: no ceiling.
    aim : float, default=0.3
        Norm of the weights that step sizes are planned for, as a share of the radius.
    averaging : float, default=2/3
        Share of the points, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, default=150
        Number of passes over the rows, and so of steps, where `n_steps` is planned.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for a log loss or the squared error with an intercept.

    Notes
    -----
    A record of group i moves the weighted gradient by at most λ_i Γ/n_i and the clipped risk of
    its own group by at most b/n_i; regularisers are public and carry no noise. Step lengths follow
    earlier releases and public facts, multipliers are fixed. `docs/theory/gda.md` proves each.

    References
    ----------
    Kang, Liu, Li and Wang (2022), Stability and Generalization of Differentially Private Minimax
    Problems, Algorithm 1 and Theorem 1, whose accounting the note corrects.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import GDA
    >>> GDA(n_steps=50)
    GDA(n_steps=50)
    """

    name: ClassVar[str] = "gda"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, self)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, GDASchedule)
        weights, prior = np.zeros(problem.n_weights), np.asarray(schedule.prior)
        dual = prior
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
            if start.group_weights is not None:
                dual = project_to_simplex(start.group_weights)
        centring, unit = None, 1.0
        if schedule.is_centred:
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, unit = centring.view(data), centring.clip / largest_clip(problem.loss)
            weights = centring.to_centred(weights, problem)
        ridges = schedule.weight_ridge, schedule.group_ridge
        learned, group_weights = descent_ascent(
            GroupGame(plan, data, noise, unit=unit),
            StronglyConvexSteps(*ridges) if schedule.is_paper else _PlannedSteps(schedule, weights),
            weights,
            dual,
            regulariser=Regulariser(*ridges, center=weights, prior=prior),
            n_steps=schedule.n_steps,
            averaged=schedule.averaged,
        )
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, group_weights, schedule.n_steps)


class _PlannedSteps:
    """Heavy-ball steps of the weights, steps of one length of the group weights."""

    def __init__(self, schedule: GDASchedule, weights: FloatArray) -> None:
        self.ball, self.group_step = HeavyBall(schedule, len(weights)), schedule.group_step

    def push(
        self, step: int, slope: FloatArray, rise: FloatArray, noise_std: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the moves of both players."""
        return self.ball.push(slope, noise_std), self.group_step * rise
