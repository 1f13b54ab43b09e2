"""Pictures of a report, each with its numbers as a table."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.drawing import height_of, pyplot
from sklearn_dpwg.inspection.group_displays import GroupMetricDisplay, shown_of
from sklearn_dpwg.inspection.privacy_displays import (
    PrivacyProfileDisplay,
    PrivacyUtilityDisplay,
    points_of,
    tradeoff_points,
)
from sklearn_dpwg.inspection.verdicts import RATES
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Pictures as SVG that stands in a page: small, the same bytes every time, no style of its own.

# Five inches are 360 units: as wide as a phone, so that letters stay legible there.
_INCHES = 5.0
_INK = "#010203"  # nothing else has this colour, so it can be told to follow the page's
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: a fifth of the bytes, and readers can read it
    "svg.hashsalt": "sklearn-dpwg",  # else ids differ from run to run
    "font.size": 12.0,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": True,
}
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_DROPPED = (f"{_SVG}metadata", f"{_SVG}style")
_REFERENCE = re.compile(r"#([\w-]+)")
# What the style of a text says as one word; its family is the page's.
_FONT = re.compile(r"(?P<size>[\d.]+)px (?P<family>.+)")


def svg_of(draw: Callable[[Axes], object], *, prefix: str, height: float, title: str) -> str:
    """Return what a function draws as an svg element whose ids start with a prefix.

    Styles become attributes, so that a page need not allow styles in elements; black becomes the
    colour of the page's letters.
    """
    plt = pyplot("AuditReport")
    from matplotlib.figure import Figure

    written = io.BytesIO()
    with plt.style.context("default"), plt.rc_context(_SETTINGS), warnings.catch_warnings():
        # the browser has its own fonts
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure = Figure(figsize=(_INCHES, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(written.getvalue())
    _tidy(root, prefix)
    label = ElementTree.Element(f"{_SVG}title", {"id": f"{prefix}-title"})
    label.text = title
    root.insert(0, label)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title")
    return _serialised(root)


def _tidy(root: ElementTree.Element, prefix: str) -> None:
    """Drop what is not drawn, make ids unique in the page, and styles attributes."""
    referred = {
        match
        for element in root.iter()
        for value in element.attrib.values()
        for match in _REFERENCE.findall(value)
    }
    for element in list(root.iter()):
        for child in [child for child in element if child.tag in _DROPPED]:
            element.remove(child)
        for name, value in _declarations(element.attrib.pop("style", "")):
            element.set(name, value)
        for name, value in list(element.attrib.items()):
            if name == "id" and value in referred:
                element.set(name, f"{prefix}-{value}")
            elif name == "id" or value.startswith("rotate(-0 "):
                del element.attrib[name]
            elif name.startswith(_XLINK):
                del element.attrib[name]
                element.set(name.removeprefix(_XLINK), f"#{prefix}-{value.removeprefix('#')}")
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{prefix}-"))
            elif value == _INK:
                element.set(name, "currentColor")


def _declarations(style: str) -> list[tuple[str, str]]:
    found = []
    for declaration in filter(None, (part.strip() for part in style.split(";"))):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            match = _FONT.fullmatch(value)
            if match is not None:
                found.append(("font-size", match["size"]))
        else:
            found.append((name, value))
    return found


def _serialised(root: ElementTree.Element) -> str:
    """Write an element without prefixes of names, as HTML wants it."""
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if element.text is not None and not element.text.strip():
            element.text = None
        if element.tail is not None and not element.tail.strip():
            element.tail = None
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


_HEIGHT = 3.9  # inches of a picture with two axes of numbers
_TABLED = 10  # points of a curve that its table lists

# What is drawn, title, sentence, header and rows of its table.
_Picture = tuple[Any, str, str, list[str], list[list[str]]]


def pictures_of(
    results: Mapping[str, AuditResult], *, metric: str, at_least: float
) -> list[dict[str, Any]]:
    """Return the pictures: a title, a sentence, the SVG, and a table."""
    result = next(iter(results.values()))
    metrics = dict.fromkeys([metric, "selection_rate", *(loss.name for loss in result.losses)])
    found = [
        _of_groups(
            result,
            shown_of(result, name, ratio=False, at_least=at_least),
            f"{words.capital(words.of_metric(name))} of each group",
            "A diamond and the words stand by every group that may be worst. The dashed line is "
            "the rate of all records together.",
        )
        for name in metrics
    ]
    found.append(
        _of_groups(
            result,
            shown_of(result, "selection_rate", ratio=True, at_least=at_least),
            "Impact ratio of each group",
            f"A group passes where its whole interval is right of {at_least:g}, and fails where "
            f"it is left of it.",
        )
    )
    if len(results) > 1 and all(one.model_privacy_ is not None for one in results.values()):
        found.append(_of_models(results, metric))
    found.append(_of_attackers(result))
    return [_drawn(f"p{place}", *each) for place, each in enumerate(found, start=1)]


def _drawn(
    prefix: str, display: Any, title: str, text: str, header: list[str], rows: list[list[str]]
) -> dict[str, Any]:
    height = height_of(len(rows)) if isinstance(display, GroupMetricDisplay) else _HEIGHT
    svg = svg_of(lambda ax: display.plot(ax, title=""), prefix=prefix, height=height, title=title)
    return {"title": title, "text": text, "svg": svg, "header": header, "rows": rows}


def _of_groups(result: AuditResult, shown: dict[str, Any], title: str, text: str) -> _Picture:
    display = GroupMetricDisplay(**shown)
    in_percent = display.rates[0].metric in RATES
    texts = words.texts_of(result.group_labels)
    rows = []
    for place in display.order:
        rate = display.rates[place]
        estimate = words.number(rate.estimate, in_percent=in_percent)
        limits = words.interval(rate.low, rate.high, in_percent=in_percent)
        rows.append([texts[place], estimate, limits, display.answers[place]])
    header = ["group", "estimate", f"{100 * result.confidence:g} % interval", "answer"]
    return display, title, text, header, rows


def _of_models(results: Mapping[str, AuditResult], metric: str) -> _Picture:
    display = PrivacyUtilityDisplay(**points_of(results, metric))
    in_percent = metric in RATES
    rows = []
    for name, point in zip(words.texts_of(results), display.points, strict=True):
        value = words.number(point.value, in_percent=in_percent)
        limits = words.interval(point.low, point.high, in_percent=in_percent)
        rows.append([name, rounded_up(point.epsilon), value, limits])
    title = f"{words.of_metric(metric).capitalize()} of the worst group, by model"
    text = "Further left is more private. The bar is where the worst group's value may lie."
    return display, title, text, ["model", "ε of the model", "worst group", "interval"], rows


def _of_attackers(result: AuditResult) -> _Picture:
    alarms, caught = tradeoff_points(result.privacy_)
    step = max(1, len(alarms) // _TABLED)
    rows = [
        [f"{100 * alarm:.1f} %", f"{math.ceil(1000 * found - 1e-9) / 10:.1f} %"]
        for alarm, found in zip(alarms[::step].tolist(), caught[::step].tolist(), strict=True)
    ]
    title = "What an attacker can find out about one record"
    text = (
        "Who raises a false alarm so often detects a record at most so often; on the dashed line "
        "an attacker only guesses."
    )
    header = ["false alarms", "detections, at most"]
    return PrivacyProfileDisplay(result.privacy_), title, text, header, rows
