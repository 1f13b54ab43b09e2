from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from sklearn_dpwg.data.groups import (
    encode_groups,
    grouping_names,
    labelled_sizes,
    select_groups,
)

LETTERS = ["b", "a", "b", "c"]
PAIRS = [("b", 2), ("a", 1), ("b", 2), ("b", 10)]


def labels_of(groups, group_labels=None):
    codes, labels = encode_groups(groups, len(groups), group_labels)
    return [labels[code] for code in codes]


@pytest.mark.parametrize(
    "groups",
    [
        LETTERS,
        np.array(LETTERS),
        np.array(LETTERS, dtype=object)[:, None],
        pd.Series(LETTERS, index=[7, 7, -1, 0]),
        pd.Series(LETTERS, dtype="category"),
        pd.Categorical(LETTERS, categories=["a", "never", "b", "c"]),
        pd.Series(LETTERS, dtype="string"),
        pd.DataFrame({"group": LETTERS}),
        pd.Index(LETTERS),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_letters_in_any_container(groups):
    codes, labels = encode_groups(groups, 4, None)
    assert labels.tolist() == ["a", "b", "c"]
    assert codes.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize(
    "groups",
    [
        PAIRS,
        pd.DataFrame(PAIRS),
        pd.DataFrame(PAIRS, columns=["one", 1]),
        pd.Series(PAIRS),
        pd.MultiIndex.from_tuples(PAIRS),
        np.array(PAIRS, dtype=object),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_columns_are_intersected(groups):
    codes, labels = encode_groups(groups, 4, None)
    assert labels.tolist() == [("a", 1), ("b", 2), ("b", 10)]
    assert codes.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize(
    "groups",
    [[3, 1, 20, 1], [True, False, True, True], [2.5, 1.0, 2.5, 2.5], [1, "y", 0.5, "z"]],
)
def test_labels_keep_their_type_and_have_an_order(groups):
    labels = encode_groups(groups, 4, None)[1].tolist()
    assert set(labels) == set(groups)
    assert labels == sorted(labels, key=lambda label: (isinstance(label, str), label))
    assert labels_of(groups) == groups
    assert labels_of(pd.Series(groups)) == groups
    assert labels_of(pd.array([2, 1, 2], dtype="Int64")) == [2, 1, 2]


def test_group_labels_set_the_order():
    codes, labels = encode_groups(LETTERS, 4, ["c", "b", "a"])
    assert labels.tolist() == ["c", "b", "a"]
    assert codes.tolist() == [1, 2, 1, 0]
    assert labels_of(PAIRS, [("b", 10), ("a", 1), ("b", 2)]) == PAIRS
    assert labels_of([1, 0], np.array([0, 1])) == [1, 0]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_groups(missing):
    for groups in (["a", missing], pd.Series(["a", missing], dtype=object), [("a", missing)] * 2):
        with pytest.raises(ValueError, match=r"^groups contains NaN or None in row [01]; give"):
            encode_groups(groups, 2, None)


@pytest.mark.parametrize(
    "groups", [[], "ab", 5, np.zeros((2, 0)), np.zeros((2, 1, 1)), csr_array(np.eye(2)[:, :1])]
)
def test_no_groups_at_all(groups):
    with pytest.raises(ValueError, match=r"^groups must be one label a record, or a table"):
        encode_groups(groups, 2, None)


FRAME = pd.DataFrame({"age": [1.0, 2.0, 3.0], "sex": [0.0, 1.0, 0.0]}, index=[5, 3, 9])


@pytest.mark.parametrize(
    ("rows", "group_by"),
    [
        (FRAME, "sex"),
        (FRAME, ["sex"]),
        (FRAME, lambda frame: frame["sex"]),
        (FRAME.to_numpy(), 1),
        (FRAME.to_numpy(), [1]),
        (FRAME.to_numpy().tolist(), np.int64(1)),
        (FRAME.to_numpy(), lambda rows: rows[:, 1]),
    ],
)
def test_group_by(rows, group_by):
    assert labels_of(select_groups(rows, group_by)) == [0.0, 1.0, 0.0]
    assert labels_of(select_groups(FRAME, ["sex", "age"]))[1] == (1.0, 2.0)


def test_sizes_take_the_order_of_the_fit():
    counts = pd.Series(LETTERS).value_counts()
    for arguments, sizes in [
        (([3, 1], None, None), [3, 1]),
        (([3, 1], None, ["b", "a"]), [3, 1]),
        (([3, 1], ["b", "a"], None), [1, 3]),
        (({"b": 3, "a": 1}, None, None), [1, 3]),
        (({"b": 3, "a": 1}, None, ["b", "a"]), [3, 1]),
        ((counts, None, None), [1, 2, 1]),
        ((pd.DataFrame(PAIRS).value_counts(), None, None), [1, 2, 1]),
    ]:
        assert labelled_sizes(*arguments, may_be_unnamed=True)[1] == sizes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], None, None), "group_sizes"),
        (([1], None, ["a", "b"]), "group_sizes"),
        (([1], ["a", "b"], None), "group_sizes"),
        (({"a": 1}, ["a"], None), "group_labels"),
        (({"a": 1}, None, ["b"]), "group_sizes"),
        (([1, 2], ["a", "a"], None), "group_labels .* 'a' twice"),
    ],
)
def test_sizes_and_labels_that_do_not_belong_together(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        labelled_sizes(*arguments, may_be_unnamed=True)


@pytest.mark.parametrize(
    ("groups", "group_by", "names"),
    [
        (None, None, ()),
        (pd.Series([0, 1]), None, ("groups passed to fit",)),
        (pd.Series([0, 1], name="sex"), None, ("column 'sex'",)),
        (pd.DataFrame({"sex": [0, 1], 3: [0, 1]}), None, ("columns 'sex', 3 together",)),
        (None, np.str_("sex"), ("column 'sex'",)),
        (None, 2, ("column 2",)),
        (None, len, ("function len",)),
    ],
)
def test_names_of_groupings(groups, group_by, names):
    assert grouping_names(groups, group_by) == names


ODD = (("a", "x", "q"), ("a",), "ax", None, {"a": "x"}, ["a", ["x"]], np.array(["a", "z"]), 1.5)


@pytest.mark.parametrize("last", ODD, ids=repr)
@pytest.mark.parametrize("place", [0, 2])
def test_no_protected_label_decides_how_those_of_others_are_read(last, place):
    groups = [("a", "x"), ("b", "x"), ("a", "x")]
    groups[place] = last
    codes, _ = encode_groups(groups, 3, [("a", "x"), ("b", "x"), "other"], may_be_empty=True)
    expected = [0, 1, 0]
    expected[place] = 2
    assert codes.tolist() == expected
    flat = ["a", "b", "a"]
    flat[place] = "c" if len(np.atleast_1d(np.asarray(last, dtype=object))) == 1 else last
    codes, _ = encode_groups(flat, 3, ["a", "b", "other"], may_be_empty=True)
    assert codes.tolist() == expected


@pytest.mark.parametrize("last", [0.5, True, 1.0, None, "x"])
def test_no_label_rounds_the_large_numbers_of_others(last):
    labels = pd.DataFrame({"group": pd.Series([2**53, 2**53 + 1, 2**53, last], dtype=object)})
    codes, _ = encode_groups(labels, 4, [2**53, 2**53 + 1, "other"])
    assert codes.tolist() == [0, 1, 0, 2]


def test_labels_of_several_columns_have_the_order_of_their_parts():
    cells = [("b", 1), ("a", 2.5), ("a", "x"), (3, "z"), ("a", True), ("a", ("q", 2)), ("a", -1)]
    _, labels = encode_groups(pd.Series(cells), len(cells), None)
    in_order = [(3, "z"), ("a", -1), ("a", True), ("a", 2.5), ("a", "x"), ("a", ("q", 2)), ("b", 1)]
    assert labels.tolist() == in_order
