"""
What a default fit costs: time, passes, memory
==============================================

Adult (32,561 x 42) and a synthetic matrix of a million rows: seconds of a default fit with seeded
and with secure noise (median of five), what the plan predicted, passes over the rows, and the
peak of memory that NumPy held over the size of X (X itself included).
"""

from __future__ import annotations

import time
import tracemalloc
from statistics import median

import numpy as np
from common import load_dataset, make_estimator

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.solvers import MGR

N_RUNS = 5


def seconds(estimator, rows, targets, groups) -> float:
    """Return the median time of a fit."""
    times = []
    for _ in range(N_RUNS):
        start = time.perf_counter()
        estimator.fit(rows, targets, groups=groups)
        times.append(time.perf_counter() - start)
    return median(times)


def peak_memory(estimator, rows, targets, groups) -> float:
    """Return the peak of traced memory during a fit plus X, over the size of X."""
    tracemalloc.start()
    estimator.fit(rows, targets, groups=groups)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return 1.0 + peak / rows.nbytes


def report(name, make, rows, targets, groups) -> None:
    """Print one line."""
    make(random_state=None).fit(rows, targets, groups=groups)  # imports are not the fit's
    secure = make(random_state=None)
    values = (
        seconds(make(random_state=0), rows, targets, groups),
        seconds(secure, rows, targets, groups),
        secure.plan_.predicted_seconds,
        secure.n_iter_,
        peak_memory(make(random_state=0), rows, targets, groups),
    )
    print(f"{name:<28}" + "{:10.2f}{:10.2f}{:12.2f}{:9d}{:14.2f}".format(*values), flush=True)


if __name__ == "__main__":
    titles = f"{'seeded s':>10}{'secure s':>10}{'predicted s':>12}{'passes':>9}{'memory / X':>14}"
    print(f"{'':<28}{titles}")
    adult = load_dataset("adult")
    report(
        "adult 32,561 x 42",
        lambda **p: make_estimator(adult, **p),
        adult.data,
        adult.target,
        adult.groups,
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(1_000_000, 50))
    y = (X[:, 0] + 0.1 * rng.standard_normal(len(X)) > 0).astype(int)
    g = rng.integers(0, 10, len(X))
    for title, order in (("unsorted", slice(None)), ("sorted by group", np.argsort(g))):
        report(
            f"10^6 x 50, {title}",
            lambda **p: DPWorstGroupClassifier(data_norm=np.sqrt(50), solver=MGR(n_steps=20), **p),
            np.ascontiguousarray(X[order]),
            y[order],
            g[order],
        )
