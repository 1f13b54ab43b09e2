from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from sklearn_dpwg.model_selection import GroupLabelStratifiedKFold

X = np.zeros((24, 2))
GROUPS = np.array(["a"] * 14 + ["b"] * 10)
Y = np.array([0] * 8 + [1] * 6 + [0] * 3 + [1] * 7)


def cells_of(index, y=Y, groups=GROUPS):
    return sorted(zip(groups[index].tolist(), y[index].tolist(), strict=True))


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_fold_holds_its_share_of_each_cell(shuffle):
    folds = GroupLabelStratifiedKFold(3, shuffle=shuffle, random_state=0 if shuffle else None)
    parts = list(folds.split(X, Y, GROUPS))
    assert all(sorted([*train, *test]) == list(range(24)) for train, test in parts)
    tests = [test for _, test in parts]
    assert sorted(np.concatenate(tests)) == list(range(24))
    for group in "ab":
        for label in (0, 1):
            cell = (group == GROUPS) & (label == Y)
            counts = [np.count_nonzero(cell[test]) for test in tests]
            assert max(counts) - min(counts) <= 1


@given(st.data())
def test_every_fold_holds_every_group(data):
    n_splits = data.draw(st.integers(2, 5))
    sizes = data.draw(st.lists(st.integers(n_splits, 12), min_size=1, max_size=4))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    groups = groups[np.array(data.draw(st.permutations(range(len(groups)))))]
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(groups), max_size=len(groups))))
    for train, test in GroupLabelStratifiedKFold(n_splits).split(y[:, None], y, groups):
        for index in (train, test):
            assert set(groups[index]) == set(range(len(sizes)))


def test_targets_that_are_no_classes():
    y = np.linspace(0.1, 0.9, 24)
    tests = [test for _, test in GroupLabelStratifiedKFold(3).split(X, y, GROUPS)]
    assert [cells_of(t, np.zeros(24, int)) for t in tests] == [
        cells_of(t, np.zeros(24, int))
        for _, t in StratifiedKFold(3).split(X, (GROUPS == "b").astype(int))
    ]


def test_groups_of_several_columns_and_from_a_column():
    table = pd.DataFrame({"u": Y, "v": GROUPS})
    one = GroupLabelStratifiedKFold(3, group_by=["u", "v"]).split(table, Y)
    two = GroupLabelStratifiedKFold(3).split(X, Y, table)
    for (_, first), (_, second) in zip(one, two, strict=True):
        assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("parameters", "y", "groups", "message"),
    [
        ({}, Y, None, "^groups must be given, or group_by set"),
        ({"group_by": 0}, Y, GROUPS, "^groups were passed and group_by is set"),
        ({}, None, GROUPS, "^y must be given to stratify by label"),
        ({"n_splits": 11}, Y, GROUPS, "^n_splits=11 folds need .* group 'b' has 10"),
    ],
)
def test_what_is_refused(parameters, y, groups, message):
    with pytest.raises(ValueError, match=message):
        list(GroupLabelStratifiedKFold(**parameters).split(X, y, groups))
