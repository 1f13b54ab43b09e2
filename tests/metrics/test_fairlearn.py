"""What fairlearn measures of the models agrees with what this package scores them by."""

import numpy as np
import pandas as pd
import pytest
from fairlearn import metrics as fairness
from fairlearn.metrics import MetricFrame
from sklearn import metrics

from sklearn_dpwg.metrics import group_table

RATES = (
    "selection_rate", "true_positive_rate", "false_positive_rate", "true_negative_rate",
    "false_negative_rate",
)  # fmt: skip
SCORES = ("accuracy_score", "zero_one_loss", "precision_score", "recall_score", "f1_score")


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).uniform(0.1, 2.0, 3000)])
def test_rates_and_scores_are_those_of_a_metric_frame(weights):
    rng = np.random.default_rng(0)
    groups = pd.DataFrame(
        {"sex": rng.choice(["f", "m"], 3000), "region": rng.choice(["n", "s", "w"], 3000)}
    )
    y = (rng.random(3000) < 0.4 + 0.3 * (groups["region"] == "s")).to_numpy().astype(int)
    predicted = np.where(rng.random(3000) < 0.8, y, rng.integers(0, 2, 3000))
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
        sample_weight=weights,
    )  # fmt: skip
    result = table[list(functions)]
    pd.testing.assert_frame_equal(result, frame, check_index_type=False, check_names=False)
