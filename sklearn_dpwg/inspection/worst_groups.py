"""The groups that may be worst off."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from sklearn_dpwg.inspection._labels import text_of
from sklearn_dpwg.metrics.intervals import Interval


@dataclass(frozen=True)
class WorstGroups:
    """Which groups may be worst by a metric, and how bad the worst is.

    Parameters
    ----------
    metric : str
        The metric.
    groups : tuple of labels
        Every group that may be the worst; the worst is among them with the audit's confidence.
    low, high : float
        Bounds of the metric in the worst group.
    gap : Interval
        How far the worst group is from the best.
    """

    metric: str
    groups: tuple[Hashable, ...]
    low: float
    high: float
    gap: Interval

    def __str__(self) -> str:
        """Return a line for people."""
        named = " or ".join(map(text_of, self.groups))
        return (
            f"worst by {self.metric}: {named}; there it is {self.low:.3g} to {self.high:.3g}, "
            f"{self.gap.low:.3g} to {self.gap.high:.3g} from the best group "
            f"({self.gap.confidence:.0%} confidence)"
        )
