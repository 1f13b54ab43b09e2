"""Descent–ascent: slopes, and its group step. `papers.py` has its excess on real data.

`slopes` fits the excess of planned runs to the number of records. `group_step` varies the step
length of the group weights.

    python benchmarks/gda.py [slopes] [group_step]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import common
import rates
from common import DELTA
from rates_worlds import World

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.solvers import GDA, MGR, Solver

SIZES = (4_000, 12_000, 40_000, 120_000, 400_000)
DATA = ("law-school", "adult", "compas", "german-credit")


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


def report_group_step() -> None:
    """Print the excess for multiples of the planned step of the group weights, at ε = 1."""
    print(f"\nmultiples of the planned step of the group weights, ε = 1, δ = {DELTA:g}, 6 seeds")
    for name in DATA:
        data, cells = load_dataset(name), []
        plan = common.make_estimator(data, solver=GDA()).plan(**common.public_facts(data))
        for times in (0.1, 0.2, 0.4, 0.7, 1.0, 2.0):
            solver = GDA(group_step=times * plan.schedule.group_step)
            cells.append(f"{times:g} {common.excess_of_fits(data, 6, solver=solver).mean():.4f}")
        print(f"{name:>15}  " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    common.run_tables({"slopes": report_slopes, "group_step": report_group_step})
