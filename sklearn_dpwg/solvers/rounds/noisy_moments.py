"""Shrinkage of noisy second moments, and the minimax optimum of what they show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.threads import one_blas_thread
from sklearn_dpwg.optimum import smooth_optimum
from sklearn_dpwg.optimum.saddle_point import minimise_quadratic_on_ball

# A slack is at most this share of the radius in the units that the ball sees.
SLACK_IN_BALL = 1e-3
# Gap to solve to, in units of the loss, or of risks that noise has made larger: below it digits
# are worth nothing.
TOLERANCE = 1e-6
# Noise counts so many times when a group is pulled towards the others: a Hessian that is wrong
# costs less than one that is loud (benchmarks/moments.py caution).
CAUTION = 2.0


@dataclass(frozen=True)
class MomentsSchedule:
    """Everything that `Moments.run` needs besides the records and the noise."""

    multipliers: tuple[float, ...]  # noise multiplier of each round
    sensitivity: float  # by how much one record moves the sums of a round
    constant: float  # entry of a record's vector for the intercept; 0 without one
    length: float  # largest entry of a record's vector for the residual
    target_bound: float  # bound on residuals in the first round
    clip: float  # least bound on residuals in later rounds, over their root mean square
    ridge: float  # what keeps the model from fitting noise; see `robust_optimum`
    smoothing: float

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.multipliers)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.n_rounds} round(s), one pass over the rows each: every group's second moments "
            "of rows and residuals",
            f"one record moves them by at most {self.sensitivity:.4g}, only those of its group",
        ]
        if self.n_rounds > 1:
            lines.append(
                f"residuals clipped to at least {self.clip:.3g} times their root mean square; "
                "targets themselves in the first round, and where residuals are no smaller"
            )
        return "\n".join(lines)


def shrunk(moments: FloatArray, stds: FloatArray, block: NDArray[np.bool_]) -> FloatArray:
    """Pull a block of each group's noisy moments towards all groups' as far as noise explains.

    Entries have noise of standard deviation σ_i on the diagonal and σ_i/√2 off it.

    With D the difference of a group's block from the mean with weights ``1/σ_i²``, k the entries of
    one triangle of it and s² the variance of the noise in D, it keeps the share
    ``(1 - 2 (k - 2) s²/‖D‖²)_+`` of D: James and Stein's estimate, positive part, with twice the
    noise. Blocks of fewer than three entries stay as they are. (B. Efron and C. Morris 1973,
    Stein's Estimation Rule and Its Competitors)
    """
    n_entries = int(np.triu(block).sum())
    if len(moments) == 1 or n_entries < 3:
        return moments
    weights = stds.min() ** 2 / stds**2
    weights = weights / weights.sum()
    mean = np.tensordot(weights, moments, 1)
    difference = np.where(block, moments - mean, 0.0)
    noise = stds**2 * (1.0 - 2.0 * weights) + weights**2 @ stds**2
    squares = np.maximum((difference**2).sum(axis=(1, 2)), np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # of a group that has the mean's
        kept = np.maximum(1.0 - CAUTION * (n_entries - 2) * noise / squares, 0.0)
    return np.where(block, mean + kept[:, None, None] * difference, moments)


def positive_part(matrices: FloatArray) -> FloatArray:
    """Return the nearest positive semi-definite matrices: negative eigenvalues become zero."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


class NoisyRisks:
    """Quadratic group risks with slacks for noise: `RiskFunctions` of weights and slacks.

    The risk of group i is ``w'H_i w/2 - b_i'w + c_i/2 - u_i + Σ_j u_j²/(2v)``. The largest of them,
    minimised over u, is ``max_λ Σ λ_i L_i(w) - v ‖λ‖²/2``: a maximum that does not rest on a single
    group for less than v; ``v = 0`` is the plain maximum. H_i are positive semi-definite, and
    slacks are in units in which they hardly count in the radius of the ball of w.
    """

    def __init__(
        self,
        hessians: FloatArray,
        linear: FloatArray,
        constants: FloatArray,
        *,
        smoothing: float,
        radius: float,
    ) -> None:
        p, d = linear.shape
        n_slacks = p if smoothing > 0.0 else 0
        self.hessians = np.zeros((p, d + n_slacks, d + n_slacks))
        self.linear = np.zeros((p, d + n_slacks))
        self.hessians[:, :d, :d], self.linear[:, :d] = hessians, linear
        self.constants = constants
        if n_slacks:
            # no slack is above v, so in these units none is above SLACK_IN_BALL of the radius
            unit = smoothing / (SLACK_IN_BALL * radius)
            own = np.arange(p)
            self.linear[own, d + own] = unit
            self.hessians[:, d + own, d + own] = unit**2 / smoothing
        self.n_groups, self.n_weights = self.linear.shape
        self.group_sizes = (1,) * p

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the risks; no ceiling applies."""
        return self.risks_and_gradients(weights)[0]

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the risks and their gradients; no ceiling applies."""
        images = self.hessians @ weights
        risks = (0.5 * images - self.linear) @ weights + 0.5 * self.constants
        return risks, images - self.linear

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of a mixture, the same at all weights."""
        return np.asarray(np.tensordot(group_weights, self.hessians, 1))


def robust_optimum(
    moments: FloatArray,
    units: FloatArray,
    *,
    center: FloatArray,
    mean_noise: float,
    pooled_noise: float,
    ridge: float,
    smoothing: float,
    shares: FloatArray,
    radius: float,
) -> tuple[FloatArray, FloatArray]:
    """Minimise the largest risk that noisy moments show; return weights in the ball, and a mixture.

    Moments are those of rows and of the residuals of a centre, in the units of the release; `units`
    are what a column is multiplied by to be in the units of the weights. `mean_noise` is the mean
    over the groups of the variance of noise σ_i², `pooled_noise` the standard deviation σ of the
    noise of the mean with weights ``1/σ_i²``. `ridge` is what is added to the Hessians over the
    norm of that noise as a matrix, about ``σ √d``. `smoothing` is the smoothing v over half the
    trace of mean noise times the inverse of the groups' Hessian, mixed by `shares`: about what
    noise costs where all weight is on one group.
    """
    p, size, _ = moments.shape
    n_weights = size - 1
    identity, noise_norm = np.eye(n_weights), pooled_noise * math.sqrt(size)
    curvature = positive_part(moments[:, :-1, :-1]) + ridge * noise_norm * identity
    level = 0.0
    if p > 1 and smoothing > 0.0:
        mean = np.tensordot(shares, curvature, 1) + noise_norm * identity
        inverse = np.linalg.inv(mean)
        level = smoothing * mean_noise * units[-1] ** 2 * float(np.trace(inverse)) / 2.0
    scale = units[:-1]
    hessians = curvature * scale[:, None] * scale
    linear = moments[:, :-1, -1] * (scale * units[-1])
    # risks are those of w - center: written in w
    images = hessians @ center
    constants = moments[:, -1, -1] * units[-1] ** 2 + (images + 2.0 * linear) @ center
    # a level common to all groups changes no optimum and would cost digits
    constants = constants - constants.mean()
    risks = NoisyRisks(hessians, linear + images, constants, smoothing=level, radius=radius)
    size_of_risks = max(1.0, float(np.abs(risks.linear[:, :n_weights]).max()) * radius)
    with one_blas_thread():
        found = smooth_optimum(
            risks, radius=radius, tolerance=TOLERANCE * size_of_risks, max_newton_steps=100
        )
    return found.weights[:n_weights], found.group_weights


def mixed_optimum(
    moments: FloatArray,
    units: FloatArray,
    mixture: FloatArray,
    *,
    center: FloatArray,
    stds: FloatArray,
    ridge: float,
    radius: float,
) -> FloatArray:
    """Minimise a mixture of the risks that noisy moments show, with the ridge of its own noise."""
    mean, scale = np.tensordot(mixture, moments, 1), units[:-1]
    noise_norm = math.sqrt(len(mean)) * float(np.linalg.norm(mixture * stds))
    hessian = positive_part(mean[:-1, :-1]) + ridge * noise_norm * np.eye(len(scale))
    hessian = hessian * scale[:, None] * scale
    linear = mean[:-1, -1] * (scale * units[-1]) + hessian @ center
    with one_blas_thread():
        return minimise_quadratic_on_ball(hessian, linear, radius, np.finfo(float).tiny)
