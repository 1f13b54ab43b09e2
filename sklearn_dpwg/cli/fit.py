"""The command `fit`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from sklearn_dpwg.cli._options import (
    FILE,
    budget_options,
    estimator_options,
    groups_options,
    ledger_options,
    overwrite_option,
    random_state_option,
    schema_option,
    table_argument,
    table_options,
    target_bounds_option,
    target_options,
)


@click.command(short_help="Learn a private model and print what it promises.")
@table_argument
@schema_option
@click.option("--output", "-o", type=FILE, required=True, help="Model file (skops) to write.")
@groups_options
@target_options
@target_bounds_option
@budget_options
@estimator_options
@ledger_options
@table_options
@click.option(
    "--spool",
    type=click.Path(),  # a string, of which an empty one can be told
    metavar="FOLDER",
    help="Read a Parquet file in parts, and keep encoded rows in this folder while it is fitted.",
)
@random_state_option
@overwrite_option
def fit(
    table: Path,
    schema: Path | None,
    output: Path,
    groups: tuple[str, ...],
    group_labels: str | None,
    target: str | None,
    classes: str | None,
    target_bounds: tuple[float, float] | None,
    ledger: Path | None,
    ledger_epsilon: float | None,
    ledger_delta: float | None,
    delimiter: str | None,
    missing_values: tuple[str, ...],
    spool: str | None,
    overwrite: bool,
    **parameters: Any,
) -> None:
    """Learn a private model from TABLE, and print what it promises.

    The schema says what is public of the columns that the model sees; other columns are not read,
    but for the target and the groups. Whatever is wrong is refused before any budget is spent.
    """
    from sklearn.pipeline import Pipeline

    from sklearn_dpwg.cli._answers import WrongInput
    from sklearn_dpwg.cli._estimator import make_estimator
    from sklearn_dpwg.cli._ledgers import ledger_around
    from sklearn_dpwg.cli._models import save_model
    from sklearn_dpwg.cli._outputs import check_outputs
    from sklearn_dpwg.cli._parts import PartsOfFile
    from sklearn_dpwg.cli._progress import shown_progress
    from sklearn_dpwg.cli._tables import TableFile, features
    from sklearn_dpwg.cli._task import make_task, read_schema
    from sklearn_dpwg.ledger import privacy_of
    from sklearn_dpwg.preprocessing import PublicSchema

    if schema is None:
        raise WrongInput(
            "schema must be named, as --schema FILE: `schema TABLE -o FILE` writes one to fill in."
        )
    inputs = [table, schema, *([ledger] if ledger is not None else [])]
    check_outputs([output], inputs, overwrite=overwrite)
    said = read_schema(schema)
    task = make_task(
        said,
        groups=groups,
        group_labels=group_labels,
        target=target,
        classes=classes,
        target_bounds=target_bounds,
    )
    file = TableFile(table, delimiter, missing_values)
    task.check(file, list(said.columns))
    file.require(said.columns, str(schema))
    estimator = make_estimator(task, **parameters)
    if spool is None:
        columns = file.read([*said.columns, *task.group_columns, task.needed_target()])
        of_groups, y = task.groups(columns), task.targets(columns)
        X = features(columns, said.columns)
        del columns
        model = Pipeline([("schema", PublicSchema(said.columns)), ("model", estimator)])
        fit_model = partial(model.fit, X, y, model__groups=of_groups)
    else:
        source = PartsOfFile(file, task, PublicSchema(said.columns), spool)
        source.check_labels()  # before there is a ledger, as in memory
        model = Pipeline([("schema", source.schema), ("model", estimator)])
        fit_model = partial(estimator.fit, source)
    book = ledger_around(ledger, ledger_epsilon, ledger_delta)
    with book or nullcontext(), shown_progress(estimator, sys.stderr):
        fit_model()
    save_model(model, output)  # outside of the ledger, whose place would be saved with it
    click.echo(str(privacy_of(model)))
    click.echo(f"\nModel: {output}")
    if book is not None:
        click.echo(
            f"Ledger: {ledger} has spent epsilon = {book.epsilon_spent:.4g} of {book.epsilon:g} "
            f"at delta = {book.delta:g}"
        )
