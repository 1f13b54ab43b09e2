"""Contract of players of groups, and their state."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray, positive_finite
from sklearn_dpwg.exceptions import InputError

# A distribution over groups, kept as logarithms.

# Below so many groups lists of floats take less time than arrays.
_FEW = 64
# No logarithm falls below: infinities would meet in a NaN. No such weight can ever come back.
_LEAST_LOG = -1e300


class LogWeights:
    """Weights that add up to 1, lowered by factors of any size without a NaN."""

    def __init__(self, weights: FloatArray) -> None:
        self._is_long = len(weights) > _FEW
        self._logs: list[float] | FloatArray = np.log(weights)
        self._weights: list[float] | FloatArray = weights
        if not self._is_long:
            self._logs, self._weights = self._logs.tolist(), weights.tolist()

    def weights(self) -> FloatArray:
        """Return the weights as an array of its own."""
        return np.array(self._weights)

    def logs(self) -> FloatArray:
        """Return the logarithms of the weights as an array of its own."""
        return np.array(self._logs)

    def weight(self, group: int) -> float:
        """Return the weight of one group; 0 where it is too small for a float."""
        return float(self._weights[group])

    def lower(self, group: int, amount: float) -> None:
        """Subtract an amount, at least 0 and maybe infinite, from the logarithm of one weight."""
        self._logs[group] = max(self._logs[group] - amount, _LEAST_LOG)
        self._normalise()

    def lower_all(self, amounts: FloatArray) -> None:
        """Subtract finite amounts from all logarithms."""
        logs = np.maximum(self._logs - (amounts - amounts.min()), _LEAST_LOG)
        self._logs = logs if self._is_long else logs.tolist()
        self._normalise()

    def sample(self, uniform: float) -> int:
        """Return the group where the cumulated weights pass a number in [0, 1)."""
        if self._is_long:
            bounds = np.cumsum(self._weights)
            group = int(np.searchsorted(bounds, uniform * bounds[-1], side="right"))
            return min(group, int(np.flatnonzero(self._weights)[-1]))
        left = uniform
        for group, weight in enumerate(self._weights):
            left -= weight
            if left < 0.0:
                return group
        return max(group for group, weight in enumerate(self._weights) if weight)

    def _normalise(self) -> None:
        if self._is_long:
            logs = np.asarray(self._logs)
            logs -= logs.max()
            with np.errstate(under="ignore"):
                weights = np.exp(logs)
            total = weights.sum()
            logs -= math.log(total)
            np.maximum(logs, _LEAST_LOG, out=logs)
            weights /= total
            self._logs, self._weights = logs, weights
            return
        top = max(self._logs)
        exp = math.exp
        powers = [exp(log - top) for log in self._logs]
        total = sum(powers)
        shift = top + math.log(total)
        self._logs = [log - shift for log in self._logs]
        self._weights = [power / total for power in powers]


class GroupPlayer:
    """Plays a distribution over groups with exponential weights, in log space.

    Base of `EXP3` and `Hedge`, which differ in their feedback.

    Parameters
    ----------
    prior : array-like of shape (n_groups,)
        Weights before the first round, positive; they are made to add up to 1.
    rate : float
        Step size η, at least 0.

    Attributes
    ----------
    prior : ndarray of shape (n_groups,)
        As given, adding up to 1.
    rate : float
        As given.
    """

    def __init__(self, prior: ArrayLike, rate: float) -> None:
        self.prior = _normalised_prior(prior)
        self.rate = float(rate)
        if not 0.0 <= self.rate < np.inf:
            raise InputError(f"rate must be at least 0 and finite, got {rate!r}.")
        self._log_weights = LogWeights(self.prior)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.prior)

    @property
    def group_weights(self) -> FloatArray:
        """Weights λ of the groups now, of shape (n_groups,), a new array."""
        return self._log_weights.weights()

    @property
    def log_group_weights(self) -> FloatArray:
        """Logarithms of the weights, finite where a weight is too small for a float."""
        return self._log_weights.logs()

    def sample(self, rng: np.random.Generator) -> int:
        """Return a group drawn from the weights.

        Parameters
        ----------
        rng : Generator
            Public randomness; one number is drawn from it.

        Returns
        -------
        int
            Index of a group of positive weight.
        """
        return self._log_weights.sample(rng.random())


def _normalised_prior(value: ArrayLike) -> FloatArray:
    prior = np.array(value, dtype=np.float64)
    if prior.ndim != 1 or prior.size == 0:
        raise InputError(f"prior must have one entry a group, got shape {prior.shape}.")
    if not ((prior > 0.0) & (prior < np.inf)).all():
        raise InputError(f"prior must be positive and finite everywhere, got {prior!r}.")
    return prior / prior.sum()


# Exponential weights with full feedback.


class Hedge(GroupPlayer):
    """Exponential weights with full feedback: every λ_i falls by exp(-η ℓ_i).

    Against group i the regret over T rounds is at most log(1/π_i)/η + η T c²/8 for losses in an
    interval of length c, whatever the losses (Freund and Schapire 1997; Hoeffding's lemma);
    with a uniform prior η = √(8 log p/T)/c makes that least.
    """

    def update(self, losses: ArrayLike) -> None:
        """Take the losses of all groups, of either sign: who raises risks takes minus them."""
        values = np.asarray(losses, dtype=np.float64)
        if values.shape != self.prior.shape:
            raise InputError(
                f"losses must have one entry a group, {self.n_groups}, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise InputError("losses must be finite, got NaN or infinity.")
        self._log_weights.lower_all(self.rate * values)


# Exponential weights with bandit feedback.


class EXP3(GroupPlayer):
    """Exponential weights with bandit feedback: λ_i falls by exp(-η ℓ/λ_i) for the group drawn.

    ℓ/λ_i for the group drawn and 0 elsewhere is an unbiased estimate of all losses. Against group
    i, the expected regret over T rounds is at most log(1/π_i)/η + (η/2) Σ_t Σ_j ℓ_{t,j}², so at
    most log(1/π_i)/η + η p T c²/2 for losses in [0, c] (Auer et al. 2002). Zhou and Bassily's
    Algorithm 2 has the ceiling 2U. With a uniform prior η = √(2 log p/(p T c²)) makes that least.
    """

    def __init__(self, prior: ArrayLike, rate: float, ceiling: float) -> None:
        super().__init__(prior, rate)
        self.ceiling = positive_finite(ceiling, "ceiling")

    def update(self, group: int, loss: float) -> None:
        """Take the loss of the group that was drawn, clipped to [0, ceiling]."""
        if loss != loss:
            raise InputError("loss must be a number, got NaN.")
        if loss <= 0.0:
            return
        weight = self._log_weights.weight(group)
        amount = self.rate * min(loss, self.ceiling)
        self._log_weights.lower(group, amount / weight if weight else math.inf)
