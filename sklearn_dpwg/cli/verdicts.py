"""Verdicts of audits as a terminal shows them, and `verdict` and `change` of stored ones."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sklearn_dpwg.cli.options import FILE, as_label, leave_out_option, split_list, which_options
from sklearn_dpwg.cli.tables import CANNOT_TELL, FAILS, WrongInput, tell

if TYPE_CHECKING:
    from sklearn_dpwg.inspection import AuditResult, Verdict
    from sklearn_dpwg.inspection.asked import Asked
    from sklearn_dpwg.inspection.verdicts import GroupRate


by_attribute_option = click.option(
    "--by-attribute",
    is_flag=True,
    help="Of several columns of groups judge the values of each column, not the cells, of which "
    "every combination has to be declared.",
)


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


@click.command(short_help="Say what has changed between two audits.")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option(
    "--metric",
    metavar="NAME",
    help="Rate, or loss: error_rate where it is known; several with commas, or equalized_odds.",
)
@click.option("--same-people", is_flag=True, help="People may be in both, which widens intervals.")
@leave_out_option
def change(
    before: Path, after: Path, metric: str | None, same_people: bool, leave_out: tuple[str, ...]
) -> None:
    """Say what has changed from the audit BEFORE to AFTER, which `audit --json` wrote.

    Both hold released numbers alone, so that nothing is spent.
    """
    from sklearn_dpwg.inspection.verdicts import in_lines, metrics_of

    earlier, later = map(_stored, (before, after))
    out = [label_of(one, later.group_labels) for one in leave_out]
    asked: dict[str, Any] = {"same_people": same_people, "leave_out": out}
    metrics = [None] if metric is None else metrics_of(split_list(metric, "metric"))
    found = [later.change_since(earlier, one, **asked) for one in metrics]
    parts = ["\n".join([one.sentence, "", *in_lines({"change": one.groups})]) for one in found]
    if len(found) > 1:
        parts.append(
            f"Each of these {len(found)} answers is right with probability "
            f"{found[0].worst.confidence:g} by itself; that all are is less sure."
        )
    tell("\n\n".join(parts))


def _stored(path: Path) -> AuditResult:
    from sklearn_dpwg.exceptions import StoredFormatError
    from sklearn_dpwg.inspection import AuditResult

    try:
        return AuditResult.from_json(path.read_text(encoding="utf-8"))
    except StoredFormatError:
        raise
    except (OSError, ValueError):
        raise WrongInput(f"{path} must be a file that `audit --json` wrote.") from None


def checked_question(
    metric: str | None, fail_below: float | None, fail_above: float | None
) -> tuple[Any, dict[str, Any]]:
    """Return the rates and the limit that a verdict is asked for; refuse one about nothing."""
    from sklearn_dpwg.inspection.verdicts import JOINT, RATES

    names = ["selection_rate"] if metric is None else split_list(metric, "metric")
    for name in names:
        if name not in (*RATES, *JOINT):
            raise WrongInput(f"metric must be one of {', '.join([*RATES, *JOINT])}, got {name!r}.")
    if fail_below is not None and fail_above is not None:
        raise WrongInput("fail_above must be left out where --fail-below is said.")
    if fail_below is not None and not 0.0 < fail_below <= 1.0:
        raise WrongInput(f"fail_below must be above 0 and at most 1, got {fail_below!r}.")
    if fail_above is not None and not 0.0 < fail_above < 1.0:
        raise WrongInput(f"fail_above must be above 0 and below 1, got {fail_above!r}.")
    given = {"at_least": fail_below, "within": fail_above}
    known = {name: value for name, value in given.items() if value is not None}
    return (names[0] if len(names) == 1 else names), known


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


def label_of(text: str, labels: Sequence[Hashable]) -> Hashable:
    """Return the label that is written so, of several columns with / between."""
    written = as_label(text, isinstance(labels[0], tuple))
    # a stored audit that Python made may have labels that are no text
    known = (one for one in labels if not isinstance(one, tuple | str) and str(one) == written)
    return next(known, written)


def refuse_names_of_cells(options: Mapping[str, Any]) -> None:
    """Refuse cells by name where attributes are judged."""
    if options["leave_out"] or options["reference"] is not None:
        raise WrongInput(
            "--leave-out and --reference name cells, and must be left out with --by-attribute."
        )


# What a terminal shows of a verdict.

NO_OUTCOMES = "Outcomes: none, so that nothing is said of errors; --target COLUMN names them."


def worst_by(metric: str | None, asked: Asked, result: AuditResult) -> str:
    """Return the rate by which groups are worst off: one that was said, or errors in its place."""
    is_said = metric is not None and asked.metric == "selection_rate"
    return "selection_rate" if is_said else asked.worst_by([result])


def summary(result: AuditResult, verdict: Verdict, asked: Asked, metric: str) -> str:
    """Return the verdict, who may be worst off, and the table of groups."""
    worst = result.worst_groups(metric, **asked.which)
    by = worst.metric.replace("_", " ")
    privacy = result.privacy_
    promise = (
        f"epsilon = {privacy.epsilon:.4g} at delta = {privacy.delta:g}, {privacy.relation}"
        f"{'; the unit is a person' if privacy.of_person else ''}"
        if privacy.is_private
        else "none: these statistics are unprotected"
    )
    names = ", ".join(map(_one_line, worst.groups))
    lines = [
        f"Verdict: {verdict.answer}. {_with_names(verdict.sentence, result)}",
        *([_with_names(verdict.would_tell, result)] if verdict.would_tell else []),
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
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]


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
