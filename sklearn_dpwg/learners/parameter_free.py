"""Coin betting in a ball: regret that follows the distance without knowing it."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._checks import positive_finite
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners.learner import Learner, LearnerPlan, WeightPlayer
from sklearn_dpwg.learners.sum_noise import SumNoise


class ParameterFree(Learner):
    """Bets on directions: the regret against u is small where u is near the start, untold.

    The weights are w_1 + v y, put back into the ball: a direction y in the unit ball by gradient
    descent with steps that adapt, and a magnitude v by Krichevsky–Trofimov coin betting. There is
    no regulariser: `strength` is the largest norm C with which a linear part counts, longer ones
    are shortened to it, and hints are not used. Betting begins with `wealth`, a share of the
    radius. A curved loss counts by its gradient where it was played.

    With e the initial wealth in units of the weights and D = ‖u - w_1‖ the regret over T rounds of
    linear parts of norm at most C is at most
    C (e + D √(T log(1 + 24 T² D²/e²)) + 2 √2 D √T), for all u in the ball at once
    (`docs/theory/online-learners.md`). (Orabona and Pál 2016, *Coin betting and parameter-free
    online learning*; Cutkosky and Orabona 2018, *Black-box reductions for parameter-free online
    learning in Banach spaces*; Cutkosky 2020, *Parameter-free, dynamic, and strongly-adaptive
    online learning*, for the ball)
    """

    def __init__(self, strength: float | None = None, wealth: float = 0.1) -> None:
        super().__init__(strength)
        self.wealth = wealth

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        """Return 0, as no strength divides anything, and the bound for the whole radius."""
        return 0.0, self.regret_bound(n_steps, radius, gradient_norm, radius, noise)

    def regret_bound(
        self,
        n_steps: int,
        radius: float,
        largest_norm: float,
        distance: float,
        noise: SumNoise | None = None,
    ) -> float:
        """Return the bound on the regret against weights at a distance D from the start."""
        wealth = positive_finite(self.wealth, "wealth") * radius
        betting = math.log1p(24.0 * (n_steps * distance / wealth) ** 2)
        root = math.sqrt(n_steps)
        bound = largest_norm * (wealth + distance * root * (math.sqrt(betting) + 8.0**0.5))
        if noise is not None:
            bound += 2.0 * radius * float(np.sum(noise.increments[:n_steps]))
        return bound

    def _plan(
        self,
        n_steps: int,
        radius: float,
        gradient_norm: float,
        distance: float,
        noise: SumNoise | None,
    ) -> LearnerPlan:
        if self.strength is not None:
            strength = positive_finite(self.strength, "strength")
        else:
            loudest = 0.0 if noise is None else float(np.max(noise.increments[:n_steps]))
            strength = gradient_norm + loudest
        bound = self.regret_bound(n_steps, radius, strength, distance, noise)
        return LearnerPlan(strength, bound)

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _Player(start, radius, strength, positive_finite(self.wealth, "wealth") * radius)


class _Player(WeightPlayer):
    def __init__(self, start: FloatArray, radius: float, largest: float, wealth: float) -> None:
        self._start, self._radius, self._largest = start.copy(), radius, largest
        self._n_rounds = 1  # counting the one to come
        self._wealth, self._outcomes = wealth, 0.0  # in units of the weights, and of `largest`
        self._direction = np.zeros_like(start)
        self._squares = 0.0
        self._place()

    def _place(self) -> None:
        """Work out what is played, and the outward normal where it was put back into the ball."""
        self._bet = self._outcomes / self._n_rounds * self._wealth
        free = self._start + self._bet * self._direction
        norm = float(np.linalg.norm(free))
        self._outward: FloatArray | None = None
        self._played = free
        if norm > self._radius:
            self._outward = free / norm
            self._played = free * (self._radius / norm)

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        return self._played.copy()

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        if curvature < 0.0:
            raise ValueError(f"curvature must be at least 0, got {curvature!r}.")
        gradient = linear
        if curvature:
            gradient = linear + curvature * (
                self._played if center is None else self._played - center
            )
        norm = float(np.linalg.norm(gradient))
        if norm > self._largest:
            gradient = gradient * (self._largest / norm)
        if self._outward is not None:
            # what would push further out of the ball is left out: betting need not know of it
            gradient = gradient - min(float(gradient.dot(self._outward)), 0.0) * self._outward
        outcome = -float(gradient.dot(self._direction)) / self._largest
        self._wealth += outcome * self._bet
        self._outcomes += outcome
        self._n_rounds += 1
        self._squares += float(gradient.dot(gradient))
        if self._squares > 0.0:
            self._direction = self._direction - math.sqrt(2.0 / self._squares) * gradient
            length = float(np.linalg.norm(self._direction))
            if length > 1.0:
                self._direction = self._direction / length
        self._place()
