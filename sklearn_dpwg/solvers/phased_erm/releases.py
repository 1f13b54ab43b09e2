"""Releases of the phased solver: every line that hands records to noise, and what a plan pays.

`release_risks` and `release_weights` are the only two that see records and noise together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.saddle_point import solve_saddle_point
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.phased_erm.schedule import Phase, PhasedERMSchedule
from sklearn_dpwg.solvers.plan import Plan, predict_seconds

WEIGHTS, RISKS = "phase weights", "group risks"

# For predicting time: what a fit plans before and between its phases, whatever the records
# (benchmarks/plan_cost.py).
SECONDS_TO_PLAN, SECONDS_TO_PLAN_A_GROUP = 0.1, 1e-4
# What Newton's method takes on top of its passes, in a phase and for each entry of the Hessian.
SECONDS_PER_ENTRY_OF_HESSIAN = 1e-5

# A step of Newton's method that leaves a tenth of the gap keeps its Hessian: with 40 to 140 weights
# that halves the time of a phase.
KEEP_HESSIAN = 0.1


def release_risks(
    read: Risks,
    weights: FloatArray,
    schedule: PhasedERMSchedule,
    noise: NoiseSource,
    release: Release,
    sizes: Sequence[int] | None = None,
) -> FloatArray:
    """Return the clipped risks of a phase's records at released weights, with noise.

    Where groups are hidden, losses count relative to the middle of their range, over `sizes`.
    """
    assert schedule.grid is not None
    center = schedule.center
    relative: dict[str, Any] = {"center": center} if center else {}
    losses, _ = read.sums(
        weights, ceiling=schedule.ceiling, grid=schedule.grid, gradients=False, **relative
    )
    # sums, of which a record moves one: dividing them first would round them
    noisy = noise.gaussian(losses, sensitivity=schedule.feedback_range, release=release)
    noisy = noisy / np.asarray(read.group_sizes if sizes is None else sizes)
    return noisy + center if center else noisy


def release_weights(
    read: Risks,
    center: FloatArray,
    prior: FloatArray,
    phase: Phase,
    schedule: PhasedERMSchedule,
    noise: NoiseSource,
    release: Release,
) -> FloatArray:
    """Return the minimiser of a phase around released weights, with noise.

    Its group weights, its gap and its number of steps are not private and stay here.
    """
    solved = schedule.solved
    read = read.with_loss(solved.loss) if schedule.smoothing_width else read
    if solved.hidden is not None:
        constants = solved.constants
        middle = constants.infimum + (constants.supremum - constants.infimum) / 2.0
        read = read.over(phase.sizes, loss_center=middle)
    found = solve_saddle_point(
        read,
        radius=solved.radius,
        prior=prior,
        mu_weights=phase.mu_weights,
        mu_groups=phase.mu_groups,
        center=center,
        tolerance=phase.tolerance,
        lipschitz=phase.total_weight * solved.lipschitz,
        smoothness=phase.total_weight * solved.smoothness,
        keep_hessian=KEEP_HESSIAN,
    )
    # the tolerance is within reach on every data set, so this is never about the records
    if not found.gap <= phase.tolerance:
        raise ArithmeticError("a phase was not solved to its public tolerance: a bug.")
    return noise.gaussian(found.weights, sensitivity=phase.sensitivity, release=release)


def releases_of(schedule: PhasedERMSchedule) -> tuple[Release, ...]:
    """Return what a run of a schedule releases.

    The weights of the phases, then the group risks between them; where parts are disjoint, the
    weights of each part alone.
    """
    kind: Literal["gaussian"] = "gaussian"
    n_phases, multipliers = schedule.n_phases, schedule.weights_multipliers
    if schedule.composition == "sequential":
        releases = [Release(WEIGHTS, kind, multipliers[0], n_phases)]
        if schedule.risks_multiplier > 0.0:
            releases.append(Release(RISKS, kind, schedule.risks_multiplier, n_phases - 1))
        return tuple(releases)
    return tuple(Release(WEIGHTS, kind, each, 1, part=t) for t, each in enumerate(multipliers))


def make_plan(
    problem: Problem,
    budget: Budget,
    schedule: PhasedERMSchedule,
    bounds: FloatArray,
    before: tuple[Release, ...] = (),
) -> Plan:
    """Return the plan of a schedule, its noise multipliers scaled together to the budget."""
    wanted = (*before, *releases_of(schedule))
    releases = calibrate(wanted, budget)
    factor = releases[0].noise_multiplier / wanted[0].noise_multiplier
    schedule = replace(
        schedule,
        weights_multipliers=tuple(factor * each for each in schedule.weights_multipliers),
        risks_multiplier=factor * schedule.risks_multiplier,
    )
    return plan_of_releases(problem, budget, schedule, releases, bounds)


def plan_of_releases(
    problem: Problem,
    budget: Budget,
    schedule: PhasedERMSchedule,
    releases: tuple[Release, ...],
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule that keeps the budget, with a child for each disjoint part."""
    n_phases, p = schedule.n_phases, problem.n_groups
    n_risks = (n_phases - 1) * (schedule.risks_multiplier > 0.0)
    passes = passes_of_a_phase(problem)
    if schedule.composition == "sequential":
        passes *= n_phases

    def plan(
        facts: Problem, paid: tuple[Release, ...], children: tuple[Plan, ...], steps: int
    ) -> Plan:
        return Plan.of(
            "phased-erm",
            facts,
            budget,
            releases=paid,
            schedule=schedule,
            bounds=bounds,
            n_steps=steps,
            seconds=predict_seconds(
                facts,
                passes,
                n_draws=steps + n_risks,
                n_coordinates=steps * problem.n_weights + n_risks * p,
            )
            + steps * SECONDS_PER_ENTRY_OF_HESSIAN * problem.n_weights**2,
            seconds_to_plan=SECONDS_TO_PLAN + p * SECONDS_TO_PLAN_A_GROUP,
            children=children,
            composition=schedule.composition,
        )

    children: tuple[Plan, ...] = ()
    if schedule.composition == "parallel":
        children = tuple(
            plan(
                replace(problem, group_sizes=sizes),
                tuple(release for release in releases if release.part == t),
                (),
                1,
            )
            for t, sizes in enumerate(schedule.sizes)
        )
    return plan(problem, releases, children, n_phases)


def passes_of_a_phase(problem: Problem) -> int:
    """Return the passes over a phase's records that its solver typically takes.

    A dozen for gradients, and a Hessian, which costs a pass for every eight weights.
    """
    return 12 + problem.n_weights // 8
