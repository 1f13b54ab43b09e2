"""Pictures of a metric by group, of curves by group, and of what a guarantee leaves an attacker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import drawing, words
from sklearn_dpwg.inspection.audit_result import AuditResult, default_metric
from sklearn_dpwg.inspection.drawing import Display, Look, SmallMultiples
from sklearn_dpwg.inspection.histogram import GroupRate, greater_is_worse, unit_of
from sklearn_dpwg.inspection.report_facts import NOT_JUDGED, Asked
from sklearn_dpwg.privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAY_BE_WORST, REFERENCE = "may be worst", "reference"
# Shape and word, and colour only with them.
_LOOKS = {
    "": ("o", drawing.BLUE),
    MAY_BE_WORST: ("D", drawing.VERMILION),
    "passes": ("o", drawing.BLUE),
    "fails": ("x", drawing.VERMILION),
    "cannot tell": ("s", drawing.FAINT),
    NOT_JUDGED: (".", drawing.FAINT),
    REFERENCE: ("o", drawing.FAINT),
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
        metric = metric or default_metric([result])
        asked = Asked(result, metric, metric if ratio else None, at_least, {})
        return cls(**(contrasts_shown(asked) if ratio else rates_shown(asked))).plot(
            ax, title=title
        )

    @property
    def order(self) -> list[int]:
        """Groups from the top of the picture, the worst first."""
        estimates = np.array([rate.estimate for rate in self.rates])
        sign = -1.0 if self.greater_is_worse else 1.0
        return np.argsort(sign * estimates, kind="stable")[: self.most].tolist()

    def _height(self) -> float:
        return drawing.height_of(len(self.order))

    def _draw(self) -> tuple[str, str, str]:
        names = words.shortened(rate.group for rate in self.rates)
        self._draw_reference()
        for answer in dict.fromkeys(self.answers):
            self._draw_answered(answer)
        drawing.name_rows(self.ax_, [names[place] for place in self.order])
        metric = words.of_metric(self.rates[0].metric) if self.rates else ""
        unit = unit_of(self.rates[0].metric) if self.rates else None
        if unit:
            drawing.percents(self.ax_.xaxis, unit)
        said = f"{words.capital(metric)} by group, {100 * self.confidence:g} % intervals"
        return (said if self.is_private else f"{said} – {words.NOT_PRIVATE}"), metric, ""

    @property
    def _is_over_line(self) -> bool:  # type: ignore[override]
        return self.reference is not None

    def _draw_reference(self) -> None:
        if self.reference is None:
            return
        self.ax_.axvline(self.reference, zorder=1, **drawing.DASHED)
        where: Look = {
            "transform": self.ax_.get_xaxis_transform(),
            "ha": "center",
            "va": "bottom",
            "fontsize": "small",
        }
        drawing.write(self.ax_, self.reference, 1.005, self.reference_name, **where)

    def _draw_answered(self, answer: str) -> None:
        """Draw the groups about which the answer is this one."""
        rows = [row for row, place in enumerate(self.order) if self.answers[place] == answer]
        rates = [self.rates[self.order[row]] for row in rows]
        marker, colour = _LOOKS[answer]
        ends = [rate.high for rate in self.rates if math.isfinite(rate.high)]
        edge = max([1.0, *ends])  # of a group without records nothing is known
        highs = [min(rate.high, edge) for rate in rates]
        self.ax_.hlines(rows, [rate.low for rate in rates], highs, colors=colour, linewidth=2.2)
        dot: Look = {"marker": marker, "color": colour, "markersize": 6.5, "linestyle": "none"}
        if marker == "x":  # a cross has less ink, and a line of its own colour behind it
            dot |= {"markersize": 9.0, "markeredgewidth": 2.4}
        self.ax_.plot([rate.estimate for rate in rates], rows, **dot)
        where: Look = {
            "transform": self.ax_.get_yaxis_transform(),
            "va": "center",
            "fontsize": drawing.letters(len(self.order)),
        }
        for row in rows if answer else []:
            drawing.write(self.ax_, 1.01, row, answer, **where)


def rates_shown(asked: Asked, metric: str | None = None) -> dict[str, Any]:
    """Return what a `GroupMetricDisplay` of a metric is made with: by default of the asked one."""
    result, worst = asked.result, asked.worst.groups if metric in (None, asked.metric) else ()
    rates = result.rates(metric or asked.metric, of=asked.of)
    words_of = ["" if place in asked.places else NOT_JUDGED for place in range(len(rates))]
    return {
        **_shown_of(result),
        "rates": rates,
        "answers": [
            MAY_BE_WORST if one.group in worst else word
            for one, word in zip(rates, words_of, strict=True)
        ],
        "reference": result._overall(metric or asked.metric),
        "greater_is_worse": greater_is_worse(metric or asked.metric),
    }


def contrasts_shown(asked: Asked, place: int = 0) -> dict[str, Any]:
    """Return what a `GroupMetricDisplay` of the contrasts by one rate is made with."""
    compared = asked.compared[place]
    limit, is_ratio = abs(compared.margin.least), compared.margin.is_ratio
    return {
        **_shown_of(asked.result),
        "rates": asked.result._contrasts(compared),
        "answers": [compared.of_one(one).answer for one in range(len(compared.labels))],
        "reference": limit,
        "reference_name": f"{limit:g}" if is_ratio else f"{100 * limit:g} points",
        "greater_is_worse": not is_ratio,
    }


def _shown_of(result: AuditResult) -> dict[str, Any]:
    return {"is_private": result.is_private, "confidence": result.confidence}


# Groups that small pictures are drawn of where nobody says.
_MOST_CURVES = 8
# Rows of a picture on a page, and points of a curve.
_MOST_ROWS, _MOST_POINTS = 30, 10


@dataclass(frozen=True)
class _Curve:
    """A curve of one group, with a band around it."""

    name: str
    x: Sequence[float]
    rates: Sequence[GroupRate]


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

    layout = None

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
        drawing.bare(ax)
        ax.grid(visible=False)
        ax.plot([0, 1], [0, 1], **drawing.DASHED)
        known = [i for i, one in enumerate(item.rates) if not math.isnan(one.estimate)]
        x = [item.x[i] for i in known]
        ends = ([getattr(item.rates[i], end) for i in known] for end in ("low", "high"))
        ax.fill_between(x, *ends, color=drawing.BLUE, alpha=0.25, linewidth=0)
        ax.plot(x, [item.rates[i].estimate for i in known], color=drawing.BLUE, lw=1.6)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.set_title(words.cut(item.name, 28), parse_math=False, loc="left", fontsize="small")
        ax.set_xlabel(_LABELS[self.kind][0], fontsize="x-small")
        ax.tick_params(labelsize="x-small", length=0)

    def _title(self, item: Any) -> str:
        return f"{item.name}: {self.label} by {_LABELS[self.kind][0]}"


_LABELS = {
    "calibration": ("score", "share that is positive"),
    "roc": ("false positive rate", "true positive rate"),
}


def curves_of(result: AuditResult, kind: str, most: int = _MOST_CURVES) -> list[_Curve]:
    """Return the curves of the largest groups."""
    if kind not in _LABELS:
        raise InputError(f"kind must be 'calibration' or 'roc', got {kind!r}.")
    edges, names = result.score_edges or (), words.texts_of(result.group_labels)
    sizes = np.array([size.estimate for size in result.group_sizes()])
    chosen = np.argsort(-sizes, kind="stable")[:most].tolist()
    if kind == "calibration":
        first = result.calibration(result.group_labels[chosen[0]])  # which refuses what has none
        ends = (0.0, *edges, 1.0)
        x = [(low + high) / 2.0 for low, high in pairwise(ends)]
        rest = [result.calibration(result.group_labels[one]) for one in chosen[1:]]
        of_each = zip(chosen, [first, *rest], strict=True)
        return [_Curve(names[one], x, rates) for one, rates in of_each]
    result.calibration(result.group_labels[0])
    step = math.ceil(len(edges) / _MOST_POINTS)
    every = [result.at(edge)._counted for edge in edges[::step]]
    found = []
    for one in chosen:
        label, level = result.group_labels[one], result.confidence
        rates = [GroupRate(label, "roc", 0.0, 0.0, 0.0)]
        points = [0.0]
        for counted in reversed(every):
            hits = counted.interval("true_positive_rate", one, level)
            (fp, _), (tn, _) = (counted.total(one, (cell,)) for cell in ((0, 1), (0, 0)))
            points.append(max(fp, 0) / max(max(fp, 0) + max(tn, 0), 1))
            rates.append(GroupRate(label, "roc", hits.estimate, hits.low, hits.high))
        found.append(
            _Curve(names[one], [*points, 1.0], [*rates, GroupRate(label, "roc", 1.0, 1.0, 1.0)])
        )
    return found


# The false alarms at which the words of a guarantee state a detection.
FALSE_ALARM = 0.05
# Points of a curve: enough to look smooth, few enough to be computed in a blink.
N_POINTS = 82


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
        self.false_alarms_, self.detections_ = tradeoff_points(self.guarantee)
        self.ax_.plot([0, 1], [0, 1], label="only guesses", **drawing.DASHED)
        curve: Look = {"color": drawing.BLUE, "linewidth": 2.2, "label": "the best attacker"}
        self.ax_.plot(self.false_alarms_, self.detections_, **curve)
        caught = detection(self.guarantee)
        caught_at_most = math.ceil(1000.0 * caught - 1e-9) / 10.0
        said = f"{100 * FALSE_ALARM:g} % false alarms: {caught_at_most:g} % detected"
        self.ax_.plot([FALSE_ALARM], [caught], label=said, **drawing.DIAMONDS)
        drawing.percents(self.ax_.xaxis)
        drawing.percents(self.ax_.yaxis)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.02))
        # below the line of guesses there is never a curve
        drawing.legend(self.ax_, loc="lower right", bbox_to_anchor=(1.0, 0.0), ncols=1)
        title = "What an attacker can find out about one record"
        if not self.guarantee.is_private:
            title = "No privacy: an attacker may find every record"
        return title, "false alarms", "detections, at most"


def tradeoff_points(guarantee: PrivacyGuarantee) -> tuple[Any, Any]:
    """Return false alarms, denser where they are few, and the most detections there."""
    alarms = np.linspace(0.0, 1.0, N_POINTS) ** 2
    if not guarantee.is_private:
        return alarms, np.ones_like(alarms)
    return alarms, 1.0 - guarantee.tradeoff(alarms)


def detection(guarantee: PrivacyGuarantee) -> float:
    """Return how often a record is detected at most, at 5 % false alarms."""
    return 1.0 - float(guarantee.tradeoff(FALSE_ALARM)) if guarantee.is_private else 1.0


# Pictures of a page, whose numbers are in its tables.

_HEIGHT = 3.9  # inches of a picture with two axes of numbers
_CURVES = {
    "calibration": (
        "Calibration of each group",
        "How often people with a score turned out positive; on the dashed line scores mean what "
        "they say.",
    ),
    "roc": (
        "ROC curve of each group",
        "True over false positive rate, at each edge of the bins; the farther above the dashed "
        "line, the better scores tell both classes apart.",
    ),
}


def pictures_of(asked: Asked) -> list[dict[str, Any]]:
    """Return the pictures of a page: a title, a sentence and the SVG."""
    found: list[tuple[Any, str, str]] = []
    for place, compared in enumerate(asked.compared):
        shown = contrasts_shown(asked, place)
        sides = ("right", "left") if compared.margin.is_ratio else ("left", "right")
        name = "Impact ratio" if compared.margin.is_ratio else "Difference"
        title = f"{name} of each group in {words.of_metric(compared.metric)}"
        text = (
            f"A group passes where its whole interval is {sides[0]} of {shown['reference_name']}, "
            f"and fails where it is {sides[1]} of it."
        )
        found.append((GroupMetricDisplay(**shown, most=_MOST_ROWS), title, text))
    known = asked.result._counts_of(asked.of).metrics
    metrics = ["base_rate", "selection_rate", *asked.metrics, asked.metric]
    for metric in dict.fromkeys(one for one in metrics if one in known):
        text = "The dashed line is the rate of all records together."
        if metric == asked.metric:
            text += " A diamond and the words stand by every group that may be worst."
        display = GroupMetricDisplay(**rates_shown(asked, metric), most=_MOST_ROWS)
        title = f"{words.capital(words.of_metric(metric))} of each group"
        found.append((display, title, text))
    attacker = PrivacyProfileDisplay(asked.result.privacy_)
    found.append(
        (
            attacker,
            "What an attacker can find out about one record",
            "Who raises a false alarm so often detects a record at most so often; on the dashed "
            "line an attacker only guesses.",
        )
    )
    drawn = [_drawn(f"p{place}", *each) for place, each in enumerate(found, start=1)]
    return drawn[:-1] + _curves(asked) + drawn[-1:]


def _drawn(prefix: str, display: Any, title: str, text: str) -> dict[str, Any]:
    is_rows = isinstance(display, GroupMetricDisplay)
    height = display._height() if is_rows else _HEIGHT
    if is_rows and len(display.rates) > len(display.order):
        text += f" These are the first {len(display.order)} of {len(display.rates):,} groups."
    svg = drawing.svg_of(
        lambda ax: display.plot(ax, title=""),
        prefix=prefix,
        size=(drawing.INCHES, height),
        title=title,
    )
    return {"title": title, "text": text, "rows": [], "svg": svg, "is_wide": False}


def _curves(asked: Asked) -> list[dict[str, Any]]:
    """Return small pictures of calibration and ROC curves, where the audit has bins."""
    result, found = asked.result, []
    for kind, (title, text) in _CURVES.items() if result._has_bins else ():
        curves, n_groups = curves_of(result, kind), len(result.group_labels)
        text += " Each point of a band holds by itself."
        if len(curves) < n_groups:
            text += f" These are the {len(curves)} groups of the most people, of {n_groups:,}."
        svg = GroupCurvesDisplay(curves, kind)._pictures(kind)
        found.append({"title": title, "text": text, "rows": [], "svg": svg, "is_wide": True})
    return found
