"""How a plan of the phased solver is made from public facts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import LARGEST_QUOTIENT, Budget, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.group_player import CEILING_OVER_ZERO_SCORE, RISK_SPREAD
from sklearn_dpwg.solvers.phased_erm.descent_bound import STRENGTHS, DescentBound
from sklearn_dpwg.solvers.phased_erm.disjoint_parts import part_sizes
from sklearn_dpwg.solvers.phased_erm.schedule import PhasedERMSchedule, noise_stds
from sklearn_dpwg.solvers.plan import Plan, predict_seconds

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.phased_erm.phased_erm import PhasedERM


WEIGHTS, RISKS = "phase weights", "group risks"

# What a plan may choose: grids, so that better facts never choose worse.
PHASES = (1, 2, 4, 8, 11, 16)
RISK_SHARES = (0.05, 0.1, 0.2)
AVERAGED = (0.0, 0.5)
GROWTHS = (1.0, 2.0, 4.0)
# Equal strengths and an average of the last phases do about as well where losses curve
# (benchmarks/phased_erm_trials.py) and leave far more noise on the output where they do not.
SHARPENINGS = (1.25, 1.6, 2.5)
WIDTHS = (1.0, 0.25, 0.1, 0.025)
# B/μ_λ of a single phase.
LOG_ODDS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Candidate:
    """One way to run, and its bound for each group as the worst-off one.

    Parameters
    ----------
    schedule : PhasedERMSchedule
        What would be run.
    bounds : ndarray of shape (n_groups,)
        Bounds on the excess risk.
    """

    schedule: PhasedERMSchedule
    bounds: FloatArray


def planned_plan(problem: Problem, budget: Budget, solver: PhasedERM) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the solver leaves open.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    solver : PhasedERM
        Its parameters; ``None`` means open.

    Returns
    -------
    Plan
        Calibrated to the budget.
    """
    fixed = (math.inf,) if solver.mu_groups is None else (float(solver.mu_groups),)
    best = _best(problem, _candidates(problem, budget.mu, solver, fixed))
    if best.schedule.n_phases == 1 and problem.n_groups > 1 and solver.mu_groups is None:
        # the bound of a strength is a theorem, that of fixed group weights rests on an assumption:
        # so it competes with these only where there is nothing else to move the group weights
        strengths = tuple(best.schedule.solved.loss_range / odds for odds in LOG_ODDS)
        one_phase = clone(solver).set_params(n_phases=1)
        found = _candidates(problem, budget.mu, one_phase, strengths)
        best = _best(problem, itertools.chain([best], found))
    return make_plan(problem, budget, best.schedule, best.bounds)


def _average(candidate: Candidate, problem: Problem) -> float:
    return float(np.asarray(problem.prior) @ candidate.bounds)


def _best(problem: Problem, candidates: Iterable[Candidate]) -> Candidate:
    return min(candidates, key=lambda candidate: _average(candidate, problem))


def passes_of_a_phase(problem: Problem) -> int:
    """Return the passes over a phase's records that its solver typically takes.

    Parameters
    ----------
    problem : Problem
        Public facts.

    Returns
    -------
    int
        A dozen for gradients, and a Hessian, which costs a pass for every eight weights.
    """
    return 12 + problem.n_weights // 8


def _candidates(
    problem: Problem, mu: float, solver: PhasedERM, entropies: tuple[float, ...]
) -> Iterator[Candidate]:
    """Yield every way to run that the solver's parameters leave open."""
    parallel = solver.composition == "parallel"
    for width, solved in _solved_problems(problem, solver.smoothing_width):
        smoothing = problem.constants.lipschitz * width / 2.0
        for n_phases in _numbers_of_phases(problem, solver):
            feedback = problem.n_groups > 1 and n_phases > 1
            for growth in GROWTHS if parallel and n_phases > 1 else (1.0,):
                shares = growth ** np.arange(n_phases)
                shares = shares / shares.sum()
                if parallel:
                    sizes = part_sizes(problem.group_sizes, shares.tolist())
                else:
                    sizes = (problem.group_sizes,) * n_phases
                for risk_share, averaged, sharpening, mu_groups in itertools.product(
                    _risk_shares(solver, feedback),
                    _numbers_averaged(solver, n_phases),
                    _sharpenings(solver, n_phases),
                    entropies,
                ):
                    bound = _descent_bound(
                        solver, problem, solved, sizes, averaged=averaged, sharpening=sharpening
                    )
                    found = _candidate(
                        problem, solved, mu, solver, sizes, bound, risk_share, mu_groups
                    )
                    schedule = replace(found.schedule, smoothing_width=width)
                    yield Candidate(schedule, found.bounds + smoothing)


def _candidate(
    problem: Problem,
    solved: Problem,
    mu: float,
    solver: PhasedERM,
    sizes: tuple[tuple[int, ...], ...],
    bound: DescentBound,
    risk_share: float,
    mu_groups: float,
) -> Candidate:
    n_phases, p = len(sizes), problem.n_groups
    parallel = solver.composition == "parallel"
    feedback = risk_share > 0.0
    # releases that read the same records share their budget
    repeated = 1 if parallel else n_phases
    multipliers = np.full(n_phases, math.sqrt(repeated / (1.0 - risk_share)) / mu)
    if parallel:
        multipliers[0] = 1.0 / mu  # the first part releases no risks
    totals = np.array([sum(part) for part in sizes])
    ceiling = min(
        CEILING_OVER_ZERO_SCORE * problem.constants.zero_score, problem.constants.supremum
    )
    feedback_range = problem.constants.range_up_to(ceiling)
    prior = np.asarray(problem.prior)
    last = np.asarray(sizes[-1], dtype=float)
    multiplier = float(multipliers[-1])
    stds = noise_stds(solved, sizes[-1], prior, mu_groups=mu_groups, multiplier=multiplier)
    # excess on all records of what was learned from a part of them: uniform stability
    unseen = 1.0 - totals[-1] / problem.n_records
    stability = unseen * solved.lipschitz / multiplier
    if feedback:
        # all weight on one group
        alone = multiplier * solved.gradient_diameter / (last[:, None] * STRENGTHS)
        rows = alone if mu_groups == math.inf else np.maximum(alone, stds)
    else:
        rows = np.broadcast_to(stds, (p, len(stds)))
    at_strengths = np.array([bound.at_strengths(row) + stability * row for row in rows])
    if solver.mu_weights is None:
        weights_part = at_strengths.min(axis=1)
    else:
        chosen, grid = math.log(solver.mu_weights), np.log(STRENGTHS)
        weights_part = np.array([np.interp(chosen, grid, row) for row in at_strengths])
    group_rate, risks_multiplier, group_part = 0.0, 0.0, np.zeros(p)
    if p > 1:
        variance = np.zeros(p)
        if feedback:
            reads = 1 if parallel else n_phases - 1
            risks_multiplier = math.sqrt(reads / risk_share) / mu
            read = np.asarray(sizes[1:], dtype=float)
            variance = ((risks_multiplier * feedback_range / read) ** 2).mean(axis=0)
        sharpness, group_part = _group_player(problem, feedback_range, n_phases, variance)
        group_rate = sharpness / n_phases if feedback else 0.0
        if not feedback and mu_groups < math.inf:
            group_part = np.minimum(group_part, -mu_groups * np.log(prior))
    fixed = None
    if solver.mu_weights is not None:
        fixed = tuple(float(solver.mu_weights * ratio) for ratio in bound.strength_ratios)
    schedule = PhasedERMSchedule(
        composition=solver.composition,
        sizes=sizes,
        solved=solved,
        smoothing_width=0.0,
        prior=problem.prior,
        weights_multipliers=tuple(multipliers.tolist()),
        risks_multiplier=risks_multiplier,
        mu_groups=(mu_groups,) * n_phases,
        averaged=bound.averaged,
        mu_weights=fixed,
        bound=bound,
        ceiling=ceiling,
        feedback_range=feedback_range,
        group_rate=group_rate,
    )
    return Candidate(schedule, weights_part + group_part)


def _descent_bound(
    solver: PhasedERM,
    problem: Problem,
    solved: Problem,
    sizes: tuple[tuple[int, ...], ...],
    *,
    averaged: int,
    sharpening: float,
) -> DescentBound:
    """Return the bound for the weights, each phase's strength so many times that of the one before.

    Where phases read fewer records, noise and strength are larger in proportion.
    """
    totals = [sum(part) for part in sizes]
    noise = [totals[-1] / total for total in totals]
    last = len(sizes) - 1
    return _cached_bound(
        aim=solver.aim * problem.radius,
        lipschitz=solved.lipschitz,
        trace=problem.loss.n_outputs * solved.smoothness,
        n_weights=problem.n_weights,
        noise_ratios=tuple(noise),
        strength_ratios=tuple(each * sharpening ** (t - last) for t, each in enumerate(noise)),
        averaged=averaged,
    )


@lru_cache(maxsize=4096)
def _cached_bound(**facts: Any) -> DescentBound:
    """Return a bound with the tables that an equal one may have made already."""
    return DescentBound(**facts)


def _group_player(
    problem: Problem, feedback_range: float, n_phases: int, variance: FloatArray
) -> tuple[float, FloatArray]:
    """Return the sharpness θ = ηT that is best by prior weight, and each group's bound with it.

    The bound of multiplicative weights over T phases whose risks have noise of a variance; a
    single phase plays the prior, and its group weights owe the same with no noise.
    """
    prior = np.asarray(problem.prior)
    entropies = -np.log(prior)
    quadratic = (RISK_SPREAD * feedback_range) ** 2 / n_phases + variance / (2.0 * n_phases)
    sharpness = math.sqrt(float(prior @ entropies) / float(prior @ quadratic))
    regret = entropies / sharpness + sharpness * quadratic
    return sharpness, np.minimum(regret, problem.constants.zero_score)


def _solved_problems(problem: Problem, width: float | None) -> Iterator[tuple[float, Problem]]:
    """Yield the widths of the kinks' parabolas and the problems with them."""
    if problem.loss.smooth:
        yield 0.0, problem
        return
    for chosen in WIDTHS if width is None else (width,):
        yield chosen, replace(problem, loss=problem.loss.smoothed(chosen))


def _numbers_of_phases(problem: Problem, solver: PhasedERM) -> tuple[int, ...]:
    if solver.n_phases is not None:
        return (solver.n_phases,)
    most = solver.max_passes // passes_of_a_phase(problem)
    if solver.composition == "parallel":
        # parts together are read as often as one phase reads all records
        most = min(problem.group_sizes)
    return tuple(n_phases for n_phases in PHASES if n_phases <= max(1, most))


def _risk_shares(solver: PhasedERM, feedback: bool) -> tuple[float, ...]:
    if not feedback:
        return (0.0,)
    return RISK_SHARES if solver.risk_share is None else (solver.risk_share,)


def _numbers_averaged(solver: PhasedERM, n_phases: int) -> tuple[int, ...]:
    shares = AVERAGED if solver.averaging is None else (solver.averaging,)
    return tuple(sorted({max(1, round(share * n_phases)) for share in shares}))


def _sharpenings(solver: PhasedERM, n_phases: int) -> tuple[float, ...]:
    if n_phases == 1:
        return (1.0,)
    return SHARPENINGS if solver.sharpening is None else (float(solver.sharpening),)


def make_plan(
    problem: Problem, budget: Budget, schedule: PhasedERMSchedule, bounds: FloatArray
) -> Plan:
    """Return the plan of a schedule, its noise scaled to the budget.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    schedule : PhasedERMSchedule
        What to do, with noise multipliers that matter relative to each other.
    bounds : ndarray of shape (n_groups,)
        Bound on the excess for each group as the worst-off one.

    Returns
    -------
    Plan
        With a child for each part where parts are disjoint.
    """
    releases = calibrate(releases_of(schedule), budget)
    factor = releases[0].noise_multiplier / releases_of(schedule)[0].noise_multiplier
    schedule = replace(
        schedule,
        weights_multipliers=tuple(factor * each for each in schedule.weights_multipliers),
        risks_multiplier=factor * schedule.risks_multiplier,
    )
    return plan_of_releases(problem, budget, schedule, releases, bounds)


def releases_of(schedule: PhasedERMSchedule) -> tuple[Release, ...]:
    """Return what a run of a schedule releases.

    Parameters
    ----------
    schedule : PhasedERMSchedule
        What to do.

    Returns
    -------
    tuple of Release
        The weights of the phases, then the group risks between them; where parts are disjoint, one
        release of each for every part.
    """
    kind: Literal["gaussian"] = "gaussian"
    n_phases, multipliers = schedule.n_phases, schedule.weights_multipliers
    if schedule.composition == "sequential":
        releases = [Release(WEIGHTS, kind, multipliers[0], n_phases)]
        if schedule.risks_multiplier > 0.0:
            releases.append(Release(RISKS, kind, schedule.risks_multiplier, n_phases - 1))
        return tuple(releases)
    releases = [Release(WEIGHTS, kind, each, 1, part=t) for t, each in enumerate(multipliers)]
    if schedule.risks_multiplier > 0.0:
        releases += [
            Release(RISKS, kind, schedule.risks_multiplier, 1, part=t) for t in range(1, n_phases)
        ]
    return tuple(releases)


def plan_of_releases(
    problem: Problem,
    budget: Budget,
    schedule: PhasedERMSchedule,
    releases: tuple[Release, ...],
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule whose noise keeps the budget.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    schedule : PhasedERMSchedule
        What to do.
    releases : tuple of Release
        What it releases.
    bounds : ndarray of shape (n_groups,)
        Bound on the excess for each group as the worst-off one.

    Returns
    -------
    Plan
        Accounted for; refused where rounding could show a record.
    """
    n_phases, p = schedule.n_phases, problem.n_groups
    if schedule.risks_multiplier > 0.0:
        quotient = max(problem.group_sizes) * schedule.ceiling / schedule.feedback_range
        if quotient > LARGEST_QUOTIENT:
            raise ValueError(
                f"the largest group ({max(problem.group_sizes):,} records) times its largest loss "
                f"is {quotient:.2g} times what one record can move, where rounding may show a "
                f"record: choose a larger radius, or split the group."
            )
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
            ),
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
