"""What means over cells of the population are worth: intervals by source."""

import math

import numpy as np
import pytest
from scipy.stats import t, ttest_ind

from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def utility():
    """The package with what is computed from cells."""
    with utility_with("clusters", "summary") as package:
        yield package


def test_a_mean_of_clusters_is_that_of_its_values(utility):
    found = utility.clusters.clustered([1.0, 2.0, 6.0], ["a", "a", "b"])
    # residuals -2, -1 and 3 add up to -3 and 3: variance 2/1 * 18 / 9
    assert found == (3.0, 2.0, 2)
    assert found.half == pytest.approx(12.7062047 * 2.0)


def test_values_of_their_own_have_students_interval(utility):
    values = [0.3, 1.0, 2.0, 2.5]
    found = utility.clusters.clustered(values, ["a", "b", "c", "d"])
    assert (found.mean, found.half) == pytest.approx(utility.summary.interval(values))


def test_repeating_a_cell_of_a_source_does_not_narrow_the_interval(utility):
    once = utility.clusters.clustered([0.0, 1.0, 5.0], ["a", "b", "c"])
    thrice = utility.clusters.clustered([0.0, 1.0, 5.0] * 3, ["a", "b", "c"] * 3)
    assert thrice == pytest.approx(once)


def test_one_source_tells_nothing_of_others(utility):
    found = utility.clusters.geometric_mean([0.5, 2.0], ["a", "a"])
    assert found == (1.0, 0.0, math.inf)


def test_intervals_over_sources_cover_as_often_as_they_say(utility):
    rng, sources = np.random.default_rng(0), np.repeat(np.arange(12), [1, 2, 3] * 4)
    hits = 0
    for _ in range(1000):
        logs = rng.normal(size=12)[sources] + 0.5 * rng.normal(size=len(sources))
        _, low, high = utility.clusters.geometric_mean(np.exp(logs), list(map(str, sources)))
        hits += low <= 1.0 <= high
    assert 0.91 < hits / 1000 < 0.97


def test_a_gap_is_the_difference_of_geometric_means(utility):
    gap = utility.clusters.gap
    ours, theirs = ([0.5, 2.0, 1.0], ["a", "b", "c"]), ([0.25, 1.0, 0.5], ["d", "e", "f"])
    value, half = gap(ours, theirs)
    assert value == pytest.approx(0.5)
    error = math.log(2.0) / math.sqrt(3.0)
    variances = np.array([error, 0.5 * error]) ** 2
    freedom = 2.0 * variances.sum() ** 2 / (variances**2).sum()
    assert half == pytest.approx(t.ppf(0.975, freedom) * math.sqrt(variances.sum()))
    assert gap(([0.5, 2.0], ["a", "a"]), theirs)[1] == math.inf
    assert gap(([1.0, 1.0], ["a", "b"]), ([2.0, 2.0], ["c", "d"])) == pytest.approx((-1.0, 0.0))


def test_a_difference_has_welchs_interval(utility):
    ours, theirs = [1.0, 2.0, 4.0], [1.0, 1.5, 1.0, 2.0]
    found = utility.summary.difference(ours, theirs)
    expected = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert found[1:] == pytest.approx((expected.low, expected.high))
    assert utility.summary.difference([1.0], [0.25]) == (0.75, 0.75, 0.75)
    assert utility.summary.difference([1.0, 1.0], [0.25]) == (0.75, 0.75, 0.75)
