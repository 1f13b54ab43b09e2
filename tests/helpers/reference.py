"""Solvers' loops in plain arithmetic, one record and one line of their pages at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_dpwg.data.risks import GroupRisks

# --- steps -------------------------------------------------------------------------------------


def step_and_momentum(schedule, noise, *, longest=None):
    """Return a plain step and a momentum that together move like a planned step."""
    if not schedule.initial_distance:
        return schedule.step_size, 0.0
    longest = schedule.step_size if longest is None else longest
    planned = (
        schedule.step_fraction * schedule.initial_distance / (noise * math.sqrt(schedule.n_steps))
    )
    momentum = min(max(0.0, 1.0 - longest / planned), schedule.max_momentum)
    return min(planned * (1.0 - momentum), longest), momentum


class Ball(NamedTuple):
    """Velocity, longest step, last gradient and move of the step rule in plain arithmetic."""

    velocity: np.ndarray
    longest: float
    gradient: np.ndarray
    move: np.ndarray

    @classmethod
    def at_rest(cls, schedule, n_weights) -> Ball:
        zeros = np.zeros(n_weights)
        return cls(zeros, schedule.longest_step, zeros, zeros)

    def pushed(self, schedule, gradient, noise) -> Ball:
        velocity, longest, last, _ = self
        uphill = gradient @ velocity > 3.0 * noise * np.linalg.norm(velocity)
        if uphill and schedule.longest_step > schedule.step_size:
            curvature = (gradient - last) @ velocity / (velocity @ velocity)
            limits = [0.9 * longest, *([4.0 / (3.0 * curvature)] if curvature > 0 else [])]
            longest = max(min(limits), schedule.step_size)
            velocity = 0.0 * velocity
        step, momentum = step_and_momentum(schedule, noise, longest=longest)
        velocity = momentum * velocity - step * gradient
        # to where it carries the weights next
        return Ball(velocity, longest, gradient, momentum * velocity - step * gradient)


# --- descent and ascent ------------------------------------------------------------------------


def nearest_distribution(point: np.ndarray) -> np.ndarray:
    """Project onto the simplex by bisection on the level, apart from the code's sorting."""
    low, high = point.min() - 1.0, point.max()
    for _ in range(200):
        middle = (low + high) / 2.0
        if np.maximum(point - middle, 0.0).sum() > 1.0:
            low = middle
        else:
            high = middle
    return np.maximum(point - high, 0.0)


def paper_points(data: GroupRisks, problem, schedule):
    """Return the points of the paper's loop without noise, from exact risks, one step at a time."""
    w, mixture = np.zeros(problem.n_weights), np.full(problem.n_groups, 1.0 / problem.n_groups)
    prior, points = mixture, [(w, mixture)]
    for t in range(1, schedule.n_steps + 1):
        risks, gradients = data.risks_and_gradients(w)
        of_w = mixture @ gradients + schedule.ridge * w
        of_mixture = risks - schedule.ridge * (mixture - prior)
        w = w - of_w / (schedule.ridge * t)
        w = w / max(1.0, np.linalg.norm(w) / problem.radius)
        mixture = nearest_distribution(mixture + of_mixture / (schedule.ridge * t))
        points.append((w, mixture))
    return points


# --- online to batch ---------------------------------------------------------------------------


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
    active, g = [], np.zeros(problem.n_weights)
    x = [np.zeros(problem.n_weights)]
    for t in range(1, n + 2):
        total = sum(active, np.zeros(problem.n_weights))
        if optimistic and active:
            total = total + active[-1]
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
        active.append(g if noises is None else g + noises[t - 1])
    return x[-1], active


def papers_node_std(problem, *, rho, power, n_total, step, farthest) -> float:
    """Return σ_t of equation (6)."""
    reach = problem.lipschitz + problem.smoothness * farthest
    return (2.0 * (power + 1.0) / rho * reach * math.sqrt(math.log2(2.0 * n_total))) * step ** (
        power - 1.0
    )
