"""Differences, ratios and the worst group, from the intervals of several groups."""

import math
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats

from sklearn_dpwg.metrics.intervals import (
    Interval,
    difference_interval,
    rate_interval,
    ratio_of_rates,
    worst_group_set,
)
from sklearn_dpwg.metrics.intervals.rate import wilson
from sklearn_dpwg.privacy import IntegerNoise

NOBODY = rate_interval(0, 0)


def wilson_interval(successes, total, confidence=0.95):
    return Interval(successes / total, *wilson(successes, total, 0.0, confidence), confidence)


# --- two groups ---------------------------------------------------------------------------------


def test_a_difference_is_the_published_one():
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table II, method 10: 56/70 against 48/80
    found = difference_interval(wilson_interval(56, 70), wilson_interval(48, 80))
    assert found.estimate == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_a_difference_from_nobody_says_what_both_limits_say():
    found = difference_interval(rate_interval(30, 100), NOBODY)
    assert math.isnan(found.estimate)
    assert found.low == rate_interval(30, 100).low - 1.0
    assert found.high == rate_interval(30, 100).high


def test_a_ratio_is_where_the_difference_from_its_multiple_may_be_0():
    rates = [rate_interval(30, 90), rate_interval(5, 60), rate_interval(0, 40)]
    ratios = [ratio_of_rates(rate, rates[0]) for rate in rates]

    def limit_of_difference(factor, rate, end):
        reference = rates[0]
        scaled = Interval(*(factor * np.array([reference.estimate, reference.low, reference.high])),
                          confidence=0.95)  # fmt: skip
        return getattr(difference_interval(rate, scaled), end)

    for rate, ratio in zip(rates[1:], ratios[1:], strict=True):
        high = optimize.brentq(limit_of_difference, ratio.estimate, 20.0, (rate, "high"))
        assert ratio.high == pytest.approx(high)
        if rate.low > 0.0:
            low = optimize.brentq(limit_of_difference, 0.0, ratio.estimate, (rate, "low"))
            assert ratio.low == pytest.approx(low)
        else:
            assert ratio.low == 0.0


def test_a_reference_that_may_be_0_bounds_no_ratio():
    found = ratio_of_rates(rate_interval(3, 10), rate_interval(0, 10))
    assert (found.estimate, found.high) == (math.inf, math.inf)
    assert 0.0 < found.low < 1.0
    both = ratio_of_rates(rate_interval(0, 10), rate_interval(0, 10))
    assert math.isnan(both.estimate)
    # one that surely is 0
    some, none = Interval(0.5, 0.4, 0.6, 0.95), Interval(0.0, 0.0, 0.0, 0.95)
    assert ratio_of_rates(some, none) == Interval(math.inf, math.inf, math.inf, 0.95)
    assert ratio_of_rates(none, some) == none
    # limits divided by limits are wider
    first, second = rate_interval(30, 100), rate_interval(80, 200)
    found = ratio_of_rates(first, second)
    assert first.low / second.high < found.low < found.high < first.high / second.low


# --- the worst group ----------------------------------------------------------------------------


def rates_of(counts, noise=None):
    return [partial(_rate, count, total, noise) for count, total in counts]


def _rate(count, total, noise, level):
    return rate_interval(count, total, noise=noise, confidence=level)


def test_groups_that_cannot_be_told_apart_are_all_members():
    found = worst_group_set(rates_of([(30, 100), (31, 100), (2, 400), (28, 100), (0, 3)]))
    assert found.members == (0, 1, 3, 4)
    assert found.value_low < 0.31 < found.value_high
    assert found.gap.estimate == pytest.approx(0.31)


def test_the_smallest_rate_may_be_the_worst():
    counts = [(30, 100), (90, 100), (31, 100), (395, 400)]
    found = worst_group_set(rates_of(counts), greater_is_worse=False)
    flipped = worst_group_set(rates_of([(total - count, total) for count, total in counts]))
    assert found.members == flipped.members == (0, 2)
    assert found.value_low == pytest.approx(1.0 - flipped.value_high)
    assert found.value_high == pytest.approx(1.0 - flipped.value_low)
    assert (found.gap.low, found.gap.high) == pytest.approx((flipped.gap.low, flipped.gap.high))


def test_levels_are_those_of_the_page():
    """p = 3: groups are dropped at α/2, values are at α/6 and α/2, the gap at α/12 and α/2."""
    asked = set()

    def rate(count):
        def at(level):
            asked.add(round(0.5 * (1.0 - level), 12))
            return rate_interval(count, 200, confidence=level)

        return at

    found = worst_group_set([rate(10), rate(20), rate(60)])
    assert asked == {round(0.05 / n, 12) for n in (2, 6, 12)}
    assert found.value_low == rate_interval(60, 200, confidence=1 - 0.05 / 3).low
    assert found.value_high == rate_interval(60, 200).high


def test_one_group_is_the_worst_and_nobody_drops_nobody():
    found, known = worst_group_set(rates_of([(3, 10)])), rate_interval(3, 10)
    assert found.members == (0,)
    assert (found.value_low, found.value_high) == pytest.approx((known.low, known.high))
    assert found.gap == Interval(0.0, 0.0, 0.0, 0.95)
    found = worst_group_set(rates_of([(10, 1000), (200, 1000), (0, 0)]))
    assert found.members == (1, 2)
    assert found.value_high == 1.0
    assert found.gap.high == pytest.approx(1.0 - rate_interval(10, 1000).low)


NOISE = IntegerNoise("laplace", 1.0)
SIZES, TRUE_RATES = (12, 25), (0.45, 0.1)


def chances(total, rate):
    """Return the counts of one group, every one with its probability."""
    support, probabilities = NOISE.law()
    law = np.convolve(stats.binom.pmf(np.arange(total + 1), total, rate), probabilities)
    counts = range(int(support[0]), int(support[-1]) + total + 1)
    return [(s, p) for s, p in zip(counts, law.tolist(), strict=True) if p > 1e-6]


def errors(statements):
    """Return how often statements about two groups are false, by a sum over all counts."""
    wrong = dict.fromkeys(("set", "low", "high", "gap"), 0.0)
    laws = [chances(total, rate) for total, rate in zip(SIZES, TRUE_RATES, strict=True)]
    for (first, p), (second, q) in product(*laws):
        found = statements(first, second)
        wrong["set"] += p * q * (0 not in found.members)
        wrong["low"] += p * q * (found.value_low > max(TRUE_RATES))
        wrong["high"] += p * q * (found.value_high < max(TRUE_RATES))
        gap = max(TRUE_RATES) - min(TRUE_RATES)
        wrong["gap"] += p * q * (not found.gap.low <= gap <= found.gap.high)
    return wrong


@cache
def _noisy(count, total, level, noise):
    if noise is None:
        return rate_interval(min(max(count, 0), total), total, confidence=level)
    return rate_interval(count, total, noise=noise, confidence=level)


def with_noise(first, second, noise=NOISE):
    pairs = zip((first, second), SIZES, strict=True)
    rates = [lambda level, c=c, n=n: _noisy(c, n, level, noise) for c, n in pairs]
    return worst_group_set(rates)


def test_statements_err_as_seldom_as_they_say():
    wrong = errors(with_noise)
    assert max(wrong["set"], wrong["gap"]) <= 0.05
    assert max(wrong["low"], wrong["high"]) <= 0.025
    without = errors(partial(with_noise, noise=None))
    assert max(without["low"], without["high"]) > 0.025  # ignored noise is seen


# --- refusals -----------------------------------------------------------------------------------


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="All rates must have the same confidence, got"):
        difference_interval(rate_interval(3, 10), rate_interval(3, 10, confidence=0.9))
    with pytest.raises(ValueError, match="All rates must have the same confidence, got"):
        ratio_of_rates(rate_interval(3, 10), rate_interval(3, 10, confidence=0.9))
    with pytest.raises(ValueError, match="rates must have at least one group, got none"):
        worst_group_set([])
    with pytest.raises(ValueError, match=r"confidence must be above 0.5 and below 1, got 0\.5"):
        worst_group_set(rates_of([(3, 10)]), confidence=0.5)
