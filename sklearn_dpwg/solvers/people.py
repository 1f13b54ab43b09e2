"""The rule without privacy for people like the records: between the average and the worst group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.kernels.passes import one_blas_thread
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.newton import SINGLE, WIDE
from sklearn_dpwg.optimum.saddle_point import minimise_quadratic_on_ball, worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.exact import Exact
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

# Shares of the least favourable mixture in what is learned from, and ridges in units of Σ λ_i²/n_i,
# the weight of a record: shares are compared at the second ridge, then ridges at the best share.
SHARES, RIDGES, FIRST_RIDGE = (1.0, 0.75, 0.5, 0.25, 0.1, 0.0), (0.001, 0.3, 1.0, 3.0), 0.3
# As shares of what predicting nothing costs: fits are compared once a step promises no more than
# the first, from the second on a step is worth a Hessian of its own, and of optimism below the
# third no ridge saves anything.
ENOUGH, RENEW, NEGLIGIBLE = 1e-6, 1e-4, 1e-3
EXACT, MOST_STEPS = 1e-12, 100
# A step that leaves more than this of what it promised asks for a new Hessian.
LEFT = 0.03
# With more weights a trace is taken in so many random directions, which tell it to a few hundredths.
N_DIRECTIONS, SEED = 32, 0


@dataclass(frozen=True)
class PeopleSchedule:
    """Public numbers of the rule."""

    tolerance: float  # certified gap of each fit that is kept, in units of the loss
    correction: float  # c, which multiplies the optimism of a risk and its sampling variance

    def __str__(self) -> str:
        """Return a few lines for people."""
        shares, ridges = (", ".join(f"{each:g}" for each in grid) for grid in (SHARES, RIDGES))
        times = "" if self.correction == 1.0 else f" {self.correction:g} times"
        return (
            f"fits to shares of the least favourable group weights of {shares}, the rest as groups "
            f"are large, each with ridges of {ridges} records; the one whose worst-off group is "
            f"expected to lose least among new people, risks counting{times} their optimism "
            f"(Takeuchi) and shrunk towards each other (Paule and Mandel)"
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A weighted fit with a ridge, and what its groups are expected to lose among new people."""

    group_weights: FloatArray
    ridge: float
    weights: FloatArray
    risks: FloatArray  # of people: those of the records and their optimism
    variances: FloatArray  # of the risks, by sampling
    optimism: float  # the largest


class People(Exact):
    """Without privacy, what is expected to be best for the worst-off group among new people.

    It is what ``epsilon=float("inf")`` learns with any solver but `Exact` by name: the game on the
    records puts weight on groups whose loss nobody can help, and learns small ones by heart. Where
    the problem corrects no optimism, or the loss has kinks, it is that game all the same.
    """

    name: ClassVar[str] = "people"

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        plan = Exact(self.tolerance).plan(problem, budget)
        if problem.optimism_correction == 0.0 or not problem.loss.smooth:
            return plan
        schedule = PeopleSchedule(self.tolerance, problem.optimism_correction)
        # it may leave a group to what the others learn, which no bound on the records covers
        bounds = (problem.loss_range,) * problem.n_groups
        facts = {"releases": (), "n_steps": 0, "schedule": schedule, "bounds": bounds}
        return Plan.of(self.name, problem, budget, **facts)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule = plan.schedule
        if not isinstance(schedule, PeopleSchedule):
            return super()._run(plan, data, noise, start)
        with one_blas_thread():
            return Search(data, plan.problem, schedule).solution()


class Search:
    """The fits to some records that are compared, each made once."""

    def __init__(self, data: Risks, problem: Problem, schedule: PeopleSchedule) -> None:
        self.data, self.radius, self.correction = data, problem.radius, schedule.correction
        self.unit = problem.constants.zero_score
        sizes = np.asarray(data.group_sizes, dtype=float)
        self.pooled = sizes / sizes.sum()
        exact = worst_group_optimum(data, radius=problem.radius, tolerance=schedule.tolerance)
        self.least_favourable, self.n_steps = exact.group_weights, exact.n_newton_steps
        # where the next fit starts, and the Hessian that serves while it can
        self.weights, self.hessian = exact.weights, np.zeros((data.n_weights, data.n_weights))
        self.fits: dict[tuple[float, float], Fit] = {}

    def solution(self) -> Solution:
        """Return the best fit, solved to the end, and what it gains over the best pooled one."""
        for share in SHARES:
            self.fit(share, FIRST_RIDGE)
        pooled = self.fits[0.0, FIRST_RIDGE]
        self.shrinker = shrinking(pooled.risks, pooled.variances)
        share, _ = self.best()
        self.weights = self.fits[share, FIRST_RIDGE].weights
        if self.fits[share, FIRST_RIDGE].optimism > NEGLIGIBLE * self.unit:
            for ridge in RIDGES:
                self.fit(share, ridge)
        best = self.best()
        self.fit(0.0, best[1])
        fit = self.fits[best]
        self.weights = fit.weights
        self.minimise(fit.group_weights, fit.ridge, EXACT * self.unit)
        return Solution(
            self.weights,
            fit.group_weights,
            self.n_steps,
            self.score(self.best(pooled=True)) - self.score(best),
        )

    def best(self, *, pooled: bool = False) -> tuple[float, float]:
        """Return the share and the ridge of the least score, among those of share 0 if asked."""
        return min((at for at in self.fits if not (pooled and at[0])), key=self.score)

    def score(self, at: tuple[float, float]) -> float:
        """Return what the worst-off group is expected to lose among new people."""
        return float((self.shrinker @ self.fits[at].risks).max())

    def fit(self, share: float, ridge: float) -> None:
        """Fit a candidate from where the last one ended."""
        if (share, ridge) in self.fits:
            return
        mixture = (1.0 - share) * self.pooled + share * self.least_favourable
        strength = ridge * self.data.weight_of_a_record(mixture)
        self.minimise(mixture, strength, ENOUGH * self.unit)
        root = solve_triangular(
            self.factor(strength), directions(len(self.weights)), lower=True, trans=1
        )
        risks, variances, optimism = self.data.optimism(self.weights, mixture, root)
        optimism, variances = self.correction * optimism, self.correction * variances
        facts = self.weights, risks + optimism, variances, float(optimism.max())
        self.fits[share, ridge] = Fit(mixture, strength, *facts)

    def minimise(self, mixture: FloatArray, ridge: float, enough: float) -> None:
        """Minimise a mixture of the risks with a ridge by Newton's method, kept to the ball."""
        origin, before, promised = self.weights, math.inf, math.inf
        for _ in range(MOST_STEPS):
            values, gradients = self.data.risks_and_gradients(self.weights)
            value = mixture @ values + 0.5 * ridge * self.weights @ self.weights
            if value > before + 1e-12 * abs(before):
                self.weights = 0.5 * (origin + self.weights)
                continue
            slope = mixture @ gradients + ridge * self.weights
            allowed = max(LEFT * promised, enough)
            step, promised = self.step(slope, ridge)
            if promised > allowed or not self.hessian.any():
                self.hessian = self.data.hessian(self.weights, mixture, rough=len(step) >= WIDE)
                step, promised = self.step(slope, ridge)
            origin, before = self.weights, value
            self.weights = self.weights + step
            self.n_steps += 1
            if promised <= enough:
                break

    def step(self, slope: FloatArray, ridge: float) -> tuple[FloatArray, float]:
        """Return the step to the minimum of the model in the ball, and what it promises."""
        factor = self.factor(ridge)
        step = -solve_triangular(factor, solve_triangular(factor, slope, lower=True), lower=True, trans=1)
        matrix = self.matrix(ridge)
        if np.linalg.norm(self.weights + step) > self.radius:
            target = minimise_quadratic_on_ball(matrix, matrix @ self.weights - slope, self.radius, 0.0)
            step = target - self.weights
        return step, -float(slope @ step + 0.5 * step @ matrix @ step)

    def factor(self, ridge: float) -> FloatArray:
        """Return the Cholesky factor of the Hessian with a ridge."""
        return cholesky(self.matrix(ridge), lower=True)

    def matrix(self, ridge: float) -> FloatArray:
        matrix = self.hessian.copy()
        rounding = SINGLE if len(matrix) >= WIDE else 1e-14
        matrix[np.diag_indices_from(matrix)] += ridge + rounding * np.trace(matrix)
        return matrix


def directions(n_weights: int) -> FloatArray:
    """Return a matrix Z for which ``tr A`` is about ``tr Z'AZ``; exactly with few weights."""
    if n_weights <= N_DIRECTIONS:
        return np.eye(n_weights)
    rng = np.random.default_rng(SEED)
    return rng.choice([-1.0, 1.0], (n_weights, N_DIRECTIONS)) / math.sqrt(N_DIRECTIONS)


def shrinking(risks: FloatArray, variances: FloatArray) -> FloatArray:
    """Return the matrix that shrinks noisy risks towards their mean, by what they differ.

    The variance τ² between groups is that of Paule and Mandel: the mean of squared distances over
    ``τ² + s_i²`` is then what it is expected to be.
    """
    def excess(between: float) -> float:
        precision = 1.0 / (between + variances)
        mean = precision @ risks / precision.sum()
        return float(precision @ (risks - mean) ** 2) - (len(risks) - 1.0)

    between = 0.0
    if len(risks) > 1 and excess(0.0) > 0.0:
        most = float(((risks - risks.mean()) ** 2).sum()) / (len(risks) - 1.0)
        between = brentq(excess, 0.0, most * (1.0 + 1e-9), xtol=1e-300, rtol=1e-10)
    precision = 1.0 / (between + variances)
    kept = between * precision
    return np.diag(kept) + np.outer(1.0 - kept, precision / precision.sum())
