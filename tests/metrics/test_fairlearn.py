"""What fairlearn measures of the models agrees with what this package scores them by."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from fairlearn import metrics as fairness
from fairlearn.metrics import MetricFrame
from sklearn import metrics
from sklearn.metrics import accuracy_score, log_loss

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.metrics import group_table, worst_group_score, worst_group_scorer

RATES = (
    "selection_rate", "true_positive_rate", "false_positive_rate", "true_negative_rate",
    "false_negative_rate",
)  # fmt: skip
SCORES = ("accuracy_score", "zero_one_loss", "precision_score", "recall_score", "f1_score")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (3000, 3))
    groups = pd.DataFrame(
        {"sex": rng.choice(["f", "m"], 3000), "region": rng.choice(["n", "s", "w"], 3000)}
    )
    shift = 0.3 * (groups["region"] == "s").to_numpy()
    y = (X[:, 0] - shift + 0.1 * rng.normal(size=3000) > 0).astype(int)
    return DPWorstGroupClassifier(data_norm=1.0).fit(X, y, groups), X, y, groups


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).uniform(0.1, 2.0, 3000)])
def test_rates_and_scores_are_those_of_a_metric_frame(fitted, weights):
    model, X, y, groups = fitted
    predicted = model.predict(X)
    functions = {name: getattr(fairness, name) for name in RATES}
    functions |= {name: getattr(metrics, name) for name in SCORES}
    given = {} if weights is None else {each: {"sample_weight": weights} for each in functions}
    frame = MetricFrame(
        metrics=functions, y_true=y, y_pred=predicted, sensitive_features=groups,
        sample_params=given,
    ).by_group  # fmt: skip
    words = np.array(["no", "yes"])
    table = group_table(
        words[y], words[predicted], groups=groups, metrics=list(functions),
        sample_weight=weights, reference=("f", "n"),
    )  # fmt: skip
    found = table[list(functions)]
    pd.testing.assert_frame_equal(found, frame, check_index_type=False, check_names=False)
    for name in functions:
        base = frame[name].loc["f", "n"]
        np.testing.assert_allclose(table[f"{name}_difference"], frame[name] - base, atol=1e-12)
        np.testing.assert_allclose(table[f"{name}_ratio"], frame[name] / base)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_the_worst_group_is_the_same(fitted):
    model, X, y, groups = fitted
    predicted, chances = model.predict(X), model.predict_proba(X)[:, 1]
    given = {"y_true": y, "sensitive_features": groups}
    worst = MetricFrame(metrics=accuracy_score, y_pred=predicted, **given).group_min()
    assert worst_group_score(y, predicted, groups=groups) == pytest.approx(worst)
    assert worst_group_scorer("accuracy")(model, X, y, groups=groups) == pytest.approx(worst)
    loss = partial(log_loss, labels=[0, 1])
    frame = MetricFrame(metrics={"loss": loss}, y_pred=chances, **given)
    score = worst_group_scorer("neg_log_loss")(model, X, y, groups=groups)
    assert score == pytest.approx(-frame.group_max()["loss"], rel=1e-12)
