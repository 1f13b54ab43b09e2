"""What an audit released, and everything that follows from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.inspection._cells import RATES, Cell
from sklearn_dpwg.inspection._provisional import (
    Interval,
    impact_ratios,
    rate_interval,
    ratio_interval,
    worst_group_set,
)
from sklearn_dpwg.inspection._result_files import result_from_dict, result_to_dict
from sklearn_dpwg.inspection.group_rate import GroupRate
from sklearn_dpwg.inspection.loss_sums import LossSums
from sklearn_dpwg.inspection.verdict import Verdict
from sklearn_dpwg.inspection.worst_groups import WorstGroups
from sklearn_dpwg.privacy import IntegerNoise, PrivacyGuarantee

if TYPE_CHECKING:
    import pandas as pd

# Estimated records below so many deviations of the noise tell next to nothing.
_LOUD = 3.0


@dataclass(frozen=True)
class AuditResult:
    """Released numbers of an audit: counts with noise, and what follows from them."""

    group_labels: tuple[Hashable, ...]
    group_name: str
    classes: tuple[Hashable, Hashable]
    counts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    noise: IntegerNoise | None
    sizes: tuple[int, ...] | None
    threshold: float
    score_edges: tuple[float, ...] | None
    confidence: float
    privacy_: PrivacyGuarantee
    model_privacy_: PrivacyGuarantee | None
    created: str
    versions: Mapping[str, str]
    losses: tuple[LossSums, ...] = ()
    n_cells: int = 1
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    METRICS = tuple(RATES)

    @property
    def is_private(self) -> bool:
        """Whether noise protects the records."""
        return self.noise is not None

    def cells(self) -> NDArray[np.int64]:
        """Return the counts of truth and prediction, an array of shape (n_groups, 2, 2)."""
        counts = np.array(self.counts, dtype=np.int64)
        split = counts.shape[2] - self._n_positive_bins()
        return np.stack([counts[:, :, :split].sum(axis=2), counts[:, :, split:].sum(axis=2)], 2)

    def rates(
        self, metric: str = "error_rate", *, confidence: float | None = None
    ) -> tuple[GroupRate, ...]:
        """Return a rate, or the mean of a loss, of each group."""
        known = self._intervals(metric, confidence)
        return tuple(
            GroupRate(label, metric, one.estimate, one.low, one.high, self._note(metric, i))
            for i, (label, one) in enumerate(zip(self.group_labels, known, strict=True))
        )

    def group_sizes(self) -> tuple[GroupRate, ...]:
        """Return how many records each group has."""
        if self.sizes is not None:
            return tuple(
                GroupRate(label, "size", float(size), float(size), float(size))
                for label, size in zip(self.group_labels, self.sizes, strict=True)
            )
        totals = np.array(self.counts).sum(axis=(1, 2))
        half = self._noise_quantile(2 * len(self.counts[0][0]))
        return tuple(
            GroupRate(
                label, "size", max(0.0, float(n)), max(0.0, float(n - half)), max(0.0, n + half)
            )
            for label, n in zip(self.group_labels, totals, strict=True)
        )

    def impact_ratios(
        self, metric: str = "selection_rate", *, confidence: float | None = None
    ) -> tuple[GroupRate, ...]:
        """Return each group's rate over the largest one."""
        ratios = impact_ratios(self._intervals(metric, confidence))
        return tuple(
            GroupRate(label, f"{metric} ratio", one.estimate, one.low, one.high, "")
            for label, one in zip(self.group_labels, ratios, strict=True)
        )

    def worst_groups(self, metric: str = "error_rate") -> WorstGroups:
        """Return the groups that may be worst by a metric."""
        greater_is_worse = metric not in RATES or RATES[metric].greater_is_worse
        found = worst_group_set(
            [self._at(metric, i) for i in range(len(self.group_labels))],
            greater_is_worse=greater_is_worse,
            confidence=self.confidence,
        )
        groups = tuple(self.group_labels[i] for i in found.members)
        return WorstGroups(metric, groups, found.value_low, found.value_high, found.gap)

    def group_verdicts(
        self, metric: str = "selection_rate", at_least: float = 0.8
    ) -> tuple[Verdict, ...]:
        """Return the verdict about each group."""
        return tuple(self._verdict_of(one, at_least) for one in self.impact_ratios(metric))

    def verdict(self, metric: str = "selection_rate", at_least: float = 0.8) -> Verdict:
        """Return whether all impact ratios are large enough, or that nobody can tell."""
        verdicts = self.group_verdicts(metric, at_least)
        for answer in ("fails", "cannot tell"):
            for one in verdicts:
                if one.answer == answer:
                    return one
        return Verdict("passes", f"All impact ratios are at least {at_least:g}.")

    def calibration(self, group: Hashable) -> tuple[GroupRate, ...]:
        """Return the share of the second class among the records of each score bin of a group."""
        if self.score_edges is None:
            raise ValueError("calibration needs an audit with score_edges, got one without.")
        place = self.group_labels.index(group)
        negatives, positives = self.counts[place]
        found = []
        for misses, hits in zip(negatives, positives, strict=True):
            one = ratio_interval(
                hits,
                misses,
                noise=self.noise,
                n_cells=(self.n_cells, self.n_cells),
                confidence=self.confidence,
            )
            found.append(GroupRate(group, "calibration", one.estimate, one.low, one.high))
        return tuple(found)

    def table(self) -> pd.DataFrame:
        """Return a row a group: size, rates with limits, ratio and note."""
        import pandas as pd

        columns: dict[str, list[Any]] = {}
        listed = {"size": self.group_sizes()}
        names = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")
        listed |= {metric: self.rates(metric) for metric in names}
        listed["impact_ratio"] = self.impact_ratios()
        for name, rates in listed.items():
            columns[name] = [rate.estimate for rate in rates]
            columns[f"{name}_low"] = [rate.low for rate in rates]
            columns[f"{name}_high"] = [rate.high for rate in rates]
        columns["note"] = [rate.note for rate in listed["selection_rate"]]
        index = pd.Index(self.group_labels, tupleize_cols=False, dtype=object, name=self.group_name)
        return pd.DataFrame(columns, index=index)

    def to_json(self) -> str:
        """Return the result as a JSON object."""
        return json.dumps(result_to_dict(self), allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> AuditResult:
        """Return the result that `to_json` wrote."""
        return cls(**result_from_dict(json.loads(text)))

    def _n_positive_bins(self) -> int:
        if self.score_edges is None:
            return 1
        return len(self.score_edges) - self.score_edges.index(self.threshold)

    def _sum(self, group: int, cells: frozenset[Cell]) -> tuple[int, int]:
        """Return the sum of some cells, and how many noisy numbers it is of."""
        positive = self._n_positive_bins()
        n_bins = {0: len(self.counts[0][0]) - positive, 1: positive}
        table = self.cells()[group]
        total = sum(int(table[cell]) for cell in cells)
        return total, self.n_cells * sum(n_bins[predicted] for _, predicted in cells)

    def _at(self, metric: str, group: int) -> Callable[[float], Interval]:
        return lambda confidence: self._interval(metric, group, confidence)

    def _intervals(self, metric: str, confidence: float | None) -> tuple[Interval, ...]:
        level = self.confidence if confidence is None else confidence
        return tuple(self._interval(metric, i, level) for i in range(len(self.group_labels)))

    def _interval(self, metric: str, group: int, confidence: float) -> Interval:
        key = (metric, group, confidence)
        if key not in self._known:
            self._known[key] = self._compute(metric, group, confidence)
        found: Interval = self._known[key]
        return found

    def _compute(self, metric: str, group: int, confidence: float) -> Interval:
        if metric not in RATES:
            raise ValueError(f"metric must be one of {', '.join(RATES)}, got {metric!r}.")
        rate = RATES[metric]
        hits, n_hit_cells = self._sum(group, rate.hits)
        misses, n_miss_cells = self._sum(group, rate.misses)
        if self.sizes is not None and len(rate.hits) + len(rate.misses) == 4:
            return rate_interval(
                hits,
                self.sizes[group],
                noise=self.noise,
                n_cells=n_hit_cells,
                confidence=confidence,
            )
        return ratio_interval(
            hits,
            misses,
            noise=self.noise,
            n_cells=(n_hit_cells, n_miss_cells),
            confidence=confidence,
        )

    def _note(self, metric: str, group: int) -> str:
        if metric not in RATES:
            return ""
        rate = RATES[metric]
        total, n_noisy = self._sum(group, rate.hits | rate.misses)
        if self.sizes is not None and len(rate.hits | rate.misses) == 4:
            return "no records" if self.sizes[group] == 0 else ""
        if self.noise is None:
            return "no records" if total == 0 else ""
        loud = total < _LOUD * self.noise.std * math.sqrt(n_noisy)
        return "fewer than three noise deviations" if loud else ""

    def _noise_quantile(self, n_noisy: int) -> float:
        if self.noise is None:
            return 0.0
        return 1.96 * self.noise.std * math.sqrt(n_noisy * self.n_cells)

    def _verdict_of(self, ratio: GroupRate, at_least: float) -> Verdict:
        limits = f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
        said = f"The impact ratio of {ratio.group!s} is {limits}, against {at_least:g}."
        if ratio.low >= at_least:
            return Verdict("passes", said)
        if ratio.high < at_least:
            return Verdict("fails", said)
        return Verdict("cannot tell", said, "More people would tell.")
