"""Intervals of rates of known totals: Clopper and Pearson's, and exact coverage with noise."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.metrics.intervals import Interval, rate_interval
from sklearn_dpwg.metrics.intervals.rate import census_interval, wilson
from sklearn_dpwg.privacy import IntegerNoise
from tests.helpers.interval_cases import coverage_faults, law_of_count

CELLS = [(30, 1.0, 1), (30, 0.1, 1), (100, 1.0, 2), (1000, 4.0, 1)]
RATES = (0.003, 0.01, 0.07, 0.1, 0.33, 0.5, 0.9)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(
    ("successes", "total"),
    [(0, 1), (1, 1), (0, 30), (30, 30), (7, 30), (1, 1000), (500, 1000), (123, 10**7)],
)
def test_without_noise_it_is_clopper_and_pearsons(successes, total, confidence):
    result = rate_interval(successes, total, confidence=confidence)
    known = stats.binomtest(successes, total).proportion_ci(confidence)
    assert result.estimate == successes / total
    assert (result.low, result.high) == pytest.approx((known.low, known.high), rel=1e-7, abs=1e-12)
    assert result.confidence == confidence


def faults(method, n, epsilon, cells):
    """Return what an exact sum over all counts finds wrong with the intervals of a method."""
    noise = IntegerNoise("laplace", 2.0 / epsilon)
    radius = int(math.log(1e8) * noise.scale) + 8
    table = {(s,): method(s, n, noise, cells) for s in range(-radius, n + radius + 1)}

    def law_at(rate):
        return {(s,): p for s, p in law_of_count(n, rate, noise, cells).items()}

    return coverage_faults(table, law_at, RATES)


def right(successes, n, noise, cells):
    return rate_interval(successes, n, noise=noise, n_cells=cells)


def noise_ignored(successes, n, noise, cells):
    return rate_interval(min(max(successes, 0), n), n)


def half_the_scale(successes, n, noise, cells):
    return right(successes, n, IntegerNoise("laplace", noise.scale / 2.0), cells)


def one_sided(successes, n, noise, cells):
    return replace(rate_interval(successes, n, noise=noise, n_cells=cells, confidence=0.9), low=0.0)


@pytest.mark.parametrize(("n", "epsilon", "cells"), CELLS)
def test_each_side_errs_with_at_most_half_the_error_probability(n, epsilon, cells):
    assert faults(right, n, epsilon, cells) == []


@pytest.mark.parametrize(("n", "epsilon", "cells"), CELLS[:3])
@pytest.mark.parametrize("wrong", [noise_ignored, half_the_scale, one_sided])
def test_planted_faults_are_seen(wrong, n, epsilon, cells):
    assert faults(wrong, n, epsilon, cells) != []


def test_a_wrong_number_of_cells_is_seen():
    assert faults(lambda s, n, noise, cells: right(s, n, noise, 1), 30, 1.0, 2) != []


def test_it_is_not_wider_than_the_test_makes_it():
    """At the limits the tails are the level: by sums over all counts."""
    noise = IntegerNoise("gaussian", 2.5)
    result = rate_interval(12, 80, noise=noise, n_cells=2)
    above = sum(p for s, p in law_of_count(80, result.low, noise, 2).items() if s >= 12)
    below = sum(p for s, p in law_of_count(80, result.high, noise, 2).items() if s <= 12)
    assert (above, below) == pytest.approx((0.025, 0.025), rel=1e-6)


def test_impossible_counts_get_wilsons_interval_of_the_nearest_possible_one():
    noise = IntegerNoise("laplace", 2.0)
    result = rate_interval(-40, 50, noise=noise)
    assert result == Interval(0.0, *wilson(0, 50, noise.std**2, 0.95), confidence=0.95)
    assert 0.05 < result.high < 0.5
    assert rate_interval(90, 50, noise=noise).low == pytest.approx(1.0 - result.high)


def test_wilsons_interval_is_the_known_one():
    known = stats.binomtest(7, 40).proportion_ci(method="wilson")
    assert wilson(7, 40, 0.0, 0.95) == pytest.approx((known.low, known.high))
    # with noise its ends are where the square of the error is z² times the whole variance
    for rate in wilson(7, 40, 9.0, 0.95):
        square = (7 - 40 * rate) ** 2
        assert square == pytest.approx(stats.norm.isf(0.025) ** 2 * (40 * rate * (1 - rate) + 9.0))


def test_nobody_has_no_rate():
    result = rate_interval(0, 0)
    assert math.isnan(result.estimate)
    assert (result.low, result.high) == (0.0, 1.0)
    assert rate_interval(4, 0, noise=IntegerNoise("laplace", 2.0)).width == 1.0


@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        ((3.0, 10), {}, TypeError, "successes"),
        ((3, -1), {}, ValueError, "total"),
        ((-1, 10), {}, ValueError, "successes"),
        ((3, 10), {"confidence": 1.0}, ValueError, "confidence"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, error, sentence):
    with pytest.raises(error, match=sentence):
        rate_interval(*arguments, **options)


@pytest.mark.parametrize(
    ("noise", "total", "rate"),
    [
        (IntegerNoise("laplace", 2.0), 30, 0.1),
        (IntegerNoise("laplace", 2.0), 100, 0.5),
        (IntegerNoise("gaussian", 6.0), 100, 0.03),
    ],
)
def test_failures_with_noise_of_their_own_narrow_the_interval(noise, total, rate):
    """Coverage is exact by sums over the binomial law and the noise of both counts."""
    numbers, probabilities = noise.law((2, 2), (1, 1))
    statistic = {}
    for successes, chance in enumerate(stats.binom.pmf(np.arange(total + 1), total, rate)):
        if chance > 1e-7:
            for number, probability in zip(2 * successes + numbers, probabilities, strict=True):
                statistic[number] = statistic.get(number, 0.0) + chance * probability
    covered = 0.0
    for number, probability in statistic.items():
        if probability > 1e-5:
            # any pair of counts with this difference has the same interval
            result = rate_interval(
                int(number) - total, total, failures=0, noise=noise, n_cells=(2, 2)
            )
            covered += probability * (result.low <= rate <= result.high)
    assert 0.94 <= covered <= 0.985
    alone = rate_interval(round(rate * total), total, noise=noise, n_cells=2)
    both = rate_interval(
        round(rate * total),
        total,
        failures=total - round(rate * total),
        noise=noise,
        n_cells=(2, 2),
    )
    assert both.width < alone.width
    assert both.estimate == pytest.approx(rate)


@pytest.mark.parametrize("total_is_known", [True, False])
@pytest.mark.parametrize("counts", [(0, 5), (3, 20), (1, 0)])
def test_fractions_of_a_census_err_by_noise_as_seldom_as_they_say(counts, total_is_known):
    """By sums over all noise; with half the scale of it they are seen to err."""
    fraction, total = counts[0] / sum(counts), sum(counts) if total_is_known else None
    noise, cells = IntegerNoise("laplace", 1.0), (1, 2)
    laws = [dict(zip(*(part.tolist() for part in noise.law(n)), strict=True)) for n in cells]
    near = [{n: p for n, p in law.items() if p > 1e-4} for law in laws]

    def errors(known):
        below = above = 0.0
        for first, p in near[0].items():
            for second, q in near[1].items():
                noisy = counts[0] + first, counts[1] + second
                result = census_interval(noisy, total, known, cells, 0.8)
                below += p * q * (result.low > fraction + 1e-9)
                above += p * q * (result.high < fraction - 1e-9)
        return max(below, above)

    assert errors(noise) <= 0.1
    assert errors(IntegerNoise("laplace", 0.4)) > 0.1
    assert census_interval(counts, None, None, cells, 0.8).width == 0.0
