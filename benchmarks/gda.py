"""Descent–ascent: slopes, its group step, and excess on real data.

`slopes` fits the excess of planned runs to the number of records. `group_step` varies the step
length of the group weights. `data` compares with MGR.

    python benchmarks/gda.py [slopes] [group_step] [data]
"""

from __future__ import annotations

from functools import partial

import common
import numpy as np
from common import DELTA
from rates_worlds import HardWorld, TypicalWorld, World

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import GDA, MGR, Solver

N_GROUPS, N_FEATURES = 4, 16
SIZES = (4_000, 12_000, 40_000, 120_000, 400_000)
N_SEEDS = 8
SIGNALS = tuple(4.0**-k for k in range(7))

DATA = ("law-school", "adult", "compas", "german-credit")


def excess(worlds: list[World], solver: Solver, n_records: float) -> float:
    """Return the largest median excess over seeds, in the population, at ε = 0.1."""
    size = int(n_records) // N_GROUPS
    medians = []
    for world in worlds:
        runs = common.weights_of_runs(
            solver,
            world.problem(size),
            lambda seed, world=world: world.draw(size, np.random.default_rng([seed, 1])),
            range(N_SEEDS),
            Budget(0.1, DELTA),
        )
        medians.append(np.median([world.excess(weights) for weights in runs]))
    return float(max(medians))


def report_slopes() -> None:
    """Print excess against the number of records where noise rules, and its slopes."""
    kinds: dict[str, list[World]] = {
        "hard": [HardWorld(N_GROUPS, N_FEATURES, signal=signal) for signal in SIGNALS],
        "typical": [TypicalWorld(N_GROUPS, N_FEATURES)],
    }
    common.sweep(
        f"median excess of planned runs by records, p = {N_GROUPS}, d = {N_FEATURES}, ε = 0.1",
        SIZES,
        {
            f"{name}, {solver.name}": (partial(excess, worlds, solver), -1.0)
            for name, worlds in kinds.items()
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


def report_data() -> None:
    """Print the excess of both schedules beside MGR's."""
    solvers = {"gda": GDA(), "mgr": MGR(), "paper: gda": GDA(schedule="paper")}
    variants = {name: {"solver": solver} for name, solver in solvers.items()}
    for epsilon in (1.0, 4.0):
        common.excess_table(f"ε = {epsilon:g}", variants, DATA, 6, epsilon=epsilon)


if __name__ == "__main__":
    common.run_tables(
        {
            "slopes": report_slopes,
            "group_step": report_group_step,
            "data": report_data,
        },
    )
