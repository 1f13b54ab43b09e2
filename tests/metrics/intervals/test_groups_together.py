"""Differences, ratios and the worst group, from the intervals of several groups."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import optimize

from sklearn_dpwg.metrics.intervals import Interval, rate_interval, ratio_interval
from sklearn_dpwg.metrics.intervals.rate import wilson
from sklearn_dpwg.metrics.intervals.ratio import (
    difference_of_rates,
    limits_of,
    ratio_of_rates,
    worst_group_set,
)
from sklearn_dpwg.privacy import IntegerNoise
from tests.helpers.interval_cases import law_of_count


def contrast(of, first, second):
    """Return the estimate and the limits of a difference or ratio of two intervals."""
    return [float(one[0]) for one in of(limits_of([first]), limits_of([second]))]


# --- two groups ---------------------------------------------------------------------------------


def test_a_difference_is_the_published_one():
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table II, method 10: 56/70 against 48/80
    rates = [
        Interval(count / total, *wilson(count, total, 0.0, 0.95), 0.95)
        for count, total in ((56, 70), (48, 80))
    ]
    assert contrast(difference_of_rates, *rates) == pytest.approx([0.2, 0.0524, 0.3339], abs=5e-5)


def test_a_ratio_is_where_the_difference_from_its_multiple_may_be_0():
    reference = rate_interval(30, 90)

    def limit_of_difference(factor, rate, end):
        ends = (factor * one for one in (reference.estimate, reference.low, reference.high))
        return contrast(difference_of_rates, rate, Interval(*ends, 0.95))[end]

    for rate in (rate_interval(5, 60), rate_interval(0, 40)):
        estimate, low, high = contrast(ratio_of_rates, rate, reference)
        assert high == pytest.approx(
            optimize.brentq(limit_of_difference, estimate, 20.0, (rate, 2))
        )
        if rate.low > 0.0:
            known = optimize.brentq(limit_of_difference, 0.0, estimate, (rate, 1))
            assert low == pytest.approx(known)
        else:
            assert low == 0.0


def test_a_reference_that_may_be_0_bounds_no_ratio():
    estimate, low, high = contrast(ratio_of_rates, rate_interval(3, 10), rate_interval(0, 10))
    assert (estimate, high) == (math.inf, math.inf)
    assert 0.0 < low < 1.0
    assert math.isnan(contrast(ratio_of_rates, rate_interval(0, 10), rate_interval(0, 10))[0])
    # one that surely is 0
    some, none = Interval(0.5, 0.4, 0.6, 0.95), Interval(0.0, 0.0, 0.0, 0.95)
    assert contrast(ratio_of_rates, some, none) == [math.inf] * 3
    assert contrast(ratio_of_rates, none, some) == [0.0] * 3
    # of nobody limits say what both limits say
    known, nobody = rate_interval(30, 100), rate_interval(0, 0)
    assert contrast(difference_of_rates, known, nobody)[1:] == [known.low - 1.0, known.high]


@pytest.mark.parametrize(("epsilon", "first", "second"), [(0.2, 1.0, 0.0), (1.0, 0.0, 1.0)])
def test_differences_of_rates_at_opposite_ends_hold(epsilon, first, second):
    """Noise draws both estimates inwards; distances added in squares miss one time in six."""
    noise, n, missed = IntegerNoise("laplace", 2.0 / epsilon), 200, 0
    numbers, masses = noise.law(2)
    drawn = np.random.default_rng(0).choice(numbers, (120, 2, 2), p=masses / masses.sum())
    for pair in drawn.tolist():
        rates = [
            ratio_interval(
                round(n * rate) + hit, round(n * (1 - rate)) + miss, noise=noise, n_cells=(2, 2)
            )
            for rate, (hit, miss) in zip((first, second), pair, strict=True)
        ]
        _, low, high = contrast(difference_of_rates, *rates)
        missed += not low <= first - second <= high
    assert missed <= 0.05 * 120 + 5


# --- the worst group ----------------------------------------------------------------------------


def worst_of(*rates, greater_is_worse=True):
    """Return the worst groups of functions from a confidence to an interval."""
    return worst_group_set(
        lambda level: [rate(level) for rate in rates],
        len(rates),
        greater_is_worse=greater_is_worse,
        confidence=0.95,
    )


def rate_of(count, total, noise=None):
    return cache(lambda level: rate_interval(count, total, noise=noise, confidence=level))


def test_groups_that_cannot_be_told_apart_are_all_members():
    counts = [(30, 100), (31, 100), (2, 400), (28, 100), (0, 3)]
    members, (low, high), gap = worst_of(*(rate_of(*one) for one in counts))
    assert members == (0, 1, 3, 4)
    assert low < 0.31 < high
    assert gap.estimate == pytest.approx(0.31)
    # nobody drops nobody
    members, (_, high), gap = worst_of(rate_of(10, 1000), rate_of(200, 1000), rate_of(0, 0))
    assert members == (1, 2)
    assert high == 1.0
    assert gap.high == pytest.approx(1.0 - rate_interval(10, 1000).low)


def test_the_smallest_rate_may_be_the_worst():
    counts = [(30, 100), (90, 100), (31, 100), (395, 400)]
    members, ends, gap = worst_of(*(rate_of(*one) for one in counts), greater_is_worse=False)
    flipped = worst_of(*(rate_of(total - count, total) for count, total in counts))
    assert members == flipped[0] == (0, 2)
    assert ends == pytest.approx((1.0 - flipped[1][1], 1.0 - flipped[1][0]))
    assert (gap.low, gap.high) == pytest.approx((flipped[2].low, flipped[2].high))


def test_levels_are_those_of_the_page():
    """p = 3: groups are dropped at α/2, values are at α/6 and α/2, the gap at α/12 and α/2."""
    asked = set()

    def rate(count):
        def at(level):
            asked.add(round(0.5 * (1.0 - level), 12))
            return rate_interval(count, 200, confidence=level)

        return at

    _, ends, _ = worst_of(rate(10), rate(20), rate(60))
    assert asked == {round(0.05 / n, 12) for n in (2, 6, 12)}
    low = rate_interval(60, 200, confidence=1 - 0.05 / 3).low
    assert ends == (low, rate_interval(60, 200).high)


NOISE = IntegerNoise("laplace", 1.0)
SIZES, TRUE_RATES = (12, 25), (0.45, 0.1)


def errors(noise):
    """Return how often statements about two groups are false, by a sum over all counts."""
    wrong = dict.fromkeys(("set", "low", "high", "gap"), 0.0)
    laws = [
        [(s, p) for s, p in law_of_count(total, rate, NOISE, 1).items() if p > 1e-6]
        for total, rate in zip(SIZES, TRUE_RATES, strict=True)
    ]
    functions = [
        {
            count: rate_of(count if noise else min(max(count, 0), total), total, noise)
            for count, _ in law
        }
        for law, total in zip(laws, SIZES, strict=True)
    ]
    for (first, p), (second, q) in product(*laws):
        members, (low, high), gap = worst_of(functions[0][first], functions[1][second])
        wrong["set"] += p * q * (0 not in members)
        wrong["low"] += p * q * (low > max(TRUE_RATES))
        wrong["high"] += p * q * (high < max(TRUE_RATES))
        wrong["gap"] += p * q * (not gap.low <= max(TRUE_RATES) - min(TRUE_RATES) <= gap.high)
    return wrong


def test_statements_err_as_seldom_as_they_say():
    wrong = errors(NOISE)
    assert max(wrong["set"], wrong["gap"]) <= 0.05
    assert max(wrong["low"], wrong["high"]) <= 0.025
    without = errors(None)
    assert max(without["low"], without["high"]) > 0.025  # ignored noise is seen
