"""Neighbours that differ in one record, its group included, on problems with hidden sizes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg.data.problem import HiddenGroups, Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Loss,
    MultinomialLogLoss,
    SquaredError,
)
from sklearn_dpwg.solvers import Plan, Solution, Solver
from tests.helpers.mgr_cases import bad_rows, random_data, random_targets
from tests.helpers.replay import Recorder, fixed_transcript
from tests.helpers.selections import Listed

LOSSES = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    MultinomialLogLoss(3),
    SquaredError(),
    SquaredError(0.3),
    Hinge(),
    AbsoluteError(),
)
SCALES = {"mean row": 1.0, "mean squared distance from it": 3.0}


class Records(NamedTuple):
    """Rows, targets and groups in the order in which they were passed."""

    rows: np.ndarray
    targets: np.ndarray
    codes: np.ndarray

    def data(self, problem: Problem) -> GroupRisks:
        encoder = RecordEncoder(problem.n_groups, 1.0, hides_groups=True)
        records = encoder.encode(self.rows, self.targets, self.codes)
        return GroupRisks(records, problem.loss, problem.intercept_scaling)


class HiddenCase(NamedTuple):
    """Two neighbours, the place where they differ, and where a run on them starts."""

    plan: Plan
    solver: Solver
    one: Records
    other: Records
    place: int
    start: Solution

    @property
    def pair(self) -> tuple[GroupRisks, GroupRisks]:
        problem = self.plan.problem
        return self.one.data(problem), self.other.data(problem)


def hidden_problem(
    rng: np.random.Generator, loss: Loss, *, scaling: float | None = None, n_groups: int = 0
) -> Problem:
    """Return a problem whose stated sizes have nothing to do with those of any records."""
    n_groups = n_groups or int(rng.integers(1, 5))
    n_records = int(rng.choice([2, 5, 12, 60]))
    sizes = rng.choice([1, 2, 3, 8, 40], size=n_groups) if n_groups > 1 else [n_records]
    prior = rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups
    return Problem(
        loss,
        tuple(int(size) for size in sizes),
        int(rng.integers(1, 4)),
        float(rng.choice([0.2, 1.0, 3.0, 20.0])),
        tuple(float(weight) for weight in prior),
        float(rng.choice([0.0, 0.5, 1.0])) if scaling is None else scaling,
        HiddenGroups(n_records, 0.03, float(rng.choice([0.0, 0.3, 2.0]))),
    )


def hidden_case(plan: Plan, solver: Solver, seed: int) -> HiddenCase:
    """Return neighbours that differ in one record, most of the time in its group as well.

    Groups may be empty, or have one record, which may be the one that leaves.
    """
    problem = plan.problem
    rng = np.random.default_rng([seed, 2])
    weights = rng.standard_normal(problem.n_weights)
    weights *= problem.radius * rng.choice([0.0, 0.5, 1.0, 1.0, 1.0]) / np.linalg.norm(weights)
    n_groups, n_records = problem.n_groups, problem.n_records
    shares = rng.dirichlet(np.full(n_groups, rng.choice([0.05, 1.0])))
    codes = rng.choice(n_groups, p=shares, size=n_records)
    place = int(rng.integers(n_records))
    groups = rng.choice(n_groups, size=2)
    if rng.random() < 0.6:  # the two that noise is least for
        groups = np.argsort(problem.group_sizes, kind="stable")[[0, min(1, n_groups - 1)]]
    other_codes = codes.copy()
    codes[place], other_codes[place] = groups
    rows, targets = random_data(problem, [seed, 3])
    others, other_targets = rows.copy(), targets.copy()
    rows[place], others[place] = bad_rows(problem, weights, rng)
    targets[place], other_targets[place] = random_targets(rng, problem.loss, 2)
    group_weights = [
        rng.dirichlet(np.ones(n_groups)),
        np.maximum(np.eye(n_groups)[groups[0]], 1e-300),
        np.maximum(np.eye(n_groups)[groups].mean(axis=0), 1e-300),
    ][int(rng.integers(3))]
    start = Solution(weights, group_weights / group_weights.sum(), 0)
    one, other = Records(rows, targets, codes), Records(others, other_targets, other_codes)
    return HiddenCase(plan, solver, one, other, place, start)


def attack(case: HiddenCase, seed: int, *names: str) -> tuple[dict[str, float], bool]:
    """Run both neighbours on one transcript; return the distances, and whether anything leaks."""
    rng = np.random.default_rng([seed, 4])
    scales = {name: 10.0 ** rng.uniform(-2, 3) for name in names} | SCALES
    runs = []
    for data in case.pair:
        source = fixed_transcript(seed, scales)
        runs.append((source.asked, case.solver.run(case.plan, data, source, start=case.start)))
    (first, one), (second, other) = runs
    same = np.array_equal(one.weights, other.weights) and one.n_iter == other.n_iter
    if one.group_weights is not None:
        same &= np.array_equal(one.group_weights, other.group_weights)
    return distances(first, second), not same


def distances(first: list[Any], second: list[Any]) -> dict[str, float]:
    """Return how far the releases of two runs are apart at most, in units of what is stated."""
    found: dict[str, float] = {}
    if len(first) != len(second):
        return {"transcript": math.inf}
    for one, other in zip(first, second, strict=True):
        is_same = one.release == other.release and np.array_equal(
            one.sensitivity, other.sensitivity
        )
        moved = np.atleast_1d((one.value - other.value) / one.sensitivity)
        distance = float(np.linalg.norm(moved)) if is_same else math.inf
        name = one.release.name
        found[name] = max(found.get(name, 0.0), distance)
    return found


def batch_moves(case: HiddenCase, seed: int) -> dict[str, float]:
    """Return how far a record that joins a batch moves it, over half of what is stated.

    Coins and answers depend on their place alone. Without the record neighbours are one and the
    same: the distance of these is infinite where they are not.
    """
    plan = case.plan

    def run(data: GroupRisks, *, joins: bool) -> tuple[list[Any], Solution]:
        answers, coins = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 5])
        scale = 10.0 ** np.random.default_rng([seed, 4]).uniform(-2, 3)

        def sample(release):
            heads = coins.random(plan.problem.n_records) < max(release.sampling_rate, 0.3)
            heads[case.place] = joins
            return Listed([np.flatnonzero(heads)], by_place=True)

        def answer(releases, value, units):
            return scale * answers.standard_normal(value.shape)

        source = Recorder(answer, rng=seed, sample_with=sample)
        return source.asked, case.solver.run(plan, data, source, start=case.start)

    def steps(asked):
        return [each for each in asked if hasattr(each, "units")]

    without, outcome = run(case.pair[0], joins=False)
    found = {"joined": 0.0, "absent": 0.0}
    for data in case.pair:
        absent, joined = run(data, joins=False), run(data, joins=True)
        for one, two in zip(steps(absent[0]), steps(without), strict=True):
            same = np.array_equal(one.value, two.value) and np.array_equal(one.units, two.units)
            found["absent"] = max(found["absent"], 0.0 if same else math.inf)
        for one, two in zip(steps(joined[0]), steps(absent[0]), strict=True):
            same = np.array_equal(one.units, two.units)
            distance = np.linalg.norm((one.value - two.value) / one.units)
            stated = float(one.sensitivities[0])
            found["joined"] = max(found["joined"], distance / (0.5 * stated) if same else math.inf)
        if not np.array_equal(joined[1].weights, outcome.weights):
            found["output"] = math.inf
    return found
