"""Risks whose sums are compared without rounding, and the adversary of plain sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import AbsoluteError


class PlainAbsoluteError(AbsoluteError):
    """The absolute error of a class that says nothing else."""


def exact_difference(one, other) -> list[Fraction]:
    pairs = zip(np.ravel(one).tolist(), np.ravel(other).tolist(), strict=True)
    return [Fraction(a) - Fraction(b) for a, b in pairs]


def exact_squared(differences: list[Fraction]) -> Fraction:
    return sum((value**2 for value in differences), Fraction(0))


def laid_out(rows, layout, dtype=float):
    rows = np.asarray(rows, dtype=dtype)
    if layout == "csr":
        return csr_array(rows)
    return np.asfortranarray(rows) if layout == "columns" else np.ascontiguousarray(rows)


def make_risks(loss, rows, targets, sizes, *, layout="rows", dtype=float, scaling=0.0):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    encoder = RecordEncoder(len(sizes), 1.0)
    records = encoder.encode(laid_out(rows, layout, dtype), np.asarray(targets, float), codes)
    return GroupRisks(records, loss, scaling)


# Around a power of two one record decides how all later ones are rounded.
N_ONES = 2**16


def adversary(first, *, layout="rows", dtype=float, loss=None, n_ones=N_ONES):
    """Return risks whose gradient sums are ones and then values of a quarter of a last digit."""
    tiny = np.float64(-0.26 * n_ones * 2.0**-52)
    column = np.concatenate([np.ones(n_ones + 1), np.full(n_ones, tiny)])
    column[0] = first
    rows = column[:, None] * np.full(4, 0.5)  # of norm 1, without rounding
    return make_risks(
        AbsoluteError() if loss is None else loss,
        rows,
        np.full(len(rows), -1.0),
        (len(rows),),
        layout=layout,
        dtype=dtype,
    )


def facts(risks, radius=1.0, sizes=None) -> Problem:
    sizes = risks.group_sizes if sizes is None else sizes
    prior = tuple(1.0 / len(sizes) for _ in sizes)
    n_features = risks.records.rows.shape[1]
    return Problem(risks.loss, sizes, n_features, radius, prior, risks.intercept_scaling)


def moves(one, other) -> Fraction:
    return exact_squared(exact_difference(one, other))
