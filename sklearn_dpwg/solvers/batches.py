"""Steps on Poisson batches: sampling rate, noise, and the release of a step."""

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

# Root mean square norm of a record's gradient over L, assumed for planning.
GRADIENT_SPREAD = 0.4


@dataclass(frozen=True)
class Batches:
    """Sampling rate and noise of steps on Poisson batches.

    A step releases the weighted gradient and all group risks of one batch together, with noise of
    standard deviations ``2 z L max_i λ_i/(q n_i) / √(1-ρ)`` and ``z b/(q n_i) / √ρ``. In units of
    these a record moves both together by at most 1/z: docs/theory/mgr.md, section 8. For groups
    that overlap, ``max_a Σ_{k∋a} λ_k/n_k`` replaces ``max_i λ_i/n_i`` and ``b √m`` replaces b:
    docs/theory/overlapping-groups.md, Lemma 5. All arrays are (n_groups,).
    """

    problem: Problem
    sums: SumSensitivity  # L, b and the middle of the losses, rounding included
    rate: float  # probability q with which each record joins a step
    multiplier: float  # noise multiplier z of the release
    # fraction ρ of the squared sensitivity that the group risks use; 0 with one group
    risk_fraction: float

    @property
    def rounding(self) -> float:
        """What rounding adds to the sensitivity of a step, in units of its noise."""
        problem = self.problem
        # a record's part of the gradient is at most 1/(2z) long, in units of noise, of risks 1/z
        largest = 0.5 / self.multiplier + 1.0 / self.multiplier
        slack = weighting_slack(
            largest, n_records=problem.n_records, n_groups=problem.roundings_of_a_mean
        )
        # sums are rounded before the change of variables of centred rows
        return 2.0 * problem.rounding_factor * slack

    @property
    def expected_sizes(self) -> FloatArray:
        """Expected number of records of each group in a batch: the public divisors of sums."""
        return self.rate * np.asarray(self.problem.group_sizes)

    @property
    def gradient_stds(self) -> FloatArray:
        """Noise on a coordinate of the gradient if all weight is on the group."""
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
        """Variance of a group's risk: by noise, and by sampling at most (b/2)² (1-q)/(q n)."""
        if self.risk_fraction == 0.0:
            return np.zeros(0)
        sampling = (1.0 - self.rate) / self.expected_sizes
        return np.asarray(self.risk_stds**2 + (self.sums.loss_range / 2.0) ** 2 * sampling)

    @property
    def sampling_variances(self) -> FloatArray:
        """Assumed variance of each group's gradient by sampling, summed over coordinates."""
        norm = GRADIENT_SPREAD * self.problem.lipschitz
        return np.asarray(norm**2 * (1.0 - self.rate) / self.expected_sizes)

    def noise_of_run(self, n_weights: int, n_steps: int) -> RunNoise:
        """Return the variances of averages over n_steps batches, by noise and sampling."""
        noise = n_weights * self.gradient_stds**2
        gradient = (noise + self.sampling_variances) / n_steps
        return RunNoise(gradient, self.risk_variances / n_steps)

    def gradient_std(self, coefficients: FloatArray) -> float:
        """Return the noise on a coordinate of ``Σ_i coefficients_i gradient_i``."""
        if self.problem.cells is None:
            # replacing a record moves one group's gradient: the largest need is enough
            return float((coefficients * self.gradient_stds).max())
        record_std = self.gradient_stds[0] * float(self.problem.group_sizes[0])
        return float(record_std * influence(self.problem, coefficients))

    def step_std(self, group_weights: FloatArray, *, n_weights: int) -> float:
        """Return the standard deviation of a gradient's coordinate, by noise and sampling."""
        cells = self.problem.cells
        if cells is None:
            sampling = group_weights**2 @ self.sampling_variances
        else:
            sizes = np.asarray(self.problem.group_sizes, dtype=float)
            record_weights = (group_weights / sizes) @ cells.membership  # by cell
            record_variance = self.sampling_variances[0] * sizes[0]
            sampling = record_variance * (np.asarray(cells.sizes) @ record_weights**2)
        variance = self.gradient_std(group_weights) ** 2 + sampling / n_weights
        return float(np.sqrt(variance))

    def __str__(self) -> str:
        return f"Poisson batches, which a record joins with probability {self.rate:.3g}"


def release_batch(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    group_weights: FloatArray,
    noise: NoiseSource,
    loss_clip: float,
) -> StepRelease:
    """Draw a Poisson batch; release its weighted gradient and its group risks together.

    Sensitivity: a record moves both, in units of their noise, by at most 1/z (docs/theory/mgr.md,
    section 8).
    """
    batches: Batches = plan.schedule.batches
    release, n_weights = plan.releases[-1], len(weights)
    # where groups are hidden, a record that changes its group joins the same batches
    batch = noise.poisson_sample(release, by_place=plan.problem.hidden is not None)
    center = batches.sums.center
    losses, gradients = data.sampled_sums(weights, batch, loss_clip=loss_clip, center=center)
    # divided by public sizes: how many records joined is secret
    gradients = gradients / batches.expected_sizes[:, None]
    risks, risk_stds = losses / batches.expected_sizes, batches.risk_stds
    gradient_stds = np.full(n_weights, batches.gradient_std(group_weights))
    released = noise.gaussian_in_units(
        np.concatenate([group_weights @ gradients, risks[: len(risk_stds)]]),
        units=np.concatenate([gradient_stds, risk_stds]),
        sensitivity=1.0 / release.noise_multiplier + batches.rounding,
        release=release,
    )
    noise_std = batches.step_std(group_weights, n_weights=n_weights)
    noisy_risks = center + released[n_weights:]
    noisy_risks, variances = active(noisy_risks, batches.risk_variances, plan.problem)
    return StepRelease(released[:n_weights], noisy_risks, noise_std, risk_variances=variances)
