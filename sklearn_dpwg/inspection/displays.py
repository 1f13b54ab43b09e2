"""Pictures of a metric by group, and of what a guarantee leaves an attacker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import drawing, words
from sklearn_dpwg.inspection.asked import Asked, overall_rate
from sklearn_dpwg.inspection.audit_result import AuditResult, default_metric
from sklearn_dpwg.inspection.drawing import Display, Look
from sklearn_dpwg.inspection.verdicts import GroupRate, greater_is_worse, unit_of
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAY_BE_WORST, NOT_JUDGED, REFERENCE = "may be worst", "not judged", "reference"
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
            A rate of `AuditResult.METRICS`, or a loss of the audit; by default the error rate, or
            the selection rate where no outcomes were counted.
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
        asked = Asked(metric, at_least)
        shown = contrasts_shown(result, asked) if ratio else rates_shown(result, metric)
        return cls(**shown).plot(ax, title=title)

    @property
    def order(self) -> list[int]:
        """Groups from the top of the picture, the worst first."""
        estimates = np.array([rate.estimate for rate in self.rates])
        sign = -1.0 if self.greater_is_worse else 1.0
        return np.argsort(sign * estimates, kind="stable").tolist()

    def _height(self) -> float:
        return drawing.height_of(len(self.rates))

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
            "fontsize": drawing.letters(len(self.rates)),
        }
        for row in rows if answer else []:
            drawing.write(self.ax_, 1.01, row, answer, **where)


def rates_shown(result: AuditResult, metric: str, asked: Asked = Asked()) -> dict[str, Any]:  # noqa: B008
    """Return what a `GroupMetricDisplay` of a rate, or of a loss, is made with."""
    rates = result.rates(metric, of=asked.of)
    worst, judged = result.worst_groups(metric, **asked.which).groups, asked.judged(result)
    words_of = ["" if place in judged else NOT_JUDGED for place in range(len(rates))]
    return {
        **_shown_of(result),
        "rates": rates,
        "answers": [
            MAY_BE_WORST if one.group in worst else word
            for one, word in zip(rates, words_of, strict=True)
        ],
        "reference": overall_rate(result, metric),
        "greater_is_worse": greater_is_worse(metric),
    }


def contrasts_shown(result: AuditResult, asked: Asked) -> dict[str, Any]:
    """Return what a `GroupMetricDisplay` of the contrasts by one rate is made with."""
    limit = abs(asked.margin.least)
    (rates,) = asked.contrasts(result).values()
    return {
        **_shown_of(result),
        "rates": rates,
        "answers": asked.answers(result),
        "reference": limit,
        "reference_name": f"{limit:g}" if asked.margin.is_ratio else f"{100 * limit:g} points",
        "greater_is_worse": not asked.margin.is_ratio,
    }


def _shown_of(result: AuditResult) -> dict[str, Any]:
    return {"is_private": result.is_private, "confidence": result.confidence}


# The false alarms at which the words of a guarantee state a detection.
FALSE_ALARM = 0.05
# Points of a curve: enough to look smooth, few enough to be computed in a blink.
# One of them is the stated ε.
N_POINTS = 82
# The largest ε of the picture, over the stated one.
WIDEST = 3.0


@dataclass(eq=False, repr=False)
class PrivacyProfileDisplay(Display):
    """The trade-off of an attacker, or the privacy profile δ(ε).

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
    epsilons_, deltas_ : ndarray
        Points of the profile.

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

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["tradeoff", "profile"] = "tradeoff",
        title: str | None = None,
    ) -> Self:
        """Draw the trade-off of an attacker, or δ over ε where `kind` is "profile"."""
        if kind not in ("tradeoff", "profile"):
            raise InputError(f"kind must be 'tradeoff' or 'profile', got {kind!r}.")
        self._is_over_line = kind == "profile"
        self._draw_kind = {"tradeoff": self._draw_tradeoff, "profile": self._draw_profile}[kind]
        return super().plot(ax, title=title)

    def _draw(self) -> tuple[str, str, str]:
        return self._draw_kind()

    def _draw_tradeoff(self) -> tuple[str, str, str]:
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

    def _draw_profile(self) -> tuple[str, str, str]:
        guarantee = self.guarantee
        self.epsilons_, self.deltas_ = profile_points(guarantee)
        bottom = guarantee.delta / 100.0
        curve: Look = {"color": drawing.BLUE, "linewidth": 2.2, "label": "δ(ε)"}
        # a pure guarantee falls to zero, which a logarithm cannot show
        self.ax_.plot(self.epsilons_, np.maximum(self.deltas_, bottom / 100.0), **curve)
        self.ax_.set_ylim(0.0, 1.02)
        title = "No privacy: no ε is promised"
        if guarantee.is_private:
            epsilon, delta = rounded_up(guarantee.epsilon), rounded_up(guarantee.delta, 2)
            said = f"stated: ε = {epsilon} at δ = {delta}"
            self.ax_.plot([guarantee.epsilon], [guarantee.delta], label=said, **drawing.DIAMONDS)
            title = "Privacy profile: for each ε the δ that it holds at"
            self.ax_.set_yscale("log")
            self.ax_.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
            self.ax_.set_ylim(bottom, 1.0)
        drawing.legend(self.ax_)
        return title, "ε", "δ"


def tradeoff_points(guarantee: PrivacyGuarantee) -> tuple[Any, Any]:
    """Return false alarms, denser where they are few, and the most detections there."""
    alarms = np.linspace(0.0, 1.0, N_POINTS) ** 2
    if not guarantee.is_private:
        return alarms, np.ones_like(alarms)
    return alarms, 1.0 - guarantee.tradeoff(alarms)


def detection(guarantee: PrivacyGuarantee) -> float:
    """Return how often a record is detected at most, at 5 % false alarms."""
    return 1.0 - float(guarantee.tradeoff(FALSE_ALARM)) if guarantee.is_private else 1.0


def profile_points(guarantee: PrivacyGuarantee) -> tuple[Any, Any]:
    """Return values of ε and the δ of each, until it is far below the stated one."""
    if not guarantee.is_private:
        return np.array([0.0, 1.0]), np.ones(2)
    epsilons = np.linspace(0.0, WIDEST * max(guarantee.epsilon, 1e-3), N_POINTS)
    deltas = guarantee.profile(epsilons)
    first_below = int(np.argmax(deltas < guarantee.delta / 100.0)) or N_POINTS
    return epsilons[: first_below + 1], deltas[: first_below + 1]
