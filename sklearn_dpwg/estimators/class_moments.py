"""Second moments of the rows of two classes, exact or released, and what ranks best by them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks.record_block import MOMENT_SPLIT
from sklearn_dpwg.data.whole_numbers import add_split
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity

# Records whose outer products are added exactly before the sum is split, and up to which the
# rounding of sums, once, is less than a thousandth of what a record moves.
BLOCK_SIZE, MOST_RECORDS = 2**13, 2**38


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
        """Return the exact moments of records, whose rows are whole numbers.

        The sums are exact whatever the order of the records, so no label decides how another
        record is rounded.
        """
        n_records, n_features = records.rows.shape
        sums = np.zeros((2, 2, n_features + 1, n_features + 1))
        for first in range(0, n_records, BLOCK_SIZE):
            block = slice(first, min(first + BLOCK_SIZE, n_records))
            vectors = np.full((block.stop - first, n_features + 1), constant)
            rows: Any = records.rows[block]
            vectors[:, :-1] = rows.toarray() if hasattr(rows, "toarray") else rows
            for of_class, chosen in enumerate((~is_second[block], is_second[block])):
                add_split(sums[:, of_class], vectors[chosen].T @ vectors[chosen], MOMENT_SPLIT)
        return cls(sums.sum(axis=0), constant, n_records)

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


def class_moment_sensitivity(n_records: int, n_features: int, constant: float) -> float:
    """Return how far replacing one record, its class included, moves both sums together.

    Where the record keeps its class, one sum moves by ``v v' - u u'``; where it changes it, one by
    ``v v'`` and the other by ``u u'``: the Frobenius norms are
    ``√(‖v‖⁴ + ‖u‖⁴ - 2<u, v>²)`` and ``√(‖v‖⁴ + ‖u‖⁴)``, both at most ``√2 (1 + constant²)``. The
    rest pays for rounding: of the sums, and of the products with √2 before noise is added.
    """
    if n_records > MOST_RECORDS:
        raise InputError(
            f"X must have at most {MOST_RECORDS:,} records, as the moments of {n_records:,} "
            "cannot be added up exactly."
        )
    square = 1.0 + constant**2
    n_entries = (n_features + 1) * (n_features + 2)
    return moment_sensitivity(math.sqrt(square)) + (
        math.sqrt(n_entries) * n_records * square * 2.0**-49
    )


def auc_weights(moments: ClassMoments, *, ridge: float = 0.0) -> FloatArray:
    """Return the direction that ranks best by the square surrogate, ``(Σ₊ + Σ₋ + ρI)⁻¹ δ``.

    Σ are covariances, ρ is `ridge` and δ the difference of the mean rows. The minimiser of
    ``E (1 - w'(x₊ - x₋))²`` is ``(Σ₊ + Σ₋ + δδ')⁻¹ δ``, which by Sherman and Morrison's formula has
    the same direction.
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
