"""The area under the ROC curve: its saddle form as a game, and its solution from moments."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.minimax.class_moments import ClassMoments
from sklearn_dpwg.minimax.game import Released
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release

# What rounding of products of exact moments adds to a sensitivity, up to 10⁸ records.
ROUNDING = 1e-6


def auc_weights(moments: ClassMoments, *, ridge: float = 0.0) -> FloatArray:
    """Return the direction that ranks best by the square surrogate, ``(Σ₊ + Σ₋ + ρI)⁻¹ δ``.

    Parameters
    ----------
    moments : ClassMoments
        Of both classes, exact or released; the second is to rank above the first.
    ridge : float, default=0.0
        The number ρ.

    Returns
    -------
    ndarray of shape (n_features,)
        Its length has no meaning. With covariances Σ, of which noise may leave only the positive
        part, and the difference δ of the mean rows.

    Notes
    -----
    The minimiser of ``E (1 - w'(x₊ - x₋))²`` is ``(Σ₊ + Σ₋ + δδ')⁻¹ δ``, which by Sherman and
    Morrison's formula has the same direction.
    """
    covariance = covariances(moments).sum(axis=0)
    delta = moments.means[1] - moments.means[0]
    values, vectors = np.linalg.eigh(covariance)
    least = max(ridge, len(delta) * 2.0**-52 * float(values[-1]), 1e-12)
    found = vectors @ ((vectors.T @ delta) / (np.maximum(values, 0.0) + least))
    return np.asarray(found)


def covariances(moments: ClassMoments) -> FloatArray:
    """Return the covariance of each class: what is positive of it."""
    means = moments.means
    found = moments.second_moments - means[:, :, None] * means[:, None, :]
    values, vectors = np.linalg.eigh(found)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))


class AUCGame:
    """The saddle form of the square surrogate of the area under the curve, for public classes.

    The weights are ``(w, a, b)`` and the dual variable is α, with the score ``s = w·x``, in

        (1-π)(s-a)²1₊ + π(s-b)²1₋ + 2(1+α)(πs1₋ - (1-π)s1₊) - π(1-π)α²

    for each record, π the share of the second class; ``‖w‖, |a|, |b| ≤ R`` and ``|α| ≤ 2R``. It
    does **not** protect the class of a record: neighbours differ in one record of the same class,
    as their numbers scale the gradients. An estimator that protects it is `DPAUCClassifier`. (Ying,
    Wen and Lyu 2016, Stochastic Online AUC Maximization, Theorem 1; Kang et al. 2022 name it as an
    instance)
    """

    def __init__(
        self, moments: ClassMoments, *, radius: float, noise: NoiseSource, gradients: Release
    ) -> None:
        self.radius, self._noise, self._release = radius, noise, gradients
        self._means, self._seconds = moments.means, moments.second_moments
        self._counts = moments.counts
        self.factor = float(np.prod(self._counts / moments.n_records))

    def gradients(self, weights: FloatArray, dual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of both gradients that know records, without noise."""
        w, a, b = weights[:-2], weights[-2], weights[-1]
        (of_first, of_second), alpha = self._means, dual[0]
        of_w = self._seconds.sum(axis=0) @ w - a * of_second - b * of_first
        of_w = of_w + (1.0 + alpha) * (of_first - of_second)
        parts = np.append(of_w, [-(of_second @ w), -(of_first @ w)])
        rise = np.array([(of_first - of_second) @ w])
        return 2.0 * self.factor * parts, 2.0 * self.factor * rise

    def diameter(self, weights: FloatArray, dual: FloatArray) -> float:
        """Return how far replacing a record within its class moves all four parts together.

        It is the root of the sum of the squares: the part of w moves by at most ``4 (‖w‖ + |a + 1 +
        α|)`` in units of π(1-π) over the number of the class (the first one with ``1 + α - b``),
        those of a or b and of α by at most ``4 ‖w‖`` each.
        """
        norm, alpha = float(np.linalg.norm(weights[:-2])), float(dual[0])
        slopes = np.abs([1.0 + alpha - weights[-1], weights[-2] + 1.0 + alpha]) + norm
        moved = 4.0 * self.factor * np.sqrt(slopes**2 + 2.0 * norm**2) / self._counts
        return float((1.0 + ROUNDING) * moved.max())

    def release(self, weights: FloatArray, dual: FloatArray) -> Released:
        """Release all four parts at once, and add those that know no record."""
        sensitivity = self.diameter(weights, dual)
        noisy = self._noise.gaussian(
            np.concatenate(self.gradients(weights, dual)),
            sensitivity=sensitivity,
            release=self._release,
        )
        noisy[-3:-1] += 2.0 * self.factor * weights[-2:]
        noisy[-1] -= 2.0 * self.factor * dual[0]
        noise_std = self._release.noise_multiplier * sensitivity
        return Released(noisy[:-1], noisy[-1:], noise_std)

    def project_weights(self, weights: FloatArray) -> FloatArray:
        """Return the nearest allowed w, a and b."""
        levels = np.clip(weights[-2:], -self.radius, self.radius)
        return np.append(project_to_ball(weights[:-2], self.radius), levels)

    def project_dual(self, dual: FloatArray) -> FloatArray:
        """Return the nearest allowed α."""
        return np.clip(dual, -2.0 * self.radius, 2.0 * self.radius)
