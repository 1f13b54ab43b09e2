"""Tables of groups in several columns, classes that are strings or missing, and small groups."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from sklearn_dpwg.metrics import group_disparities, group_table, worst_group_score

Y = np.array([1, 0, 1, 1, 0, 0])
PREDICTED = np.array([1, 0, 0, 1, 1, 1])
GROUPS = np.array(["a", "a", "b", "b", "b", "c"])
TABLE = pd.DataFrame({"letter": GROUPS, "even": [True, False] * 3})

WORDS = np.array(["approved", "denied"])
RATES = (
    "selection_rate", "true_positive_rate", "true_negative_rate", "false_positive_rate",
    "false_negative_rate",
)  # fmt: skip


# --- several columns ----------------------------------------------------------------------------


def test_several_columns_become_levels_with_their_names():
    found = group_table(Y, PREDICTED, groups=TABLE)
    assert isinstance(found.index, pd.MultiIndex)
    assert list(found.index.names) == ["letter", "even"]
    assert found.xs(True, level="even")["size"].to_dict() == {"a": 1, "b": 2}
    assert found.loc[("b", False), "size"] == 1
    assert found.loc["b"].index.name == "even"


@pytest.mark.parametrize(
    "convert", [lambda table: pl.DataFrame(table.to_dict("list")), lambda table: table.set_index(Y)]
)
def test_names_of_any_frame(convert):
    found = group_table(Y, PREDICTED, groups=convert(TABLE))
    pd.testing.assert_frame_equal(found, group_table(Y, PREDICTED, groups=TABLE))


@pytest.mark.parametrize("convert", [np.asarray, lambda table: list(table.values)])
def test_columns_without_names_are_numbered(convert):
    rows = convert(TABLE.astype(object))
    found = group_table(Y, PREDICTED, groups=rows)
    assert list(found.index.names) == ["group_0", "group_1"]
    assert found.equals(group_table(Y, PREDICTED, groups=TABLE))


def test_labels_that_are_tuples_are_levels_too():
    """As the labels of a model are, that was fitted on several columns."""
    labels = np.empty(6, dtype=object)
    labels[:] = list(TABLE.itertuples(index=False, name=None))
    assert group_table(Y, PREDICTED, groups=labels).equals(group_table(Y, PREDICTED, groups=TABLE))


def test_one_column_stays_one_level():
    found = group_table(Y, PREDICTED, groups=TABLE[["letter"]])
    assert found.index.tolist() == ["a", "b", "c"]
    assert found.index.name == "group"


# --- the positive class -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["f1", "jaccard", "precision", "recall", *RATES])
def test_the_second_class_in_sorted_order_is_the_positive_one(name):
    groups = ["a"] * 4 + ["b"] * 4
    y, predicted = np.array([0, 0, 1, 1, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 1, 0, 1, 1])
    expected = group_table(y, predicted, groups=groups, metrics=name)
    assert expected[name].nunique() == 2
    for classes in (WORDS, np.array(WORDS, dtype=object), np.array([1, 2]), np.array([-1, 1])):
        found = group_table(classes[y], classes[predicted], groups=groups, metrics=name)
        pd.testing.assert_frame_equal(found, expected)
    other = group_table(
        WORDS[1 - y], WORDS[1 - predicted], groups=groups, metrics=name, pos_label="approved"
    )
    pd.testing.assert_frame_equal(other, expected)


def test_what_scikit_learn_says_of_the_positive_class():
    groups, words, predicted = GROUPS[:5], WORDS[Y[:5]], WORDS[PREDICTED[:5]]
    for name, function in (
        ("f1", f1_score),
        ("precision", precision_score),
        ("recall", recall_score),
    ):
        found = group_table(words, predicted, groups=groups, metrics=name)[name]
        for group in "ab":
            members = groups == group
            expected = function(words[members], predicted[members], pos_label="denied")
            assert found[group] == expected


def test_probabilities_are_those_of_the_positive_class():
    probabilities = np.array([0.9, 0.2, 0.5, 0.8, 0.4, 0.1])
    expected = [0.5 * (0.01 + 0.04), (0.25 + 0.04 + 0.16) / 3, 0.01]
    for y, pos_label in ((Y, None), (WORDS[Y], None), (WORDS[1 - Y], "approved")):
        found = group_table(
            y, probabilities, groups=GROUPS, metrics="brier_score_loss", pos_label=pos_label
        )
        assert found["brier_score_loss"].tolist() == pytest.approx(expected)


def test_worst_group_score_takes_the_same_class():
    words, predicted = WORDS[Y[:5]], WORDS[PREDICTED[:5]]
    groups = GROUPS[:5]
    assert worst_group_score(words, predicted, groups=groups, metric="recall") == 0.5
    other = worst_group_score(
        words, predicted, groups=groups, metric="recall", pos_label="approved"
    )
    assert other == 0.0
    assert worst_group_score(words, predicted, groups=groups, metric="false_positive_rate") == 1.0
    with pytest.raises(ValueError, match=r"^greater_is_better must be given for the metric 'sel"):
        worst_group_score(words, predicted, groups=groups, metric="selection_rate")


@pytest.mark.parametrize("only", [0, 1])
def test_one_class_of_numbers_leaves_no_doubt(only):
    found = group_table([only] * 3, [only] * 3, groups=["a", "a", "b"], metrics="selection_rate")
    assert found["selection_rate"].tolist() == [only, only]
    found = group_table(
        [only] * 3, [0.25 + only / 2] * 3, groups=["a", "a", "b"], metrics="log_loss"
    )
    assert found["log_loss"].tolist() == pytest.approx([-math.log(0.75)] * 2)


# --- classes that do not occur ------------------------------------------------------------------


def test_log_loss_where_no_record_has_a_class():
    probabilities = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.8, 0.1, 0.1]])
    y, groups = ["u", "v", "u"], ["a", "a", "b"]
    found = group_table(
        y, probabilities, groups=groups, metrics="log_loss", classes=["u", "v", "w"]
    )
    assert found["log_loss"].tolist() == pytest.approx([math.log(2), -math.log(0.8)])
    worst = worst_group_score(
        y, probabilities, groups=groups, metric="log_loss", classes=np.array(["u", "v", "w"])
    )
    assert worst == pytest.approx(math.log(2))
    with pytest.raises(ValueError, match=r"^the metric 'log_loss' needs .* of 3 for the 2 classes"):
        group_table(y, probabilities, groups=groups, metrics="log_loss")


def test_the_order_of_stated_classes_does_not_matter():
    found = group_table(
        ["u", "v"], [0.9, 0.9], groups=["a", "b"], metrics="log_loss", classes=["v", "u"]
    )
    assert found["log_loss"].tolist() == pytest.approx([-math.log(0.1), -math.log(0.9)])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_one_class_of_three_against_the_others():
    y, predicted = np.array(["u", "v", "w", "w"]), np.array(["u", "w", "w", "v"])
    found = group_table(
        y, predicted, groups=["a", "a", "b", "b"], metrics=["recall", *RATES], pos_label="w"
    )
    assert found["recall"].tolist()[1] == 0.5
    assert found["selection_rate"].tolist() == [0.5, 0.5]
    assert found["false_positive_rate"].tolist() == pytest.approx([0.5, math.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("y", "predicted", "changes", "message"),
    [
        (list("uvw"), list("uvw"), {}, r"the metric 'recall' needs two classes, got 3, \['u'"),
        (list("uuu"), list("uuu"), {}, r"the metric 'recall' needs two classes, got 1, \['u'"),
        ([0, 1, 2], [0, 1, 1], {}, "the metric 'recall' needs two classes, got 3"),
        (list("uvv"), [0, 1, 1], {}, "y_true and predictions must hold classes of one kind"),
        ([0, 1, 1], [0.2, 0.7, 1.0], {}, r"predictions must hold one class a record .* 0\.2"),
        ([0, 1, 1], np.eye(3), {}, r"predictions must hold one class .* shape \(3, 3\)"),
        (list("uvv"), list("uvv"), {"pos_label": "V"}, r"pos_label must be one of the classes"),
        (list("uvv"), list("uvw"), {"classes": ["u", "v"]}, r"classes must hold .* 'w' besides"),
        ([0, 1, 1], [0, 1, 1], {"min_count": 0}, "min_count must be a positive whole number"),
        ([0, 1, 1], [0, 1, 1], {"min_count": 2.0}, "min_count must be a positive whole number"),
    ],
)
def test_what_is_refused(y, predicted, changes, message):
    for function in (group_table, group_disparities):
        with pytest.raises(ValueError, match=f"^{message}"):
            function(y, predicted, groups=list("aab"), metrics="recall", **changes)


def test_a_metric_that_is_called_size_would_hide_the_counts():
    def size(y_true, y_pred):
        return 0.0

    with pytest.raises(ValueError, match=r"^metrics must have different names, got 'size'"):
        group_table(Y, PREDICTED, groups=GROUPS, metrics=size)


# --- small groups -------------------------------------------------------------------------------


def test_small_groups_keep_their_row_and_size_alone():
    asked = []

    def accuracy(y_true, y_pred):
        asked.append(len(y_true))
        return float(np.mean(y_true == y_pred))

    found = group_table(Y, {"m": PREDICTED}, groups=GROUPS, metrics=accuracy, min_count=2)
    assert found["size"].to_dict() == {"a": 2, "b": 3, "c": 1}
    assert found["size"].dtype.kind == "i"
    assert found["m accuracy"].tolist() == pytest.approx([1.0, 1 / 3, math.nan], nan_ok=True)
    assert asked == [2, 3]  # a metric is not asked, so that it cannot warn or fail
    everything = group_table(Y, PREDICTED, groups=GROUPS, min_count=4)
    assert everything["accuracy"].isna().all()


# --- rates and disparities ----------------------------------------------------------------------


def test_a_rate_of_no_records_is_not_a_number():
    found = group_table(Y, PREDICTED, groups=GROUPS, metrics=RATES).loc["c"]
    assert found.drop("size").tolist() == pytest.approx(
        [1.0, math.nan, 0.0, 1.0, math.nan], nan_ok=True
    )


def test_disparities():
    words, predicted = WORDS[Y], WORDS[PREDICTED]
    found = group_disparities(
        words,
        {"first": predicted, "perfect": words},
        groups=TABLE["letter"],
        metrics=["true_positive_rate", "accuracy"],
    )
    assert found.index.tolist() == [
        "first true_positive_rate", "first accuracy", "perfect true_positive_rate",
        "perfect accuracy",
    ]  # fmt: skip
    expected = pd.DataFrame(
        {
            "overall": [2 / 3, 0.5, 1.0, 1.0],
            "smallest": [0.5, 0.0, 1.0, 1.0],  # "c" has no positive record
            "largest": [1.0, 1.0, 1.0, 1.0],
            "difference": [0.5, 1.0, 0.0, 0.0],
            "ratio": [0.5, 0.0, 1.0, 1.0],
        },
        index=found.index,
    )
    pd.testing.assert_frame_equal(found, expected)


def test_disparities_to_all_records():
    found = group_disparities(Y, PREDICTED, groups=GROUPS, method="to_overall").loc[
        "selection_rate"
    ]
    assert found["overall"] == pytest.approx(4 / 6)
    assert found["difference"] == pytest.approx(1 / 3)  # "c", where everyone is selected
    assert found["ratio"] == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"^method must be"):
        group_disparities(Y, PREDICTED, groups=GROUPS, method="overall")


def test_small_groups_do_not_count_for_disparities():
    found = group_disparities(Y, PREDICTED, groups=GROUPS, min_count=2).loc["selection_rate"]
    assert found["largest"] == pytest.approx(2 / 3)
    assert found["overall"] == pytest.approx(4 / 6)


def test_disparities_of_probabilities_of_several_classes():
    probabilities = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.8, 0.1, 0.1]])
    found = group_disparities(
        ["u", "v", "u"], probabilities, groups=["a", "a", "b"], metrics="log_loss",
        classes=["u", "v", "w"],
    ).loc["log_loss"]  # fmt: skip
    assert found["difference"] == pytest.approx(math.log(2) + math.log(0.8))


def test_without_fairlearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "fairlearn", None)
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    group_table(Y, PREDICTED, groups=GROUPS, metrics=["accuracy", "log_loss"], min_count=2)
    with pytest.raises(ImportError, match=r"^the metric 'selection_rate' needs fairlearn: pip ins"):
        group_table(Y, PREDICTED, groups=GROUPS, metrics="selection_rate")
    with pytest.raises(ImportError, match=r"^group_disparities needs fairlearn: pip install"):
        group_disparities(Y, PREDICTED, groups=GROUPS, metrics="accuracy")
