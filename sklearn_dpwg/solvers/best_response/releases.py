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
    """Return the releases of the group risks: none before the first round."""
    n_rounds, multiplier = schedule.n_rounds, schedule.risks_multiplier
    if multiplier == 0.0:
        return ()
    if not schedule.is_parallel:
        return (Release(RISKS, "gaussian", multiplier, n_rounds - 1),)
    return tuple(Release(RISKS, "gaussian", multiplier, 1, part=r) for r in range(1, n_rounds))


def make_plan(
    problem: Problem,
    budget: Budget,
    schedule: BestResponseSchedule,
    bounds: FloatArray,
    before: tuple[Release, ...] = (),
) -> Plan:
    """Return the plan of a schedule, its noise multipliers scaled together to the budget.

    Disjoint parts have a child each, whose releases are those that a record of the part pays for.
    """
    base = schedule.base
    releases = calibrate((*before, *base.releases, *risk_releases(schedule)), budget)
    of_base = releases[len(before) : len(before) + len(base.releases)]
    of_risks = releases[len(before) + len(base.releases) :]
    schedule = replace(
        schedule,
        base=replace(base, releases=of_base),
        risks_multiplier=of_risks[0].noise_multiplier if of_risks else 0.0,
    )
    n_risks = (schedule.n_rounds - 1) * bool(of_risks)
    seconds = base.seconds + predict_seconds(
        problem,
        min(n_risks, 1) if schedule.is_parallel else n_risks,
        n_draws=n_risks,
        n_coordinates=n_risks * problem.n_groups,
    )

    def plan(facts: Problem, paid: tuple[Release, ...], children: tuple[Plan, ...]) -> Plan:
        share = facts.n_records / problem.n_records
        return Plan.of(
            "best-response",
            facts,
            budget,
            releases=paid,
            schedule=schedule,
            bounds=bounds,
            n_steps=1 if facts is not problem else schedule.n_rounds,
            seconds=share * seconds,
            seconds_to_plan=SECONDS_TO_PLAN + problem.n_groups * SECONDS_TO_PLAN_A_GROUP,
            children=children,
            composition=base.calls.composition,
        )

    children: tuple[Plan, ...] = ()
    if schedule.is_parallel:
        children = tuple(
            plan(
                replace(problem, group_sizes=sizes),
                tuple(release for release in releases if release.part == part),
                (),
            )
            for part, sizes in enumerate(base.calls.sizes)
        )
    return plan(problem, releases, children)
