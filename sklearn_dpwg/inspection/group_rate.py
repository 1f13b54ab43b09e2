"""A rate of one group, with the interval that it may lie in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class GroupRate:
    """A number of one group, estimated from an audit.

    Parameters
    ----------
    group : label
        The group.
    metric : str
        What it is a number of.
    estimate : float
        Best guess, within the interval.
    low, high : float
        Ends of the interval, which covers noise and sampling.
    note : str, default=""
        What to know of it, in words; empty where there is nothing.
    """

    group: Hashable
    metric: str
    estimate: float
    low: float
    high: float
    note: str = ""

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low
