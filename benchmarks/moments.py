"""Why the defaults of Moments are what they are.

Mean excess worst-group risk over the exact optimum of the same ball, delta = 1e-5. The first table
compares with MGR; in each other one default is varied alone: on real regression data, on classes
taken as targets, and on made data of other shapes. A star marks the default.

    python benchmarks/moments.py [choice] [caution] [constant] [length] [n_rounds] [growth] [clip]
        [ridge] [smoothing]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import constants, risks_of, row, run_tables, unit_targets, weights_of_runs
from sklearn.utils import Bunch

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, Auto, Moments, Solver
from sklearn_dpwg.solvers import moments as planning

EPSILONS, DELTA, N_SEEDS = (1.0, 4.0), 1e-5, 6

# The defaults of the regressor.
RADIUS, SCALING = 2.0, 0.5

DATA = ("cps-hourly-earnings", "cps-weekly-wages", "law-school", "compas", "german-credit")
MADE: dict[str, dict[str, Any]] = {
    "made: 3 columns": {"n_features": 3, "group_sizes": (5000, 500)},
    "made: 30 columns": {"n_features": 30, "group_sizes": (20_000, 5000, 1000)},
    "made: 12 groups": {"n_features": 6, "group_sizes": (1000,) * 12},
}
GRID: dict[str, tuple[Any, ...]] = {
    "n_rounds": (1, 2, 3, 4, 6),
    "growth": (1.0, 2.0, 4.0),
    "clip": (1.5, 2.0, 2.5, 3.0),
    "ridge": (0.0, 0.1, 0.25, 0.5, 1.0),
    "smoothing": (0.0, 1.0, 3.0, 10.0),
}


def made_regression(n_features: int, group_sizes: tuple[int, ...]) -> Bunch:
    """Make unit rows and linear targets, with coefficients that differ by group, and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sum(group_sizes), n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    groups = np.repeat(np.arange(len(group_sizes)), group_sizes)
    coefs = rng.normal(size=n_features) + 0.5 * rng.normal(size=(len(group_sizes), n_features))
    coefs /= np.linalg.norm(coefs, axis=1, keepdims=True)
    y = np.einsum("ij,ij->i", X, coefs[groups]) + 0.1 * rng.normal(size=len(X))
    facts = {"group_labels": range(len(group_sizes)), "data_norm": 1.0, "target_bounds": (-2, 2)}
    return Bunch(data=X, target=np.clip(y, -2.0, 2.0), groups=groups, **facts)


class Case:
    """Records, their public facts and their exact optimum; classes are numbers here, -1 and 1."""

    def __init__(self, name: str) -> None:
        self.name, scaling = name, 0.0 if name in MADE else SCALING
        data = made_regression(**MADE[name]) if name in MADE else load_dataset(name)
        codes = np.searchsorted(np.asarray(data.group_labels), data.groups)
        settings = {"data_norm": data.data_norm, "scaling": scaling}
        self.risks = risks_of(data.data, unit_targets(data), codes, SquaredError(), **settings)
        sizes = self.risks.group_sizes
        prior = tuple(size / sum(sizes) for size in sizes)
        d = self.risks.records.rows.shape[1]
        self.problem = Problem(SquaredError(), sizes, d, RADIUS, prior, scaling)
        optimum = worst_group_optimum(self.risks, radius=RADIUS)
        self.optimum = float(self.risks.risks(optimum.weights).max())
        self.nothing = float(self.risks.risks(0.0 * optimum.weights).max()) - self.optimum

    def excess(self, solver: Solver, epsilon: float) -> str:
        """Return the mean excess of a few runs."""
        budget = Budget(epsilon, DELTA)
        result = weights_of_runs(solver, self.problem, self.risks, range(N_SEEDS), budget)
        risks = [self.risks.risks(weights).max() for weights in result]
        return f"{float(np.mean(risks)) - self.optimum:.4f}"


Cell = Callable[[Case, float], str]


def table(title: str, rows: dict[str, Cell], cases: list[Case]) -> None:
    """Print a table with a row for each variant and a column for each case and budget."""
    print()
    row(title, [case.name for case in cases], first=28)
    for label, cell in rows.items():
        both = [" / ".join(cell(case, epsilon) for epsilon in EPSILONS) for case in cases]
        row(label, both, first=28)


def excess(solver: Solver) -> Cell:
    """Return what prints the excess of a solver."""
    return lambda case, epsilon: case.excess(solver, epsilon)


def varied(module: Any, **values: float) -> Cell:
    """Return what prints the excess with other constants."""

    def cell(case: Case, epsilon: float) -> str:
        with constants(module, **values):
            return case.excess(Moments(), epsilon)

    return cell


def chosen(case: Case, epsilon: float) -> str:
    """Return the solver that "auto" takes."""
    return Auto().plan(case.problem, Budget(epsilon, DELTA)).solver


def star(value: Any, default: Any) -> str:
    """Return a value, with a star if it is the default."""
    return f"{value:g}{'*' if value == default else ''}"


TABLES: dict[str, dict[str, Cell]] = {
    "choice": {
        "predict nothing": lambda case, _: f"{case.nothing:.4f}",
        "moments": excess(Moments()),
        "mgr": excess(MGR()),
        "chosen by auto": chosen,
    },
    "caution": {
        star(value, planning.CAUTION): varied(planning, CAUTION=value)
        for value in (0.0, 1.0, 2.0, 5.0, 20.0)
    },
    "constant": {
        star(value, planning.CONSTANT): varied(
            planning, CONSTANT=value, LENGTH=float(np.hypot(1.0, value))
        )
        for value in (0.25, 0.5, 0.75, 1.0, 1.5)
    },
    "length": {
        star(value, planning.LENGTH): varied(planning, LENGTH=value)
        for value in (0.75, 1.0, 1.25, 1.5, 2.0)
    },
    **{
        name: {
            star(value, getattr(Moments(), name)): excess(Moments(**{name: value}))
            for value in values
        }
        for name, values in GRID.items()
    },
}

if __name__ == "__main__":
    cases = [Case(name) for name in (*DATA, *MADE)]
    print(f"epsilon {' / '.join(f'{epsilon:g}' for epsilon in EPSILONS)}, {N_SEEDS} seeds")
    run_tables({name: partial(table, name, rows, cases) for name, rows in TABLES.items()})
