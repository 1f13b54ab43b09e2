"""How the worst-off group fares, against what it costs in privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from sklearn_dpwg.inspection import _drawing as drawing
from sklearn_dpwg.inspection._cells import RATES
from sklearn_dpwg.inspection._drawing import Look
from sklearn_dpwg.inspection._labels import shortened, texts_of
from sklearn_dpwg.inspection._ordinary_audit import audit_estimator
from sklearn_dpwg.inspection._words import NOT_PRIVATE, greater_is_worse, words_of
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.utility_point import UtilityPoint
from sklearn_dpwg.ledger import privacy_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Models without privacy stand at so many times the largest ε of the others.
_BEYOND = 2.0
# Models at the same ε are this share of the axis apart.
_STEP = 0.012


class PrivacyUtilityDisplay:
    """The worst group's metric against ε, a point a model; models of one name are joined.

    Parameters
    ----------
    points : sequence of UtilityPoint
        The models.
    metric : str, default="error_rate"
        What the values are.
    is_private : bool, default=True
        Whether the values were released with noise; if not, the picture says "not private".

    Attributes
    ----------
    ax_ : matplotlib axes
        What it was drawn on.
    figure_ : matplotlib figure
        The figure of the axes.

    Examples
    --------
    >>> from sklearn_dpwg.inspection import PrivacyUtilityDisplay, UtilityPoint
    >>> points = [
    ...     UtilityPoint("worst-group", 0.5, 0.31, 0.27, 0.36),
    ...     UtilityPoint("worst-group", 2.0, 0.26, 0.23, 0.29),
    ...     UtilityPoint("average", 1.0, 0.38, 0.34, 0.42),
    ... ]
    >>> PrivacyUtilityDisplay(points).plot().ax_.get_xlabel()
    'ε of the model'
    """

    def __init__(
        self, points: Sequence[UtilityPoint], *, metric: str = "error_rate", is_private: bool = True
    ) -> None:
        self.points = points
        self.metric = metric
        self.is_private = is_private

    @classmethod
    def from_audit(
        cls,
        results: Mapping[str, AuditResult | Sequence[AuditResult]],
        metric: str = "error_rate",
        *,
        epsilons: Mapping[str, float | Sequence[float]] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw what audits of several models released.

        Parameters
        ----------
        results : mapping from name to AuditResult, or to a sequence of them
            The audits; a sequence is one kind of model at several ε.
        metric : str, default="error_rate"
            A rate of `AuditResult.METRICS`, or a loss of all audits.
        epsilons : mapping from name to float, or to a sequence of them, optional
            ε of the models, needed where an audit is not of a model's own records
            (``same_records_as``).
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, drawn.
        """
        return cls.of(results, metric, epsilons=epsilons).plot(ax)

    @classmethod
    def of(
        cls,
        results: Mapping[str, AuditResult | Sequence[AuditResult]],
        metric: str,
        *,
        epsilons: Mapping[str, float | Sequence[float]] | None = None,
    ) -> Self:
        """Return the display of audits without drawing it.

        Parameters
        ----------
        results : mapping from name to AuditResult, or to a sequence of them
            The audits.
        metric : str
            A rate, or a loss of all audits.
        epsilons : mapping from name to float, or to a sequence of them, optional
            ε of the models.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, to be drawn by `plot`.
        """
        points, is_private = [], True
        for name, given in results.items():
            audits = [given] if isinstance(given, AuditResult) else list(given)
            costs = _epsilons_of(name, audits, epsilons)
            for audit, epsilon in zip(audits, costs, strict=True):
                points.append(UtilityPoint(name, epsilon, *worst_value(audit, metric)))
                is_private = is_private and audit.is_private
        return cls(points, metric=metric, is_private=is_private)

    @classmethod
    def from_estimator(
        cls,
        estimators: Mapping[str, Any],
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        metric: str = "error_rate",
        ax: Axes | None = None,
        **audit: Any,
    ) -> Self:
        """Draw how several models treat their worst group, without any privacy.

        Parameters
        ----------
        estimators : mapping from name to estimator, or to a sequence of them
            Fitted private classifiers of two classes.
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            True classes.
        groups : array-like of shape (n_records,) or (n_records, n_columns)
            Group of each record.
        metric : str, default="error_rate"
            A rate of `AuditResult.METRICS`.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **audit : dict
            Parameters of `GroupAudit`, such as ``epsilon``, which is infinite by default and else
            that of all these audits together.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, drawn; it says "not private" unless ``epsilon`` is finite.
        """
        results, epsilons = {}, {}
        listed = {
            name: list(given) if isinstance(given, list | tuple) else [given]
            for name, given in estimators.items()
        }
        # they are all of the same records
        audit = {"n_audits": sum(map(len, listed.values())), **audit}
        for name, models in listed.items():
            results[name] = [audit_estimator(model, X, y, groups, audit) for model in models]
            epsilons[name] = [privacy_of(model).epsilon for model in models]
        return cls.from_audit(results, metric, epsilons=epsilons, ax=ax)

    @classmethod
    def from_search(cls, searches: Mapping[str, Any], *, ax: Axes | None = None) -> Self:
        """Draw the released scores of private searches.

        Parameters
        ----------
        searches : mapping from name to DPSearchCV, or to a sequence of them
            Fitted searches. Their scores are released with noise and have no interval.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PrivacyUtilityDisplay
            The display, drawn.
        """
        points = []
        for name, given in searches.items():
            for search in given if isinstance(given, list | tuple) else [given]:
                score = float(search.best_score_)
                points.append(UtilityPoint(name, search.privacy_.epsilon, score, score, score))
        return cls(points, metric="score").plot(ax)

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
        PrivacyUtilityDisplay
            The display.
        """
        series: dict[str, list[UtilityPoint]] = {}
        for point in self.points:
            series.setdefault(point.name, []).append(point)
        named, others = self._best_first(series)
        self.ax_, self.figure_ = drawing.axes_for(type(self).__name__, ax)
        places = self._places()
        for name in others:
            self._draw_series(series[name], places, color=drawing.FAINT, linewidth=0.7, alpha=0.6)
        shifted = [self._shifted(places, number, len(named)) for number in range(len(named))]
        for number, name in enumerate(named):
            look: Look = {
                "color": drawing.PALETTE[number],
                "marker": drawing.MARKERS[number],
            }
            self._draw_series(series[name], shifted[number], linewidth=1.4, **look)
        last = [max(series[name], key=lambda point: point.epsilon) for name in named]
        ends = [(own[point.epsilon], point.value) for own, point in zip(shifted, last, strict=True)]
        drawing.name_lines(self.ax_, shortened(texts_of(named)), ends)
        self._scale(places)
        drawing.bare(self.ax_)
        metric = f"{words_of(self.metric)} of the worst group"
        said = f"{metric[:1].upper()}{metric[1:]} against ε"
        if not self.is_private:
            said = f"{said} – {NOT_PRIVATE}"
        drawing.titles(
            self.ax_,
            said if title is None else title,
            f"ε of the model{f' (grey: {len(others)} others)' if others else ''}",
            metric,
        )
        return self

    def _best_first(self, series: dict[str, list[UtilityPoint]]) -> tuple[list[str], list[str]]:
        """Return the names to write, those of the best models, and all others."""
        if len(series) <= len(drawing.PALETTE):
            return list(series), []
        sign = 1.0 if greater_is_worse(self.metric) else -1.0
        order = sorted(series, key=lambda name: min(sign * point.value for point in series[name]))
        return order[: drawing.MOST_NAMED], order[drawing.MOST_NAMED :]

    def _places(self) -> dict[float, float]:
        """Map every ε to its place on the axis; infinity has one too."""
        finite = sorted({point.epsilon for point in self.points if point.epsilon < math.inf})
        beyond = _BEYOND * finite[-1] if finite else 1.0
        return {epsilon: epsilon for epsilon in finite} | {math.inf: beyond}

    def _shifted(
        self, places: dict[float, float], number: int, n_series: int
    ) -> dict[float, float]:
        """Move the places of a series a little, so that bars at the same ε stand beside another."""
        step = _STEP * (number - (n_series - 1) / 2.0)
        ends = [places[point.epsilon] for point in self.points]
        low, high = min(ends), max(ends)
        if drawing.log_scale(ends):
            return {epsilon: x * (high / low) ** step for epsilon, x in places.items()}
        span = high - low or max(abs(high), 1.0)
        return {epsilon: x + span * step for epsilon, x in places.items()}

    def _draw_series(
        self, points: list[UtilityPoint], places: dict[float, float], **look: Any
    ) -> None:
        points = sorted(points, key=lambda point: point.epsilon)
        xs = [places[point.epsilon] for point in points]
        self.ax_.plot(xs, [point.value for point in points], markersize=6, **look)
        line: Look = {"color": look["color"], "linewidth": look["linewidth"], "alpha": 0.6}
        for x, point in zip(xs, points, strict=True):
            self.ax_.plot([x, x], [point.low, point.high], **line)

    def _scale(self, places: dict[float, float]) -> None:
        used = {point.epsilon for point in self.points}
        finite = [epsilon for epsilon in places if epsilon < math.inf]
        if drawing.log_scale(finite):
            self.ax_.set_xscale("log")
            self.ax_.minorticks_off()
        ticks = sorted(finite) if len(finite) <= 8 else []
        if math.inf in used:
            ticks.append(math.inf)
        if ticks:
            texts = ["none (∞)" if tick == math.inf else f"{tick:.3g}" for tick in ticks]
            self.ax_.set_xticks([places[tick] for tick in ticks], texts)
        if self.metric in RATES:
            drawing.percents(self.ax_.yaxis)


def worst_value(result: AuditResult, metric: str) -> tuple[float, float, float]:
    """Return the worst group's metric: the worst estimate, within its bounds, and the bounds."""
    worst = result.worst_groups(metric)
    rates = [rate for rate in result.rates(metric) if rate.group in worst.groups]
    estimates = [rate.estimate for rate in rates if math.isfinite(rate.estimate)]
    estimates = estimates or [(worst.low + worst.high) / 2.0]
    value = max(estimates) if greater_is_worse(metric) else min(estimates)
    return min(max(value, worst.low), worst.high), worst.low, worst.high


def _epsilons_of(
    name: str,
    audits: Sequence[AuditResult],
    epsilons: Mapping[str, float | Sequence[float]] | None,
) -> list[float]:
    if epsilons is not None and name in epsilons:
        stated = epsilons[name]
        return [float(stated)] if isinstance(stated, int | float) else [float(e) for e in stated]
    known = [audit.model_privacy_ for audit in audits]
    found = [guarantee.epsilon for guarantee in known if guarantee is not None]
    if len(found) < len(audits):
        raise ValueError(
            f"epsilons must state the ε of model {name!r}, as its audit does not know the model: "
            f"pass a mapping from names to ε."
        )
    return found
