"""Small problems and bad neighbours for the multiplicative group reweighting solver."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss, Loss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, Plan, Solution
from sklearn_dpwg.solvers.steps import step_and_momentum
from tests.helpers.group_data import make_data, make_problem


def random_targets(rng, loss: Loss, n: int) -> np.ndarray:
    if loss.task == "binary":
        return rng.choice([-1.0, 1.0], size=n)
    if loss.task == "multiclass":
        return rng.integers(loss.n_outputs, size=n).astype(float)
    inner = rng.uniform(-loss.target_bound, loss.target_bound, size=n)
    return np.where(rng.random(n) < 0.5, inner, loss.target_bound * rng.choice([-1.0, 1.0], size=n))


def random_data(problem: Problem, seed) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((problem.n_records, problem.n_features))
    rows *= rng.choice([0.0, 0.1, 1.0, 100.0], size=(problem.n_records, 1))
    return rows, random_targets(rng, problem.loss, problem.n_records)


class Ball(NamedTuple):
    """Velocity, longest step and last gradient of the step rule in plain arithmetic."""

    velocity: np.ndarray
    longest: float
    gradient: np.ndarray

    @classmethod
    def at_rest(cls, schedule, n_weights) -> Ball:
        return cls(np.zeros(n_weights), schedule.longest_step, np.zeros(n_weights))

    def pushed(self, schedule, gradient, noise) -> Ball:
        velocity, longest, last = self
        uphill = gradient @ velocity > 3.0 * noise * np.linalg.norm(velocity)
        if uphill and schedule.longest_step > schedule.step_size:
            curvature = (gradient - last) @ velocity / (velocity @ velocity)
            limits = [0.9 * longest, *([2.0 / curvature] if curvature > 0 else [])]
            longest = max(min(limits), schedule.step_size)
            velocity = 0.0 * velocity
        step, momentum = step_and_momentum(schedule, noise, longest=longest)
        return Ball(momentum * velocity - step * gradient, longest, gradient)


class Case(NamedTuple):
    """Two neighbouring data sets, and where a run on them starts."""

    plan: Plan
    solver: MGR
    data: GroupRisks
    neighbour: GroupRisks
    start: Solution


LOSSES = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    MultinomialLogLoss(3),
    MultinomialLogLoss(6),
    SquaredError(),
    SquaredError(0.3),
)


def planned_problems(seed: int, n_plans: int, *, paper_every: int = 3, **parameters):
    """Yield plans of random problems and the solvers that made them."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        n_groups = int(rng.integers(1, 5))
        sizes = rng.choice([1, 2, 3, 4, 25], size=n_groups)
        problem = make_problem(
            sizes,
            loss=LOSSES[index % len(LOSSES)],
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0])),
            prior=rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        constants = problem.constants
        low, high = constants.infimum, constants.supremum
        ceiling = rng.choice(
            [None, np.inf, low + 0.1 * (high - low), low + 0.7 * (high - low)]  # type: ignore[list-item]
        )
        solver = MGR(
            n_steps=3,
            schedule="paper" if index % paper_every == 0 else "planned",
            loss_ceiling=ceiling,
            risk_share=0.3,
            max_passes=3,
        ).set_params(**parameters)
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def bad_case(plan: Plan, solver: MGR, seed: int) -> Case:
    """Return neighbours that differ in one record of one group, chosen to move much."""
    problem = plan.problem
    rng = np.random.default_rng([seed, 2])
    weights = rng.standard_normal(problem.n_weights)
    weights *= problem.radius * rng.choice([0.0, 0.5, 1.0, 1.0, 1.0]) / np.linalg.norm(weights)
    group = int(rng.integers(problem.n_groups))
    group_weights = {
        0: rng.dirichlet(np.ones(problem.n_groups)),
        1: np.full(problem.n_groups, 1.0 / problem.n_groups),
        2: np.eye(problem.n_groups)[group],
        3: 1e-300 + np.eye(problem.n_groups)[rng.integers(problem.n_groups)],
    }[int(rng.integers(4))]
    rows, targets = random_data(problem, [seed, 3])
    other_rows, other_targets = rows.copy(), targets.copy()
    record = sum(problem.group_sizes[: group + 1]) - 1
    rows[record], other_rows[record] = bad_rows(problem, weights, rng)
    targets[record], other_targets[record] = random_targets(rng, problem.loss, 2)
    return Case(
        plan,
        solver,
        make_data(problem, rows, targets),
        make_data(problem, other_rows, other_targets),
        Solution(weights, group_weights, 0),
    )


def bad_rows(problem: Problem, weights: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return two rows in the plane of the direction that matters most and one at right angles."""
    matrix = weights.reshape(problem.loss.n_outputs, problem.n_columns)[:, : problem.n_features]
    along = np.linalg.svd(matrix)[2][0]
    across = rng.standard_normal(problem.n_features)
    across -= (across @ along) * along
    across /= max(float(np.linalg.norm(across)), 1e-300)
    if problem.n_features == 1:
        across = along
    angle = rng.uniform(-np.pi / 2, np.pi / 2)
    other = angle if rng.random() < 0.7 else rng.uniform(-np.pi / 2, np.pi / 2)
    first = np.sin(angle) * along + np.cos(angle) * across
    second = np.sin(other) * along - np.cos(other) * across
    kind = rng.integers(4)
    if kind == 0:
        return along, -along
    if kind == 1:
        return 1e3 * first, np.zeros_like(first)
    return first, second


def gaussian_log_mean_exp(rate, variances):
    return rate**2 * variances / 2.0


def adapted_group_weights(
    schedule, first, heard, noise, log_mean_exp=gaussian_log_mean_exp
) -> np.ndarray:
    """Weights after so many steps, from the conditions for the maximum that their page states.

    What was heard are the weights, the released risks and their variances of each step; noise is
    that of the mean gradient.
    """
    n_steps = schedule.n_steps
    spread, count, total = 10.0 * schedule.assumed_spread**2, 10.0, 0.0
    exponents = np.log(first)
    entropy = -sum(first * np.log(first))
    for weights, risks, variances in heard:
        found = max(spread / count, (schedule.assumed_spread / 30) ** 2)
        rate = math.sqrt(entropy / (found * n_steps + variances.mean() * n_steps / 2))
        mean = weights @ risks
        spread = 0.9 * spread + weights @ (risks - mean) ** 2
        spread -= weights @ (variances * (1.0 - weights))
        count = 0.9 * count + 1.0
        exponents = exponents + rate * risks - 0.5 * log_mean_exp(rate, variances)
        total += rate
    price = total * schedule.noise_price

    def at(most):
        """Weights with no ``λ_i s_i`` above a number, and what the last of it is worth."""
        capped = np.zeros(len(first), dtype=bool)
        for _ in first:
            left = 1.0 - (most / noise)[capped].sum()
            free = np.exp(exponents - exponents[~capped].max()) * ~capped
            found = np.where(capped, most / noise, left * free / free.sum())
            above = ~capped & (found * noise > most * (1.0 + 1e-15))
            if not above.any() or (capped | above).all():
                break
            capped |= above
        slack = exponents - np.log(found)
        return found, ((slack - slack[~capped][0]) / noise)[capped].sum()

    least, largest = 1.0 / (1.0 / noise).sum(), noise.max()
    if at(least * (1.0 + 1e-12))[1] <= price:
        return (1.0 / noise) / (1.0 / noise).sum()
    most = brentq(
        lambda most: at(most)[1] - price, least * (1.0 + 1e-12), largest, xtol=1e-300, rtol=1e-15
    )
    return at(most)[0]


def kept_share(of_nothing, counted):
    """Section 4b: half, and half of the worst-off group's drop over the mean one."""
    drop = np.mean([of_nothing - weights @ risks for weights, risks, _ in counted])
    risks, variances = (np.mean([each[part] for each in counted], axis=0) for part in (1, 2))
    worst = max(0.0, min(of_nothing - risks + 0.5 * np.sqrt(variances / len(counted))))
    return 0.5 if drop <= 0.0 else 0.5 + 0.5 * min(1.0, worst / drop)
