"""Convex-concave games by private descent–ascent, and the four risks of what they find.

`descent_ascent` is Kang et al.'s Algorithm 1 for any game whose gradients are released with noise;
the solver ``"gda"`` runs through it, and `AUCGame` is an instance without groups. `plain_risk`,
`primal_risk`, `strong_gap` and `weak_gap` are the paper's four measures of a pair of weights and
group weights, on records or on a known population. They are not private: what they return is as
secret as the records.
"""

from sklearn_dpwg.optimum.minimax.auc import AUCGame, ClassMoments, auc_weights
from sklearn_dpwg.optimum.minimax.game import (
    Game,
    Regulariser,
    Released,
    StronglyConvexSteps,
    descent_ascent,
    project_to_simplex,
)
from sklearn_dpwg.optimum.minimax.risks import (
    PopulationRisks,
    plain_risk,
    primal_risk,
    strong_gap,
    weak_gap,
)

__all__ = [
    "AUCGame",
    "ClassMoments",
    "Game",
    "PopulationRisks",
    "Regulariser",
    "Released",
    "StronglyConvexSteps",
    "auc_weights",
    "descent_ascent",
    "plain_risk",
    "primal_risk",
    "project_to_simplex",
    "strong_gap",
    "weak_gap",
]
