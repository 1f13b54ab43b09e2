"""The exact optimum beside scikit-learn's logistic regression: time, and what either reaches.

A fit of the classifier at ``epsilon=inf`` and two of ``LogisticRegression`` (lbfgs, tol 1e-6, no
penalty), turn by turn, on the same data. One of these has the machine's threads, as ours has, and
decides; the other has one thread of BLAS: on few records, or busy cores, it is much quicker that
way. A line gives the median times, the ratio to either, and the quartiles of the ratio to the
quicker one. The gap is the largest group risk over the optimum, which is certified from all records
to the tolerance of ``worst_group_optimum`` below.

    python benchmarks/exact_speed.py               # everything; a few minutes
    python benchmarks/exact_speed.py 10000 100000  # some numbers of records
    OMP_NUM_THREADS=1 python benchmarks/exact_speed.py

With one group both minimise the average risk; with ten its gap, of another thing, does not vanish.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import game_on_records, ignore_warnings, quartiles, risks_of, row, turn_by_turn
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum import worst_group_optimum

SIZES = (10_000, 100_000, 1_000_000)
N_COLUMNS, N_REPETITIONS = 50, 7
RADIUS = 100.0
AVERAGE = {"C": np.inf, "solver": "lbfgs", "tol": 1e-6, "max_iter": 10_000}

Records = tuple[np.ndarray, np.ndarray, np.ndarray]


def synthetic(n_records: int, n_groups: int, n_columns: int = N_COLUMNS) -> Records:
    """Return rows of independent normal features, targets of a logistic model a group, groups."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_records, n_columns))
    common = rng.standard_normal(n_columns)
    apart = 0.5 * rng.standard_normal((n_groups, n_columns))
    weights = 2.0 * (common + (apart if n_groups > 1 else 0.0)) / np.sqrt(n_columns)
    groups = rng.integers(0, n_groups, n_records)
    scores = np.einsum("ij,ij->i", X, np.broadcast_to(weights, (n_groups, n_columns))[groups])
    y = (scores + rng.logistic(size=n_records) > 0).astype(int)
    return X, y, groups


def line(name: str, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> None:
    """Fit both sides turn by turn, and print times and what each reaches on all records."""
    data_norm = float(np.sqrt(np.einsum("ij,ij->i", X, X).max()))
    model = DPWorstGroupClassifier(epsilon=float("inf"), data_norm=data_norm, radius=RADIUS)
    average = LogisticRegression(**AVERAGE)

    def alone() -> None:
        with threadpool_limits(1):
            average.fit(X, y)

    fit = partial(model.fit, X, y, groups=groups)
    times = turn_by_turn([fit, alone, partial(average.fit, X, y)], N_REPETITIONS)
    ours, theirs_alone, theirs = np.median(times, axis=1)
    to_threads = float(np.median(times[0] / times[2]))
    quicker = times[1] if theirs_alone <= theirs else times[2]
    gaps = gaps_of(name, model, average, data_norm, (X, y, groups))
    holds = to_threads <= 1.0 and gaps[0] <= gaps[1]
    cells = [f"{each:.3f}" for each in (ours, theirs, theirs_alone)]
    ratio, spread = quartiles(times[0] / quicker)
    cells += [f"{to_threads:.2f}", f"{ratio:.2f}", spread, *(f"{each:.0e}" for each in gaps)]
    row(name, (*cells, "holds" if holds else "MISSED"), 16, 28)


def gaps_of(
    name: str, model: Any, average: Any, data_norm: float, records: Records
) -> tuple[float, float]:
    """Return the largest group risk of both over the certified optimum."""
    X, y, groups = records
    codes = np.unique(groups, return_inverse=True)[1]
    told = {"data_norm": data_norm, "scaling": model.plan_.problem.intercept_scaling}
    risks = risks_of(X, 2.0 * y - 1.0, codes, BinaryLogLoss(), **told)
    # the certificate is linear in the gradient and the gap quadratic: a certified 1e-11 is exact
    optimum = worst_group_optimum(risks, radius=RADIUS, tolerance=1e-11)
    best = float(risks.risks(optimum.weights).max())
    weights = [
        np.append(each.coef_ * data_norm, each.intercept_ / told["scaling"])
        for each in (model, average)
    ]
    if (norm := np.linalg.norm(weights[1])) > RADIUS:
        print(f"  {name}: logistic regression is outside the ball, norm {norm:.0f}")
    ours, theirs = (float(risks.risks(each).max()) - best for each in weights)
    return ours, theirs


def sizes(numbers: tuple[int, ...]) -> Iterator[tuple[str, Records]]:
    """Yield synthetic data of some sizes with 1 and 10 groups, then Adult with one and its own."""
    for size in numbers:
        for n_groups in (1, 10):
            yield f"{size:,} x {N_COLUMNS}, {n_groups} groups", synthetic(size, n_groups)
    data = load_dataset("adult")
    for groups in (np.zeros(len(data.target), int), data.groups):
        name = f"Adult, {len(np.unique(groups))} groups"
        yield name, (data.data, data.target, groups)


@game_on_records()
def main(numbers: tuple[int, ...] = SIZES) -> None:
    """Print the table."""
    ignore_warnings()
    print(f"epsilon=inf against LogisticRegression(lbfgs, tol=1e-6), median of {N_REPETITIONS}\n")
    times = ("ours s", "threads s", "one thread s", "over threads", "over quicker", "quartiles")
    row("", (*times, "our gap", "their gap", "<= 1, no worse"), 16, 28)
    for name, records in sizes(numbers):
        line(name, *records)


if __name__ == "__main__":
    main(tuple(int(size) for size in sys.argv[1:]) or SIZES)
