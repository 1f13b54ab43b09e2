"""The command `audit`, and `verdict` for what it stored."""

from __future__ import annotations

import math
import shlex
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from sklearn_dpwg._checks import as_text
from sklearn_dpwg.cli import models
from sklearn_dpwg.cli.cells import Faults, checked_features, numbers, people, words
from sklearn_dpwg.cli.options import (
    FILE,
    Task,
    budget_options,
    by_attribute_option,
    checked_question,
    groups_options,
    label_of,
    ledger_options,
    make_task,
    missing_label_option,
    no_outcomes_option,
    number_option,
    overwrite_option,
    random_state_option,
    read_schema,
    schema_option,
    split_list,
    table_argument,
    table_options,
    target_options,
    which_options,
)
from sklearn_dpwg.cli.tables import (
    CANNOT_TELL,
    FAILS,
    TableFile,
    WrongInput,
    check_outputs,
    paid_for,
    tell,
    write_text,
)

if TYPE_CHECKING:
    from sklearn_dpwg.inspection import AuditResult, GroupAudit, Verdict
    from sklearn_dpwg.inspection.asked import Asked
    from sklearn_dpwg.inspection.verdicts import GroupRate
    from sklearn_dpwg.preprocessing.schema_files import SchemaFile


@click.command(short_help="Audit decisions by group: verdict, page, JSON.")
@table_argument
@click.option("--scores", metavar="COLUMN", help="Column of probabilities of the class looked for.")
@click.option("--predictions", metavar="COLUMN", help="Column of decisions: one of the classes.")
@click.option(
    "--model",
    type=FILE,
    help="Model that `fit` wrote, to make the scores: its probabilities p of its second class, or "
    "1 - p where the class looked for is the other.",
)
@click.option(
    "--same-records/--held-out",
    default=None,
    help="Whether the model was fitted to these very records, so that both costs add up.",
)
@schema_option
@groups_options
@missing_label_option
@target_options
@no_outcomes_option
@click.option(
    "--positive",
    metavar="CLASS",
    help="The class looked for, which counts as selected: the last of the two by default.",
)
@budget_options
@number_option("--threshold", "Public threshold from which on a score selects: 0.5 by default.")
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
@number_option("--confidence", "Of every interval: 0.95 by default.")
@which_options
@by_attribute_option
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
    metric: str | None,
    fail_below: float | None,
    fail_above: float | None,
    by_attribute: bool,
    output: Path | None,
    json_file: Path | None,
    markdown: Path | None,
    title: str | None,
    notes: tuple[str, ...],
    overwrite: bool,
    **options: Any,
) -> None:
    """Audit decisions about the people in TABLE, privately, and print the verdict.

    Decisions are a column (--scores or --predictions) or those of a --model; outcomes are the
    target, and without one decisions alone are audited. What is released is a noisy count of each
    group, outcome and decision, once; rates, ratios and their intervals follow from it. Whatever is
    wrong is refused before any budget is spent.
    """
    from sklearn_dpwg.inspection import AuditReport
    from sklearn_dpwg.inspection.shape_display import effects_of

    written = [path for path in (output, json_file, markdown) if path is not None]
    read = [path for path in (table, schema, model, options["ledger"]) if path is not None]
    check_outputs(written, read, overwrite=overwrite)
    question = checked_question(metric, fail_below, fail_above)
    for name in ("jinja2", "matplotlib") if output is not None else ():
        import_module(name)  # found missing now, and not once the budget is spent
    facts = None if schema is None else read_schema(schema)
    sources = sources_of(table, facts, scores, predictions, model, same_records, options)
    if sources.targets is None:
        check_of_decisions(question[0])
    planned = audit_of(sources, options)
    # before anything is spent, as it may fail
    shown = (
        None
        if output is None and markdown is None
        else effects_of(models.without_threshold(sources.model), sources.classes[1])
    )
    own = models.own_thresholds(sources.model, options["threshold"])
    # one question for what is printed, the page and the exit code
    asked = asked_of(question, sources.task.needed_labels(), options)
    if by_attribute:
        check_attributes(sources.task, options)
    book = models.ledger_around(options["ledger"], options)
    with book or nullcontext():
        same = sources.fitted_to_them
        result = planned.run(sources.targets, sources.scores, sources.groups, same_records_as=same)
    command = shlex.join(["dpwg", *without_seed(ctx.meta["arguments"])])
    about = [models.said_of_gaps(sources.task.missing_label).strip(), sources.of_people]
    notes += tuple(filter(None, about))
    said: dict[str, Any] = {"title": title, "notes": notes, "command": command, "model": shown}
    judged: dict[str, Any] = {"at_least": asked.at_least, "which": asked.which}
    judged |= {"verdict_metric": question[0], "by_attribute": by_attribute}
    judged |= {"metric": worst_by(metric, asked, result)}
    report = AuditReport(result, **said, **judged, decided_by=sources.model if own else None)
    results = result.by_attribute() if by_attribute else {"": result}
    found = {name: asked.verdict(one) for name, one in results.items()}
    makers = ((output, report.html), (json_file, result.to_json), (markdown, report.markdown))
    for path, text in makers:
        if path is not None:
            with paid_for("audit"):
                write_text(path, text())
    tell_each(results, found, asked, judged["metric"])
    if own is not None:
        tell(own.covered(sources.classes[1]))
    for one in filter(None, about):
        tell(one)
    for path in written:
        tell(f"Written: {path}")
    if book is not None:
        tell(models.spent_of(book))
    exit_as(ctx, *found.values())


@click.command(short_help="Judge a stored audit by another question.")
@click.argument("audit", type=FILE)
@which_options
@by_attribute_option
@click.pass_context
def verdict(ctx: click.Context, /, audit: Path, by_attribute: bool, **options: Any) -> None:
    """Print the verdict of an AUDIT, which `audit --json` wrote, by another question.

    The file holds released numbers alone, so that nothing is spent.
    """
    result = _stored(audit)
    question = checked_question(options["metric"], options["fail_below"], options["fail_above"])
    asked = asked_of(question, result.group_labels, options)
    if by_attribute:
        refuse_names_of_cells(options)
    results = result.by_attribute() if by_attribute else {"": result}
    found = {name: asked.verdict(one) for name, one in results.items()}
    tell_each(results, found, asked, worst_by(options["metric"], asked, result))
    exit_as(ctx, *found.values())


def tell_each(
    results: Mapping[str, AuditResult], found: Mapping[str, Verdict], asked: Asked, metric: str
) -> None:
    """Print what each verdict is about, by attribute where there are several."""
    for name, one in results.items():
        heading = f"By {name}:\n" if name else ""
        tell(heading + summary(one, found[name], asked, metric))


def exit_as(ctx: click.Context, *verdicts: Verdict) -> None:
    """Exit with the code of the worst answer, if a limit of one's own was said."""
    if ctx.params["fail_below"] is not None or ctx.params["fail_above"] is not None:
        answers = {one.answer for one in verdicts}
        answer = next(one for one in ("fails", "cannot tell", "passes") if one in answers)
        ctx.exit({"passes": 0, "fails": FAILS, "cannot tell": CANNOT_TELL}[answer])


def _stored(path: Path) -> AuditResult:
    from sklearn_dpwg.inspection import AuditResult

    try:
        return AuditResult.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise WrongInput(f"{path} must be a file that `audit --json` wrote.") from None


# Parameters of GroupAudit that are options of the same name.
PARAMETERS = ("epsilon", "delta", "threshold", "sizes", "mechanism", "confidence", "random_state")


@dataclass(frozen=True)
class Sources:
    """Targets, scores, groups and model, and again the model if it was fitted to these records.

    Targets are None where there are no outcomes.
    """

    task: Task
    classes: tuple[str, str]
    targets: Any
    scores: Any
    groups: Any
    fitted_to_them: Any = None
    of_people: str = ""  # what is said of rows of the same person
    model: Any = None


def check_of_decisions(metrics: str | Sequence[str]) -> None:
    """Refuse a rate that is about outcomes."""
    from sklearn_dpwg.inspection.verdicts import OF_DECISIONS

    for name in (metrics,) if isinstance(metrics, str) else metrics:
        if name not in OF_DECISIONS:
            raise WrongInput(
                f"metric must be {OF_DECISIONS[0]} where no outcomes are named by --target COLUMN, "
                f"got {name!r}."
            )


def asked_of(
    question: tuple[Any, dict[str, Any]], labels: Sequence[Hashable], options: Mapping[str, Any]
) -> Asked:
    """Return what is asked, about those groups that the options say."""
    from sklearn_dpwg.inspection.asked import Asked
    from sklearn_dpwg.inspection.audit_rows import left_out_by_name

    reference, (metrics, given) = options["reference"], question
    which: dict[str, Any] = {
        "leave_out": tuple(label_of(one, labels) for one in options["leave_out"]),
        "min_share": options["min_share"],
        "reference": None if reference is None else label_of(reference, labels),
    }
    left_out_by_name(labels, **which)
    within = {name: value for name, value in given.items() if name == "within"}
    return Asked(metrics, given.get("at_least"), {**which, "of": options["of"], **within})


def refuse_names_of_cells(options: Mapping[str, Any]) -> None:
    """Refuse cells by name where attributes are judged."""
    if options["leave_out"] or options["reference"] is not None:
        raise WrongInput(
            "--leave-out and --reference name cells, and must be left out with --by-attribute."
        )


def check_attributes(task: Task, options: Mapping[str, Any]) -> None:
    """Refuse, before anything is spent, what cannot be told by each column of groups."""
    from sklearn_dpwg.inspection.attributes import cells_by_value

    refuse_names_of_cells(options)
    for place, name in enumerate(task.group_columns if len(task.group_columns) > 1 else ()):
        cells_by_value(task.needed_labels(), place, name)


def without_seed(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command as a report may quote them: with its seed noise is no noise."""
    option, hidden = "--random-state", "SEED"
    shown = [f"{option}={hidden}" if one.startswith(f"{option}=") else one for one in arguments]
    before = ["", *shown[:-1]]
    return [hidden if one == option else each for one, each in zip(before, shown, strict=True)]


def sources_of(
    path: Path,
    schema: SchemaFile | None,
    scores: str | None,
    predictions: str | None,
    model: Path | None,
    same_records: bool | None,
    options: Mapping[str, Any],
) -> Sources:
    """Read the records, or say what is wrong with them."""
    if [scores, predictions, model].count(None) != 2:
        raise WrongInput(
            "audit needs decisions, from one of --scores COLUMN, --predictions COLUMN and --model "
            "FILE."
        )
    if (model is None) != (same_records is None):
        raise WrongInput(
            "of a --model, and of nothing else, it must be said whether it was fitted to these "
            "very records, so that both costs add up, --same-records, or was not, --held-out."
        )
    fitted = None if model is None else models.load_model(model)
    known = dict((None if fitted is None else fitted[0].file) or {})
    known |= {} if schema is None else schema.file
    table = TableFile.of(path, options, known)
    task = _task(schema, fitted, options)
    target = [] if task.target is None else [task.target]
    wanted = task.wanted(has_target=bool(target))
    classes = _two_classes(task, options["positive"])
    kinds = {} if fitted is None else models.schema_of(fitted).columns
    decided = [name for name in (scores, predictions) if name is not None]
    of_decisions = "--scores" if scores is not None else "--predictions"
    table.require({**wanted, str(model): kinds, of_decisions: decided})
    if task.target in decided:
        raise WrongInput(
            f"target must be another column than that of {of_decisions}, got {decided[0]!r} for "
            f"both: leave {of_decisions} out for --model, or say --no-outcomes."
        )
    whose = _person(schema, fitted, table)
    of_model = None if fitted is None else models.schema_of(fitted).person
    if same_records and whose and of_model is not None and whose != [of_model]:
        raise WrongInput(
            f"the model is stated for a person by {of_model!r}, and {whose[0]!r} says whose row "
            "each is here: what both cost one person together is not known."
        )
    columns = table.read([*kinds, *decided, *task.group_columns, *target, *whose])
    faults = table.faults()
    groups = task.groups(columns, faults)
    targets = task.targets(columns, faults) if target else None
    persons = [people(columns[one], one, task.cells, faults) for one in whose]
    if fitted is None:
        found = _decisions(columns, scores, predictions, classes, faults, task)
        faults.refuse()
    else:
        X = checked_features(columns, models.schema_of(fitted), faults)
        faults.refuse()
        found = models.scores_of(fitted, X, classes, options)
    same = fitted if same_records else None
    sources = Sources(task, classes, targets, found, groups, same, model=fitted)
    return sources if not persons else _one_row_each(sources, persons[0])


def _person(schema: SchemaFile | None, fitted: Any, table: TableFile) -> list[str]:
    """Return the column that says whose row each is, if a schema, or the model's, names one."""
    if schema is None:
        known = None if fitted is None else models.schema_of(fitted).person
        return [known] if known in table.names else []  # others may have one row each
    whose = [] if schema.person is None else [schema.person]
    table.require({schema.path: whose})
    return whose


def _one_row_each(sources: Sources, people: Any) -> Sources:
    """Return one row of each person, by coins: an audit counts people."""
    from sklearn_dpwg.preprocessing import bound_rows_per_person

    kept = bound_rows_per_person(
        sources.scores, sources.targets, sources.groups, person=people, k=1
    )
    said = f"People: one row of each, {len(kept.kept):,}, chosen by coins."
    return replace(sources, scores=kept.X, targets=kept.y, groups=kept.groups, of_people=said)


def audit_of(sources: Sources, options: Mapping[str, Any]) -> GroupAudit:
    """Return the audit that the options ask for."""
    from sklearn_dpwg.inspection import GroupAudit

    given = {name: options[name] for name in PARAMETERS if options[name] is not None}
    if options["losses"] is not None:
        given["losses"] = tuple(split_list(options["losses"], "losses"))
    if options["score_edges"] is not None:
        given["score_edges"] = _edges(options["score_edges"])
    if sources.of_people:
        given["rows_per_person"] = 1
    labels = sources.task.needed_labels()
    return GroupAudit(group_labels=labels, classes=sources.classes, **given)


# What a terminal shows of a verdict.

NO_OUTCOMES = "Outcomes: none, so that nothing is said of errors; --target COLUMN names them."


def worst_by(metric: str | None, asked: Asked, result: AuditResult) -> str:
    """Return the rate by which groups are worst off: one that was said, or errors in its place."""
    is_said = metric is not None and asked.metric == "selection_rate"
    return "selection_rate" if is_said else asked.worst_by([result])


def summary(result: AuditResult, verdict: Verdict, asked: Asked, metric: str) -> str:
    """Return the verdict, who may be worst off, and the table of groups."""
    from sklearn_dpwg.privacy.statement import rounded_up

    worst = result.worst_groups(metric, **asked.which)
    by = worst.metric.replace("_", " ")
    privacy = result.privacy_
    promise = (
        f"epsilon = {rounded_up(privacy.epsilon)} at delta = {privacy.delta:g}, "
        f"{privacy.relation}"
        f"{'; the unit is a person' if privacy.of_person else ''}"
        if privacy.is_private
        else "none: these statistics are unprotected"
    )
    names = ", ".join(map(_one_line, worst.groups))
    lines = [
        f"Verdict: {verdict.answer}. {_with_names(verdict.sentence, result)}",
        *filter(None, [_with_names(verdict.would_tell, result)]),
        f"Selected: whoever is decided {result.classes[1]!r}, not {result.classes[0]!r}.",
        *([] if result.has_outcomes else [NO_OUTCOMES]),
        f"Worst off by {by} may be: {names}; its {by} is from {worst.low:.3f} to {worst.high:.3f}."
        if names
        else f"Worst off by {by} may be nobody who is judged.",
        "",
        *_table(result, asked),
        "",
        f"Privacy: {promise}.",
    ]
    return "\n".join(lines)


def _table(result: AuditResult, asked: Asked) -> list[str]:
    """Return a line a group: its size and rates, each with its interval, and its own answer."""
    limit, within, rates = asked.margin.bounds[0], not asked.margin.is_ratio, {}
    answers, gap = asked.answers(result), "points apart" if asked.both_ways else "points behind"
    for metric, contrasts in zip(asked.metrics, asked.contrasts(result).values(), strict=True):
        name = metric.replace("_", " ")
        rates[name] = result.rates(metric, of=asked.of)
        of_which = "" if len(asked.metrics) == 1 else f" {'in' if within else 'of'} {name}"
        rates[f"{gap if within else 'impact ratio'}{of_which}"] = contrasts
    if "error_rate" in result.METRICS:
        rates["error rate"] = result.rates("error_rate", of=asked.of)
    columns = [
        ["group", *map(_one_line, result.group_labels)],
        ["people", *(f"{size.low:,.0f} to {size.high:,.0f}" for size in result.group_sizes())],
        *([title, *map(_cell, found, answers)] for title, found in rates.items()),
        [f"{limit} points" if within else limit, *answers],
    ]
    widths = [max(map(len, column)) for column in columns]
    rows = (zip(row, widths, strict=True) for row in zip(*columns, strict=True))
    return ["  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in rows]


def _cell(rate: GroupRate, answer: str) -> str:
    """Return a number with its limits, or that nobody knows it."""
    is_difference = rate.metric.endswith(" difference")
    if answer == "reference" and (is_difference or rate.metric.endswith(" ratio")):
        return answer
    if math.isnan(rate.estimate):
        return "unknown"
    if is_difference:
        return f"{100 * rate.estimate:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
    return f"{rate.estimate:.3f} [{rate.low:.3f}, {rate.high:.3f}]"


def _with_names(text: str, result: AuditResult) -> str:
    """Return a sentence with labels of several columns as the table writes them."""
    for label in result.group_labels:
        if isinstance(label, tuple):
            text = text.replace(str(label), _one_line(label))
    return text


def _one_line(label: Any) -> str:
    """Return a label as a terminal may show it: in one line, without characters that act."""
    text = "/".join(map(str, label)) if isinstance(label, tuple) else str(label)
    return "".join(each if each.isprintable() else "?" for each in text)


def _task(schema: SchemaFile | None, fitted: Any, options: Mapping[str, Any]) -> Task:
    """Return the public facts; classes that nobody says are those of the model."""
    task = make_task(schema, options)
    if options["no_outcomes"]:
        if options["target"] is not None:
            raise WrongInput("target must be left out where --no-outcomes is said.")
        task = replace(task, target=None)
    if fitted is not None and schema is None:
        task = replace(task, cells=models.schema_of(fitted).cells)
    if fitted is None or not hasattr(fitted, "classes_"):
        return task
    of_model = tuple(models.classes_of(fitted))
    if task.classes is not None and set(task.classes) != set(of_model):
        raise WrongInput(f"classes must be those of the model, {of_model!r}, got {task.classes!r}.")
    return replace(task, classes=task.classes or of_model, target_bounds=None)


def _two_classes(task: Task, positive: str | None) -> tuple[str, str]:
    """Return the negative and the positive class, which is the last one or as it is said."""
    if task.target_bounds is not None or task.classes is None:
        raise WrongInput(
            "classes must be declared, as an audit is about two of them: say --classes no,yes, or "
            "classes under [target] in the schema."
        )
    if len(task.classes) != 2:
        raise WrongInput(f"classes must be two for an audit, got {task.classes!r}.")
    first, last = task.classes
    if positive is None or as_text(positive) == last:
        return first, last
    if as_text(positive) != first:
        raise WrongInput(f"positive must be one of the classes {task.classes!r}, got {positive!r}.")
    return last, first


def _decisions(
    columns: Mapping[str, Any],
    scores: str | None,
    predictions: str | None,
    classes: Sequence[str],
    faults: Faults,
    task: Task,
) -> np.ndarray:
    """Return scores from a column, or decisions as the classes, by the words of the target."""
    if scores is not None:
        return numbers(columns[scores], f"{scores!r} (scores)", faults, (0.0, 1.0))
    assert predictions is not None
    said = f"{predictions!r} (predictions)"
    read = task.reader(task.outcome, classes)
    return words(columns[predictions], said, faults, classes, read=read)[0]


def _edges(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in split_list(text, "score_edges"))
    except ValueError:
        raise WrongInput(f"score_edges must be numbers with commas, got {text!r}.") from None
