"""Active group selection beside multiplicative weights, and its rates.

Mean excess worst-group risk over the exact optimum, δ = 1e-5, with two standard errors, beside
MGR, on centred rows and on rows as they are. Then slopes in the records of a group: where the
choice of the group rules, for the paper's schedule, and where the noise of the gradient does.
`papers.py` has the paper's schedule on data.

    python benchmarks/ags.py [data] [slopes]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from common import excess_table, run_tables, sweep, weights_of_runs
from rates_worlds import CountedRisks

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.losses import AbsoluteError, Huber
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import AGS, MGR, Solver

DATA = ("adult", "law-school", "compas", "german-credit")
EPSILONS, N_SEEDS = (1.0, 4.0), 6
METHODS: dict[str, Solver] = {
    "MGR": MGR(),
    "MGR, rows as they are": MGR(centring=False),
    "AGS": AGS(),
}

SIZES = tuple(round(size) for size in np.geomspace(1e3, 1e5, 5))
BUDGET, N_RUNS = Budget(1.0, 1e-6), 12


def data() -> None:
    """Print the table of data sets."""
    variants = {name: {"solver": solver} for name, solver in METHODS.items()}
    for epsilon in EPSILONS:
        title = f"epsilon = {epsilon:g}"
        excess_table(title, variants, DATA, N_SEEDS, errors=2.0, zero=True, epsilon=epsilon)


def world(problem: Problem, rows: np.ndarray, targets: np.ndarray, optimum: float) -> Any:
    """Return groups of equal records, each held once, with their problem and optimum."""
    n_groups = len(rows)
    records = GroupedRecords(rows, targets, np.arange(n_groups + 1))
    counts = np.array(problem.group_sizes, dtype=float)
    return CountedRisks(records, problem.loss, 0.0, counts=counts), problem, optimum


def choice_world(size: int) -> Any:
    """Return one group with a faint slope and seven with a steep one against it.

    Their risks 1 - w/10 and 1/2 + 9w/10 meet at w = 1/2, where the faint group has to be taken nine
    times of ten: noise that takes another moves the weight by what the risks differ then.
    """
    problem = Problem(AbsoluteError(), (size,) * 8, 1, 1.0, (0.125,) * 8, 0.0)
    rows, targets = np.full((8, 1), 0.9), np.full(8, -0.5)
    rows[0], targets[0] = 0.1, 1.0
    return world(problem, rows, targets, 0.95)


def gradient_world(size: int) -> Any:
    """Return one group of two that is always the worst, with a linear loss of 16 weights."""
    problem = Problem(Huber(0.5), (size, size), 16, 0.5, (0.5, 0.5), 0.0)
    rows = np.zeros((2, 16))
    rows[0, 0] = 60.0 / size  # about as faint as the noise, where excess is the largest
    optimum = 0.5 * (1.0 - 0.5 * rows[0, 0]) - 0.125
    return world(problem, rows, np.array([1.0, 0.0]), optimum)


def median_excess(world: Any, solver: Solver, size: int) -> float:
    """Return the median excess of runs."""
    records, problem, optimum = world(size)
    runs = weights_of_runs(solver, problem, records, range(N_RUNS), BUDGET)
    return float(np.median([records.risks(w).max() for w in runs]) - optimum)


def slopes() -> None:
    """Print the slopes in the number of records of a group."""
    paper = AGS(schedule="paper", max_passes=100_000)
    curves = {
        "the choice rules, the paper's": (choice_world, paper, -0.5),
        "the gradient's noise rules": (gradient_world, AGS(), -1.0),
    }
    sweep(
        f"median excess of {N_RUNS} runs by records of a group",
        SIZES,
        {name: (partial(median_excess, *each[:2]), each[2]) for name, each in curves.items()},
    )


if __name__ == "__main__":
    run_tables({"data": data, "slopes": slopes})
