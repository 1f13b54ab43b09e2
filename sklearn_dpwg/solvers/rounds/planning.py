"""Plan of the phased solver with the least bound on the excess risk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, Rules, flag, one_of, positive, share, whole, within
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers.centring import (
    SHARE_LEFT,
    centred_problem,
    centring_releases,
    check_centring,
    is_worth_centring,
)
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.rounds.releases import make_plan, passes_of_a_phase
from sklearn_dpwg.solvers.rounds.schedule import (
    STRENGTHS,
    DescentBound,
    PhasedERMSchedule,
    certified,
    noise_stds,
)
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import rounds_regret
from sklearn_dpwg.solvers.sums import SumSensitivity

# Parameters of the phased solver, and what each may be.

# Below it the noise overflows, whatever the records are.
_WEAKEST = 1e-30

# Strengths that grow tenfold stay squarable so long; planning takes the square of the phases.
MOST_PHASES = 128


@dataclass(eq=False, repr=False)
class PhasedERMParameters:
    """Parameters of `PhasedERM`, which documents them; ``None`` means planned."""

    n_phases: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    mu_weights: float | None = None
    sharpening: float | None = None
    mu_groups: float | None = None
    risk_share: float | None = None
    averaging: float | None = None
    aim: float = 0.3
    smoothing_width: float | None = None
    max_passes: int = 300
    centring: bool | None = None


def _not_too_many(parameters: PhasedERMParameters) -> None:
    """Refuse more phases than can be planned."""
    if (parameters.n_phases or 1) > MOST_PHASES:
        raise ValueError(
            f"n_phases of PhasedERM must be at most {MOST_PHASES}, got {parameters.n_phases}."
        )


def _paper_sets_the_rest(parameters: PhasedERMParameters) -> None:
    """Refuse what the paper's schedule sets itself."""
    if parameters.schedule != "paper":
        return
    for name in ("n_phases", "mu_weights", "sharpening", "mu_groups", "risk_share", "averaging"):
        value = getattr(parameters, name)
        if value is not None:
            raise ValueError(
                f"{name} of PhasedERM must be None with schedule='paper', which sets it, got "
                f"{value!r}."
            )


RULES = Rules(
    "PhasedERM",
    _paper_sets_the_rest,
    _not_too_many,
    schedule=one_of("planned", "paper"),
    centring=flag(or_none=True),
    n_phases=whole(or_none=True),
    max_passes=whole(),
    mu_weights=positive(least=_WEAKEST, or_none=True),
    aim=positive(),
    smoothing_width=positive(or_none=True),
    mu_groups=positive(least=_WEAKEST, or_infinite=True, or_none=True),
    risk_share=share(or_none=True),
    averaging=share(or_all=True, or_none=True),
    sharpening=within(1.0, 10.0, or_none=True),
)


# What a plan may choose: grids, so that better facts never choose worse.
PHASES = (1, 2, 4, 8, 11, 16)
RISK_SHARES = (0.05, 0.1, 0.2)
AVERAGED = (0.0, 0.5)
# Equal strengths and an average of the last phases do about as well where losses curve
# (benchmarks/phased_erm_trials.py) and leave far more noise on the output where they do not.
SHARPENINGS = (1.25, 1.6, 2.5)
WIDTHS = (1.0, 0.25, 0.1, 0.025)
# With more sizes of groups than these, bounds are those of the next lower size of a grid.
MOST_SIZES, LEVELS_PER_OCTAVE = 256, 32
# B/μ_λ of a single phase.
LOG_ODDS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Candidate:
    """One way to run, and its bound for each group as the worst-off one."""

    schedule: PhasedERMSchedule
    bounds: FloatArray


def least_bound_plan(problem: Problem, budget: Budget, parameters: PhasedERMParameters) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    fixed = (math.inf,) if parameters.mu_groups is None else (float(parameters.mu_groups),)
    stated, mu = problem, budget.mu
    if is_centred(problem, parameters):
        problem, mu = centred_problem(problem), math.sqrt(SHARE_LEFT) * mu
    best = _best(problem, _candidates(problem, mu, parameters, fixed))
    is_open = parameters.mu_groups is None and problem.hidden is None
    if best.schedule.n_phases == 1 and problem.n_groups > 1 and is_open:
        # the bound of a strength is a theorem, that of fixed group weights rests on an assumption:
        # so it competes with these only where there is nothing else to move the group weights
        strengths = tuple(best.schedule.solved.loss_range / odds for odds in LOG_ODDS)
        one_phase = copy(parameters)
        one_phase.n_phases = 1
        found = _candidates(problem, mu, one_phase, strengths)
        best = _best(problem, itertools.chain([best], found))
    before = centring_releases(budget.mu) if problem is not stated else ()
    return make_plan(stated, budget, best.schedule, best.bounds, before)


def is_centred(problem: Problem, parameters: PhasedERMParameters) -> bool:
    """Return whether rows are centred: as asked for, or where it is worth its price."""
    # several derivatives that are shortened together are no gradient of a convex function
    # and the smooth stand-in for a loss with kinks has no compiled kernel, which limits slopes
    is_convex = problem.loss.n_outputs == 1 and problem.loss.smooth
    if parameters.centring:
        check_centring(problem, "PhasedERM")
        if not is_convex:
            raise ValueError(
                f"centring of PhasedERM needs a smooth loss of one output, got {problem.loss!r}."
            )
    if parameters.centring is not None:
        return parameters.centring
    return is_convex and is_worth_centring(problem)


def _average(candidate: Candidate, problem: Problem) -> float:
    return float(_as_array(problem.prior) @ candidate.bounds)


def _best(problem: Problem, candidates: Iterable[Candidate]) -> Candidate:
    return first_of_least(candidates, lambda candidate: _average(candidate, problem))


def _candidates(
    problem: Problem, mu: float, parameters: PhasedERMParameters, entropies: tuple[float, ...]
) -> Iterator[Candidate]:
    """Yield every way to run that the parameters leave open."""
    for width, solved in solved_problems(problem, parameters.smoothing_width):
        smoothing = problem.constants.lipschitz * width / 2.0
        for n_phases in _numbers_of_phases(problem, parameters):
            feedback = problem.n_groups > 1 and n_phases > 1
            for risk_share, averaged, sharpening, mu_groups in itertools.product(
                _risk_shares(parameters, feedback),
                numbers_averaged(parameters, n_phases),
                sharpenings(parameters, n_phases),
                entropies,
            ):
                bound = descent_bound(
                    parameters, problem, solved, n_phases, averaged=averaged, sharpening=sharpening
                )
                found = _candidate(
                    problem, solved, mu, parameters, n_phases, bound, risk_share, mu_groups
                )
                schedule = replace(found.schedule, smoothing_width=width)
                yield Candidate(schedule, found.bounds + smoothing)


def _candidate(
    problem: Problem,
    solved: Problem,
    mu: float,
    parameters: PhasedERMParameters,
    n_phases: int,
    bound: DescentBound,
    risk_share: float,
    mu_groups: float,
) -> Candidate:
    """Return one way to run with its bounds, which add what both players owe."""
    # all releases read the same records and share the budget
    multiplier = math.sqrt(n_phases / (1.0 - risk_share)) / mu
    risks_multiplier = 0.0
    if risk_share > 0.0:
        risks_multiplier = math.sqrt((n_phases - 1) / risk_share) / mu
    constants = problem.constants
    ceiling = min(by_loss(problem.loss).ceiling * constants.zero_score, constants.supremum)
    sums = SumSensitivity.of(problem, ceiling=ceiling)
    feedback_range = sums.loss_range
    group_rate, group_part = _group_player(
        problem, n_phases, feedback_range, risks_multiplier, mu_groups
    )
    weights_part = weights_bounds(
        problem,
        solved,
        parameters.mu_weights,
        problem.group_sizes,
        bound,
        multiplier=multiplier,
        mu_groups=mu_groups,
        feedback=risk_share > 0.0,
    )
    fixed = None
    if parameters.mu_weights is not None:
        fixed = tuple(float(parameters.mu_weights * ratio) for ratio in bound.strength_ratios)
    schedule = PhasedERMSchedule(
        composition="sequential",
        sizes=(problem.group_sizes,) * n_phases,
        solved=solved,
        smoothing_width=0.0,
        prior=problem.prior,
        weights_multipliers=(multiplier,) * n_phases,
        risks_multiplier=risks_multiplier,
        mu_groups=(mu_groups,) * n_phases,
        averaged=bound.averaged,
        mu_weights=fixed,
        bound=bound,
        ceiling=ceiling,
        feedback_range=feedback_range,
        grid=sums.grid,
        lowest_loss=constants.infimum,
        group_rate=group_rate,
    )
    return Candidate(schedule, weights_part + group_part)


def weights_bounds(
    problem: Problem,
    solved: Problem,
    mu_weights: float | None,
    sizes: tuple[int, ...],
    bound: DescentBound,
    *,
    multiplier: float,
    mu_groups: float,
    feedback: bool,
) -> FloatArray:
    """Return the weights' part of each group's bound, from the noise of the last phase."""
    prior = _as_array(problem.prior)
    stds = noise_stds(solved, sizes, prior, mu_groups=mu_groups, multiplier=multiplier)
    # hidden groups may stand for fewer records than there are: uniform stability
    unseen = max(0.0, 1.0 - _total(sizes) / problem.n_records)
    stability = unseen * solved.lipschitz / multiplier
    if feedback:
        # all weight on one group; those of one size share a row
        last, of_group = _levels(sizes)
        if problem.hidden is not None:
            heard = np.where(problem.is_heard, sizes, problem.n_records)
            last, of_group = _levels(tuple(float(size) for size in heard))
        exact = solved.gradient_diameter / (last[:, None] * STRENGTHS)
        _, paid = certified(solved, sizes, exact, mu_weights=STRENGTHS, mu_groups=mu_groups)
        alone = multiplier * paid
        rows = alone if mu_groups == math.inf else np.maximum(alone, stds)
    else:
        rows, of_group = stds[None, :], np.zeros(problem.n_groups, dtype=int)
    at_strengths = bound.at_strengths(rows) + stability * rows
    if mu_weights is None:
        return np.asarray(at_strengths.min(axis=1))[of_group]
    chosen, grid = math.log(mu_weights), np.log(STRENGTHS)
    return np.array([np.interp(chosen, grid, row) for row in at_strengths])[of_group]


def descent_bound(
    parameters: PhasedERMParameters,
    problem: Problem,
    solved: Problem,
    n_phases: int,
    *,
    averaged: int,
    sharpening: float,
) -> DescentBound:
    """Return the bound for the weights, each phase so many times as strong as the one before."""
    return _cached_bound(
        aim=parameters.aim * problem.radius,
        lipschitz=solved.lipschitz,
        trace=problem.loss.n_outputs * solved.smoothness,
        n_weights=problem.n_weights,
        strength_ratios=tuple(sharpening ** (t + 1 - n_phases) for t in range(n_phases)),
        averaged=averaged,
    )


@lru_cache(maxsize=64)
def _as_array(numbers: tuple[float, ...]) -> FloatArray:
    """Return a tuple of an entry a group as an array: candidates share a few long ones."""
    found = np.array(numbers, dtype=float)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _levels(sizes: tuple[float, ...]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the distinct sizes, and which of them each group has.

    Of very many, sizes are taken down to a fixed grid, which makes bounds larger by at most 2 %.
    """
    wanted = _as_array(sizes)
    levels, of_group = np.unique(wanted, return_inverse=True)
    if len(levels) > MOST_SIZES:
        wanted = 2.0 ** (np.floor(np.log2(wanted) * LEVELS_PER_OCTAVE) / LEVELS_PER_OCTAVE)
        levels, of_group = np.unique(wanted, return_inverse=True)
    return levels, of_group


@lru_cache(maxsize=64)
def _total(sizes: tuple[int, ...]) -> int:
    return sum(sizes)


@lru_cache(maxsize=4096)
def _cached_bound(**facts: Any) -> DescentBound:
    """Return a bound with the tables that an equal one may have made already."""
    return DescentBound(**facts)


def _group_player(
    problem: Problem,
    n_phases: int,
    feedback_range: float,
    risks_multiplier: float,
    mu_groups: float,
) -> tuple[float, FloatArray]:
    """Return the rate η of the group player and its bounds, if any group may be the worst off.

    The bound of multiplicative weights over T phases, of sharpness ηT, whose risks have noise of a
    variance; a single phase plays the prior, and its group weights owe the same with no noise.
    """
    if problem.n_groups == 1:
        return 0.0, np.zeros(1)
    sharpness, bounds = rounds_regret(
        problem, n_phases, noise_multiplier=risks_multiplier * feedback_range
    )
    if risks_multiplier > 0.0:
        return sharpness / n_phases, bounds
    if mu_groups < math.inf:
        bounds = np.minimum(bounds, -mu_groups * np.log(_as_array(problem.prior)))
    return 0.0, bounds


def solved_problems(problem: Problem, width: float | None) -> Iterator[tuple[float, Problem]]:
    """Yield the widths of the kinks' parabolas and the problems with them."""
    if problem.loss.smooth:
        yield 0.0, problem
        return
    for chosen in WIDTHS if width is None else (width,):
        yield chosen, replace(problem, loss=problem.loss.smoothed(chosen))


def _numbers_of_phases(problem: Problem, parameters: PhasedERMParameters) -> tuple[int, ...]:
    if parameters.n_phases is not None:
        return (parameters.n_phases,)
    return numbers_of_phases(problem, parameters.max_passes)


def numbers_of_phases(problem: Problem, max_passes: int) -> tuple[int, ...]:
    """Return the numbers of phases that a plan may choose from."""
    most = max_passes // passes_of_a_phase(problem)
    return tuple(n_phases for n_phases in PHASES if n_phases <= max(1, most))


def _risk_shares(parameters: PhasedERMParameters, feedback: bool) -> tuple[float, ...]:
    if not feedback:
        return (0.0,)
    return RISK_SHARES if parameters.risk_share is None else (parameters.risk_share,)


def numbers_averaged(parameters: PhasedERMParameters, n_phases: int) -> tuple[int, ...]:
    """Return how many of the last phases a plan may average."""
    shares = AVERAGED if parameters.averaging is None else (parameters.averaging,)
    return tuple(sorted({max(1, round(share * n_phases)) for share in shares}))


def sharpenings(parameters: PhasedERMParameters, n_phases: int) -> tuple[float, ...]:
    """Return what each phase's strength over that of the one before may be."""
    if n_phases == 1:
        return (1.0,)
    return SHARPENINGS if parameters.sharpening is None else (float(parameters.sharpening),)
