"""Options that several commands share, each named as the parameter of the estimators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]

FILE = click.Path(path_type=Path)

table_argument = click.argument("table", type=FILE)

schema_option = click.option(
    "--schema", type=FILE, help="Schema file (TOML): what is public of the columns."
)

_table = (
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Between the cells of a CSV file; by default a comma, or a tab in .tsv and .txt.",
    ),
    click.option(
        "--missing-value",
        "missing_values",
        multiple=True,
        metavar="TEXT",
        help="A cell of a CSV file that stands for a missing value, beside empty ones. Repeatable.",
    ),
)

_groups = (
    click.option(
        "--groups",
        multiple=True,
        metavar="COLUMN",
        help="Column that says the group of a record. Repeatable: cells are intersected.",
    ),
    click.option(
        "--group-labels",
        metavar="A,B,C",
        help="All group labels. Of two columns of groups: A/x,A/y,B/x.",
    ),
)

_target = (
    click.option("--target", metavar="COLUMN", help="Column to predict."),
    click.option(
        "--classes",
        metavar="A,B",
        help="All classes; of two, the one that sorts last is the positive one.",
    ),
)

target_bounds_option = click.option(
    "--target-bounds",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Public bounds on a target that is a number; without them it is a class.",
)

_budget = (
    click.option("--epsilon", type=float, metavar="NUMBER", help="Privacy budget ε: 1 by default."),
    click.option(
        "--delta", type=float, metavar="NUMBER", help="Privacy budget δ: 1e-6 by default."
    ),
)

_ledger = (
    click.option(
        "--ledger",
        type=FILE,
        help="Ledger file that counts what is spent on these records, and refuses to overspend.",
    ),
    click.option(
        "--ledger-epsilon",
        type=float,
        metavar="NUMBER",
        help="ε of a new ledger.",
    ),
    click.option("--ledger-delta", type=float, metavar="NUMBER", help="δ of a new ledger."),
)

_estimator = (
    click.option("--solver", metavar="NAME", help="Solver, as mgr: auto by default."),
    click.option("--loss", metavar="NAME", help="Loss, as log_loss, hinge or squared_error."),
    click.option("--radius", type=float, metavar="NUMBER", help="Radius of the ball of weights."),
    click.option(
        "--fit-intercept/--no-fit-intercept", default=None, help="Whether to learn an intercept."
    ),
    click.option(
        "--intercept-scaling", type=float, metavar="NUMBER", help="Value of the constant column."
    ),
    click.option(
        "--prior",
        metavar="WORD|NUMBER",
        help="Public weights of the groups: proportional, uniform, or a share of uniform ones.",
    ),
    click.option(
        "--rows-per-person",
        type=int,
        metavar="NUMBER",
        help="Most rows of one person, whom the budget is then for: 1 by default.",
    ),
)

random_state_option = click.option(
    "--random-state",
    type=int,
    metavar="SEED",
    help="Makes noise repeatable, for tests alone: whoever knows the seed can subtract it.",
)

overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace output files that are there already."
)


def _all(options: tuple[Decorator, ...]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


table_options = _all(_table)
groups_options = _all(_groups)
target_options = _all(_target)
budget_options = _all(_budget)
ledger_options = _all(_ledger)
estimator_options = _all(_estimator)
