"""The command `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sklearn_dpwg.cli._options import (
    budget_options,
    estimator_options,
    groups_options,
    schema_option,
    target_bounds_option,
    target_options,
)


@click.command(short_help="Preview a fit from public facts.")
@schema_option
@click.option(
    "--group-sizes",
    required=True,
    metavar="A=100,B=50",
    help="Number of records in each group; without names in the order of the labels.",
)
@click.option(
    "--n-features", type=int, metavar="NUMBER", help="Columns of X, where there is no schema."
)
@groups_options
@target_options
@target_bounds_option
@budget_options
@estimator_options
def plan(
    schema: Path | None,
    group_sizes: str,
    n_features: int | None,
    groups: tuple[str, ...],
    group_labels: str | None,
    target: str | None,
    classes: str | None,
    target_bounds: tuple[float, float] | None,
    **parameters: Any,
) -> None:
    """Preview a fit from public facts, without records: noise, steps, bound, guarantee."""
    from sklearn_dpwg.cli._answers import WrongInput
    from sklearn_dpwg.cli._estimator import make_estimator
    from sklearn_dpwg.cli._task import make_task, read_schema
    from sklearn_dpwg.preprocessing import PublicSchema

    file = None if schema is None else read_schema(schema)
    if (file is None) == (n_features is None):
        raise WrongInput(
            "plan must be told how many columns a row has: by --schema, or else by --n-features."
        )
    if file is not None:
        n_features = len(PublicSchema(file.columns).get_feature_names_out())
    task = make_task(
        file,
        groups=groups,
        group_labels=group_labels,
        target=target,
        classes=classes,
        target_bounds=target_bounds,
    )
    estimator = make_estimator(task, **parameters)
    sizes = task.sizes(group_sizes)
    click.echo(str(estimator.plan(group_sizes=sizes, n_features=n_features)))
