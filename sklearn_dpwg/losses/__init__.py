"""Losses of a linear score, with the constants that privacy and planning need.

A loss knows its value, its first two derivatives in the score, and – for scores bounded by r –
its Lipschitz constant L, its range B, its smoothness H and the diameter Γ of its gradients.
Noise is calibrated to these constants, so each is proved where it stands and attacked by a
property test.
"""

from sklearn_dpwg.losses._gradient_diameter import gradient_diameter
from sklearn_dpwg.losses.absolute_error import AbsoluteError
from sklearn_dpwg.losses.base import Loss, LossConstants, SmoothedLoss
from sklearn_dpwg.losses.binary_log_loss import BinaryLogLoss
from sklearn_dpwg.losses.hinge import Hinge
from sklearn_dpwg.losses.huber import Huber
from sklearn_dpwg.losses.kinked_loss import KinkedLoss
from sklearn_dpwg.losses.multinomial_log_loss import MultinomialLogLoss
from sklearn_dpwg.losses.quantile import Quantile
from sklearn_dpwg.losses.registry import LOSSES, make_loss
from sklearn_dpwg.losses.smoothed_hinge import SmoothedHinge
from sklearn_dpwg.losses.squared_error import SquaredError
from sklearn_dpwg.losses.squared_hinge import SquaredHinge

__all__ = [
    "LOSSES",
    "AbsoluteError",
    "BinaryLogLoss",
    "Hinge",
    "Huber",
    "KinkedLoss",
    "Loss",
    "LossConstants",
    "MultinomialLogLoss",
    "Quantile",
    "SmoothedHinge",
    "SmoothedLoss",
    "SquaredError",
    "SquaredHinge",
    "gradient_diameter",
    "make_loss",
]
