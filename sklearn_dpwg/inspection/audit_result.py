"""What an audit released, and everything that follows from it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._stored import Stored, reading, stamp
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import verdicts, words
from sklearn_dpwg.inspection.audit_rows import left_out_by_name, smallest_ratio
from sklearn_dpwg.inspection.comparisons import Comparison, not_judged
from sklearn_dpwg.inspection.verdicts import (
    OF_DECISIONS,
    RATES,
    GroupRate,
    LossSums,
    Verdict,
    WorstGroups,
)
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.metrics.intervals import Interval, ratio_interval, worst_group_set
from sklearn_dpwg.privacy import IntegerNoise, PrivacyGuarantee

if TYPE_CHECKING:
    import pandas as pd


# Estimated records below so many deviations of their noise tell next to nothing.
_LOUD = 3.0
# Categories of a smaller share may be left out, and have a note: 6 RCNY 5-301(d).
_SMALL_SHARE = 0.02
# Groups of fewer people are not judged, nor are those that noise alone may have made.
_FEWEST = 10
_SURELY = 0.99999
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
class AuditResult(Stored):
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
        Public number of records; None if an earlier version did not keep it.

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
    _younger: ClassVar[tuple[str, ...]] = ("n_records",)
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

    def rates(
        self, metric: str | None = None, *, confidence: float | None = None
    ) -> tuple[GroupRate, ...]:
        """Return a rate, or the mean of a loss, of each group.

        Parameters
        ----------
        metric : str, optional
            One of `METRICS`, or the name of a loss of the audit; by default the error rate, or the
            selection rate where no outcomes were counted.
        confidence : float, optional
            Another one than that of the audit.

        Returns
        -------
        tuple of GroupRate
            One a group, with a note where little is known.
        """
        metric = metric or default_metric([self])
        return self._named(metric, metric, self._intervals(metric, confidence))

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
        at_least: float = 0.8,
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
        at_least : float
            What the ratios will be held against; upper limits are the sharpest there.
        confidence : float, optional
            Another one than that of the audit.
        **which
            Which groups are compared, as in `verdict`.

        Returns
        -------
        tuple of GroupRate
            One a group.
        """
        ratios = self._comparison(metric, at_least, confidence=confidence, **which).ratios
        return self._named(f"{metric} ratio", metric, ratios)

    def worst_groups(self, metric: str | None = None) -> WorstGroups:
        """Return the groups that may be worst by a metric.

        Parameters
        ----------
        metric : str, optional
            As in `rates`.

        Returns
        -------
        WorstGroups
            A set that holds the worst group with the audit's confidence.
        """
        metric = metric or default_metric([self])
        found = worst_group_set(
            [partial(self._interval, metric, i) for i in range(len(self.group_labels))],
            greater_is_worse=verdicts.greater_is_worse(metric),
            confidence=self.confidence,
        )
        groups = tuple(self.group_labels[i] for i in found.members)
        return WorstGroups(metric, groups, found.value_low, found.value_high, found.gap)

    def group_verdicts(
        self, metric: str = "selection_rate", at_least: float = 0.8, **which: Any
    ) -> tuple[Verdict, ...]:
        """Return whether each group is too far from the best-off one.

        Parameters
        ----------
        metric : str
            One of `METRICS`.
        at_least : float
            Smallest ratio that passes; 0.8 is the rule of four fifths.
        **which
            Which groups are compared, as in `verdict`.

        Returns
        -------
        tuple of Verdict
            One a group: where one fails, all together fail.
        """
        return self._comparison(metric, at_least, **which).group_verdicts()

    def verdict(
        self,
        metric: str = "selection_rate",
        at_least: float = 0.8,
        *,
        leave_out: Sequence[Hashable] = (),
        min_share: float = 0.0,
        reference: Hashable = None,
    ) -> Verdict:
        """Return whether every ratio of two groups' rates is large enough, or cannot be told.

        Parameters
        ----------
        metric : str
            One of `METRICS`. Of a harm, such as an error rate, large values are the bad ones.
        at_least : float
            Smallest ratio of the smaller rate to the larger that passes; 0.8 is the rule of four
            fifths.
        leave_out : sequence of labels, default=()
            Groups that are not judged, declared without a look at the records.
        min_share : float, default=0
            Groups that surely have a smaller share of the records are not judged; 0.02 is New York
            City's rule for hiring.
        reference : label, optional
            The group that all others are compared with; by default every pair is compared.

        Returns
        -------
        Verdict
            "passes" where for every pair the lower limit is large enough, "fails" where some upper
            limit is too small, at levels that count how many are compared. Either is wrong with a
            probability of at most half the error of the audit's confidence. A group that noise
            alone could have made is not judged; whoever is not is named.

        Raises
        ------
        ValueError
            If a parameter is wrong.
        """
        which: dict[str, Any] = {"leave_out": leave_out, "min_share": min_share}
        return self._comparison(metric, at_least, reference=reference, **which).of_all()

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

        Raises
        ------
        ValueError
            If the audit had no ``score_edges``, or no such group.
        """
        if self.score_edges is None:
            raise InputError("calibration needs an audit with score_edges, got one without.")
        if group not in self.group_labels:
            raise InputError(f"group must be one of {self.group_labels!r}, got {group!r}.")
        negatives, positives = self.counts[self.group_labels.index(group)]
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
            note.
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
        return pd.DataFrame(columns, index=index)

    def __repr__(self) -> str:
        return f"AuditResult({len(self.group_labels)} groups, epsilon={self.epsilon:g})"

    def __str__(self) -> str:
        """Return the verdict and a line a group, for people."""
        listed = {"size": self.group_sizes(), "impact_ratio": self.impact_ratios()}
        shown = dict.fromkeys(["selection_rate", default_metric([self])])
        listed |= {name: self.rates(name) for name in shown}
        return "\n".join([str(self.verdict()), "", *_in_lines(listed)])

    def to_json(self) -> str:
        """Return the result as a JSON object.

        Returns
        -------
        str
            Standard JSON with everything that was released.
        """
        plain = stamp(self) | {name: getattr(self, name) for name in _IN_JSON}
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

        Raises
        ------
        StoredFormatError
            If another version wrote it, in a format that this one does not read.
        """
        with reading(cls, text, _IN_JSON) as described:
            return cls(**_from_plain(described))

    @cached_property
    def _known(self) -> dict[Any, Interval]:
        return {}

    @cached_property
    def _compared(self) -> dict[Any, Comparison]:
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

    def _intervals(self, metric: str, confidence: float | None) -> tuple[Interval, ...]:
        level = self.confidence if confidence is None else confidence
        return tuple(self._interval(metric, i, level) for i in range(len(self.group_labels)))

    def _interval(self, metric: str, group: int, confidence: float) -> Interval:
        key = (metric, group, confidence)
        if key not in self._known:
            self._known[key] = self._compute(metric, group, confidence)
        return self._known[key]

    def _compute(self, metric: str, group: int, confidence: float) -> Interval:
        if metric in self._losses:
            return verdicts.mean_interval(self._losses[metric], group, self._counted, confidence)
        self._check_metric(metric, self._losses)
        return self._counted.interval(metric, group, confidence)

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

    def _comparison(
        self,
        metric: str,
        at_least: float,
        *,
        leave_out: Sequence[Hashable] = (),
        min_share: float = 0.0,
        reference: Hashable = None,
        confidence: float | None = None,
    ) -> Comparison:
        """Return all pairs of groups as `verdict` compares them."""
        self._check_metric(metric)
        named = left_out_by_name(self.group_labels, leave_out, min_share, reference)
        least, level = (
            smallest_ratio(at_least),
            self.confidence if confidence is None else confidence,
        )
        key = (metric, least, tuple(named), min_share, reference, level)
        if key not in self._compared:
            self._compared[key] = self._compare(metric, least, named, min_share, reference, level)
        return self._compared[key]

    def _compare(
        self,
        metric: str,
        at_least: float,
        named: list[Hashable],
        min_share: float,
        reference: Hashable,
        confidence: float,
    ) -> Comparison:
        reasons = self._left_out(named, min_share)
        texts = tuple(map(str, self.group_labels))
        out = {place for places in reasons.values() for place in places}
        place = None if reference is None else self.group_labels.index(reference)
        judged = tuple(one for one in range(len(texts)) if one not in out or one == place)
        return Comparison(
            labels=texts,
            metric=metric,
            at_least=at_least,
            judged=judged,
            left_out=not_judged(
                [(why, [texts[one] for one in places]) for why, places in reasons.items()]
            ),
            rate_of=partial(self._pooled, metric),
            counts=self._counted.arrays(metric),
            confidence=confidence,
            reference=place,
        )

    def _left_out(self, named: list[Hashable], min_share: float) -> dict[str, list[int]]:
        """Return the groups that are not judged by reason, which names public numbers."""
        sizes, half = self._counted.group_sizes(), self._counted.size_error(self.confidence)
        # an empty group is below this but for one time in 200,000
        least = max(_FEWEST, math.ceil(half + self._counted.size_error(_SURELY)) + 1)
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

    def _pooled(self, metric: str, groups: tuple[int, ...], confidence: float) -> Interval:
        if len(groups) == 1:
            return self._interval(metric, groups[0], confidence)
        key = (metric, groups, confidence)
        if key not in self._known:
            self._known[key] = self._counted.pooled(groups).interval(metric, 0, confidence)
        return self._known[key]


def default_metric(results: Iterable[AuditResult]) -> str:
    """Return what groups are shown by where nobody says: errors, if outcomes were counted."""
    return "error_rate" if all(one.has_outcomes for one in results) else "selection_rate"


def overall_rate(result: AuditResult, metric: str) -> float | None:
    """Return a rate of all groups together, from the same released counts; None for a loss."""
    if metric not in result.METRICS:
        return None
    together = result._counted.pooled(tuple(range(len(result.group_labels))))
    hits, misses = (
        together.total(0, cells)[0] for cells in (RATES[metric].hits, RATES[metric].misses)
    )
    total = hits + misses
    return min(1.0, max(0.0, hits / total)) if total > 0 else None


def _in_lines(listed: dict[str, tuple[GroupRate, ...]]) -> list[str]:
    """Return a line a group: each number with the limits of its interval."""
    groups = zip(*listed.values(), strict=True)
    named = ([words.text_of(row[0].group), *map(_cell, row)] for row in groups)
    return words.table([["group", *listed], *named])


def _cell(rate: GroupRate) -> str:
    if rate.metric == "size":
        return f"{rate.estimate:,.0f}"
    if math.isnan(rate.estimate):
        return "cannot tell"
    return f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]"


# Results as plain values, and back.


def _to_plain(value: Any) -> Any:
    return json.loads(value.to_json()) if isinstance(value, PrivacyGuarantee) else asdict(value)


def _from_plain(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a result."""
    found = {name: _in_tuples(value) for name, value in plain.items()}
    found["epsilon"] = float(plain["epsilon"])
    for name in ("group_labels", "classes"):
        found[name] = tuple(_label_from_plain(label) for label in plain[name])
    for name in ("privacy_", "model_privacy_"):
        if plain[name] is not None:
            found[name] = PrivacyGuarantee.from_json(json.dumps(plain[name]))
    if plain["noise"] is not None:
        found["noise"] = IntegerNoise(**plain["noise"])
    losses = ({name: _in_tuples(value) for name, value in one.items()} for one in plain["losses"])
    return found | {"losses": tuple(LossSums(**one) for one in losses)}


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
