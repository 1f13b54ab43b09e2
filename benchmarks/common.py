"""What the benchmarks share: data sets as problems, and excess over the reference optimum."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import (
    DeltaWarning,
    SeededNoiseWarning,
    UngroupedWarning,
    WeakPlanWarning,
)
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError

# Seeds make a benchmark repeatable, one group is what the average-risk model wants, and weak plans
# are measured on purpose.
for category in (DeltaWarning, SeededNoiseWarning, UngroupedWarning, WeakPlanWarning):
    warnings.simplefilter("ignore", category)

EPSILON, DELTA = 1.0, 1e-5


def make_estimator(data: Bunch, epsilon: float = EPSILON, **parameters: Any) -> Any:
    """Return the estimator for a data set, with its public bounds and else defaults."""
    if data.entry.task == "classification":
        return DPWorstGroupClassifier(epsilon, DELTA, data_norm=data.data_norm, **parameters)
    return DPWorstGroupRegressor(
        epsilon, DELTA, data_norm=data.data_norm, target_bounds=data.target_bounds, **parameters
    )


def unit_risks(data: Bunch) -> GroupRisks:
    """Return group risks on unit rows with a unit intercept, as the reference optimum has them."""
    codes = np.searchsorted(np.asarray(data.group_labels), data.groups)
    if data.entry.task == "classification":
        loss, targets = BinaryLogLoss(), 2.0 * data.target - 1.0
    else:
        low, high = data.target_bounds
        targets = np.clip((data.target - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)
        loss = SquaredError()
    records = RecordEncoder(len(data.group_labels), data.data_norm).encode(
        data.data, targets.astype(float), codes
    )
    return GroupRisks(records, loss, 1.0)


def worst_risk(model: Any, risks: GroupRisks, data: Bunch) -> float:
    """Return a fitted model's largest group risk, on clipped rows, in the units of the loss."""
    coef, intercept = np.ravel(model.coef_) * data.data_norm, float(np.ravel(model.intercept_)[0])
    if data.entry.task == "regression":
        low, high = data.target_bounds
        half = (high - low) / 2
        coef, intercept = coef / half, (intercept - (low + high) / 2) / half
    return float(risks.risks(np.append(coef, intercept)).max())


def excess_of_fits(data: Bunch, n_seeds: int, *, grouped: bool = True, **parameters: Any) -> Any:
    """Return the excess worst-group risk of seeded fits over the reference optimum."""
    risks = unit_risks(data)
    excess = []
    for seed in range(n_seeds):
        model = make_estimator(data, random_state=seed, **parameters)
        model.fit(data.data, data.target, groups=data.groups if grouped else None)
        excess.append(worst_risk(model, risks, data) - data.entry.reference_optimum)
    return np.asarray(excess)


def zero_excess(data: Bunch) -> float:
    """Return the excess of a model that predicts nothing."""
    risks = unit_risks(data)
    return float(risks.risks(np.zeros(risks.n_weights)).max() - data.entry.reference_optimum)


__all__ = [
    "DELTA",
    "EPSILON",
    "excess_of_fits",
    "load_dataset",
    "make_estimator",
    "unit_risks",
    "worst_risk",
    "zero_excess",
]
