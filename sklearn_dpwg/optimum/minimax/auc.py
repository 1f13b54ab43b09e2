"""The area under the ROC curve: its saddle form as a game, and its solution from moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.minimax.game import Released
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity

# Second moments of the rows of two classes, exact or released.

# A row of norm 1 comes out longer by the rounding of its factor.
LONGEST_ROW = 1.0 + 2.0**-40

# Rounding of entries may add this share to the norm of a record's vector; integers below 2⁵³ are
# floats, so that coarser entries make all sums exact.
MOST_ROUNDING, DIGITS = 1e-3, 53
BLOCK_SIZE = 2**13


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Sums of ``v v'`` over the records of each of two classes, with ``v = (x, constant)``."""

    # of the first class and of the second; symmetric; (2, n_features + 1, n_features + 1)
    sums: FloatArray
    constant: float  # last entry of v
    n_records: int  # records of both classes together, a public number
    # standard deviation of the noise on an entry of the diagonal; off it, it is less by √2
    noise_std: float = 0.0

    @classmethod
    def of(cls, records: GroupedRecords, is_second: NDArray[np.bool_], *, constant: float) -> Self:
        """Return the exact moments of records, rounded entry by entry to a public grid.

        The sums are exact whatever the order of the records, so no label decides how another
        record is rounded.
        """
        n_records, n_features = records.rows.shape
        step = entry_step(n_records, n_features, constant)
        sums = np.zeros((2, n_features + 1, n_features + 1))
        for first in range(0, n_records, BLOCK_SIZE):
            block = slice(first, min(first + BLOCK_SIZE, n_records))
            vectors = np.full((block.stop - first, n_features + 1), np.rint(constant / step))
            rows: Any = records.rows[block]
            rows = rows.toarray() if hasattr(rows, "toarray") else rows
            vectors[:, :-1] = np.rint(
                np.asarray(rows, dtype=np.float64) * (records.row_scale[block, None] / step)
            )
            for of_class, chosen in enumerate((~is_second[block], is_second[block])):
                sums[of_class] += vectors[chosen].T @ vectors[chosen]
        return cls(sums * step**2, constant, n_records)

    def released(self, noise: NoiseSource, release: Release) -> ClassMoments:
        """Release both classes' sums at once: the line at which records meet noise.

        A record that is replaced leaves one sum and joins one, its own or the other.
        """
        n_columns = self.sums.shape[1]
        rows, columns = np.triu_indices(n_columns)
        times = np.where(rows == columns, 1.0, math.sqrt(2.0))
        sensitivity = class_moment_sensitivity(self.n_records, n_columns - 1, self.constant)
        noisy = noise.gaussian(
            self.sums[:, rows, columns] * times, sensitivity=sensitivity, release=release
        )
        sums = np.empty_like(self.sums)
        sums[:, rows, columns] = sums[:, columns, rows] = noisy / times
        return ClassMoments(
            sums, self.constant, self.n_records, release.noise_multiplier * sensitivity
        )

    @property
    def counts(self) -> FloatArray:
        """Records of each class, at least one of two: what both sums say, and the public total."""
        seen = self.sums[:, -1, -1] / self.constant**2
        of_second = (seen[1] + self.n_records - seen[0]) / 2.0
        least = min(1.0, self.n_records / 2.0)
        of_second = float(np.clip(of_second, least, self.n_records - least))
        return np.array([self.n_records - of_second, of_second])

    @property
    def means(self) -> FloatArray:
        """Mean row of each class, in the unit ball."""
        means = self.sums[:, :-1, -1] / (self.constant * self.counts[:, None])
        return np.asarray(means / np.maximum(1.0, np.linalg.norm(means, axis=1))[:, None])

    @property
    def second_moments(self) -> FloatArray:
        """Mean of ``x x'`` of each class."""
        return np.asarray(self.sums[:, :-1, :-1] / self.counts[:, None, None])


def entry_step(n_records: int, n_features: int, constant: float) -> float:
    """Return the finest step of entries with which all sums are exact; refuse too many records."""
    largest = n_records * (1.0 + MOST_ROUNDING) ** 2 * (1.0 + constant**2)
    step = 2.0 ** math.ceil((math.log2(largest) - DIGITS) / 2.0)
    if math.sqrt(n_features) * step / 2.0 > MOST_ROUNDING or step > constant:
        raise InputError(
            f"X must have fewer records or columns, as the moments of {n_records:,} records with "
            f"{n_features:,} columns cannot be added up exactly."
        )
    return step


def class_moment_sensitivity(n_records: int, n_features: int, constant: float) -> float:
    """Return how far replacing one record, its class included, moves both sums together.

    Where the record keeps its class, one sum moves by ``v v' - u u'``; where it changes it, one by
    ``v v'`` and the other by ``u u'``: the Frobenius norms are
    ``√(‖v‖⁴ + ‖u‖⁴ - 2<u, v>²)`` and ``√(‖v‖⁴ + ‖u‖⁴)``, both at most ``√2 (1 + constant²)``. The
    rest pays for rounding: of entries, and of the products with √2 before noise is added.
    """
    step = entry_step(n_records, n_features, constant)
    square = (LONGEST_ROW + math.sqrt(n_features) * step / 2.0) ** 2 + constant**2
    n_entries = (n_features + 1) * (n_features + 2)
    return moment_sensitivity(math.sqrt(square)) + (
        math.sqrt(n_entries) * n_records * square * 2.0**-50
    )


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
