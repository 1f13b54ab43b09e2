"""What a guarantee leaves to an attacker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import drawing, words
from sklearn_dpwg.inspection.asked import Asked
from sklearn_dpwg.inspection.audit_result import AuditResult, default_metric
from sklearn_dpwg.inspection.drawing import Display, Look
from sklearn_dpwg.inspection.group_audit import audit_estimator
from sklearn_dpwg.inspection.verdicts import RATES, greater_is_worse
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    The trade-off: who looks for one record in what was released, and is willing to raise a false
    alarm so often, detects it at most so often. On the dashed line an attacker only guesses.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        The guarantee.
    name : str, optional
        What it is the guarantee of.

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
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        kind: Literal["tradeoff", "profile"] = "tradeoff",
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the guarantee of everything that was fitted inside a model.

        Parameters
        ----------
        estimator : estimator
            A fitted private model, or a pipeline or search with one inside.
        kind : {"tradeoff", "profile"}, default="tradeoff"
            Which curve.
        name : str, optional
            Name of the model.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PrivacyProfileDisplay
            The display, drawn.
        """
        return cls(privacy_of(estimator), name=name).plot(ax, kind=kind)

    @classmethod
    def from_audit(
        cls,
        result: AuditResult,
        *,
        kind: Literal["tradeoff", "profile"] = "tradeoff",
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the guarantee of an audit.

        Parameters
        ----------
        result : AuditResult
            The audit, with the model where it is of the same records.
        kind : {"tradeoff", "profile"}, default="tradeoff"
            Which curve.
        name : str, optional
            Name of the audit.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PrivacyProfileDisplay
            The display, drawn.
        """
        return cls(result.privacy_, name=name).plot(ax, kind=kind)

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
        name = self.name or "the best attacker"
        self.ax_.plot(
            self.false_alarms_, self.detections_, color=drawing.BLUE, linewidth=2.2, label=name
        )
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
        curve: Look = {"color": drawing.BLUE, "linewidth": 2.2, "label": self.name or "δ(ε)"}
        # a pure guarantee falls to zero, which a logarithm cannot show
        self.ax_.plot(self.epsilons_, np.maximum(self.deltas_, bottom / 100.0), **curve)
        self.ax_.set_ylim(0.0, 1.02)
        title = "No privacy: no ε is promised"
        if guarantee.is_private:
            said = f"stated: ε = {rounded_up(guarantee.epsilon)} at δ = {guarantee.delta:.3g}"
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


@dataclass(frozen=True)
class UtilityPoint:
    """A model: its ε, and how its worst group fares.

    Parameters
    ----------
    name : str
        Name of the model; models of one name are of one kind.
    epsilon : float
        ε of the model.
    value : float
        Metric of its worst group.
    low, high : float
        Limits of that metric.
    """

    name: str
    epsilon: float
    value: float
    low: float
    high: float


# Models without privacy stand at so many times the largest ε of the others.
_BEYOND = 2.0
# Models at the same ε are this share of the axis apart.
_STEP = 0.012


@dataclass(eq=False, repr=False)
class PrivacyUtilityDisplay(Display):
    """The worst group's metric against ε, a point a model; models of one name are joined.

    Parameters
    ----------
    points : sequence of UtilityPoint
        The models.
    metric : str, default="error_rate"
        What the values are.
    is_private : bool, default=True
        Whether the values were released with noise; if not, the picture says "not private".

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

    points: Sequence[UtilityPoint]
    _: KW_ONLY
    metric: str = "error_rate"
    is_private: bool = True

    @classmethod
    def from_audit(
        cls,
        results: Mapping[str, AuditResult | Sequence[AuditResult]],
        metric: str | None = None,
        *,
        epsilons: Mapping[str, float | Sequence[float]] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw what audits of several models released.

        Parameters
        ----------
        results : mapping from name to AuditResult, or to a sequence of them
            The audits; a sequence is one kind of model at several ε.
        metric : str, optional
            A rate of `AuditResult.METRICS`, or a loss of all audits; by default the error rate, or
            the selection rate where no outcomes were counted.
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
        listed = (
            [given] if isinstance(given, AuditResult) else given for given in results.values()
        )
        metric = metric or default_metric(one for audits in listed for one in audits)
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
        return cls(**points_of(results, metric, epsilons))

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

    def _draw(self) -> tuple[str, str, str]:
        series: dict[str, list[UtilityPoint]] = {}
        for point in self.points:
            series.setdefault(point.name, []).append(point)
        named, others = self._best_first(series)
        places = self._places()
        for name in others:
            self._draw_series(series[name], places, color=drawing.FAINT, linewidth=0.7, alpha=0.6)
        shifted = [self._shifted(places, number, len(named)) for number in range(len(named))]
        for number, name in enumerate(named):
            look: Look = {"color": drawing.PALETTE[number], "marker": drawing.MARKERS[number]}
            self._draw_series(series[name], shifted[number], linewidth=1.4, **look)
        last = [max(series[name], key=lambda point: point.epsilon) for name in named]
        ends = [(own[point.epsilon], point.value) for own, point in zip(shifted, last, strict=True)]
        drawing.name_lines(self.ax_, words.shortened(named), ends)
        self._scale(places)
        metric = f"{words.of_metric(self.metric)} of the worst group"
        said = f"{words.capital(metric)} against ε"
        said = said if self.is_private else f"{said} – {words.NOT_PRIVATE}"
        return said, f"ε of the model{f' (grey: {len(others)} others)' if others else ''}", metric

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


def points_of(
    results: Mapping[str, AuditResult | Sequence[AuditResult]],
    metric: str,
    epsilons: Mapping[str, float | Sequence[float]] | None = None,
    asked: Asked = Asked(),  # noqa: B008
) -> dict[str, Any]:
    """Return what a `PrivacyUtilityDisplay` of audits is made with."""
    points, is_private = [], True
    for name, given in results.items():
        audits = [given] if isinstance(given, AuditResult) else list(given)
        costs = _epsilons_of(name, audits, epsilons)
        for audit, epsilon in zip(audits, costs, strict=True):
            points.append(UtilityPoint(name, epsilon, *worst_value(audit, metric, asked)))
            is_private = is_private and audit.is_private
    return {"points": points, "metric": metric, "is_private": is_private}


def worst_value(result: AuditResult, metric: str, asked: Asked) -> tuple[float, float, float]:
    """Return the worst group's metric: the worst estimate, within its bounds, and the bounds."""
    worst = result.worst_groups(metric, **asked.which)
    rates = [rate for rate in result.rates(metric, of=asked.of) if rate.group in worst.groups]
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
        raise InputError(
            f"epsilons must state the ε of model {name!r}, as its audit does not know the model: "
            f"pass a mapping from names to ε."
        )
    return found
