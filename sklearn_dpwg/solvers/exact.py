"""Without privacy: the exact minimax optimum (`Exact`), and a fit for new people (`People`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from sklearn_dpwg._checks import FloatArray, Rules, positive
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.threads import one_blas_thread
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.optimum.saddle_point import minimise_quadratic_on_ball
from sklearn_dpwg.optimum.worst_group import SINGLE, WIDE
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver
from sklearn_dpwg.solvers.steps import variance_between


@dataclass(frozen=True)
class ExactSchedule:
    """Public numbers of `Exact` and `People`."""

    tolerance: float  # certified duality gap at which Newton's method stops, in units of the loss
    correction: float = 0.0  # factor c on the optimism of risks in `People`; 0 in `Exact`

    def __str__(self) -> str:
        if not self.correction:
            return f"Newton's method to a certified duality gap of {self.tolerance:.0e}"
        return (
            "the least favourable group weights shrunk towards the groups' sizes, as far as new "
            f"people gain by it, with {self.correction:g} times the optimism of risks"
        )


@dataclass(eq=False, repr=False)
class Exact(Solver):
    """Non-private minimax optimum by Newton's method with a certificate.

    It minimises the largest group risk on the records, without an `optimism_correction`.

    Parameters
    ----------
    tolerance : float, default=1e-6
        Duality gap to certify, in units of the loss.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import Exact
    >>> Exact(tolerance=1e-10)
    Exact(tolerance=1e-10)
    """

    tolerance: float = 1e-6

    name: ClassVar[str] = "exact"
    uses_start: ClassVar[bool] = False
    knows_overlap: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules("Exact", tolerance=positive())

    @property
    def room(self) -> float:
        return 500.0

    def _check_budget(self, budget: Budget) -> None:
        if budget.epsilon != math.inf:
            raise InputError(
                f"solver {self.name!r} adds no noise and needs epsilon=inf, got epsilon="
                f"{budget.epsilon!r}."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        bounds = (self.tolerance,) * problem.n_groups
        return Plan(self.name, problem, budget, (), ExactSchedule(self.tolerance), bounds)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        tolerance = plan.schedule.tolerance
        point = worst_group_optimum(data, radius=plan.problem.radius, tolerance=tolerance)
        return Solution(point.weights, point.group_weights, point.n_newton_steps)


# A fit for new people: between the fit to all records and that to the worst group.

# Fractions of the least favourable group weights, compared at FIRST_RIDGE; ridges, compared at the
# best fraction, as numbers of mean records (docs/theory/people.md, "The rule").
FRACTIONS, RIDGES, FIRST_RIDGE = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), (0.001, 0.3, 1.0, 3.0), 0.3
# Predicted decrease at which Newton's method stops, for the candidates and for the best of them;
# optimism below which no more ridges are tried. In units of the risk at weights of 0.
CANDIDATE_TOLERANCE, FINAL_TOLERANCE, MIN_OPTIMISM = 1e-6, 1e-12, 1e-3
# A new Hessian is computed where a step's decrease is more than this fraction of the last one's.
MAX_REMAINDER, MAX_STEPS = 0.03, 100
# With more weights a trace is estimated in so many random directions, to a few hundredths.
N_DIRECTIONS, SEED = 32, 0
# Grid on which squared lengths of rows are summed: the least that counts.
STEP = 2.0**-30


@dataclass(frozen=True, eq=False)
class Fit:
    """Weights fitted to a mixture of the groups, and the expected risks of new people."""

    group_weights: FloatArray  # the mixture; (n_groups,)
    ridge: float  # strength of the ridge penalty
    weights: FloatArray  # (n_weights,)
    risks: FloatArray  # risks on the records plus c times their optimism; (n_groups,)
    variances: FloatArray  # sampling variances of the risks, times c; (n_groups,)
    max_optimism: float  # largest optimism of a group


class People(Exact):
    """The fit of least worst-group risk expected for new people: docs/theory/people.md."""

    name: ClassVar[str] = "people"

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        is_corrected = problem.optimism_correction > 0.0 and problem.loss.smooth
        if problem.n_groups == 1 or not is_corrected:
            return Exact(self.tolerance).plan(problem, budget)
        schedule = ExactSchedule(self.tolerance, problem.optimism_correction)
        # a group may get no weight, and then nothing but the range bounds its excess risk
        bounds = (problem.loss_range,) * problem.n_groups
        return Plan(self.name, problem, budget, (), schedule, bounds)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        if not plan.schedule.correction:
            return super()._run(plan, data, noise, start)
        with one_blas_thread():
            return _Search(data, plan.problem, plan.schedule).solution()


class _Search:
    """Fits with several group weights and ridges; `solution` returns the best for new people."""

    def __init__(self, data: Risks, problem: Problem, schedule: ExactSchedule) -> None:
        self._data, self._radius, self._correction = data, problem.radius, schedule.correction
        self._zero_risk = problem.constants.zero_score  # largest risk at weights of 0
        sizes = np.asarray(data.group_sizes, dtype=float)
        self._group_fractions = sizes / sizes.sum()
        exact = worst_group_optimum(data, radius=problem.radius, tolerance=schedule.tolerance)
        self._least_favourable, self._n_steps = exact.group_weights, exact.n_newton_steps
        # where the next fit starts, and the last Hessian, reused while steps are good enough
        self._weights, self._hessian = exact.weights, np.zeros((data.n_weights,) * 2)
        # ridges scale with the rows themselves, not with the stated bound on their norm
        squares = data.spread(np.zeros(data.n_features))
        self._mean_square = max(squares / problem.n_records, STEP)
        self._fits: dict[tuple[float, float], Fit] = {}  # by fraction and ridge

    def solution(self) -> Solution:
        """Return the best fit, minimised to the end, and its gain over the best pooled fit."""
        # the fit of fraction 1 starts at the solution of the game
        for fraction in FRACTIONS[::-1]:
            self._add_fit(fraction, FIRST_RIDGE)
        first_pooled = self._fits[0.0, FIRST_RIDGE]
        self._shrinker = shrinker(first_pooled.risks, first_pooled.variances)
        fraction, ridge = self._best()
        self._weights = self._fits[fraction, ridge].weights
        if self._fits[fraction, ridge].max_optimism > MIN_OPTIMISM * self._zero_risk:
            for ridge in RIDGES:
                self._add_fit(fraction, ridge)
        self._add_fit(0.0, self._best()[1])
        best, pooled = self._fits[self._best()], self._fits[self._best(pooled=True)]
        self._weights = best.weights
        self._minimise(best.group_weights, best.ridge, FINAL_TOLERANCE * self._zero_risk)
        pooled_risks = self._shrinker @ pooled.risks
        worst = int(pooled_risks.argmax())
        variances = self._data.variances_of_change(pooled.weights, best.weights)
        return Solution(
            self._weights,
            best.group_weights,
            n_iter=self._n_steps,
            group_gain=float(pooled_risks[worst] - (self._shrinker @ best.risks).max()),
            group_gain_std=math.sqrt(variances[worst]),
        )

    def _best(self, *, pooled: bool = False) -> tuple[float, float]:
        """Return (fraction, ridge) of the least worst-group risk; with fraction 0 if `pooled`."""

        def worst_risk(key: tuple[float, float]) -> float:
            return float((self._shrinker @ self._fits[key].risks).max())

        return min((key for key in sorted(self._fits) if not (pooled and key[0])), key=worst_risk)

    def _add_fit(self, fraction: float, ridge: float) -> None:
        """Fit a fraction and a ridge, starting where the last fit ended; keep it in `_fits`."""
        if (fraction, ridge) in self._fits:
            return
        mixture = (1.0 - fraction) * self._group_fractions + fraction * self._least_favourable
        strength = ridge * self._mean_square * self._data.weight_of_a_record(mixture)
        self._minimise(mixture, strength, CANDIDATE_TOLERANCE * self._zero_risk)
        # root: a matrix A with A A' = H⁻¹, or about so with many weights
        factor = cholesky(self._matrix(strength), lower=True)
        root = solve_triangular(factor, directions(len(factor)), lower=True, trans=1)
        risks, variances, optimism = self._data.optimism(self._weights, mixture, root)
        risks, variances = risks + self._correction * optimism, self._correction * variances
        self._fits[fraction, ridge] = Fit(
            mixture, strength, self._weights, risks, variances, max_optimism=float(optimism.max())
        )

    def _minimise(self, mixture: FloatArray, ridge: float, tolerance: float) -> None:
        """Move `_weights` to the minimum in the ball of ``mixture @ risks + ridge/2 ‖w‖²``."""
        last_weights, last_value, decrease = self._weights, math.inf, math.inf
        for _ in range(MAX_STEPS):
            risks, gradients = self._data.risks_and_gradients(self._weights)
            value = float(mixture @ risks + 0.5 * ridge * self._weights @ self._weights)
            if value > last_value + 1e-12 * abs(last_value):  # more than rounding: halve the step
                self._weights = 0.5 * (last_weights + self._weights)
                continue
            gradient = mixture @ gradients + ridge * self._weights
            largest_decrease = max(MAX_REMAINDER * decrease, tolerance)
            step, decrease = self._step(gradient, ridge)  # decrease of the quadratic model
            if decrease > largest_decrease or not self._hessian.any():
                is_rough = len(gradient) >= WIDE
                self._hessian = self._data.hessian(self._weights, mixture, rough=is_rough)
                step, decrease = self._step(gradient, ridge)
            last_weights, last_value = self._weights, value
            self._weights = self._weights + step
            self._n_steps += 1
            if decrease <= tolerance:
                break

    def _step(self, gradient: FloatArray, ridge: float) -> tuple[FloatArray, float]:
        """Return the step to the minimum of the quadratic model in the ball, and its decrease."""
        matrix = self._matrix(ridge)
        step = -np.asarray(cho_solve((cholesky(matrix, lower=True), True), gradient))
        if np.linalg.norm(self._weights + step) > self._radius:
            linear = matrix @ self._weights - gradient
            step = minimise_quadratic_on_ball(matrix, linear, self._radius, ridge) - self._weights
        return step, -float(gradient @ step + 0.5 * step @ matrix @ step)

    def _matrix(self, ridge: float) -> FloatArray:
        """Return the Hessian plus the ridge and a bound on the Hessian's rounding error."""
        matrix = self._hessian.copy()
        rounding = (SINGLE if len(matrix) >= WIDE else 1e-14) * np.trace(matrix)
        matrix[np.diag_indices_from(matrix)] += ridge + rounding
        return matrix


def directions(n_weights: int) -> FloatArray:
    """Return Z, with up to N_DIRECTIONS columns, for which ``tr Z'AZ`` is about ``tr A``."""
    if n_weights <= N_DIRECTIONS:
        return np.eye(n_weights)
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], (n_weights, N_DIRECTIONS))
    return np.asarray(signs / math.sqrt(N_DIRECTIONS))


def shrinker(risks: FloatArray, variances: FloatArray) -> FloatArray:
    """Return C, (n_groups, n_groups): ``C @ risks`` are shrunk to their mean, noisy ones more."""
    variances = variances + 1e-24  # positive, also for a group of equal losses
    between = variance_between(risks, variances) if len(risks) > 1 else 0.0
    precisions = 1.0 / (between + variances)
    kept_fractions, mean_weights = between * precisions, precisions / precisions.sum()
    return np.asarray(np.diag(kept_fractions) + np.outer(1.0 - kept_fractions, mean_weights))
