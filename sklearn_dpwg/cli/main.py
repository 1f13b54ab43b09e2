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
    """Commands that print errors of the user as a message, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; print warnings to stderr, and exit with 2 or 3 after an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda text, *_, **__: click.echo(f"Warning: {text}", err=True)
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise  # click handles a closed pipe
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
    """Return one decorator that adds several options; help lists them in this order."""
    return lambda command: reduce(lambda result, add: add(result), reversed(options), command)


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
    print_spending(book)


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
    reference_label = None if reference is None else label_of(reference, facts)
    for name in ("jinja2", "matplotlib") if output is not None else ():
        import_module(name)  # fails before the budget is spent, not after
    book, outputs = make_ledger(**ledger), [file for file in (json_file, output) if file]
    with ExitStack() as files:
        parts = {path: files.enter_context(written(path, overwrite=overwrite)) for path in outputs}
        kind: Any = "decisions" if scores is None else "scores"
        needed = [name for name in (predictions, scores) if name is not None]
        if fitted is not None:
            rows = read_rows(table, facts, fitted[0].columns, k=1)
            decisions = predictions_of(fitted, rows[list(fitted[0].columns)], threshold).astype(str)
        else:
            rows = read_rows(table, facts, dict.fromkeys(needed, scores and Number(0, 1)), k=1)
            decisions = rows[needed[0]].astype(float if scores else str)
        needed += [facts.target] if has_outcomes and facts.target is not None else []
        check_complete(rows, [*needed, *facts.group_columns])
        with book or nullcontext():
            result = audited.run(
                rows[facts.target] if has_outcomes else None,
                decisions,
                rows[list(facts.group_columns)],
                kind=kind,
                same_records_as=fitted if same_records else None,
            )
        terms = (metric, fail_below)
        verdict = None if fail_below is None else result.verdict(*terms, reference=reference_label)
        if json_file is not None:
            parts[json_file].write_text(result.to_json(), encoding="utf-8")
        if output is not None:
            page = AuditReport(result, verdict=verdict)
            parts[output].write_text(page.html(), encoding="utf-8")
    click.echo(summary(result, metric, reference_label))
    for path in outputs:
        click.echo(f"Written: {path}")
    print_spending(book)
    if verdict is not None:
        click.echo(f"Verdict: {verdict.answer}. {verdict}")
        if verdict.answer == "fails":
            raise click.exceptions.Exit(FAILS_BELOW)


# What the commands share.


def make_model(facts: TableSchema, shapes: str, **parameters: Any) -> Pipeline:
    """Return the pipeline to fit: schema and classifier, or regressor if there are no classes."""
    schema = facts.schema.set_params(shapes=shapes)
    parameters |= {"data_norm": 1.0, "group_labels": facts.group_labels}
    if schema.person is not None:
        parameters["rows_per_person"] = schema.rows_per_person
    if facts.target is None or (facts.classes is None and facts.target_bounds is None):
        raise InputError("[target] must have a column, and classes or low and high, for a fit.")
    if facts.classes is None:
        model: Any = DPWorstGroupRegressor(target_bounds=facts.target_bounds, **parameters)
    else:
        model = DPWorstGroupClassifier(classes=facts.classes, **parameters)
    return Pipeline([("schema", schema), ("model", model)])


def make_audit(
    facts: TableSchema, epsilon: float, delta: float, threshold: float | None = None
) -> GroupAudit:
    """Return an unfitted audit of a schema with two classes; decisions for the last are counted."""
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
    """Read columns, groups and target; keep at most k rows of each person, chosen at random."""
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
    """Return each class's probabilities, in declared order; empty if the model has none."""
    if not hasattr(model, "predict_proba"):
        return {}
    declared = model[-1].classes
    columns = model.predict_proba(X).T[places(declared, model.classes_)]
    return dict(zip(declared, columns, strict=True))


def predictions_of(model: Pipeline, X: pd.DataFrame, threshold: float | None) -> pd.Series:
    """Return the predicted classes, by the model or by a threshold on the last class."""
    if threshold is None:
        return pd.Series(model.predict(X), index=X.index)
    by_class = probabilities(model, X)
    if len(by_class) != 2:
        raise InputError("threshold is for a model of two classes that has probabilities.")
    other, positive = by_class
    return pd.Series(np.where(by_class[positive] >= threshold, positive, other), index=X.index)


def sizes_of(text: str, facts: TableSchema) -> dict[Any, int]:
    """Return group sizes by label from a text such as "A=100,B=50"."""
    parts = [part.rpartition("=") for part in text.split(",")]
    if not all(size.strip().isdigit() for _, _, size in parts):
        raise InputError(f"group_sizes must be written as A=100,B=50, got {text!r}.")
    return {label_of(name.strip(), facts): int(size) for name, _, size in parts}


def label_of(text: str, facts: TableSchema) -> Hashable:
    """Return the group label that a text such as "A" or, of two columns, "a/x" stands for."""
    label_by_text = {label_text(label): label for label in facts.group_labels or ()}
    if text not in label_by_text:
        raise InputError(f"{text!r} must be one of the group labels {', '.join(label_by_text)}.")
    return label_by_text[text]


def label_text(label: Any) -> str:
    """Return a label as it is written on the command line, "a/x" for a tuple."""
    return "/".join(label) if isinstance(label, tuple) else str(label)


def make_ledger(
    ledger: Path | None, ledger_epsilon: float | None, ledger_delta: float
) -> PrivacyLedger | None:
    """Return the ledger of the options, not open yet, or None without --ledger."""
    if (ledger is None) != (ledger_epsilon is None):
        raise InputError("--ledger and --ledger-epsilon must be given together, or neither.")
    if ledger is None or ledger_epsilon is None:
        return None
    return PrivacyLedger(ledger_epsilon, ledger_delta, path=ledger)


def print_spending(book: PrivacyLedger | None) -> None:
    """Print what a ledger has spent of its budget; nothing without a ledger."""
    if book is not None:
        spent = rounded_up(book.epsilon_spent)
        click.echo(
            f"Ledger: {book.path} has spent epsilon = {spent} of {rounded_up(book.epsilon)} "
            f"at delta = {rounded_up(book.delta)}"
        )


def summary(result: AuditResult, metric: str, reference: Hashable) -> str:
    """Return a table of groups as text: sizes, rates and ratios with intervals, and the cost."""
    metrics = dict.fromkeys(["selection_rate", metric, "error_rate"])
    rates = {m.replace("_", " "): result.rates(m) for m in metrics if m in result.METRICS}
    verdict = result.verdict(metric, reference=reference)
    rates["ratio"] = tuple(group.contrasts[0] for group in verdict.groups)
    columns = {
        name: [f"{rate.estimate:.3f} [{rate.low:.3f}, {rate.high:.3f}]" for rate in group_rates]
        for name, group_rates in rates.items()
    }
    sizes = [f"{size.low:,.0f} to {size.high:,.0f}" for size in result.group_sizes()]
    table = pd.DataFrame(
        {"people": sizes, **columns}, index=[label_text(label) for label in result.group_labels]
    )
    privacy = result.privacy_
    unit = "; the unit is a person" if privacy.of_person else ""
    return (
        f"Selected: whoever is decided {result.classes[1]!r}, not {result.classes[0]!r}.\n"
        f"{table.to_string()}\nPrivacy: {cost_of(privacy)}, {privacy.relation}{unit}"
    )
