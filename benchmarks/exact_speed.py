"""
The exact optimum beside scikit-learn's logistic regression: time, and what either reaches
==========================================================================================

A fit of the classifier at ``epsilon=inf`` and two of ``LogisticRegression`` (lbfgs, tol 1e-6, no
penalty), turn by turn, on the same data. One of these has the machine's threads, as ours has, and
decides; the other has one thread of BLAS: on few records, or busy cores, it is much quicker that
way. A line gives the median times, the ratio to either, and the quartiles of the ratio to the
quicker one. The gap is the largest group risk over the optimum, which is certified from all records
to the tolerance of ``worst_group_optimum`` below.

    python benchmarks/exact_speed.py               # everything; a few minutes
    python benchmarks/exact_speed.py 10000 100000  # some numbers of records
    python benchmarks/exact_speed.py sorting       # unsorted and sorted groups, 20 columns
    OMP_NUM_THREADS=1 python benchmarks/exact_speed.py

Two readings of "the same gap or better". With one group both minimise the average risk, over a ball
that does not bind, so both gaps are those of one problem. With ten groups, logistic regression is
what a user without worst-group learning has: it minimises another thing, and its gap does not
vanish whatever its tolerance.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum import worst_group_optimum

SIZES = (10_000, 100_000, 1_000_000)
N_COLUMNS, N_REPETITIONS = 50, 7
RADIUS = 100.0
# scikit-learn 1.8 took None from `penalty`, where an infinite C says the same in every version
AVERAGE = {"C": np.inf, "solver": "lbfgs", "tol": 1e-6, "max_iter": 10_000}


class Measured(NamedTuple):
    """One line: times in seconds, the ratios of ours to theirs, and both gaps."""

    name: str
    ours: float
    theirs: float
    theirs_alone: float
    ratio_to_threads: float
    ratio: float
    quartiles: tuple[float, float]
    gap: float
    gap_theirs: float

    @property
    def holds(self) -> bool:
        """Whether ours is not slower than theirs as it is, and no worse off."""
        return self.ratio_to_threads <= 1.0 and self.gap <= self.gap_theirs


def synthetic(n_records: int, n_groups: int, n_columns: int = N_COLUMNS):
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


def adult(grouped: bool):
    """Return Adult: rows, targets, and its groups or one."""
    data = load_dataset("adult")
    return data.data, data.target, data.groups if grouped else np.zeros(len(data.target), int)


def measure(name: str, X, y, groups, *, n_repetitions: int = N_REPETITIONS) -> Measured:
    """Fit both sides turn by turn, and compute what each reaches on all records."""
    data_norm = float(np.sqrt(np.einsum("ij,ij->i", X, X).max()))
    model = DPWorstGroupClassifier(epsilon=float("inf"), data_norm=data_norm, radius=RADIUS)
    average = LogisticRegression(**AVERAGE)

    def alone() -> object:
        with threadpool_limits(1):
            return average.fit(X, y)

    sides: tuple[Callable[[], object], ...] = (
        lambda: model.fit(X, y, groups=groups),
        alone,
        lambda: average.fit(X, y),
    )
    for fit in sides:
        fit()  # loads, compiles, and touches memory
    times = np.array([[seconds(fit) for fit in sides] for _ in range(n_repetitions)])
    ours, theirs_alone, theirs = np.median(times, axis=0)
    quicker = times[:, 1] if theirs_alone <= theirs else times[:, 2]
    low, middle, high = np.quantile(times[:, 0] / quicker, [0.25, 0.5, 0.75])

    labels, codes = np.unique(groups, return_inverse=True)
    records = RecordEncoder(len(labels), data_norm).encode(X, 2.0 * y - 1.0, codes)
    risks = GroupRisks(records, BinaryLogLoss(), model.intercept_scaling)

    def worst(fitted) -> float:
        weights = np.append(fitted.coef_ * data_norm, fitted.intercept_ / model.intercept_scaling)
        return float(risks.risks(weights).max())

    # the certificate is linear in the gradient and the gap quadratic: a certified 1e-11 is exact
    optimum = worst_group_optimum(risks, radius=RADIUS, tolerance=1e-11)
    best = float(risks.risks(optimum.weights).max())
    norm = np.linalg.norm(
        np.append(average.coef_ * data_norm, average.intercept_ / model.intercept_scaling)
    )
    if norm > RADIUS:
        print(f"  {name}: logistic regression is outside the ball, norm {norm:.0f}")
    return Measured(
        name,
        float(ours),
        float(theirs),
        float(theirs_alone),
        float(np.median(times[:, 0] / times[:, 2])),
        float(middle),
        (float(low), float(high)),
        worst(model) - best,
        worst(average) - best,
    )


def sorting() -> None:
    """Print what it costs that groups are not sorted: a million rows of 20 columns, ten groups."""
    X, y, groups = synthetic(1_000_000, 10, 20)
    order = np.argsort(groups, kind="stable")
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        sides = {"unsorted": (rows, y, groups), "sorted": (rows[order], y[order], groups[order])}
        for name, data in sides.items():
            line(measure(f"10^6 x 20, {np.dtype(dtype)}, {name}", *data))


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def lines(sizes: tuple[int, ...] = SIZES):
    """Yield the measured lines: synthetic data of some sizes with 1 and 10 groups, then Adult."""
    for size in sizes:
        for n_groups in (1, 10):
            name = f"{size:>9,} x {N_COLUMNS}, {n_groups:>2} group{'s' if n_groups > 1 else ''}"
            yield measure(name, *synthetic(size, n_groups))
    for grouped in (False, True):
        X, y, groups = adult(grouped)
        n_groups = len(np.unique(groups))
        name = f"Adult {len(X):,} x {X.shape[1]}, {n_groups} group{'s' if grouped else ''}"
        yield measure(name, X, y, groups)


def main(sizes: tuple[int, ...] = SIZES) -> list[Measured]:
    """Print the table, and return it."""
    warnings.simplefilter("ignore", UngroupedWarning)
    print(f"epsilon=inf against LogisticRegression(lbfgs, tol=1e-6), median of {N_REPETITIONS}\n")
    print(f"{'':<28}{'':>9}{'theirs s':^18}{'ratio to':^16}{'':17}{'gap':^20}")
    titles = f"{'ours s':>9}{'threads':>9}{'one':>9}{'threads':>9}{'quicker':>9}  {'quartiles':<15}"
    print(f"{'':<28}{titles}{'ours':>9}{'theirs':>11}  ratio <= 1, gap no worse")
    found = []
    for measured in lines(sizes) if sizes else ():
        line(measured)
        found.append(measured)
    return found


def line(of: Measured) -> None:
    """Print one line."""
    spread = f"({of.quartiles[0]:.2f} to {of.quartiles[1]:.2f})"
    times = f"{of.ours:>9.3f}{of.theirs:>9.3f}{of.theirs_alone:>9.3f}"
    print(
        f"{of.name:<28}{times}{of.ratio_to_threads:>9.2f}{of.ratio:>9.2f}  {spread:<15}"
        f"{of.gap:>9.0e}{of.gap_theirs:>11.0e}  {'holds' if of.holds else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["sorting"]:
        main(())  # the titles
        sorting()
        sys.exit()
    main(tuple(int(size) for size in sys.argv[1:]) or SIZES)
