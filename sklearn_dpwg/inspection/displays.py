"""Pictures of a metric by group, of curves by group, and of what a guarantee leaves an attacker.

Colours can be told apart by everybody, words and shapes say the same, and names are drawn as they
are: a dollar sign starts no formula. A page takes the pictures as SVG.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self
from xml.etree import ElementTree

import numpy as np

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.histogram import GroupRate, Of, greater_is_worse, unit_of
from sklearn_dpwg.inspection.verdicts import Verdict
from sklearn_dpwg.metrics.intervals import Interval
from sklearn_dpwg.privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How a line, a mark or a text is to look.
Look = dict[str, Any]
# Of Okabe and Ito's palette, those with a contrast of 3 on white and on near-black.
BLUE, VERMILION, FAINT = "#0072b2", "#d55e00", "#808080"
DASHED: Look = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
DIAMONDS: Look = {"marker": "D", "color": VERMILION, "linestyle": "none"}
# Inches: a picture as wide as a column of text, whose rows are as high as a line.
WIDTH, _ROW, _MARGINS = 6.4, 0.24, 1.3
# Inches of a small picture, and how many stand beside each other.
_SMALL, _ABREAST = (2.5, 2.2), 4


def pyplot(owner: str) -> Any:
    """Return matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{owner} needs matplotlib, which is not installed: pip install 'sklearn-dpwg[plot]'."
        ) from error
    return plt


def bare(ax: Axes) -> None:
    """Take away what frames the data but says nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="both", color=FAINT, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def percents(axis: Any, unit: str = "%") -> None:
    """Write the numbers of an axis in percent, or in points of it."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.6g} {unit}")


class Display(ABC):
    """A picture of numbers that are known, to be drawn by `plot`."""

    reference: float | None = None

    def plot(self, ax: Axes | None = None, *, title: str | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        title : str, optional
            What to write above.

        Returns
        -------
        Display
            The display itself, with the axes as ``ax_`` and their figure as ``figure_``.
        """
        plt = pyplot(f"{type(self).__name__}.plot")
        if ax is None:
            _, ax = plt.subplots(figsize=(WIDTH, self.height), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        bare(ax)
        usual, xlabel, ylabel = self._draw()
        usual = usual if title is None else title
        pad = 6.0 if self.reference is None else 20.0  # what the dashed line is stands below
        ax.set_title(usual, parse_math=False, loc="left", fontsize="medium", pad=pad)
        ax.set_xlabel(xlabel, parse_math=False)
        ax.set_ylabel(ylabel, parse_math=False)
        return self

    @property
    def height(self) -> float:
        """Inches of a figure of its own."""
        return 3.9

    @abstractmethod
    def _draw(self) -> tuple[str, str, str]:
        """Draw on the axes, and return title and labels of the axes."""


# Shape and word, and colour only with them.
MAY_BE_WORST = "may be worst"
_LOOKS = {
    "": ("o", BLUE),
    MAY_BE_WORST: ("D", VERMILION),
    "passes": ("o", BLUE),
    "fails": ("x", VERMILION),
    "cannot tell": ("s", FAINT),
    "not judged": (".", FAINT),
    "reference": ("o", FAINT),
}


@dataclass(eq=False, repr=False)
class GroupMetricDisplay(Display):
    """A dot a group with the interval around it, and which groups may be the worst.

    Make one by `from_audit`.

    Parameters
    ----------
    rates : sequence of GroupRate
        A rate of each group.
    answers : sequence of str
        A word for each group, "" for none: "may be worst", or what a verdict answers.
    is_private : bool
        Whether the rates were released with noise; if not, the picture says "not private".
    confidence : float
        That of the intervals.
    reference : float, optional
        Where a dashed line goes.
    reference_name : str, default="all records"
        What the line is.
    greater_is_worse : bool, default=True
        Which end is on top: the worst group is.
    most : int, optional
        How many groups are drawn, from the top.

    See Also
    --------
    AuditReport : Such pictures on one page, with what they mean.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay
    >>> rng = np.random.default_rng(0)
    >>> y, groups = rng.integers(2, size=4000), np.where(rng.random(4000) < 0.3, "a", "b")
    >>> audit = GroupAudit(epsilon=1.0, group_labels=["a", "b"])
    >>> display = GroupMetricDisplay.from_audit(audit.run(y, y, groups), metric="selection_rate")
    >>> display.ax_.get_title(loc="left")
    'Selection rate by group, 95 % intervals'
    """

    rates: Sequence[GroupRate]
    _: KW_ONLY
    answers: Sequence[str]
    is_private: bool
    confidence: float
    reference: float | None = None
    reference_name: str = "all records"
    greater_is_worse: bool = True
    most: int | None = None

    @classmethod
    def from_audit(
        cls,
        result: AuditResult,
        metric: str | None = None,
        *,
        ratio: bool = False,
        at_least: float = 0.8,
        ax: Axes | None = None,
        title: str | None = None,
    ) -> Self:
        """Draw what an audit released.

        Parameters
        ----------
        result : AuditResult
            The audit.
        metric : str, optional
            One of `AuditResult.METRICS`; by default the error rate, or the selection rate where no
            outcomes were counted.
        ratio : bool, default=False
            Draw each group's rate over the largest one instead, and whether it passes.
        at_least : float, default=0.8
            What ratios are held against; 0.8 is the four-fifths rule.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        title : str, optional
            What to write above.

        Returns
        -------
        GroupMetricDisplay
            The display, drawn.
        """
        metric = metric or result._shown_by
        if ratio:
            facts = contrasts_shown(result, result.verdict(metric, at_least), at_least)
        else:
            facts = rates_shown(result, metric, result.worst_groups(metric).groups)
        return cls(**facts).plot(ax, title=title)

    @property
    def order(self) -> list[int]:
        """Groups from the top of the picture, the worst first."""
        estimates = np.array([rate.estimate for rate in self.rates])
        sign = -1.0 if self.greater_is_worse else 1.0
        return np.argsort(sign * estimates, kind="stable")[: self.most].tolist()

    @property
    def height(self) -> float:
        """Inches of a figure of its own."""
        return _MARGINS + _ROW * max(len(self.order), 4)

    def _draw(self) -> tuple[str, str, str]:
        ax, order = self.ax_, self.order
        letters = "small" if len(order) <= 12 else "x-small"
        if self.reference is not None:
            ax.axvline(self.reference, zorder=1, **DASHED)
            where: Look = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
            name = self.reference_name
            ax.text(self.reference, 1.005, name, parse_math=False, fontsize="small", **where)
        for answer in dict.fromkeys(self.answers):
            self._draw_answered(answer, letters)
        names = words.texts_of((rate.group for rate in self.rates), words.BESIDE_AN_AXIS)
        shown = [names[place] for place in order]
        ax.set_yticks(range(len(shown)), shown, parse_math=False, fontsize=letters)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        metric = self.rates[0].metric
        if unit_of(metric):
            percents(ax.xaxis, unit_of(metric))
        title = words.capital(f"{words.of_metric(metric)} by group")
        title += f", {100 * self.confidence:g} % intervals"
        title += "" if self.is_private else f" – {words.NOT_PRIVATE}"
        return title, words.of_metric(metric), ""

    def _draw_answered(self, answer: str, letters: str) -> None:
        """Draw the groups about which the answer is this one."""
        ax = self.ax_
        rows = [row for row, place in enumerate(self.order) if self.answers[place] == answer]
        rates = [self.rates[self.order[row]] for row in rows]
        marker, colour = _LOOKS[answer]
        edge = max([1.0, *(rate.high for rate in self.rates if math.isfinite(rate.high))])
        highs = [min(rate.high, edge) for rate in rates]
        ax.hlines(rows, [rate.low for rate in rates], highs, colors=colour, linewidth=2.2)
        dot: Look = {"marker": marker, "color": colour, "markersize": 6.5, "linestyle": "none"}
        if marker == "x":  # a cross has less ink, and a line of its own colour behind it
            dot |= {"markersize": 9.0, "markeredgewidth": 2.4}
        ax.plot([rate.estimate for rate in rates], rows, **dot)
        where: Look = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": letters}
        for row in rows if answer else ():
            ax.text(1.01, row, answer, **where)


def rates_shown(
    result: AuditResult,
    metric: str,
    worst: Sequence[Any] = (),
    *,
    not_judged: Sequence[Any] = (),
    of: Of = "process",
) -> dict[str, Any]:
    """Return what a `GroupMetricDisplay` of a metric is made with."""
    overall = result._overall(metric)
    answers = dict.fromkeys(not_judged, "not judged") | dict.fromkeys(worst, MAY_BE_WORST)
    return {
        "rates": result.rates(metric, of=of),
        "answers": [answers.get(label, "") for label in result.group_labels],
        "is_private": result.is_private,
        "confidence": result.confidence,
        "reference": None if math.isnan(overall) else overall,
        "greater_is_worse": greater_is_worse(metric),
    }


def contrasts_shown(
    result: AuditResult, verdict: Verdict, limit: float, place: int = 0
) -> dict[str, Any]:
    """Return what a `GroupMetricDisplay` of a verdict's contrasts by one metric is made with."""
    rates = [one.contrasts[place] for one in verdict.groups]
    is_ratio = rates[0].metric.endswith("ratio")
    return {
        "rates": rates,
        "answers": [one.answer for one in verdict.groups],
        "is_private": result.is_private,
        "confidence": result.confidence,
        "reference": limit,
        "reference_name": f"{limit:g}" if is_ratio else f"{100 * limit:g} points",
        "greater_is_worse": not is_ratio,
    }


@dataclass(eq=False, repr=False)
class PrivacyProfileDisplay(Display):
    """The trade-off of an attacker.

    Whose guarantee is `privacy_of` a model, or ``privacy_`` of an audit. The trade-off: who looks
    for one record in what was released, and is willing to raise a false alarm so often, detects it
    at most so often. On the dashed line an attacker only guesses.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        The guarantee.

    Attributes
    ----------
    ax_ : matplotlib axes
        What it was drawn on.
    figure_ : matplotlib figure
        The figure of the axes.
    false_alarms_, detections_ : ndarray
        Points of the trade-off.

    Examples
    --------
    >>> from sklearn_dpwg.inspection import PrivacyProfileDisplay
    >>> from sklearn_dpwg.privacy import PrivacyGuarantee, Release
    >>> release = Release("weights", "gaussian", 4.3, max_count=1)
    >>> guarantee = PrivacyGuarantee.from_releases([release], 1e-6)
    >>> display = PrivacyProfileDisplay(guarantee).plot()
    >>> bool((display.detections_ >= display.false_alarms_ - 1e-9).all())
    True
    """

    guarantee: PrivacyGuarantee

    def _draw(self) -> tuple[str, str, str]:
        ax = self.ax_
        self.false_alarms_ = np.linspace(0.0, 1.0, 82) ** 2  # denser where they are few
        self.detections_ = self._detections(self.false_alarms_)
        ax.plot([0, 1], [0, 1], label="only guesses", **DASHED)
        curve: Look = {"color": BLUE, "linewidth": 2.2, "label": "the best attacker"}
        ax.plot(self.false_alarms_, self.detections_, **curve)
        caught = float(self._detections(np.array([0.05]))[0])
        label = f"5 % false alarms: {math.ceil(1000.0 * caught - 1e-9) / 10.0:g} % detected"
        ax.plot([0.05], [caught], label=label, **DIAMONDS)
        percents(ax.xaxis)
        percents(ax.yaxis)
        ax.set(xlim=(0, 1), ylim=(0, 1.02))
        # below the line of guesses there is never a curve
        ax.legend(loc="lower right", fontsize="small", frameon=False)
        title = "What an attacker can find out about one record"
        if not self.guarantee.is_private:
            title = "No privacy: an attacker may find every record"
        return title, "false alarms", "detections, at most"

    def _detections(self, alarms: Any) -> Any:
        if not self.guarantee.is_private:
            return np.ones_like(alarms)
        return 1.0 - self.guarantee.tradeoff(alarms)


# Small pictures beside each other.


class SmallMultiples(ABC):
    """A small picture of each of some items, beside each other."""

    items: Sequence[Any]
    label: str  # of the axis that all share

    @abstractmethod
    def _draw(self, ax: Any, item: Any) -> None:
        """Draw one item."""

    def plot(self) -> Self:
        """Draw the display in a figure of its own.

        Returns
        -------
        SmallMultiples
            The display itself, with the axes as ``axes_`` and their figure as ``figure_``.
        """
        plt = pyplot(f"{type(self).__name__}.plot")
        abreast = min(_ABREAST, max(len(self.items), 1))
        down = max(math.ceil(len(self.items) / abreast), 1)
        size = (_SMALL[0] * abreast, _SMALL[1] * down + 0.4)
        self.figure_, self.axes_ = plt.subplots(
            down, abreast, figsize=size, layout="constrained", squeeze=False
        )
        for ax in self.axes_.flat[len(self.items) :]:
            ax.set_visible(False)
        for ax, item in zip(self.axes_.flat, self.items, strict=False):
            self._draw(ax, item)
        self.figure_.supylabel(self.label, fontsize="small")
        return self


# Groups that small pictures are drawn of where nobody says, and points of a curve.
_MOST_CURVES, _MOST_POINTS = 8, 10
_LABELS = {
    "calibration": ("score", "share that is positive"),
    "roc": ("false positive rate", "true positive rate"),
}


@dataclass(frozen=True)
class _Curve:
    """A curve of one group, with a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[GroupRate | Interval]


class GroupCurvesDisplay(SmallMultiples):
    """Small pictures, one a group: calibration, or the ROC curve, with a band of intervals.

    Make one by `from_audit`.

    Parameters
    ----------
    curves : sequence of curves
        What is drawn, in order.
    kind : {"calibration", "roc"}
        What they are.

    See Also
    --------
    AuditReport : Such pictures on one page, with what they mean.
    """

    def __init__(self, curves: Sequence[_Curve], kind: str) -> None:
        self.items = tuple(curves)
        self.kind = kind
        self.label = _LABELS[kind][1]

    @classmethod
    def from_audit(
        cls,
        result: AuditResult,
        kind: Literal["calibration", "roc"] = "calibration",
        *,
        most: int = _MOST_CURVES,
    ) -> Self:
        """Draw what an audit of outcomes and bins of scores released.

        Parameters
        ----------
        result : AuditResult
            The audit.
        kind : {"calibration", "roc"}, default="calibration"
            Shares of positives by score, on the diagonal if scores say what they mean; or true over
            false positive rates, at each edge.
        most : int, default=8
            How many groups are drawn, those of the most people.

        Returns
        -------
        GroupCurvesDisplay
            The display, drawn.
        """
        return cls(curves_of(result, kind, most), kind).plot()

    def _draw(self, ax: Any, item: Any) -> None:
        bare(ax)
        ax.grid(visible=False)
        ax.plot([0, 1], [0, 1], **DASHED)
        known = [pair for pair in zip(item.x, item.y, strict=True) if pair[1].estimate >= 0.0]
        x, y = [x for x, _ in known], [y for _, y in known]
        band: Look = {"color": BLUE, "alpha": 0.25, "linewidth": 0}
        ax.fill_between(x, [one.low for one in y], [one.high for one in y], **band)
        ax.plot(x, [one.estimate for one in y], color=BLUE, lw=1.6)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.set_title(words.cut(item.name, 28), parse_math=False, loc="left", fontsize="small")
        ax.set_xlabel(_LABELS[self.kind][0], fontsize="x-small")
        ax.tick_params(labelsize="x-small", length=0)

    def _pictures(self) -> str:
        """Return a picture a group as svg elements, for a page."""
        # all are alike, so that no layout has to be found
        margins = {"left": 0.17, "right": 0.97, "bottom": 0.2, "top": 0.88}
        drawn = []
        for place, item in enumerate(self.items):
            how: Look = {"prefix": f"{self.kind}-{place}", "title": f"{item.name}: {self.label}"}
            draw = partial(self._draw, item=item)
            drawn.append(svg_of(draw, size=_SMALL, margins=margins, **how))
        return "".join(drawn)


def curves_of(result: AuditResult, kind: str, most: int = _MOST_CURVES) -> list[_Curve]:
    """Return the curves of the largest groups."""
    if kind not in _LABELS:
        raise InputError(f"kind must be 'calibration' or 'roc', got {kind!r}.")
    labels, names = result.group_labels, words.texts_of(result.group_labels)
    sizes = np.array([size.estimate for size in result.group_sizes()])
    chosen = np.argsort(-sizes, kind="stable")[:most].tolist()
    first = result.calibration(labels[chosen[0]])  # which refuses what has no bins
    if kind == "calibration":
        rest = [result.calibration(labels[one]) for one in chosen[1:]]
        x = result._counted.middles.tolist()
        return [_Curve(names[one], x, y) for one, y in zip(chosen, [first, *rest], strict=True)]
    edges, level = result.score_edges or (), result.confidence
    every = [result.at(edge)._counted for edge in edges[:: -math.ceil(len(edges) / _MOST_POINTS)]]
    ends = [Interval(end, end, end, level) for end in (0.0, 1.0)]
    found = []
    for one in chosen:
        false = [np.maximum(counted.cells[one, 0], 0) for counted in every]
        x = [float(positive / max(negative + positive, 1)) for negative, positive in false]
        y = [counted.interval("true_positive_rate", one, level) for counted in every]
        found.append(_Curve(names[one], [0.0, *x, 1.0], [ends[0], *y, ends[1]]))
    return found


# Pictures as SVG that stands in a page: small, the same bytes every time, no style of its own.

# Five inches are 360 units: as wide as a phone, so that letters stay legible there.
INCHES = 5.0
_INK = "#010203"  # nothing else has this colour, so it can be told to follow the page's
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: a fifth of the bytes, and readers can read it
    "svg.hashsalt": "sklearn-dpwg",  # else ids differ from run to run
    "font.size": 12.0,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), _INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
}
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_REFERENCE = re.compile(r"#([\w-]+)")
# Where something stands, in more digits than anybody sees.
_PLACES = ("d", "x", "y", "transform")
_LONG = re.compile(r"-?\d+\.\d{2,}")
# What the style of a text says as one word; its family is the page's.
_FONT = re.compile(r"([\d.]+)px .+")


def svg_of(
    draw: Callable[[Axes], object],
    *,
    prefix: str,
    size: tuple[float, float],
    title: str,
    margins: Mapping[str, float] | None = None,
) -> str:
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
        figure = Figure(figsize=size, layout=None if margins else "constrained")
        if margins:
            figure.subplots_adjust(**margins)
        draw(figure.add_subplot())
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(written.getvalue())
    _tidy(root, prefix)
    label = ElementTree.Element("title", {"id": f"{prefix}-title"})
    label.text = title
    root.insert(0, label)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{prefix}-title"}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _tidy(root: ElementTree.Element, prefix: str) -> None:
    """Drop what is not drawn, make ids unique in the page, styles attributes, and names bare."""
    values = [value for element in root.iter() for value in element.attrib.values()]
    referred = {match for value in values for match in _REFERENCE.findall(value)}
    for element in list(root.iter()):
        element.tag = element.tag.removeprefix(_SVG)
        element.text, element.tail = ((each or "").strip() for each in (element.text, element.tail))
        for child in list(element):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                element.remove(child)
        for declaration in filter(None, element.attrib.pop("style", "").split(";")):
            name, _, value = (part.strip() for part in declaration.partition(":"))
            font = _FONT.fullmatch(value) if name == "font" else None
            if name != "font" or font is not None:
                element.set(*((name, value) if font is None else ("font-size", font[1])))
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            name = name.removeprefix(_XLINK)
            if (name == "id" and value not in referred) or value.startswith("rotate(-0 "):
                continue
            if name == "id":
                value = f"{prefix}-{value}"
            elif name in _PLACES:
                value = _LONG.sub(lambda match: f"{float(match[0]):.4g}", value)
            elif value == _INK:
                value = "currentColor"
            elif name == "href" or "url(#" in value:
                value = value.replace("#", f"#{prefix}-")
            element.set(name, value)
