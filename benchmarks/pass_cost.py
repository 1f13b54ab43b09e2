"""
Cost of one pass for risks and gradients
========================================

Fits the constants of the plan's time prediction: seconds a pass = step + rows * (columns * entry +
record), by least squares of the logarithm over a range of sizes. Then what a record of a Poisson
batch costs on top, coins included, in the same form. ``python benchmarks/pass_cost.py grid`` prints
instead what it costs to round the sums of blocks to a grid: both sides in one run, in turns.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.privacy.noise import PoissonSample
from sklearn_dpwg.solvers.plan import (
    SECONDS_PER_ENTRY,
    SECONDS_PER_GATHERED_ENTRY,
    SECONDS_PER_GATHERED_RECORD,
    SECONDS_PER_RECORD,
    SECONDS_PER_STEP,
)

# Records and columns that the cost of the grid is printed for.
N_RECORDS, N_COLUMNS = 1_000_000, 50


def print_cost_of_grid(n_turns=41):
    """Print processor time of a pass with sums on a grid over that of one with plain sums."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(N_RECORDS, N_COLUMNS))
    targets = rng.choice([-1.0, 1.0], size=N_RECORDS)
    codes = np.sort(rng.integers(0, 8, N_RECORDS))
    weights = rng.standard_normal(N_COLUMNS + 1)
    thin = np.where(rng.random(rows.shape) < 0.2, rows, 0.0)
    grid = SumGrid(2.0**-32, 2.0**-32)
    plain = SumGrid(0.0, 0.0)
    print(f"{'rows':>12}{'plain ms':>10}{'grid ms':>10}{'ratio':>8}{'quartiles':>18}")
    held = {
        "dense": rows,
        "by columns": np.asfortranarray(rows),
        "csr": csr_array(thin),
        "float32": rows.astype(np.float32),
    }
    for name, of_kind in held.items():
        encoder = RecordEncoder(8, N_COLUMNS**0.5)
        risks = GroupRisks(encoder.encode(of_kind, targets, codes), BinaryLogLoss(), 0.5)
        seconds = []
        for turn in range(n_turns):
            of_turn = {}
            for sums in (plain, grid) if turn % 2 else (grid, plain):
                start = time.process_time()
                risks.sums(weights, ceiling=1.0, grid=sums)
                of_turn[sums] = time.process_time() - start
            seconds.append((of_turn[plain], of_turn[grid]))
        before, after = np.array(seconds[1:]).T
        low, middle, high = np.percentile(after / before, [25, 50, 75])
        print(
            f"{name:>12}{1e3 * np.median(before):10.1f}{1e3 * np.median(after):10.1f}{middle:8.3f}"
            f"{low:9.3f} to {high:.3f}"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["grid"]:
        print_cost_of_grid()
        sys.exit()
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
                    risks.sampled_sums(
                        weights,
                        PoissonSample(rate, rng.bytes(32)),
                        ceiling=1.0,
                        center=0.5,
                        grid=SumGrid(2.0**-32, 2.0**-32),
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
