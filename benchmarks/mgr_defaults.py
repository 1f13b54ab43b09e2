"""
Why the defaults are what they are
==================================

Each default of the estimators and of MGR is varied alone, the others left as they are: mean excess
worst-group risk over the reference optimum, epsilon = 1, delta = 1e-5, five seeds. A star marks
the default. Names of parameters and of data sets, as arguments, print their tables alone:

    python benchmarks/mgr_defaults.py BOLDNESS SHORTER epsilon=4 census-income-kdd
"""

from __future__ import annotations

import sys
from types import ModuleType

from common import EPSILON, excess_of_fits, load_dataset, make_estimator

from sklearn_dpwg.datasets import dataset_names
from sklearn_dpwg.losses import classification as binary_log_loss
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers import steps as group_player
from sklearn_dpwg.solvers import steps as heavy_ball
from sklearn_dpwg.solvers.descent import rule as step_rule

N_SEEDS = 5
CLASSIFICATION = (
    "adult",
    "law-school",
    "minneapolis-stops",
    "compas",
    "health-insurance",
    "german-credit",
)
REGRESSION = ("cps-hourly-earnings", "cps-weekly-wages")
ALL = {CLASSIFICATION: (*CLASSIFICATION, "census-income-kdd"), REGRESSION: REGRESSION}
INFINITY = float("inf")

SOLVER_GRID = {
    "aim": (0.1, 0.2, 0.3, 0.5, 1.0),
    "averaging": (0.25, 0.5, 2 / 3, 1.0),
    "max_passes": (50, 100, 150, 200, 400),
    "risk_share": (0.02, None, 0.1, 0.3),
}
ESTIMATOR_GRID = {
    "intercept_scaling": (0.2, 0.35, 0.5, 1.0, 2.0),
    "prior": ("proportional", 0.1, 0.3, "uniform"),
}
# The assumed spread of the group risks sets the planned group rate.
CONSTANTS = (
    (group_player, "SPREAD_OVER_ZERO_SCORE", (0.5, 0.15, 0.075)),
    (step_rule, "LONGEST_MEMORY", (0.1, 0.2, 0.4)),
    (step_rule, "BOLDNESS", (1.0, 4.0, 8.0, 16.0)),
    (heavy_ball, "SHORTER", (0.5, 0.8, 0.9, 1.0)),
    (binary_log_loss, "BOUNDED_SLOPE", (0.7, 0.8, 0.85, 0.9, 1.0)),
)
BY_TASK = {
    CLASSIFICATION: (
        {"radius": (5.0, 10.0, 20.0, 40.0)},
        {"loss_ceiling": (0.7, None, 2.0, INFINITY)},
    ),
    REGRESSION: ({"radius": (1.0, 2.0, 4.0)}, {"loss_ceiling": (0.1, 0.3, None, INFINITY)}),
}


def table(
    names: tuple[str, ...], parameter: str, values: tuple, in_solver: bool, epsilon: float
) -> None:
    """Print one parameter's table."""
    data = [load_dataset(name) for name in names]
    print(f"\n{parameter:<20}" + "".join(f"{name:>22}" for name in names))
    for value in values:
        cells = []
        for one in data:
            default = MGR() if in_solver else make_estimator(one)
            starred = getattr(default, parameter) == value
            chosen = {"solver": MGR(**{parameter: value})} if in_solver else {parameter: value}
            excess = excess_of_fits(one, N_SEEDS, epsilon=epsilon, **chosen)
            cells.append(f"{excess.mean():.4f} ± {excess.std(ddof=1):.4f}{'*' if starred else ' '}")
        shown = "planned" if value is None else value if isinstance(value, str) else f"{value:.3g}"
        print(f"{shown:<20}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def constant_table(
    names: tuple[str, ...], module: ModuleType, name: str, values: tuple, epsilon: float
) -> None:
    """Print what a planning constant does: MGR's to full passes, others to default fits."""
    solver = "auto" if module is binary_log_loss else MGR(sampling_rate=1.0)
    print(f"\n{name:<20}" + "".join(f"{name:>22}" for name in names))
    default = getattr(module, name)
    for value in values:
        setattr(module, name, value)
        star = "*" if value == default else " "
        found = [
            excess_of_fits(load_dataset(one), N_SEEDS, epsilon=epsilon, solver=solver)
            for one in names
        ]
        cells = [f"{excess.mean():.4f} ± {excess.std(ddof=1):.4f}{star}" for excess in found]
        print(f"{value:<20.3g}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    setattr(module, name, default)


if __name__ == "__main__":
    asked = set(sys.argv[1:])
    budgets = [word for word in asked if word.startswith("epsilon=")]
    epsilon = float(budgets[0].removeprefix("epsilon=")) if budgets else EPSILON
    only = asked & set(dataset_names())
    wanted = asked - only - set(budgets)
    for task, (estimator_grid, solver_grid) in BY_TASK.items():
        names = tuple(sorted(only & set(ALL[task]))) if only else task
        if not names:
            continue
        for parameter, values in {**estimator_grid, **ESTIMATOR_GRID}.items():
            if not wanted or parameter in wanted:
                table(names, parameter, values, False, epsilon)
        for parameter, values in {**solver_grid, **SOLVER_GRID}.items():
            if not wanted or parameter in wanted:
                table(names, parameter, values, True, epsilon)
        for module, name, grid in CONSTANTS:
            if not wanted or name in wanted:
                constant_table(names, module, name, grid, epsilon)
