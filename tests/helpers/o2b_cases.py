"""Online-to-batch on neighbours with one transcript, and the algorithm written down plainly."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sklearn_dpwg.losses import (
    BinaryLogLoss,
    Huber,
    MultinomialLogLoss,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import OnlineToBatch, Plan, Solution
from sklearn_dpwg.solvers.stream.learners import (
    FTRL,
    OnlineGradientDescent,
    OptimisticFTRL,
    ParameterFree,
)
from sklearn_dpwg.solvers.stream.releases import BATCH_SUMS
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.oco_cases import Moves, Transcript, moves, random_records

LOSSES = (
    BinaryLogLoss(),
    SquaredError(),
    MultinomialLogLoss(3),
    SmoothedHinge(0.3),
    Huber(0.5),
    SquaredHinge(),
)
LEARNERS = (FTRL(), OnlineGradientDescent(), OptimisticFTRL(), ParameterFree())
BUDGET = Budget(1.0, 1e-6)


@cache
def planned(index: int, noise: str | None = None) -> tuple[OnlineToBatch, Plan]:
    """Return one of a pool of plans; planning takes longer than a game."""
    rng = np.random.default_rng([index, 5])
    # tiny groups, also of one record
    sizes = rng.integers(1, 12, size=rng.integers(1, 4))
    problem = make_problem(
        sizes,
        loss=LOSSES[index % len(LOSSES)],
        radius=float(rng.choice([1e-3, 0.3, 3.0, 20.0, 1e3])),
        scaling=float(rng.choice([0.0, 0.5])),
        prior=rng.dirichlet(np.ones(len(sizes))) if rng.random() < 0.5 else None,
    )
    drawn = str(rng.choice(["toeplitz", "honaker", "tree", "independent"]))
    solver = OnlineToBatch(
        LEARNERS[int(rng.integers(4))],
        power=float(rng.choice([0.0, 0.5, 1.0, 2.0, 3.0])),
        noise=drawn if noise is None else noise,
        n_rounds=int(rng.integers(1, 8)),
        schedule="planned" if rng.random() < 0.8 else "paper",
        convexity=float(rng.choice([0.0, 0.0, 0.5])),
    )
    return solver, solver.plan(problem, BUDGET)


def play_both(seed: int, noise: str | None = None) -> tuple[Moves, bool]:
    """Play neighbours on one transcript; return the moves, and whether the outcomes differ."""
    rng = np.random.default_rng([seed, 6])
    solver, plan = planned(seed % 60, noise)
    problem = plan.problem
    rows, targets = random_records(problem, rng)
    start = None
    if rng.random() < 0.7:
        weights = rng.normal(size=problem.n_weights)
        # to the sphere and beyond it: a game has to bring it back
        weights *= (
            float(rng.choice([0.0, 0.5, 1.0, 2.0])) * problem.radius / np.linalg.norm(weights)
        )
        shares = None if rng.random() < 0.5 else rng.dirichlet(np.ones(problem.n_groups)) + 1e-9
        start = Solution(weights, shares, 0)
    other, flipped = rows.copy(), targets.copy()
    where = int(rng.integers(len(rows)))
    kind = rng.random()
    if kind < 0.4:
        other[where] = -3.0 * rows[where]
    elif kind < 0.7:
        # a row along the weights that are played soon, and one that stays put
        axis = rng.normal(size=problem.n_features) if start is None else start.weights
        rows[where] = 5.0 * axis[: problem.n_features] / max(np.linalg.norm(axis), 1e-300)
        other[where] = 0.0
    else:
        other[where] = rng.normal(size=problem.n_features)
    if rng.random() < 0.7:
        flipped[where] = random_records(problem, rng)[1][0]
    transcript_scale = {BATCH_SUMS: 10.0 ** rng.uniform(-3, 4)}
    runs = []
    for which, labels in ((rows, targets), (other, flipped)):
        transcript = Transcript(seed, transcript_scale)
        data = make_data(problem, which, labels)
        runs.append((transcript.asked, solver.run(plan, data, transcript, start=start)))
    (first, one), (second, two) = runs
    leaks = not (np.array_equal(one.weights, two.weights) and one.n_iter == two.n_iter)
    return moves(first, second), leaks


def is_caught(n_seeds: int = 960) -> bool:
    """Whether the replay sees a fault that was planted."""
    for seed in range(n_seeds):
        found, leaks = play_both(seed)
        if leaks or found.worst > 1.0 + 1e-9:
            return True
    return False


def plain_gradient(problem, rows, targets, weights) -> np.ndarray:
    """Return the mean gradient of records, one at a time."""
    matrix = weights.reshape(problem.loss.n_outputs, -1)
    total = np.zeros(problem.n_weights)
    for row, target in zip(rows, targets, strict=True):
        full = np.append(row, problem.intercept_scaling) if problem.intercept_scaling else row
        scores = matrix @ full
        scores = scores if len(scores) == 1 else scores[None, :]
        _, slope = problem.loss.value_and_derivative(scores, np.array([target]))
        total += np.outer(np.ravel(slope), full).ravel()
    return total / len(rows)


def algorithm_1(problem, batches, *, power, strength, optimistic=False, noises=None):
    """Return x_T and all that the learner hears, as the paper has it: T - 1 batches, one group.

    Projected FTRL from the origin, written down line by line; `noises` come on the sums.
    """
    n = len(batches)
    beta = [0.0, *(float(t) ** power for t in range(1, n + 2))]
    heard, g = [], np.zeros(problem.n_weights)
    x = [np.zeros(problem.n_weights)]
    for t in range(1, n + 2):
        total = sum(heard, np.zeros(problem.n_weights))
        if optimistic and heard:
            total = total + heard[-1]
        w = -total / strength
        w *= min(1.0, problem.radius / max(np.linalg.norm(w), 1e-300))
        b = sum(beta[: t + 1])
        x.append(((b - beta[t]) * x[-1] + beta[t] * w) / b)
        if t == n + 1:
            break
        rows, targets = batches[t - 1]
        delta = beta[t] * plain_gradient(problem, rows, targets, x[t])
        if t > 1:
            delta = delta - beta[t - 1] * plain_gradient(problem, rows, targets, x[t - 1])
        g = g + delta
        heard.append(g if noises is None else g + noises[t - 1])
    return x[-1], heard


def papers_node_std(problem, *, rho, power, n_total, step, farthest) -> float:
    """Return σ_t of equation (6)."""
    reach = problem.lipschitz + problem.smoothness * farthest
    return (2.0 * (power + 1.0) / rho * reach * math.sqrt(math.log2(2.0 * n_total))) * step ** (
        power - 1.0
    )
