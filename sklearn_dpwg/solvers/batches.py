"""Steps on Poisson batches: who joins one, how loud its noise is, and what it releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.sensitivity import weighting_slack
from sklearn_dpwg.solvers.descent import RunNoise, StepRelease
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.steps import SumSensitivity, active, influence

GRADIENT_AND_RISKS = "gradient and group risks"

# Root mean squared norm of a record's gradient that steps are planned for, as a fraction of L.
GRADIENT_SPREAD = 0.4


@dataclass(frozen=True)
class Batches:
    """Who may join a step, and how large its noise is.

    A step releases the weighted gradient and all group risks of one batch together, with noise of
    standard deviation ``z Δ max_i λ_i/(q n_i) / √(1-ρ)`` and ``z b/(q n_i) / √ρ``. In units of
    these a record counts for at most 1/z: docs/theory/mgr.md, section 8. Where groups overlap
    ``max_a Σ_{k∋a} λ_k/n_k`` is in place of ``max_i λ_i/n_i`` and ``b √m`` in place of b:
    docs/theory/overlapping-groups.md, Lemma 5.
    """

    problem: Problem
    sums: SumSensitivity  # L, b and the middle of the losses, with what rounding adds
    rate: float  # probability q with which each record joins a step
    multiplier: float  # noise multiplier z of the release
    # fraction ρ of the squared sensitivity that the group risks may use; 0 with one group
    risk_fraction: float

    @property
    def rounding(self) -> float:
        """What dividing and weighting sums in floating point adds to Δ, in units of the noise."""
        problem = self.problem
        # the largest norms of weighted sums and of risks in units of the noise, over the records
        largest = 0.5 / self.multiplier + 1.0 / self.multiplier
        slack = weighting_slack(
            largest, n_records=problem.n_records, n_groups=problem.roundings_of_a_mean
        )
        # of what is rounded before the change of variables, as sums of full passes pay for it
        return 2.0 * problem.rounding_factor * slack

    @property
    def expected_sizes(self) -> FloatArray:
        """Expected number of records that join from each group; public, and what divides sums."""
        return self.rate * np.asarray(self.problem.group_sizes)

    @property
    def gradient_stds(self) -> FloatArray:
        """Noise on the gradient that each group needs if all weight is on it."""
        bound = self.multiplier * (2.0 * self.sums.gradient_norm)
        return np.asarray(bound / self.expected_sizes / np.sqrt(1.0 - self.risk_fraction))

    @property
    def risk_stds(self) -> FloatArray:
        """Noise on the risk of each group; empty with one group."""
        if self.risk_fraction == 0.0:
            return np.zeros(0)
        bound = self.multiplier * (self.sums.loss_range * self.problem.group_moves)
        return np.asarray(bound / self.expected_sizes / np.sqrt(self.risk_fraction))

    @property
    def risk_variances(self) -> FloatArray:
        """Variance of a group's risk from noise and coins, which is at most (b/2)² (1-q)/(q n)."""
        if self.risk_fraction == 0.0:
            return np.zeros(0)
        coins = (1.0 - self.rate) / self.expected_sizes
        return np.asarray(self.risk_stds**2 + (self.sums.loss_range / 2.0) ** 2 * coins)

    @property
    def sampling_variances(self) -> FloatArray:
        """Variance of each group's gradient from the coins, summed over coordinates, as planned."""
        spread = GRADIENT_SPREAD * self.problem.lipschitz
        return np.asarray(spread**2 * (1.0 - self.rate) / self.expected_sizes)

    def noise_of_run(self, n_weights: int, n_steps: int) -> RunNoise:
        """Return the variances of a step, of noise and coins (for gradients a model), over T."""
        coordinates = n_weights * self.gradient_stds**2
        gradient = (coordinates + self.sampling_variances) / n_steps
        return RunNoise(gradient, self.risk_variances / n_steps)

    def gradient_std(self, coefficients: FloatArray) -> float:
        """Return the noise on a sum of the groups' gradients: that of the group needing most."""
        if self.problem.cells is None:
            return float((coefficients * self.gradient_stds).max())
        of_record = self.gradient_stds[0] * float(self.problem.group_sizes[0])
        return float(of_record * influence(self.problem, coefficients))

    def step_std(self, group_weights: FloatArray, *, n_weights: int) -> float:
        """Return the deviation of a gradient's coordinate by noise and coins, for its step."""
        cells = self.problem.cells
        if cells is None:
            coins = group_weights**2 @ self.sampling_variances
        else:
            sizes = np.asarray(self.problem.group_sizes, dtype=float)
            counted = (group_weights / sizes) @ cells.membership  # of a record of each cell
            of_record = self.sampling_variances[0] * sizes[0]
            coins = of_record * (np.asarray(cells.sizes) @ counted**2)
        variance = self.gradient_std(group_weights) ** 2 + coins / n_weights
        return float(np.sqrt(variance))

    def __str__(self) -> str:
        return f"Poisson batches, which a record joins with probability {self.rate:.3g}"


def from_batch(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    group_weights: FloatArray,
    noise: NoiseSource,
    batches: Batches,
    loss_clip: float,
) -> StepRelease:
    """Draw a Poisson batch; release its gradient and its group risks together.

    A record that joins moves both, in units of their noise, by at most 1/z (docs/theory/mgr.md,
    section 8).
    """
    release = plan.releases[-1]
    losses, gradients = data.sampled_sums(
        weights,
        # where groups are hidden a coin a place, whatever the group
        noise.poisson_sample(release, by_place=plan.problem.hidden is not None),
        loss_clip=loss_clip,
        center=batches.sums.center,
    )
    # by public sizes: how many joined is secret, and would let a record move the weight of others
    gradients = gradients / batches.expected_sizes[:, None]
    risks, risk_stds = losses / batches.expected_sizes, batches.risk_stds
    released = noise.gaussian_in_units(
        np.concatenate([group_weights @ gradients, risks[: len(risk_stds)]]),
        units=np.concatenate(
            [np.full(len(weights), batches.gradient_std(group_weights)), risk_stds]
        ),
        sensitivity=1.0 / release.noise_multiplier + batches.rounding,
        release=release,
    )
    noise_std = batches.step_std(group_weights, n_weights=len(weights))
    noisy_risks = batches.sums.center + released[len(weights) :]
    noisy_risks, variances = active(noisy_risks, batches.risk_variances, plan.problem)
    return StepRelease(released[: len(weights)], noisy_risks, noise_std, variances)
