"""Why the defaults are what they are.

Each default of the estimators and of MGR is varied alone, the others left as they are: mean excess
worst-group risk over the reference optimum, epsilon = 1, delta = 1e-5, five seeds, with its
standard error. A star marks the default. Names of parameters and of data sets, as arguments, print
their tables alone:

    python benchmarks/mgr_defaults.py BOLDNESS SHORTER epsilon=4 census-income-kdd
"""

from __future__ import annotations

import sys
from typing import Any

from common import EPSILON, constants, excess_of_fits, facts_asked, make_estimator, row
from common import cell as mean_and_error

from sklearn_dpwg.datasets import dataset_names, load_dataset
from sklearn_dpwg.losses import classification
from sklearn_dpwg.solvers import MGR, steps

N_SEEDS = 5
CLASSIFICATION = (
    *("adult", "law-school", "minneapolis-stops", "compas", "health-insurance", "german-credit"),
)
REGRESSION = ("cps-hourly-earnings", "cps-weekly-wages")
ON_DEMAND = {CLASSIFICATION: {"census-income-kdd"}, REGRESSION: set()}
INFINITY = float("inf")

OF_ESTIMATOR = {
    "prior": ("proportional", 0.1, 0.3, "uniform"),
}
OF_SOLVER = {
    "aim": (0.1, 0.2, 0.3, 0.5, 1.0),
    "averaging": (0.25, 0.5, 2 / 3, 1.0),
    "risk_share": (0.02, None, 0.1, 0.3),
}
BY_TASK = {
    CLASSIFICATION: (
        {"radius": (5.0, 10.0, 20.0, 60.0, 200.0)},
        {"loss_ceiling": (0.7, None, 2.0, INFINITY)},
    ),
    REGRESSION: ({"radius": (1.0, 2.0, 4.0)}, {"loss_ceiling": (0.1, 0.3, None, INFINITY)}),
}
INTERCEPTS = (0.2, 0.35, 0.5, 1.0, 2.0)
# The assumed spread of the group risks sets the planned group rate.
CONSTANTS = {
    "SPREAD_OVER_ZERO_SCORE": (steps, (0.5, 0.15, 0.075)),
    "SHORTER": (steps, (0.5, 0.8, 0.9, 1.0)),
    "BOUNDED_SLOPE": (classification, (0.7, 0.8, 0.85, 0.9, 1.0)),
}


def shown(value: Any) -> str:
    """Return a value in words."""
    return "planned" if value is None else value if isinstance(value, str) else f"{value:.3g}"


def cell(data: Any, epsilon: float, *, starred: bool, **parameters: Any) -> str:
    """Return the mean excess, with a star for the default."""
    values = excess_of_fits(data, N_SEEDS, epsilon=epsilon, **parameters)
    return mean_and_error(values) + ("*" if starred else " ")


def intercept(names: tuple[str, ...], epsilon: float) -> None:
    """Print the table of values of the constant column."""
    data = [load_dataset(name) for name in names]
    kinds = [type(make_estimator(one)) for one in data]
    usual = {kind: kind._intercept_scaling for kind in kinds}
    print()
    row("intercept", names)
    for value in INTERCEPTS:
        for kind in usual:
            kind._intercept_scaling = value
        stars = [usual[kind] == value for kind in kinds]
        cells = [cell(one, epsilon, starred=star) for one, star in zip(data, stars, strict=True)]
        row(shown(value), cells)
    for kind, value in usual.items():
        kind._intercept_scaling = value


def table(names: tuple[str, ...], parameter: str, values: tuple, of: str, epsilon: float) -> None:
    """Print one parameter's table, of the estimator, the solver, or a planning constant."""
    data = [load_dataset(name) for name in names]
    print()
    row(parameter, names)
    for value in values:
        if of == "constants":
            # MGR's on full passes, others on default fits
            module = CONSTANTS[parameter][0]
            starred = [getattr(module, parameter) == value] * len(data)
            chosen = {"solver": "auto" if module is classification else MGR(sampling_rate=1.0)}
            with constants(module, **{parameter: value}):
                cells = [
                    cell(one, epsilon, starred=star, **chosen)
                    for one, star in zip(data, starred, strict=True)
                ]
        else:
            of_solver = of == "solver"
            chosen = {"solver": MGR(**{parameter: value})} if of_solver else {parameter: value}
            cells = [
                cell(one, epsilon, starred=getattr(default, parameter) == value, **chosen)
                for one in data
                for default in [MGR() if of_solver else make_estimator(one)]
            ]
        row(shown(value), cells)


if __name__ == "__main__":
    asked = {word for word in sys.argv[1:] if "=" not in word}
    only = asked & set(dataset_names())
    for task, (of_estimator, of_solver) in BY_TASK.items():
        names = tuple(sorted(only & {*task, *ON_DEMAND[task]})) if only else task
        grids = {
            "estimator": {**of_estimator, **OF_ESTIMATOR},
            "solver": {**of_solver, **OF_SOLVER},
            "constants": {name: values for name, (_, values) in CONSTANTS.items()},
        }
        epsilon = facts_asked().get("epsilon", EPSILON)
        if names and (asked <= only or "intercept" in asked):
            intercept(names, epsilon)
        for of, grid in grids.items():
            for parameter, values in grid.items():
                if names and (asked <= only or parameter in asked):
                    table(names, parameter, values, of, epsilon)
