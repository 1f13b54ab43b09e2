"""Exact laws of the whole-number noise that counts are released with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError

Law = tuple[NDArray[np.int64], FloatArray]

# A law is cut where less than so much of its mass is left on either side.
_TAIL = 1e-17
# The same for Gaussian noise: the mass beyond so many deviations is below exp(-9.3**2 / 2).
_GAUSSIAN_RADIUS = 9.3
# From this scale on sums of discrete Gaussians are discrete Gaussians to a relative 1e-37.
_SMOOTH_SCALE = 3.0
# Above, the polynomial of a sum of Laplace noise could overflow, and sums are convolved.
_CELLS_AT_ONCE = 16
# With more products, two weighted sums are convolved by Fourier transforms: a hundred times faster.
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
    rounding: all in all to an absolute 1e-15 of mass for a few cells, and to 1e-14 for hundreds.
    Gaussian noise with a scale below 3 is convolved; above it the sum is discrete Gaussian to a
    relative 1e-37, by Poisson's summation formula. Weighted sums of noise with scales of hundreds
    are convolved by Fourier transforms, exact to 1e-14 of mass.

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
        total = _add_multiple(total, _law_of_sum(noise, n_cells), factor)
    total.flags.writeable = False
    return total


def _law_of_sum(noise: IntegerNoise, n_cells: int) -> FloatArray:
    if noise.mechanism == "laplace":
        whole, rest = divmod(n_cells, _CELLS_AT_ONCE)
        total = _laplace_law(noise.scale, rest) if rest else np.ones(1)
        piece = _laplace_law(noise.scale, _CELLS_AT_ONCE) if whole else total
    elif noise.scale >= _SMOOTH_SCALE:
        return _gaussian_law(noise.scale * math.sqrt(n_cells))
    else:
        whole, total, piece = n_cells, np.ones(1), _gaussian_law(noise.scale)
    for _ in range(whole):
        total = _cut_tails(np.convolve(total, piece))
    return total


def _gaussian_law(scale: float) -> FloatArray:
    radius = math.ceil(_GAUSSIAN_RADIUS * scale)
    numbers = np.arange(-radius, radius + 1)
    with np.errstate(under="ignore"):
        weights = np.exp(-0.5 * (numbers / scale) ** 2)
    return weights / math.fsum(weights)


def _laplace_law(scale: float, n_cells: int) -> FloatArray:
    """Return the law of a sum of Laplace noises, by partial fractions.

    With a = exp(−1/scale) and b = 1 − a² the generating function of the sum is (1−a)^2n /
    ((1−az)(1−a/z))^n; in u = 1 − az its second factor is b^−n ((1−u)/(1−u/b))^n, whose power
    series has positive coefficients d_i, and u^(i−n) = (1−az)^(i−n) has those of a negative
    binomial law. So the probability of k ≥ 0 is tanh(1/(2 scale))^n a^k Σ d_i C(k+n−1−i, k).
    """
    a, b = math.exp(-1.0 / scale), -math.expm1(-2.0 / scale)
    # of (1−u)/(1−u/b): 1 at u⁰, (1−b) b^−i at u^i
    once = np.array([1.0] + [a * a * b**-i for i in range(1, n_cells)])
    series = np.ones(1)
    for _ in range(n_cells):
        series = np.convolve(series, once)[:n_cells]
    # |noise| is at most an exponential time plus 1, so the sum's tail is below a gamma law's
    radius = math.ceil(scale * float(gammainccinv(n_cells, _TAIL)) + n_cells)
    k = np.arange(radius + 1, dtype=np.float64)
    polynomial = np.zeros(radius + 1)
    binomial = np.ones(radius + 1)
    for i in range(n_cells - 1, -1, -1):
        polynomial += series[i] * binomial
        binomial = binomial * (k + (n_cells - i)) / (n_cells - i)
    half = polynomial * np.exp(-k / scale) * math.tanh(0.5 / scale) ** n_cells
    return _cut_tails(np.concatenate([half[:0:-1], half]))


def _add_multiple(law: FloatArray, other: FloatArray, factor: int) -> FloatArray:
    """Return the law of the sum of one noise and a multiple of another, both centred."""
    spread = factor * (len(other) - 1) + 1
    if len(law) * len(other) > _MAX_PRODUCTS:
        stretched = np.zeros(spread)
        stretched[::factor] = other
        size = len(law) + spread - 1
        padded = 2 ** (size - 1).bit_length()
        product = np.fft.rfft(law, padded) * np.fft.rfft(stretched, padded)
        return _cut_tails(np.maximum(np.fft.irfft(product, padded)[:size], 0.0))
    total = np.zeros(len(law) + spread - 1)
    if len(law) <= len(other):
        for start, probability in enumerate(law):
            total[start : start + spread : factor] += probability * other
    else:
        for start, probability in enumerate(other):
            total[factor * start : factor * start + len(law)] += probability * law
    return _cut_tails(total)


def _cut_tails(law: FloatArray) -> FloatArray:
    """Drop as many numbers on both sides of a symmetric law as together weigh nothing."""
    n_dropped = int(np.searchsorted(np.cumsum(law[: len(law) // 2]), _TAIL))
    return law[n_dropped : len(law) - n_dropped]
