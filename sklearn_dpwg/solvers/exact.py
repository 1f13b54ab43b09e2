"""Without privacy: the exact minimax optimum, and what is best for people like the records."""

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
    """Public numbers of the exact solver, and of what is best for new people."""

    tolerance: float  # certified duality gap at which it stops, in units of the loss
    correction: float = 0.0  # c, which multiplies the optimism of a risk; 0 for the optimum itself

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

    It is the papers' game on the records themselves, whatever the `optimism_correction`.

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


# For people like the records: between the average and the worst group.

# Fractions of the least favourable group weights, compared at the first ridge; ridges, compared at
# the best fraction, in records that count as their mean does.
FRACTIONS, RIDGES, FIRST_RIDGE = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), (0.001, 0.3, 1.0, 3.0), 0.3
# As fractions of what predicting nothing costs: what a last step promises of a fit that is
# compared, and of the one that is kept, and the optimism of which no ridge saves anything that
# counts.
ENOUGH, EXACT, NEGLIGIBLE = 1e-6, 1e-12, 1e-3
# A step that leaves more than this of what the one before it promised has a Hessian of its own.
LEFT, MAX_STEPS = 0.03, 100
# With more weights a trace is taken in so many random directions: they miss a few hundredths of it.
N_DIRECTIONS, SEED = 32, 0
# Squared lengths of rows are added up in multiples of it.
STEP = 2.0**-30


@dataclass(frozen=True, eq=False)
class Fit:
    """A weighted fit with a ridge, and what its groups are expected to lose among new people."""

    group_weights: FloatArray
    ridge: float
    weights: FloatArray
    risks: FloatArray  # those of the records and their optimism
    variances: FloatArray  # of the risks, by sampling
    optimism: float  # the largest


class People(Exact):
    """What is expected to be best for the worst-off group of new people: docs/theory/people.md."""

    name: ClassVar[str] = "people"

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        is_of_people = problem.optimism_correction > 0.0 and problem.loss.smooth
        if problem.n_groups == 1 or not is_of_people:
            return Exact(self.tolerance).plan(problem, budget)
        schedule = ExactSchedule(self.tolerance, problem.optimism_correction)
        # it may leave a group to what others learn, which nothing bounds on the records
        bounds = (problem.loss_range,) * problem.n_groups
        return Plan(self.name, problem, budget, (), schedule, bounds)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        if not plan.schedule.correction:
            return super()._run(plan, data, noise, start)
        with one_blas_thread():
            return _Search(data, plan.problem, plan.schedule).solution()


class _Search:
    """The fits to some records that are compared, each made once."""

    def __init__(self, data: Risks, problem: Problem, schedule: ExactSchedule) -> None:
        self._data, self._radius, self._correction = data, problem.radius, schedule.correction
        self._unit = problem.constants.zero_score
        sizes = np.asarray(data.group_sizes, dtype=float)
        self._pooled = sizes / sizes.sum()
        exact = worst_group_optimum(data, radius=problem.radius, tolerance=schedule.tolerance)
        self._least_favourable, self._n_steps = exact.group_weights, exact.n_newton_steps
        # where the next fit starts, and the Hessian that serves while it can
        self._weights, self._hessian = exact.weights, np.zeros((data.n_weights,) * 2)
        # so that nothing depends on how far a stated norm is above that of rows
        squares = data.spread(np.zeros(data.n_features))
        self._length = max(squares / problem.n_records, STEP)
        self._fits: dict[tuple[float, float], Fit] = {}

    def solution(self) -> Solution:
        """Return the best fit, solved to the end, and what it gains over the best pooled one."""
        # from the solution of the game on
        for fraction in FRACTIONS[::-1]:
            self._fit(fraction, FIRST_RIDGE)
        pooled = self._fits[0.0, FIRST_RIDGE]
        self._shrinker = shrinker(pooled.risks, pooled.variances)
        fraction, ridge = self._best()
        self._weights = self._fits[fraction, ridge].weights
        if self._fits[fraction, ridge].optimism > NEGLIGIBLE * self._unit:
            for ridge in RIDGES:
                self._fit(fraction, ridge)
        self._fit(0.0, self._best()[1])
        best, plain = (self._fits[self._best(pooled=each)] for each in (False, True))
        self._weights = best.weights
        self._minimise(best.group_weights, best.ridge, EXACT * self._unit)
        expected = self._shrinker @ plain.risks
        worst = int(expected.argmax())
        variances = self._data.variances_of_change(plain.weights, best.weights)
        return Solution(
            self._weights,
            best.group_weights,
            self._n_steps,
            group_gain=float(expected[worst] - (self._shrinker @ best.risks).max()),
            group_gain_std=math.sqrt(variances[worst]),
        )

    def _best(self, *, pooled: bool = False) -> tuple[float, float]:
        """Return fraction and ridge that are best for the worst-off group; fraction 0, if asked."""

        def expected(at: tuple[float, float]) -> float:
            return float((self._shrinker @ self._fits[at].risks).max())

        return min((at for at in sorted(self._fits) if not (pooled and at[0])), key=expected)

    def _fit(self, fraction: float, ridge: float) -> None:
        """Fit a candidate from where the last fit ended."""
        if (fraction, ridge) in self._fits:
            return
        mixture = (1.0 - fraction) * self._pooled + fraction * self._least_favourable
        strength = ridge * self._length * self._data.weight_of_a_record(mixture)
        self._minimise(mixture, strength, ENOUGH * self._unit)
        factor = cholesky(self._matrix(strength), lower=True)
        root = solve_triangular(factor, directions(len(factor)), lower=True, trans=1)
        risks, variances, optimism = self._data.optimism(self._weights, mixture, root)
        risks, variances = risks + self._correction * optimism, self._correction * variances
        self._fits[fraction, ridge] = Fit(
            mixture, strength, self._weights, risks, variances, float(optimism.max())
        )

    def _minimise(self, mixture: FloatArray, ridge: float, enough: float) -> None:
        """Minimise a mixture of the risks with a ridge over the ball by Newton's method."""
        origin, before, promised = self._weights, math.inf, math.inf
        for _ in range(MAX_STEPS):
            values, gradients = self._data.risks_and_gradients(self._weights)
            value = float(mixture @ values + 0.5 * ridge * self._weights @ self._weights)
            if value > before + 1e-12 * abs(before):
                self._weights = 0.5 * (origin + self._weights)
                continue
            slope = mixture @ gradients + ridge * self._weights
            most = max(LEFT * promised, enough)
            step, promised = self._step(slope, ridge)
            if promised > most or not self._hessian.any():
                is_rough = len(slope) >= WIDE
                self._hessian = self._data.hessian(self._weights, mixture, rough=is_rough)
                step, promised = self._step(slope, ridge)
            origin, before = self._weights, value
            self._weights = self._weights + step
            self._n_steps += 1
            if promised <= enough:
                break

    def _step(self, slope: FloatArray, ridge: float) -> tuple[FloatArray, float]:
        """Return the step to the minimum of the model in the ball, and what it promises."""
        matrix = self._matrix(ridge)
        step = -np.asarray(cho_solve((cholesky(matrix, lower=True), True), slope))
        if np.linalg.norm(self._weights + step) > self._radius:
            pull = matrix @ self._weights - slope
            step = minimise_quadratic_on_ball(matrix, pull, self._radius, ridge) - self._weights
        return step, -float(slope @ step + 0.5 * step @ matrix @ step)

    def _matrix(self, ridge: float) -> FloatArray:
        """Return the Hessian with a ridge, and with what rounding may have taken of it."""
        matrix = self._hessian.copy()
        rounding = (SINGLE if len(matrix) >= WIDE else 1e-14) * np.trace(matrix)
        matrix[np.diag_indices_from(matrix)] += ridge + rounding
        return matrix


def directions(n_weights: int) -> FloatArray:
    """Return a matrix Z for which ``tr A`` is about ``tr Z'AZ``, and exactly with few weights."""
    if n_weights <= N_DIRECTIONS:
        return np.eye(n_weights)
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], (n_weights, N_DIRECTIONS))
    return np.asarray(signs / math.sqrt(N_DIRECTIONS))


def shrinker(risks: FloatArray, variances: FloatArray) -> FloatArray:
    """Return the matrix that shrinks noisy risks towards their mean, the more the noisier."""
    variances = variances + 1e-24  # a group of equal losses knows its risk
    between = variance_between(risks, variances) if len(risks) > 1 else 0.0
    precisions = 1.0 / (between + variances)
    kept = between * precisions
    return np.asarray(np.diag(kept) + np.outer(1.0 - kept, precisions / precisions.sum()))
