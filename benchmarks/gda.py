"""Descent–ascent: the excess of planned runs by the number of records, and its slopes.

`papers.py` has its excess on real data.

    python benchmarks/gda.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import common
import rates
from rates_worlds import World

from sklearn_dpwg.solvers import GDA, MGR, Solver

SIZES = (4_000, 12_000, 40_000, 120_000, 400_000)


def excess(worlds_at: Callable[..., list[World]], solver: Solver, n_records: float) -> float:
    """Return the mean excess over seeds in the population, of the worst world, at ε = 0.1."""
    point = rates.Point(n_records=int(n_records), epsilon=0.1)
    runs = rates.measured(worlds_at, [point], partial(rates.excess_of_runs, solver=solver))
    return float(runs.mean(axis=2).max())


def report_slopes() -> None:
    """Print excess against the number of records where noise rules, and its slopes."""
    common.sweep(
        "mean excess of planned runs by records, p = 4, d = 16, ε = 0.1",
        SIZES,
        {
            f"{name}, {solver.name}": (partial(excess, worlds_at, solver), -1.0)
            for name, worlds_at in rates.FAMILIES.items()
            for solver in (GDA(), MGR(sampling_rate=1.0))
        },
    )


if __name__ == "__main__":
    report_slopes()
