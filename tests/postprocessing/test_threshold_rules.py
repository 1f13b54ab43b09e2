"""Thresholds from exact counts, against every choice there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from sklearn_dpwg.postprocessing.base import checked_edges, count_scores
from sklearn_dpwg.postprocessing.classifiers import (
    least_errors,
    likely_counts,
    thresholds_of_fraction,
)

EDGES = np.linspace(0.0, 1.0, 7)
CANDIDATES = np.append(EDGES[:-1], np.inf)


def problem(seed, n_records=300, n_groups=3):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=n_records)
    # in the middle of bins, so that a threshold at an edge parts whole bins
    scores = (rng.integers(6, size=n_records) + 0.5) / 6
    y = rng.uniform(size=n_records) < np.clip(scores + 0.2 * (codes - 1), 0, 1)
    counts = count_scores(scores, y, codes, n_groups, EDGES).astype(float)
    return scores, y, codes, counts


def error_rates(scores, y, codes, thresholds):
    wrong = (scores >= np.asarray(thresholds)[codes]) != y
    return np.array([wrong[codes == code].mean() for code in range(len(thresholds))])


def rates(scores, y, codes, thresholds, of_positives):
    chosen = scores >= np.asarray(thresholds)[codes]
    counted = y if of_positives else np.ones_like(y)
    return np.array([chosen[counted & (codes == code)].mean() for code in range(len(thresholds))])


@pytest.mark.parametrize("seed", range(3))
def test_least_worst_error(seed):
    scores, y, codes, counts = problem(seed)
    result = least_errors("worst_error", counts, EDGES, True, 0.0, 1.0)
    best = min(error_rates(scores, y, codes, each).max() for each in product(CANDIDATES, repeat=3))
    assert error_rates(scores, y, codes, result).max() == pytest.approx(best)
    shared = least_errors("worst_error", counts, EDGES, False, 0.0, 1.0)
    best = min(error_rates(scores, y, codes, [each] * 3).max() for each in CANDIDATES)
    assert len(set(shared)) == 1
    assert error_rates(scores, y, codes, shared).max() == pytest.approx(best)


@pytest.mark.parametrize("constraint", ["selection_rate", "true_positive_rate"])
@pytest.mark.parametrize("seed", range(3))
def test_one_threshold_keeps_the_gap_with_the_fewest_errors(constraint, seed):
    scores, y, codes, counts = problem(seed)
    is_tpr = constraint == "true_positive_rate"
    result = least_errors(constraint, counts, EDGES, False, 0.1, 1.0)
    allowed = [
        each for each in CANDIDATES if np.ptp(rates(scores, y, codes, [each] * 3, is_tpr)) <= 0.1
    ]
    assert len(set(result)) == 1
    assert result[0] in allowed
    wrong = {each: ((scores >= each) != y).sum() for each in allowed}
    assert wrong[result[0]] == min(wrong.values())


@pytest.mark.parametrize("constraint", ["selection_rate", "true_positive_rate"])
@pytest.mark.parametrize("max_gap", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(2))
def test_rates_differ_by_the_gap_at_most(constraint, max_gap, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=30_000)
    # even within bins, as interpolation takes them to be
    scores = (
        rng.choice(6, size=30_000, p=[0.3, 0.2, 0.1, 0.1, 0.2, 0.1]) + rng.uniform(size=30_000)
    ) / 6
    y = rng.uniform(size=30_000) < np.clip(scores + 0.2 * (codes - 1), 0, 1)
    counts = count_scores(scores, y, codes, 3, EDGES).astype(float)
    result = least_errors(constraint, counts, EDGES, True, max_gap, 1.0)
    is_tpr = constraint == "true_positive_rate"
    assert np.ptp(rates(scores, y, codes, result, is_tpr)) <= max_gap + 0.03
    assert 0.0 < rates(scores, y, codes, result, is_tpr).mean() < 1.0


@pytest.mark.parametrize("cost", [0.2, 5.0])
def test_what_a_miss_costs(cost):
    scores, y, codes, counts = problem(4)
    result = least_errors("worst_error", counts, EDGES, False, 0.0, cost)[0]

    def dearest(threshold):
        each = np.where(y, cost * (scores < threshold), scores >= threshold)
        return max(each[codes == code].mean() for code in range(3))

    assert dearest(result) == pytest.approx(min(map(dearest, CANDIDATES)))
    chosen = [
        rates(scores, y, codes, least_errors("selection_rate", counts, EDGES, True, 0.0, c), False)
        for c in (0.1, 1.0, 10.0)
    ]
    assert chosen[0].sum() < chosen[1].sum() < chosen[2].sum()


@pytest.mark.parametrize("seed", range(3))
def test_a_stated_fraction_is_chosen_of_each_group_or_of_all(seed):
    rng = np.random.default_rng(seed)
    codes = rng.choice(3, size=60_000, p=[0.6, 0.3, 0.1])
    scores = rng.beta(1.0, 5.0 + codes)
    counts = count_scores(scores, np.zeros(60_000, bool), codes, 3, EDGES).astype(float)
    for fraction in (0.02, 0.1, 0.5):
        apart = thresholds_of_fraction(*(counts.sum(axis=1),) * 2, EDGES, True, fraction)
        assert rates(scores, scores > 2, codes, apart, False) == pytest.approx(fraction, rel=0.3)
        shared = thresholds_of_fraction(*(counts.sum(axis=1),) * 2, EDGES, False, fraction)
        assert len(set(shared)) == 1
        assert (scores >= shared[0]).mean() == pytest.approx(fraction, rel=0.15)
    # a fraction that an edge chooses is taken there
    (exact,) = thresholds_of_fraction(
        *(counts[:1, 0],) * 2, EDGES, True, (scores[codes == 0] >= 0.5).mean()
    )
    assert exact == pytest.approx(0.5)


def test_noise_does_not_move_how_many_are_chosen_of_all():
    """Counts that never are below 0 put too many into sparse bins, and too few are chosen."""
    rng = np.random.default_rng(0)
    edges, codes = checked_edges(None, 24), np.repeat(np.arange(4), [1250, 1200, 263, 251])
    scores = expit(rng.normal(-1.2, 0.9, size=len(codes)))
    counts = count_scores(scores, rng.random(len(codes)) < scores, codes, 4, edges)
    result = []
    for _ in range(100):
        noisy = np.rint(counts + rng.normal(0.0, 12.0, size=counts.shape))
        both = likely_counts(noisy, edges, 12.0).sum(axis=1), noisy.sum(axis=1)
        result.append((scores >= thresholds_of_fraction(*both, edges, False, 0.2)[0]).mean())
    assert np.mean(result) == pytest.approx(0.2, abs=0.015)
    assert np.std(result) < 0.05
