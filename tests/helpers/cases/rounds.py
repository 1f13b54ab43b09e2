"""Cases of the solvers that work in rounds: PhasedERM, Moments."""

from __future__ import annotations

import dataclasses
import math
from copy import copy
from functools import partial

import numpy as np
import pytest

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import AbsoluteError, Hinge, Quantile, SquaredError
from sklearn_dpwg.solvers import Moments, PhasedERM, rounds, steps
from sklearn_dpwg.solvers import moments as moments_module
from sklearn_dpwg.solvers import phased_erm as phased_module
from sklearn_dpwg.solvers.phased_erm import PhaseGame
from sklearn_dpwg.solvers.rounds import PhaseSchedule
from tests.helpers.cases.descent import (
    LOSSES,
    OF_HIDDEN_GROUPS,
    SQRT_M_FORGOTTEN,
    disjoint,
    influence_in,
    of_first_group,
    weighs,
)
from tests.helpers.contract import Case, draws, exact, half, instead, output, stops
from tests.helpers.neighbours import (
    hidden_problem,
    overlapping_problem,
    random_budget,
    random_problem,
)
from tests.helpers.replay import wrap

OF_PHASES = (*LOSSES[:3], SquaredError(), Hinge(), AbsoluteError(), Quantile(0.2))
# of solutions at points where their gap is certified
CERTIFIED = 1e-6
# the paper's schedule, and what it sets itself
PAPER = dict.fromkeys(("n_phases", "mu_weights", "sharpening", "mu_groups", "risk_fraction")) | {
    "schedule": "paper"
}


# --- PhasedERM ---------------------------------------------------------------------------------


def phased_plans(
    seed=0, n_plans=60, *, make=None, losses=OF_PHASES, facts=None, calls=0, **parameters
):
    """Yield plans for random problems; those that `make` makes are of hidden or shared groups."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        n_phases, loss = int(rng.integers(1, 4)), losses[index % len(losses)]
        if make is None:
            least = max(n_phases, 2 * calls)
            problem = random_problem(rng, loss, least=least, most=3, **facts or {})
            problem = dataclasses.replace(problem, optimism_correction=float(index % 2))
        else:
            problem = make(rng, loss)
        problem = dataclasses.replace(problem, fresh_calls=calls)
        strengths = [1e-2, 1.0, 30.0, 300.0] if make is None else [1e-1, 1.0, 30.0]
        solver = PhasedERM(
            n_phases,
            # the square of the norm is of the order of the smoothness of all these losses
            mu_weights=float(rng.choice(strengths)) * problem.row_norm**2,
            mu_groups=float(rng.choice([np.inf, problem.loss_range, problem.loss_range / 30])),
            sharpening=float(rng.choice([1.0, 2.0])),
            risk_fraction=0.3,
            smoothing_width=float(rng.choice([0.05, 1.0])),
            centring=False,
        ).set_params(**parameters)
        yield solver.plan(problem, random_budget(rng)), solver


def all_phased_plans():
    """Yield every third by the paper's schedule, on disjoint parts."""
    yield from phased_plans()
    yield from phased_plans(2, 30, **PAPER)


def fresh_phases():
    """Yield a third by the paper's schedule, and some for two calls."""
    yield from phased_plans(5, 24, calls=1)
    yield from phased_plans(6, 16, calls=2)
    yield from phased_plans(7, 20, calls=1, facts={"sizes": [8, 12, 25]}, **PAPER)


def _hidden_problem(rng, loss):
    return hidden_problem(rng, loss, n_groups=int(rng.integers(1, 4)))


hidden_phases = partial(
    phased_plans, make=_hidden_problem, losses=OF_HIDDEN_GROUPS, smoothing_width=1.0, sharpening=1.0
)
overlapping_phases = partial(phased_plans, make=overlapping_problem)
still_phases = partial(overlapping_phases, mu_groups=None)


def overlapping_moving_phases():
    """Yield phases within which weights of overlapping groups move, a little and a lot."""
    for index, (plan, solver) in enumerate(overlapping_phases(2, 30)):
        times = (30.0, 1.0, 1.0 / 30.0)[index % 3]
        solver.set_params(mu_groups=times * plan.problem.loss_range)
        yield solver.plan(plan.problem, plan.budget), solver


def phases(**factors: float):
    """Plant phases some numbers of which are multiplied, such as their sensitivity."""

    def changed(real, *arguments):
        phase = real(*arguments)
        return phase._replace(**{name: getattr(phase, name) * by for name, by in factors.items()})

    return instead(PhaseSchedule, "phase", changed)


def _largest_group(real, read, weights, schedule, noise, release, payer):
    """State the largest group's size for all risks."""
    sizes = np.full(read.n_groups, max(read.group_sizes))
    value = read.risks(weights, loss_clip=schedule.loss_clip)
    return noise.gaussian(value, sensitivity=schedule.sums.loss_range / sizes, release=release)


def _risks_by(change):
    """Plant risks that are released by another schedule."""

    def release(real, read, weights, schedule, *others):
        return real(read, weights, change(schedule), *others)

    return instead(rounds, "release_risks", release)


def _first_prior(real, schedule, index, prior):
    return real(schedule, index, np.asarray(schedule.solved.prior))


def _watched(patch: pytest.MonkeyPatch) -> list:
    """Return a list that gets every exact solution of a phase."""
    result: list = []

    def solve(real, *arguments, **named):
        result.append(real(*arguments, **named))
        return result[-1]

    wrap(patch, rounds, "solve_saddle_point", solve)
    return result


def _best_response_is_the_prior(patch):
    result = _watched(patch)

    def normalised(real, log_weights, **named):
        return real(np.log(result[-1].group_weights + 1e-9) if result else log_weights, **named)

    def run(real, *arguments):
        result.clear()
        return real(*arguments)

    wrap(patch, steps, "normalised", normalised)
    wrap(patch, PhasedERM, "_run", run)


def _group_weights_leave(patch):
    result = _watched(patch)
    output(PhasedERM, lambda *_: {"group_weights": result[-1].group_weights})(patch)


def _newton_steps_leave(patch):
    result = _watched(patch)
    output(PhasedERM, lambda *_: {"n_iter": result[-1].n_newton_steps})(patch)


def _shared_part(real, *arguments):
    parts = real(*arguments)
    return [parts[t // 2] for t in range(len(parts))]


def _parts_by_value(patch):
    drawn: list = []

    def draw(real, *arguments):
        drawn[:] = real(*arguments)
        return tuple(range(len(drawn)))  # so that `part` is told which one, and reads the records

    def part(real, risks, t):
        return real(risks, drawn[t if risks.records.targets[-1] > 0 else -1 - t])

    wrap(patch, phased_module, "keyed_parts", draw)
    wrap(patch, GroupRisks, "part", part)


PHASED_FAULTS = {
    "half the sensitivity of the weights": phases(sensitivity=1 / 2),
    "half the sensitivity of the risks": half(PhasedERM, "group risks"),
    "the largest group in all risks": instead(rounds, "release_risks", _largest_group),
    "no clip": _risks_by(lambda schedule: dataclasses.replace(schedule, loss_clip=math.inf)),
    "the first prior's sensitivity": instead(PhaseSchedule, "phase", _first_prior),
    "less regularisation than accounted for": phases(mu_weights=1 / 4),
    "a smaller regularisation of the group weights": phases(mu_groups=1e-3),
    "the exact minimiser is the next centre": exact(PhasedERM, "phase weights"),
    "exact risks move the prior": exact(PhasedERM, "group risks"),
    "the best response is the next prior": _best_response_is_the_prior,
    "group weights leave": _group_weights_leave,
    "the number of Newton steps leaves": _newton_steps_leave,
    "every phase reads all records": instead(
        GroupRisks, "part", lambda real, risks, positions: risks
    ),
    "two phases share a part": instead(phased_module, "keyed_parts", _shared_part),
    "parts by value": _parts_by_value,
    "early stop on an exact risk": stops(
        PhasedERM,
        rounds,
        "release_weights",
        lambda read, weights, *others: read.risks(weights).max() > 2.0,
    ),
}


def _from_the_beginning(real, game, oracle, sizes):
    oracle._n_drawn = [0] * len(oracle._n_drawn)
    return real(game, oracle, sizes)


def _ends_on_a_risk(real, game, read):
    if not game._phase_weights or read.risks(game._weights).max() < 2.0:
        real(game, read)


FRESH_FAULTS = {
    "half the sensitivity of fresh weights": phases(sensitivity=1 / 2),
    "half the sensitivity of fresh risks": half(PhasedERM, "group risks"),
    "the sizes of all phases together": instead(
        PhaseSchedule,
        "for_fresh_records",
        lambda real, schedule, problem, sizes: real(
            schedule, problem, [schedule.n_phases * size for size in sizes]
        ),
    ),
    "a record in every phase": instead(PhaseGame, "_draw", _from_the_beginning),
    "a phase that is left out on an exact risk": instead(PhaseGame, "play", _ends_on_a_risk),
    "exact fresh risks move the prior": exact(PhasedERM, "group risks"),
}


HIDDEN_FAULTS = {
    "as if group weights stood still": instead(
        rounds,
        "hidden_group_sensitivities",
        lambda real, **facts: real(**facts | {"entropy_weight": np.inf}),
    ),
    "true sizes": instead(
        GroupRisks,
        "over",
        lambda real, data, sizes, **named: real(data, np.maximum(1, data.group_sizes), **named),
    ),
    "uncentred risks": _risks_by(
        lambda schedule: dataclasses.replace(
            schedule, sums=dataclasses.replace(schedule.sums, center=0.0)
        )
    ),
}
HIDDEN_PLANS = {
    "as if group weights stood still": lambda: hidden_phases(1, 28, mu_groups=0.3),
    "true sizes": lambda: hidden_phases(1, 28),
    "uncentred risks": lambda: hidden_phases(1, 28, n_phases=2),
}


# --- Moments -----------------------------------------------------------------------------------


def moments_plans(make=random_problem):
    rng = np.random.default_rng(0)
    for _ in range(40):
        problem = make(rng, SquaredError(float(rng.choice([0.3, 1.0, 7.0]))))
        solver = Moments(int(rng.integers(1, 4)), clip=float(rng.choice([0.1, 2.0])))
        yield solver.plan(problem, random_budget(rng)), solver


MOMENTS = "second moments"


def _reads(name, factor):
    """Plant moments that are read with another fact than the sensitivity is for."""

    def read(real, data, center, **facts):
        return real(data, center, **facts | {name: factor * facts[name]})

    return instead(GroupRisks, "residual_moments", read)


def _of_longer_rows(real, data, center, **facts):
    block, other = copy(data.handles[0]), copy(data)
    block.records = dataclasses.replace(block.records, rows=1.5 * block.records.rows)
    other.handles = [block]
    return real(other, center, **facts)


def _exact_residuals_bound(patch):
    seen: list = []

    def read(real, *arguments, **facts):
        seen.append(real(*arguments, **facts))
        return seen[-1]

    def learned(real, *arguments, **facts):
        weights, mixture, _, gain = real(*arguments, **facts)
        return weights, mixture, 0.01 * seen[-1][:, -1, -1].sum(), gain

    wrap(patch, GroupRisks, "residual_moments", read)
    wrap(patch, moments_module, "_weights_from_moments", learned)


MOMENTS_FAULTS = {
    "half the sensitivity": half(Moments, MOMENTS),
    "residuals clipped later than stated": _reads("length", 1.2),
    "a longer constant": _reads("constant", 1.5),
    "longer rows": instead(GroupRisks, "residual_moments", _of_longer_rows),
    "the exact moments are learned from": exact(Moments, MOMENTS),
    "divided by what is in the records": draws(
        Moments, MOMENTS, lambda draw, value, stated, plan: draw(value * 3, stated)
    ),
    "noise that follows the records": draws(
        Moments,
        MOMENTS,
        lambda draw, value, stated, plan: draw(value, stated * (1 + 1e-3 * np.abs(value).max())),
    ),
    "exact residuals are the next bound": _exact_residuals_bound,
}


OVERLAPPING_PHASES = SQRT_M_FORGOTTEN | {
    "phases as if groups were disjoint": influence_in(rounds, disjoint),
    "a cell of phases counted once": influence_in(rounds, of_first_group),
    "the first prior's sensitivity": instead(PhaseSchedule, "phase", _first_prior),
}

MOVING_PHASES = {
    "one group of a record alone": weighs(lambda fractions, membership: float(fractions.max())),
}

of_phases = partial(Case, PhasedERM, rounding=CERTIFIED)
# few weights of the ball reach the clip of losses, few records are in the phase that begins at
# the weights which they are worst for, and few strengths are planned
of_few = partial(of_phases, strength=0.8)
PLANNED = {"mu_weights": None, "mu_groups": None}

CASES = {
    "phased-erm of moving weights for overlapping groups": of_phases(
        overlapping_moving_phases, MOVING_PHASES, n_pairs=45, strength=0.65
    ),
    "phased-erm for overlapping groups": of_phases(still_phases, OVERLAPPING_PHASES, n_pairs=90),
    "phased-erm of planned strengths for overlapping groups": of_few(
        partial(overlapping_phases, 1, 14, **PLANNED), n_pairs=28
    ),
    "phased-erm": of_phases(all_phased_plans, PHASED_FAULTS, n_pairs=120),
    "phased-erm of planned strengths": of_few(partial(phased_plans, 1, 18, **PLANNED), n_pairs=36),
    "phased-erm on centred rows": of_phases(
        partial(phased_plans, 4, 30, losses=LOSSES[:2], facts={"scaling": 1.0}, centring=True),
        n_pairs=45,
        strength=0.9,
    ),
    "phased-erm on fresh records": of_few(fresh_phases, FRESH_FAULTS, n_pairs=100),
    "phased-erm on fresh records of hidden groups": of_few(
        partial(hidden_phases, 4, 35, calls=2), n_pairs=70
    ),
    "phased-erm for hidden groups": of_phases(
        partial(hidden_phases, 0, 70), HIDDEN_FAULTS, HIDDEN_PLANS, n_pairs=140
    ),
    "phased-erm of planned strengths for hidden groups": of_few(
        partial(hidden_phases, 1, 14, **PLANNED), n_pairs=56
    ),
    "moments": Case(Moments, moments_plans, MOMENTS_FAULTS, n_pairs=40),
    "moments for hidden groups": Case(Moments, partial(moments_plans, hidden_problem), n_pairs=40),
    "moments for overlapping groups": Case(
        Moments,
        partial(moments_plans, overlapping_problem),
        SQRT_M_FORGOTTEN,
        dict.fromkeys(SQRT_M_FORGOTTEN, partial(moments_plans, overlapping_problem)),
        n_pairs=40,
    ),
}
