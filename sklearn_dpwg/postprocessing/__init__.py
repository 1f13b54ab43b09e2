"""Thresholds and calibration of a fitted model, by group, from one private histogram.

A model ranks; what its scores are worth, and from which on somebody is chosen, may differ between
groups. How many records of each group and class have which scores is one histogram, in which a
record is in one cell: it is released once, with noise, and everything here follows from it.
`DPThresholdClassifier` chooses a threshold for each group, or one for all;
`DPCalibratedClassifier` makes probabilities of scores. Both fit a private model within one budget
or are put around a frozen one, and both say in ``privacy_`` what all of it promises together.
"""

from sklearn_dpwg.postprocessing.calibration import DPCalibratedClassifier
from sklearn_dpwg.postprocessing.monotone_effects import monotone
from sklearn_dpwg.postprocessing.thresholds import DPThresholdClassifier

__all__ = ["DPCalibratedClassifier", "DPThresholdClassifier", "monotone"]
