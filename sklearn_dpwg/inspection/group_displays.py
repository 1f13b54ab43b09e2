"""A metric of every group, with its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import drawing, words
from sklearn_dpwg.inspection.asked import Asked, overall_rate
from sklearn_dpwg.inspection.audit_result import AuditResult, default_metric
from sklearn_dpwg.inspection.audit_rows import n_records_of
from sklearn_dpwg.inspection.drawing import Display, Look
from sklearn_dpwg.inspection.group_audit import audit_estimator, audit_predictions
from sklearn_dpwg.inspection.verdicts import GroupRate, greater_is_worse, unit_of

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

    Make one by `from_audit`, `from_estimator` or `from_predictions`.

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

        Returns
        -------
        GroupMetricDisplay
            The display, drawn.
        """
        metric = metric or default_metric([result])
        return cls.of(result, metric, ratio=ratio, at_least=at_least).plot(ax)

    @classmethod
    def of(cls, result: AuditResult, metric: str, *, ratio: bool, at_least: float) -> Self:
        """Return the display of an audit without drawing it.

        Parameters
        ----------
        result : AuditResult
            The audit.
        metric : str
            A rate, or a loss of the audit.
        ratio : bool
            Whether of each group's rate over the largest one.
        at_least : float
            What ratios are held against.

        Returns
        -------
        GroupMetricDisplay
            The display, to be drawn by `plot`.
        """
        asked = Asked(metric, at_least)
        return cls(**(contrasts_shown(result, asked) if ratio else rates_shown(result, metric)))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        metric: str = "error_rate",
        ratio: bool = False,
        ax: Axes | None = None,
        **audit: Any,
    ) -> Self:
        """Draw how a model treats groups, without any privacy.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of two classes.
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            True classes.
        groups : array-like of shape (n_records,) or (n_records, n_columns)
            Group of each record.
        metric : str, default="error_rate"
            A rate of `AuditResult.METRICS`.
        ratio : bool, default=False
            Draw each group's rate over the largest one instead.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **audit : dict
            Parameters of `GroupAudit`, such as ``epsilon``, which is infinite by default.

        Returns
        -------
        GroupMetricDisplay
            The display, drawn; it says "not private" unless ``epsilon`` is finite.
        """
        result = audit_estimator(estimator, X, y, groups, audit)
        return cls.from_audit(result, metric, ratio=ratio, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        groups: Any,
        metric: str = "error_rate",
        ratio: bool = False,
        ax: Axes | None = None,
        **audit: Any,
    ) -> Self:
        """Draw how predictions treat groups, without any privacy.

        Parameters
        ----------
        y_true : array-like of shape (n_records,)
            True classes.
        y_pred : array-like of shape (n_records,)
            Predicted classes, or probabilities of the second class.
        groups : array-like of shape (n_records,) or (n_records, n_columns)
            Group of each record.
        metric : str, default="error_rate"
            A rate of `AuditResult.METRICS`.
        ratio : bool, default=False
            Draw each group's rate over the largest one instead.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **audit : dict
            Parameters of `GroupAudit`, such as ``epsilon``, which is infinite by default.

        Returns
        -------
        GroupMetricDisplay
            The display, drawn; it says "not private" unless ``epsilon`` is finite.
        """
        result = audit_predictions(y_true, y_pred, groups, audit)
        return cls.from_audit(result, metric, ratio=ratio, ax=ax)

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


# Which groups a worst-group model learned from most.


@dataclass(eq=False, repr=False)
class GroupWeightsDisplay(Display):
    """Group weights of a fitted model as bars, or of several models as lines.

    Make one by `from_estimator`.

    Parameters
    ----------
    weights : array-like of shape (n_groups,) or (n_points, n_groups)
        Weights of each group, or one row a point of a path.
    group_labels : sequence of label
        The groups.
    shares : array-like of shape (n_groups,), optional
        Share of the records in each group, drawn beside bars.
    points : sequence of float, optional
        Where the rows of a path stand, such as the ε of each model.
    point_name : str, default="ε"
        What the points are.

    Examples
    --------
    >>> from sklearn_dpwg.inspection import GroupWeightsDisplay
    >>> display = GroupWeightsDisplay([0.7, 0.3], group_labels=["a", "b"], shares=[0.4, 0.6])
    >>> [text.get_text() for text in display.plot().ax_.get_yticklabels()]
    ['a', 'b']
    """

    weights: ArrayLike
    _: KW_ONLY
    group_labels: Sequence[Hashable]
    shares: ArrayLike | None = None
    points: Sequence[float] | None = None
    point_name: str = "ε"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        point_name: str = "ε",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the group weights that a model released, or those of several models.

        Parameters
        ----------
        estimator : estimator, or mapping from float to estimator
            A fitted private model whose solver releases its group weights; or several, by what
            they differ in, such as ε.
        point_name : str, default="ε"
            What several models differ in.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        GroupWeightsDisplay
            The display, drawn.
        """
        if not isinstance(estimator, Mapping):
            sizes = np.asarray(estimator.group_sizes_, dtype=np.float64)
            labels = list(estimator.group_labels_)
            shares = sizes / n_records_of(estimator) if np.isfinite(sizes).all() else None
            weights = np.asarray(estimator.group_weights_)
            return cls(weights, group_labels=labels, shares=shares).plot(ax)
        models = dict(sorted(estimator.items()))
        labels = list(next(iter(models.values())).group_labels_)
        for point, model in models.items():
            if list(model.group_labels_) != labels:
                raise InputError(
                    f"estimator must hold models of the same groups, got others at {point!r}."
                )
        path = np.array([model.group_weights_ for model in models.values()])
        points = [float(point) for point in models]
        return cls(path, group_labels=labels, points=points, point_name=point_name).plot(ax)

    @property
    def _is_path(self) -> bool:
        return np.ndim(self.weights) == 2

    @property
    def _is_over_line(self) -> bool:  # type: ignore[override]
        return not self._is_path and self.shares is not None

    def _height(self) -> float:
        shape = np.shape(self.weights)
        if len(shape) not in (1, 2) or shape[-1] != len(self.group_labels):
            raise InputError(
                f"weights must have one entry a group, {len(self.group_labels)}, got shape {shape}."
            )
        return super()._height() if self._is_path else drawing.height_of(shape[0])

    def _draw(self) -> tuple[str, str, str]:
        weights = np.asarray(self.weights, dtype=np.float64)
        names = words.shortened(self.group_labels)
        if not self._is_path:
            self._draw_bars(weights, names)
            return "Weight of each group in the fit", "weight", ""
        unnamed = self._draw_paths(weights, names)
        said = f"Weight of each group by {self.point_name}"
        return said, f"{self.point_name}{unnamed}", "weight"

    def _draw_bars(self, weights: Any, names: tuple[str, ...]) -> None:
        order = np.argsort(-weights, kind="stable")
        rows = np.arange(len(order))
        self.ax_.barh(rows, weights[order], height=0.7, color=drawing.BLUE, label="weight")
        if self.shares is not None:
            shares = np.asarray(self.shares, dtype=np.float64)[order]
            said = "share of the records"
            self.ax_.plot(shares, rows, label=said, markersize=5, **drawing.DIAMONDS)
            drawing.legend(self.ax_)
        drawing.name_rows(self.ax_, [names[place] for place in order])
        self.ax_.grid(visible=False, axis="y")
        drawing.percents(self.ax_.xaxis)

    def _draw_paths(self, weights: Any, names: tuple[str, ...]) -> str:
        """Draw a line a group, and say what is not named."""
        points = np.arange(len(weights)) if self.points is None else np.asarray(self.points)
        order = np.argsort(-weights.max(axis=0), kind="stable").tolist()
        named, others = order[: drawing.MOST_NAMED], order[drawing.MOST_NAMED :]
        if len(others) == 1:  # its own name is as short as "1 other group"
            named, others = order, []
        for place in others:
            self.ax_.plot(points, weights[:, place], color=drawing.FAINT, linewidth=0.7, alpha=0.6)
        for number, place in enumerate(named):
            look: Look = {"color": drawing.PALETTE[number], "marker": drawing.MARKERS[number]}
            self.ax_.plot(points, weights[:, place], linewidth=1.8, markersize=5, **look)
        if drawing.log_scale(points.tolist()):
            self.ax_.set_xscale("log")
            self.ax_.minorticks_off()
        if len(points) <= 8:
            self.ax_.set_xticks(points, [f"{point:.3g}" for point in points])
        self.ax_.set_ylim(bottom=0.0)
        drawing.percents(self.ax_.yaxis)
        ends = [(float(points[-1]), float(weights[-1, place])) for place in named]
        drawing.name_lines(self.ax_, [names[place] for place in named], ends)
        return f" (grey: {len(others)} other groups)" if others else ""
