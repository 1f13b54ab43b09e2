"""Intervals of rates whose two counts are noisy: exact coverage, and a search of all rates."""

import math
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.metrics.intervals import difference_interval, rate_interval, ratio_interval
from sklearn_dpwg.metrics.intervals import rate as _limits
from sklearn_dpwg.metrics.intervals.rate import (
    fieller_wilson,
    survival_of,
    unknown_total_piece,
    upper_tail,
    wilson,
)
from sklearn_dpwg.metrics.intervals.ratio import n_surely_rejected
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


@pytest.mark.parametrize("wrong", [noise_ignored, half_the_scale, one_sided])
def test_planted_faults_are_seen(wrong):
    rates = (0.01, 0.05, 0.2, 0.4, 0.6, 0.8)
    small = {"positives": 4, "radius": 4, "most_unseen": 1e-3, "rates": rates}
    assert faults(wrong, **small) != []
    assert faults(right, **small) == []


# --- the search ---------------------------------------------------------------------------------


def hull_of_all_rates(hits, misses, noise, cells, n_rates, confidence=0.95):
    """Return the least and the largest rate that some total does not reject, by trying all."""
    support, probabilities = noise.law(sum(cells))
    beyond = [probabilities[np.abs(support) > r].sum() for r in range(support[-1] + 1)]
    radius = int(np.argmax(np.array(beyond) <= 0.04 * (1.0 - confidence)))
    level = 0.48 * (1.0 - confidence)
    totals = np.arange(max(hits + misses - radius, 1), hits + misses + radius + 1)
    if not len(totals):
        return None
    kept = []
    for rate in (np.arange(n_rates) + 0.5) / n_rates:
        place = round(20.0 * rate)
        above = survival_of(noise, cells, (20 - place, place))
        observed = (20 - place) * hits - place * misses
        high = upper_tail(rate, totals, observed + place * totals, 20, above)
        # P(20 X − place P + N ≤ observed), turned round
        low = upper_tail(1.0 - rate, totals, (20 - place) * totals - observed, 20, above)
        if high.max() > level and low.max() > level:
            kept.append(rate)
    return (kept[0], kept[-1]) if kept else None


@pytest.mark.parametrize(
    ("hits", "misses", "scale", "cells"),
    [
        (3, 6, 0.5, (1, 1)),
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
    n_rates = 400
    low, high = hull_of_all_rates(hits, misses, noise, cells, n_rates)
    found = ratio_interval(hits, misses, noise=noise, n_cells=cells)
    # the grid of totals, tried where there are more than 41, costs next to nothing
    rounding = 0.0 if scale <= 2.0 else 1e-4
    assert found.low - rounding <= low <= found.low + 1.001 / n_rates
    assert found.high - 1.001 / n_rates <= high <= found.high + rounding


def test_hits_and_misses_mirror_each_other():
    noise = IntegerNoise("gaussian", 4.0)
    for hits, misses in ((-3, 20), (0, 5), (33, 41), (500, 3), (2, 2)):
        found = ratio_interval(hits, misses, noise=noise, n_cells=(1, 2))
        mirrored = ratio_interval(misses, hits, noise=noise, n_cells=(2, 1))
        assert (found.low, found.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))


def test_work_does_not_grow_with_the_records(monkeypatch):
    tails, masses = 0, 0
    true_tail = _limits.upper_tail

    def counted(rate, totals, thresholds, factor, survival):
        nonlocal tails, masses
        tails += 1
        masses += len(totals) * (2 * survival.radius // factor + 2)
        return true_tail(rate, totals, thresholds, factor, survival)

    monkeypatch.setattr(_limits, "upper_tail", counted)
    for total in (30, 1000, 10**5, 10**7):
        tails = masses = 0
        ratio_interval(total // 3, total - total // 3, noise=IntegerNoise("laplace", 2.0))
        assert tails <= 30
        assert masses <= 150_000


# --- edges --------------------------------------------------------------------------------------


def test_without_noise_it_is_clopper_and_pearsons():
    assert ratio_interval(7, 33) == rate_interval(7, 40)
    assert math.isnan(ratio_interval(0, 0).estimate)


@pytest.mark.parametrize(("hits", "misses"), [(-90, 300), (300, -90), (-40, -40), (-60, 2)])
def test_impossible_counts_get_the_closed_interval(hits, misses):
    noise = IntegerNoise("laplace", 2.0)
    found = ratio_interval(hits, misses, noise=noise)
    variance = noise.std**2
    low, high = fieller_wilson(hits, misses, (variance, variance), 0.95)
    assert (found.low, found.high) == (low, high)
    assert math.isnan(found.estimate) == (max(hits, misses) <= 0)
    assert high - low > 0.01


def test_fiellers_interval_solves_its_equation():
    for rate in fieller_wilson(30, 70, (8.0, 16.0), 0.95):
        error = (1 - rate) * 30 - rate * 70
        variance = 100 * rate * (1 - rate) + 8.0 * (1 - rate) ** 2 + 16.0 * rate**2
        assert error**2 == pytest.approx(stats.norm.isf(0.025) ** 2 * variance)
    assert fieller_wilson(30, 70, (0.0, 0.0), 0.95) == pytest.approx(wilson(30, 100, 0.0, 0.95))
    assert fieller_wilson(2, 3, (50.0, 50.0), 0.95) == (0.0, 1.0)


def test_small_and_negative_counts_always_have_an_interval_about_the_estimate():
    noise = IntegerNoise("laplace", 20.0)
    for hits in (-100, -20, 0, 3, 50):
        for misses in (-100, -20, 0, 3, 50):
            found = ratio_interval(hits, misses, noise=noise)
            assert 0.0 <= found.low <= found.high <= 1.0
            assert math.isnan(found.estimate) or found.low <= found.estimate <= found.high
            assert found.width > 0.02


def test_higher_confidence_is_wider():
    rate = partial(ratio_interval, 40, 60, noise=IntegerNoise("laplace", 2.0))
    widths = [rate(confidence=level).width for level in (0.5, 0.95, 0.999, 1.0 - 3e-5)]
    assert np.all(np.diff(widths) > 0.0)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((-1, 3), {}, "hits and misses must be at least 0 where there is no noise, got -1 and 3"),
        ((1, 3), {"confidence": 0.0}, "confidence must be strictly between 0 and 1, got 0.0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ratio_interval(*arguments, **options)


# --- pieces that need no search -----------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("hits", "misses", "scale", "cells", "level"),
    [
        (9, 3, 0.5, (1, 1), 0.024),
        (90, 60, 2.0, (2, 1), 0.024),
        (3000, 0, 20.0, (1, 30), 1e-9),
        (9000, 300, 2.0, (1, 4), 0.024),
        (575, 425, 0.5, (1, 1), 1e-12),
    ],
)
def test_surely_rejected_pieces_are_rejected_by_every_total(
    mechanism, hits, misses, scale, cells, level
):
    noise = IntegerNoise(mechanism, scale)
    totals = np.arange(1, hits + misses + round(5 * scale) + 1, max(1, (hits + misses) // 50))
    found = n_surely_rejected((hits, misses), noise, cells, int(totals[-1]), level, 20)
    pieces = [unknown_total_piece(hits, misses, noise, cells, j, 20) for j in range(21)]
    kept = [j for j in range(21) if pieces[j].tail(pieces[j].right, totals).max() > level]
    assert 0 < found <= min(kept)
    assert found >= min(kept) - (3 if hits > 50 else 8)


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
        gap = difference_interval(*rates)
        missed += not gap.low <= first - second <= gap.high
    assert missed <= 0.05 * 120 + 5
