"""Contrasts of groups that a verdict rests on, and the levels at which they are tested."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.inspection.words import number
from sklearn_dpwg.metrics.intervals import Interval, difference_interval
from sklearn_dpwg.metrics.intervals.ratio import ratio_of_rates

# Whether groups are treated alike, which may be that nobody can tell; a group may be left out.
Answer = Literal["passes", "fails", "cannot tell", "not judged", "reference"]

# Of the error of a wrong "fails" pairs may have so much where most of them are at the border; what
# they leave elsewhere is of groups against all others together, which find one that differs.
_PAIR_SHARE = 0.4
# Of all, so much goes to a limit of the highest rate: of two groups it matters less.
_SHARE_OF_LIMIT = 0.02
_SHARE_OF_TWO = 0.001
_N_STEPS = 14
# So many ranges of the share of low groups are looked at.
_N_SHARES = 256
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Margin:
    """How far apart rates may be: a low one is at least ``factor`` × a high one less ``gap``.

    A contrast is the ratio of a low to a high rate, or how far it is above it, and is held against
    the ``least``.
    """

    factor: float
    gap: float
    is_ratio: bool = True

    @property
    def least(self) -> float:
        """The smallest contrast that is allowed."""
        return self.factor if self.is_ratio else -self.gap

    @property
    def alike(self) -> float:
        """The contrast of equal rates."""
        return 1.0 if self.is_ratio else 0.0

    def spread(self, high: float) -> float:
        """Return by how much the lowest allowed rate is below the highest."""
        return (1.0 - self.factor) * high + self.gap

    def contrast(self, low: Interval, high: Interval) -> Interval:
        """Return the contrast of two rates, with limits."""
        return ratio_of_rates(low, high) if self.is_ratio else difference_interval(low, high)

    def answer(self, contrast: Interval) -> Answer:
        """Return what limits say; where they hold both answers nobody can tell."""
        if contrast.low >= self.least:
            return "passes"
        return "fails" if contrast.high < self.least else "cannot tell"

    @property
    def bounds(self) -> tuple[str, str]:
        """What contrasts are that pass, and that fail, in words."""
        if self.is_ratio:
            return f"at least {self.factor:g}", f"below {self.factor:g}"
        return f"at most {100.0 * self.gap:g}", f"above {100.0 * self.gap:g}"

    def is_untold(self, contrast: Interval) -> bool:
        """Return whether a ratio may be nearly anything, as both rates may be about 0."""
        return self.is_ratio and contrast.low < min(0.05, self.factor) and contrast.high > 20.0

    def text(self, contrast: Interval) -> str:
        """Return a contrast and its limits in words."""
        name = "ratio" if self.is_ratio else "difference"
        if math.isnan(contrast.estimate) or self.is_untold(contrast):
            return f"a {name} that nobody knows"
        if self.is_ratio and math.isinf(contrast.high):
            return f"a ratio of these two of {contrast.low:.2f} or more"
        if self.is_ratio:
            low, high = (number(end, limit=self.factor) for end in (contrast.low, contrast.high))
            return f"a ratio of these two of {contrast.estimate:.2f} [{low}, {high}]"
        ends = (100.0 * (0.0 - end) for end in (contrast.estimate, contrast.high, contrast.low))
        value, low, high = (f"{one:.1f}" for one in ends)
        return f"a difference of these two of {value} [{low}, {high}] percentage points"


@dataclass(frozen=True)
class Counts:
    """Hits and misses of groups, of shape (..., n_groups), and the variances of their noise.

    With ``totals`` the number of records is known, and hits and misses say the same twice. Without
    ``is_sample`` the rates are those of the very records.
    """

    hits: FloatArray
    misses: FloatArray
    hit_noise: FloatArray
    miss_noise: FloatArray
    totals: FloatArray | None = None
    is_sample: bool = True

    @property
    def sizes(self) -> FloatArray:
        """How many records the rates are of, at least 1."""
        found = self.hits + self.misses if self.totals is None else self.totals
        return np.maximum(found, 1.0)

    @property
    def rates(self) -> FloatArray:
        """Estimates, half a record drawn to each end."""
        hits, misses = self.hits, self.misses
        if self.totals is not None:
            hits = 0.5 * (hits - misses + self.totals)
            misses = self.totals - hits
        hits, misses = np.maximum(hits, 0.0) + 0.5, np.maximum(misses, 0.0) + 0.5
        return np.asarray(hits / (hits + misses))

    def variances(self, rates: FloatArray | float | None = None) -> FloatArray:
        """Return the variances of estimates at some rates, by default at their own."""
        at = self.rates if rates is None else rates
        if self.totals is None:
            noise = self.hit_noise * (1.0 - at) ** 2 + self.miss_noise * np.square(at)
        else:
            noise = 0.25 * (self.hit_noise + self.miss_noise)
        sizes = self.sizes
        return np.asarray((self.is_sample * sizes * at * (1.0 - at) + noise) / sizes**2)

    def without_noise(self) -> Counts:
        """Return the same counts as if they had no noise."""
        none = np.zeros_like(self.hit_noise)
        return Counts(self.hits, self.misses, none, none, self.totals, self.is_sample)

    def all_but_one(self) -> Counts:
        """Return for each group the counts of all others together."""

        def others(values: FloatArray) -> FloatArray:
            return np.asarray(values.sum(axis=-1, keepdims=True) - values)

        return self._each(others)

    def together(self) -> Counts:
        """Return the counts of all groups together, as of one group."""
        return self._each(lambda values: np.asarray(values.sum(axis=-1, keepdims=True)))

    def of(self, groups: list[int]) -> Counts:
        """Return the counts of some groups."""
        return self._each(lambda values: np.asarray(values[..., groups]))

    def _each(self, change: Callable[[FloatArray], FloatArray]) -> Counts:
        totals = None if self.totals is None else change(self.totals)
        hits, misses, *noise = map(
            change, (self.hits, self.misses, self.hit_noise, self.miss_noise)
        )
        return Counts(hits, misses, noise[0], noise[1], totals, self.is_sample)


def excess(low: Counts, high: Counts, margin: Margin) -> FloatArray:
    """Return by how many deviations low rates are below what high ones allow."""
    variance = low.variances() + margin.factor**2 * high.variances()
    return _in_deviations(margin.factor * high.rates - margin.gap - low.rates, variance)


def _in_deviations(distance: FloatArray, variance: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = distance / np.sqrt(variance)
    return np.asarray(np.where(np.isnan(found), 0.0, found))


@dataclass(frozen=True)
class Levels:
    """One-sided error probabilities of the tests of a wrong "fails".

    A contrast is of a group against all others together, or of a pair of groups.
    """

    pooled: float
    pair: float


def levels_of(counts: Counts, margin: Margin, error: float) -> Levels:
    """Return levels at which a "fails" is wrong with a probability of at most the error.

    Where all rates are within the margin they are, at worst, at its two ends: a set B of groups at
    the low one, the others at the high one. A group of B is at the border against all others
    together only if no other is in B, and a pair only if one of it is: so the errors of few tests
    add up. ``docs/theory/verdicts.md`` has the proof.
    """
    n_groups = counts.hits.shape[-1]
    if n_groups < 2:
        return Levels(0.0, error)
    limit = (_SHARE_OF_LIMIT if n_groups > 2 else _SHARE_OF_TWO) * error
    shifts = _shifts(counts, margin, limit)
    if n_groups == 2:
        return Levels(
            0.0,
            _largest_level(
                lambda level: level + float(ndtr(ndtri(level) - shifts.reverse)), error - limit, 0.5
            ),
        )
    left = error - limit
    pair = _largest_level(
        lambda level: shifts.pair_errors(level).max(),
        _PAIR_SHARE * left,
        1.0 / (n_groups * (n_groups - 1)),
    )
    of_pairs = shifts.pair_errors(pair)
    pooled = _largest_level(
        lambda level: (shifts.pooled_errors(level) + of_pairs).max(),
        left,
        0.5 * (1.0 - _PAIR_SHARE) / n_groups,
    )
    return Levels(pooled, pair)


def _largest_level(errors: Callable[[float], float], error: float, part: float) -> float:
    """Return the largest level at which errors add up to an error, at least that part of it."""
    low, high = math.log(error * part), math.log(error)
    if errors(error) <= error:
        return error
    for _ in range(_N_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if errors(math.exp(middle)) <= error else (low, middle)
    return math.exp(low)


@dataclass(frozen=True)
class _Shifts:
    """How far within the margin a contrast is, in deviations, where others share its end.

    Of a low group against all others, if all others were low too; of all others against a high
    group, if all others were high; the groups' shares; of pairs whose groups are at one end; of the
    first two groups in reverse.
    """

    low: FloatArray
    high: FloatArray
    shares: FloatArray
    pairs: FloatArray
    reverse: float

    @cached_property
    def _edges(self) -> tuple[FloatArray, FloatArray]:
        """Return shares of the records that low groups may have: least and most of small ranges."""
        edges = np.linspace(0.0, 1.0, _N_SHARES + 1)
        return edges[:-1] - _ROUNDING, edges[1:] + _ROUNDING

    @cached_property
    def _n_across(self) -> FloatArray:
        """How many pairs of a low and a high group there are, -inf if no groups have the share."""
        least, most = self._edges
        n, ordered = len(self.shares), np.sort(self.shares)
        n_most = np.searchsorted(np.cumsum(ordered), most, side="right")
        n_least = np.searchsorted(np.cumsum(ordered[::-1]), least) + (least > 0.0)
        n_low = np.clip(n // 2, n_least, np.maximum(n_most, n_least))
        return np.where(n_least > n_most, -np.inf, n_low * (n - n_low))

    def pooled_errors(self, level: float) -> FloatArray:
        """Return a bound of the sum of errors of contrasts with all others, by share."""
        least, most = self._edges
        return _of_one_end(level, self.low, self.shares, least, most) + _of_one_end(
            level, self.high, self.shares, 1.0 - most, 1.0 - least
        )

    def pair_errors(self, level: float) -> FloatArray:
        """Return a bound of the sum of errors of pairs, by share: few of them are at both ends."""
        inner = ndtr(ndtri(level) - self.pairs)
        return self._n_across * level + float(inner.sum() - np.trace(inner))


def _shifts(counts: Counts, margin: Margin, error: float) -> _Shifts:
    every = counts.together()
    room = -ndtri(error if margin.is_ratio else 0.5 * error) * np.sqrt(every.variances())
    # the highest rate is at least that of all groups together, and by a difference not far from it
    highest = max(float((every.rates - room)[0]), 0.0)
    spread = margin.spread(highest)
    lowest = max(highest - spread, 0.0)
    ends: tuple[float, ...] = (lowest, highest)
    if not margin.is_ratio:
        top = min(float((every.rates + room)[0]) + spread, 1.0)
        ends = (lowest, top, min(max(0.5, lowest), top))

    def at(of: Counts) -> FloatArray:
        return np.max([of.variances(end) for end in ends], axis=0)

    own, others, square = at(counts), at(counts.all_but_one()), margin.factor**2
    ones = np.ones_like(own)
    low = _in_deviations(margin.factor * spread * ones, own + square * others)
    high = _in_deviations(spread * ones, others + square * own)
    pairs = np.maximum(own[:, None] + square * own, own + square * own[:, None])
    ones = np.ones_like(pairs)
    within = _in_deviations(margin.spread(lowest) * ones, pairs)
    reverse = (1.0 - square) * highest + (1.0 + margin.factor) * margin.gap
    shares = counts.sizes / counts.sizes.sum()
    of_two = float(_in_deviations(reverse * ones, pairs)[0, 1])
    return _Shifts(low, high, shares, within, of_two)


def _of_one_end(
    level: float, shifts: FloatArray, shares: FloatArray, least: FloatArray, most: FloatArray
) -> FloatArray:
    """Return a bound of the errors where groups at one end have so much of all records.

    Which groups these are is a knapsack, whose relaxation is filled by gain a share.
    """
    quantile, shares = ndtri(level), np.maximum(shares, 1e-12)
    rest = np.maximum(1.0 - shares, 1e-12)
    with np.errstate(invalid="ignore"):
        others = np.nan_to_num(shifts * np.maximum(least[:, None] - shares, 0.0) / rest, nan=0.0)
    always = ndtr(quantile - shifts)
    gains = ndtr(quantile - np.minimum(others, shifts)) - always
    order = np.argsort(-gains / shares, axis=1)
    size = shares[order]
    kept = np.clip((most[:, None] - np.cumsum(size, axis=1) + size) / size, 0.0, 1.0)
    return np.asarray(always.sum() + (kept * np.take_along_axis(gains, order, axis=1)).sum(axis=1))
