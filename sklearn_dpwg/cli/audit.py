"""The command `audit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from sklearn_dpwg.cli._options import (
    FILE,
    budget_options,
    groups_options,
    ledger_options,
    overwrite_option,
    random_state_option,
    schema_option,
    table_argument,
    table_options,
    target_options,
)


@click.command(short_help="Audit decisions by group: verdict, page, JSON.")
@table_argument
@click.option("--scores", metavar="COLUMN", help="Column of probabilities of the positive class.")
@click.option("--predictions", metavar="COLUMN", help="Column of decisions: one of the classes.")
@click.option("--model", type=FILE, help="Model that `fit` wrote, to make the scores.")
@click.option(
    "--same-records/--held-out",
    default=None,
    help="Whether the model was fitted to these very records, so that both costs add up.",
)
@schema_option
@groups_options
@target_options
@budget_options
@click.option(
    "--threshold",
    type=float,
    metavar="NUMBER",
    help="Public threshold from which on a score is a yes: 0.5 by default.",
)
@click.option("--score-edges", metavar="A,B,C", help="Public edges of score bins, for calibration.")
@click.option(
    "--sizes",
    type=click.Choice(["hidden", "public"]),
    help="Whether group sizes, and who is in which, are secret: hidden by default.",
)
@click.option(
    "--losses", metavar="A,B", help="Mean losses to release too: log_loss, squared_error."
)
@click.option(
    "--mechanism",
    type=click.Choice(["auto", "laplace", "gaussian"]),
    help="Noise of the counts: auto by default.",
)
@click.option(
    "--confidence", type=float, metavar="NUMBER", help="Of every interval: 0.95 by default."
)
@click.option(
    "--metric",
    default="selection_rate",
    show_default=True,
    help="Rate that the verdict compares, smallest over largest.",
)
@click.option(
    "--fail-below",
    type=float,
    metavar="RATIO",
    help="Exit with 4 where the impact ratio is below this, with 5 where nobody can tell.",
)
@click.option("--output", "-o", type=FILE, help="Report to write: one page of HTML.")
@click.option("--json", "json_file", type=FILE, help="Result to write as JSON.")
@click.option("--markdown", type=FILE, help="Report to write as Markdown.")
@click.option("--title", metavar="TEXT", help="Title of the report.")
@click.option("--note", "notes", multiple=True, metavar="TEXT", help="Note in the report.")
@ledger_options
@table_options
@random_state_option
@overwrite_option
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    table: Path,
    scores: str | None,
    predictions: str | None,
    model: Path | None,
    same_records: bool | None,
    schema: Path | None,
    metric: str,
    fail_below: float | None,
    output: Path | None,
    json_file: Path | None,
    markdown: Path | None,
    title: str | None,
    notes: tuple[str, ...],
    delimiter: str | None,
    missing_values: tuple[str, ...],
    overwrite: bool,
    **options: Any,
) -> None:
    """Audit decisions about the people in TABLE, privately, and print the verdict.

    Decisions are a column (--scores or --predictions) or those of a --model. What is released is a
    noisy count of each group, outcome and decision, once; rates, ratios and their intervals follow
    from it. Whatever is wrong is refused before any budget is spent.
    """
    from sklearn_dpwg.cli._audits import (
        audit_of,
        check_audit,
        check_page,
        run_audit,
        sources_of,
        summary,
        without_seed,
        write_reports,
    )
    from sklearn_dpwg.cli._outputs import check_outputs
    from sklearn_dpwg.cli._tables import TableFile

    outputs = {"html": output, "json": json_file, "markdown": markdown}
    written = [path for path in outputs.values() if path is not None]
    read = [path for path in (table, schema, model, options["ledger"]) if path is not None]
    check_outputs(written, read, overwrite=overwrite)
    check_audit(metric, fail_below)
    if output is not None:
        check_page()
    file = TableFile(table, delimiter, missing_values)
    sources = sources_of(file, schema, scores, predictions, model, same_records, options)
    book, result = run_audit(audit_of(sources, options), sources, options)
    command = shlex.join(["python", "-m", "sklearn_dpwg", *without_seed(ctx.meta["arguments"])])
    at_least = 0.8 if fail_below is None else fail_below  # the four-fifths rule
    write_reports(result, outputs, title=title, notes=notes, command=command, at_least=at_least)
    click.echo(summary(result, metric, at_least))
    for path in written:
        click.echo(f"Written: {path}")
    if book is not None:
        click.echo(
            f"Ledger: {book.path} has spent epsilon = {book.epsilon_spent:.4g} of "
            f"{book.epsilon:g} at delta = {book.delta:g}"
        )
    if fail_below is not None:
        ctx.exit(exit_code(result.verdict(metric, at_least=fail_below).answer))


def exit_code(answer: str) -> int:
    """Return the number of an answer."""
    from sklearn_dpwg.cli._answers import CANNOT_TELL, FAILS

    return {"passes": 0, "fails": FAILS, "cannot tell": CANNOT_TELL}[answer]
