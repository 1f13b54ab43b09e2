"""Thresholds and calibration of a fitted model, by group, from one private histogram.

What scores are worth, and from which on somebody is chosen, may differ between groups. How many
records of each group and class have which scores is released once, with noise, and everything here
follows from it, in models that are fitted within one budget or frozen.
"""

from sklearn_dpwg.postprocessing.classifiers import (
    DPCalibratedClassifier,
    DPThresholdClassifier,
    monotone,
)

__all__ = ["DPCalibratedClassifier", "DPThresholdClassifier", "monotone"]
