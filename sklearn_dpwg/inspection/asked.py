"""What a verdict is asked: by which rates, held against what, about whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult, Of
from sklearn_dpwg.inspection.comparisons import margin_of
from sklearn_dpwg.inspection.contrasts import Margin
from sklearn_dpwg.inspection.verdicts import GroupRate, Verdict, metrics_of

_WHICH = ("leave_out", "min_share", "reference", "of", "within")


@dataclass(frozen=True)
class Asked:
    """A question that `AuditResult.verdict` answers, for a page, a picture or a terminal.

    ``which`` holds its keywords. Of ``n_joint`` questions that are asked together this is one.
    """

    metric: str | Sequence[str] = "selection_rate"
    at_least: float | None = None
    which: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    n_joint: int = 1

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
    def each(self) -> list[Asked]:
        """The same question of each rate, each with its part of the error."""
        return [replace(self, metric=one, n_joint=len(self.metrics)) for one in self.metrics]

    def check(self, result: AuditResult) -> None:
        """Refuse what this audit cannot be asked."""
        result._comparisons(self.metric, self.at_least, **self.which)

    def verdict(self, result: AuditResult) -> Verdict:
        """Return the answer about all groups."""
        return result.verdict(self.metric, self.at_least, **self.which)

    def answers(self, result: AuditResult) -> list[str]:
        """Return the answer about each group, or that it is not judged."""
        which = {**self.which, "n_joint": self.n_joint}
        verdicts = result.group_verdicts(self.metric, self.at_least, **which)
        return [one.answer for one in verdicts]

    def contrasts(self, result: AuditResult) -> dict[str, tuple[GroupRate, ...]]:
        """Return the impact ratio, or the difference, of each group by each rate."""
        about = {name: value for name, value in self.which.items() if name != "within"}
        n_joint, found = max(self.n_joint, len(self.metrics)), {}
        for metric in self.metrics:
            if self.margin.is_ratio:
                rates = result.impact_ratios(metric, self.at_least, n_joint=n_joint, **about)
            else:
                rates = result.differences(metric, self.margin.gap, n_joint=n_joint, **about)
            is_alone = n_joint == 1 and self.margin.is_ratio
            found["impact_ratio" if is_alone else rates[0].metric.replace(" ", "_")] = rates
        return found

    @property
    def rule(self) -> str:
        """What is passed or failed, in words."""
        names = words.listed([words.of_metric(one) for one in self.metrics], "or")
        least, one = f"{self.margin.factor:g}", self.which.get("reference")
        named = "" if one is None else words.in_sentence(words.text_of(one))
        if not self.margin.is_ratio:
            gap = f"{100 * self.margin.gap:g} percentage points"
            if named:
                return f"the test that no group is more than {gap} behind {named} in {names}"
            return f"the test that no two groups are more than {gap} apart in {names}"
        if (names, least) == ("selection rate", "0.8"):
            return f"the four-fifths rule{' beside ' * bool(named)}{named}"
        other = f"that of {named}" if named else "another's"
        return f"the test that no group's {names} is below {least} times {other}"
