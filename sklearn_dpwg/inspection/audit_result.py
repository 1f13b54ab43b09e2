"""What an audit released, the table that follows from it, verdicts, and its file."""

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


# Groups of fewer people are not judged, nor are those that noise alone may have made.
_SMALLEST_GROUP = 10
_SURELY = 0.99999


class _Metrics:
    """All rates of the class; of a result what its counts tell."""

    def __get__(self, result: AuditResult | None, owner: type | None = None) -> tuple[str, ...]:
        return tuple(RATES) if result is None else result._counted.metrics


@dataclass(frozen=True)
class WorstGroups:
    """Every judged group that may be worst by a metric, and how bad the worst is.

    The worst one is among them with the audit's confidence; of what is not a rate that is no
    theorem but was measured (docs/theory/group-audit.md).
    """

    metric: str
    groups: tuple[Hashable, ...]
    low: float  # bounds of the metric in the worst group
    high: float
    gap: Interval  # how far the worst group is from the best

    def __str__(self) -> str:
        """Return a sentence for people."""
        if not self.groups:
            return "Nobody is judged."
        unit, gap = histogram.unit_of(self.metric), self.gap
        points = "points" if unit == "%" else ""
        names = words.listed([words.in_sentence(one) for one in self.groups], "or")
        verb = "may be" if len(self.groups) > 1 else "is"
        return (
            f"Worst off by {words.of_metric(self.metric)} {verb} {names}: "
            f"{words.interval(self.low, self.high, unit)} in the worst group, "
            f"{words.interval(gap.low, gap.high, points)} from the best one."
        )


@dataclass(frozen=True)
class AuditResult:
    """The histogram that an audit released, and the table and verdicts that follow from it.

    It holds released numbers only, so whatever is made of it costs no privacy. Made by
    `GroupAudit.run`, and by thresholds and calibrations as ``audit_``.

    Parameters
    ----------
    group_labels, group_name, classes : tuple of labels, str, tuple of two classes
        The groups, what they are made of in words, and the negative and the positive class.
    counts : tuple
        For each group and class the count of records in each bin of scores, with noise; so counts
        may be negative. Decisions are two bins. Without outcomes there is one such tuple a group.
    noise : IntegerNoise or None
        Law of the noise on every count; None where there is none and nothing is private.
    sizes : tuple of int or None
        Exact sizes of the groups where they are public.
    threshold, score_edges : float or None, tuple of float or None
        Scores from the threshold on predict the positive class, None of decisions; the inner edges
        of the bins, the threshold among them, None where it is the only one.
    confidence : float
        Probability of every interval to hold the truth.
    privacy_, model_privacy_ : PrivacyGuarantee, PrivacyGuarantee or None
        What the audit costs, with the model that was fitted to the same records, if one was; and
        what that model costs alone.
    created, versions : str, mapping from str to str
        Date, in ISO form, and versions of the libraries; by default those of now.
    n_cells : int, default=1
        Of how many noisy numbers each count is the sum; more than one where groups were joined.
    epsilon, n_records : float, int or None
        ε that was asked for this audit alone, and the public number of records if it is known.

    See Also
    --------
    GroupAudit : Makes results.

    Notes
    -----
    Intervals cover that the records are a sample and that counts are noisy. Those of rates invert
    exact tests with the law of the noise; the coverage of others was measured. Each holds by
    itself; for ``n`` that hold together ask for a confidence of ``1 - 0.05 / n``. The AUC, losses
    and the error of calibration are of scores rounded to the middle of their bins.

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
    # of what ``privacy_`` states; a result that was stored has them all in one
    _costs: ClassVar[tuple[StartCost, ...]] = ()

    METRICS: ClassVar[_Metrics] = _Metrics()

    @property
    def has_outcomes(self) -> bool:
        """Whether outcomes were counted beside decisions; without them no error is known."""
        return len(self.counts[0]) == 2

    @property
    def is_private(self) -> bool:
        """Whether noise protects the records."""
        return self.noise is not None

    def cells(self) -> NDArray[np.int64]:
        """Return the counts of truth and decision.

        Returns
        -------
        ndarray of shape (n_groups, 2, 2)
            Counts with noise, by group, class (a single one without outcomes) and decision.
        """
        return self._counted.cells.copy()

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
            Whose rates and verdicts are of scores from there on.
        """
        edges = self.score_edges or (self.threshold,)
        if threshold not in edges or self.threshold is None:
            raise InputError(f"threshold must be one of the edges {edges!r}, got {threshold!r}.")
        return self._with(threshold=float(threshold))

    def by_attribute(self) -> dict[str, AuditResult]:
        """Return the same release by each attribute, where groups are cells of several.

        Returns
        -------
        dict from str to AuditResult
            A result an attribute, by its name, or its place where columns had no names: counts of
            a value are sums over its cells, at no further cost. Every combination of values has to
            be a group, as ``itertools.product`` lists them, people in it or not: whoever is in a
            cell of no stated label is in none.
        """
        first = self.group_labels[0]
        width = len(first) if isinstance(first, tuple) else 1
        if width == 1:
            return {self.group_name: self}
        names = self.group_name.split(" and ")
        if len(set(names)) != width:  # columns had no names, some that hold the word, or 1 and "1"
            names = [str(place) for place in range(width)]
        return {name: self._of_attribute(place, name) for place, name in enumerate(names)}

    def _of_attribute(self, place: int, name: str) -> AuditResult:
        cells: dict[Hashable, list[int]] = {}
        for cell, label in enumerate(self.group_labels):
            assert isinstance(label, tuple)
            cells.setdefault(label[place], []).append(cell)
        n_cells = {len(one) for one in cells.values()}
        if len(n_cells) > 1:
            raise InputError(
                "group_labels of the audit must hold every combination of values, as "
                f"itertools.product lists them, got some values of {name!r} in {min(n_cells)} and "
                f"some in {max(n_cells)}."
            )
        counted = [self._counted.pooled(tuple(one)) for one in cells.values()]
        sizes = [one.sizes[0] for one in counted if one.sizes is not None]
        return self._with(
            group_labels=tuple(cells),
            group_name=name,
            counts=nested([one.counts[0].tolist() for one in counted]),
            sizes=tuple(sizes) or None,
            n_cells=n_cells.pop() * self.n_cells,
        )

    def _with(self, **changed: Any) -> AuditResult:
        """Return a result of the same release, whoever adds costs up."""
        changed_result = replace(self, **changed)
        object.__setattr__(changed_result, "_costs", self._costs)
        return changed_result

    # The table.

    def table(self) -> pd.DataFrame:
        """Return every number of the audit: a row a group and metric.

        Returns
        -------
        DataFrame
            Indexed by group and metric. Columns: "estimate", "low", "high"; "sampling", the width
            that the interval would have without noise, and "noise", by how much it is wider. The
            axis of columns is named by the positive class.
        """
        import pandas as pd

        exact, rows = self._counted.without_noise(), []
        by_metric = [self.group_sizes(), *map(self.rates, self.METRICS)]
        for group, rates in enumerate(zip(*by_metric, strict=True)):
            for one in rates:
                alone = 0.0
                if one.metric != "size":
                    alone = exact.interval(one.metric, group, self.confidence).width
                sampling = min(alone, one.width)
                rows.append(vars(one) | {"sampling": sampling, "noise": one.width - sampling})
        keys = (
            pd.Index([row[key] for row in rows], tupleize_cols=False) for key in ("group", "metric")
        )
        index = pd.MultiIndex.from_arrays([*keys], names=[self.group_name, "metric"])
        columns = ["estimate", "low", "high", "sampling", "noise"]
        table = pd.DataFrame(rows, index=index)[columns]
        return table.rename_axis(columns=f"positive: {self.classes[1]}")

    def rates(
        self,
        metric: str | None = None,
        *,
        confidence: float | None = None,
        of: Of = "process",
    ) -> tuple[GroupRate, ...]:
        """Return a metric of each group.

        Parameters
        ----------
        metric : str, optional
            One of `METRICS`; by default the error rate, or the selection rate where no outcomes
            were counted.
        confidence : float, optional
            Another one than that of the audit.
        of : {"process", "records"}, default="process"
            Whether the records are a sample of what the rates are of, or are everybody: intervals
            are of the noise alone then.

        Returns
        -------
        tuple of GroupRate
            One a group.
        """
        metric = metric or self._shown_by
        level = self.confidence if confidence is None else open_unit(confidence, "confidence")
        self._check_metric(metric, self._counts_of(of).metrics)
        rates = []
        for place, label in enumerate(self.group_labels):
            one = self._interval(metric, of, (place,), level)
            rates.append(GroupRate(label, metric, one.estimate, one.low, one.high))
        return tuple(rates)

    def group_sizes(self) -> tuple[GroupRate, ...]:
        """Return how many records each group has.

        Returns
        -------
        tuple of GroupRate
            Exact ones where they are public, else with an interval of the noise alone.
        """
        sizes, half = self._counted.group_sizes(), self._counted.size_error(self.confidence)
        rates = []
        for label, size in zip(self.group_labels, sizes, strict=True):
            estimate, low, high = (max(0.0, one) for one in (size, size - half, size + half))
            rates.append(GroupRate(label, "size", estimate, low, high))
        return tuple(rates)

    def calibration(self, group: Hashable) -> tuple[GroupRate, ...]:
        """Return how often records of a group are positive, by bin of scores.

        Parameters
        ----------
        group : label
            The group.

        Returns
        -------
        tuple of GroupRate
            One a bin, in order of the scores.
        """
        if not self.has_bins:
            raise InputError("calibration needs outcomes and score_edges, got an audit without.")
        place = int(places(label_column([group]), self.group_labels)[0])
        if place < 0:
            raise InputError(f"group must be one of {self.group_labels!r}, got {group!r}.")
        label, cells, rates = self.group_labels[place], (self.n_cells, self.n_cells), []
        how: Any = {"noise": self.noise, "n_cells": cells, "confidence": self.confidence}
        for no, yes in zip(*self.counts[place], strict=True):
            one = ratio_interval(yes, no, **how)
            rates.append(GroupRate(label, "calibration", one.estimate, one.low, one.high))
        return tuple(rates)

    @property
    def has_bins(self) -> bool:
        """Whether outcomes and several bins of scores were counted, as calibration needs."""
        return "auc" in self.METRICS

    def worst_groups(
        self,
        metric: str | None = None,
        *,
        leave_out: Sequence[Hashable] = (),
        min_fraction: float = 0.0,
        of: Of = "process",
    ) -> WorstGroups:
        """Return the groups, of those that are judged, that may be worst by a metric.

        Parameters
        ----------
        metric : str, optional
            As in `rates`.
        leave_out, min_fraction, of : sequence of labels, float, {"process", "records"}
            As in `verdict`.

        Returns
        -------
        WorstGroups
            A set that holds the worst judged group with the audit's confidence; an empty one where
            no group is judged.
        """
        metric, (judged, *_) = metric or self._shown_by, self._judged(leave_out, min_fraction)
        self._check_metric(metric, self._counts_of(of).metrics)
        if len(judged) < 2:
            most = histogram.OF_SCORES.get(metric, 1.0)
            unknown = Interval(math.nan, 0.0, most, self.confidence)
            return WorstGroups(metric, (), 0.0, most, unknown)
        members, (low, high), gap = worst_group_set(
            lambda level: [self._interval(metric, of, (one,), level) for one in judged],
            len(judged),
            greater_is_worse=histogram.greater_is_worse(metric),
            confidence=self.confidence,
        )
        groups = tuple(self.group_labels[judged[one]] for one in members)
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
        """Return whether all groups are treated alike enough, and each of them.

        Parameters
        ----------
        metric : str or sequence of str
            A rate of `METRICS`; or several, or "equalized_odds" (the true and the false positive
            rate): each has to pass.
        at_least : float, default=0.8
            Smallest ratio of two rates that passes; 0.8 is the four-fifths rule, which is about
            people who are selected for something.
        within : float, optional
            In place of a ratio the largest difference of two rates that passes.
        leave_out : sequence of labels, default=()
            Groups that are not judged, declared without a look at the records.
        min_fraction : float, default=0
            Groups that surely have a smaller fraction of the records are not judged; 0.02 is New
            York City's rule for hiring.
        reference : label, optional
            The group that all others are compared with; by default every pair is compared. By a
            ratio no other may be too far behind it, by a difference and in equalized odds none may
            be too far from it on either side.
        of : {"process", "records"}, default="process"
            Whether the records are a sample of what is judged, or are everybody, so that noise
            alone makes rates uncertain.

        Returns
        -------
        Verdict
            "passes" where every pair is near enough even at the far limit of its interval, "fails"
            where some pair is too far apart even at the near one, at levels that count how many
            are compared. Either is wrong with a probability of at most half the error of the
            audit's confidence. A group that noise alone could have made is not judged; whoever is
            not is named. ``groups`` has the same of each group.
        """
        metrics, margin = verdicts.metrics_of(metric), verdicts.margin_of(at_least, within)
        judged, place, scope = self._judged(leave_out, min_fraction, reference)
        counted, are_odds = self._counts_of(of), {*verdicts.ODDS} <= {*metrics}
        for one in metrics:
            self._check_metric(one, [each for each in self.METRICS if each in RATES])
        compared = [
            Comparison(
                names=self._names,
                metric=one,
                margin=margin,
                judged=judged,
                rate_of=partial(self._interval, one, of),
                counts=verdicts.Counts.of_rate(counted, one),
                confidence=self.confidence,
                reference=place,
                n_joint=len(metrics),
                both_ways=are_odds or (reference is not None and not margin.is_ratio),
            )
            for one in metrics
        ]
        if of == "records":
            scope = f" That is of these very people, not of a process that they are of.{scope}"
        return verdicts.verdict_of(compared, self.group_labels, scope)

    def __repr__(self) -> str:
        return f"AuditResult({len(self.group_labels)} groups, epsilon={rounded_up(self.epsilon)})"

    def __str__(self) -> str:
        """Return a line a group, for people."""
        no, yes = self.classes
        shown = ("base_rate", "selection_rate", "error_rate")
        listed = {one: self.rates(one) for one in shown if one in self.METRICS}
        rows = [["group", "size", *listed]]
        for place, size in enumerate(self.group_sizes()):
            rates = [each[place] for each in listed.values()]
            cells = [f"{one.estimate:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in rates]
            rows.append([words.text_of(size.group), f"{size.estimate:,.0f}", *cells])
        return "\n".join([f"Selected is {yes!r}, and not {no!r}.", "", *words.table(rows)])

    # What all of this is made of.

    @property
    def _shown_by(self) -> str:
        """What groups are shown by where nobody says: errors, if outcomes were counted."""
        return "error_rate" if self.has_outcomes else "selection_rate"

    @cached_property
    def _counted(self) -> Histogram:
        edges, first = self.score_edges, 1
        if edges is not None and self.threshold is not None:
            first = edges.index(self.threshold) + 1
        counts = np.array(self.counts, dtype=np.int64)
        ends = None if edges is None else (0.0, *edges, 1.0)
        return Histogram(counts, first, self.noise, self.sizes, self.n_cells, ends)

    def _counts_of(self, of: Of) -> Histogram:
        """Return the counts, as of a sample or of everybody."""
        if of not in ("process", "records"):
            raise InputError(f"of must be 'process' or 'records', got {of!r}.")
        return self._counted if of == "process" else replace(self._counted, is_sample=False)

    @cached_property
    def _known(self) -> dict[Any, Interval]:
        return {}

    def _interval(
        self, metric: str, of: Of, groups: tuple[int, ...], confidence: float
    ) -> Interval:
        """Return the interval of a metric in some groups together."""
        key = (metric, of, groups, confidence)
        if key not in self._known:
            counted, place = self._counts_of(of), groups[0]
            if len(groups) > 1:
                counted, place = counted.pooled(groups), 0
            self._known[key] = counted.interval(metric, place, confidence)
        return self._known[key]

    def _check_metric(self, metric: str, known: Sequence[str]) -> None:
        """Refuse what does not follow from the counts."""
        if metric not in known:
            listed = f"one of {', '.join(known)}"
            if not self.has_outcomes:
                listed = f"{known[0]}, all that decisions without outcomes tell"
            raise InputError(f"metric must be {listed}, got {metric!r}.")

    def _overall(self, metric: str) -> float:
        """Return a rate of all groups together, NaN of what is no rate."""
        everybody = tuple(range(len(self.group_labels)))
        return self._counted.pooled(everybody).fraction(metric, 0) if metric in RATES else math.nan

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The groups as they stand in sentences."""
        return tuple(map(words.in_sentence, words.texts_of(self.group_labels)))

    def _judged(
        self, leave_out: Any = (), min_fraction: float = 0.0, reference: Hashable = None
    ) -> tuple[tuple[int, ...], int | None, str]:
        """Return the groups that are judged, the reference, and in words who is not, and why."""
        named, reference = left_out_by_name(self.group_labels, leave_out, min_fraction, reference)
        place = None if reference is None else self.group_labels.index(reference)
        reasons = self._left_out(named, min_fraction)
        if place is not None:
            reasons.pop(place, None)
        judged = tuple(one for one in range(len(self.group_labels)) if one not in reasons)
        if len(judged) < 2:
            reasons |= dict.fromkeys(judged, "nobody is left to compare them with")
            judged, place = (), None
        scope = ""
        for why in dict.fromkeys(reasons[one] for one in sorted(reasons)):
            out = [self._names[one] for one in sorted(reasons) if reasons[one] == why]
            scope += f" Not judged, as {why}: {words.listed(out)}."
        return judged, place, scope

    def _left_out(self, named: list[Hashable], min_fraction: float) -> dict[int, str]:
        """Return for each group that is not judged the reason, which names public numbers."""
        sizes = self._counted.group_sizes()
        half, surely = (self._counted.size_error(one) for one in (self.confidence, _SURELY))
        # an empty group is below this but for one time in 200,000
        least = max(_SMALLEST_GROUP, math.ceil(half + surely) + 1)
        reasons: dict[int, str] = {}
        for place, (label, size) in enumerate(zip(self.group_labels, sizes, strict=True)):
            if label in named:
                reasons[place] = "they are left out on request"
            elif size + half < least:
                reasons[place] = f"they have fewer than {least} people"
            elif size + half < min_fraction * sum(sizes):
                reasons[place] = f"they have less than {100 * min_fraction:g} % of the people"
        return reasons

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for a pickle, without what was computed of them."""
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
