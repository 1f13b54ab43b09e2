"""Online learners of weights and players of groups, the two sides of the game on fresh records.

No learner knows about privacy: behind noisy prefix sums it is private whatever it does, and DP-FTRL
is `FTRL` there. `docs/theory/online-learners.md` bounds the regrets.
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
    """Parameters of an online learner; `start` begins a game.

    The strength γ is that of a regulariser γ/2 ‖w - w_1‖², whose step size is 1/γ; ``None`` means
    planned. Who plays a game predicts weights in the ball, a new array each time, and is updated
    with the loss ⟨linear, w⟩ + curvature/2 ‖w - center‖² of each round.
    """

    strength: float | None = None

    @abstractmethod
    def start(self, initial: FloatArray, radius: float, strength: float) -> Any:
        """Begin a game at public or released weights w_1 in the ball; return who plays it."""


# Leaders.


class FTRL(Learner):
    """Follow the regularised leader: play what was best so far, regularised by γ/2 ‖w - w_1‖².

    The weights depend on the *sum* of the linear parts alone, so noise on the sums enters once.
    (McMahan 2017, *A survey of algorithms and analysis for adaptive online learning*)
    """

    # whether the last linear part is taken for a guess of the next
    guesses: ClassVar[bool] = False

    def start(self, initial: FloatArray, radius: float, strength: float) -> _Leader:
        return _Leader(initial, radius, strength, guesses=self.guesses)


class OptimisticFTRL(FTRL):
    """Follow the regularised leader, as if the next loss had the last one's linear part.

    So only what changes between rounds counts. (Chiang et al. 2012; Rakhlin and Sridharan 2013)
    """

    guesses: ClassVar[bool] = True


class _Leader:
    def __init__(
        self, initial: FloatArray, radius: float, strength: float, *, guesses: bool
    ) -> None:
        self._radius, self._guesses = radius, guesses
        self._guess: FloatArray | float = 0.0
        # all losses and the regulariser together are ⟨total, w⟩ + strength/2 ‖w‖² and a constant
        self._strength = positive_finite(strength, "strength")
        self._total = -self._strength * initial

    def predict(self) -> FloatArray:
        weights: FloatArray = (self._total + self._guess) * (-1.0 / self._strength)
        squared_norm = weights.dot(weights)
        if squared_norm > self._radius**2:
            weights *= self._radius / math.sqrt(squared_norm)
        return weights

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | float = 0.0
    ) -> None:
        self._total += linear
        self._total -= curvature * center
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
    """Return γ, planned to make the bound on the expected regret least, and that bound.

    The noise is the root mean squared norm of that on each sum of linear parts, and on each
    difference of two; (n_steps,).
    """
    n_steps = len(noise_of_sums)
    played = noise_of_sums[:-1]  # the last sum is never played
    variation = 0.5 * n_steps * gradient_norm**2
    if learner.guesses:
        # the first round has no guess
        variation = (0.5 + 2.0 * (n_steps - 1)) * gradient_norm**2
        played = played + noise_of_increments[:-1]
    variation += gradient_norm * float(np.sum(played))
    best = math.sqrt(2.0 * variation) / radius
    strength = positive_finite(best if learner.strength is None else learner.strength, "strength")
    return strength, 0.5 * strength * radius**2 + variation / strength


# Betting.


@dataclass(eq=False, repr=False)
class ParameterFree(Learner):
    """Bets on directions: the regret against u is small where u is near the start, unasked.

    The weights are w_1 + v y, put back into the ball: a direction y in the unit ball by gradient
    descent with steps that adapt, and a magnitude v by Krichevsky–Trofimov coin betting. There is
    no regulariser: `strength` is the largest norm C with which a linear part counts, longer ones
    are shortened to it. Betting begins with `wealth`, a fraction of the radius. A curved loss
    counts by its gradient where it was played. (Orabona and Pál 2016, *Coin betting and
    parameter-free online learning*; Cutkosky and Orabona 2018, *Black-box reductions for
    parameter-free online learning in Banach spaces*; Cutkosky 2020, *Parameter-free, dynamic, and
    strongly-adaptive online learning*, for the ball)
    """

    wealth: float = 0.1

    def start(self, initial: FloatArray, radius: float, strength: float) -> _ParameterFreePlayer:
        wealth = positive_finite(self.wealth, "wealth") * radius
        return _ParameterFreePlayer(initial, radius, strength, wealth)


def betting_regret(
    learner: ParameterFree, n_steps: int, radius: float, largest_norm: float, distance: float
) -> float:
    """Return the bound on the regret against weights at a distance D from the start."""
    wealth = positive_finite(learner.wealth, "wealth") * radius
    betting = math.log1p(24.0 * (n_steps * distance / wealth) ** 2)
    root = math.sqrt(n_steps)
    return largest_norm * (wealth + distance * root * (math.sqrt(betting) + 8.0**0.5))


class _ParameterFreePlayer:
    def __init__(self, initial: FloatArray, radius: float, largest: float, wealth: float) -> None:
        self._initial, self._radius = initial.copy(), radius
        self._largest = positive_finite(largest, "strength")
        self._n_rounds = 1  # counting the one to come
        self._wealth, self._outcomes = wealth, 0.0  # in units of the weights, and of `largest`
        self._direction = np.zeros_like(initial)
        self._squares = 0.0
        self._place()

    def _place(self) -> None:
        """Work out what is played, and the outward normal where it was put back into the ball."""
        self._bet = self._outcomes / self._n_rounds * self._wealth
        self._played = self._initial + self._bet * self._direction
        self._outward: FloatArray | None = None
        norm = float(np.linalg.norm(self._played))
        if norm > self._radius:
            self._outward = self._played / norm
            self._played = self._played * (self._radius / norm)

    def predict(self) -> FloatArray:
        return self._played.copy()

    def update(
        self, linear: FloatArray, curvature: float = 0.0, center: FloatArray | float = 0.0
    ) -> None:
        gradient = linear + curvature * (self._played - center)
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


LEARNERS: dict[str, type[Learner]] = {
    "ftrl": FTRL,
    "optimistic": OptimisticFTRL,
    "parameter-free": ParameterFree,
}


def make_learner(learner: str | Learner) -> Learner:
    """Return the learner that a name or an instance asks for."""
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
    """Return a learner that a strength regularises."""
    made = make_learner(learner)
    if not isinstance(made, FTRL):
        raise InputError(f"learner must be 'ftrl', 'optimistic' or one of them, got {learner!r}.")
    return made


# Players of groups: exponential weights, kept as logarithms.

# No logarithm falls below: infinities would meet in a NaN. No such weight can ever come back.
_LOG_FLOOR = -1e300


class GroupPlayer:
    """Plays a distribution over groups with exponential weights of step size η, from a prior.

    Weights are lists of floats, which take less time than arrays where groups are few.
    """

    def __init__(self, prior: ArrayLike, rate: float) -> None:
        given = np.maximum(np.array(prior, dtype=np.float64), 1e-300)
        self.prior: FloatArray = given / given.sum()
        self.rate = float(rate)
        self._logs: list[float] = np.log(self.prior).tolist()
        self._weights: list[float] = self.prior.tolist()

    @property
    def group_weights(self) -> FloatArray:
        """Weights λ of the groups now, of shape (n_groups,), a new array."""
        return np.array(self._weights)

    def sample(self, rng: np.random.Generator) -> int:
        """Return a group drawn from the weights: where they pass a number in [0, 1) in sum."""
        left = rng.random()
        for group, weight in enumerate(self._weights):
            left -= weight
            if left < 0.0:
                return group
        return max(group for group, weight in enumerate(self._weights) if weight)

    def _normalise(self) -> None:
        top = max(self._logs)
        powers = [math.exp(log - top) for log in self._logs]
        total = sum(powers)
        shift = top + math.log(total)
        self._logs = [log - shift for log in self._logs]
        self._weights = [power / total for power in powers]


class Hedge(GroupPlayer):
    """Exponential weights with full feedback: every λ_i falls by exp(-η ℓ_i)."""

    def update(self, losses: FloatArray) -> None:
        """Take the losses of all groups, of either sign: who raises risks takes minus them."""
        amounts = self.rate * losses
        logs = np.maximum(self._logs - (amounts - amounts.min()), _LOG_FLOOR)
        self._logs = logs.tolist()
        self._normalise()


class HedgeOfSums(Hedge):
    """Exponential weights of noisy sums of all losses so far, as far as they are more than noise.

    Sums of variance v that differ by a variance e count by e/(e + v), less half of their noise's
    log E exp.
    """

    _exponents: FloatArray | float = 0.0

    def update_sums(self, sums: FloatArray, variances: FloatArray, expected: float) -> None:
        """Take the noisy sums of the losses of all groups, which the player raises."""
        counted = self.rate * expected / (expected + variances)
        exponents = counted * (sums - self.prior @ sums)
        exponents -= counted**2 * variances / 2.0
        self.update((self._exponents - exponents) / self.rate)
        self._exponents = exponents


def bandit_bound(loss_range: float, noise_scale: float, n_rounds: int) -> float:
    """Return U of Zhou and Bassily: with so much room no noise of T rounds is likely clipped."""
    return loss_range + 2.0 * noise_scale * math.log(max(n_rounds, 2))


class EXP3(GroupPlayer):
    """Exponential weights with bandit feedback: λ_i falls by exp(-η ℓ/λ_i) for the group drawn.

    ℓ/λ_i for the group drawn and 0 elsewhere is an unbiased estimate of all losses (Auer et al.
    2002). Zhou and Bassily's Algorithm 2 has the clip c = 2U.
    """

    def __init__(self, prior: ArrayLike, rate: float, loss_clip: float) -> None:
        super().__init__(prior, rate)
        self.loss_clip = loss_clip

    def update(self, group: int, loss: float) -> None:
        """Take the loss of the group that was drawn, clipped to [0, clip]."""
        if loss <= 0.0:
            return
        weight = self._weights[group]
        amount = self.rate * min(loss, self.loss_clip)
        amount = amount / weight if weight else math.inf
        self._logs[group] = max(self._logs[group] - amount, _LOG_FLOOR)
        self._normalise()
