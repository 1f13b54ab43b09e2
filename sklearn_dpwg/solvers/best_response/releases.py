"""Releases of the best-response solver: the line that hands group risks to noise, and the plan.

Every other release is the base's: the files `releases.py` of the solvers that fulfil the contract
`MixtureSolver`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.best_response.schedule import BestResponseSchedule
from sklearn_dpwg.solvers.plan import Plan, predict_seconds

RISKS = "group risks"

# For predicting time: what planning takes, whatever the records.
SECONDS_TO_PLAN, SECONDS_TO_PLAN_A_GROUP = 0.1, 1e-4


def release_risks(
    read: Risks,
    weights: FloatArray,
    schedule: BestResponseSchedule,
    noise: NoiseSource,
    release: Release,
) -> FloatArray:
    """Return the clipped risks of a round's records at released weights, with noise."""
    assert schedule.grid is not None
    losses, _ = read.sums(weights, ceiling=schedule.ceiling, grid=schedule.grid, gradients=False)
    # sums, of which a record moves one: dividing them first would round them
    noisy = noise.gaussian(losses, sensitivity=schedule.feedback_range, release=release)
    return noisy / np.asarray(read.group_sizes)


def risk_releases(schedule: BestResponseSchedule) -> tuple[Release, ...]:
    """Return the release of the group risks: none before the first round."""
    if schedule.risks_multiplier == 0.0:
        return ()
    return (Release(RISKS, "gaussian", schedule.risks_multiplier, schedule.n_rounds - 1),)


def make_plan(
    problem: Problem,
    budget: Budget,
    schedule: BestResponseSchedule,
    bounds: FloatArray,
    before: tuple[Release, ...] = (),
) -> Plan:
    """Return the plan of a schedule, its noise multipliers scaled together to the budget."""
    base = schedule.base
    releases = calibrate((*before, base.release, *risk_releases(schedule)), budget)
    of_base, *of_risks = releases[len(before) :]
    schedule = replace(
        schedule,
        base=replace(base, release=of_base),
        risks_multiplier=of_risks[0].noise_multiplier if of_risks else 0.0,
    )
    n_risks = (schedule.n_rounds - 1) * bool(of_risks)
    return Plan.of(
        "best-response",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=schedule.n_rounds,
        seconds=base.seconds
        + predict_seconds(
            problem, n_risks, n_draws=n_risks, n_coordinates=n_risks * problem.n_groups
        ),
        seconds_to_plan=SECONDS_TO_PLAN + problem.n_groups * SECONDS_TO_PLAN_A_GROUP,
    )
