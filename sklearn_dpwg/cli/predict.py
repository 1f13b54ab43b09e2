"""The command `predict`."""

from __future__ import annotations

from pathlib import Path

import click

from sklearn_dpwg.cli._options import FILE, overwrite_option, table_argument, table_options


@click.command(short_help="Predict for each row of a table.")
@click.argument("model", type=FILE)
@table_argument
@click.option("--output", "-o", type=FILE, required=True, help="CSV or Parquet file to write.")
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="Column of TABLE to copy, as an id. Repeatable."
)
@table_options
@overwrite_option
def predict(
    model: Path,
    table: Path,
    output: Path,
    keep: tuple[str, ...],
    delimiter: str | None,
    missing_values: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Predict for each row of TABLE by a MODEL that `fit` wrote.

    The output has a column "prediction" and, of a classifier that has them, one of probabilities a
    class. Predictions for a person are about that person's row: they belong to whoever may see it.
    """
    from sklearn_dpwg.cli._models import load_model
    from sklearn_dpwg.cli._outputs import check_outputs
    from sklearn_dpwg.cli._predictions import check_suffix, predictions, write_table
    from sklearn_dpwg.cli._tables import TableFile

    check_suffix(output)
    check_outputs([output], [model, table], overwrite=overwrite)
    fitted = load_model(model)
    file = TableFile(table, delimiter, missing_values)
    file.require(keep, "--keep")
    found = predictions(fitted, file, str(model), keep)
    write_table(found, output)
    click.echo(f"{output}: {len(found):,} prediction(s)")
