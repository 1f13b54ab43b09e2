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
from sklearn_dpwg.optimum.objective import RegularisedObjective
from sklearn_dpwg.optimum.saddle_point import (
    minimise_quadratic_on_ball,
    newton,
    worst_group_optimum,
)
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.exact import Exact
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

# Shares of the least favourable mixture in what is learned from, and ridges in units of Σ λ_i²/n_i,
# which is one record's share where all count alike.
SHARES, RIDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), (0.001, 0.3, 1.0, 3.0)
# A candidate is solved until a step promises no more than the first, as a share of what predicting
# nothing costs; from the second on the step is worth a Hessian of its own.
ENOUGH, RENEW = 1e-6, 1e-4
# Directions in which a trace is taken: with more columns random ones tell it to about a hundredth.
N_DIRECTIONS, SEED = 128, 0


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
    hessian: FloatArray  # about that at the weights, without the ridge
    risks: FloatArray  # of people: those of the records with their optimism
    variances: FloatArray  # of the risks, by sampling


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
    """The candidates on some records, each fitted once."""

    def __init__(self, data: Risks, problem: Problem, schedule: PeopleSchedule) -> None:
        self.data, self.radius, self.schedule = data, problem.radius, schedule
        self.unit = problem.constants.zero_score
        sizes = np.asarray(data.group_sizes, dtype=float)
        self.pooled = sizes / sizes.sum()
        limits = {"radius": problem.radius, "tolerance": schedule.tolerance}
        exact = worst_group_optimum(data, **limits)
        self.least_favourable, self.n_steps = exact.group_weights, exact.n_newton_steps
        hessian = np.zeros((data.n_weights, data.n_weights))
        nothing = np.zeros(data.n_groups)
        self.last = Fit(self.pooled, 0.0, exact.weights, hessian, nothing, nothing)
        self.fits: dict[tuple[float, float], Fit] = {}

    def solution(self) -> Solution:
        for ridge in RIDGES:
            for share in SHARES:
                self.fit(share, ridge)
        shrinker = self.shrinker()
        score = {at: float((shrinker @ fit.risks).max()) for at, fit in self.fits.items()}
        best = min(score, key=lambda at: score[at])
        plain = min((at for at in score if at[0] == 0.0), key=lambda at: score[at])
        kept = self.fits[best]
        objective = RegularisedObjective(
            self.data, self.radius, kept.group_weights, kept.ridge, math.inf, 0.0 * kept.weights
        )
        with np.errstate(divide="ignore"):
            at, n_steps = newton(objective, kept.weights, self.schedule.tolerance, 100)
        self.score, self.best = score, best
        return Solution(
            at.weights, kept.group_weights, self.n_steps + n_steps, score[plain] - score[best]
        )

    def shrinker(self) -> FloatArray:
        pooled = self.fits[0.0, RIDGES[0]]
        return shrinking(pooled.risks, pooled.variances)

    def fit(self, share: float, ridge: float) -> Fit:
        """Return a fit by Newton's method from the last one, whose Hessian serves while it can."""
        at = share, ridge
        if at in self.fits:
            return self.fits[at]
        data, last = self.data, self.last
        mixture = (1.0 - share) * self.pooled + share * self.least_favourable
        strength = ridge * data.weight_of_a_record(mixture)
        weights, hessian, is_new = last.weights, last.hessian, False
        identity = np.eye(len(weights))
        length, before = 1.0, math.inf
        for _ in range(100):
            values, gradients = data.risks_and_gradients(weights)
            value = mixture @ values + 0.5 * strength * weights @ weights
            if value > before + 1e-12 * abs(before) and length > 1e-6:  # undo half of a step
                length /= 2.0
                weights = origin + length * step
                continue
            slope = mixture @ gradients + strength * weights
            while True:
                matrix = hessian + (strength + 1e-14 * np.trace(hessian)) * identity
                target = self._target(matrix, weights, slope)
                step = target - weights
                promised = -float(slope @ step + 0.5 * step @ matrix @ step)
                if is_new or (promised <= RENEW * self.unit and hessian.any()):
                    break
                hessian, is_new = data.hessian(weights, mixture), True
                self.n_steps += 1
            if promised <= ENOUGH * self.unit:
                weights = target
                break
            origin, before, length, is_new = weights, value, 1.0, False
            weights = target
        matrix = hessian + (strength + 1e-14 * np.trace(hessian)) * identity
        root = solve_triangular(cholesky(matrix, lower=True), directions(len(weights)), lower=True, trans=1)
        risks, variances, optimism = data.optimism(weights, mixture, root)
        c = self.schedule.correction
        found = Fit(mixture, strength, weights, hessian, risks + c * optimism, c * variances)
        self.fits[at] = self.last = found
        return found

    def _target(self, matrix: FloatArray, weights: FloatArray, slope: FloatArray) -> FloatArray:
        right = matrix @ weights - slope
        lower = cholesky(matrix, lower=True)
        found = solve_triangular(lower, solve_triangular(lower, right, lower=True), lower=True, trans=1)
        if np.linalg.norm(found) <= self.radius:
            return found
        return minimise_quadratic_on_ball(matrix, right, self.radius, 0.0)


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
