"""Cost of one pass for risks and gradients.

Fits the constants of the plan's time prediction: seconds a pass = step + rows * (columns * entry +
record), by least squares of the logarithm over a range of sizes. Then what a record of a Poisson
batch costs on top, coins included, in the same form. ``python benchmarks/pass_cost.py grid`` prints
instead what it costs to round the sums of blocks to a grid: both sides in one run, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from common import quartiles, risks_of, row, run_tables, turn_by_turn
from scipy.optimize import least_squares
from scipy.sparse import csr_array

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.privacy.noise import PoissonSample
from sklearn_dpwg.solvers import plan

# Records and columns that the cost of the grid is printed for.
N_RECORDS, N_COLUMNS = 1_000_000, 50
GRID = SumGrid(2.0**-32, 2.0**-32)


def made(n_rows: int, n_columns: int) -> tuple[np.ndarray, ...]:
    """Return random rows, targets, sorted groups and weights."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(n_rows, n_columns))
    targets = rng.choice([-1.0, 1.0], size=n_rows)
    return rows, targets, np.sort(rng.integers(0, 8, n_rows)), rng.standard_normal(n_columns + 1)


def grid() -> None:
    """Print processor time of a pass with sums on a grid over that of one with plain sums."""
    rows, targets, codes, weights = made(N_RECORDS, N_COLUMNS)
    thin = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, rows, 0.0)
    row("rows", ("plain ms", "grid ms", "ratio", "quartiles"), 18, 12)
    held = {
        "dense": rows,
        "by columns": np.asfortranarray(rows),
        "csr": csr_array(thin),
        "float32": rows.astype(np.float32),
    }
    for name, of_kind in held.items():
        told = {"data_norm": N_COLUMNS**0.5, "scaling": 0.5}
        risks = risks_of(of_kind, targets, codes, BinaryLogLoss(), **told)
        sums = partial(risks.sums, weights, ceiling=1.0)
        sides = [partial(sums, grid=SumGrid(0.0, 0.0)), partial(sums, grid=GRID)]
        before, after = turn_by_turn(sides, 40, clock=time.process_time)
        ratio, spread = quartiles(after / before)
        times = [f"{1e3 * np.median(each):.1f}" for each in (before, after)]
        row(name, (*times, f"{ratio:.3f}", spread), 18, 12)


def fit(
    title: str,
    sizes: Sequence[tuple[float, int]],
    measured: Sequence[float],
    predict: Callable[[np.ndarray, np.ndarray], np.ndarray],
    names: Sequence[str],
    in_code: Sequence[float],
) -> None:
    """Fit constants to measured seconds by least squares of logarithms, and print both."""
    table = np.array(sizes, dtype=float)

    def error(logs: np.ndarray) -> np.ndarray:
        return np.log(predict(table, np.exp(logs)) / measured)

    found = np.exp(least_squares(error, np.log(in_code), bounds=(-25.0, -5.0)).x)
    pairs = zip(names, found, strict=True)
    print(f"{title}: " + ", ".join(f"{name} {value:.2g}" for name, value in pairs))
    row("rows", ("columns", "measured", "fitted", "in code"), 12, 12)
    columns = measured, predict(table, found), predict(table, np.array(in_code))
    for (n_rows, n_columns), *times in zip(sizes, *columns, strict=True):
        row(f"{n_rows:,.0f}", (n_columns, *(f"{each:.6f}" for each in times)), 12, 12)


def passes() -> None:
    """Measure passes and batches of many sizes, and fit the plan's constants to them."""
    sizes, seconds, batch_sizes, batch_seconds = [], [], [], []
    rng = np.random.default_rng(1)
    for n_rows in (1_000, 10_000, 100_000, 1_000_000):
        for n_columns in (5, 20, 100):
            rows, targets, codes, weights = made(n_rows, n_columns)
            told = {"data_norm": n_columns**0.5, "scaling": 0.5}
            risks = risks_of(rows, targets, codes, BinaryLogLoss(), **told)
            sizes.append((n_rows, n_columns))
            sides = [partial(risks.risks_and_gradients, weights)]
            seconds.append(float(np.median(turn_by_turn(sides, 7))))
            for rate in (0.01, 0.1, 0.5) if n_rows >= 100_000 else ():
                sample = PoissonSample(rate, rng.bytes(32))
                told = {"ceiling": 1.0, "center": 0.5, "grid": GRID}
                sides = [partial(risks.sampled_sums, weights, sample, **told)]
                batch_sizes.append((rate * n_rows, n_columns))
                batch_seconds.append(float(np.median(turn_by_turn(sides, 7))))

    def of_pass(table: np.ndarray, constants: np.ndarray) -> np.ndarray:
        entry, record, step = constants
        return step + table[:, 0] * (table[:, 1] * entry + record)

    def of_batch(table: np.ndarray, on_top: np.ndarray) -> np.ndarray:
        entry, record = np.array([plan.SECONDS_PER_ENTRY, plan.SECONDS_PER_RECORD]) + on_top
        return of_pass(table, np.array([entry, record, plan.SECONDS_PER_STEP]))

    in_code = (plan.SECONDS_PER_ENTRY, plan.SECONDS_PER_RECORD, plan.SECONDS_PER_STEP)
    fit("seconds", sizes, seconds, of_pass, ("per entry", "per record", "per step"), in_code)
    in_code = (plan.SECONDS_PER_GATHERED_ENTRY, plan.SECONDS_PER_GATHERED_RECORD)
    title = "\nin batches on top, seconds"
    fit(title, batch_sizes, batch_seconds, of_batch, ("per entry", "per record"), in_code)


if __name__ == "__main__":
    run_tables({"passes": passes, "grid": grid}, extra=["grid"])
