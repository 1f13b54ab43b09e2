"""Group weights of a run, from released risks and public facts alone."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.group_player import CORRECTION, best_rate, normalised
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule

# The assumed spread of the group risks counts like so many released ones; a step later each counts
# for this share of what it did; and the spread that is gone by is at least this share of the
# assumed.
ASSUMED_STEPS, REMEMBERED, LEAST_SPREAD = 10.0, 0.9, 1.0 / 30.0


class GroupWeights:
    """Hedge on released risks, whose rate and reach follow from them.

    Where the schedule adapts, weights after t steps are those of follow the regularised leader,

        argmax_λ  Σ_s η_s (r_s · λ - ν max_i λ_i s_i) - Σ_s c_s · λ - KL(λ ‖ π),

    where η_t is the rate that would have been planned had the spread of the risks been known that
    was released shortly before, c_t is the noise correction, s_i is the noise of the mean gradient
    if all weight is on group i, and ν s is what planning takes noise s to cost (`noise_price`).
    Otherwise they are plain Hedge at the planned rate.
    """

    def __init__(
        self, schedule: MGRSchedule, log_weights: FloatArray, gradient_noise: FloatArray
    ) -> None:
        self.schedule = schedule
        self.current, self._log_weights = normalised(log_weights), log_weights
        self._gradient_noise = gradient_noise  # s_i
        self._total_rate = 0.0
        # of squared spreads that are remembered: how many, and their sum
        self._remembered = ASSUMED_STEPS
        self._spread = ASSUMED_STEPS * schedule.assumed_spread**2
        # the prior's: a start may have all weight on one group
        prior = np.asarray(schedule.prior)
        self._entropy = -float(prior @ np.log(prior))

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Take in the released risks of a step, and the variances of their noise and coins."""
        schedule = self.schedule
        if not schedule.adapts:
            correction = np.asarray(schedule.noise_correction)
            self._log_weights = self._log_weights + schedule.group_rate * risks - correction
            self.current = normalised(self._log_weights)
            return
        weights = self.current
        # before the step is known, as its noise correction asks for
        rate = self._rate(variances)
        spread = float(weights @ (risks - weights @ risks) ** 2)
        spread -= float((weights * (1.0 - weights)) @ variances)
        self._spread = REMEMBERED * self._spread + spread
        self._remembered = REMEMBERED * self._remembered + 1.0
        self._total_rate += rate
        self._log_weights = self._log_weights + rate * risks
        self._log_weights = self._log_weights - CORRECTION * self._log_mean_exp(rate, variances)
        self.current = priced_weights(
            self._log_weights,
            self._gradient_noise,
            price=self._total_rate * schedule.noise_price,
        )

    def _rate(self, variances: FloatArray) -> float:
        """Return θ/T with θ² = H(π) / (q²/T + mean_i v_i/2) for the spread q of late."""
        least = (LEAST_SPREAD * self.schedule.assumed_spread) ** 2
        spread = max(self._spread / self._remembered, least)
        horizon = self.schedule.n_steps
        noise = float(variances.mean()) / 2.0
        return best_rate(self._entropy, (spread + noise) / horizon) / horizon

    def _log_mean_exp(self, rate: float, variances: FloatArray) -> FloatArray:
        """Return log E exp of what noise and coins add to the exponents at a rate."""
        batches = self.schedule.batches
        if batches is None:
            return rate**2 * variances / 2.0
        found = batches.log_mean_exp_of_coins(rate) + (rate * batches.risk_stds) ** 2 / 2.0
        if self.schedule.heard:  # groups that are not have the variances of the mean
            found = np.where(self.schedule.heard, found, rate**2 * variances / 2.0)
        return found


def priced_weights(log_weights: FloatArray, noise: FloatArray, *, price: float) -> FloatArray:
    """Return the maximiser over the simplex of ``λ·l + entropy(λ) - price max_i λ_i s_i``, s > 0.

    With m the maximum, ``λ_i ≤ m n_i`` for ``n_i = 1/s_i``. In falling order of
    ``a_i = l_i + log s_i`` the first k are at that bound, with k the least for which
    ``Σ_{i≤k} n_i (a_i - a_{k+1}) ≥ price`` (all of them, and λ proportional to n, where there is
    none); the others are proportional to exp(l). With N_k the sum of n_i over the first k, the
    derivative in m is 0 where
    ``log((1 - m N_k)/m) = (price - Σ_{i≤k} n_i a_i)/N_k + log Σ_{i>k} exp(l_i)``.
    """
    room, advantage = 1.0 / noise, log_weights + np.log(noise)
    order = np.argsort(-advantage, kind="stable")
    room, advantage = room[order], advantage[order]
    total, gained = np.cumsum(room), np.cumsum(room * advantage)
    is_enough = gained[:-1] - total[:-1] * advantage[1:] >= price
    found = np.empty(len(order))
    if not is_enough.any():
        found[order] = room / total[-1]
        return found
    last = int(np.argmax(is_enough))
    rest = log_weights[order][last + 1 :]
    of_rest = float(logsumexp(rest))
    odds = (price - gained[last]) / total[last] + of_rest - np.log(total[last])
    found[order[: last + 1]] = expit(-odds) * room[: last + 1] / total[last]
    found[order[last + 1 :]] = expit(odds) * np.exp(rest - of_rest)
    return found
