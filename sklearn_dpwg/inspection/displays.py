"""A picture of a metric by group, and what it shares with that of columns.

Colours can be told apart by everybody, words and shapes say the same, and names are drawn as they
are: a dollar sign starts no formula.
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

# How a line, a mark or a text is to look.
Look = dict[str, Any]
# Of Okabe and Ito's palette, those with a contrast of 3 on white and on near-black.
BLUE, VERMILION, FAINT = "#0072b2", "#d55e00", "#808080"
DASHED: Look = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
# Inches: a picture as wide as a column of text, whose rows are as high as a line.
_WIDTH, _ROW, _MARGINS = 6.4, 0.24, 1.3


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
            made = cls._of_contrasts(result, result.verdict(metric))
        else:
            made = cls._of_rates(result, metric, result.worst_groups(metric).groups)
        return made.plot(ax, title=title)

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
        """Return a metric of all groups, not drawn."""
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
        """Return a verdict's contrasts by one of its metrics, not drawn."""
        rates = [one.contrasts[place] for one in verdict.groups]
        is_ratio, limit = rates[0].metric.endswith("ratio"), verdict.limit
        return cls(
            rates,
            answers=[one.answer for one in verdict.groups],
            is_private=result.is_private,
            confidence=result.confidence,
            reference=limit,
            reference_name=f"{limit:g}" if is_ratio else f"{100 * limit:g} points",
            greater_is_worse=not is_ratio,
        )

    @property
    def order(self) -> list[int]:
        """Groups from the top of the picture, the worst first."""
        estimates = np.array([rate.estimate for rate in self.rates])
        sign = -1.0 if self.greater_is_worse else 1.0
        return np.argsort(sign * estimates, kind="stable").tolist()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups, as short as they stand beside an axis."""
        return words.texts_of((rate.group for rate in self.rates), words.BESIDE_AN_AXIS)

    @property
    def unit(self) -> str:
        """What a hundred times a rate is in."""
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
        pad = 6.0 if self.reference is None else 20.0  # what the dashed line is stands below
        ax.set_title(title, parse_math=False, loc="left", fontsize="medium", pad=pad)
        ax.set_xlabel(metric, parse_math=False)
        return self

    def _draw_answered(self, ax: Axes, answer: str, letters: str) -> None:
        """Draw the groups about which the answer is this one."""
        order = self.order
        rows = [row for row, place in enumerate(order) if self.answers[place] == answer]
        rates = [self.rates[order[row]] for row in rows]
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
