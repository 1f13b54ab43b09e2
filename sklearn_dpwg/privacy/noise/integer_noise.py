"""Probability laws of the whole-number noise that is added to counts."""

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

# Whole numbers, and the probability of each.
Law = tuple[NDArray[np.int64], FloatArray]

# Largest mass that is cut off on either side of a law.
_TAIL = 1e-17
# Radius of the law of a single noise, in scales: less than exp(-9.3**2 / 2) or exp(-40) is cut off.
_GAUSSIAN_RADIUS, _LAPLACE_RADIUS = 9.3, 40.0
# From this scale on sums of discrete Gaussians are discrete Gaussians to a relative 1e-37.
_SMOOTH_SCALE = 3.0
# Largest number of products for direct convolution: above it the FFT is a hundred times faster.
_MAX_PRODUCTS = 10**7
# Larger noise has laws of millions of points, and no use on counts.
MAX_SCALE = 1e4


@dataclass(frozen=True)
class IntegerNoise:
    """Probability law of discrete Laplace or discrete Gaussian noise on the whole numbers.

    It only describes noise; `NoiseSource` draws and adds it.

    Parameters
    ----------
    mechanism : {"laplace", "gaussian"}
        The probability of a whole number x is in proportion to exp(−abs(x)/scale) or to
        exp(−x²/(2 scale²)).
    scale : float
        Scale of the noise, positive, at most 10,000.

    Notes
    -----
    A law leaves out tails of less than 1e-17 on either side. With rounding, its probabilities err
    by 1e-15 in total for a few cells, and by 1e-13 for hundreds. Laws of sums are convolutions, by
    FFT if they are long. Only the sum of Gaussian noise with a scale of at least 3 is taken as
    discrete Gaussian, which holds to a relative 1e-37 by Poisson's summation formula.

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
        """Standard deviation of the noise on one count."""
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
            How many counts with noise are added. A sequence is for a weighted total of several
            sums: one number for each sum.
        weights : int or sequence of int, optional
            Whole number, not 0, that multiplies each of the sums; by default 1.

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
        # laws are symmetric, so signs and the order of the sums do not matter
        terms = tuple(sorted(zip(factors, counts, strict=True)))
        probabilities = _law_of_sums(self, terms)
        radius = len(probabilities) // 2
        support = np.arange(-radius, radius + 1)
        support.flags.writeable = False
        return support, probabilities


# An audit needs the same few dozen laws many times.
@lru_cache(maxsize=64)
def _law_of_sums(noise: IntegerNoise, terms: tuple[tuple[int, int], ...]) -> FloatArray:
    """Return the probabilities of Σ factor * (sum of n_cells noises) from −radius to radius."""
    total = np.ones(1)
    for factor, n_cells in terms:
        sum_law = _law_of_sum(noise, n_cells)
        scaled_law = np.zeros(factor * (len(sum_law) - 1) + 1)
        scaled_law[::factor] = sum_law
        total = _convolved(total, scaled_law)
    total.flags.writeable = False
    return total


def _law_of_sum(noise: IntegerNoise, n_cells: int) -> FloatArray:
    """Return the probabilities of the sum of ``n_cells`` independent noises."""
    if noise.mechanism == "gaussian" and noise.scale >= _SMOOTH_SCALE:
        return _gaussian_law(noise.scale * math.sqrt(n_cells))
    law_of_one = _gaussian_law if noise.mechanism == "gaussian" else _laplace_law
    single = law_of_one(noise.scale)
    total = np.ones(1)
    for digit in f"{n_cells:b}":  # by doubling
        total = _convolved(total, total)
        total = _convolved(total, single) if digit == "1" else total
    return total


def _gaussian_law(scale: float) -> FloatArray:
    """Return the probabilities of one discrete Gaussian noise, from −radius to radius."""
    radius = math.ceil(_GAUSSIAN_RADIUS * scale)
    numbers = np.arange(-radius, radius + 1)
    with np.errstate(under="ignore"):
        weights = np.exp(-0.5 * (numbers / scale) ** 2)
    return weights / math.fsum(weights)


def _laplace_law(scale: float) -> FloatArray:
    """Return the probabilities of one discrete Laplace noise, from −radius to radius."""
    radius = math.ceil(_LAPLACE_RADIUS * scale)
    with np.errstate(under="ignore"):
        weights = np.exp(-np.abs(np.arange(-radius, radius + 1)) / scale)
    return weights * math.tanh(0.5 / scale)


def _convolved(law: FloatArray, other: FloatArray) -> FloatArray:
    """Return the law of the sum of two independent noises, both centred."""
    if len(law) * len(other) <= _MAX_PRODUCTS:
        return _cut_tails(np.convolve(law, other))
    size = len(law) + len(other) - 1
    padded = 2 ** (size - 1).bit_length()
    product = np.fft.rfft(law, padded) * np.fft.rfft(other, padded)
    return _cut_tails(np.maximum(np.fft.irfft(product, padded)[:size], 0.0))


def _cut_tails(law: FloatArray) -> FloatArray:
    """Drop both tails of a symmetric law, each of a probability of at most `_TAIL`."""
    n_dropped = int(np.searchsorted(np.cumsum(law[: len(law) // 2]), _TAIL))
    return law[n_dropped : len(law) - n_dropped]
