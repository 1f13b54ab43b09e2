"""What an audit released, and everything that follows from it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import open_unit, read_json, whole_number
from sklearn_dpwg.data.frames import label_column, places
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import comparisons, verdicts
from sklearn_dpwg.inspection.attributes import results_by_attribute
from sklearn_dpwg.inspection.audit_rows import left_out_by_name, threshold_and_edges, two_classes
from sklearn_dpwg.inspection.verdicts import (
    OF_DECISIONS,
    RATES,
    GroupRate,
    LossSums,
    Verdict,
    WorstGroups,
)
from sklearn_dpwg.inspection.words import in_line
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.metrics.intervals import Interval, ratio_interval, worst_group_set
from sklearn_dpwg.privacy import Budget, IntegerNoise, PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    import pandas as pd

# Whether the records are a sample of what the rates are of, or are everybody.
Of = Literal["process", "records"]
_OF_RECORDS = " That is of these very people, not of a process that they are a sample of."
# Estimated records below so many deviations of their noise tell next to nothing.
_LOUD = 3.0
# Categories of a smaller share may be left out, and have a note: 6 RCNY 5-301(d).
_SMALL_SHARE = 0.02
# Fields in the order of the JSON object.
_IN_JSON = (
    *("group_name", "threshold", "confidence", "created", "n_cells", "epsilon", "privacy_"),
    *("model_privacy_", "group_labels", "classes", "counts", "sizes", "score_edges", "noise"),
    *("versions", "losses", "n_records"),
)


class _Metrics:
    """All rates of the class; of a result those that its counts tell."""

    def __get__(self, result: AuditResult | None, owner: type | None = None) -> tuple[str, ...]:
        return tuple(RATES) if result is None or result.has_outcomes else OF_DECISIONS


@dataclass(frozen=True)
class AuditResult:
    """Counts that an audit released, with the rates, ratios and verdicts that follow from them.

    It holds released numbers only, so whatever is made of it costs no privacy. Made by
    `GroupAudit.run`.

    Parameters
    ----------
    group_labels : tuple of labels
        The groups.
    group_name : str
        What the groups are made of, in words.
    classes : tuple of two classes
        The negative and the positive class.
    counts : tuple
        For each group and class the count of records in each bin of scores, with noise; so counts
        may be negative. Of decisions without outcomes there is one such tuple a group.
    noise : IntegerNoise or None
        Law of the noise on every count; None where there is none and nothing is private.
    sizes : tuple of int or None
        Exact sizes of the groups where they are public.
    threshold : float or None
        Scores from here on predict the positive class; None where there were decisions, no scores.
    score_edges : tuple of float or None
        Inner edges of the bins, the threshold among them; None where it is the only one.
    confidence : float
        Probability of every interval to hold the truth.
    privacy_ : PrivacyGuarantee
        What the audit costs, with the model that was fitted to the same records, if one was.
    model_privacy_ : PrivacyGuarantee or None
        What that model costs alone.
    created : str
        Date, in ISO form.
    versions : mapping from str to str
        Versions of the libraries.
    losses : tuple of LossSums, default=()
        What was released of losses.
    n_cells : int, default=1
        Of how many noisy numbers each count is the sum; more than one where several models were
        audited at once.
    epsilon : float, default=inf
        ε that was asked for this audit alone.
    n_records : int or None, default=None
        Public number of records, where it is known.

    See Also
    --------
    GroupAudit : Makes results.

    Notes
    -----
    Intervals cover that the records are a sample and that counts are noisy: they invert exact
    tests with the law of the noise; those of mean losses do so for the most skewed losses of the
    same variance, and their coverage was measured. Each holds by itself.

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
    created: str
    versions: Mapping[str, str]
    losses: tuple[LossSums, ...] = ()
    n_cells: int = 1
    epsilon: float = math.inf
    n_records: int | None = None
    # of what ``privacy_`` states; a result that was stored has them all in one
    _costs: ClassVar[tuple[StartCost, ...]] = ()

    METRICS: ClassVar[_Metrics] = _Metrics()

    @property
    def has_outcomes(self) -> bool:
        """Whether outcomes were counted beside decisions; without them no error is known."""
        return not self.counts or len(self.counts[0]) == 2

    @property
    def is_private(self) -> bool:
        """Whether noise protects the records."""
        return self.noise is not None

    def cells(self) -> NDArray[np.int64]:
        """Return the counts of truth and prediction.

        Returns
        -------
        ndarray of shape (n_groups, 2, 2)
            Counts with noise, by group, class and predicted class; of shape (n_groups, 1, 2)
            without outcomes.
        """
        return self._counted.cells.copy()

    def by_attribute(self) -> dict[str, AuditResult]:
        """Return the same release by each attribute, where groups are cells of several.

        Returns
        -------
        dict from str to AuditResult
            A result an attribute, by its name, or its place where columns had no names. It costs
            no more privacy. Intervals and verdicts hold by themselves, as those of several metrics.
            Every combination of values has to be a group, as ``itertools.product`` lists them.
        """
        return results_by_attribute(self)

    def rates(
        self,
        metric: str | None = None,
        *,
        confidence: float | None = None,
        family: Literal["groups"] | int = 1,
        of: Of = "process",
    ) -> tuple[GroupRate, ...]:
        """Return a rate, or the mean of a loss, of each group.

        Parameters
        ----------
        metric : str, optional
            One of `METRICS`, or the name of a loss of the audit; by default the error rate, or the
            selection rate where no outcomes were counted.
        confidence : float, optional
            Another one than that of the audit.
        family : "groups" or int, default=1
            How many intervals are to hold together, with that confidence: those of all groups, or
            a number, such as that of groups times that of metrics that are shown.
        of : {"process", "records"}, default="process"
            Whether the records are a sample of what the rates are of, or are everybody: intervals
            are of the noise alone then.

        Returns
        -------
        tuple of GroupRate
            One a group, with a note where little is known.
        """
        metric = metric or default_metric([self])
        level = self.confidence if confidence is None else confidence
        n = len(self.group_labels) if family == "groups" else family
        level = 1.0 - (1.0 - open_unit(level, "confidence")) / whole_number(n, "family", least=1)
        groups = range(len(self.group_labels))
        return self._named(metric, metric, [self._interval(metric, g, level, of) for g in groups])

    def group_sizes(self) -> tuple[GroupRate, ...]:
        """Return how many records each group has.

        Returns
        -------
        tuple of GroupRate
            Exact ones where they are public, else with an interval of the noise alone, and a note
            for groups of less than 2 % of the records.
        """
        sizes, half = self._counted.group_sizes(), self._counted.size_error(self.confidence)
        least = _SMALL_SHARE * sum(sizes)
        return tuple(
            GroupRate(
                label,
                "size",
                max(0.0, size),
                max(0.0, size - half),
                max(0.0, size + half),
                "under 2 % of the records" if size < least else "",
            )
            for label, size in zip(self.group_labels, sizes, strict=True)
        )

    def impact_ratios(
        self,
        metric: str = "selection_rate",
        at_least: float | None = None,
        *,
        confidence: float | None = None,
        **which: Any,
    ) -> tuple[GroupRate, ...]:
        """Return each group's rate over that of the group that is best off, whichever that is.

        Of a harm, such as an error rate, it is the smallest rate over the group's own: 1 is best.

        Parameters
        ----------
        metric : str
            One of `METRICS`.
        at_least : float, default=0.8
            What the ratios will be held against; upper limits are the sharpest there.
        confidence : float, optional
            Another one than that of the audit.
        **which
            Which groups are compared, and of whom the rates are, as in `verdict`.

        Returns
        -------
        tuple of GroupRate
            One a group.
        """
        ratios = self._comparison(metric, at_least, confidence=confidence, **which).contrasts
        return self._named(f"{metric} ratio", metric, ratios)

    def differences(
        self,
        metric: str = "selection_rate",
        within: float = 0.1,
        *,
        confidence: float | None = None,
        **which: Any,
    ) -> tuple[GroupRate, ...]:
        """Return by how much each group is behind the one that is best off, whichever that is.

        With a ``reference`` it is how far each group is from that one, above or below.

        Parameters
        ----------
        metric : str
            One of `METRICS`. Of a harm, such as an error rate, the group with more is behind.
        within : float, default=0.1
            What the differences will be held against; lower limits are the sharpest there.
        confidence : float, optional
            Another one than that of the audit.
        **which
            Which groups are compared, and of whom the rates are, as in `verdict`.

        Returns
        -------
        tuple of GroupRate
            One a group: the larger rate of two less the smaller one.
        """
        compared = self._comparison(metric, None, within=within, confidence=confidence, **which)
        found = [  # not −0.0
            Interval(0.0 - c.estimate, 0.0 - c.high, 0.0 - c.low, c.confidence)
            for c in compared.contrasts
        ]
        return self._named(f"{metric} difference", metric, found)

    def worst_groups(self, metric: str | None = None, **which: Any) -> WorstGroups:
        """Return the groups, of those that are judged, that may be worst by a metric.

        Parameters
        ----------
        metric : str, optional
            As in `rates`.
        **which
            Which groups are judged, and of whom the rates are, as in `verdict`.

        Returns
        -------
        WorstGroups
            A set that holds the worst judged group with the audit's confidence; an empty one where
            no group is judged.
        """
        metric, of = metric or default_metric([self]), which.get("of", "process")
        judged = self._comparison(self.METRICS[0], None, **which).judged
        if not judged:
            most = self._losses[metric].bound if metric in self._losses else 1.0
            unknown = Interval(math.nan, 0.0, most, self.confidence)
            return WorstGroups(metric, (), 0.0, most, unknown)
        found = worst_group_set(
            [partial(self._interval, metric, i, of=of) for i in judged],
            greater_is_worse=verdicts.greater_is_worse(metric),
            confidence=self.confidence,
        )
        groups = tuple(self.group_labels[judged[i]] for i in found.members)
        return WorstGroups(metric, groups, found.value_low, found.value_high, found.gap)

    def group_verdicts(
        self,
        metric: str | Sequence[str] = "selection_rate",
        at_least: float | None = None,
        **which: Any,
    ) -> tuple[Verdict, ...]:
        """Return whether each group is too far from the best-off one.

        Parameters
        ----------
        metric : str or sequence of str
            As in `verdict`.
        at_least : float, default=0.8
            Smallest ratio that passes.
        **which
            A difference that passes, ``within=``, and the rest as in `verdict`.

        Returns
        -------
        tuple of Verdict
            One a group: where one fails, all together fail.
        """
        compared = self._comparisons(metric, at_least, **which)
        return tuple(
            comparisons.together(compared, group) for group in range(len(self.group_labels))
        )

    def verdict(
        self,
        metric: str | Sequence[str] = "selection_rate",
        at_least: float | None = None,
        *,
        within: float | None = None,
        leave_out: Sequence[Hashable] = (),
        min_share: float = 0.0,
        reference: Hashable = None,
        of: Of = "process",
    ) -> Verdict:
        """Return whether every two groups' rates are near enough to each other, or cannot be told.

        Parameters
        ----------
        metric : str or sequence of str
            One of `METRICS`; of a harm, such as an error rate, large values are the bad ones. Of
            several, or "equalized_odds" (the true and the false positive rate), every one has to
            pass, and the sentence is about the one that decides.
        at_least : float, default=0.8
            Smallest ratio of the smaller rate to the larger that passes; 0.8 is the rule of four
            fifths.
        within : float, optional
            In place of a ratio the largest difference of two rates that passes.
        leave_out : sequence of labels, default=()
            Groups that are not judged, declared without a look at the records.
        min_share : float, default=0
            Groups that surely have a smaller share of the records are not judged; 0.02 is New York
            City's rule for hiring.
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
            not is named.
        """
        which: dict[str, Any] = {"leave_out": leave_out, "min_share": min_share, "of": of}
        which |= {"within": within, "reference": reference}
        return comparisons.together(self._comparisons(metric, at_least, **which))

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
        if self.score_edges is None:
            raise InputError("calibration needs an audit with score_edges, got one without.")
        place = int(places(label_column([group]), self.group_labels)[0])
        if place < 0:
            raise InputError(f"group must be one of {self.group_labels!r}, got {group!r}.")
        negatives, positives = self.counts[place]
        cells = (self.n_cells, self.n_cells)
        rate = partial(ratio_interval, noise=self.noise, n_cells=cells, confidence=self.confidence)
        return tuple(
            GroupRate(group, "calibration", one.estimate, one.low, one.high)
            for one in starmap(rate, zip(positives, negatives, strict=True))
        )

    def table(self) -> pd.DataFrame:
        """Return a row a group.

        Returns
        -------
        DataFrame
            Size, rates that are there, and impact ratio of selection, each with its limits, and a
            note; the columns are named by the positive class.
        """
        import pandas as pd

        names = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")
        listed = {"size": self.group_sizes()}
        there = [name for name in names if name in self.METRICS]
        listed |= {metric: self.rates(metric) for metric in (*there, *self._losses)}
        listed["impact_ratio"] = self.impact_ratios()
        columns: dict[str, list[Any]] = {}
        for name, rates in listed.items():
            for end, said in (("estimate", ""), ("low", "_low"), ("high", "_high")):
                columns[f"{name}{said}"] = [getattr(rate, end) for rate in rates]
        notes = zip(listed["size"], listed["selection_rate"], strict=True)
        columns["note"] = ["; ".join(filter(None, (a.note, b.note))) for a, b in notes]
        index = pd.Index(self.group_labels, tupleize_cols=False, dtype=object, name=self.group_name)
        table = pd.DataFrame(columns, index=index)
        return table.rename_axis(columns=f"positive: {self.classes[1]}")

    def __repr__(self) -> str:
        return f"AuditResult({len(self.group_labels)} groups, epsilon={rounded_up(self.epsilon)})"

    def __str__(self) -> str:
        """Return the verdict and a line a group, for people."""
        listed = {"size": self.group_sizes(), "impact_ratio": self.impact_ratios()}
        shown = dict.fromkeys(["selection_rate", default_metric([self])])
        listed |= {name: self.rates(name) for name in shown}
        no, yes = self.classes
        selected = f"Selected is {yes!r}, and not {no!r}."
        return "\n".join([str(self.verdict()), selected, "", *verdicts.in_lines(listed)])

    def to_json(self) -> str:
        """Return the result as a JSON object.

        Returns
        -------
        str
            Standard JSON with everything that was released.
        """
        plain = {name: getattr(self, name) for name in _IN_JSON}
        plain["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        for name in ("group_labels", "classes"):
            plain[name] = [_label_to_plain(label) for label in plain[name]]
        return json.dumps(plain, allow_nan=False, indent=1, default=_to_plain)

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
        with read_json(cls, text, _IN_JSON) as described:
            return cls(**_from_plain(described))

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for a pickle, without what was computed of them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _known(self) -> dict[Any, Interval]:
        return {}

    @cached_property
    def _compared(self) -> dict[Any, comparisons.Comparison]:
        return {}

    @cached_property
    def _counted(self) -> verdicts.CountedRates:
        counts = np.array(self.counts, dtype=np.int64)
        positive = 1
        if self.score_edges is not None and self.threshold is not None:
            positive = counts.shape[2] - 1 - self.score_edges.index(self.threshold)
        split = counts.shape[2] - positive
        parts = (counts[:, :, :split], counts[:, :, split:])
        cells = np.stack([part.sum(axis=2) for part in parts], axis=2)
        n_noisy = (split * self.n_cells, positive * self.n_cells)
        return verdicts.CountedRates(cells, n_noisy, self.noise, self.sizes)

    @cached_property
    def _losses(self) -> dict[str, LossSums]:
        return {loss.name: loss for loss in self.losses}

    def _named(
        self, name: str, metric: str, intervals: Iterable[Interval]
    ) -> tuple[GroupRate, ...]:
        return tuple(
            GroupRate(label, name, one.estimate, one.low, one.high, self._note(metric, i))
            for i, (label, one) in enumerate(zip(self.group_labels, intervals, strict=True))
        )

    def _interval(self, metric: str, group: int, confidence: float, of: Of = "process") -> Interval:
        key = (metric, group, confidence, of)
        if key not in self._known:
            self._known[key] = self._compute(metric, group, confidence, of)
        return self._known[key]

    def _compute(self, metric: str, group: int, confidence: float, of: Of) -> Interval:
        if metric in self._losses and of == "process":
            return verdicts.mean_interval(self._losses[metric], group, self._counted, confidence)
        self._check_metric(metric, self._losses if of == "process" else ())
        return self._counts_of(of).interval(metric, group, confidence)

    def _counts_of(self, of: Of) -> verdicts.CountedRates:
        """Return the counts, as of a sample or of everybody."""
        if of not in ("process", "records"):
            raise InputError(f"of must be 'process' or 'records', got {of!r}.")
        return replace(self._counted, is_sample=of == "process")

    def _check_metric(self, metric: str, losses: Iterable[str] = ()) -> None:
        """Refuse a rate that does not follow from the counts."""
        if metric in self.METRICS:
            return
        known = f"one of {', '.join([*self.METRICS, *losses])}"
        if not self.has_outcomes:
            known = f"{self.METRICS[0]}, all that decisions without outcomes tell"
        raise InputError(f"metric must be {known}, got {metric!r}.")

    def _note(self, metric: str, group: int) -> str:
        if metric not in RATES:
            return ""
        rate = RATES[metric]
        total, n_noisy = self._counted.total(group, (*rate.hits, *rate.misses))
        if self.sizes is not None and rate.is_of_all:
            return "" if self.sizes[group] else "no records"
        if self.noise is None:
            return "" if total else "no records"
        loud = total < _LOUD * self.noise.std * math.sqrt(n_noisy)
        return "fewer than three noise deviations" if loud else ""

    def _comparisons(
        self, metric: str | Sequence[str], at_least: float | None, **which: Any
    ) -> list[comparisons.Comparison]:
        """Return the comparison of each metric, which share the error of "fails"."""
        metrics = verdicts.metrics_of(metric)
        if not self.has_outcomes:  # the refusal names what was asked
            for name in [metric] if isinstance(metric, str) else metric:
                self._check_metric(name)
        given = which | ({"joint": metrics} if len(metrics) > 1 else {})
        return [self._comparison(one, at_least, **given) for one in metrics]

    def _comparison(
        self,
        metric: str,
        at_least: float | None,
        *,
        within: float | None = None,
        leave_out: Sequence[Hashable] = (),
        min_share: float = 0.0,
        reference: Hashable = None,
        confidence: float | None = None,
        of: Of = "process",
        joint: Sequence[str] = (),
    ) -> comparisons.Comparison:
        """Return all pairs of groups as `verdict` compares them, by one of the joint metrics."""
        self._check_metric(metric)
        named, reference = left_out_by_name(self.group_labels, leave_out, min_share, reference)
        margin = comparisons.margin_of(at_least, within)
        level = self.confidence if confidence is None else open_unit(confidence, "confidence")
        key = (metric, margin, tuple(named), min_share, reference, level, of, tuple(joint))
        if key in self._compared:
            return self._compared[key]
        reasons = self._left_out(named, min_share)
        texts = tuple(map(in_line, self.group_labels))
        place = None if reference is None else self.group_labels.index(reference)
        reasons = {why: [one for one in these if one != place] for why, these in reasons.items()}
        out = _places(reasons)
        judged = tuple(one for one in range(len(texts)) if one not in out)
        if len(judged) < 2:
            reasons["nobody is left to compare them with"], judged = [*judged], ()
            place = None
        both_ways = comparisons.are_both_ways(margin, place, joint)
        alone = f"alone{', above it or below' * both_ways}"
        found = comparisons.Comparison(
            labels=texts,
            metric=metric,
            margin=margin,
            judged=judged,
            left_out=_OF_RECORDS * (of == "records")
            + ("" if place is None else f" Each group is compared with {texts[place]} {alone}.")
            + comparisons.not_judged(
                [(why, [texts[one] for one in these]) for why, these in reasons.items()]
            ),
            rate_of=partial(self._pooled, metric, of),
            counts=self._counts_of(of).arrays(metric),
            confidence=level,
            reference=place,
            n_joint=max(len(joint), 1),
            both_ways=both_ways,
        )
        return self._compared.setdefault(key, found)

    def _left_out(self, named: list[Hashable], min_share: float) -> dict[str, list[int]]:
        """Return the groups that are not judged by reason, which names public numbers."""
        sizes = self._counted.group_sizes()
        half, least = self._counted.fewest_judged(self.confidence)
        share = min_share * sum(sizes)
        reasons: dict[str, list[int]] = {
            "they are left out on request": [],
            f"they have fewer than {least} people": [],
            f"they have less than {100 * min_share:g} % of the people": [],
        }
        declared, few, small = reasons.values()
        for place, (label, size) in enumerate(zip(self.group_labels, sizes, strict=True)):
            if label in named:
                declared.append(place)
            elif size + half < least:
                few.append(place)
            elif size + half < share:
                small.append(place)
        return reasons

    def _pooled(self, metric: str, of: Of, groups: tuple[int, ...], confidence: float) -> Interval:
        if len(groups) == 1:
            return self._interval(metric, groups[0], confidence, of)
        key = (metric, groups, confidence, of)
        if key not in self._known:
            self._known[key] = self._counts_of(of).pooled(groups).interval(metric, 0, confidence)
        return self._known[key]


def default_metric(results: Iterable[AuditResult]) -> str:
    """Return what groups are shown by where nobody says: errors, if outcomes were counted."""
    return "error_rate" if all(one.has_outcomes for one in results) else "selection_rate"


def _places(reasons: Mapping[str, Sequence[int]]) -> set[int]:
    return {place for places in reasons.values() for place in places}


# Results as plain values, and back.


def _to_plain(value: Any) -> Any:
    return json.loads(value.to_json()) if isinstance(value, PrivacyGuarantee) else asdict(value)


def _from_plain(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a result, each checked."""
    found = {name: _in_tuples(value) for name, value in plain.items()}
    found["group_labels"] = tuple(map(_label_from_plain, plain["group_labels"]))
    found["classes"] = two_classes([_label_from_plain(label) for label in plain["classes"]])
    for name in ("privacy_", "model_privacy_"):
        if plain[name] is not None or name == "privacy_":
            found[name] = PrivacyGuarantee.from_json(json.dumps(plain[name]))
    if plain["noise"] is not None:
        found["noise"] = IntegerNoise(**plain["noise"])
    losses = ({name: _in_tuples(value) for name, value in one.items()} for one in plain["losses"])
    found["losses"] = tuple(LossSums(**one) for one in losses)
    found["epsilon"] = Budget(float(plain["epsilon"]), 0.5).epsilon
    open_unit(plain["confidence"], "confidence")
    whole_number(plain["n_cells"], "n_cells", least=1)
    if plain["threshold"] is not None:
        threshold_and_edges(plain["threshold"], plain["score_edges"])
    n_groups, numbers = len(found["group_labels"]), np.array(plain["counts"])
    n_classes = numbers.shape[1:2]
    are_counts = numbers.dtype.kind == "i" and numbers.ndim == 3 and n_classes in ((1,), (2,))
    if not are_counts or len(numbers) != n_groups or numbers.shape[2] < 2:
        raise InputError(f"counts must be whole numbers of {n_groups} groups by class and bin.")
    if plain["sizes"] is not None and len(plain["sizes"]) != n_groups:
        raise InputError(f"sizes must be of {n_groups} groups, got {len(plain['sizes'])}.")
    for name in ("created", "group_name"):
        if not isinstance(plain[name], str):
            raise InputError(f"{name} must be text, got {plain[name]!r}.")
    return found


def _in_tuples(value: Any) -> Any:
    return tuple(map(_in_tuples, value)) if isinstance(value, list) else value


def _label_to_plain(label: Hashable) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label_to_plain(part) for part in label]}
    return label


def _label_from_plain(plain: Any) -> Hashable:
    if isinstance(plain, dict):
        return tuple(_label_from_plain(part) for part in plain["tuple"])
    found: Hashable = plain
    return found
