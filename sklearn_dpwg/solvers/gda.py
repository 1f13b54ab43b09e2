"""Noisy gradient descent–ascent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, Rules, positive
from sklearn_dpwg._repr import documented
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.saddle_point import on_simplex
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.solvers import descent
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, effective_sample_size
from sklearn_dpwg.solvers.steps import Space, SumSensitivity, risk_spread


@documented(descent.SHARED_PARAMETERS)
@dataclass(eq=False, repr=False, kw_only=True)
class GDA(descent.Descent):
    """Noisy gradient descent–ascent with Euclidean steps of the group weights.

    Every step takes noisy gradients of the group-weighted risk in the weights and in the group
    weights at one point, and moves both at once: `MGR` with projected steps in place of
    multiplicative ones, for the papers' game on the records. ``None`` means planned.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: `max_passes`, or ``⌈K^(2/3)⌉`` in the paper's schedule, which
        releases T - 1.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps 1/(ρt), T and noise from Kang et al., with the least constant that keeps
        the budget; it implies a uniform prior, plain averages, and no clip.
    <shared>
    ridge : float, optional
        In the paper's schedule, strength ρ of the public ``ρ/2 ‖w - w₁‖²`` and
        ``-ρ/2 ‖λ - π‖²``, positive; planned: that of least bound.

    References
    ----------
    Kang, Liu, Li and Wang (2022), Stability and Generalization of Differentially Private Minimax
    Problems, Algorithm 1 and Theorem 1, whose accounting `docs/theory/gda.md` corrects.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import GDA
    >>> GDA(n_steps=50)
    GDA(n_steps=50)
    """

    ridge: float | None = None

    name: ClassVar[str] = "gda"
    set_by_paper: ClassVar[tuple[str, ...]] = ("risk_fraction", "loss_clip")
    rules: ClassVar[Rules] = Rules("GDA", **descent.RULES, ridge=positive(or_none=True))

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        return plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule = plan.schedule
        space = Space.of(plan, None, data, noise, start)
        weights, momentum = space.weights, descent.Momentum(schedule, plan.problem.n_weights)
        prior, loss_clip = np.asarray(schedule.prior), schedule.loss_clip
        start_mixture = None if start is None else start.group_weights
        mixture = on_simplex(prior if start_mixture is None else start_mixture)
        n_averaged = schedule.n_averaged
        # 1.0 where the average has one more point than there are steps: the first one
        counts_start = float(n_averaged > schedule.n_steps)
        weights_sum, mixture_sum = counts_start * weights, counts_start * mixture
        for t in range(1, schedule.n_steps + 1):
            released = descent.release_full_pass(plan, data, weights, mixture, noise, loss_clip)
            ascent = released.risks if len(mixture) > 1 else np.zeros(1)
            if schedule.ridge:
                # the regularisers are public, so their gradients need no noise
                gradient = released.gradient + schedule.ridge * (weights - space.weights)
                ascent = ascent + schedule.ridge * (prior - mixture)
                rate = schedule.ridge * t
                move, mixture_move = -gradient / rate, ascent / rate
            else:
                move = momentum.push(released.gradient, released.noise_std)
                mixture_move = schedule.group_step * ascent
            weights, mixture = space.project(weights + move), on_simplex(mixture + mixture_move)
            if t > schedule.n_steps - n_averaged:
                weights_sum, mixture_sum = weights_sum + weights, mixture_sum + mixture
        learned, group_weights = weights_sum / n_averaged, mixture_sum / n_averaged
        return Solution(learned, group_weights, n_iter=schedule.n_steps)


@dataclass(frozen=True, kw_only=True, repr=False)
class GDASchedule(descent.DescentSchedule):
    """Everything that `GDA.run` needs besides the records and the noise."""

    # strength ρ of the paper's public regularisers, whose steps are `1/(ρ t)`; 0 in planned runs
    ridge: float = 0.0
    group_step: float = 0.0  # step size η of the group weights in planned runs


class EuclideanRule(descent.StepRule):
    """Step sizes and planning bound with projected steps of the group weights."""

    def group_step(self, noise: descent.RunNoise) -> float:
        """Return the step size η of the group weights of least regret; 0 with one group."""
        if self.problem.n_groups == 1:
            return 0.0
        prior = np.asarray(self.problem.prior)
        return math.sqrt((1.0 - prior @ prior) / (self.n_steps * self._squared_norm(noise)))

    def _squared_norm(self, noise: descent.RunNoise) -> float:
        """Return the assumed squared norm of a step's risks around their mean, noise included."""
        of_spread = self.problem.n_groups * risk_spread(self.problem) ** 2
        return of_spread + self.n_steps * float(noise.risk.sum())

    def group_regret(self, noise: descent.RunNoise) -> FloatArray:
        """Return ``‖e_i - π‖²/(2ηT) + η s²/2`` for each group i, s² the `_squared_norm`."""
        prior = np.asarray(self.problem.prior)
        squared_distances, step = 1.0 - 2.0 * prior + prior @ prior, self.group_step(noise)
        start_regret = squared_distances / (2.0 * step * self.n_steps)
        return np.asarray(start_regret + step * self._squared_norm(noise) / 2.0)


def least_bound_plan(problem: Problem, budget: Budget, solver: GDA) -> Plan:
    """Plan with the noise and fractions of least bound, where the parameters are None."""
    n_steps = solver.n_steps or solver.max_passes or descent.PASSES
    rule = EuclideanRule(problem, solver, n_steps, effective_sample_size(problem, budget))
    releases, noise = descent.pay_for_passes(rule, budget)
    schedule = GDASchedule(**rule.fields(), group_step=rule.group_step(noise))
    return Plan("gda", problem, budget, releases, schedule, rule.bound(noise), n_steps)


def paper_plan(problem: Problem, budget: Budget, solver: GDA) -> Plan:
    """Plan with the paper's formulas, ρ added as a regulariser (docs/theory/gda.md, section 4)."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
    n_records, smallest = problem.n_records, float(sizes.min())
    n_steps = max(2, solver.n_steps or math.ceil(n_records ** (2 / 3)))
    n_released = n_steps - 1  # the average of w_1, ..., w_T makes no use of a release at w_T
    sums = SumSensitivity.of(problem, loss_clip=problem.constants.supremum)
    # one standard deviation for both: multipliers in proportion to 1/Γ and 1/b
    templates = [Release(descent.GRADIENT, "gaussian", 1.0 / sums.gradient_diameter, n_released)]
    if problem.n_groups > 1:
        templates.append(Release(descent.RISKS, "gaussian", 1.0 / sums.loss_range, n_released))
    releases = calibrate(templates, budget)
    sigma = releases[0].noise_multiplier * sums.gradient_diameter / smallest
    ridge = solver.ridge or best_ridge(problem, n_steps, sigma)
    lipschitz = max(
        n_records / smallest * problem.lipschitz + problem.diameter * ridge,
        n_records / smallest * problem.loss_range + math.sqrt(2.0) * ridge,
    )
    composition = math.sqrt(n_steps * math.log(1.0 / budget.delta))
    sigma_of_constant_1 = lipschitz * composition / (n_records * budget.epsilon)
    step_size = 1.0 / ridge
    schedule = GDASchedule(
        **descent.paper_fields(problem, sums, n_released, n_averaged=n_steps, step_size=step_size),
        step="like the smallest group",
        ridge=ridge,
        remark=(
            f"the paper's noise for both players, {sigma:.3g} a coordinate, with the least "
            f"constant that keeps the budget: {sigma / sigma_of_constant_1:.3g}"
        ),
    )
    bounds = np.full(problem.n_groups, strong_gap_bound(problem, n_steps, sigma, ridge))
    return Plan("gda", problem, budget, releases, schedule, bounds, n_released)


def strong_gap_bound(problem: Problem, n_steps: int, sigma: float, ridge: float) -> float:
    """Bound the expected strong gap, ``max_λ F(w̄, λ) - min_w F(w, λ̄)`` of the averages w̄ and λ̄.

    It is ``(1 + ln T)/(2 T ρ) [(L + 2Rρ)² + d σ² + (b√p/2 + √2 ρ)² + p σ²] + ρ R²/2 + ρ/2`` plus
    ``σ (R √d + √(2 ln p)) / √T``, ρ the ridge, p groups, d weights (docs/theory/gda.md, section 4).
    """
    p, d = problem.n_groups, problem.n_weights
    weights_term = (problem.lipschitz + problem.diameter * ridge) ** 2 + d * sigma**2
    groups_term = 0.0
    if p > 1:
        gradient_norm = problem.loss_range * math.sqrt(p) / 2.0 + math.sqrt(2.0) * ridge
        groups_term = gradient_norm**2 + p * sigma**2
    regret = (1.0 + math.log(n_steps)) / (2.0 * n_steps * ridge) * (weights_term + groups_term)
    regulariser_bias = ridge * problem.radius**2 / 2.0 + (ridge / 2.0 if p > 1 else 0.0)
    reach = problem.radius * math.sqrt(d) + math.sqrt(2.0 * math.log(p))
    return regret + regulariser_bias + sigma * reach / math.sqrt(n_steps)


def best_ridge(problem: Problem, n_steps: int, sigma: float) -> float:
    """Return the ridge ρ of the least `strong_gap_bound`."""
    best = minimize_scalar(
        lambda log_ridge: strong_gap_bound(problem, n_steps, sigma, math.exp(log_ridge)),
        bounds=(-30.0, 30.0),
        method="bounded",
    )
    return math.exp(float(best.x))
