"""Intervals for the rates of groups, from counts that may carry noise.

They cover both that a group is a sample and that its counts were released with noise, by inverting
exact tests with the noise's own law; without noise they are Clopper–Pearson's, so an ordinary audit
takes the same path. They are functions of counts alone, so what follows from private counts is as
private as these. ``docs/theory/intervals.md`` proves what is proved and measures the rest.
"""

from sklearn_dpwg.metrics.intervals._difference_interval import difference_interval
from sklearn_dpwg.metrics.intervals._impact_ratios import impact_ratios
from sklearn_dpwg.metrics.intervals._rate_interval import rate_interval
from sklearn_dpwg.metrics.intervals._ratio_interval import ratio_interval
from sklearn_dpwg.metrics.intervals._worst_group_set import WorstGroupSet, worst_group_set
from sklearn_dpwg.metrics.intervals.interval import Interval

__all__ = [
    "Interval",
    "WorstGroupSet",
    "difference_interval",
    "impact_ratios",
    "rate_interval",
    "ratio_interval",
    "worst_group_set",
]
