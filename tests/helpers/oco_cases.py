"""Games of neighbours on one transcript, and faults to plant in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.solvers import OCO, Plan, Solution
from sklearn_dpwg.solvers.stream import games as sampled_game
from sklearn_dpwg.solvers.stream import games as weighted_game
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.planted import wrap

LOSSES = (BinaryLogLoss(), SquaredError(), MultinomialLogLoss(3))
BUDGET = Budget(1.0, 1e-6)


class Asked(NamedTuple):
    """One value that a game handed over for noise."""

    release: Release
    value: np.ndarray
    sensitivity: np.ndarray


class Transcript:
    """Answers every request by its place alone, so neighbours get the same answers."""

    def __init__(self, seed: int, scales: dict[str, float]) -> None:
        self.rng = np.random.default_rng(seed)
        self._answers = np.random.default_rng([seed, 1])
        self._scales = scales
        self.asked: list[Asked] = []

    def answer(self, release, value, sensitivity):
        value = np.array(value, dtype=float)
        self.asked.append(Asked(release, value, np.array(sensitivity, dtype=float)))
        return self._scales[release.name] * self._answers.standard_normal(value.shape)[()]

    def laplace(self, value, *, sensitivity, release):
        assert release.mechanism == "laplace"
        return self.answer(release, value, sensitivity)

    def gaussian_rows(self, shape, *, release):
        assert release.mechanism == "gaussian"
        return _Rows(self, release)


class _Rows:
    seeded = False

    def __init__(self, transcript, release):
        self._transcript, self._release = transcript, release

    def add(self, row, sensitivity):
        return self._transcript.answer(self._release, row, sensitivity)


class Moves(NamedTuple):
    """How far two neighbours' transcripts are apart, in units of the stated sensitivity."""

    sums: float  # of all rows of the gradient sums together, in the L2 norm
    losses: list[float]  # of every noisy loss, in the L1 norm
    n_rows: int  # rows of the gradient sums that differ

    @property
    def worst(self) -> float:
        """The larger distance; infinite where both players' releases or two losses moved."""
        moved = sum(loss > 0 for loss in self.losses)
        if moved > 1 or (moved and self.sums > 0):
            return math.inf
        return max([self.sums, *self.losses])


def moves(first: list[Asked], second: list[Asked]) -> Moves:
    """Compare two transcripts; infinite where they differ in what is asked for."""
    infinite = Moves(math.inf, [], 0)
    if [asked.release for asked in first] != [asked.release for asked in second]:
        return infinite
    squares, losses, n_rows = 0.0, [], 0
    for one, other in zip(first, second, strict=True):
        if not np.array_equal(one.sensitivity, other.sensitivity):
            return infinite
        gap = one.value - other.value
        if one.release.mechanism == "gaussian":
            n_rows += bool(np.abs(gap).max() > 1e-12 * float(one.sensitivity))
            squares += float(gap @ gap) / float(one.sensitivity) ** 2
        else:
            scaled = np.zeros_like(gap)
            np.divide(gap, one.sensitivity, out=scaled, where=one.sensitivity > 0)
            scaled = np.where((one.sensitivity <= 0) & (gap != 0), math.inf, scaled)
            size = float(np.abs(scaled).sum())
            losses.append(size if size > 1e-12 else 0.0)
    sums = math.sqrt(squares)
    return Moves(sums if sums > 1e-10 else 0.0, losses, n_rows)


class Case(NamedTuple):
    """Two neighbours, a plan, and where the game starts."""

    solver: OCO
    plan: Plan
    data: GroupRisks
    neighbour: GroupRisks
    start: Solution | None


def random_records(problem: Problem, rng: np.random.Generator):
    n = int(problem.n_records)
    rows = rng.normal(size=(n, problem.n_features))
    rows *= 1.5 / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, _targets(problem, rng, n)


def _targets(problem, rng, n):
    if problem.loss.task == "binary":
        return rng.choice([-1.0, 1.0], n)
    if problem.loss.task == "multiclass":
        return rng.integers(0, problem.loss.n_outputs, n).astype(float)
    return rng.choice([-1.0, 1.0], n)


@cache
def _planned(index: int, play: str, noise: str | None) -> tuple[OCO, Plan]:
    """Return one of a pool of plans; planning takes longer than a game."""
    rng = np.random.default_rng([index, 2])
    sizes = rng.integers(2, 12, size=rng.integers(1, 4))
    problem = make_problem(
        sizes,
        loss=LOSSES[index % len(LOSSES)],
        radius=float(rng.choice([0.3, 3.0, 20.0])),
        scaling=float(rng.choice([0.0, 0.5])),
    )
    drawn = str(rng.choice(["toeplitz", "honaker", "tree", "independent"]))
    solver = OCO(
        str(rng.choice(["ftrl", "gradient-descent"])),
        play=play,
        noise=drawn if noise is None else noise,
        n_rounds=int(rng.integers(1, 6)),
    )
    return solver, solver.plan(problem, BUDGET)


def bad_case(seed: int, play: str, noise: str | None = None) -> Case:
    """Draw a plan and a pair of neighbours that differ in one record as far as can be."""
    rng = np.random.default_rng([seed, 3])
    solver, plan = _planned(seed % 48, play, noise)
    problem = plan.problem
    rows, targets = random_records(problem, rng)
    start = None
    if rng.random() < 0.8:
        weights = rng.normal(size=problem.n_weights)
        # to the sphere and beyond it: a game has to bring it back
        weights *= float(rng.choice([0.5, 1.0, 2.0])) * problem.radius / np.linalg.norm(weights)
        start = Solution(weights, rng.dirichlet(np.full(problem.n_groups, 0.5)) + 1e-6, 0)
    where = int(rng.integers(len(rows)))
    other, flipped = rows.copy(), targets.copy()
    if rng.random() < 0.5:
        # a row along or against the weights, long before it is clipped
        axis = rng.normal(size=problem.n_features)
        if start is not None:
            axis = start.weights[: problem.n_features]
        rows[where] = 5.0 * axis / max(np.linalg.norm(axis), 1e-12)
        other[where] = -rows[where]
    else:
        other[where] = -3.0 * rows[where]
    if rng.random() < 0.5:
        flipped[where] = _targets(problem, rng, 1)[0]
    return Case(
        solver, plan, make_data(problem, rows, targets), make_data(problem, other, flipped), start
    )


def play_both(case: Case, seed: int) -> tuple[Moves, bool]:
    """Play both neighbours on one transcript; return the moves, and whether the outcomes differ."""
    rng = np.random.default_rng([seed, 4])
    scales = {
        "gradient sums": 10.0 ** rng.uniform(-2, 3),
        "group losses": 10.0 ** rng.uniform(-2, 2),
    }
    runs = []
    for data in (case.data, case.neighbour):
        transcript = Transcript(seed, scales)
        runs.append(
            (transcript.asked, case.solver.run(case.plan, data, transcript, start=case.start))
        )
    (first, one), (second, other) = runs
    leaks = not (
        np.array_equal(one.weights, other.weights)
        and np.array_equal(one.group_weights, other.group_weights)
        and one.n_iter == other.n_iter
    )
    return moves(first, second), leaks


# --- planted faults ------------------------------------------------------------------------------

GAME_MODULES = {"sampled": sampled_game, "weighted": weighted_game}


class Fault:
    """A fault in one of the two games, planted by patches."""

    def __init__(self, patch: pytest.MonkeyPatch, play: str) -> None:
        self.patch, self.module = patch, GAME_MODULES[play]

    def wrap(self, name: str, faulty: Callable[..., Any], owner: Any = None) -> None:
        """Put ``faulty(real, *args, **named)`` in place of what the game's module names so."""
        wrap(self.patch, self.module if owner is None else owner, name, faulty)


def gradients_of_both_roles(fault: Fault) -> None:
    def both(real, problem, rows, slopes, n_weight):
        return real(problem, rows, slopes, len(rows))

    fault.wrap("gradient_sum", both)


def batch_not_divided(fault: Fault) -> None:
    def undivided(real, problem, rows, slopes, n_weight):
        return n_weight * real(problem, rows, slopes, n_weight)

    fault.wrap("gradient_sum", undivided)
