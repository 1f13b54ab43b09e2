"""Poisson batches of the multiplicative group reweighting solver, and their noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._typing import FloatArray


@dataclass(frozen=True)
class Batches:
    """Who may join a step, and how large its noise is; an entry a group.

    A step releases the weighted gradient and all group risks of one batch together, with noise of
    standard deviation ``max_i z_i Δ_i λ_i/(q_i n_i) / √(1-ρ)`` and ``z_i b/(q_i n_i) / √ρ``. In
    units of these a record of group i counts for at most 1/z_i: docs/theory/mgr.md, section 8.
    """

    group_sizes: tuple[int, ...]  # number of records n_i
    # probability q_i with which each record joins a step; 1 for a group read in full
    rates: tuple[float, ...]
    parts: tuple[int, ...]  # which of the plan's releases the records of the group pay for
    multipliers: tuple[float, ...]  # noise multiplier z_i of that release
    # Δ_i, what the noise on gradients counts a record for: 2L where records are sampled, Γ where
    # all are read; with what rounding adds
    gradient_bounds: tuple[float, ...]
    # range b of the losses that the group risks count, with what rounding adds
    feedback_range: float
    center: float  # the middle of that range: what the risk of a group is where no record joins
    # what dividing and weighting sums in floating point adds to Δ, in units of the noise
    rounding: float
    # share ρ of the squared sensitivity that the group risks may use; 0 with one group
    risk_share: float
    # root of the mean squared norm of a record's gradient that step sizes are planned for
    gradient_spread: float

    @property
    def expected_sizes(self) -> FloatArray:
        """Expected number of records that join from each group; public, and what divides sums."""
        return np.asarray(self.rates) * np.asarray(self.group_sizes)

    @property
    def gradient_stds(self) -> FloatArray:
        """Noise on the gradient that each group needs if all weight is on it."""
        bounds = np.asarray(self.multipliers) * np.asarray(self.gradient_bounds)
        return np.asarray(bounds / self.expected_sizes / np.sqrt(1.0 - self.risk_share))

    @property
    def risk_stds(self) -> FloatArray:
        """Noise on the risk of each group; empty with one group."""
        if self.risk_share == 0.0:
            return np.zeros(0)
        bounds = np.asarray(self.multipliers) * self.feedback_range
        return np.asarray(bounds / self.expected_sizes / np.sqrt(self.risk_share))

    @property
    def risk_variances(self) -> FloatArray:
        """Variance of a group's risk from noise and coins, which is at most (b/2)² (1-q)/(q n)."""
        if self.risk_share == 0.0:
            return np.zeros(0)
        coins = (1.0 - np.asarray(self.rates)) / self.expected_sizes
        return np.asarray(self.risk_stds**2 + (self.feedback_range / 2.0) ** 2 * coins)

    @property
    def sampling_variances(self) -> FloatArray:
        """Variance of each group's gradient from the coins, summed over coordinates, as planned."""
        return self.gradient_spread**2 * (1.0 - np.asarray(self.rates)) / self.expected_sizes

    def log_mean_exp_of_coins(self, group_rate: float) -> FloatArray:
        """Return a bound on log E exp(η_λ S) of what the coins add to each group's risk.

        It is ``q_i n_i (exp(x_i) - 1 - x_i)`` with ``x_i = η_λ b / (2 q_i n_i)``; 0 where all join.
        """
        expected = self.expected_sizes
        most = group_rate * self.feedback_range / (2.0 * expected)
        bounds = expected * (np.expm1(np.minimum(most, 700.0)) - most)
        return np.where(np.asarray(self.rates) < 1.0, bounds, 0.0)

    def gradient_std(self, coefficients: FloatArray) -> float:
        """Return the noise on a sum of the groups' gradients: that of the group needing most."""
        return (coefficients * self.gradient_stds).max()

    def step_std(self, group_weights: FloatArray, *, n_weights: int) -> float:
        """Return the deviation of a gradient's coordinate that a step size is chosen for.

        Its square is the noise's variance plus the coins' variance over d.
        """
        coins = group_weights**2 @ self.sampling_variances
        variance = self.gradient_std(group_weights) ** 2 + coins / n_weights
        return float(np.sqrt(variance))

    def __str__(self) -> str:
        """Return a line for people."""
        sampled = sorted({rate for rate in self.rates if rate < 1.0}, reverse=True)
        shown = ", ".join(f"{rate:.3g}" for rate in sampled[:6]) + (", ..." if sampled[6:] else "")
        n_full = sum(rate == 1.0 for rate in self.rates)
        full = f", {n_full} group(s) read in full" if n_full else ""
        return (
            f"Poisson batches of about {self.expected_sizes.sum():,.0f} of "
            f"{sum(self.group_sizes):,} records, each joining with probability {shown}{full}"
        )
