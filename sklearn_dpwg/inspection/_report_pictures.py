"""Pictures of a report, each with its numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn_dpwg.inspection._cells import RATES
from sklearn_dpwg.inspection._drawing import height_of
from sklearn_dpwg.inspection._labels import texts_of
from sklearn_dpwg.inspection._svg import svg_of
from sklearn_dpwg.inspection._words import interval, number, words_of
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.group_metric_display import GroupMetricDisplay
from sklearn_dpwg.inspection.privacy_profile_display import (
    PrivacyProfileDisplay,
    tradeoff_points,
)
from sklearn_dpwg.inspection.privacy_utility_display import PrivacyUtilityDisplay, worst_value
from sklearn_dpwg.privacy.statement import rounded_up

_HEIGHT = 3.9  # inches of a picture with two axes of numbers
_TABLED = 10  # points of a curve that its table lists


def pictures_of(
    results: Mapping[str, AuditResult], *, metric: str, at_least: float
) -> list[dict[str, Any]]:
    """Return the pictures: a title, a sentence, the SVG, and a table."""
    result = next(iter(results.values()))
    losses = [loss.name for loss in result.losses]
    found = [
        _of_groups(result, name, at_least, prefix=f"p{place}")
        for place, name in enumerate(dict.fromkeys([metric, "selection_rate", *losses]), start=1)
    ]
    found.append(_of_ratios(result, at_least, prefix=f"p{len(found) + 1}"))
    if len(results) > 1 and all(one.model_privacy_ is not None for one in results.values()):
        found.append(_of_models(results, metric, prefix=f"p{len(found) + 1}"))
    found.append(_of_attackers(result, prefix=f"p{len(found) + 1}"))
    return found


def _of_groups(result: AuditResult, metric: str, at_least: float, *, prefix: str) -> dict[str, Any]:
    words = words_of(metric)
    return _picture(
        result,
        GroupMetricDisplay.of(result, metric, ratio=False, at_least=at_least),
        prefix=prefix,
        title=f"{words[:1].upper()}{words[1:]} of each group",
        text="A diamond and the words stand by every group that may be worst. The dashed line is "
        "the rate of all records together.",
    )


def _of_ratios(result: AuditResult, at_least: float, *, prefix: str) -> dict[str, Any]:
    return _picture(
        result,
        GroupMetricDisplay.of(result, "selection_rate", ratio=True, at_least=at_least),
        prefix=prefix,
        title="Impact ratio of each group",
        text=f"A group passes where its whole interval is right of {at_least:g}, and fails where "
        f"it is left of it.",
    )


def _picture(
    result: AuditResult, display: GroupMetricDisplay, *, prefix: str, title: str, text: str
) -> dict[str, Any]:
    height = height_of(len(result.group_labels))
    svg = svg_of(lambda ax: display.plot(ax, title=""), prefix=prefix, height=height, title=title)
    in_percent = display.rates[0].metric in RATES
    texts = texts_of(result.group_labels)
    rows = []
    for place in display.order:
        rate = display.rates[place]
        estimate = number(rate.estimate, in_percent=in_percent)
        limits = interval(rate.low, rate.high, in_percent=in_percent)
        rows.append([texts[place], estimate, limits, display.answers[place]])
    header = ["group", "estimate", f"{100 * result.confidence:g} % interval", "answer"]
    return {"title": title, "text": text, "svg": svg, "header": header, "rows": rows}


def _of_models(results: Mapping[str, AuditResult], metric: str, *, prefix: str) -> dict[str, Any]:
    names = dict(zip(results, texts_of(results), strict=True))
    display = PrivacyUtilityDisplay.of(results, metric)
    title = f"{words_of(metric).capitalize()} of the worst group, by model"
    rows = []
    for name, result in results.items():
        value, low, high = worst_value(result, metric)
        in_percent = metric in RATES
        shown = number(value, in_percent=in_percent), interval(low, high, in_percent=in_percent)
        model = result.model_privacy_
        epsilon = "" if model is None else rounded_up(model.epsilon)
        rows.append([names[name], epsilon, *shown])
    return {
        "title": title,
        "text": "Further left is more private. The bar is where the worst group's value may lie.",
        "svg": svg_of(
            lambda ax: display.plot(ax, title=""), prefix=prefix, height=_HEIGHT, title=title
        ),
        "header": ["model", "ε of the model", "worst group", "interval"],
        "rows": rows,
    }


def _of_attackers(result: AuditResult, *, prefix: str) -> dict[str, Any]:
    title = "What an attacker can find out about one record"
    display = PrivacyProfileDisplay(result.privacy_)
    alarms, caught = tradeoff_points(result.privacy_)
    step = max(1, len(alarms) // _TABLED)
    rows = [
        [f"{100 * alarm:.1f} %", f"{math.ceil(1000 * found - 1e-9) / 10:.1f} %"]
        for alarm, found in zip(alarms[::step].tolist(), caught[::step].tolist(), strict=True)
    ]
    return {
        "title": title,
        "text": "Who raises a false alarm so often detects a record at most so often; on the "
        "dashed line an attacker only guesses.",
        "svg": svg_of(
            lambda ax: display.plot(ax, title=""), prefix=prefix, height=_HEIGHT, title=title
        ),
        "header": ["false alarms", "detections, at most"],
        "rows": rows,
    }
