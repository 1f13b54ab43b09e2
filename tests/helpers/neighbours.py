"""Data that differ in one record, chosen to move much, and plans of problems that are extreme."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sklearn_dpwg.data.problem import Cells, HiddenGroups, Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import Solution
from tests.helpers.group_data import make_data, make_problem


def random_targets(rng, loss: Loss, n: int) -> np.ndarray:
    if loss.task == "binary":
        return rng.choice([-1.0, 1.0], size=n)
    if loss.task == "multiclass":
        return rng.integers(loss.n_outputs, size=n).astype(float)
    inner = rng.uniform(-loss.target_bound, loss.target_bound, size=n)
    return np.where(rng.random(n) < 0.5, inner, loss.target_bound * rng.choice([-1.0, 1.0], size=n))


def random_data(problem: Problem, seed) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((problem.n_records, problem.n_features))
    rows *= rng.choice([0.0, 0.1, 1.0, 100.0], size=(problem.n_records, 1))
    return rows, random_targets(rng, problem.loss, problem.n_records)


def random_records(problem: Problem, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of one length that are clipped, and targets at both ends."""
    rows = rng.normal(size=(int(problem.n_records), problem.n_features))
    rows *= 1.5 / np.linalg.norm(rows, axis=1, keepdims=True)
    if problem.loss.task == "multiclass":
        return rows, rng.integers(0, problem.loss.n_outputs, len(rows)).astype(float)
    return rows, rng.choice([-1.0, 1.0], len(rows))


class Neighbours(NamedTuple):
    """Two data sets that differ in one record, where it is, and where a run on them starts."""

    data: GroupRisks
    other: GroupRisks
    place: int
    # of the record in the data, and its rank there; in the other data it may be in another group
    group: int
    rank: int
    start: Solution


def neighbours(problem: Problem, seed: int) -> Neighbours:
    """Return data that differ in one record; where groups are hidden, most often in its group too.

    Hidden groups may be empty, or have one record, which may be the one that leaves.
    """
    rng = np.random.default_rng([seed, 2])
    n_groups = problem.n_groups
    weights = rng.standard_normal(problem.n_weights)
    # to the sphere and beyond it: a run has to bring it back
    factor = rng.choice([0.0, 0.5, 1.0, 1.0, 1.0, 2.0])
    weights *= problem.radius * factor / np.linalg.norm(weights)
    codes, place, groups = (_hidden if problem.hidden else _public)(problem, rng)
    others = codes.copy()
    codes[place], others[place] = groups
    # groups of a record, by what `codes` say of it
    groups_of = np.eye(n_groups) if problem.cells is None else problem.cells.membership.toarray().T
    group_weights = [
        rng.dirichlet(np.ones(n_groups)),
        np.full(n_groups, 1.0 / n_groups),
        groups_of[groups].mean(axis=0) + 1e-300,
        groups_of[groups[0]] + 1e-300,
        np.eye(n_groups)[rng.integers(n_groups)] + 1e-300,
    ][int(rng.integers(5))]
    if problem.cells is not None:
        group_weights = group_weights / group_weights.sum()
    rows, targets = random_data(problem, [seed, 3])
    other_rows, other_targets = rows.copy(), targets.copy()
    rows[place], other_rows[place] = bad_rows(problem, weights, rng)
    targets[place], other_targets[place] = _bad_targets(problem.loss, rng)
    return Neighbours(
        make_data(problem, rows, targets, codes),
        make_data(problem, other_rows, other_targets, others),
        place,
        int(groups[0]),
        int(np.sum(codes[:place] == groups[0])),
        Solution(weights, group_weights, 0),
    )


def _public(problem: Problem, rng):
    sizes = problem.cell_sizes
    group = int(rng.integers(len(sizes)))
    codes = np.repeat(np.arange(len(sizes)), sizes)
    return codes, sum(sizes[: group + 1]) - 1, [group, group]


def _hidden(problem: Problem, rng):
    n_groups, n_records = problem.n_groups, problem.n_records
    fractions = rng.dirichlet(np.full(n_groups, rng.choice([0.05, 1.0])))
    codes = rng.choice(n_groups, p=fractions, size=n_records)
    groups = rng.choice(n_groups, size=2)
    if rng.random() < 0.6:  # the two that noise is least for
        groups = np.argsort(problem.group_sizes, kind="stable")[[0, min(1, n_groups - 1)]]
    return codes, int(rng.integers(n_records)), groups


def bad_rows(problem: Problem, weights: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return two rows in the plane of the direction that matters most and one at right angles."""
    matrix = weights.reshape(problem.loss.n_outputs, problem.n_columns)[:, : problem.n_features]
    along = np.linalg.svd(matrix)[2][0]
    across = rng.standard_normal(problem.n_features)
    across -= (across @ along) * along
    across /= max(float(np.linalg.norm(across)), 1e-300)
    if problem.n_features == 1:
        across = along
    angle = rng.uniform(-np.pi / 2, np.pi / 2)
    other = angle if rng.random() < 0.7 else rng.uniform(-np.pi / 2, np.pi / 2)
    first = np.sin(angle) * along + np.cos(angle) * across
    second = np.sin(other) * along - np.cos(other) * across
    kind = rng.integers(4)
    if kind == 0:
        return along, -along
    if kind == 1:
        return 1e3 * first, np.zeros_like(first)
    return first, second


def _bad_targets(loss: Loss, rng) -> np.ndarray:
    if loss.task == "regression" and rng.random() < 0.5:
        return loss.target_bound * np.array([1.0, -1.0])
    return random_targets(rng, loss, 2)


# --- plans -------------------------------------------------------------------------------------


def random_problem(rng, loss: Loss, *, sizes=(1, 2, 3, 4, 25), least=1, most=4, **facts) -> Problem:
    """Return a problem of up to so many groups, tiny ones and one of one record among them."""
    n_groups = int(rng.integers(1, most + 1))
    given = {
        "n_features": int(rng.integers(1, 4)),
        "radius": float(rng.choice([0.2, 1.0, 3.0, 20.0])),
        "prior": rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
        "scaling": float(rng.choice([0.0, 0.5, 1.0])),
    }
    sizes = np.maximum(rng.choice(sizes, size=n_groups), least)
    return make_problem(sizes, loss=loss, **given | facts)


def overlapping_problem(rng: np.random.Generator, loss: Loss, **facts) -> Problem:
    """Return a problem of up to five cells, of which up to four groups are made that overlap."""
    n_groups = int(rng.integers(2, 5))
    members = rng.random((n_groups, int(rng.integers(2, 6)))) < 0.5
    members[:, 0] |= ~members.any(axis=1)
    members[: int(rng.integers(2, n_groups + 1)), -1] = True
    sizes = tuple(int(size) for size in rng.choice((1, 2, 3, 25), size=members.shape[1]))
    cells = Cells(sizes, tuple(tuple(map(int, np.flatnonzero(each))) for each in members))
    prior = rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups
    plain = random_problem(rng, loss, least=1, most=1, **facts)
    prior = tuple(prior.tolist())
    return replace(plain, group_sizes=cells.group_sizes, prior=prior, cells=cells)


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
        HiddenGroups(n_records, float(rng.choice([0.0, 0.3, 2.0]))),
    )


def random_budget(rng) -> Budget:
    return Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)
