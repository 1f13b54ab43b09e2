"""Online learners and group players, the two sides of the game on fresh samples.

A `Learner` is a set of parameters, and plans how strongly it regularises from public facts alone;
`Learner.start` begins a game and returns a `WeightPlayer`, which is handed one loss at a time. No
learner knows about privacy. A `PrivatePlayer` puts one behind noisy prefix sums, and is then
private whatever the learner does: DP-FTRL is `FTRL` behind one of
`sklearn_dpwg.privacy.prefix_sums`. Group players choose which group is drawn from: `EXP3` is
told the loss of the group that it drew, `Hedge` those of all.
"""

from sklearn_dpwg.solvers.stream.learners.base import (
    Learner,
    LearnerPlan,
    PrivatePlayer,
    SumNoise,
    WeightPlayer,
)
from sklearn_dpwg.solvers.stream.learners.groups import EXP3, GroupPlayer, Hedge
from sklearn_dpwg.solvers.stream.learners.registry import LEARNERS, make_learner
from sklearn_dpwg.solvers.stream.learners.weights import (
    FTRL,
    OnlineGradientDescent,
    OptimisticFTRL,
    ParameterFree,
)

__all__ = [
    "EXP3",
    "FTRL",
    "LEARNERS",
    "GroupPlayer",
    "Hedge",
    "Learner",
    "LearnerPlan",
    "OnlineGradientDescent",
    "OptimisticFTRL",
    "ParameterFree",
    "PrivatePlayer",
    "SumNoise",
    "WeightPlayer",
    "make_learner",
]
