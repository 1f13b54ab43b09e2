"""Groups in every form, labels as text, group columns out of X, and frames by one door."""

from __future__ import annotations

import pickle
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from skops import io

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.frames import label_column
from sklearn_dpwg.data.groups import encode_groups, grouping_names, labelled_sizes, select_groups
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.metrics import group_table, worst_group_scorer
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import BoundedScaler, Category
from sklearn_dpwg.serving import trusted_types
from sklearn_dpwg.solvers import MGR

pytestmark = pytest.mark.filterwarnings("ignore")
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
        PAIRS,
        pd.DataFrame(PAIRS, columns=["one", 1]),
        pd.Series(PAIRS),
        pd.MultiIndex.from_tuples(PAIRS),
        np.array(PAIRS, dtype=object),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_letters_and_pairs_in_any_container(groups):
    codes, labels = encode_groups(groups, 4, None)
    assert labels.tolist() in (["a", "b", "c"], [("a", 1), ("b", 2), ("b", 10)])
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


# Fits whose groups and labels come in many forms.

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(-0.5, 0.5, (400, 2)), columns=["u", "v"])
Y = np.where(X["u"] > 0, "yes", "no")
G = rng.choice(["b", "a"], 400)
TABLE = X.assign(g=G)
FORMS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "batch": pa.RecordBatch.from_pandas,
    "narwhals": nw.from_native,
    "narwhals of polars": lambda table: nw.from_native(pl.from_pandas(table)),
}


def model(**given):
    given = {"solver": MGR(n_steps=2), "data_norm": 1.0, "random_state": 0} | given
    return DPWorstGroupClassifier(4.0, **given)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    WITHOUT = model().fit(X, Y, G)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_group_column_leaves_every_frame(form):
    fitted = model(group_by="g").fit(form(TABLE), Y)
    np.testing.assert_array_equal(fitted.coef_, WITHOUT.coef_)
    assert (fitted.n_features_in_, [*fitted.feature_names_in_]) == (2, ["u", "v"])
    for rows in (form(TABLE), form(X)):
        np.testing.assert_array_equal(fitted.predict(rows), WITHOUT.predict(X))
    both = form(pd.DataFrame({"y": Y, "g": G}))
    own = model().fit(form(X), both["y"], groups=both["g"])
    np.testing.assert_array_equal(own.coef_, WITHOUT.coef_)
    assert worst_group_scorer("accuracy")(own, form(X), both["y"], groups=both["g"]) > 0.0
    table = group_table(both["y"], own.predict(form(X)), groups=both["g"])
    assert table.index.tolist() == ["a", "b"]
    bounds = {"u": (-1, 1), "v": (-1, 1)}
    np.testing.assert_array_equal(
        BoundedScaler(bounds).fit_transform(form(X)), BoundedScaler(bounds).fit_transform(X)
    )


def test_arrays_lose_it_too_and_a_frozen_model_keeps_what_it_learned_from():
    cells = TABLE[["g", "u", "v"]].to_numpy()
    fitted = model(group_by=0).fit(cells, Y)
    np.testing.assert_array_equal(fitted.coef_, WITHOUT.coef_)
    np.testing.assert_array_equal(fitted.predict(cells.tolist()), fitted.predict(X.to_numpy()))
    numbers = np.column_stack([X, G == "a"])
    for form in (np.asarray, csr_array, coo_array):
        again = model(group_by=[2]).fit(form(numbers), Y)
        assert again.n_features_in_ == 2
        np.testing.assert_array_equal(again.predict(form(numbers)), again.predict(X.to_numpy()))
    by_function = model(group_by=lambda rows: np.asarray(rows)[:, 2]).fit(numbers, Y)
    assert by_function.n_features_in_ == 3
    one_hot = ColumnTransformer([("g", OneHotEncoder(), ["g"])], remainder="passthrough")
    frozen = FrozenEstimator(make_pipeline(one_hot, LogisticRegression()).fit(TABLE, Y))
    assert DPThresholdClassifier(frozen, group_by="g").fit(TABLE, Y).score(TABLE, Y) > 0.5


CODES = np.where(G == "a", 1, 2)
DRESSED = {
    "text": CODES.astype(str),
    "floats": CODES.astype(float),
    "blanks": np.char.add(CODES.astype(str), " "),
    "categories": pd.Series(CODES).astype("category"),
    "objects": CODES.astype(object),
}


@pytest.mark.parametrize("groups", DRESSED.values(), ids=DRESSED)
@pytest.mark.parametrize(
    ("neighbours", "stated"),
    [
        ("replace-one", ("1", "2")),
        ("replace-one-within-group", [1, 2]),
        ("replace-one", pd.Index(["1", "2"])),
    ],
)
def test_labels_are_one_where_they_are_one_text(groups, neighbours, stated):
    right = model(group_labels=[1, 2], neighbours=neighbours).fit(X, Y, CODES)
    fitted = model(group_labels=stated, neighbours=neighbours).fit(X, Y, groups)
    assert [*fitted.group_labels_] == [*stated]
    np.testing.assert_array_equal(fitted.group_sizes_, right.group_sizes_)
    sizes = {"2": 30, 1.0: 40}
    assert fitted.plan(group_sizes=sizes, n_features=2).problem.n_records == 70


def test_one_record_in_another_dress_moves_alone():
    mixed = CODES.astype(object)
    mixed[:3] = ["1", "2 ", True]
    codes, labels = encode_groups(mixed, 400, None)
    assert labels.tolist() == [1, 2]
    assert codes[:3].tolist() == [0, 1, 0]
    unknown = ["2b", *CODES[1:].astype(str)]
    before, _ = encode_groups(CODES, 400, ["1", "2", "2b"], may_be_empty=True)
    after, _ = encode_groups(unknown, 400, ["1", "2", "2b"])
    np.testing.assert_array_equal(before[1:], after[1:])
    with pytest.raises(ValueError, match="group_labels must name each group once"):
        model(group_labels=["1", 1]).fit(X, Y, CODES)


def test_orders_of_categories_are_kept():
    bands = pd.Series(pd.cut(rng.integers(0, 100, 400), [0, 5, 18, 65, 100], right=False))
    right = [*bands.cat.categories]
    sizes = bands.value_counts()
    assert model().plan(group_sizes=sizes, n_features=2).problem.group_sizes == tuple(
        int(sizes[band]) for band in right
    )
    fitted = model(overlap="attributes", neighbours="replace-one-within-group").fit(
        X, Y, pd.DataFrame({"g": G, "band": bands})
    )
    assert [*fitted.group_labels_][2:] == [("band", band) for band in right]
    levels = pl.Series(G, dtype=pl.Enum(["b", "a"]))
    assert encode_groups(levels, 400, None)[1].tolist() == ["b", "a"]


@pytest.mark.parametrize(
    "labels", [pd.Index(["a", "b"]), pa.array(["a", "b"]), pl.Series(["a", "b"])], ids=type
)
def test_rows_of_labels_are_stored_plainly(labels):
    classes = pd.Series(["no", "yes"]).unique()
    fitted = model(group_labels=labels, classes=classes).fit(X, Y, G)
    assert fitted.get_params()["group_labels"] is labels
    clone(fitted)
    for read in (
        pickle.loads(pickle.dumps(fitted)),
        io.loads(io.dumps(fitted), trusted=[*trusted_types()]),
    ):
        assert (read.group_labels, read.classes) == (["a", "b"], ["no", "yes"])
        assert {type(one) for one in read.group_labels_} == {str}
        np.testing.assert_array_equal(read.predict(X), fitted.predict(X))
    audit = GroupAudit(1.0, 1e-6, group_labels=labels, classes=classes)
    assert '"a"' in audit.run(Y, Y, G, kind="decisions").to_json()
    assert Category(labels).levels == ("a", "b")


@pytest.mark.parametrize(
    "written",
    [
        [1, True, 1.0, 2],
        ["10", " 10", "a"],
        [1, "1", "b"],
        [("x", 1), ("x", True), ("y", 1.0)],
        pd.Categorical(["c", "a", "b"], categories=["c", "a", "b"]),
        pa.array(["c", "a", "b"]).dictionary_encode(),
    ],
    ids=str,
)
def test_labels_of_hidden_groups_follow_from_the_set_of_them_alone(written):
    """No record comes first: neither its place nor how it is written shows."""
    cells = list(written) if isinstance(written, list) else pd.Series(written).tolist()
    shown = []
    for order in (cells, cells[::-1], cells[1:] + cells[:1]):
        column = label_column(order * 30)
        if not isinstance(written, list):
            column = pd.Categorical(column, categories=order)
        shown.append(encode_groups(column, len(column), None, may_be_empty=True)[1].tolist())
    assert [list(map(repr, each)) for each in shown] == [list(map(repr, shown[0]))] * 3
