"""What every solver must keep, as an attack on runs of neighbours, and how faults are planted.

Neighbours run on one and the same transcript: what they hand over for noise may differ by at most
what is paid for, and nothing else may differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.solvers import Plan, Solution, Solver
from tests.helpers.neighbours import Neighbours, neighbours
from tests.helpers.plan_check import wrong_draws
from tests.helpers.replay import Recorder, distance, fixed_transcript, tampered, wrap
from tests.helpers.selections import Listed

Plans = Callable[[], Iterable[tuple[Plan, Solver]]]
Plant = Callable[[pytest.MonkeyPatch], None]
Moves = dict[str, float]


# --- the attack --------------------------------------------------------------------------------

# Decades of what a transcript answers: such that show next to nothing, and such that decide.
SCALES = {
    "mean row": (-1, 3),
    "mean squared distance from it": (-1, 1),
    "second moments of rows": (-1, 3),
    "mean squares of columns": (-1, 3),
    "phase weights": (-2, 1),
    "gradient": (-3, 3),
    "group risks": (-3, 3),
    "gradient sums": (-2, 3),
    "sums of gradient differences": (-3, 4),
}


def answers(plan: Plan, seed: int) -> dict[str, float]:
    """Return how large the answers to each release are."""
    rng = np.random.default_rng([seed, 4])
    result = {
        name: 10.0 ** rng.uniform(*SCALES.get(name, (-2, 3)))
        for name in sorted({release.name for release in plan.releases})
    }
    if "phase weights" in result:
        result["phase weights"] *= plan.problem.radius
    return result


def moves_on_a_transcript(plan: Plan, solver: Solver, pair: Neighbours, seed: int) -> Moves:
    """Return how far a record moves each release, over what is paid; infinity where it may not."""
    try:
        return compared(plan, *on_a_transcript(plan, solver, pair, seed))
    except ArithmeticError:
        return {"not solved": math.inf}


def on_a_transcript(
    plan: Plan, solver: Solver, pair: Neighbours, seed: int
) -> list[tuple[Recorder, Solution]]:
    """Return what both neighbours asked, and what came out."""
    runs = []
    for data in (pair.data, pair.other):
        source = fixed_transcript(seed, answers(plan, seed))
        runs.append((source, solver.run(plan, data, source, start=pair.start)))
    return runs


def compared(plan: Plan, first: tuple[Recorder, Solution], second: tuple[Any, Any]) -> Moves:
    (source, solution), (other_source, other) = first, second
    if not _is_same(solution, other):
        return {"output": math.inf}
    facts = [
        ([asked.release for asked in each.asked], each.payers) for each in (source, other_source)
    ]
    if facts[0] != facts[1]:
        return {"transcript": math.inf}
    drawn = Counter(asked.release for asked in source.asked if not asked.is_row)
    drawn.update({asked.release for asked in source.asked if asked.is_row})
    if wrong_draws(plan, drawn):
        return {"draws": math.inf}
    result: dict[Any, list[float]] = {release: [] for release in drawn}
    rows: dict[Any, list[float]] = {}
    for one, two in zip(source.asked, other_source.asked, strict=True):
        (rows if one.is_row else result).setdefault(one.release, []).append(distance(one, two))
    result |= {release: [math.hypot(*each)] for release, each in rows.items()}
    return _over_what_is_paid(plan, result)


def _is_same(one: Solution, other: Solution) -> bool:
    """Whether outputs are alike, as they must where they follow from a transcript."""
    same = np.array_equal(one.weights, other.weights) and one.n_iter == other.n_iter
    if one.group_weights is None or other.group_weights is None:
        return same and one.group_weights is other.group_weights
    return same and np.array_equal(one.group_weights, other.group_weights)


def _over_what_is_paid(plan: Plan, result: Mapping[Any, list[float]]) -> Moves:
    """Return the furthest move of each release, and what all of them come to."""
    moves: Moves = {}
    parts, cost = set(), 0.0
    for release, each in result.items():
        moves[release.name] = max(moves.get(release.name, 0.0), *each)
        n_moved = sum(move > 0.0 for move in each)
        if n_moved > release.paid_count:
            moves["more draws than are paid for"] = math.inf
        if n_moved and release.part is not None:
            parts.add(release.part)
        cost += sum(move**2 for move in each) / release.noise_multiplier**2
    if len(parts) > 1:
        moves["several parts"] = math.inf
    if all(release.mechanism == "gaussian" for release in plan.releases):
        moves["all of μ"] = math.sqrt(cost) / plan.budget.mu
    return moves


# --- batches -----------------------------------------------------------------------------------


def moves_of_batches(plan: Plan, solver: Solver, pair: Neighbours, seed: int) -> Moves:
    """Return how far a record moves a batch, over what is stated; infinity where it may not.

    Coins and answers depend on their place alone, but for the record's own coin. "replaced"
    compares neighbours that both join; "joined" compares with absence, over half of what is stated,
    a record that is sampled. Without it neighbours are one and the same.
    """
    result = {"replaced": 0.0, "joined": 0.0}
    runs = {
        (data is pair.data, joins): _run_with_coins(plan, solver, pair, data, seed, joins=joins)
        for data in (pair.data, pair.other)
        for joins in (True, False)
    }
    compared = [("replaced", 1.0, (True, True), (False, True))]
    compared += [("joined", 0.5, (own, True), (own, False)) for own in (True, False)]
    compared += [("absent", 0.0, (True, False), (False, False))]
    for name, allowed, *which in compared:
        (source, one), (other_source, other) = (runs[each] for each in which)
        # outputs follow from the transcript
        worst = 0.0 if _is_same(one, other) else math.inf
        for asked, other_asked in zip(source.asked, other_source.asked, strict=True):
            if hasattr(asked, "units"):
                move = _batch_distance(asked, other_asked)
                worst = max(worst, move / allowed if allowed else math.inf if move else 0.0)
            elif allowed == 1.0:
                worst = max(worst, distance(asked, other_asked))
        result[name] = worst
    return result


def _batch_distance(one: Any, other: Any) -> float:
    """Return a distance over the sensitivity that the noise is enough for."""
    facts = [(each.release, each.units.tolist(), each.sensitivity) for each in (one, other)]
    if facts[0] != facts[1]:
        return math.inf
    return float(np.linalg.norm((one.value - other.value) / one.units) / one.sensitivity)


def _run_with_coins(plan, solver, pair, data, seed, *, joins) -> tuple[Recorder, Solution]:
    values, coins = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 5])
    scale = 10.0 ** np.random.default_rng([seed, 4]).uniform(-2, 3)

    def sample(release):
        rate = max(release.sampling_rate, 0.3)
        if plan.problem.hidden:
            heads = coins.random(plan.problem.n_records) < rate
            heads[pair.place] = joins
            return Listed([np.flatnonzero(heads)], by_place=True)
        sizes = plan.problem.cell_sizes
        joined = []
        for group, size in enumerate(sizes):
            heads = coins.random(size) < rate
            if group == pair.group:
                heads[pair.rank] = joins
            joined.append(np.flatnonzero(heads))
        return Listed(joined)

    def answer(releases, value, units):
        size = scale if isinstance(releases, tuple) else 1.0
        return size * values.standard_normal(value.shape)

    source = Recorder(answer, rng=seed, sample_with=sample)
    return source, solver.run(plan, data, source, start=pair.start)


# --- cases -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Plans of one solver, and faults to plant in its runs."""

    solver: type[Solver]
    plans: Plans
    faults: Mapping[str, Plant] = field(default_factory=dict)
    # plans that show a fault, or that are at fault; made once it is planted
    plans_of: Mapping[str, Plans] = field(default_factory=dict)
    n_pairs: int = 240
    # the least that the worst pair must move each release, so that the attack means something and
    # no noise is wasted
    strength: float = 0.95
    rounding: float = 1e-9
    moves: Callable[[Plan, Solver, Neighbours, int], Moves] = moves_on_a_transcript

    @cached_property
    def honest(self) -> list[tuple[Plan, Solver]]:
        return list(self.plans())

    def worst(self, plans, seeds: Iterable[int], *, until_caught: bool = False) -> Moves:
        """Return the furthest that a record moves each release, of so many pairs."""
        worst: Moves = {}
        for seed in seeds:
            plan, solver = plans[seed % len(plans)]
            pair = neighbours(plan.problem, seed)
            for name, move in self.moves(plan, solver, pair, seed).items():
                worst[name] = max(worst.get(name, 0.0), move)
            if until_caught and self.is_caught(worst):
                break
        return worst

    def is_caught(self, worst: Moves) -> bool:
        return max(worst.values(), default=0.0) > 1.0 + self.rounding


# --- planted faults ----------------------------------------------------------------------------


def instead(owner: Any, name: str, faulty: Callable[..., Any]) -> Plant:
    """Plant ``faulty(real, *args, **named)`` for what a module or a class names so."""
    return lambda patch: wrap(patch, owner, name, faulty)


def draws(solver: type[Solver], name: str, change: Callable[..., Any]) -> Plant:
    """Plant ``change(draw, value, stated, plan)`` for every draw of a run's releases of a name."""

    def run(real, self, plan, data, noise, start):
        def faulty(draw, value, stated):
            return change(draw, value, stated, plan)

        return real(self, plan, data, tampered(noise, name, faulty), start)

    return instead(solver, "_run", run)


def states(solver: type[Solver], name: str, wrong: Callable[..., Any]) -> Plant:
    """Plant a sensitivity that is stated as ``wrong(stated, plan)``."""
    return draws(solver, name, lambda draw, value, stated, plan: draw(value, wrong(stated, plan)))


def half(solver: type[Solver], name: str) -> Plant:
    """Plant half of a sensitivity."""
    return states(solver, name, lambda stated, plan: stated / 2)


def exact(solver: type[Solver], name: str) -> Plant:
    """Plant a release that is drawn, and its exact value taken."""
    return draws(solver, name, lambda draw, value, stated, plan: (draw(value, stated), value)[1])


def leaks(solver: type[Solver], name: str) -> Plant:
    """Plant a little of the exact value beside the noise."""
    return draws(solver, name, lambda draw, value, stated, plan: draw(value, stated) + 1e-9 * value)


def output(solver: type[Solver], change: Callable[..., Mapping[str, Any]]) -> Plant:
    """Plant ``change(solution, data, plan)``, other fields of what a run hands back."""

    def run(real, self, plan, data, *others):
        result = real(self, plan, data, *others)
        return replace(result, **change(result, data, plan))

    return instead(solver, "_run", run)


def no_ceiling(patch: pytest.MonkeyPatch) -> None:
    """Plant losses that count whatever they are."""

    def sums(real, data, weights, *, loss_clip, **facts):
        return real(data, weights, loss_clip=np.inf, **facts)

    wrap(patch, GroupRisks, "sums", sums)


class StoppedError(Exception):
    """A run ends early."""


def stops(solver: type[Solver], owner: Any, name: str, is_enough: Callable[..., bool]) -> Plant:
    """Plant a run that ends before a call of what is named so, once that is enough."""

    def plant(patch):
        n_calls = []

        def call(real, *arguments, **named):
            if n_calls and is_enough(*arguments):
                raise StoppedError
            n_calls.append(1)
            return real(*arguments, **named)

        def run(real, self, plan, *others):
            n_calls.clear()
            try:
                return real(self, plan, *others)
            except StoppedError:
                return Solution(np.zeros(plan.problem.n_weights), np.array(plan.problem.prior), 3)

        wrap(patch, owner, name, call)
        wrap(patch, solver, "_run", run)

    return plant


def planned(patch: pytest.MonkeyPatch) -> None:
    """Plant nothing: plans are at fault."""
