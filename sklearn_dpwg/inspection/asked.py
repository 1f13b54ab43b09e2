"""What a verdict is asked: by which rates, held against what, about whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult, Of, default_metric
from sklearn_dpwg.inspection.comparisons import are_both_ways, margin_of
from sklearn_dpwg.inspection.contrasts import Margin
from sklearn_dpwg.inspection.verdicts import RATES, GroupRate, Verdict, metrics_of

_WHICH = ("leave_out", "min_share", "reference", "of", "within")


@dataclass(frozen=True)
class Asked:
    """A question that `AuditResult.verdict` answers, for a page, a picture or a terminal.

    ``which`` holds its keywords. ``joint`` are the rates of all questions that are asked together,
    of which this is one.
    """

    metric: str | Sequence[str] = "selection_rate"
    at_least: float | None = None
    which: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    joint: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.which:
            if name not in _WHICH:
                raise InputError(f"which must hold some of {', '.join(_WHICH)}, got {name!r}.")

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The rates that are judged."""
        return metrics_of(self.metric)

    @cached_property
    def margin(self) -> Margin:
        """What contrasts are held against."""
        return margin_of(self.at_least, self.which.get("within"))

    @property
    def of(self) -> Of:
        """Of whom the rates are: of a process, or of the very records."""
        found: Of = self.which.get("of", "process")
        return found

    @property
    def both_ways(self) -> bool:
        """Whether groups are compared upwards and downwards, so that none is behind."""
        return are_both_ways(self.margin, self.which.get("reference"), self.joint or self.metrics)

    @property
    def each(self) -> list[Asked]:
        """The same question of each rate, each with its part of the error."""
        return [replace(self, metric=one, joint=self.metrics) for one in self.metrics]

    def worst_by(self, results: Iterable[AuditResult]) -> str:
        """Return the rate by which groups are worst off where nobody says another one."""
        first = self.metrics[0]
        return default_metric(results) if first == "selection_rate" else first

    def judged(self, result: AuditResult) -> tuple[int, ...]:
        """Return the places of the groups that are judged; refuse what cannot be asked."""
        return result._comparisons(self.metric, self.at_least, **self.which)[0].judged

    def verdict(self, result: AuditResult) -> Verdict:
        """Return the answer about all groups."""
        return result.verdict(self.metric, self.at_least, **self.which)

    def answers(self, result: AuditResult) -> list[str]:
        """Return the answer about each group, or that it is not judged."""
        which = {**self.which, **({"joint": self.joint} if self.joint else {})}
        verdicts = result.group_verdicts(self.metric, self.at_least, **which)
        return [one.answer for one in verdicts]

    def contrasts(self, result: AuditResult) -> dict[str, tuple[GroupRate, ...]]:
        """Return the impact ratio, or the difference, of each group by each rate."""
        about = {name: value for name, value in self.which.items() if name != "within"}
        joint, found = self.joint or self.metrics, {}
        for metric in self.metrics:
            if self.margin.is_ratio:
                rates = result.impact_ratios(metric, self.at_least, joint=joint, **about)
            else:
                rates = result.differences(metric, self.margin.gap, joint=joint, **about)
            is_alone = len(joint) == 1 and self.margin.is_ratio
            found["impact_ratio" if is_alone else rates[0].metric.replace(" ", "_")] = rates
        return found

    @property
    def rule(self) -> str:
        """What is passed or failed, in words."""
        names = words.listed([words.of_metric(one) for one in self.metrics])
        least, one = f"{self.margin.factor:g}", self.which.get("reference")
        beside = "" if one is None else f" beside {words.in_sentence(words.text_of(one))}"
        if not self.margin.is_ratio:
            gap = f"{100 * self.margin.gap:g} percentage points"
            return f"the test that every difference in {names}{beside} is at most {gap}"
        if (names, least) == ("selection rate", "0.8"):
            return f"the four-fifths rule{beside}"
        return f"the test that every ratio of {names}{beside} is at least {least}"


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
