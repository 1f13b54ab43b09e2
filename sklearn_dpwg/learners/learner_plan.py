"""What a learner decides before the game."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LearnerPlan:
    """How strongly a learner regularises, and what that promises.

    Parameters
    ----------
    strength : float
        Strength γ of the regulariser γ/2 ‖w - w_1‖²; a step size is 1/γ.
    regret_bound : float
        Bound on the expected regret: the sum over all rounds of what was lost more than by the
        best fixed weights within the distance that was planned for.
    """

    strength: float
    regret_bound: float
