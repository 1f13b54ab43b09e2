"""Plan of the online-to-batch solver with the parameters of Zhang, Tran and Cutkosky."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import Learner, OptimisticFTRL, ParameterFree, make_learner
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.online_to_batch.parameters import OnlineToBatchParameters
from sklearn_dpwg.solvers.online_to_batch.planning import effective_batch, planned_schedule
from sklearn_dpwg.solvers.online_to_batch.releases import make_plan, planned_release
from sklearn_dpwg.solvers.online_to_batch.schedule import OnlineToBatchSchedule
from sklearn_dpwg.solvers.online_to_batch.sensitivity import round_weights
from sklearn_dpwg.solvers.plan import Plan

# More rounds of single records would take minutes, and a plan for them gigabytes.
MOST_ROUNDS = 2_000_000


def paper_plan(problem: Problem, budget: Budget, parameters: OnlineToBatchParameters) -> Plan:
    """Return the plan of the paper's parameters, whose noise is accounted for exactly.

    One record a round unless `batch_size` says more; of T rounds the last reads none, as its sum
    would never be used. The noise of a node of the tree has the standard deviation of (6),
    2(k+1)/ρ (L + H max ‖w_i - x_{i-1}‖) √(log₂ 2T) t^{k-1}, with the ρ that the budget allows, and
    the learner's strength is the best one for the bound of Theorem 4 or 8 at the radius. (Zhang,
    Tran and Cutkosky 2022, Algorithm 1, equation (6), Theorems 4, 6, 8 and 10)
    """
    own = 1 if parameters.batch_size is None else int(parameters.batch_size)
    if math.isinf(problem.n_records) and parameters.n_rounds is None:
        raise ValueError(
            "n_rounds of OnlineToBatch must be set where a group has no end (a size of infinity), "
            "got None."
        )
    horizon = problem.n_records / own
    if math.isfinite(horizon):
        horizon = int(horizon)
    if parameters.n_rounds is not None:
        horizon = min(horizon, parameters.n_rounds + 1)
    n_rounds = max(1, int(horizon) - 1)
    if n_rounds > MOST_ROUNDS:
        raise ValueError(
            f"batch_size or n_rounds of OnlineToBatch must be set with schedule='paper' where a "
            f"round a record is more than {MOST_ROUNDS:,} rounds, got {n_rounds:,}."
        )
    sizes = np.asarray(problem.group_sizes, dtype=float)
    rates = own * np.asarray(problem.prior)
    if math.isfinite(problem.n_records):
        rates = min(own, problem.n_records) * sizes / problem.n_records
    rates = np.minimum(rates, sizes / n_rounds)
    release = planned_release(budget)
    bound, schedule = planned_schedule(problem, release, parameters, n_rounds, rates)
    mechanism = make_prefix_sums(
        parameters.mechanism, n_steps=n_rounds, n_dimensions=problem.n_weights
    )
    power = parameters.exponent
    factor = 2.0 * (power + 1.0) * math.sqrt(math.log2(2.0 * (n_rounds + 1)))
    schedule = replace(schedule, papers_factor=factor / mechanism.column_norm)
    learner = make_learner(parameters.learner)
    remark = "the paper's parameters, with noise accounted for exactly"
    if isinstance(learner, ParameterFree):
        remark += "; its constants of the regulariser hold an unstated one, and are not used"
    else:
        stds = _noise_stds(problem, schedule, mechanism.standard_deviations())
        bound, strength = papers_bound(problem, learner, schedule, stds)
        schedule = replace(schedule, strength=strength)
    return make_plan(problem, budget, release, replace(schedule, remark=remark), bound)


def _noise_stds(
    problem: Problem, schedule: OnlineToBatchSchedule, deviations: FloatArray
) -> FloatArray:
    """Return the noise of a coordinate of each sum if weights are a diameter apart."""
    influence = float((np.asarray(schedule.mixture) / np.asarray(schedule.rates)).max())
    first = schedule.papers_sensitivity(1, problem.diameter)
    units = first * round_weights(schedule.n_rounds, schedule.power - 1.0)
    stds = schedule.multiplier * influence * np.maximum.accumulate(units) * deviations
    return np.asarray(stds, dtype=np.float64)


def papers_bound(
    problem: Problem, learner: Learner, schedule: OnlineToBatchSchedule, noise_stds: FloatArray
) -> tuple[float, float]:
    """Return the theorem's bound on the excess risk, and the strength that makes it least.

    `docs/theory/online-to-batch.md`, section 4, with nothing known of σ_G and σ_H but L and H. The
    round that reads no record counts as if the learner then heard the risk's own gradient.
    """
    n_rounds, radius, diameter = schedule.n_rounds, problem.radius, problem.diameter
    convexity = schedule.convexity
    weights = np.arange(1.0, n_rounds + 2) ** schedule.power
    totals = np.cumsum(weights)
    before = np.append(0.0, weights[:-1])
    moved = diameter * weights / totals
    steps = (weights - before) * problem.lipschitz + before * problem.smoothness * moved
    batch = effective_batch(np.asarray(schedule.mixture), np.asarray(schedule.rates))
    sampled = np.sqrt(np.cumsum(steps[:-1] ** 2) / batch)
    noise = math.sqrt(problem.n_weights) * noise_stds
    errors = sampled + noise
    # of the public regulariser, half of which is curvature
    norms = 1.5 * weights * convexity * diameter
    if isinstance(learner, OptimisticFTRL):
        norms += steps + np.append(0.0, noise) + np.append(noise, sampled[-1])
    else:
        norms += weights * problem.lipschitz + np.append(errors, 0.0)
    curved = 0.5 * convexity * totals
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    else:
        middle = math.sqrt(float((norms**2).sum())) / radius
        # where the learner's own convexity regularises, hardly any strength may be the best
        strengths = middle * 2.0 ** np.arange(0.0 if not convexity else -30.0, 0.25, 0.25)
    regret = np.array([(norms**2 / (2.0 * (each + curved))).sum() for each in strengths])
    total = float(totals[-1])
    if convexity:
        rest = float((2.0 * errors**2 / (weights[:-1] * convexity)).sum()) / total
        rest += 0.5 * convexity * radius**2
    else:
        rest = diameter * float(errors.sum()) / total
    bounds = (0.5 * strengths * radius**2 + regret) / total + rest
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])
