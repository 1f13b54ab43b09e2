"""Losses of a linear score, with the constants that privacy and planning need.

A loss knows its value, its first two derivatives in the score, and – for scores bounded by r –
its Lipschitz constant L, its range B, its smoothness H and the diameter Γ of its gradients.
Noise is calibrated to these constants, so each is proved, in ``docs/theory/losses.md``, and
attacked by a property test.
"""

from sklearn_dpwg.losses.base import Loss, LossConstants
from sklearn_dpwg.losses.classification import (
    BinaryLogLoss,
    Hinge,
    MultinomialLogLoss,
    SmoothedHinge,
    SquaredHinge,
)
from sklearn_dpwg.losses.regression import AbsoluteError, Huber, Quantile, SquaredError

__all__ = [
    "AbsoluteError",
    "BinaryLogLoss",
    "Hinge",
    "Huber",
    "Loss",
    "LossConstants",
    "MultinomialLogLoss",
    "Quantile",
    "SmoothedHinge",
    "SquaredError",
    "SquaredHinge",
]
