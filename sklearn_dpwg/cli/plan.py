"""The command `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sklearn_dpwg.cli._options import (
    budget_options,
    estimator_options,
    groups_options,
    schema_option,
    target_bounds_option,
    target_options,
)

if TYPE_CHECKING:
    from sklearn_dpwg.cli._task import Task


@click.command(short_help="Preview a fit, or an audit, from public facts.")
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
@click.option("--audit", is_flag=True, help="Preview an audit: the widths of its intervals.")
@click.option(
    "--base-rate", type=float, metavar="RATE", help="Of an audit: a guess of the share of yes."
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
    audit: bool,
    base_rate: float | None,
    groups: tuple[str, ...],
    group_labels: str | None,
    target: str | None,
    classes: str | None,
    target_bounds: tuple[float, float] | None,
    **parameters: Any,
) -> None:
    """Preview a fit from public facts, without records: noise, steps, bound, guarantee.

    With --audit, what an audit would cost, and how wide its intervals would be.
    """
    from sklearn_dpwg.cli._answers import WrongInput
    from sklearn_dpwg.cli._estimator import make_estimator
    from sklearn_dpwg.cli._task import make_task, read_schema
    from sklearn_dpwg.preprocessing import PublicSchema

    file = None if schema is None else read_schema(schema)
    task = make_task(
        file,
        groups=groups,
        group_labels=group_labels,
        target=target,
        classes=classes,
        target_bounds=target_bounds,
    )
    sizes = task.sizes(group_sizes)
    given = {name: value for name, value in parameters.items() if value is not None}
    if audit:
        click.echo(_audit_plan(task, sizes, base_rate, given))
        return
    if base_rate is not None:
        raise WrongInput("base_rate is for a plan of an audit: say --audit too.")
    if (file is None) == (n_features is None):
        raise WrongInput(
            "plan must be told how many columns a row has: by --schema, or else by --n-features."
        )
    if file is not None:
        n_features = len(PublicSchema(file.columns).get_feature_names_out())
    estimator = make_estimator(task, **given)
    click.echo(str(estimator.plan(group_sizes=sizes, n_features=n_features)))


def _audit_plan(task: Task, sizes: Any, base_rate: float | None, given: dict[str, Any]) -> str:
    """Return the preview of an audit."""
    from sklearn_dpwg.cli._answers import WrongInput
    from sklearn_dpwg.inspection import GroupAudit

    others = [name for name in given if name not in ("epsilon", "delta")]
    if others:
        raise WrongInput(f"{others[0]} is for a plan of a fit, and --audit asks for another one.")
    labels = task.group_labels
    if labels is None:
        labels = tuple(sizes) if isinstance(sizes, dict) else None
    extra = {} if base_rate is None else {"base_rate": base_rate}
    return str(GroupAudit(group_labels=labels, **given).plan(group_sizes=sizes, **extra))
