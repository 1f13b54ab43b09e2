"""Tables of groups: columns, classes, what is undefined, weights, references and intervals."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import metrics

from sklearn_dpwg.exceptions import GroupsWarning
from sklearn_dpwg.metrics import group_table, worst_group_score
from sklearn_dpwg.metrics.groups import is_greater_better
from sklearn_dpwg.metrics.intervals import rate_interval

Y = np.array([1, 0, 1, 1, 0, 0])
PREDICTED = np.array([1, 0, 0, 1, 1, 1])
GROUPS = np.array(["a", "a", "b", "b", "b", "c"])
TABLE = pd.DataFrame({"letter": GROUPS, "even": [True, False] * 3})
WORDS = np.array(["approved", "denied"])
RATES = (
    "selection_rate", "true_positive_rate", "true_negative_rate", "false_positive_rate",
    "false_negative_rate",
)  # fmt: skip
# of a group without a positive record, and of one with one class alone
UNDEFINED = (
    "average_precision", "balanced_accuracy", "cohen_kappa", "f1", "hinge_loss", "jaccard",
    "matthews_corrcoef", "precision", "recall", "roc_auc", "true_positive_rate",
)  # fmt: skip
LOSSES = ("brier_score_loss", "log_loss")
nan = pytest.approx(math.nan, nan_ok=True)


def near(*values):
    return pytest.approx(list(values), nan_ok=True)


# --- the groups ---------------------------------------------------------------------------------


def test_several_columns_become_levels_with_their_names():
    result = group_table(Y, PREDICTED, groups=TABLE)
    assert list(result.index.names) == ["letter", "even"]
    assert result.xs(True, level="even")["size"].to_dict() == {"a": 1, "b": 2}
    assert result.loc["b"].index.name == "even"


@pytest.mark.parametrize(
    ("groups", "name"),
    [
        (GROUPS.tolist(), "group"),
        (pd.Series(GROUPS, index=range(6)[::-1]), "group"),
        (pd.Series(GROUPS, name="letter", dtype="category"), "letter"),
        (pl.Series("letter", GROUPS.tolist()), "letter"),
        (pd.DataFrame({"name": GROUPS}), "name"),
    ],
)
def test_one_column_keeps_its_name(groups, name):
    result = group_table(Y, PREDICTED, groups=groups)
    assert result.index.name == name
    assert result["size"].to_dict() == {"a": 2, "b": 3, "c": 1}
    assert result.equals(group_table(Y, PREDICTED, groups=GROUPS))


# --- the positive class -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["f1", "jaccard", "precision", "recall", *RATES])
def test_the_second_class_in_sorted_order_is_the_positive_one(name):
    groups = ["a"] * 4 + ["b"] * 4
    y, predicted = np.array([0, 0, 1, 1, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 1, 0, 1, 1])
    expected = group_table(y, predicted, groups=groups, metrics=name)
    assert expected[name].nunique() == 2
    for classes in (WORDS, np.array(WORDS, dtype=object), np.array([1, 2]), np.array([-1, 1])):
        result = group_table(classes[y], classes[predicted], groups=groups, metrics=name)
        pd.testing.assert_frame_equal(result, expected, check_names=False)
        assert result.columns.name == f"positive: {classes[1]}"
    other = group_table(
        WORDS[1 - y], WORDS[1 - predicted], groups=groups, metrics=name, pos_label="approved"
    )
    pd.testing.assert_frame_equal(other, expected, check_names=False)


def test_scores_are_those_of_the_positive_class_or_of_each():
    scores = np.array([0.9, 0.2, 0.5, 0.8, 0.4, 0.1])
    expected = [0.5 * (0.01 + 0.04), (0.25 + 0.04 + 0.16) / 3, 0.01]
    ranked = group_table(Y, scores, groups=GROUPS, metrics=["roc_auc", "average_precision"])
    for y, pos_label in ((Y, None), (WORDS[Y], None), (WORDS[1 - Y], "approved")):
        given = {"groups": GROUPS, "pos_label": pos_label}
        result = group_table(y, scores, metrics="brier_score_loss", **given)
        assert result["brier_score_loss"].tolist() == near(*expected)
        result = group_table(y, scores, metrics=["roc_auc", "average_precision"], **given)
        assert result.equals(ranked)
    both = np.column_stack([1 - scores, scores])
    names = [*LOSSES, "roc_auc", "average_precision", "d2_log_loss_score"]
    one = group_table(Y, y_score=scores, groups=GROUPS, metrics=names)
    pd.testing.assert_frame_equal(group_table(Y, both, groups=GROUPS, metrics=names), one)


# --- what is undefined --------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [np.array([0, 1]), WORDS])
@pytest.mark.parametrize("right", [True, False])
def test_what_a_group_without_a_class_leaves_undefined_is_not_a_number(classes, right):
    y, groups = np.array([0, 0, 0, 1, 1, 0]), list("aaabbb")
    predicted = y if right else np.array([0, 1, 0, 1, 1, 1])
    given = {"y_score": predicted.astype(float), "groups": groups}
    result = group_table(classes[y], classes[predicted], metrics=UNDEFINED, **given)
    assert result.loc["a"].drop("size").isna().all()
    assert result.loc["b"].notna().all()
    defined = group_table(
        classes[y], classes[predicted], metrics=["accuracy", "true_negative_rate"], **given
    )
    assert defined.loc["a"].tolist() == near(3, *[1.0 if right else 2 / 3] * 2)
    losses = group_table(classes[y], y_score=[0.5] * 6, groups=groups, metrics=LOSSES)
    assert losses.loc["a"].tolist() == near(3, 0.25, math.log(2))


def test_what_scikit_learn_calls_undefined_and_what_a_user_defines():
    result = group_table(
        Y, PREDICTED, groups=GROUPS,
        metrics={
            "precision": "precision", "r2": "r2", "own": lambda y, p: metrics.recall_score(y, p),
            "said": partial(metrics.recall_score, zero_division=1.0),
            "macro": partial(metrics.f1_score, average="macro"),
            "weighted": partial(metrics.recall_score, average="weighted"),
        },
    )  # fmt: skip
    assert result.loc["c"].isna().tolist() == [False, True, True, True, False, True, False]
    assert result.loc["c", "said"] == 1.0
    assert result.loc["c", "weighted"] == 0.0
    no_choice = group_table([1, 1, 1, 0], [0, 0, 1, 1], groups=list("aabb"), metrics="precision")
    assert no_choice["precision"].tolist() == near(math.nan, 0.5)


def test_the_worst_is_that_of_the_groups_that_have_a_value():
    y, groups = [0, 0, 1, 1], list("aabb")
    with pytest.warns(GroupsWarning, match=r"undefined in the groups \['a'\]"):
        assert worst_group_score(y, [0, 1, 1, 0], groups=groups, metric="recall") == 0.5
    with pytest.warns(GroupsWarning, match=r"\['a', 'b'\]"):
        assert worst_group_score(y, y, groups=groups, metric="roc_auc") == nan


def test_log_loss_where_records_or_a_group_lack_a_class():
    probabilities = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.8, 0.1, 0.1]])
    y, groups = ["u", "v", "u"], ["a", "a", "b"]
    for classes in (["u", "v", "w"], ["w", "v", "u"]):
        stated = {"groups": groups, "classes": classes}
        result = group_table(y, probabilities, metrics="log_loss", **stated)
        assert result["log_loss"].tolist() == near(math.log(2), -math.log(0.8))
        worst = worst_group_score(y, probabilities, metric="log_loss", **stated)
        assert worst == pytest.approx(math.log(2))
    auc = partial(metrics.roc_auc_score, multi_class="ovr")
    result = group_table([*"uvw", "u"], np.eye(3)[[0, 1, 2, 0]], groups=[*"aaab"], metrics=auc)
    assert result["roc_auc_score"].tolist() == near(1.0, math.nan)


# --- metrics by name, mapping or function -------------------------------------------------------


def fraction_of_ones(y_true, y_pred):
    return np.mean(y_pred)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (0.0, {}),
        (1.0, {"metric": "zero_one_loss"}),
        (1.0, {"greater_is_better": False}),
        (0.5, {"metric": fraction_of_ones, "greater_is_better": True}),
        (3.0, {"y_pred": [1, 0, 2, 3, 2, 1], "metric": "mean_squared_error"}),
        (0.8, {"groups": [0] * 6, "sample_weight": [6, 6, 1, 4, 1, 2]}),
    ],
)
def test_worst_group_score(expected, changes):
    arguments = {"y_true": Y, "y_pred": PREDICTED, "groups": GROUPS} | changes
    assert worst_group_score(**arguments) == pytest.approx(expected)


def test_names_have_the_direction_in_which_they_are_better():
    scores = np.array([0.1, 0.9, 0.8, 0.3])
    y, groups = np.array([0, 1, 1, 0]), ["a"] * 4
    names = [*UNDEFINED[:-1], *LOSSES, *RATES[1:], "accuracy", "r2", "max_error", "zero_one_loss"]
    right = group_table(y, y, y_score=scores, groups=groups, metrics=names).iloc[0]
    wrong = group_table(y, 1 - y, y_score=1 - scores, groups=groups, metrics=names).iloc[0]
    assert {name: right[name] > wrong[name] for name in names} == {
        name: is_greater_better(name) for name in names
    }


# --- weights, small groups, references, intervals -----------------------------------------------


def test_differences_and_ratios_have_a_sign():
    given = {"groups": GROUPS, "metrics": ["accuracy", "recall"]}
    result = group_table(Y, PREDICTED, reference="b", **given)
    assert list(result)[1:4] == ["accuracy", "accuracy_difference", "accuracy_ratio"]
    assert result["accuracy_difference"].tolist() == near(2 / 3, 0.0, -1 / 3)
    assert result["accuracy_ratio"].tolist() == near(3.0, 1.0, 0.0)
    assert result["recall_ratio"].tolist() == near(2.0, 1.0, math.nan)
    cells = group_table(Y, PREDICTED, groups=TABLE, reference=("a", True))
    assert cells.loc[("a", True), "accuracy_ratio"] == 1.0


def test_intervals_stand_beside_rates():
    names = ["accuracy", "recall", "f1", "false_positive_rate"]
    result = group_table(Y, PREDICTED, groups=GROUPS, metrics=names, intervals=True, min_count=2)
    assert "f1_low" not in result
    one = rate_interval(1, 3)
    assert result.loc["b", ["accuracy_low", "accuracy_high"]].tolist() == [one.low, one.high]
    half = rate_interval(1, 2)
    assert result.loc["b", ["recall_low", "recall_high"]].tolist() == [half.low, half.high]
    assert result.loc["c"].drop("size").isna().all()


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": GROUPS[:5]}, "groups must have one entry a record: got 5"),
        ({"y_true": [], "y_pred": [], "groups": []}, "groups must be one label a record"),
        ({"groups": [None, *GROUPS[1:]]}, "groups contains NaN or None"),
        ({"y_pred": [*PREDICTED[1:], None]}, "y_pred contains NaN or None in row 5"),
        ({"sample_weight": [1] * 5}, "sample_weight must have one entry a record"),
        ({"sample_weight": [1] * 6, "intervals": True}, "intervals must be False"),
        ({"y_pred": PREDICTED / 3}, "y_pred must hold one class a record"),
        ({"y_pred": np.eye(6)}, "y_pred must hold one class a record"),
        ({"y_pred": None}, "y_pred must be given for the metric 'accuracy'"),
        ({"y_pred": WORDS[Y]}, "y_true and y_pred must hold classes of one kind"),
        ({"metrics": "acuracy"}, "metric must be a callable or one of"),
        ({"metrics": {"size": "accuracy"}}, "metrics must have different names"),
        ({"reference": "d"}, r"reference must be one of \['a', 'b', 'c'\], got 'd'"),
        ({"min_count": 0}, "min_count must be at least 1"),
    ],
)
def test_errors(changes, message):
    arguments = {"y_true": Y, "y_pred": PREDICTED, "groups": GROUPS}
    with pytest.raises(ValueError, match=f"^{message}"):
        group_table(**(arguments | changes))


@pytest.mark.parametrize(
    ("y", "predicted", "changes", "message"),
    [
        (list("uvw"), list("uvw"), {}, "pos_label"),
        (list("uvv"), list("uvv"), {"pos_label": "V"}, "pos_label"),
        (list("uvv"), list("uvw"), {"classes": ["u", "v"]}, "classes must hold .* 'w' besides"),
    ],
)
def test_classes_that_leave_doubt(y, predicted, changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        group_table(y, predicted, groups=list("aab"), metrics="recall", **changes)
