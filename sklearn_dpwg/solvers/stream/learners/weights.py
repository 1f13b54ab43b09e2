"""Learners of weights: leaders and gradient descent, with hints or without, and betting."""

from __future__ import annotations

import math

import numpy as np

from sklearn_dpwg._checks import FloatArray, positive_finite
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.solvers.stream.learners.base import Learner, LearnerPlan, SumNoise, WeightPlayer


class FTRL(Learner):
    """Follow the regularised leader: play what was best so far, regularised.

    The weights are the minimiser over the ball of the sum of all losses and γ/2 ‖w - w_1‖²:
    a point that depends on the *sum* of the linear parts alone, so noise on the sums enters once
    and does not accumulate.

    With s_t = γ + curvatures of the rounds up to t, gradients ∇_t of the losses where they were
    played and hints m_t, the regret against u is at most
    γ/2 ‖u - w_1‖² + Σ ‖∇_t - m_t‖²/(2 s_t). Noise N_t on the sum of the first t linear parts
    moves the weights of round t + 1 by at most ‖N_t‖/γ, so without hints it adds at most
    L Σ ‖N_t‖/γ (`docs/theory/online-learners.md`). (McMahan 2017, *A survey of algorithms and
    analysis for adaptive online learning*; Kairouz et al. 2021)
    """

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        variation = 0.5 * n_steps * gradient_norm**2
        if noise is not None:
            # the last sum is never played
            variation += gradient_norm * float(np.sum(noise.sums[: n_steps - 1]))
        return variation, 0.0

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _FTRLPlayer(start, radius, strength)


class _FTRLPlayer(WeightPlayer):
    def __init__(self, start: FloatArray, radius: float, strength: float) -> None:
        self._radius = radius
        self._squared_radius = radius**2
        # all losses and the regulariser together are ⟨total, w⟩ + strength/2 ‖w‖² and a constant
        self._total = -strength * start
        self._strength = strength

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        total = self._total if hint is None else self._total + hint
        weights: FloatArray = total * (-1.0 / self._strength)
        squared_norm = weights.dot(weights)
        if squared_norm > self._squared_radius:
            weights *= self._radius / math.sqrt(squared_norm)
        return weights

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        if curvature < 0.0:
            raise InputError(f"curvature must be at least 0, got {curvature!r}.")
        self._total += linear
        if curvature:
            self._strength += curvature
            if center is not None:
                self._total -= curvature * center


class OnlineGradientDescent(Learner):
    """Online projected (sub)gradient descent, optimistic if it gets hints.

    A step of length 1/s_t against the gradient, where s_t is the strength and all curvatures so
    far, then back into the ball. Inside the ball and without curvature it plays what `FTRL` plays.

    With gradients ∇_t of the losses where they were played and hints m_t, the regret against u is
    at most γ/2 ‖u - w_1‖² + Σ ‖∇_t - m_t‖²/(2 s_t); for curved losses that holds without
    hints (Zinkevich 2003; Bartlett, Hazan and Rakhlin 2007; Rakhlin and Sridharan 2013). Noise n_t
    on the linear parts with sums N_t adds ‖n_t‖² to ‖∇_t‖² if the n_t are independent, and
    otherwise, by summation by parts, at most 2R‖N_T‖ + Σ ‖N_t‖ ‖∇_t + n_t‖/γ.
    """

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        if noise is None:
            return 0.5 * n_steps * gradient_norm**2, 0.0
        increments, sums = noise.increments[:n_steps], noise.sums[:n_steps]
        if noise.is_independent:
            return 0.5 * float(np.sum(gradient_norm**2 + increments**2)), 0.0
        noisy_norms = gradient_norm + increments
        variation = float(np.sum(0.5 * noisy_norms**2 + sums * noisy_norms))
        return variation, 2.0 * radius * float(sums[-1])

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _GradientDescentPlayer(start, radius, strength)


class _GradientDescentPlayer(WeightPlayer):
    def __init__(self, start: FloatArray, radius: float, strength: float) -> None:
        self._radius = radius
        self._squared_radius = radius**2
        self._weights = start.copy()
        self._played = self._weights
        self._strength = strength

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        if hint is None:
            self._played = self._weights
            return self._weights.copy()
        self._played = self._step(hint)
        return self._played.copy()

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        if curvature < 0.0:
            raise InputError(f"curvature must be at least 0, got {curvature!r}.")
        if curvature:
            away = self._played if center is None else self._played - center
            linear = linear + curvature * away
            self._strength += curvature
        self._weights = self._played = self._step(linear)

    def _step(self, gradient: FloatArray) -> FloatArray:
        weights: FloatArray = gradient * (-1.0 / self._strength)
        weights += self._weights
        squared_norm = weights.dot(weights)
        if squared_norm > self._squared_radius:
            weights *= self._radius / math.sqrt(squared_norm)
        return weights


class OptimisticFTRL(FTRL):
    """Follow the regularised leader, as if the next loss had the last one's linear part.

    `FTRL` with a hint of its own: where none is given, it is the linear part that came last. So
    only what changes between rounds counts in the regret.

    The bound of `FTRL` with the hints m_t = ℓ_{t-1}: the regret against u is at most
    γ/2 ‖u - w_1‖² + Σ ‖∇_t - ℓ_{t-1}‖²/(2 s_t). For losses of which nothing is known but their
    norm L that is four times the variation of `FTRL`. (Chiang et al. 2012; Rakhlin and Sridharan
    2013)
    """

    def regret_terms(
        self, n_steps: int, radius: float, gradient_norm: float, noise: SumNoise | None = None
    ) -> tuple[float, float]:
        # the first round has no hint, later ones one that may be its opposite
        variation = (0.5 + 2.0 * (n_steps - 1)) * gradient_norm**2
        if noise is not None:
            moved = noise.sums[: n_steps - 1] + noise.increments[: n_steps - 1]
            variation += gradient_norm * float(np.sum(moved))
        return variation, 0.0

    def _make_player(self, start: FloatArray, radius: float, strength: float) -> WeightPlayer:
        return _OptimisticPlayer(super()._make_player(start, radius, strength))


class _OptimisticPlayer(WeightPlayer):
    def __init__(self, player: WeightPlayer) -> None:
        self._player = player
        self._last: FloatArray | None = None

    def predict(self, hint: FloatArray | None = None) -> FloatArray:
        return self._player.predict(self._last if hint is None else hint)

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | None = None
    ) -> None:
        self._player.update(linear, curvature, center)
        self._last = linear.copy()


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
        return _ParameterFreePlayer(
            start, radius, strength, positive_finite(self.wealth, "wealth") * radius
        )


class _ParameterFreePlayer(WeightPlayer):
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
            raise InputError(f"curvature must be at least 0, got {curvature!r}.")
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
