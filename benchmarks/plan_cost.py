"""What planning costs, and whether a plan tells how long its fit takes.

Run with ``python benchmarks/plan_cost.py`` for both tables, or with ``plans`` or ``fits`` for one,
on a quiet machine; R is for regression. Processor time is shown: a run on two cores takes between
half of it and all.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import random_array

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor

# processor seconds that `plan` may take, by the largest number of groups
LIMITS = {1_000: 1.0, 10_000: 5.0}
SOLVERS = ("auto", "mgr", "phased-erm", "oco")

# records, groups, features, entries a row of a sparse table (or 0), solver
FITS = (
    (1_000, 2, 10, 0, "auto"),
    (1_000, 1, 10, 0, "mgr"),
    (20_000, 5, 20, 0, "auto"),
    (20_000, 5, 20, 0, "mgr"),
    (20_000, 5, 20, 0, "oco"),
    (20_000, 100, 10, 0, "auto"),
    (20_000, 1_000, 10, 0, "auto"),
    (20_000, 1_000, 10, 0, "mgr"),
    (20_000, 4, 200, 0, "auto"),
    (20_000, 4, 200, 0, "mgr"),
    (20_000, 4, 50_000, 30, "mgr"),
    (200_000, 4, 20, 0, "auto"),
    (200_000, 4, 20, 0, "mgr"),
    (1_000_000, 4, 10, 0, "auto"),
    (10_000_000, 4, 5, 0, "mgr"),
)


def sizes_of(n_groups: int, largest: int) -> list[int]:
    """Return sizes of groups, most of which no other group has."""
    rng = np.random.default_rng(n_groups)
    return [int(size) for size in rng.integers(5, largest, n_groups)]


def plans() -> Iterator[tuple[int, str, str, float]]:
    """Yield numbers of groups, kind of sizes, solver, and processor seconds of `plan`."""
    for n_groups in (100, 1_000, 10_000):
        kinds = {"equal": [20] * n_groups, "unlike": sizes_of(n_groups, 100_000)}
        for kind, sizes in kinds.items():
            for solver in SOLVERS:
                model = DPWorstGroupClassifier(solver=solver)
                start = time.process_time()
                model.plan(group_sizes=sizes, n_features=10)
                yield n_groups, kind, solver, time.process_time() - start
        for solver in ("auto", "moments"):
            regressor: Any = DPWorstGroupRegressor(target_bounds=(-1.0, 1.0), solver=solver)
            start = time.process_time()
            regressor.plan(group_sizes=kinds["unlike"], n_features=10)
            yield n_groups, "unlike", f"{solver}, R", time.process_time() - start
        # so many records that batches of several rates are planned
        start = time.process_time()
        DPWorstGroupClassifier(epsilon=8.0, solver="mgr").plan(
            group_sizes=sizes_of(n_groups, 1_000_000), n_features=200
        )
        yield n_groups, "large", "mgr", time.process_time() - start


def fits() -> Iterator[tuple[Any, float, float]]:
    """Yield what is fitted, the predicted seconds, and the processor seconds of the fit."""
    for fit in FITS:
        n_records, n_groups, n_features, n_entries, solver = fit
        rng = np.random.default_rng(0)
        if n_entries:
            shape = (n_records, n_features)
            X = random_array(shape, density=n_entries / n_features, format="csr", rng=rng)
        else:
            X = rng.uniform(-1.0, 1.0, (n_records, n_features))
        y = rng.integers(0, 2, n_records)
        groups = np.arange(n_records) % n_groups
        model = DPWorstGroupClassifier(solver=solver, data_norm=float(np.sqrt(n_features)))
        plan = model.plan(group_sizes=np.bincount(groups).tolist(), n_features=n_features)
        start = time.process_time()
        model.fit(X, y, groups=groups)
        yield fit, plan.predicted_seconds, time.process_time() - start


def main(wanted: list[str]) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    DPWorstGroupClassifier().plan(group_sizes=[500, 500], n_features=5)  # imports, compiled code
    if "plans" in wanted:
        print(f"{'groups':>7} {'sizes':<7} {'solver':<11} {'seconds':>8}")
        for n_groups, kind, solver, seconds in plans():
            late = seconds > LIMITS[max(n_groups, min(LIMITS))]
            print(f"{n_groups:7,} {kind:<7} {solver:<11} {seconds:8.2f}{' too long' * late}")
    if "fits" in wanted:
        print(f"{'records':>11} {'groups':>6} {'columns':>8} {'solver':<11} predicted measured")
        for (n_records, n_groups, n_features, _, solver), predicted, measured in fits():
            print(
                f"{n_records:11,} {n_groups:6,} {n_features:8,} {solver:<11} {predicted:9.3g} "
                f"{measured:8.3g} {measured / predicted:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:] or ["plans", "fits"])
