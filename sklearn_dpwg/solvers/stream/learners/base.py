"""Contract of an online learner, of its plan, and of the player that it starts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy.prefix_sums import IndependentNoise, PrefixSums, PrefixSumStream

# Norms of the noise on the sums that a learner sees.


@dataclass(frozen=True, eq=False)
class SumNoise:
    """Norms of the noise on the sums of the losses' linear parts."""

    # root of the mean squared L2 norm of the noise of every released sum; (n_steps,)
    sums: FloatArray
    increments: FloatArray  # the same for the differences of successive sums; (n_steps,)
    is_independent: bool  # whether the differences are independent of each other

    @classmethod
    def of(cls, mechanism: PrefixSums, noise_multiplier: float, sensitivity: float) -> SumNoise:
        """Return the noise of a mechanism, of which a record moves one vector by so much."""
        scale = noise_multiplier * sensitivity * mechanism.column_norm
        scale *= float(np.sqrt(mechanism.n_dimensions))
        return cls(
            scale * mechanism.row_norms(),
            scale * mechanism.increment_norms(),
            isinstance(mechanism, IndependentNoise),
        )


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


class WeightPlayer(ABC):
    """Plays weights in a ball, one round after another, and takes a loss after each.

    The loss of a round is ⟨linear, w⟩ + curvature/2 ‖w - center‖².
    """

    @abstractmethod
    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        """Return the weights to play now.

        Parameters
        ----------
        hint : ndarray of shape (n_weights,), optional
            Guess of the linear part that comes next; a good one lowers the regret.

        Returns
        -------
        ndarray of shape (n_weights,)
            Weights in the ball, a new array.
        """

    @abstractmethod
    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        """Take the loss of the round.

        Parameters
        ----------
        linear : ndarray of shape (n_weights,)
            Linear part, usually a gradient at the weights that were played.
        curvature : float, default=0.0
            Curvature, at least 0.
        center : ndarray of shape (n_weights,), optional
            Where the curved part is least; the default None is the origin.
        """


class Learner(BaseEstimator, ABC):
    """Parameters of an online learner; `start` begins a game.

    Parameters
    ----------
    strength : float, optional
        Strength γ of the regulariser γ/2 ‖w - w_1‖², where a step size is 1/γ; ``None`` means
        planned.

    Notes
    -----
    For losses with gradients of norm at most L the regret against weights at distance D from the
    start is at most γD²/2 + V/γ + N, where V and N are known from public facts; the planned
    strength √(2V)/D makes that D√(2V) + N.
    """

    def __init__(self, strength: float | None = None) -> None:
        self.strength = strength

    @abstractmethod
    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        """Return what the regret bound is made of.

        Parameters
        ----------
        n_steps : int
            Rounds of the game.
        radius : float
            Radius of the ball.
        gradient_norm : float
            Largest norm L of a gradient.
        noise : SumNoise, optional
            Noise on the sums of the linear parts; the default None is no noise.

        Returns
        -------
        variation : float
            V, which the strength divides.
        rest : float
            N, which it does not change.
        """

    @abstractmethod
    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer: ...

    def plan(
        self,
        *,
        n_steps: int,
        radius: float,
        gradient_norm: float,
        distance: float | None = None,
        noise: SumNoise | None = None,
    ) -> LearnerPlan:
        """Choose the strength from public facts, unless it is given.

        Parameters
        ----------
        n_steps : int
            Rounds of the game.
        radius : float
            Radius of the ball.
        gradient_norm : float
            Largest norm of a gradient.
        distance : float, optional
            Distance from the start to the weights that one hopes to compete with; the default
            None is the radius.
        noise : SumNoise, optional
            Noise on the sums of the linear parts; the default None is no noise.

        Returns
        -------
        LearnerPlan
            The strength and the bound on the expected regret.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        n_steps = whole_number(n_steps, "n_steps", least=1)
        radius = positive_finite(radius, "radius")
        gradient_norm = positive_finite(gradient_norm, "gradient_norm")
        distance = radius if distance is None else positive_finite(distance, "distance")
        if noise is not None and len(noise.sums) < n_steps:
            raise InputError(
                f"noise must be known for all {n_steps} steps, got {len(noise.sums)} of them."
            )
        return self._plan(n_steps, radius, gradient_norm, distance, noise)

    def _plan(
        self,
        n_steps: int,
        radius: float,
        gradient_norm: float,
        distance: float,
        noise: SumNoise | None,
    ) -> LearnerPlan:
        """Return the plan of facts that are checked."""
        variation, rest = self.regret_terms(n_steps, radius, gradient_norm, noise)
        if self.strength is None:
            strength = math.sqrt(2.0 * variation) / distance
        else:
            strength = positive_finite(self.strength, "strength")
        bound = 0.5 * strength * distance**2 + variation / strength + rest
        return LearnerPlan(strength, bound)

    def start(
        self, n_weights: int, radius: float, strength: float, *, initial: ArrayLike | None = None
    ) -> WeightPlayer:
        """Begin a game.

        Parameters
        ----------
        n_weights : int
            Number of weights.
        radius : float
            Radius of the ball around the origin that the weights stay in.
        strength : float
            That of the plan.
        initial : array-like of shape (n_weights,), optional
            Weights w_1 in the ball to start from, which must be public or released; the default
            None is the origin.

        Returns
        -------
        WeightPlayer
            Plays this one game.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        n_weights = whole_number(n_weights, "n_weights", least=1)
        radius, strength = positive_finite(radius, "radius"), positive_finite(strength, "strength")
        start = np.zeros(n_weights)
        if initial is not None:
            given = np.asarray(initial, dtype=np.float64)
            if given.shape != start.shape:
                raise InputError(f"initial must have shape {start.shape}, got shape {given.shape}.")
            start += given
            norm = float(np.linalg.norm(start))
            if not norm <= radius * (1.0 + 1e-12):
                raise InputError(
                    f"initial must lie in the ball of radius {radius!r}, got norm {norm!r}."
                )
        return self._make_player(start, radius, strength)


# A learner behind noisy prefix sums.


class PrivatePlayer(WeightPlayer):
    """Hands a player the differences of noisy prefix sums instead of the linear parts.

    Everything that the player sees is a function of the released sums, so its weights are as
    private as the sums are. A player that adds the differences up, like that of `FTRL`, has the
    released sum itself.
    """

    def __init__(self, player: WeightPlayer, stream: PrefixSumStream) -> None:
        self._player = player
        self._stream = stream
        self._noisy_sum: FloatArray | float = 0.0

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        return self._player.predict(hint)

    def update(
        self,
        linear: FloatArray,
        curvature: float = 0.0,
        center: FloatArray | None = None,
        *,
        sensitivity: float | None = None,
    ) -> None:
        """Take the loss of the round; only its linear part may be private.

        Curvature and centre are from public facts and earlier releases. By how much one record can
        move the linear part is said here, if the stream was opened without.
        """
        noisy_sum = self._stream.add(linear, sensitivity)
        self._player.update(noisy_sum - self._noisy_sum, curvature, center)
        self._noisy_sum = noisy_sum
