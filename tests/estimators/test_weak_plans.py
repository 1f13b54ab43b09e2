"""A fit warns in one sentence of groups that the noise may drown, by public facts alone."""

import warnings

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.exceptions import WeakPlanWarning
from sklearn_dpwg.solvers import MGR, Moments, OnlineToBatch, PhasedERM
from tests.helpers.relations import WITHIN_GROUP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")


def make(epsilon=1.0, solver="auto", kind=DPWorstGroupClassifier, **parameters):
    bounds = {"target_bounds": (-1.0, 1.0)} if kind is DPWorstGroupRegressor else {}
    known = bounds | WITHIN_GROUP | parameters
    return kind(epsilon, data_norm=1.0, random_state=0, solver=solver, **known)


def fit_with(model, sizes):
    """Fit to groups of these sizes, of public labels; return what was warned of."""
    labels = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    X = np.full((len(labels), 2), 0.5)
    y = np.arange(len(labels)) % 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y, groups=labels)
    return [str(one.message) for one in seen if one.category is WeakPlanWarning]


@pytest.mark.parametrize(
    "model",
    [
        make(4.0, MGR(n_steps=20)),
        make(1.0, PhasedERM()),
        make(kind=DPWorstGroupRegressor),
        make(0.5, Moments(), DPWorstGroupRegressor),
    ],
    ids=["mgr", "phased-erm", "regression", "moments"],
)
def test_a_small_group_is_named_with_its_size(model):
    (message,) = fit_with(model, [3000, 30])
    assert "'g1' of 30 record(s)" in message
    assert fit_with(model, [30_000, 30_000]) == []


def test_the_smallest_of_several_groups_is_named():
    (message,) = fit_with(make(8.0, "mgr"), [30_000, 2, 15_000, 5, 9])
    assert "'g1' of 2 record(s)" in message


def test_a_hidden_group_that_may_be_empty_is_named():
    labels = {"neighbours": "replace-one", "group_labels": ["g0", "g1", "other"]}
    (message,) = fit_with(make(8.0, MGR(n_steps=20), **labels), [20_000, 2])
    assert "group 'g1'" in message


def test_no_privacy_no_warning():
    assert fit_with(make(np.inf), [2000, 20]) == []


def test_a_round_of_records_without_an_end_may_be_too_small():
    def simulate(group, size, rng):
        X = rng.uniform(-0.5, 0.5, size=(size, 2))
        return X, X[:, 0] > 0.0

    model = make(solver=OnlineToBatch(n_rounds=5, batch_size=2))
    with pytest.warns(WeakPlanWarning) as seen:
        model.fit_oracle(
            GeneratorOracle(simulate),
            group_labels=["a", "b"],
            group_sizes=[np.inf, np.inf],
            n_features=2,
            classes=[False, True],
        )
    assert sum(one.category is WeakPlanWarning for one in seen) == 1
