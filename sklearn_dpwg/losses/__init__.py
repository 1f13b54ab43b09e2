"""Losses of a linear score, with the constants that privacy and planning need.

A loss knows its value, its first two derivatives in the score, and – for scores bounded by r –
its Lipschitz constant L, its range B, its smoothness H and the diameter Γ of its gradients.
Noise is calibrated to these constants, so each is proved where it stands and attacked by a
property test.
"""

from sklearn_dpwg.losses.base import Loss, LossConstants
from sklearn_dpwg.losses.binary_log_loss import BinaryLogLoss
from sklearn_dpwg.losses.gradient_diameter import gradient_diameter
from sklearn_dpwg.losses.multinomial_log_loss import MultinomialLogLoss
from sklearn_dpwg.losses.squared_error import SquaredError

__all__ = [
    "BinaryLogLoss",
    "Loss",
    "LossConstants",
    "MultinomialLogLoss",
    "SquaredError",
    "gradient_diameter",
]
