"""Estimates with their limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """An estimate between the limits of a confidence interval.

    Parameters
    ----------
    estimate : float
        The estimate; NaN where there is nobody to estimate from.
    low, high : float
        The limits. With a chance of at most (1 − confidence)/2 each the truth is below the low or
        above the high one.
    confidence : float
        Least probability of an interval that holds the truth.

    Examples
    --------
    >>> from sklearn_dpwg.metrics.intervals import Interval
    >>> round(Interval(0.5, 0.4, 0.62, confidence=0.95).width, 2)
    0.22
    """

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Distance of the limits."""
        return self.high - self.low
