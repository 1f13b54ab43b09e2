"""The four commands: plan, fit, predict and audit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack, nullcontext
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from skops import io

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.cli.files import (
    TableSchema,
    check_complete,
    load_model,
    read_facts,
    read_schema,
    read_table,
    write_table,
)
from sklearn_dpwg.data.frames import places
from sklearn_dpwg.exceptions import BudgetExceededError, DPWGError, InputError
from sklearn_dpwg.inspection import AuditReport, AuditResult, GroupAudit
from sklearn_dpwg.inspection.report import written
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.preprocessing import Number, bound_rows_per_person
from sklearn_dpwg.privacy.statement import cost_of, rounded_up

WRONG_INPUT, REFUSED, FAILS_BELOW = 2, 3, 4
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "show_default": True}


class Commands(click.Group):
    """Commands that answer wrong input by the message of the error, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; warnings for users go to stderr, a line each."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda one, *_, **__: click.echo(f"Warning: {one}", err=True)
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise  # click knows what to do where nobody reads on
            except (DPWGError, ValueError, OSError, ImportError) as error:
                message = "\n".join([str(error), *getattr(error, "__notes__", ())])
                click.echo(f"Error: {message}", err=True)
                is_refused = isinstance(error, BudgetExceededError)
                raise click.exceptions.Exit(REFUSED if is_refused else WRONG_INPUT) from error


@click.group(cls=Commands, context_settings=SETTINGS)
@click.version_option(package_name="sklearn-dpwg", prog_name="sklearn_dpwg")
def main() -> None:
    """Private worst-group learning and fairness audits of tables.

    A schema file (TOML) says what is public of a table: columns, groups and target. Exit codes: 0
    done, 2 wrong input, 3 refused by the ledger, 4 `audit --fail-below` fails.
    """


# Options that several commands share.


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one decorator of several options, in the order in which help lists them."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


INPUT = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT = click.Path(dir_okay=False, path_type=Path)

table_argument = click.argument("table", type=INPUT)
schema_option = click.option("--schema", type=INPUT, required=True, help="What is public (TOML).")
budget_options = together(
    click.option("--epsilon", default=1.0, help="Privacy budget epsilon."),
    click.option("--delta", default=1e-6, help="Privacy budget delta."),
)
estimator_options = together(
    click.option("--solver", default="auto", help="Name of a solver."),
    click.option("--neighbours", default="replace-one", help="Or replace-one-within-group."),
    click.option("--shapes", default="auto", help="How numbers bend: auto, ramps or linear."),
)
ledger_options = together(
    click.option("--ledger", type=OUTPUT, help="File that counts what is spent on the records."),
    click.option("--ledger-epsilon", type=float, help="Epsilon that the ledger may not exceed."),
    click.option("--ledger-delta", default=1e-6, help="Delta of the ledger."),
)
threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    help="Public probability from which on the last class is decided; by default the model's.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace files that are there.")


@main.command()
@schema_option
@click.option("--group-sizes", required=True, help="Such as A=100,B=50 or a/x=100,b/x=50.")
@click.option("--audit", is_flag=True, help="Preview an audit: the widths of its intervals.")
@budget_options
@estimator_options
def plan(
    schema: Path, group_sizes: str, audit: bool, epsilon: float, delta: float, **options: Any
) -> None:
    """Preview a fit, or an audit, from public facts: no record is read."""
    facts = read_facts(schema)
    sizes = sizes_of(group_sizes, facts)
    if audit:
        audited = make_audit(facts, epsilon, delta)
        click.echo(audited.plan(group_sizes=sizes, outcomes=facts.target is not None))
        return
    model = make_model(facts, epsilon=epsilon, delta=delta, **options)
    n_features = len(model[0].get_feature_names_out())
    click.echo(model[1].plan(group_sizes=sizes, n_features=n_features))


@main.command()
@table_argument
@schema_option
@click.option("--output", "-o", type=OUTPUT, required=True, help="Model file (skops) to write.")
@budget_options
@estimator_options
@ledger_options
@overwrite_option
def fit(
    table: Path,
    schema: Path,
    output: Path,
    overwrite: bool,
    ledger: Path | None,
    ledger_epsilon: float | None,
    ledger_delta: float,
    **options: Any,
) -> None:
    """Learn a private model from TABLE, and print what it promises."""
    facts = read_facts(schema)
    model = make_model(facts, **options)
    book = make_ledger(ledger, ledger_epsilon, ledger_delta)
    with written(output, overwrite=overwrite) as part:
        columns = model[0].columns
        rows = read_rows(table, facts, columns, k=model[0].rows_per_person)
        check_complete(rows, [facts.target, *facts.group_columns])
        X, groups = rows[list(columns)], rows[list(facts.group_columns)]
        with book or nullcontext():
            model.fit(X, rows[facts.target], model__groups=groups)
        io.dump(model, part)
    click.echo(f"{model[-1].privacy_}\nModel: {output}")
    say_what_is_spent(book)


@main.command()
@click.argument("model", type=INPUT)
@table_argument
@click.option("--output", "-o", type=OUTPUT, required=True, help="CSV or Parquet file to write.")
@click.option("--schema", type=INPUT, help="Its [read_csv] says how TABLE is written.")
@threshold_option
@click.option("--keep", multiple=True, help="Column of TABLE to copy, as an id. Repeatable.")
@overwrite_option
def predict(
    model: Path,
    table: Path,
    output: Path,
    schema: Path | None,
    threshold: float | None,
    keep: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Predict for each row of TABLE by a MODEL that `fit` wrote.

    The output has a column "prediction" and one of probabilities a class, the class that is looked
    for last. Predictions for a person belong to whoever may see that person's row.
    """
    fitted = load_model(model)
    options = {} if schema is None else read_schema(schema).read_csv
    with written(output, overwrite=overwrite) as part:
        columns = fitted[0].columns
        X = read_table(table, columns, columns, options)
        copied = read_table(table, keep, {}, options) if keep else pd.DataFrame(index=X.index)
        added = {"prediction": predictions_of(fitted, X, threshold)}
        for name, column in probabilities(fitted, X).items():
            added[f"probability of {name}"] = pd.Series(column, X.index)
        write_table(pd.concat([copied, pd.DataFrame(added)], axis=1), part)
    click.echo(f"Predictions: {output}")


@main.command()
@table_argument
@schema_option
@click.option("--model", type=INPUT, help="Model that `fit` wrote, which decides.")
@click.option("--predictions", help="Column of decisions: one of the classes.")
@click.option("--scores", help="Column of probabilities of the last class.")
@click.option(
    "--same-records/--held-out",
    default=None,
    help="Whether a --model was fitted to these very records, so that both costs add up.",
)
@threshold_option
@budget_options
@click.option("--metric", type=click.Choice(AuditResult.METRICS), default="selection_rate")
@click.option("--reference", help="Group that all others are compared with.")
@click.option(
    "--fail-below",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    help="Exit with 4 where a group's rate is surely below so many times another's, as 0.8.",
)
@click.option("--output", "-o", type=OUTPUT, help="Page (HTML) to write.")
@click.option("--json", "json_file", type=OUTPUT, help="File to write the released numbers to.")
@ledger_options
@overwrite_option
def audit(
    table: Path,
    schema: Path,
    model: Path | None,
    predictions: str | None,
    scores: str | None,
    same_records: bool | None,
    threshold: float | None,
    epsilon: float,
    delta: float,
    metric: str,
    reference: str | None,
    fail_below: float | None,
    output: Path | None,
    json_file: Path | None,
    overwrite: bool,
    **ledger: Any,
) -> None:
    """Audit decisions about the people in TABLE by group, privately.

    Decisions are those of a --model, or a column. Without a target, or where that is the column of
    decisions, there are no outcomes: selection rates alone are released.
    """
    if [model, predictions, scores].count(None) != 2:
        raise click.UsageError("Say one of --model FILE, --predictions COLUMN, --scores COLUMN.")
    if (model is None) != (same_records is None):
        raise click.UsageError("Say --same-records or --held-out of a --model, and only of one.")
    if predictions is not None and threshold is not None:
        raise click.UsageError("--threshold is for probabilities, not for --predictions.")
    facts = read_facts(schema)
    fitted = None if model is None else load_model(model)
    audited = make_audit(facts, epsilon, delta, threshold)
    has_outcomes = facts.target not in (None, predictions)
    if not has_outcomes and metric != "selection_rate":
        raise InputError(f"metric must be selection_rate without outcomes, got {metric!r}.")
    compared = None if reference is None else label_of(reference, facts)
    for name in ("jinja2", "matplotlib") if output is not None else ():
        import_module(name)  # missing now, and not once the budget is spent
    book, outputs = make_ledger(**ledger), [one for one in (json_file, output) if one is not None]
    with ExitStack() as files:
        parts = {one: files.enter_context(written(one, overwrite=overwrite)) for one in outputs}
        kind: Any = "decisions" if scores is None else "scores"
        named = [one for one in (predictions, scores) if one is not None]
        if fitted is not None:
            rows = read_rows(table, facts, fitted[0].columns, k=1)
            decided = predictions_of(fitted, rows[list(fitted[0].columns)], threshold).astype(str)
        else:
            rows = read_rows(table, facts, dict.fromkeys(named, scores and Number(0, 1)), k=1)
            decided = rows[named[0]].astype(float if scores else str)
        named += [facts.target] if has_outcomes and facts.target is not None else []
        check_complete(rows, [*named, *facts.group_columns])
        with book or nullcontext():
            result = audited.run(
                rows[facts.target] if has_outcomes else None,
                decided,
                rows[list(facts.group_columns)],
                kind=kind,
                same_records_as=fitted if same_records else None,
            )
        asked = (metric, fail_below)
        verdict = None if fail_below is None else result.verdict(*asked, reference=compared)
        if json_file is not None:
            parts[json_file].write_text(result.to_json(), encoding="utf-8")
        if output is not None:
            page = AuditReport(result, verdict=verdict)
            parts[output].write_text(page.html(), encoding="utf-8")
    click.echo(in_lines(result, metric, compared))
    for path in outputs:
        click.echo(f"Written: {path}")
    say_what_is_spent(book)
    if verdict is not None:
        click.echo(f"Verdict: {verdict.answer}. {verdict}")
        if verdict.answer == "fails":
            raise click.exceptions.Exit(FAILS_BELOW)


# What the commands share.


def make_model(facts: TableSchema, shapes: str, **given: Any) -> Pipeline:
    """Return the schema and its estimator: a regressor where the target has bounds."""
    schema = facts.schema.set_params(shapes=shapes)
    given |= {"data_norm": 1.0, "group_labels": facts.group_labels}
    if schema.person is not None:
        given["rows_per_person"] = schema.rows_per_person
    if facts.target is None or (facts.classes is None and facts.target_bounds is None):
        raise InputError("[target] must have a column, and classes or low and high, for a fit.")
    if facts.classes is None:
        model: Any = DPWorstGroupRegressor(target_bounds=facts.target_bounds, **given)
    else:
        model = DPWorstGroupClassifier(classes=facts.classes, **given)
    return Pipeline([("schema", schema), ("model", model)])


def make_audit(
    facts: TableSchema, epsilon: float, delta: float, threshold: float | None = None
) -> GroupAudit:
    """Return the audit of a schema, of whose two classes the last is looked for."""
    if facts.classes is None or len(facts.classes) != 2:
        raise InputError(f"classes under [target] must be two for an audit, got {facts.classes!r}.")
    return GroupAudit(
        epsilon,
        delta,
        group_labels=facts.group_labels,
        classes=facts.classes,
        threshold=0.5 if threshold is None else threshold,
        rows_per_person=None if facts.schema.person is None else 1,
    )


def read_rows(
    path: Path, facts: TableSchema, columns: Mapping[str, Any], *, k: int
) -> pd.DataFrame:
    """Read columns, groups and target, of each person at most k rows, chosen by coins."""
    target = [] if facts.target is None else [facts.target]
    person = [] if facts.schema.person is None else [facts.schema.person]
    kinds = dict(columns)
    if facts.target_bounds is not None:
        kinds |= dict.fromkeys(target, Number(*facts.target_bounds))
    names = [*columns, *facts.group_columns, *target, *person]
    rows = read_table(path, names, kinds, facts.read_csv)
    if not person:
        return rows
    kept = bound_rows_per_person(rows, np.zeros(len(rows)), person=person[0], k=k)
    return kept.X


def probabilities(model: Pipeline, X: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the probabilities of each class, as declared, so that the one looked for is last."""
    if not hasattr(model, "predict_proba"):
        return {}
    declared = model[-1].classes
    by_place = model.predict_proba(X).T[places(declared, model.classes_)]
    return dict(zip(declared, by_place, strict=True))


def predictions_of(model: Pipeline, X: pd.DataFrame, threshold: float | None) -> pd.Series:
    """Return what a model predicts, or what its probabilities of the last class do."""
    if threshold is None:
        return pd.Series(model.predict(X), index=X.index)
    of_each = probabilities(model, X)
    if len(of_each) != 2:
        raise InputError("threshold is for a model of two classes that has probabilities.")
    no, yes = of_each
    return pd.Series(np.where(of_each[yes] >= threshold, yes, no), index=X.index)


def sizes_of(text: str, facts: TableSchema) -> dict[Any, int]:
    """Return sizes by label, as they are written on the command line."""
    parts = [part.rpartition("=") for part in text.split(",")]
    if not all(size.strip().isdigit() for _, _, size in parts):
        raise InputError(f"group_sizes must be written as A=100,B=50, got {text!r}.")
    return {label_of(name.strip(), facts): int(size) for name, _, size in parts}


def label_of(text: str, facts: TableSchema) -> Hashable:
    """Return the label that is written so, of several columns with / between the values."""
    known = {one_line(label): label for label in facts.group_labels or ()}
    if text not in known:
        raise InputError(f"{text!r} must be one of the group labels {', '.join(known)}.")
    return known[text]


def one_line(label: Any) -> str:
    """Return a label as it is written on the command line."""
    return "/".join(label) if isinstance(label, tuple) else str(label)


def make_ledger(
    ledger: Path | None, ledger_epsilon: float | None, ledger_delta: float
) -> PrivacyLedger | None:
    """Return a ledger, not open yet, if one is asked for."""
    if (ledger is None) != (ledger_epsilon is None):
        raise InputError("--ledger and --ledger-epsilon must be given together, or neither.")
    if ledger is None or ledger_epsilon is None:
        return None
    return PrivacyLedger(ledger_epsilon, ledger_delta, path=ledger)


def say_what_is_spent(book: PrivacyLedger | None) -> None:
    """Print the state of a ledger."""
    if book is not None:
        spent = rounded_up(book.epsilon_spent)
        click.echo(
            f"Ledger: {book.path} has spent epsilon = {spent} of {rounded_up(book.epsilon)} "
            f"at delta = {rounded_up(book.delta)}"
        )


def in_lines(result: AuditResult, metric: str, reference: Hashable) -> str:
    """Return a line a group, with sizes, rates and ratios, and what that costs."""
    metrics = dict.fromkeys(["selection_rate", metric, "error_rate"])
    rates = {one.replace("_", " "): result.rates(one) for one in metrics if one in result.METRICS}
    verdict = result.verdict(metric, reference=reference)
    rates["ratio"] = tuple(one.contrasts[0] for one in verdict.groups)
    columns = {
        name: [f"{one.estimate:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in each]
        for name, each in rates.items()
    }
    sizes = [f"{one.low:,.0f} to {one.high:,.0f}" for one in result.group_sizes()]
    table = pd.DataFrame(
        {"people": sizes, **columns}, index=[one_line(label) for label in result.group_labels]
    )
    privacy = result.privacy_
    unit = "; the unit is a person" if privacy.of_person else ""
    return (
        f"Selected: whoever is decided {result.classes[1]!r}, not {result.classes[0]!r}.\n"
        f"{table.to_string()}\nPrivacy: {cost_of(privacy)}, {privacy.relation}{unit}"
    )
