"""The command `schema`."""

from __future__ import annotations

from pathlib import Path

import click

from sklearn_dpwg.cli._options import (
    FILE,
    groups_options,
    overwrite_option,
    table_argument,
    table_options,
)


@click.command(short_help="Write a schema file to fill in; no value is read.")
@table_argument
@click.option("--output", "-o", type=FILE, required=True, help="Schema file (TOML) to write.")
@groups_options
@click.option("--target", metavar="COLUMN", help="Column to predict.")
@click.option(
    "--guess-kinds",
    is_flag=True,
    help="Guess which columns of a CSV file are numbers or dates from its values, which one record "
    "can change.",
)
@table_options
@overwrite_option
def schema(
    table: Path,
    output: Path,
    groups: tuple[str, ...],
    group_labels: str | None,
    target: str | None,
    guess_kinds: bool,
    delimiter: str | None,
    missing_values: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Write a schema file to fill in, from the header and the types of TABLE.

    No value is read: what a person fills in is what they know without the records, from a code
    book, a form or a law. A CSV file has no types, so that its columns start as categories; a
    Parquet file has some. Columns that --groups and --target name get tables of their own.
    """
    from sklearn_dpwg.cli._outputs import check_outputs, write
    from sklearn_dpwg.cli._tables import TableFile
    from sklearn_dpwg.cli._task import make_task
    from sklearn_dpwg.preprocessing.schema_files import template

    file = TableFile(table, delimiter, missing_values)
    check_outputs([output], [table], overwrite=overwrite)
    file.require(groups, "--groups")
    file.require(() if target is None else (target,), "--target")
    frame = file.guessed_frame() if guess_kinds else file.empty_frame()
    labels = make_task(None, groups=groups, group_labels=group_labels).group_labels
    text = template(frame, groups=groups, target=target, group_labels=labels)
    write(output, lambda part: part.write_text(text, encoding="utf-8"))
    n_columns = len(set(file.names) - {*groups, target})
    click.echo(f"{output}: {n_columns} column(s) to describe; no value was read into it.")
    if guess_kinds:
        click.echo(
            "Warning: the kinds were guessed from the values of the records: check each of them.",
            err=True,
        )
