"""The reference optimum that stands in a data set's entry is what the exact solver finds."""

import numpy as np
import pytest

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import dataset_names, load_dataset
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.optimum import worst_group_optimum

QUICK = ("compas", "german-credit", "law-school", "cps-weekly-wages")  # of both tasks
SLOW = [name for name in dataset_names() if name not in QUICK]


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.audit) for name in SLOW)]
)
def test_entry_states_the_exact_optimum(name):
    data = load_dataset(name)
    codes = np.searchsorted(np.asarray(data.group_labels), data.groups)
    if data.entry.task == "classification":
        loss, targets = BinaryLogLoss(), 2.0 * data.target - 1.0
    else:
        low, high = data.target_bounds
        loss, targets = SquaredError(), 2.0 * (data.target - low) / (high - low) - 1.0
    encoder = RecordEncoder(len(data.group_labels), data.data_norm)
    # unit rows with a unit intercept, whatever the estimators' defaults are
    risks = GroupRisks(encoder.encode(data.data, np.clip(targets, -1.0, 1.0), codes), loss, 1.0)
    result = worst_group_optimum(risks, radius=200.0)
    assert result.gap <= 1e-8
    assert risks.risks(result.weights).max() == pytest.approx(
        data.entry.reference_optimum, abs=2e-8
    )
