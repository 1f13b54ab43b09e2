"""Small grouped data sets, and group risks computed the slow and plain way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss, Loss, MultinomialLogLoss


def make_records(
    loss: Loss,
    sizes: Sequence[int],
    n_features: int = 3,
    *,
    seed: int = 0,
    label_noise: float = 1.0,
    data_norm: float = 1.5,
    apart: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, targets and group codes; true weights of the groups differ by `apart`."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    rows = rng.normal(size=(len(codes), n_features)) * data_norm
    true = 2.0 * rng.normal(size=(len(sizes), loss.n_outputs, n_features))
    true = apart * true + (1.0 - apart) * true[0]
    scores = np.einsum("nkd,nd->nk", true[codes], rows)
    if isinstance(loss, BinaryLogLoss):
        noisy = scores[:, 0] + label_noise * rng.logistic(size=len(codes))
        return rows, np.where(noisy > 0, 1.0, -1.0), codes
    if isinstance(loss, MultinomialLogLoss):
        noisy = scores + label_noise * rng.gumbel(size=scores.shape)
        return rows, noisy.argmax(axis=1).astype(float), codes
    noisy = scores[:, 0] / 5 + 0.3 * label_noise * rng.normal(size=len(codes))
    return rows, np.clip(noisy, -1.0, 1.0), codes


def make_risks(
    loss: Loss,
    sizes: Sequence[int],
    n_features: int = 3,
    *,
    intercept: float = 1.0,
    rows: np.ndarray | None = None,
    **settings: float,
) -> GroupRisks:
    """Return `GroupRisks` of such data; given rows replace the drawn ones."""
    drawn, targets, codes = make_records(loss, sizes, n_features, **settings)
    rows = drawn if rows is None else rows
    encoder = RecordEncoder(len(sizes), float(settings.get("data_norm", 1.5)))
    return GroupRisks(encoder.encode(rows, targets, codes), loss, intercept)


def make_problem(sizes, *, loss=None, n_features=2, radius=3.0, prior=None, scaling=0.5) -> Problem:
    """Return a small problem; a size may be infinite."""
    sizes = tuple(size if size == math.inf else int(size) for size in sizes)
    prior = np.array(sizes) / sum(sizes) if prior is None else prior
    loss = BinaryLogLoss() if loss is None else loss
    return Problem(loss, sizes, n_features, radius, tuple(float(q) for q in prior), scaling)


def make_data(problem: Problem, rows, targets, codes=None) -> GroupRisks:
    """Return the group risks of rows, sorted by group unless codes are given; norms end at 1.

    Where a problem hides groups, its sizes are not those of the records, which need codes.
    """
    if codes is None:
        codes = np.repeat(np.arange(len(problem.cell_sizes)), problem.cell_sizes)
    n_cells = len(problem.cell_sizes)
    encoder = RecordEncoder(n_cells, 1.0, hides_groups=problem.hidden is not None)
    rows, targets = np.array(rows, dtype=float), np.array(targets, dtype=float)
    records = encoder.encode(rows, targets, np.asarray(codes))
    return GroupRisks(records, problem.loss, problem.intercept_scaling)


def dense(risks: GroupRisks, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one group's rows, scaled and with the constant column, and its targets."""
    records = risks.records
    part = slice(records.starts[group], records.starts[group + 1])
    rows = records.rows[part].astype(float)
    if risks.intercept_scaling > 0:
        rows = np.hstack([rows, np.full((len(rows), 1), risks.intercept_scaling)])
    return rows, records.targets[part]


def naive(
    risks: GroupRisks, weights: np.ndarray, loss_clip: float = math.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return risks, gradients and Hessians of all groups, one record at a time."""
    loss, k, d = risks.loss, risks.loss.n_outputs, risks.n_columns
    matrix = weights.reshape(k, d)
    values = np.zeros(risks.n_groups)
    gradients = np.zeros((risks.n_groups, k * d))
    hessians = np.zeros((risks.n_groups, k * d, k * d))
    for group in range(risks.n_groups):
        rows, targets = dense(risks, group)
        for row, target in zip(rows, targets, strict=True):
            scores = matrix @ row
            scores = scores if k == 1 else scores[None, :]
            value, slope = loss.value_and_derivative(scores, np.array([target]))
            curvature = loss.curvature(scores, np.array([target])).reshape(k, k)
            values[group] += min(float(value[0]), loss_clip) / len(rows)
            gradients[group] += np.outer(slope.reshape(k), row).ravel() / len(rows)
            hessians[group] += np.kron(curvature, np.outer(row, row)) / len(rows)
    return values, gradients, hessians


def hard_rows(kind, rng, n, d=3):
    """Return rows that solvers may stumble over."""
    rows = rng.normal(size=(n, d))
    if kind == "collinear":
        return rows[:, :1] * np.array([1.0, -2.0, 0.5])
    if kind == "zero":
        rows[:] = 0.0
    if kind == "zero column":
        rows[:, 1] = 0.0
    if kind == "zero rows":
        rows[::2] = 0.0
    if kind == "one row":
        rows[:] = rows[0]
    return rows * {"tiny": 1e-7, "huge": 1e160}.get(kind, 1.0)
