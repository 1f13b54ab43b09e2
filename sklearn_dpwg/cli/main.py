"""The command line: schema, plan, fit, show, predict; what audits has a file of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from sklearn_dpwg.cli import cells, models
from sklearn_dpwg.cli.audit import audit, verdict
from sklearn_dpwg.cli.fitting import make_estimator
from sklearn_dpwg.cli.options import (
    FILE,
    OF_TASK,
    budget_options,
    estimator_options,
    groups_options,
    ledger_options,
    make_task,
    missing_label_option,
    no_outcomes_option,
    number_option,
    overwrite_option,
    random_state_option,
    read_schema,
    schema_option,
    shapes_option,
    table_argument,
    table_options,
    target_bounds_option,
    target_options,
    threshold_options,
)
from sklearn_dpwg.cli.tables import (
    OneSentence,
    TableFile,
    WrongInput,
    check_outputs,
    paid_for,
    tell,
    unknown_name,
    write_text,
)

if TYPE_CHECKING:
    import pandas as pd

    from sklearn_dpwg.cli.options import Task
    from sklearn_dpwg.preprocessing import PublicSchema
    from sklearn_dpwg.preprocessing.schema_files import SchemaFile
    from sklearn_dpwg.solvers import Plan


@click.command(short_help="Learn a private model and print what it promises.")
@table_argument
@schema_option
@click.option("--output", "-o", type=FILE, required=True, help="Model file (skops) to write.")
@groups_options
@missing_label_option
@target_options
@target_bounds_option
@budget_options
@estimator_options
@threshold_options
@ledger_options
@table_options
@click.option(
    "--spool",
    type=click.Path(),  # a string, of which an empty one can be told
    metavar="FOLDER",
    help="Read a Parquet file in parts, and keep encoded rows in this folder while it is fitted.",
)
@click.option(
    "--person",
    metavar="COLUMN",
    help="Column that says whose row each is: of one person coins keep at most --rows-per-person.",
)
@click.option(
    "--onnx",
    type=FILE,
    help="Graph (.onnx) to write beside the model, for where Python does not run; it takes cells "
    "that are clean, dates as seconds since 1970.",
)
@shapes_option
@random_state_option
@overwrite_option
def fit(
    table: Path,
    schema: Path | None,
    output: Path,
    ledger: Path | None,
    spool: str | None,
    person: str | None,
    onnx: Path | None,
    shapes: str,
    overwrite: bool,
    **options: Any,
) -> None:
    """Learn a private model from TABLE, and print what it promises.

    The schema says what is public of the columns that the model sees; other columns are not read,
    but for the target and the groups. Whatever is wrong is refused before any budget is spent.
    """
    from sklearn.pipeline import Pipeline

    from sklearn_dpwg.cli.fitting import PartsOfFile, shown_progress
    from sklearn_dpwg.preprocessing import PublicSchema

    if schema is None:
        raise WrongInput(
            "schema must be named, as --schema FILE: `schema TABLE -o FILE` writes one to fill in."
        )
    inputs = [table, schema, *([ledger] if ledger is not None else [])]
    outputs = [output, *([onnx] if onnx is not None else [])]
    check_outputs(outputs, inputs, overwrite=overwrite)
    said = read_schema(schema)
    task = make_task(said, options)
    file = TableFile.of(table, options, said.file)
    whose = _whose(person, said, options)
    wanted = {**task.wanted(list(said.columns)), str(schema): said.columns}
    file.require({**wanted, "--person": whose})
    _check_whose(whose, wanted, in_parts=spool is not None)
    estimator = make_estimator(task, options)
    has_threshold = hasattr(estimator, "miss_cost")
    if has_threshold and spool is not None:
        raise WrongInput(
            "a threshold must not be asked for with --spool, as a fit of records in parts pays for "
            "none: leave --share and --miss-cost out, and say a public `predict --threshold`."
        )
    known = {**said.of_schema, "file": file.written, "unseen": task.kinds(said.unseen)}
    known["missing_label"] = task.missing_label
    if whose:  # less than one row is refused by the fit
        known |= {"person": whose[0], "rows_per_person": max(options["rows_per_person"], 1)}
    encoder = PublicSchema(said.columns, shapes=shapes, **known)
    if onnx is not None:
        models.check_graph_of(encoder, estimator)
    if spool is None:
        X, y, of_groups = _rows_of(file, task, encoder, options["random_state"])
        if getattr(estimator, "neighbours", None) != "replace-any":
            task.check_gaps(of_groups)
        model = Pipeline([("schema", encoder), ("model", estimator)])
        fit_model = partial(model.fit, X, y, model__groups=of_groups)
    else:
        source = PartsOfFile(file, task, encoder, spool)
        source.check_cells()  # before there is a ledger, as in memory
        model = Pipeline([("schema", source.schema), ("model", estimator)])
        fit_model = partial(estimator.fit, source)
    book = models.ledger_around(ledger, options)
    with book or nullcontext(), shown_progress(estimator, sys.stderr):
        fit_model()
    with paid_for("fit"):
        models.save_model(model, output)  # outside of the ledger, whose place would be kept with it
        if onnx is not None:
            models.save_graph(model, onnx)
    tell(f"{models.statement_of(model)}\nModel: {output}")
    if onnx is not None:
        tell(f"Graph: {onnx}{models.CLEAN_CELLS if encoder.cells is not None else ''}")
    if book is not None:
        tell(models.spent_of(book))


def _rows_of(file: TableFile, task: Task, encoder: PublicSchema, seed: Any) -> Any:
    """Return features, targets and groups, as many of a person as may be."""
    from sklearn_dpwg.preprocessing import bound_rows_per_person

    whose = [] if encoder.person is None else [encoder.person]
    columns = file.read([*encoder.columns, *task.group_columns, task.needed_target(), *whose])
    faults = file.faults()
    groups, y = task.groups(columns, faults), task.targets(columns, faults)
    X = cells.checked_features(columns, encoder, faults)
    persons = [cells.people(columns[one], one, encoder.cells, faults) for one in whose]
    faults.refuse()
    cells.say_what_is_other(X, encoder)
    if not persons:
        return X, y, groups
    k = encoder.rows_per_person
    kept = bound_rows_per_person(X, y, groups, person=persons[0], k=k, random_state=seed)
    # of all rows, those left out too, the number is about people: it is neither public nor needed
    cells.say_to_those_who_see(f"{len(kept.kept):,} of {len(X):,} rows are learned from.")
    return kept.X, kept.y, kept.groups


def _whose(person: str | None, said: SchemaFile, options: dict[str, Any]) -> list[str]:
    """Return the column that says whose row each is, and take its rows where none are said."""
    if person is None:
        person = said.person
    if person is not None and options["rows_per_person"] is None:
        options["rows_per_person"] = said.rows_per_person if person == said.person else 1
    return [] if person is None else [person]


def _check_whose(whose: list[str], wanted: Mapping[str, Iterable[str]], *, in_parts: bool) -> None:
    if any({*whose} & {*names} for names in wanted.values()):
        raise WrongInput(f"person must be a column of its own, got {whose[0]!r}.")
    if whose and in_parts:
        raise WrongInput("person must be left out with --spool, which reads a file in parts.")


# Options of a plan that are about an audit.
OF_AUDIT = ("base_rate", "no_outcomes", "by_attribute")


@click.command(short_help="Preview a fit, or an audit, from public facts.")
@schema_option
@click.option(
    "--group-sizes",
    required=True,
    metavar="A=100,B=50",
    help="Number of records in each group; without names in the order of the labels.",
)
@number_option("--n-features", "Columns of X, where there is no schema.", int)
@click.option("--audit", is_flag=True, help="Preview an audit: the widths of its intervals.")
@number_option("--base-rate", "Of an audit: a guess of the share of yes.")
@click.option(
    "--by-attribute",
    is_flag=True,
    default=None,
    help="Of an audit of cells of several columns: widths for each value of each column.",
)
@no_outcomes_option
@shapes_option
@groups_options
@target_options
@target_bounds_option
@budget_options
@estimator_options
@threshold_options
def plan(
    schema: Path | None,
    group_sizes: str,
    n_features: int | None,
    audit: bool,
    shapes: str,
    **options: Any,
) -> None:
    """Preview a fit from public facts, without records: noise, steps, bound, guarantee.

    With --audit, what an audit would cost, and how wide its intervals would be.
    """
    from sklearn_dpwg.preprocessing import PublicSchema

    file = None if schema is None else read_schema(schema)
    task = make_task(file, options)
    sizes: Any = task.sizes(group_sizes)
    asked = {name: options.pop(name) for name in OF_AUDIT}
    asked = {name: value for name, value in asked.items() if value not in (None, ())}
    for name in asked:
        if not audit:
            raise WrongInput(f"{name} is for a plan of an audit: say --audit too.")
    if audit:
        tell(_audit_plan(task, sizes, asked, options))
        return
    if (file is None) == (n_features is None):
        raise WrongInput(
            "plan must be told how many columns a row has: by --schema, or else by --n-features."
        )
    if file is not None:
        if options["rows_per_person"] is None and file.person is not None:
            options["rows_per_person"] = file.rows_per_person
        n_features = len(
            PublicSchema(file.columns, shapes=shapes, **file.of_schema).get_feature_names_out()
        )
    estimator = make_estimator(task, options)
    overlaps = getattr(estimator, "overlap", "cells") != "cells"
    if overlaps:
        sizes = task.cell_sizes(sizes)
    planned = estimator.plan(group_sizes=sizes, n_features=n_features)
    of_model = planned
    if hasattr(estimator, "miss_cost"):  # a threshold on a model that has its part of the budget
        of_model = planned.model
    tell(models.of_command(f"{planned}{models.said_of_gaps(task.missing_label)}"))
    if not overlaps:
        _warn_as_fit(of_model, task, sizes)


def _warn_as_fit(plan: Plan, task: Task, sizes: Any) -> None:
    """Say what a fit would say of a plan that promises too little."""
    from sklearn_dpwg.data.groups import labelled_sizes
    from sklearn_dpwg.estimators.planning import warn_of_plan

    labels, given = labelled_sizes(sizes, None, task.group_labels, may_be_unnamed=True)
    if labels is None:  # each is called by its place
        labels = np.arange(1, len(given) + 1).astype(object)
    warn_of_plan(plan, labels)


def _audit_plan(task: Task, sizes: Any, asked: dict[str, Any], options: dict[str, Any]) -> str:
    """Return the preview of an audit."""
    from sklearn_dpwg.inspection import GroupAudit

    given = {name: value for name, value in options.items() if value is not None}
    given = {name: value for name, value in given.items() if name not in OF_TASK}
    others = [name for name in given if name not in ("epsilon", "delta")]
    if others:
        raise WrongInput(f"{others[0]} is for a plan of a fit, and --audit asks for another one.")
    labels = task.group_labels
    if labels is None:
        labels = tuple(sizes) if isinstance(sizes, dict) else None
    known = {"group_sizes": sizes, "outcomes": not asked.pop("no_outcomes", False)}
    base = {name: asked.pop(name) for name in ("base_rate", "by_attribute") if name in asked}
    if "by_attribute" in base and len(task.group_columns) > 1:
        given["group_by"] = list(task.group_columns)
    return str(GroupAudit(group_labels=labels, **given).plan(**known, **base))


@click.command(short_help="Predict for each row of a table.")
@click.argument("model", type=FILE)
@table_argument
@click.option("--output", "-o", type=FILE, required=True, help="CSV or Parquet file to write.")
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="Column of TABLE to copy, as an id. Repeatable."
)
@number_option(
    "--threshold",
    "Least probability to predict the last of two classes: that of `fit --share`, or else a "
    "half, if nothing is said.",
)
@table_options
@overwrite_option
def predict(
    model: Path,
    table: Path,
    output: Path,
    keep: tuple[str, ...],
    threshold: float | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Predict for each row of TABLE by a MODEL that `fit` wrote.

    The output has a column "prediction" and, of a classifier that has them, one of probabilities a
    class. Predictions for a person are about that person's row: they belong to whoever may see it.

    Where few are positive, hardly anybody has a probability of one half: say to `fit` which --share
    to choose, or choose a public --threshold beforehand, which takes the place of one that was
    paid for. How many rows are chosen is said at a terminal alone.
    """
    models.check_suffix(output)
    check_outputs([output], [model, table], overwrite=overwrite)
    fitted = models.load_model(model)
    file = TableFile.of(table, options, fitted[0].file)
    found = models.predictions(fitted, file, str(model), keep, threshold)
    models.write_table(found, output)
    counted, by = models.chosen(fitted, found, threshold)
    cells.say_to_those_who_see(counted)
    tell(f"{output}: predictions{by}.")


@click.command(short_help="Print again what a model promises, or what a ledger holds.")
@click.argument("file", type=FILE)
def show(file: Path) -> None:
    """Print what `fit` printed of a model, or what a ledger holds: all that was spent, and on what.

    Both may be published. No record is read, nothing is spent, and FILE stays as it is.
    `show FILE > guarantee.txt` makes a file of it.
    """
    if models.is_ledger(file):
        tell(models.entries_of(file))
    else:
        tell(models.statement_of(models.load_model(file)))


@click.command(short_help="Write a schema file to fill in; no value is read.")
@table_argument
@click.option("--output", "-o", type=FILE, required=True, help="Schema file (TOML) to write.")
@groups_options
@click.option("--target", metavar="COLUMN", help="Column to predict.")
@click.option("--person", metavar="COLUMN", help="Column that says whose row each is.")
@click.option(
    "--dictionary",
    is_flag=True,
    help="TABLE is a data dictionary: a row a column with its name and type, and low, high or "
    "levels (A|B) where it says them.",
)
@click.option(
    "--draft",
    is_flag=True,
    help="Read kinds, ranges, levels, units and marks from the records. They are NOT PUBLIC then, "
    "and no command takes the file before a person has replaced them.",
)
@table_options
@overwrite_option
def schema(
    table: Path,
    output: Path,
    dictionary: bool,
    draft: bool,
    overwrite: bool,
    **options: Any,
) -> None:
    """Write a schema file to fill in, from the header and the types of TABLE.

    No value is read: what a person fills in is what they know without the records, from a code
    book, a form or a law. A CSV file has no types, so that its columns start as categories; a
    Parquet file has some. Columns that --groups, --target and --person name get tables of their
    own.
    """
    from sklearn_dpwg.preprocessing import schema_draft
    from sklearn_dpwg.preprocessing.schema_files import (
        UNREAD,
        declared_kinds,
        read_dictionary,
        template,
    )

    file = TableFile.of(table, options)
    check_outputs([output], [table], overwrite=overwrite)
    groups, target, person = options["groups"], options["target"], options["person"]
    task = [*groups, *(name for name in (target, person) if name is not None)]
    if not dictionary:
        of_each = {"--groups": groups, "--target": (target,), "--person": (person,)}
        file.require({who: [one for one in names if one] for who, names in of_each.items()})
    marks: dict[str, Any] = {}
    labels: Any = make_task(None, options).group_labels
    if draft:
        if dictionary:
            raise WrongInput("draft must be left out with --dictionary, or the other way round.")
        drafted = schema_draft.draft(_whole(file))
        kinds, facts, marks = drafted
        labels = schema_draft.levels_of_cells(drafted, groups) if labels is None else labels
    elif dictionary:
        try:
            described = _whole(file)
        except WrongInput as error:
            raise WrongInput(f"{error.message} {DICTIONARY}") from None
        kinds, facts = read_dictionary(described)
        for name in task:
            if name not in kinds:
                raise WrongInput(f"{table} has no row of {unknown_name(name, list(kinds))}")
    else:
        kinds, facts = dict(declared_kinds(file.empty_frame())), {}
    written = {name: options[name] for name in ("delimiter", "encoding", "sheet")}
    written = {name: value for name, value in written.items() if value is not None}
    named = {"groups": groups, "target": target, "person": person, "file": written}
    opening = schema_draft.HEADER if draft else UNREAD
    text = template(kinds, facts, **named, group_labels=labels, cells=marks, opening=opening)
    write_text(output, text)
    n_columns = len(set(kinds) - {*task})
    if draft:
        tell(f"{output}: {n_columns} column(s) to review.")
        click.echo(
            "NOT PUBLIC: ranges, levels and marks were read from the records, and what they tell "
            "of a person is covered by no guarantee. Replace each by what is known without them; "
            "no command takes the file before its line draft = true is deleted.",
            err=True,
        )
        return
    tell(f"{output}: {n_columns} column(s) to describe; no value was read into it.")


DICTIONARY = (
    "A data dictionary is a table, not text in sentences: a header with name and type, and low, "
    "high and levels where they are known, and a row for each column that it describes."
)


def _whole(file: TableFile) -> pd.DataFrame:
    """Return all columns of a file."""
    import pandas as pd

    columns = file.read(file.names)
    return pd.DataFrame({name: each.to_pandas() for name, each in columns.items()})


@click.group(cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks, which may hold values of records.")
@click.version_option(package_name="sklearn-dpwg", prog_name="sklearn_dpwg")
def main(debug: bool) -> None:
    """Private worst-group learning and fairness audits of tables.

    The way: `schema` and an editor, `plan`, `fit`, `show`, `predict`, `audit`, `verdict`.
    Wrong input is answered in one sentence, before any budget is spent. Exit codes: 0 done, 2 wrong
    input, 3 budget refused; of `audit` and `verdict` with --fail-below or --fail-above, 4 fails and
    5 cannot tell.
    """


for _command in (schema, plan, fit, show, predict, audit, verdict):
    main.add_command(_command)
