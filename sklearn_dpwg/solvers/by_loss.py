"""Planning constants that are other ones for other losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_dpwg.losses import Loss


@dataclass(frozen=True)
class ByLoss:
    """What a planned run takes from its loss, measured by ``benchmarks/population_defaults.py``.

    Parameters
    ----------
    step_share : float
        Length of a step, as a share of ``aim/(s √T)`` for a coordinate's noise s. Noise of √d s in
        all directions would call for 1/√d of it; but on rows of bounded norm it costs no more in
        many directions than in a few.
    ceiling : float
        Losses count up to this multiple of what predicting nothing can cost: a lower ceiling hides
        groups that a model fails, a higher one has more noise. For two classes it is 1.5 nats.
    raised_ceiling : float
        Multiple that losses count up to once the ceiling is seen to hide a group.
    clip_share : float
        On centred rows a gradient of one record is at most this share of their root mean square.
    ceiling_of_level : float
        Where finite, losses of a step count up to this multiple of the mean released loss.
    is_centred : bool
        Whether rows are centred where nobody says so: slopes are bounded, most far below the bound.
    shrinks : bool
        Whether learned weights shrink where the worst-off group gained less than the others:
        ``zero_score`` is the loss at weights of 0, whatever the record.
    """

    step_share: float = 0.18
    ceiling: float = 2.16
    raised_ceiling: float = 0.0
    clip_share: float = 0.9
    ceiling_of_level: float = math.inf
    is_centred: bool = False
    shrinks: bool = False


LOG_LOSS = ByLoss(raised_ceiling=6.5, is_centred=True, shrinks=True)
# Its slopes are residuals, most of them small beside the largest. Its step is a share of smaller
# weights: the radius of a regressor is a fifth of a classifier's.
SQUARED_ERROR = ByLoss(
    step_share=0.3,
    ceiling=1.0,
    clip_share=0.4,
    ceiling_of_level=6.0,
    is_centred=True,
)

BY_KERNEL = {
    "binary_log": LOG_LOSS,
    "multinomial_log": LOG_LOSS,
    "squared_error": SQUARED_ERROR,
}


def by_loss(loss: Loss) -> ByLoss:
    """Return the constants of a loss, by the kernel that its own class names."""
    return BY_KERNEL.get(type(loss).__dict__.get("kernel") or "", ByLoss())
