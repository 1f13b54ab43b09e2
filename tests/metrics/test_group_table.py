"""Tables of groups in several columns, classes that are strings or missing, and small groups."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import metrics

from sklearn_dpwg.metrics import group_disparities, group_table, worst_group_score
from sklearn_dpwg.metrics.groups import is_greater_better, metric_function

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


def tuples(table):
    """Return the labels of a model that was fitted on several columns."""
    labels = np.empty(len(table), dtype=object)
    labels[:] = list(table.itertuples(index=False, name=None))
    return labels


@pytest.mark.parametrize(
    ("convert", "names"),
    [
        (lambda table: pl.DataFrame(table.to_dict("list")), ["letter", "even"]),
        (lambda table: table.set_index(Y), ["letter", "even"]),
        (lambda table: np.asarray(table.astype(object)), ["group_0", "group_1"]),
        (lambda table: list(table.astype(object).values), ["group_0", "group_1"]),
        (tuples, ["group_0", "group_1"]),
    ],
)
def test_names_are_those_of_a_frame_or_numbers(convert, names):
    found = group_table(Y, PREDICTED, groups=convert(TABLE))
    assert list(found.index.names) == names
    pd.testing.assert_frame_equal(found, group_table(Y, PREDICTED, groups=TABLE), check_names=False)


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
        pd.testing.assert_frame_equal(found, expected, check_names=False)
    other = group_table(
        WORDS[1 - y], WORDS[1 - predicted], groups=groups, metrics=name, pos_label="approved"
    )
    pd.testing.assert_frame_equal(other, expected, check_names=False)


@pytest.mark.parametrize("name", ["f1", "precision", "recall"])
def test_what_scikit_learn_says_of_the_positive_class(name):
    groups, words, predicted = GROUPS[:5], WORDS[Y[:5]], WORDS[PREDICTED[:5]]
    found = group_table(words, predicted, groups=groups, metrics=name)[name]
    for group in "ab":
        given = (words[groups == group], predicted[groups == group])
        assert found[group] == getattr(metrics, f"{name}_score")(*given, pos_label="denied")


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


def test_log_loss_where_records_or_a_group_lack_a_class():
    probabilities = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.8, 0.1, 0.1]])
    y, groups = ["u", "v", "u"], ["a", "a", "b"]
    stated = {"groups": groups, "classes": ["u", "v", "w"]}
    found = group_table(y, probabilities, metrics="log_loss", **stated)
    assert found["log_loss"].tolist() == pytest.approx([math.log(2), -math.log(0.8)])
    worst = worst_group_score(y, probabilities, metric="log_loss", **stated)
    assert worst == pytest.approx(math.log(2))
    with pytest.raises(ValueError, match=r"^the metric 'log_loss' needs .* of 3 for the 2 classes"):
        group_table(y, probabilities, groups=groups, metrics="log_loss")
    found = group_table(["u", "v", "w"], probabilities, groups=groups, metrics="log_loss")
    assert found["log_loss"].tolist() == pytest.approx([math.log(2), -math.log(0.1)])
    binary = worst_group_score([0, 1, 1], [0.5, 0.5, 0.9], groups=groups, metric="log_loss")
    assert binary == pytest.approx(math.log(2))


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
        (list("uvw"), list("uvw"), {}, r"the metric 'recall' needs two classes, got 3, "),
        (list("uuu"), list("uuu"), {}, r"the metric 'recall' needs two classes, got 1, "),
        ([0, 1, 2], [0, 1, 1], {}, "the metric 'recall' needs two classes, got 3"),
        (list("uvv"), [0, 1, 1], {}, "y_true and predictions must hold classes of one kind"),
        (
            [0, 1, 1],
            [0.2, 0.7, 1.0],
            {},
            r"predictions must hold one class a record .* with 0",
        ),
        ([0, 1, 1], np.eye(3), {}, r"predictions must hold one class .* shape \(3, 3\)"),
        (list("uvv"), list("uvv"), {"pos_label": "V"}, r"pos_label must be one of the classes"),
        (
            list("uvv"),
            list("uvw"),
            {"classes": ["u", "v"]},
            r"classes must hold .* 'w' besides",
        ),
        ([0, 1, 1], [0, 1, 1], {"min_count": 0}, "min_count must be a positive whole number"),
        ([0, 1, 1], [0, 1, 1], {"min_count": 2.0}, "min_count must be a positive whole number"),
    ],
)
def test_what_is_refused(y, predicted, changes, message):
    for function in (group_table, group_disparities):
        with pytest.raises(ValueError, match=f"^{message}"):
            function(y, predicted, groups=list("aab"), metrics="recall", **changes)


def test_two_columns_of_one_name():
    def size(y_true, y_pred):
        return 0.0

    for names in (size, ["accuracy", "accuracy"], [lambda y, p: 0.0, lambda y, p: 1.0]):
        with pytest.raises(ValueError, match=r"^metrics must have different names, got '"):
            group_table(Y, PREDICTED, groups=GROUPS, metrics=names)


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
    pd.testing.assert_frame_equal(found, expected, check_names=False)


def test_disparities_to_all_records_and_of_large_groups():
    given = {"groups": GROUPS, "metrics": "selection_rate"}
    found = group_disparities(Y, PREDICTED, method="to_overall", **given).loc["selection_rate"]
    assert found["overall"] == pytest.approx(4 / 6)
    assert found["difference"] == pytest.approx(1 / 3)  # "c", where everyone is selected
    assert found["ratio"] == pytest.approx(2 / 3)
    found = group_disparities(Y, PREDICTED, min_count=2, **given).loc["selection_rate"]
    assert (found["largest"], found["overall"]) == pytest.approx((2 / 3, 4 / 6))
    with pytest.raises(ValueError, match=r"^method must be"):
        group_disparities(Y, PREDICTED, method="overall", **given)


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


# --- tables of numbers, and the worst group ------------------------------------------------------


def share_of_ones(y_true, y_pred):
    return np.mean(y_pred)


def test_table_of_several_models():
    table = group_table(
        Y,
        {"first": PREDICTED, "perfect": Y},
        groups=GROUPS,
        metrics=["accuracy", "zero_one_loss", share_of_ones],
    )
    expected = pd.DataFrame(
        {
            "size": [2, 3, 1],
            "first accuracy": [1.0, 1 / 3, 0.0],
            "first zero_one_loss": [0.0, 2 / 3, 1.0],
            "first share_of_ones": [0.5, 2 / 3, 1.0],
            "perfect accuracy": [1.0] * 3,
            "perfect zero_one_loss": [0.0] * 3,
            "perfect share_of_ones": [0.5, 2 / 3, 0.0],
        },
        index=pd.Index(["a", "b", "c"], name="group", dtype=object),
    )
    pd.testing.assert_frame_equal(table, expected)


@pytest.mark.parametrize(
    "groups",
    [
        GROUPS.tolist(),
        pd.Series(GROUPS, index=range(6)[::-1]),
        pd.Series(GROUPS, dtype="category"),
        pd.Categorical(GROUPS, categories=["c", "b", "a", "never"]),
        pd.DataFrame({"group": GROUPS}),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_groups_in_any_container(groups):
    table = group_table(Y, PREDICTED, groups=groups)
    assert table.equals(group_table(Y, PREDICTED, groups=GROUPS))


def test_labels_of_several_types():
    table = group_table(Y, PREDICTED, groups=[1, 1, "b", "b", "b", 0])
    assert table["size"].to_dict() == {0: 1, 1: 2, "b": 3}


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (0.0, {}),
        (1 / 3, {"y_true": Y[:5], "y_pred": PREDICTED[:5], "groups": GROUPS[:5]}),
        (1.0, {"metric": "zero_one_loss"}),
        (1.0, {"greater_is_better": False}),
        (0.5, {"metric": share_of_ones, "greater_is_better": True}),
        (1.0, {"metric": share_of_ones, "greater_is_better": False}),
        (3.0, {"y_pred": [1, 0, 2, 3, 2, 1], "metric": "mean_squared_error"}),
    ],
)
def test_worst_group_score(expected, changes):
    arguments = {"y_true": Y, "y_pred": PREDICTED, "groups": GROUPS} | changes
    assert worst_group_score(**arguments) == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:Only one class is present in y_true:Warning")
def test_an_undefined_score_is_not_passed_over():
    assert math.isnan(worst_group_score(Y, PREDICTED, groups=GROUPS, metric="roc_auc"))


GAINS = "accuracy balanced_accuracy f1 jaccard precision r2 recall roc_auc"
COSTS = "brier_score_loss log_loss max_error mean_absolute_error mean_squared_error"
COSTS += " median_absolute_error root_mean_squared_error zero_one_loss"


@pytest.mark.parametrize(
    ("name", "greater_is_better"),
    [*((name, True) for name in GAINS.split()), *((name, False) for name in COSTS.split())],
)
def test_names(name, greater_is_better):
    function = metric_function(name, Y, Y, classes=None, pos_label=None)
    assert is_greater_better(name) is greater_is_better
    right, wrong = function(Y, Y.astype(float)), function(Y, 1.0 - Y)
    assert (right > wrong) == greater_is_better


def test_no_name_gives_a_wrong_number_for_a_group_with_one_class():
    # the reason why hinge_loss has no name here: the right loss is 0
    assert metrics.hinge_loss([1, 1], [2.0, 2.0]) == 3.0
    with pytest.raises(ValueError, match=r"^metric must be a callable or one of \['accuracy'"):
        metric_function("hinge_loss", Y, Y, classes=None, pos_label=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": GROUPS[:5]}, "groups must have one entry a record: got 5"),
        ({"groups": []}, "groups must be one label a record"),
        ({"y_true": [], "y_pred": [], "groups": []}, "groups must be one label a record"),
        ({"groups": [None, *GROUPS[1:]]}, "groups contains NaN or None"),
        ({"groups": [math.nan, 1, 1, 1, 1, 1]}, "groups contains NaN or None"),
        ({"y_pred": [math.nan, *PREDICTED[1:]]}, "predictions contains NaN or None in row 0"),
        ({"y_true": [math.nan, *Y[1:]]}, "y_true contains NaN or None in row 0"),
        ({"y_pred": [0.1, 0.7, 0.4, 0.2, 0.9, 0.5]}, "Classification metrics can't handle a mix"),
        ({"y_pred": PREDICTED[:5]}, "predictions must have one entry a record: got 5 for 6"),
        ({"metric": "acuracy"}, "metric must be a callable or one of"),
        ({"metric": share_of_ones}, "greater_is_better must be given for a callable metric"),
    ],
)
def test_errors(changes, message):
    arguments = {"y_true": Y, "y_pred": PREDICTED, "groups": GROUPS}
    with pytest.raises(ValueError, match=f"^{message}"):
        worst_group_score(**(arguments | changes))
