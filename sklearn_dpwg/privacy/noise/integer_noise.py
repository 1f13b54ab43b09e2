"""Exact laws of the whole-number noise that counts are released with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError

Law = tuple[NDArray[np.int64], FloatArray]

# A law is cut where less than so much of its mass is left on either side.
_TAIL = 1e-17
# The same for one noise: the mass beyond is below exp(-9.3**2 / 2) and exp(-40).
_GAUSSIAN_RADIUS, _LAPLACE_RADIUS = 9.3, 40.0
# From this scale on sums of discrete Gaussians are discrete Gaussians to a relative 1e-37.
_SMOOTH_SCALE = 3.0
# With more products two laws are convolved by Fourier transforms: a hundred times faster.
_MAX_PRODUCTS = 10**7
# Larger noise has laws of millions of points, and no use on counts.
MAX_SCALE = 1e4


@dataclass(frozen=True)
class IntegerNoise:
    """Discrete Laplace or discrete Gaussian noise on the whole numbers, as a law.

    It describes noise and draws none: `NoiseSource` adds it.

    Parameters
    ----------
    mechanism : {"laplace", "gaussian"}
        The probability of a whole number x is in proportion to exp(−abs(x)/scale) or to
        exp(−x²/(2 scale²)).
    scale : float
        Scale of the noise, positive, at most 10,000.

    Notes
    -----
    A law leaves out tails of less than 1e-17 on either side, and what it holds is exact up to
    rounding: all in all to an absolute 1e-15 of mass for a few cells, and to 1e-13 for hundreds.
    Sums are convolved, those of long laws by Fourier transforms; Gaussian noise with a scale of 3
    or more is not: its sum is discrete Gaussian to a relative 1e-37, by Poisson's summation
    formula.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import IntegerNoise
    >>> noise = IntegerNoise("laplace", scale=2.0)
    >>> round(noise.std, 3)
    2.799
    >>> numbers, probabilities = noise.law(n_cells=2)
    >>> round(float(probabilities[numbers == 0][0]), 4)
    0.1298
    """

    mechanism: Literal["laplace", "gaussian"]
    scale: float

    def __post_init__(self) -> None:
        if self.mechanism not in ("laplace", "gaussian"):
            raise InputError(f'mechanism must be "laplace" or "gaussian", got {self.mechanism!r}.')
        object.__setattr__(self, "scale", positive_finite(self.scale, "scale"))
        if self.scale > MAX_SCALE:
            raise InputError(f"scale must be at most {MAX_SCALE:,.0f}, got {self.scale!r}.")

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one number."""
        if self.mechanism == "laplace":
            half = 0.5 / self.scale
            # sinh overflows where the noise is 0 to any precision
            return math.sqrt(0.5) / math.sinh(half) if half < 700.0 else 0.0
        support, probabilities = self.law()
        return math.sqrt(float(np.dot(support.astype(np.float64) ** 2, probabilities)))

    def law(
        self, n_cells: int | Sequence[int] = 1, weights: int | Sequence[int] | None = None
    ) -> Law:
        """Return the law of a sum of independent noises.

        Parameters
        ----------
        n_cells : int or sequence of int, default=1
            How many numbers with noise are summed; several sums, to be weighted and added, have
            one count each.
        weights : int or sequence of int, optional
            Whole number that multiplies each of the sums, none of them 0; by default 1.

        Returns
        -------
        support : ndarray of int
            Whole numbers, consecutive and increasing.
        probabilities : ndarray of float
            The probability of each, read-only like the numbers.
        """
        counts = [whole_number(n, "n_cells", least=1) for n in np.atleast_1d(n_cells).tolist()]
        factors = [1] * len(counts) if weights is None else np.atleast_1d(weights).tolist()
        if 0 in factors:
            raise InputError(f"weights must be whole numbers other than 0, got {weights!r}.")
        factors = [whole_number(abs(factor), "weights", least=1) for factor in factors]
        if len(counts) != len(factors):
            raise InputError(
                f"weights must have one number for each of the {len(counts)} sums of n_cells, "
                f"got {len(factors)}."
            )
        # the laws are symmetric, so signs and order do not matter
        terms = tuple(sorted(zip(factors, counts, strict=True)))
        probabilities = _law_of_sums(self, terms)
        radius = len(probabilities) // 2
        support = np.arange(-radius, radius + 1)
        support.flags.writeable = False
        return support, probabilities


# An audit asks for a few dozen laws, again and again.
@lru_cache(maxsize=64)
def _law_of_sums(noise: IntegerNoise, terms: tuple[tuple[int, int], ...]) -> FloatArray:
    """Return the law of a weighted sum of sums, on the numbers from −radius to radius."""
    total = np.ones(1)
    for factor, n_cells in terms:
        of_sum = _law_of_sum(noise, n_cells)
        stretched = np.zeros(factor * (len(of_sum) - 1) + 1)
        stretched[::factor] = of_sum
        total = _sum_of(total, stretched)
    total.flags.writeable = False
    return total


def _law_of_sum(noise: IntegerNoise, n_cells: int) -> FloatArray:
    if noise.mechanism == "gaussian" and noise.scale >= _SMOOTH_SCALE:
        return _gaussian_law(noise.scale * math.sqrt(n_cells))
    once = (
        _gaussian_law(noise.scale) if noise.mechanism == "gaussian" else _laplace_law(noise.scale)
    )
    total = np.ones(1)
    for digit in f"{n_cells:b}":
        total = _sum_of(total, total)
        total = _sum_of(total, once) if digit == "1" else total
    return total


def _gaussian_law(scale: float) -> FloatArray:
    radius = math.ceil(_GAUSSIAN_RADIUS * scale)
    numbers = np.arange(-radius, radius + 1)
    with np.errstate(under="ignore"):
        weights = np.exp(-0.5 * (numbers / scale) ** 2)
    return weights / math.fsum(weights)


def _laplace_law(scale: float) -> FloatArray:
    radius = math.ceil(_LAPLACE_RADIUS * scale)
    with np.errstate(under="ignore"):
        weights = np.exp(-np.abs(np.arange(-radius, radius + 1)) / scale)
    return weights * math.tanh(0.5 / scale)


def _sum_of(law: FloatArray, other: FloatArray) -> FloatArray:
    """Return the law of the sum of two independent noises, both centred."""
    if len(law) * len(other) <= _MAX_PRODUCTS:
        return _cut_tails(np.convolve(law, other))
    size = len(law) + len(other) - 1
    padded = 2 ** (size - 1).bit_length()
    product = np.fft.rfft(law, padded) * np.fft.rfft(other, padded)
    return _cut_tails(np.maximum(np.fft.irfft(product, padded)[:size], 0.0))


def _cut_tails(law: FloatArray) -> FloatArray:
    """Drop as many numbers on both sides of a symmetric law as together weigh nothing."""
    n_dropped = int(np.searchsorted(np.cumsum(law[: len(law) // 2]), _TAIL))
    return law[n_dropped : len(law) - n_dropped]
