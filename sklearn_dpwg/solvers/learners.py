"""Online learners of weights and players of groups, the two sides of the game on fresh records.

Learners need no privacy of their own, as they only get noisy prefix sums; DP-FTRL is `FTRL` on
these. `docs/theory/online-learners.md` bounds the regrets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sklearn_dpwg._checks import FloatArray, positive_finite
from sklearn_dpwg.exceptions import InputError, InputTypeError

__all__ = ["FTRL", "OptimisticFTRL", "ParameterFree"]


@dataclass(eq=False, repr=False)
class Learner(BaseEstimator, ABC):
    """Base class of online learners of weights; `start` returns a player of one game.

    The strength γ is that of the regulariser γ/2 ‖w - w_1‖², with step size 1/γ; ``None`` means
    planned. A player has ``predict()`` for weights in the ball, a new array each time, and
    ``update(linear, curvature, center)`` for a loss ⟨linear, w⟩ + curvature/2 ‖w - center‖².
    """

    strength: float | None = None

    @abstractmethod
    def start(self, initial: FloatArray, radius: float, strength: float) -> Any:
        """Return a player that begins at public or released weights w_1 in the ball."""


class FTRL(Learner):
    """Follow the regularised leader: minimise the past losses plus γ/2 ‖w - w_1‖².

    The weights depend on the *sum* of the linear parts alone, so noise on the sums enters once.
    (McMahan 2017, *A survey of algorithms and analysis for adaptive online learning*)
    """

    # whether the last linear part is used as a guess of the next
    guesses: ClassVar[bool] = False

    def start(self, initial: FloatArray, radius: float, strength: float) -> _LeaderPlayer:
        return _LeaderPlayer(initial, radius, strength, guesses=self.guesses)


class OptimisticFTRL(FTRL):
    """Follow the regularised leader, with the last linear part as a guess of the next.

    The regret depends on changes between rounds only. (Chiang et al. 2012; Rakhlin and Sridharan
    2013)
    """

    guesses: ClassVar[bool] = True


class _LeaderPlayer:
    def __init__(
        self, initial: FloatArray, radius: float, strength: float, *, guesses: bool
    ) -> None:
        self._radius, self._guesses = radius, guesses
        self._guess: FloatArray | float = 0.0
        # all losses and the regulariser sum to ⟨linear_sum, w⟩ + strength/2 ‖w‖² + a constant
        self._strength = positive_finite(strength, "strength")
        self._linear_sum = -self._strength * initial

    def predict(self) -> FloatArray:
        weights: FloatArray = (self._linear_sum + self._guess) * (-1.0 / self._strength)
        squared_norm = weights.dot(weights)
        if squared_norm > self._radius**2:
            weights *= self._radius / math.sqrt(squared_norm)
        return weights

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | float = 0.0
    ) -> None:
        self._linear_sum += linear
        self._linear_sum -= curvature * center
        self._strength += curvature
        if self._guesses:
            self._guess = linear.copy()


def strength_of_least_regret(
    learner: FTRL,
    radius: float,
    gradient_norm: float,
    noise_of_sums: FloatArray,
    noise_of_increments: FloatArray,
) -> tuple[float, float]:
    """Return the learner's strength γ, or the best one if None, and its bound on expected regret.

    Noises are root mean squared norms, of shape (n_steps,): of the noise on each sum of linear
    parts, and on the difference of each sum and the one before.
    """
    n_steps = len(noise_of_sums)
    noise_norms = noise_of_sums[:-1]  # no weights depend on the last sum
    variation = 0.5 * n_steps * gradient_norm**2
    if learner.guesses:
        # the first round has no guess
        variation = (0.5 + 2.0 * (n_steps - 1)) * gradient_norm**2
        noise_norms = noise_norms + noise_of_increments[:-1]
    variation += gradient_norm * float(np.sum(noise_norms))
    best = math.sqrt(2.0 * variation) / radius
    strength = positive_finite(best if learner.strength is None else learner.strength, "strength")
    return strength, 0.5 * strength * radius**2 + variation / strength


@dataclass(eq=False, repr=False)
class ParameterFree(Learner):
    """Coin betting: the regret against u is small where u is near the start, without tuning.

    The weights are w_1 + v y, projected to the ball: a direction y in the unit ball by adaptive
    gradient descent, and a magnitude v by Krichevsky–Trofimov coin betting. There is no
    regulariser: `strength` is the norm C at which linear parts are clipped. Betting begins with
    `wealth`, a fraction of the radius. A curved loss counts by its gradient at the played weights.
    (Orabona and Pál 2016, *Coin betting and parameter-free online learning*; Cutkosky and Orabona
    2018, *Black-box reductions for parameter-free online learning in Banach spaces*; Cutkosky 2020,
    *Parameter-free, dynamic, and strongly-adaptive online learning*, for the ball)
    """

    wealth: float = 0.1

    def start(self, initial: FloatArray, radius: float, strength: float) -> _ParameterFreePlayer:
        wealth = positive_finite(self.wealth, "wealth") * radius
        return _ParameterFreePlayer(initial, radius, strength, wealth)


def betting_regret(
    learner: ParameterFree, n_steps: int, radius: float, largest_norm: float, distance: float
) -> float:
    """Return the bound on the regret against weights at a distance from the start, Theorem 3."""
    wealth = positive_finite(learner.wealth, "wealth") * radius
    log_term = math.log1p(24.0 * (n_steps * distance / wealth) ** 2)
    root = math.sqrt(n_steps)
    return largest_norm * (wealth + distance * root * (math.sqrt(log_term) + 8.0**0.5))


class _ParameterFreePlayer:
    """Player of `ParameterFree`; ``clip_norm`` is its strength."""

    def __init__(self, initial: FloatArray, radius: float, clip_norm: float, wealth: float) -> None:
        self._initial, self._radius = initial.copy(), radius
        self._clip_norm = positive_finite(clip_norm, "strength")
        self._round = 1  # number of the next round
        self._wealth, self._outcome_sum = wealth, 0.0  # outcomes of coins are in [-1, 1]
        self._direction = np.zeros_like(initial)
        self._squared_norms = 0.0  # sum over gradients
        self._set_weights()

    def _set_weights(self) -> None:
        """Set the next bet and weights, and the outward normal if they had to be projected."""
        self._bet = self._outcome_sum / self._round * self._wealth
        self._weights = self._initial + self._bet * self._direction
        self._outward: FloatArray | None = None
        norm = float(np.linalg.norm(self._weights))
        if norm > self._radius:
            self._outward = self._weights / norm
            self._weights = self._weights * (self._radius / norm)

    def predict(self) -> FloatArray:
        return self._weights.copy()

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | float = 0.0
    ) -> None:
        gradient = linear + curvature * (self._weights - center)
        norm = float(np.linalg.norm(gradient))
        if norm > self._clip_norm:
            gradient = gradient * (self._clip_norm / norm)
        if self._outward is not None:
            # drop the part that would move weights farther out of the ball (Cutkosky 2020)
            gradient = gradient - min(float(gradient.dot(self._outward)), 0.0) * self._outward
        outcome = -float(gradient.dot(self._direction)) / self._clip_norm
        self._wealth += outcome * self._bet
        self._outcome_sum += outcome
        self._round += 1
        self._squared_norms += float(gradient.dot(gradient))
        if self._squared_norms > 0.0:
            self._direction = self._direction - math.sqrt(2.0 / self._squared_norms) * gradient
            length = float(np.linalg.norm(self._direction))
            if length > 1.0:
                self._direction = self._direction / length
        self._set_weights()


LEARNERS: dict[str, type[Learner]] = {
    "ftrl": FTRL,
    "optimistic": OptimisticFTRL,
    "parameter-free": ParameterFree,
}


def make_learner(learner: str | Learner) -> Learner:
    """Return the learner with this name, or the given instance."""
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise InputError(
                f"learner must be one of {sorted(LEARNERS)} or a Learner instance, got {learner!r}."
            )
        return LEARNERS[learner]()
    if not isinstance(learner, Learner):
        raise InputTypeError(f"learner must be a name or a Learner instance, got {learner!r}.")
    return learner


def make_leader(learner: str | Learner) -> FTRL:
    """Return the learner as `make_learner`, after a check that it is one of FTRL."""
    made = make_learner(learner)
    if not isinstance(made, FTRL):
        raise InputError(f"learner must be 'ftrl', 'optimistic' or one of them, got {learner!r}.")
    return made


# Least log weight: -inf could lead to NaN. Weights this small stay 0 for ever in any case.
_LOG_FLOOR = -1e300


class GroupPlayer:
    """Base class of players of groups: exponential weights of step size η, from a prior.

    Weights are lists of floats, which take less time than arrays where groups are few.
    """

    def __init__(self, prior: ArrayLike, rate: float) -> None:
        positive_prior = np.maximum(np.array(prior, dtype=np.float64), 1e-300)
        self.prior: FloatArray = positive_prior / positive_prior.sum()
        self.rate = float(rate)
        self._log_weights: list[float] = np.log(self.prior).tolist()
        self._weights: list[float] = self.prior.tolist()

    @property
    def group_weights(self) -> FloatArray:
        """Current weights λ of the groups, as a new array of shape (n_groups,)."""
        return np.array(self._weights)

    def sample(self, rng: np.random.Generator) -> int:
        """Return a group, drawn with its weight as its probability."""
        remainder = rng.random()
        for group, weight in enumerate(self._weights):
            remainder -= weight
            if remainder < 0.0:
                return group
        # rounding left the sum of the weights below the random number
        return max(group for group, weight in enumerate(self._weights) if weight)

    def _normalise(self) -> None:
        """Set the weights from their logarithms, and shift the logarithms, to a sum of 1."""
        largest = max(self._log_weights)
        powers = [math.exp(log_weight - largest) for log_weight in self._log_weights]
        total = sum(powers)
        shift = largest + math.log(total)
        self._log_weights = [log_weight - shift for log_weight in self._log_weights]
        self._weights = [power / total for power in powers]


class Hedge(GroupPlayer):
    """Exponential weights with full feedback: λ_i is multiplied by exp(-η ℓ_i), for all i."""

    def update(self, losses: FloatArray) -> None:
        """Move weight to groups of low loss; to raise risks, pass minus the risks as losses."""
        decreases = self.rate * losses
        # the least decrease is subtracted, so that none is negative; it changes no weight
        log_weights = np.maximum(self._log_weights - (decreases - decreases.min()), _LOG_FLOOR)
        self._log_weights = log_weights.tolist()
        self._normalise()


class HedgeOfSums(Hedge):
    """Exponential weights that increase with noisy sums of risks, shrunk by their noise.

    A sum with noise of variance v, where true sums vary by e between groups, counts times
    e/(e + v), less half of log E exp of its noise.
    """

    _exponents: FloatArray | float = 0.0

    def update_sums(self, sums: FloatArray, variances: FloatArray, expected: float) -> None:
        """Set the weights from each group's sum of all risks so far; ``expected`` is e."""
        rates = self.rate * expected / (expected + variances)
        exponents = rates * (sums - self.prior @ sums)
        exponents -= rates**2 * variances / 2.0
        self.update((self._exponents - exponents) / self.rate)
        self._exponents = exponents


def bandit_bound(loss_range: float, noise_scale: float, n_rounds: int) -> float:
    """Return U of Zhou and Bassily, a bound that losses with Laplace noise hardly ever exceed."""
    return loss_range + 2.0 * noise_scale * math.log(max(n_rounds, 2))


class EXP3(GroupPlayer):
    """Exponential weights with bandit feedback: the drawn group's λ_i is times exp(-η ℓ/λ_i).

    ℓ/λ_i for the drawn group i and 0 for others is an unbiased estimate of all losses (Auer et al.
    2002). In Zhou and Bassily's Algorithm 2 the loss clip is 2U.
    """

    def __init__(self, prior: ArrayLike, rate: float, loss_clip: float) -> None:
        super().__init__(prior, rate)
        self.loss_clip = loss_clip

    def update(self, group: int, loss: float) -> None:
        """Lower the weight of the drawn group by its loss, clipped to [0, loss_clip]."""
        if loss <= 0.0:
            return
        weight = self._weights[group]
        decrease = self.rate * min(loss, self.loss_clip)
        decrease = decrease / weight if weight else math.inf
        self._log_weights[group] = max(self._log_weights[group] - decrease, _LOG_FLOOR)
        self._normalise()
