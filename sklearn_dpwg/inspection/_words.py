"""Words and numbers of audits that people read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn_dpwg.inspection._cells import RATES
from sklearn_dpwg.inspection._labels import in_sentence, text_of, visible_line
from sklearn_dpwg.inspection._verdicts import answer_of
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.group_rate import GroupRate
from sklearn_dpwg.metrics.intervals import Interval

NOT_PRIVATE = "not private"


def words_of(metric: str) -> str:
    """Return the name of a metric as words: "error rate"."""
    if metric.endswith(" ratio"):
        return f"impact ratio of the {words_of(metric.removesuffix(' ratio'))}"
    return metric.replace("_", " ")


def greater_is_worse(metric: str) -> bool:
    """Whether a large value is bad for a group: losses, errors; not scores."""
    return metric != "score" and (metric not in RATES or RATES[metric].greater_is_worse)


def overall_rate(result: AuditResult, metric: str) -> float | None:
    """Return a rate of all groups together, from the same released counts; None for a loss."""
    if metric not in RATES:
        return None
    table = result.cells().sum(axis=0)
    hits = sum(int(table[cell]) for cell in RATES[metric].hits)
    misses = sum(int(table[cell]) for cell in RATES[metric].misses)
    total = hits + misses
    return min(1.0, max(0.0, hits / total)) if total > 0 else None


def number(value: float | None, *, in_percent: bool) -> str:
    """Write a rate in percent, another number with two decimals."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{100 * value:.1f}\u00a0%" if in_percent else f"{value:.2f}"


def interval(low: float | None, high: float | None, *, in_percent: bool) -> str:
    """Write both ends of an interval."""
    if low is None or high is None or not math.isfinite(low + high):
        return "unknown"
    if in_percent:
        return f"{100 * low:.1f} to {100 * high:.1f}\u00a0%"
    return f"{low:.2f} to {high:.2f}"


def answers_of(ratios: Sequence[GroupRate], at_least: float) -> list[str]:
    """Return what `AuditResult.group_verdicts` answers, without what would tell."""
    intervals = [Interval(one.estimate, one.low, one.high, 0.0) for one in ratios]
    return [answer_of(one, at_least) for one in intervals]


def smallest(rates: Sequence[GroupRate]) -> GroupRate:
    """Return the rate with the smallest estimate, of those that have one if any has."""
    return min(rates, key=lambda one: (math.isnan(one.estimate), one.estimate))


def with_short_names(text: str, result: AuditResult) -> str:
    """Return a sentence with the labels in it as short text in which every character shows."""
    for label in sorted(result.group_labels, key=lambda one: -len(str(one))):
        name = in_sentence(text_of(label))
        if len(str(label)) > 1 and name != str(label):
            text = text.replace(str(label), name)
    return visible(text)


def listed(texts: list[str] | tuple[str, ...], conjunction: str = "and", most: int = 6) -> str:
    """Join texts as a sentence does; of many the first ones."""
    if len(texts) > most:
        texts = [*texts[: most - 1], f"{len(texts) - most + 1} others"]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {conjunction} {texts[-1]}"


def visible(text: str) -> str:
    """Return text in which every character shows; lines stay lines."""
    return "\n".join(visible_line(line) for line in str(text).split("\n"))
