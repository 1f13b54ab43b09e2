"""Planning constants that are other ones for other losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_dpwg.losses import Loss


@dataclass(frozen=True)
class ByLoss:
    """What a planned run takes from its loss, measured by ``benchmarks/population_defaults.py``."""

    # length of a step, as a share of `aim/(s √T)` for a coordinate's noise s
    step_share: float = 0.18
    # losses count up to this multiple of what predicting nothing can cost: a lower ceiling hides
    # groups that a model fails, a higher one has more noise. For two classes it is 1.5 nats
    ceiling: float = 2.16
    # multiple that losses count up to once the ceiling is seen to hide a group
    raised_ceiling: float = 0.0
    # on centred rows a gradient of one record is at most this share of their root mean square
    clip_share: float = 0.9
    # where finite, losses of a step count up to this multiple of the mean released loss
    ceiling_of_level: float = math.inf
    # whether rows are centred where nobody says so: slopes are bounded, most far below the bound
    is_centred: bool = False
    # whether learned weights shrink where the worst-off group gained less than the others:
    # `zero_score` is the loss at weights of 0, whatever the record
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
