"""The released result of an audit: its table of metrics, its verdicts and its JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import open_unit, read_json
from sklearn_dpwg.data.frames import label_column, places
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import histogram, verdicts, words
from sklearn_dpwg.inspection.audit_rows import left_out_by_name, nested, versions_now
from sklearn_dpwg.inspection.histogram import RATES, GroupRate, Histogram, Of
from sklearn_dpwg.inspection.verdicts import Comparison, Verdict
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.metrics.intervals import Interval, ratio_interval
from sklearn_dpwg.metrics.intervals.ratio import worst_group_set
from sklearn_dpwg.privacy import IntegerNoise, PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    import pandas as pd


# Groups of fewer people are not judged, nor are groups whose counts may be noise alone, which is
# ruled out with this confidence.
_SMALLEST_GROUP = 10
_NOISE_CONFIDENCE = 0.99999


class _Metrics:
    """Names of metrics: on the class all rates, on a result those that its counts determine."""

    def __get__(self, result: AuditResult | None, owner: type | None = None) -> tuple[str, ...]:
        return tuple(RATES) if result is None else result._histogram.metrics


@dataclass(frozen=True)
class WorstGroups:
    """Every judged group that may be worst by a metric, and how bad the worst is.

    The worst group is among ``groups`` with the audit's confidence. For rates this is proved; for
    the AUC, losses and the calibration error it was measured (docs/theory/group-audit.md).
    """

    metric: str
    groups: tuple[Hashable, ...]
    low: float  # bounds of the metric in the worst group
    high: float
    gap: Interval  # how far the worst group is from the best

    def __str__(self) -> str:
        """Return a sentence that names the groups and gives the metric and the gap."""
        if not self.groups:
            return "Nobody is judged."
        unit, gap = histogram.unit_of(self.metric), self.gap
        points = "points" if unit == "%" else ""
        names = words.listed([words.in_sentence(label) for label in self.groups], "or")
        verb = "may be" if len(self.groups) > 1 else "is"
        return (
            f"Worst off by {words.of_metric(self.metric)} {verb} {names}: "
            f"{words.interval(self.low, self.high, unit)} in the worst group, "
            f"{words.interval(gap.low, gap.high, points)} from the best one."
        )


@dataclass(frozen=True)
class AuditResult:
    """The histogram that an audit released, and the table and verdicts that follow from it.

    A result holds released numbers only, so every use of it costs no further privacy.
    `GroupAudit.run` makes results; so do thresholds and calibrations, as ``audit_``.

    Parameters
    ----------
    group_labels, group_name, classes : tuple of labels, str, tuple of two classes
        The groups, the name of the columns that define them, and the negative and positive class.
    counts : tuple
        ``counts[group][class][bin]``: noisy number of records in a bin of scores; it may be
        negative. Decisions are two bins. Without outcomes there is one class per group.
    noise : IntegerNoise or None
        Law of the noise on every count; None if counts are exact and nothing is private.
    sizes : tuple of int or None
        Exact sizes of the groups where they are public.
    threshold, score_edges : float or None, tuple of float or None
        Scores at or above the threshold predict the positive class; None for decisions. The inner
        edges of the bins include the threshold; None if it is the only one.
    confidence : float
        Probability with which each interval holds the true value.
    privacy_, model_privacy_ : PrivacyGuarantee, PrivacyGuarantee or None
        Cost of the audit together with the model that was fitted to the same records, if any; and
        cost of that model alone.
    created, versions : str, mapping from str to str
        Date, in ISO form, and versions of the libraries; by default the current ones.
    n_cells : int, default=1
        How many noisy numbers each count sums; more than one if groups were joined.
    epsilon, n_records : float, int or None
        ε of this audit alone, and the public number of records if it is known.

    See Also
    --------
    GroupAudit : Makes results.

    Notes
    -----
    Intervals cover two errors: the records are a sample, and counts are noisy. Intervals of rates
    invert exact tests with the law of the noise; the coverage of other metrics was measured. Each
    interval holds by itself; for ``n`` that hold together ask for a confidence of ``1 - 0.05 / n``.
    The AUC, losses and the calibration error use scores rounded to the middle of their bins.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.inspection import GroupAudit
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 5000)
    >>> y = rng.random(10_000) < np.where(groups == "a", 0.5, 0.3)
    >>> result = GroupAudit(epsilon=1.0, group_labels=["a", "b"]).run(y, y * 0.9, groups)
    >>> result.verdict("selection_rate", at_least=0.8).answer
    'fails'
    >>> result.table().loc[("b", "base_rate"), ["low", "high"]].between(0.25, 0.35).all()
    np.True_
    """

    group_labels: tuple[Hashable, ...]
    group_name: str
    classes: tuple[Hashable, Hashable]
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    noise: IntegerNoise | None
    sizes: tuple[int, ...] | None
    threshold: float | None
    score_edges: tuple[float, ...] | None
    confidence: float
    privacy_: PrivacyGuarantee
    model_privacy_: PrivacyGuarantee | None
    created: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    versions: dict[str, str] = field(default_factory=versions_now)
    n_cells: int = 1
    epsilon: float = math.inf
    n_records: int | None = None
    # the releases that ``privacy_`` adds up; empty if the result was read from a file
    _costs: ClassVar[tuple[StartCost, ...]] = ()

    METRICS: ClassVar[_Metrics] = _Metrics()

    @property
    def has_outcomes(self) -> bool:
        """Whether true outcomes were counted too; without them no error rate is known."""
        return len(self.counts[0]) == 2

    @property
    def is_private(self) -> bool:
        """Whether noise protects the records."""
        return self.noise is not None

    def cells(self) -> NDArray[np.int64]:
        """Return the noisy counts by true class and decision.

        Returns
        -------
        ndarray of shape (n_groups, 2, 2)
            Noisy counts by group, true class (a single one without outcomes) and decision.
        """
        return self._histogram.cells.copy()

    # Other readings of the same release.

    def at(self, threshold: float) -> AuditResult:
        """Return the same release with another threshold, at no further cost.

        Parameters
        ----------
        threshold : float
            One of ``score_edges``.

        Returns
        -------
        AuditResult
            Its rates and verdicts count scores at or above the threshold as selected.
        """
        edges = self.score_edges or (self.threshold,)
        if threshold not in edges or self.threshold is None:
            raise InputError(f"threshold must be one of the edges {edges!r}, got {threshold!r}.")
        return self._with(threshold=float(threshold))

    def by_attribute(self) -> dict[str, AuditResult]:
        """Return one result per attribute, where groups combine values of several attributes.

        Returns
        -------
        dict from str to AuditResult
            One result per attribute, by its name, or by its position if the columns had no names.
            The counts of a value sum the groups that have this value, at no further cost. The
            group labels must be every combination of values, as ``itertools.product`` lists them,
            even those without people: a person whose combination is no label is not counted.
        """
        label = self.group_labels[0]
        n_attributes = len(label) if isinstance(label, tuple) else 1
        if n_attributes == 1:
            return {self.group_name: self}
        names = self.group_name.split(" and ")
        # columns may have no names, names with " and " in them, or equal texts, as 1 and "1"
        if len(set(names)) != n_attributes:
            names = [str(position) for position in range(n_attributes)]
        return {name: self._of_attribute(position, name) for position, name in enumerate(names)}

    def _of_attribute(self, position: int, name: str) -> AuditResult:
        """Return the result of the attribute at a position of labels: one group per value."""
        groups_by_value: dict[Hashable, list[int]] = {}
        for group, label in enumerate(self.group_labels):
            assert isinstance(label, tuple)
            groups_by_value.setdefault(label[position], []).append(group)
        n_cells = {len(groups) for groups in groups_by_value.values()}
        if len(n_cells) > 1:
            raise InputError(
                "group_labels of the audit must hold every combination of values, as "
                f"itertools.product lists them, got some values of {name!r} in {min(n_cells)} and "
                f"some in {max(n_cells)}."
            )
        pooled = [self._histogram.pooled(tuple(groups)) for groups in groups_by_value.values()]
        sizes = [one.sizes[0] for one in pooled if one.sizes is not None]
        return self._with(
            group_labels=tuple(groups_by_value),
            group_name=name,
            counts=nested([one.counts[0].tolist() for one in pooled]),
            sizes=tuple(sizes) or None,
            n_cells=n_cells.pop() * self.n_cells,
        )

    def _with(self, **changed: Any) -> AuditResult:
        """Return a copy with changed fields and the same costs, as the release is the same."""
        changed_result = replace(self, **changed)
        object.__setattr__(changed_result, "_costs", self._costs)
        return changed_result

    # The table.

    def table(self) -> pd.DataFrame:
        """Return every metric of every group, one row per group and metric.

        Returns
        -------
        DataFrame
            Indexed by group and metric. Columns: "estimate", "low", "high"; "sampling", the width
            that the interval would have without noise, and "noise", the width that noise adds. The
            axis of columns is named by the positive class.
        """
        import pandas as pd

        exact, rows = self._histogram.without_noise(), []
        rates_by_metric = [self.group_sizes(), *map(self.rates, self.METRICS)]
        for group, rates in enumerate(zip(*rates_by_metric, strict=True)):
            for rate in rates:
                exact_width = 0.0
                if rate.metric != "size":  # a size has no sampling error
                    exact_width = exact.interval(rate.metric, group, self.confidence).width
                sampling = min(exact_width, rate.width)
                rows.append(vars(rate) | {"sampling": sampling, "noise": rate.width - sampling})
        keys = (
            pd.Index([row[key] for row in rows], tupleize_cols=False) for key in ("group", "metric")
        )
        index = pd.MultiIndex.from_arrays([*keys], names=[self.group_name, "metric"])
        columns = ["estimate", "low", "high", "sampling", "noise"]
        table = pd.DataFrame(rows, index=index)[columns]
        return table.rename_axis(columns=f"positive: {self.classes[1]}")

    def rates(
        self, metric: str | None = None, *, confidence: float | None = None, of: Of = "process"
    ) -> tuple[GroupRate, ...]:
        """Return a metric of each group.

        Parameters
        ----------
        metric : str, optional
            One of `METRICS`; by default the error rate, or the selection rate where no outcomes
            were counted.
        confidence : float, optional
            Confidence of the intervals; by default that of the audit.
        of : {"process", "records"}, default="process"
            "process": the records are a sample, and intervals cover sampling and noise.
            "records": the records are everybody, and intervals cover the noise alone.

        Returns
        -------
        tuple of GroupRate
            One per group.
        """
        metric = metric or self._default_metric
        level = self.confidence if confidence is None else open_unit(confidence, "confidence")
        self._check_metric(metric, self._histogram_of(of).metrics)
        rates = []
        for group, label in enumerate(self.group_labels):
            one = self._interval(metric, of, groups=(group,), confidence=level)
            rates.append(GroupRate(label, metric, one.estimate, one.low, one.high))
        return tuple(rates)

    def group_sizes(self) -> tuple[GroupRate, ...]:
        """Return how many records each group has.

        Returns
        -------
        tuple of GroupRate
            Exact sizes if they are public, else sizes with an interval for the noise.
        """
        half_width = self._histogram.size_error(self.confidence)
        rates = []
        for label, size in zip(self.group_labels, self._histogram.group_sizes(), strict=True):
            values = (size, size - half_width, size + half_width)
            estimate, low, high = (max(0.0, value) for value in values)
            rates.append(GroupRate(label, "size", estimate, low, high))
        return tuple(rates)

    def calibration(self, group: Hashable) -> tuple[GroupRate, ...]:
        """Return the fraction of positive records in each bin of scores, for one group.

        Parameters
        ----------
        group : label
            The group.

        Returns
        -------
        tuple of GroupRate
            One per bin, in order of the scores.
        """
        if not self.has_bins:
            raise InputError("calibration needs outcomes and score_edges, got an audit without.")
        place = int(places(label_column([group]), self.group_labels)[0])
        if place < 0:
            raise InputError(f"group must be one of {self.group_labels!r}, got {group!r}.")
        label, n_cells, rates = self.group_labels[place], (self.n_cells, self.n_cells), []
        settings: Any = {"noise": self.noise, "n_cells": n_cells, "confidence": self.confidence}
        for n_negative, n_positive in zip(*self.counts[place], strict=True):
            one = ratio_interval(hits=n_positive, misses=n_negative, **settings)
            rates.append(GroupRate(label, "calibration", one.estimate, one.low, one.high))
        return tuple(rates)

    @property
    def has_bins(self) -> bool:
        """Whether calibration can be shown: outcomes and several bins of scores were counted."""
        return "auc" in self.METRICS

    def worst_groups(
        self,
        metric: str | None = None,
        *,
        leave_out: Sequence[Hashable] = (),
        min_fraction: float = 0.0,
        of: Of = "process",
    ) -> WorstGroups:
        """Return the judged groups that may be worst by a metric.

        Parameters
        ----------
        metric : str, optional
            As in `rates`.
        leave_out, min_fraction, of : sequence of labels, float, {"process", "records"}
            As in `verdict`.

        Returns
        -------
        WorstGroups
            Groups that hold the worst judged one with the audit's confidence; none if no group is
            judged.
        """
        metric = metric or self._default_metric
        judged, *_ = self._judged(leave_out, min_fraction)
        self._check_metric(metric, self._histogram_of(of).metrics)
        if len(judged) < 2:
            largest_value = histogram.OF_SCORES.get(metric, 1.0)
            unknown = Interval(math.nan, 0.0, largest_value, self.confidence)
            return WorstGroups(metric, groups=(), low=0.0, high=largest_value, gap=unknown)
        members, (low, high), gap = worst_group_set(
            lambda level: [self._interval(metric, of, (group,), level) for group in judged],
            len(judged),
            greater_is_worse=histogram.greater_is_worse(metric),
            confidence=self.confidence,
        )
        groups = tuple(self.group_labels[judged[member]] for member in members)
        return WorstGroups(metric, groups, low, high, gap)

    def verdict(
        self,
        metric: str | Sequence[str] = "selection_rate",
        at_least: float | None = None,
        *,
        within: float | None = None,
        leave_out: Sequence[Hashable] = (),
        min_fraction: float = 0.0,
        reference: Hashable = None,
        of: Of = "process",
    ) -> Verdict:
        """Return whether rates of all groups are near enough, with a verdict for each group.

        Parameters
        ----------
        metric : str or sequence of str
            A rate of `METRICS`; or several, or "equalized_odds" (the true and the false positive
            rate): each has to pass.
        at_least : float, default=0.8
            Smallest ratio of two rates that passes; 0.8 is the four-fifths rule, which is about
            people who are selected for something.
        within : float, optional
            Largest difference of two rates that passes; replaces the ratio.
        leave_out : sequence of labels, default=()
            Groups that are not judged, declared without a look at the records.
        min_fraction : float, default=0
            Groups that surely have a smaller fraction of the records are not judged; 0.02 is New
            York City's rule for hiring.
        reference : label, optional
            The group that all others are compared with; by default every pair is compared. With a
            ratio no other group may be too far behind the reference; with a difference, and in
            equalized odds, no other group may be too far from it on either side.
        of : {"process", "records"}, default="process"
            Whether the records are a sample of what is judged, or are everybody, so that noise
            alone makes rates uncertain.

        Returns
        -------
        Verdict
            "passes" if every pair is near enough even at the far limit of its interval; "fails" if
            some pair is too far apart even at the near limit. Levels account for the number of
            comparisons. Each answer is wrong with a probability of at most
            ``(1 - confidence) / 2``. A group whose counts may be noise alone is not judged; the
            sentence names the groups that are not judged. ``groups`` has a verdict per group.
        """
        metrics, margin = verdicts.metrics_of(metric), verdicts.margin_of(at_least, within)
        judged, reference_place, scope = self._judged(leave_out, min_fraction, reference)
        counts, are_odds = self._histogram_of(of), {*verdicts.ODDS} <= {*metrics}
        for name in metrics:
            self._check_metric(name, [rate for rate in self.METRICS if rate in RATES])
        comparisons = [
            Comparison(
                names=self._names,
                metric=name,
                margin=margin,
                judged=judged,
                rate_of=partial(self._interval, name, of),
                counts=verdicts.Counts.of_rate(counts, name),
                confidence=self.confidence,
                reference=reference_place,
                n_joint=len(metrics),
                both_ways=are_odds or (reference is not None and not margin.is_ratio),
            )
            for name in metrics
        ]
        if of == "records":
            scope = f" That is of these very people, not of a process that they are of.{scope}"
        return verdicts.verdict_of(comparisons, self.group_labels, scope)

    def __repr__(self) -> str:
        return f"AuditResult({len(self.group_labels)} groups, epsilon={rounded_up(self.epsilon)})"

    def __str__(self) -> str:
        """Return a table as text: a row per group, with its size and three rates."""
        negative, positive = self.classes
        shown = ("base_rate", "selection_rate", "error_rate")
        rates_by_metric = {name: self.rates(name) for name in shown if name in self.METRICS}
        rows = [["group", "size", *rates_by_metric]]
        for group, size in enumerate(self.group_sizes()):
            rates = [rates_of_groups[group] for rates_of_groups in rates_by_metric.values()]
            cells = [f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]" for rate in rates]
            rows.append([words.text_of(size.group), f"{size.estimate:,.0f}", *cells])
        head = f"Selected is {positive!r}, and not {negative!r}."
        return "\n".join([head, "", *words.table(rows)])

    # Parts of the methods above.

    @property
    def _default_metric(self) -> str:
        """Metric that is used if the caller names none."""
        return "error_rate" if self.has_outcomes else "selection_rate"

    @cached_property
    def _histogram(self) -> Histogram:
        """The counts as an array, with the bins that are selected at the threshold."""
        first_selected_bin, edges = 1, None  # decisions, and one threshold, have two bins
        if self.score_edges is not None:
            edges = (0.0, *self.score_edges, 1.0)
            if self.threshold is not None:
                first_selected_bin = self.score_edges.index(self.threshold) + 1
        counts = np.array(self.counts, dtype=np.int64)
        shape: Any = {"first_selected_bin": first_selected_bin, "edges": edges}
        return Histogram(counts, noise=self.noise, sizes=self.sizes, n_cells=self.n_cells, **shape)

    def _histogram_of(self, of: Of) -> Histogram:
        """Return the histogram of a sample ("process") or of everybody ("records")."""
        if of not in ("process", "records"):
            raise InputError(f"of must be 'process' or 'records', got {of!r}.")
        return self._histogram if of == "process" else replace(self._histogram, is_sample=False)

    @cached_property
    def _interval_cache(self) -> dict[Any, Interval]:
        """Intervals by the arguments of `_interval`; exact ones are slow to compute."""
        return {}

    def _interval(
        self, metric: str, of: Of, groups: tuple[int, ...], confidence: float
    ) -> Interval:
        """Return the interval of a metric for the given groups, pooled into one."""
        key = (metric, of, groups, confidence)
        if key not in self._interval_cache:
            counts, group = self._histogram_of(of), groups[0]
            if len(groups) > 1:
                counts, group = counts.pooled(groups), 0
            self._interval_cache[key] = counts.interval(metric, group, confidence)
        return self._interval_cache[key]

    def _check_metric(self, metric: str, allowed: Sequence[str]) -> None:
        """Raise an error if a metric is not among the allowed ones."""
        if metric not in allowed:
            listed = f"one of {', '.join(allowed)}"
            if not self.has_outcomes:
                listed = f"{allowed[0]}, all that decisions without outcomes tell"
            raise InputError(f"metric must be {listed}, got {metric!r}.")

    def _overall(self, metric: str) -> float:
        """Return a rate of all groups together; NaN if the metric is not a rate."""
        if metric not in RATES:
            return math.nan
        all_groups = tuple(range(len(self.group_labels)))
        return self._histogram.pooled(all_groups).fraction(metric, 0)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Names of the groups as they appear in sentences."""
        return tuple(map(words.in_sentence, words.texts_of(self.group_labels)))

    def _judged(
        self, leave_out: Any = (), min_fraction: float = 0.0, reference: Hashable = None
    ) -> tuple[tuple[int, ...], int | None, str]:
        """Return places of judged groups and of the reference, and text on who is not judged."""
        labels = self.group_labels
        excluded, reference = left_out_by_name(labels, leave_out, min_fraction, reference)
        reasons = self._reasons_not_judged(excluded, min_fraction)
        reference_place = None
        if reference is not None:
            reference_place = labels.index(reference)
            reasons.pop(reference_place, None)  # a reference may be small
        judged = tuple(group for group in range(len(labels)) if group not in reasons)
        if len(judged) < 2:
            reasons |= dict.fromkeys(judged, "nobody is left to compare them with")
            judged, reference_place = (), None
        scope = ""
        for reason in dict.fromkeys(reasons[group] for group in sorted(reasons)):
            names = [self._names[group] for group in sorted(reasons) if reasons[group] == reason]
            scope += f" Not judged, as {reason}: {words.listed(names)}."
        return judged, reference_place, scope

    def _reasons_not_judged(self, excluded: list[Hashable], min_fraction: float) -> dict[int, str]:
        """Return why groups are not judged, by place: excluded, or surely too small."""
        sizes = self._histogram.group_sizes()
        half_width = self._histogram.size_error(self.confidence)
        # noise makes an empty group reach this limit one time in 200,000
        noise_limit = half_width + self._histogram.size_error(_NOISE_CONFIDENCE)
        least_size = max(_SMALLEST_GROUP, math.ceil(noise_limit) + 1)
        reasons: dict[int, str] = {}
        for group, (label, size) in enumerate(zip(self.group_labels, sizes, strict=True)):
            if label in excluded:
                reasons[group] = "they are left out on request"
            elif size + half_width < least_size:
                reasons[group] = f"they have fewer than {least_size} people"
            elif size + half_width < min_fraction * sum(sizes):
                reasons[group] = f"they have less than {100 * min_fraction:g} % of the people"
        return reasons

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone for a pickle, without cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # As a file.

    def to_json(self) -> str:
        """Return the result as a JSON object.

        Returns
        -------
        str
            Standard JSON with everything that was released.
        """
        plain = self.__getstate__()
        plain["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        for name in ("privacy_", "model_privacy_"):
            plain[name] = plain[name] and json.loads(plain[name].to_json())
        return json.dumps(plain, allow_nan=False, indent=1, default=asdict)

    @classmethod
    def from_json(cls, text: str) -> AuditResult:
        """Return the result that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON object.

        Returns
        -------
        AuditResult
            Equal to the one written.
        """
        with read_json(cls, text, [field.name for field in fields(cls)]) as plain:
            for name in ("privacy_", "model_privacy_"):
                if plain[name] is not None:
                    plain[name] = PrivacyGuarantee.from_json(json.dumps(plain[name]))
            plain["noise"] = plain["noise"] and IntegerNoise(**plain["noise"])
            result = cls(**{name: nested(value) for name, value in plain.items()})
            n_groups, edges = len(result.group_labels), result.score_edges
            n_bins = 2 if edges is None else len(edges) + 1
            shapes = {tuple(map(len, table)) for table in result.counts}
            spent = result.privacy_.epsilon
            epsilon = float(result.epsilon)
        if result.model_privacy_ is None and not epsilon >= spent * (1.0 - 1e-6):
            raise InputError(f"epsilon must be at least what was spent, {spent!r}.")
        if len(result.counts) != n_groups or shapes not in ({(n_bins,)}, {(n_bins, n_bins)}):
            raise InputError(
                f"counts must be of {n_groups} groups by class, each of {n_bins} bins, and are not."
            )
        return replace(result, epsilon=epsilon)
