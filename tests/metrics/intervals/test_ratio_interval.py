"""Intervals of rates whose two counts are noisy: exact coverage, and a search of all rates."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.metrics.intervals import rate_interval, ratio_interval
from sklearn_dpwg.metrics.intervals.rate import Piece, fieller_wilson, survival_of, wilson
from sklearn_dpwg.privacy import IntegerNoise
from tests.helpers.interval_cases import coverage_faults

RATES = (0.02, 0.1, 0.24, 0.276, 0.5, 0.66, 0.97)
SMALL_NOISE = IntegerNoise("laplace", 0.5)  # ε = 4


# --- exact coverage -----------------------------------------------------------------------------


def joint_law(positives, rate, noise, radius):
    """Return the law of noisy hits and misses, by a sum over the true hits."""
    support, probabilities = noise.law()
    noise_at = dict(zip(support.tolist(), probabilities.tolist(), strict=True))
    numbers = np.arange(-radius, positives + radius + 1)
    law = np.zeros((len(numbers), len(numbers)))
    for hits in range(positives + 1):
        first = np.array([noise_at.get(s - hits, 0.0) for s in numbers])
        second = np.array([noise_at.get(s - positives + hits, 0.0) for s in numbers])
        law += stats.binom.pmf(hits, positives, rate) * np.outer(first, second)
    return {
        (int(h), int(m)): law[i, j] for i, h in enumerate(numbers) for j, m in enumerate(numbers)
    }


@lru_cache
def right(hits, misses, noise):
    return ratio_interval(hits, misses, noise=noise)


def noise_ignored(hits, misses, noise):
    return ratio_interval(max(hits, 0), max(misses, 0))


def half_the_scale(hits, misses, noise):
    return right(hits, misses, IntegerNoise("laplace", noise.scale / 2.0))


def one_sided(hits, misses, noise):
    return replace(ratio_interval(hits, misses, noise=noise, confidence=0.8), low=0.0)


def faults(method, positives, radius, most_unseen, rates=RATES):
    """Return what an exact sum over all pairs of counts finds wrong with a method."""
    table = {
        (h, m): method(h, m, SMALL_NOISE)
        for h in range(-radius, positives + radius + 1)
        for m in range(-radius, positives + radius + 1)
    }

    def law_at(rate):
        return joint_law(positives, rate, SMALL_NOISE, radius)

    return coverage_faults(table, law_at, rates, most_unseen=most_unseen)


def test_each_side_errs_with_at_most_half_the_error_probability():
    assert faults(right, positives=8, radius=5, most_unseen=2e-4) == []


@pytest.mark.parametrize("method", [right, noise_ignored, half_the_scale, one_sided])
def test_planted_faults_are_seen(method):
    rates = (0.01, 0.05, 0.2, 0.4, 0.6, 0.8)
    seen = faults(method, positives=4, radius=4, most_unseen=1e-3, rates=rates)
    assert (seen == []) == (method is right)


# --- the search ---------------------------------------------------------------------------------


def tail_by_enumeration(rate, total, threshold, factor, law):
    """Return P(factor · Bin(total, rate) + N ≥ threshold)."""
    support, probabilities = law
    needed = -((support - threshold) // factor)  # ceil((threshold − noise) / factor)
    return float(np.dot(probabilities, stats.binom(total, rate).sf(needed - 1)))


@pytest.mark.parametrize("scale", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("total", [1, 7, 100, 5000, 10**6])
@pytest.mark.parametrize(("factor", "weights"), [(1, (1,)), (20, (13, 7)), (5, (4, 1))])
def test_tails_are_those_of_all_counts_and_all_noise(scale, total, factor, weights):
    noise, cells = IntegerNoise("laplace", scale), (1,) * len(weights)
    law, survival = noise.law(cells, weights), survival_of(noise, cells, weights)
    for rate in (0.0, 1e-6, 0.02, 0.5, 0.97, 1.0):
        spread = factor * np.sqrt(total * rate) + len(weights) * factor * scale
        thresholds = np.rint(factor * total * rate + spread * np.array([-4, -1, 0, 2])).astype(int)
        piece = Piece(np.full(4, total), thresholds, factor, survival)
        exact = [tail_by_enumeration(rate, total, one, factor, law) for one in thresholds]
        np.testing.assert_allclose(piece.tail(rate), exact, rtol=1e-8, atol=1e-12)


def hull_of_all_rates(hits, misses, noise, cells, n_rates):
    """Return the least and the largest rate that some total does not reject, by trying all."""
    support, probabilities = noise.law(sum(cells))
    beyond = [probabilities[np.abs(support) > r].sum() for r in range(support[-1] + 1)]
    radius = int(np.argmax(np.array(beyond) <= 0.04 * 0.05))
    totals, kept = np.arange(max(hits + misses - radius, 1), hits + misses + radius + 1), []
    for rate in (np.arange(n_rates) + 0.5) / n_rates:
        place = round(20.0 * rate)
        above = survival_of(noise, cells, (20 - place, place))
        observed = (20 - place) * hits - place * misses
        high = Piece(totals, observed + place * totals, 20, above).tail(rate)
        # P(20 X − place P + N ≤ observed), turned round
        low = Piece(totals, (20 - place) * totals - observed, 20, above).tail(1.0 - rate)
        if min(high.max(), low.max()) > 0.48 * 0.05:
            kept.append(rate)
    return kept[0], kept[-1]


@pytest.mark.parametrize(
    ("hits", "misses", "scale", "cells"),
    [
        (0, 9, 2.0, (1, 1)),
        (-2, 31, 2.0, (1, 1)),
        (18, 71, 2.0, (2, 2)),
        (150, 150, 2.0, (1, 1)),
        (9, 2990, 2.0, (1, 3)),
        (700, 350, 5.0, (1, 1)),
    ],
)
def test_limits_are_those_of_a_search_of_all_rates_and_totals(hits, misses, scale, cells):
    noise = IntegerNoise("laplace", scale)
    n_rates = 200
    low, high = hull_of_all_rates(hits, misses, noise, cells, n_rates)
    result = ratio_interval(hits, misses, noise=noise, n_cells=cells)
    # the grid of totals, tried where there are more than 41, costs next to nothing
    rounding = 0.0 if scale <= 2.0 else 1e-4
    assert result.low - rounding <= low <= result.low + 1.001 / n_rates
    assert result.high - 1.001 / n_rates <= high <= result.high + rounding


def test_hits_and_misses_mirror_each_other():
    noise = IntegerNoise("gaussian", 4.0)
    for hits, misses in ((-3, 20), (0, 5), (33, 41), (500, 3), (2, 2)):
        result = ratio_interval(hits, misses, noise=noise, n_cells=(1, 2))
        mirrored = ratio_interval(misses, hits, noise=noise, n_cells=(2, 1))
        assert (result.low, result.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))


# --- edges --------------------------------------------------------------------------------------


def test_without_noise_it_is_clopper_and_pearsons():
    assert ratio_interval(7, 33) == rate_interval(7, 40)
    assert math.isnan(ratio_interval(0, 0).estimate)


@pytest.mark.parametrize(("hits", "misses"), [(-90, 300), (300, -90), (-40, -40), (-60, 2)])
def test_impossible_counts_get_the_closed_interval(hits, misses):
    noise = IntegerNoise("laplace", 2.0)
    result = ratio_interval(hits, misses, noise=noise)
    variance = noise.std**2
    low, high = fieller_wilson(hits, misses, (variance, variance), 0.95)
    assert (result.low, result.high) == (low, high)
    assert math.isnan(result.estimate) == (max(hits, misses) <= 0)
    assert high - low > 0.01


def test_fiellers_interval_solves_its_equation():
    for rate in fieller_wilson(30, 70, (8.0, 16.0), 0.95):
        error = (1 - rate) * 30 - rate * 70
        variance = 100 * rate * (1 - rate) + 8.0 * (1 - rate) ** 2 + 16.0 * rate**2
        assert error**2 == pytest.approx(stats.norm.isf(0.025) ** 2 * variance)
    assert fieller_wilson(30, 70, (0.0, 0.0), 0.95) == pytest.approx(wilson(30, 100, 0.0, 0.95))
    assert fieller_wilson(2, 3, (50.0, 50.0), 0.95) == (0.0, 1.0)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="hits and misses must be at least 0"):
        ratio_interval(-1, 3)
    with pytest.raises(ValueError, match="confidence must be"):
        ratio_interval(1, 3, confidence=0.0)
