"""A picture of a metric by group, and helpers that the picture of columns uses too.

Colours are safe for colour-blind readers, and words and shapes repeat their meaning. Names are
drawn literally: a dollar sign starts no formula.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.histogram import GroupRate, Of, greater_is_worse, unit_of
from sklearn_dpwg.inspection.verdicts import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Keyword arguments of matplotlib for a line, a marker or a text.
Look = dict[str, Any]
# Colours of Okabe and Ito's palette with a contrast of 3 on white and on near-black, and grey.
BLUE, VERMILION, FAINT = "#0072b2", "#d55e00", "#808080"
DASHED: Look = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
# Inches: width of a picture, height of a row, and height of both margins.
_WIDTH, _ROW, _MARGINS = 6.4, 0.24, 1.3


def pyplot(owner: str) -> Any:
    """Return matplotlib's pyplot; ``owner``, the caller, is named in the error without it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{owner} needs matplotlib, which is not installed: pip install 'sklearn-dpwg[plot]'."
        ) from error
    return plt


def bare(ax: Axes) -> None:
    """Remove two spines from axes and draw a faint grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="both", color=FAINT, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


# Marker and colour of each answer.
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
class GroupMetricDisplay:
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

    See Also
    --------
    AuditReport : Such pictures on one page, with what they mean.
    """

    rates: Sequence[GroupRate]
    _: KW_ONLY
    answers: Sequence[str]
    is_private: bool
    confidence: float
    reference: float | None = None
    reference_name: str = "all records"
    greater_is_worse: bool = True

    @classmethod
    def from_audit(
        cls,
        result: AuditResult,
        metric: str | None = None,
        *,
        ratio: bool = False,
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
            Draw each group's rate over the largest one instead, and whether it passes the
            four-fifths rule.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        title : str, optional
            What to write above.

        Returns
        -------
        GroupMetricDisplay
            The display, drawn.
        """
        metric = metric or result._default_metric
        if ratio:
            display = cls._of_contrasts(result, result.verdict(metric))
        else:
            display = cls._of_rates(result, metric, result.worst_groups(metric).groups)
        return display.plot(ax, title=title)

    @classmethod
    def _of_rates(
        cls,
        result: AuditResult,
        metric: str,
        worst: Collection[Any],
        *,
        not_judged: Collection[Any] = (),
        of: Of = "process",
    ) -> Self:
        """Return a display, not yet drawn, of a metric of all groups."""
        overall = result._overall(metric)
        answers = dict.fromkeys(not_judged, "not judged") | dict.fromkeys(worst, MAY_BE_WORST)
        return cls(
            result.rates(metric, of=of),
            answers=[answers.get(label, "") for label in result.group_labels],
            is_private=result.is_private,
            confidence=result.confidence,
            reference=None if math.isnan(overall) else overall,
            greater_is_worse=greater_is_worse(metric),
        )

    @classmethod
    def _of_contrasts(cls, result: AuditResult, verdict: Verdict, place: int = 0) -> Self:
        """Return a display, not yet drawn, of a verdict's contrasts by its metric at a place."""
        rates = [group.contrasts[place] for group in verdict.groups]
        is_ratio, limit = rates[0].metric.endswith("ratio"), verdict.limit
        return cls(
            rates,
            answers=[group.answer for group in verdict.groups],
            is_private=result.is_private,
            confidence=result.confidence,
            reference=limit,
            reference_name=f"{limit:g}" if is_ratio else f"{100 * limit:g} points",
            greater_is_worse=not is_ratio,
        )

    @property
    def order(self) -> list[int]:
        """Places of the groups from the top of the picture, the worst first."""
        estimates = np.array([rate.estimate for rate in self.rates])
        sign = -1.0 if self.greater_is_worse else 1.0
        return np.argsort(sign * estimates, kind="stable").tolist()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups, short enough for an axis."""
        return words.texts_of((rate.group for rate in self.rates), words.BESIDE_AN_AXIS)

    @property
    def unit(self) -> str:
        """Unit of 100 times a rate; "" if the metric has none."""
        return unit_of(self.rates[0].metric)

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
        GroupMetricDisplay
            The display itself, with the axes as ``ax_`` and their figure as ``figure_``.
        """
        plt, order = pyplot("GroupMetricDisplay.plot"), self.order
        if ax is None:
            size = (_WIDTH, _MARGINS + _ROW * max(len(order), 4))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        bare(ax)
        letters = "small" if len(order) <= 12 else "x-small"
        if self.reference is not None:
            ax.axvline(self.reference, zorder=1, **DASHED)
            where: Look = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
            name = self.reference_name
            ax.text(self.reference, 1.005, name, parse_math=False, fontsize="small", **where)
        for answer in dict.fromkeys(self.answers):
            self._draw_answered(ax, answer, letters)
        shown = [self.names[place] for place in order]
        ax.set_yticks(range(len(shown)), shown, parse_math=False, fontsize=letters)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        metric = words.of_metric(self.rates[0].metric)
        if self.unit:
            ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.6g} {self.unit}")
        if title is None:
            title = f"{words.capital(metric)} by group, {100 * self.confidence:g} % intervals"
            title += "" if self.is_private else " – not private"
        pad = 6.0 if self.reference is None else 20.0  # room for the line's name
        ax.set_title(title, parse_math=False, loc="left", fontsize="medium", pad=pad)
        ax.set_xlabel(metric, parse_math=False)
        return self

    def _draw_answered(self, ax: Axes, answer: str, letters: str) -> None:
        """Draw intervals, markers and words of all groups with this answer."""
        order = self.order
        rows = [row for row, place in enumerate(order) if self.answers[place] == answer]
        rates = [self.rates[order[row]] for row in rows]
        marker, colour = _LOOKS[answer]
        edge = max([1.0, *(rate.high for rate in self.rates if math.isfinite(rate.high))])
        highs = [min(rate.high, edge) for rate in rates]
        ax.hlines(rows, [rate.low for rate in rates], highs, colors=colour, linewidth=2.2)
        dot: Look = {"marker": marker, "color": colour, "markersize": 6.5, "linestyle": "none"}
        if marker == "x":  # a cross on a line of its colour is hard to see
            dot |= {"markersize": 9.0, "markeredgewidth": 2.4}
        ax.plot([rate.estimate for rate in rates], rows, **dot)
        where: Look = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": letters}
        for row in rows if answer else ():
            ax.text(1.01, row, answer, **where)
