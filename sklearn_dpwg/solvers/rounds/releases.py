"""Releases of the phased solver: every line that hands records to noise, and what a plan pays.

`release_risks` and `release_weights` are the only two that see records and noise together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.saddle_point import solve_saddle_point
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.sensitivity import weighting_slack
from sklearn_dpwg.solvers.plan import Plan, predict_seconds
from sklearn_dpwg.solvers.rounds.schedule import (
    BestResponseSchedule,
    MomentsSchedule,
    Phase,
    PhasedERMSchedule,
)

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


# Releases of the moments solver: the line at which records meet noise.

MOMENTS = "second moments"

# Records whose outer products are added exactly before the sum is rounded.
BLOCK_SIZE = 2**13


def from_pass(
    plan: Plan,
    release: Release,
    data: Risks,
    center: FloatArray,
    clip: float,
    noise: NoiseSource,
) -> FloatArray:
    """Release each group's mean second moments of rows and of clipped residuals of a centre.

    Entries off the diagonal count √2 times, so that the norm of what is released is that of the
    matrix, whose sensitivity is known; the square of the constant is public and left out.
    """
    schedule = plan.schedule
    assert isinstance(schedule, MomentsSchedule)
    sums = data.residual_moments(
        center,
        clip=clip,
        constant=schedule.constant,
        length=schedule.length,
        step=schedule.step,
        sum_step=schedule.sum_step,
        block_size=BLOCK_SIZE,
    )
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    at = triangle(sums.shape[1], has_constant=schedule.constant > 0.0)
    times = np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    noisy = noise.gaussian(
        sums[:, at[0], at[1]] * times, sensitivity=schedule.sensitivity, release=release
    )
    moments = np.full_like(sums, schedule.constant**2)
    moments[:, at[0], at[1]] = noisy / times / sizes[:, None]
    moments[:, at[1], at[0]] = moments[:, at[0], at[1]]
    return moments


def from_pass_of_mixture(
    release: Release,
    schedule: MomentsSchedule,
    group_weights: FloatArray,
    data: Risks,
    center: FloatArray,
    clip: float,
    noise: NoiseSource,
) -> tuple[FloatArray, float]:
    """Release the second moments of a mixture alone, and say how loud their noise is.

    A record of group i moves them by its group's weight over its size, times what it moves a sum.
    """
    sizes = np.asarray(data.group_sizes, dtype=float)
    sums = data.residual_moments(
        center,
        clip=clip,
        constant=schedule.constant,
        length=schedule.length,
        step=schedule.step,
        sum_step=schedule.sum_step,
        block_size=BLOCK_SIZE,
    )
    at = triangle(sums.shape[1], has_constant=schedule.constant > 0.0)
    times = np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    ratio = float((group_weights / sizes).max())
    slack = weighting_slack(
        1.0 + schedule.constant**2 + schedule.length**2,
        n_records=int(sizes.sum()),
        n_groups=len(sizes),
    )
    sensitivity = ratio * (schedule.sensitivity + slack)
    mixed = np.tensordot(group_weights / sizes, sums[:, at[0], at[1]], 1)
    noisy = noise.gaussian(mixed * times, sensitivity=sensitivity, release=release)
    moments = np.full(sums.shape[1:], schedule.constant**2)
    moments[at] = noisy / times
    moments[at[1], at[0]] = moments[at]
    return moments, release.noise_multiplier * sensitivity


def triangle(n_columns: int, *, has_constant: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of what is released of a symmetric matrix: the upper triangle.

    Its columns are features, the constant if there is one, and the residual; the square of the
    constant is public and left out.
    """
    rows, columns = np.triu_indices(n_columns)
    if has_constant:
        free = (rows != n_columns - 2) | (columns != n_columns - 2)
        rows, columns = rows[free], columns[free]
    return rows, columns


# Releases of the best-response solver: the line that hands group risks to noise, and the plan.
#
# Every other release is the base's: the files `releases.py` of the solvers that fulfil the contract
# `MixtureSolver`.

ROUND_RISKS = "group risks"

# For predicting time: what planning takes, whatever the records.


def release_round_risks(
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
    return (Release(ROUND_RISKS, "gaussian", schedule.risks_multiplier, schedule.n_rounds - 1),)


def best_response_plan(
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
