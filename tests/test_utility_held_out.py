"""What ``benchmarks/utility/held_out.py`` counts: splits, worst groups, differences."""

import numpy as np
import pytest

from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def held_out():
    with utility_with("held_out") as package:
        yield package.held_out


def test_each_group_keeps_its_fraction_and_splits_are_a_function_of_the_name(held_out):
    task = held_out.load_by_name("made-classification")
    sizes = len(task.train.codes), len(task.test.codes)
    task.train.X, task.test.X = np.split(np.arange(sum(sizes)), [sizes[0]])
    first, second = held_out.splits(task, 2)
    everybody = task.group_sizes + np.bincount(task.test.codes)
    np.testing.assert_array_equal(first.group_sizes, everybody * 3 // 4)
    np.testing.assert_array_equal(sorted([*first.train.X, *first.test.X]), np.arange(sum(sizes)))
    (again,) = held_out.splits(task, 1)
    np.testing.assert_array_equal(first.train.X, again.train.X)
    shared = np.intersect1d(first.test.X, second.test.X)
    assert 0.2 < len(shared) / len(first.test.X) < 0.3


def test_the_worst_group_is_taken_after_averaging(held_out, tmp_path):
    """Two equal groups with opposite luck: the mean of maxima is 0.6, either group has 0.5."""
    cells = {f"1|{k}": {"test": [0.4 + 0.2 * k, 0.6 - 0.2 * k], "train": [0, 0], "seconds": 0.0}
             for k in range(2)}  # fmt: skip
    held_out.Store(held_out._path("compas", "ours", tmp_path), {}).put(cells)
    frame = held_out.collect(tmp_path, n_splits=2)
    assert frame.loss.item() == pytest.approx(0.5)
    assert held_out.collect(tmp_path, n_splits=3).empty


def losses(worst, best=0.1):
    return np.column_stack([worst, np.full(len(worst), best)])


@pytest.mark.parametrize(
    ("gaps", "kind", "expected"),
    [
        ([0.003, 0.003], "classification", 1),
        ([-0.003, -0.003], "classification", -1),
        ([0.001, 0.001], "classification", 0),
        ([0.001, 0.001], "regression", 1),
        ([0.030, -0.010], "classification", 0),
    ],
)
def test_a_difference_counts_beyond_the_least_and_two_errors(held_out, gaps, kind, expected):
    theirs = np.array([0.5, 0.7])
    result = held_out.difference(losses(theirs + gaps), losses(theirs))
    assert result.verdict(kind) == expected


def test_each_method_is_judged_at_its_own_worst_group(held_out):
    result = held_out.difference(losses([0.5, 0.5], 0.6), losses([0.7, 0.7], 0.6))
    assert result.value == pytest.approx(-0.1)
