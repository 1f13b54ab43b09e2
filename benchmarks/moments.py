"""
Why the defaults of Moments are what they are
=============================================

Mean excess worst-group risk over the exact optimum of the same ball, delta = 1e-5. The first table
compares with MGR; in each other one default is varied alone: on real regression data, on classes
taken as targets, and on made data of other shapes. A star marks the default.

    python benchmarks/moments.py [choice] [caution] [constant] [length] [n_rounds] [growth] [clip]
        [ridge] [smoothing]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import load_dataset, make_worst_group_regression
from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR, Auto, Moments, Solver
from sklearn_dpwg.solvers.rounds import moments as planning
from sklearn_dpwg.solvers.rounds import noisy_moments

warnings.simplefilter("ignore", SeededNoiseWarning)

EPSILONS, DELTA, N_SEEDS = (1.0, 4.0), 1e-5, 6

# The defaults of the regressor.
RADIUS, SCALING = 2.0, 0.5

DATA = ("cps-hourly-earnings", "cps-weekly-wages", "law-school", "compas", "german-credit")
MADE: dict[str, dict[str, Any]] = {
    "made: 3 columns": {"n_features": 3, "group_sizes": (5000, 500)},
    "made: 30 columns": {"n_features": 30, "group_sizes": (20_000, 5000, 1000)},
    "made: 12 groups": {"n_features": 6, "n_groups": 12, "group_sizes": 1000},
    "made: boundary": {"n_features": 8, "group_sizes": (8000, 2000), "boundary": True},
}
GRID: dict[str, tuple[Any, ...]] = {
    "n_rounds": (1, 2, 3, 4, 6),
    "growth": (1.0, 2.0, 4.0),
    "clip": (1.5, 2.0, 2.5, 3.0),
    "ridge": (0.0, 0.1, 0.25, 0.5, 1.0),
    "smoothing": (0.0, 1.0, 3.0, 10.0),
}


class Case:
    """Records, their public facts and their exact optimum."""

    def __init__(self, name: str) -> None:
        if name in MADE:
            shape = dict(MADE[name])
            shape.setdefault("n_groups", np.size(shape["group_sizes"]))
            data = make_worst_group_regression(random_state=0, **shape)
        else:
            data = load_dataset(name)
        labels = np.asarray(data.group_labels)
        targets = np.asarray(data.target, dtype=float)
        # classes are numbers here: -1 and 1
        low, high = data.target_bounds if "target_bounds" in data else (0.0, 1.0)
        targets = np.clip((targets - (low + high) / 2.0) / ((high - low) / 2.0), -1.0, 1.0)
        records = RecordEncoder(len(labels), data.data_norm).encode(
            data.data, targets, np.searchsorted(labels, data.groups)
        )
        scaling = 0.0 if name in MADE else SCALING
        self.risks = GroupRisks(records, SquaredError(), scaling)
        sizes = self.risks.group_sizes
        prior = tuple(size / sum(sizes) for size in sizes)
        d = records.rows.shape[1]
        self.problem = Problem(SquaredError(), sizes, d, RADIUS, prior, scaling)
        optimum = worst_group_optimum(self.risks, radius=RADIUS)
        self.optimum = float(self.risks.risks(optimum.weights).max())
        self.nothing = float(self.risks.risks(0.0 * optimum.weights).max()) - self.optimum

    def excess(self, solver: Solver, epsilon: float) -> float:
        """Return the mean excess of a few runs."""
        plan = solver.plan(self.problem, Budget(epsilon, DELTA))
        found = [
            solver.run(plan, self.risks, NoiseSource(seed, plan.releases)).weights
            for seed in range(N_SEEDS)
        ]
        risks = [self.risks.risks(weights).max() for weights in found]
        return float(np.mean(risks)) - self.optimum


def table(title: str, rows: list[tuple[str, Callable[[Case, float], str]]], cases: Any) -> None:
    """Print a table with a row for each variant and a column for each case and budget."""
    print(f"\n{title:<28}" + "".join(f"{name:>22}" for name in cases))
    for label, cell in rows:
        cells = (" / ".join(cell(case, epsilon) for epsilon in EPSILONS) for case in cases.values())
        print(f"{label:<28}" + "".join(f"{text:>22}" for text in cells), flush=True)


@contextmanager
def constants(module: Any, **values: float) -> Iterator[None]:
    """Change constants of a module for a while."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def varied(module: Any, **values: float) -> Callable[[Case, float], str]:
    """Return what prints the excess with other constants."""

    def cell(case: Case, epsilon: float) -> str:
        with constants(module, **values):
            return f"{case.excess(Moments(), epsilon):.4f}"

    return cell


def main(asked: list[str]) -> None:
    """Print the tables asked for, by default all."""
    cases = {name: Case(name) for name in (*DATA, *MADE)}
    print(f"epsilon {' / '.join(f'{epsilon:g}' for epsilon in EPSILONS)}, {N_SEEDS} seeds")

    def star(value: Any, default: Any) -> str:
        return f"{value:g}{'*' if value == default else ''}"

    def excess(solver: Solver) -> Callable[[Case, float], str]:
        return lambda case, epsilon: f"{case.excess(solver, epsilon):.4f}"

    def chosen(case: Case, epsilon: float) -> str:
        return Auto().plan(case.problem, Budget(epsilon, DELTA)).solver

    tables: dict[str, list[tuple[str, Callable[[Case, float], str]]]] = {
        "choice": [
            ("predict nothing", lambda case, _: f"{case.nothing:.4f}"),
            *((name, excess(solver)) for name, solver in (("moments", Moments()), ("mgr", MGR()))),
            ("chosen by auto", chosen),
        ],
        "caution": [
            (star(value, noisy_moments.CAUTION), varied(noisy_moments, CAUTION=value))
            for value in (0.0, 1.0, 2.0, 5.0, 20.0)
        ],
        "constant": [
            (
                star(value, planning.CONSTANT),
                varied(planning, CONSTANT=value, LENGTH=float(np.hypot(1.0, value))),
            )
            for value in (0.25, 0.5, 0.75, 1.0, 1.5)
        ],
        "length": [
            (star(value, planning.LENGTH), varied(planning, LENGTH=value))
            for value in (0.75, 1.0, 1.25, 1.5, 2.0)
        ],
    }
    for name, values in GRID.items():
        tables[name] = [
            (star(value, getattr(Moments(), name)), excess(Moments(**{name: value})))
            for value in values
        ]
    for name, rows in tables.items():
        if not asked or name in asked:
            table(name, rows, cases)


if __name__ == "__main__":
    main(sys.argv[1:])
