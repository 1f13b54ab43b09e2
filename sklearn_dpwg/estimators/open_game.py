"""A game that partial_fit goes on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import Game, Plan


@dataclass(eq=False)
class OpenGame:
    """What an estimator keeps between two calls of ``partial_fit``; a secret.

    Parameters
    ----------
    game : Game
        The game, with exact sums and unused noise.
    plan : Plan
        Made on the first call.
    budget : Budget
        Of all calls together.
    noise : NoiseSource
        Source of the plan's releases.
    parameters : str
        The estimator's parameters on the first call.
    """

    game: Game
    plan: Plan
    budget: Budget
    noise: NoiseSource
    parameters: str

    @staticmethod
    def describe(estimator: Any) -> str:
        """Return the parameters of an estimator in a form that can be compared.

        Parameters
        ----------
        estimator : estimator
            Its parameters may be arrays, which do not compare to one truth value.

        Returns
        -------
        str
            All names and values, nested ones included.
        """
        return repr(sorted(estimator.get_params().items(), key=lambda item: str(item[0])))
