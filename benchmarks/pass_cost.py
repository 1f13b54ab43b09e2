"""
Cost of one pass for risks and gradients
========================================

Fits the constants of the plan's time prediction: seconds a pass = step + rows * (columns * entry +
record), by least squares of the logarithm over a range of sizes.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import least_squares

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.records import RecordEncoder
from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers.planning import (
    SECONDS_PER_ENTRY,
    SECONDS_PER_RECORD,
    SECONDS_PER_STEP,
)

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    sizes, seconds = [], []
    for n_rows in (1_000, 10_000, 100_000, 1_000_000):
        for n_columns in (5, 20, 100):
            rows = rng.uniform(-1, 1, size=(n_rows, n_columns))
            targets = rng.choice([-1.0, 1.0], size=n_rows)
            codes = np.sort(rng.integers(0, 8, n_rows))
            risks = GroupRisks(
                RecordEncoder(8, n_columns**0.5).encode(rows, targets, codes), BinaryLogLoss(), 0.5
            )
            weights = rng.standard_normal(n_columns + 1)
            times = []
            for _ in range(7):
                start = time.perf_counter()
                risks.risks_and_gradients(weights)
                times.append(time.perf_counter() - start)
            sizes.append((n_rows, n_columns))
            seconds.append(np.median(times))
    table = np.array(sizes, dtype=float)

    def predict(parameters):
        """Return predicted seconds."""
        entry, record, step = np.exp(parameters)
        return step + table[:, 0] * (table[:, 1] * entry + record)

    current = np.log([SECONDS_PER_ENTRY, SECONDS_PER_RECORD, SECONDS_PER_STEP])
    found = least_squares(lambda p: np.log(predict(p) / seconds), current).x
    entry, record, step = np.exp(found)
    print(f"seconds per entry {entry:.2g}, per record {record:.2g}, per step {step:.2g}")
    print(f"{'rows':>10}{'columns':>9}{'measured':>12}{'fitted':>12}{'in code':>12}")
    for (n_rows, n_columns), measured, fitted, coded in zip(
        sizes, seconds, predict(found), predict(current), strict=True
    ):
        print(f"{n_rows:>10,}{n_columns:>9}{measured:12.6f}{fitted:12.6f}{coded:12.6f}")
