"""Intervals for the rates of groups, from counts that may carry noise.

They cover both that a group is a sample and that its counts were released with noise, by inverting
exact tests with the noise's own law; without noise they are Clopper–Pearson's, so an ordinary audit
takes the same path. They are functions of counts alone, so what follows from private counts is as
private as these. ``docs/theory/intervals.md`` says what of it is proved.
"""

from sklearn_dpwg.metrics.intervals.rate import Interval, rate_interval
from sklearn_dpwg.metrics.intervals.ratio import ratio_interval

__all__ = ["Interval", "rate_interval", "ratio_interval"]
