from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from sklearn_dpwg.metrics import group_table, worst_group_score
from sklearn_dpwg.metrics.groups import is_greater_better, metric_function

Y = np.array([1, 0, 1, 1, 0, 0])
PREDICTED = np.array([1, 0, 0, 1, 1, 1])
GROUPS = np.array(["a", "a", "b", "b", "b", "c"])


def share_of_ones(y_true, y_pred):
    return np.mean(y_pred)


def test_table():
    table = group_table(Y, PREDICTED, groups=GROUPS, metrics=["accuracy", share_of_ones])
    expected = pd.DataFrame(
        {"size": [2, 3, 1], "accuracy": [1.0, 1 / 3, 0.0], "share_of_ones": [0.5, 2 / 3, 1.0]},
        index=pd.Index(["a", "b", "c"], name="group", dtype=object),
    )
    pd.testing.assert_frame_equal(table, expected)


def test_table_of_several_models():
    table = group_table(
        Y, {"first": PREDICTED, "perfect": Y}, groups=GROUPS, metrics=["accuracy", "zero_one_loss"]
    )
    assert table.columns.tolist() == [
        "size", "first accuracy", "first zero_one_loss", "perfect accuracy",
        "perfect zero_one_loss",
    ]  # fmt: skip
    assert table["first accuracy"].tolist() == pytest.approx([1.0, 1 / 3, 0.0])
    assert table["perfect zero_one_loss"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("metric", ["accuracy", share_of_ones])
def test_one_metric_needs_no_list(metric):
    alone = group_table(Y, PREDICTED, groups=GROUPS, metrics=metric)
    assert alone.equals(group_table(Y, PREDICTED, groups=GROUPS, metrics=[metric]))


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


def test_columns_are_intersected():
    frame = pd.DataFrame({"letter": GROUPS, "even": [True, False] * 3})
    table = group_table(Y, PREDICTED, groups=frame)
    assert table["size"].to_dict() == {
        ("a", False): 1, ("a", True): 1, ("b", False): 1, ("b", True): 2, ("c", False): 1,
    }  # fmt: skip
    assert group_table(Y, PREDICTED, groups=list(zip(*frame.T.values, strict=True))).equals(table)


def test_labels_of_several_types():
    table = group_table(Y, PREDICTED, groups=[1, 1, "b", "b", "b", 0])
    assert table["size"].to_dict() == {0: 1, 1: 2, "b": 3}


def test_worst_group_score():
    assert worst_group_score(Y, PREDICTED, groups=GROUPS) == 0.0
    assert worst_group_score(Y, PREDICTED, groups=GROUPS, metric="zero_one_loss") == 1.0
    assert worst_group_score(Y[:5], PREDICTED[:5], groups=GROUPS[:5]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("greater_is_better", "expected"), [(True, 0.5), (False, 1.0)])
def test_worst_by_a_function(greater_is_better, expected):
    found = worst_group_score(
        Y, PREDICTED, groups=GROUPS, metric=share_of_ones, greater_is_better=greater_is_better
    )
    assert found == expected


def test_the_direction_of_a_name_can_be_turned():
    assert worst_group_score(Y, PREDICTED, groups=GROUPS, greater_is_better=False) == 1.0


def test_squared_error():
    y_true, y_pred = [0.0, 1.0, 2.0, 2.0], [0.0, 3.0, 2.0, 1.0]
    found = worst_group_score(y_true, y_pred, groups=[0, 0, 1, 1], metric="mean_squared_error")
    assert found == 2.0


def test_log_loss_where_a_group_lacks_a_class():
    probabilities = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]])
    y_true, groups = ["u", "v", "w"], ["a", "a", "b"]
    table = group_table(y_true, probabilities, groups=groups, metrics="log_loss")
    assert table["log_loss"].tolist() == pytest.approx([math.log(2), -math.log(0.8)])
    worst = worst_group_score(y_true, probabilities, groups=groups, metric="log_loss")
    assert worst == pytest.approx(math.log(2))
    binary = worst_group_score([0, 1, 1], [0.5, 0.5, 0.9], groups=groups, metric="log_loss")
    assert binary == pytest.approx(math.log(2))


@pytest.mark.filterwarnings("ignore:Only one class is present in y_true:Warning")
def test_an_undefined_score_is_not_passed_over():
    assert math.isnan(worst_group_score(Y, PREDICTED, groups=GROUPS, metric="roc_auc"))


@pytest.mark.parametrize(
    ("name", "greater_is_better"),
    [
        *((name, True) for name in ("accuracy", "balanced_accuracy", "f1", "jaccard", "precision")),
        *((name, True) for name in ("r2", "recall", "roc_auc")),
        *((name, False) for name in ("brier_score_loss", "log_loss", "max_error")),
        *((name, False) for name in ("mean_absolute_error", "mean_squared_error")),
        *((name, False) for name in ("median_absolute_error", "root_mean_squared_error")),
        ("zero_one_loss", False),
    ],
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
        ({"groups": [None, *GROUPS[1:]]}, "groups contains NaN or None"),
        ({"groups": [math.nan, 1, 1, 1, 1, 1]}, "groups contains NaN or None"),
        ({"y_pred": PREDICTED[:5]}, "predictions must have one entry a record: got 5 for 6"),
        ({"metric": "acuracy"}, "metric must be a callable or one of"),
        ({"metric": share_of_ones}, "greater_is_better must be given for a callable metric"),
    ],
)
def test_errors(changes, message):
    arguments = {"y_true": Y, "y_pred": PREDICTED, "groups": GROUPS}
    with pytest.raises(ValueError, match=f"^{message}"):
        worst_group_score(**(arguments | changes))


def test_no_records():
    with pytest.raises(ValueError, match=r"^groups must be one label a record"):
        worst_group_score([], [], groups=[])


def test_two_columns_of_one_name():
    for names in (["accuracy", "accuracy"], [lambda y, p: 0.0, lambda y, p: 1.0]):
        with pytest.raises(ValueError, match=r"^metrics must have different names, got '"):
            group_table(Y, PREDICTED, groups=GROUPS, metrics=names)
