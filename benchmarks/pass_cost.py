"""
Cost of one pass for risks and gradients
========================================

Fits the constants of the plan's time prediction: seconds a pass = step + rows * (columns * entry +
record), by least squares of the logarithm over a range of sizes. Then what a record of a Poisson
batch costs on top, coins included, in the same form.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import least_squares

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import poisson_sample
from sklearn_dpwg.records import RecordEncoder
from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers.plan import (
    SECONDS_PER_ENTRY,
    SECONDS_PER_GATHERED_ENTRY,
    SECONDS_PER_GATHERED_RECORD,
    SECONDS_PER_RECORD,
    SECONDS_PER_STEP,
)

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    sizes, seconds = [], []
    batch_sizes, batch_seconds = [], []
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
            for rate in (0.01, 0.1, 0.5):
                if n_rows < 100_000:
                    continue
                times_of_batches = []
                for _ in range(7):
                    start = time.perf_counter()
                    batch = [poisson_sample(size, rate, rng) for size in risks.group_sizes]
                    risks.sampled_risks_and_gradients(
                        weights,
                        batch,
                        expected_sizes=rate * np.array(risks.group_sizes),
                        ceiling=1.0,
                        center=0.5,
                    )
                    times_of_batches.append(time.perf_counter() - start)
                batch_sizes.append((rate * n_rows, n_columns))
                batch_seconds.append(np.median(times_of_batches))
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

    batches = np.array(batch_sizes, dtype=float)

    def predict_batch(parameters):
        """Return predicted seconds of batches."""
        on_top, once = np.exp(parameters)
        per_row = batches[:, 1] * (SECONDS_PER_ENTRY + on_top) + SECONDS_PER_RECORD + once
        return SECONDS_PER_STEP + batches[:, 0] * per_row

    in_code = np.log([SECONDS_PER_GATHERED_ENTRY, SECONDS_PER_GATHERED_RECORD])
    found = least_squares(
        lambda p: np.log(predict_batch(p) / batch_seconds), in_code, bounds=(-25.0, -12.0)
    ).x
    on_top, once = np.exp(found)
    print(f"\nin batches on top: seconds per entry {on_top:.2g}, per record {once:.2g}")
    print(f"{'batch':>10}{'columns':>9}{'measured':>12}{'fitted':>12}{'in code':>12}")
    for (n_rows, n_columns), measured, fitted, coded in zip(
        batch_sizes, batch_seconds, predict_batch(found), predict_batch(in_code), strict=True
    ):
        print(f"{n_rows:>10,.0f}{n_columns:>9}{measured:12.6f}{fitted:12.6f}{coded:12.6f}")
