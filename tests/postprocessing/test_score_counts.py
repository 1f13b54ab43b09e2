"""Counts of scores, and what noisy ones are taken to stand for."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_dpwg.postprocessing.base import checked_edges, count_scores
from sklearn_dpwg.postprocessing.classifiers import likely_counts


def test_every_record_is_in_one_cell():
    edges = checked_edges([0.2, 0.5], 10)
    scores = np.array([0.0, 0.19, 0.2, 0.5, 1.0, np.nan, -3.0, np.inf])
    codes, positive = np.array([0, 1, 1, 0, 1, 0, 1, 1]), np.array([0, 1, 0, 1, 1, 1, 0, 0]) == 1
    counts = count_scores(scores, positive, codes, 3, edges)
    expected = np.zeros((3, 2, 3), dtype=int)
    for place in zip(codes, positive.astype(int), [0, 0, 1, 2, 2, 0, 0, 2], strict=True):
        expected[place] += 1
    assert np.array_equal(counts, expected)
    assert counts.sum() == len(scores)


@pytest.mark.parametrize("edges", [[], [0.0, 0.5], [0.6, 0.5], [0.5, 0.5], [np.nan]])
def test_wrong_edges_are_refused(edges):
    with pytest.raises(ValueError, match=r"score_edges must hold rising numbers between 0 and 1"):
        checked_edges(edges, 10)


def test_without_noise_counts_stay_as_they_are():
    counts = np.random.default_rng(2).integers(1, 50, size=(4, 2, 6))
    result = likely_counts(counts, checked_edges(None, 6), 0.0)
    assert np.allclose(result, counts, rtol=1e-6)


def test_where_nothing_is_known_scores_mean_what_they_say():
    for noisy in (np.zeros((2, 2, 5)), np.full((2, 2, 5), -9.0)):
        likely = likely_counts(noisy, np.linspace(0.0, 1.0, 6), 4.0)
        assert (likely >= 0.0).all()
        assert np.allclose(likely[:, 1] / likely.sum(axis=1), [0.1, 0.3, 0.5, 0.7, 0.9], atol=1e-6)
