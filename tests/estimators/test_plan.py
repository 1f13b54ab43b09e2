"""A plan is what a fit does, and made from public facts alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.estimators.encode import resolve_prior
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP


def public_facts(task):
    counts = pd.Series(task.data.groups).value_counts()
    classes = None if task.estimator is DPWorstGroupRegressor else sorted(set(task.data.y))
    return {"group_sizes": counts.to_dict(), "n_features": 3, "classes": classes}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"solver": MGR(n_steps=3)},
        {"solver": MGR(schedule="paper", max_passes=4)},
        {"fit_intercept": False, "radius": 3.0, "prior": "uniform"},
        {"group_labels": ["c", "a", "b"], "prior": [3.0, 2.0, 1.0]},
        {"epsilon": float("inf")},
        {"solver": "phased-erm"},
    ],
)
def test_the_plan_before_is_the_plan_after(task, parameters):
    estimator = task.make(**WITHIN_GROUP | parameters)
    planned = estimator.plan(**public_facts(task))
    assert not hasattr(estimator, "plan_")
    fitted = estimator.fit(*task.data)
    assert fitted.plan_ == planned
    assert fitted.plan_.releases == planned.releases
    assert fitted.plan_.schedule == planned.schedule
    assert fitted.privacy_.epsilon == planned.guarantee.epsilon


def test_every_form_of_the_sizes(task):
    facts = public_facts(task)
    sizes = facts.pop("group_sizes")
    in_order = [sizes[label] for label in "abc"]
    expected = task.make().plan(group_sizes=sizes, **facts)
    for form in (in_order, np.array(in_order), pd.Series(sizes)):
        assert task.make().plan(group_sizes=form, **facts) == expected
    turned = {"group_sizes": in_order[::-1], "group_labels": ["c", "b", "a"]}
    assert task.make().plan(**turned, **facts) == expected


FINITE = st.floats(-1e6, 1e6)


@settings(max_examples=15, deadline=None)
@given(X=arrays(float, (12, 2), elements=FINITE), y=arrays(float, 12, elements=FINITE))
def test_plans_know_public_facts_only(X, y):
    groups = ["a"] * 7 + ["b"] * 5
    known = {"solver": MGR(n_steps=2), "random_state": 0, "data_norm": 1.0} | WITHIN_GROUP
    for model, targets in (
        (DPWorstGroupRegressor(target_bounds=(-1, 1), **known), y),
        (DPWorstGroupClassifier(classes=[0, 1], **known), (y > 0).astype(int)),
    ):
        privacy = model.fit(X, targets, groups).privacy_
        assert model.plan_ == model.plan(group_sizes=[7, 5], n_features=2)
        assert privacy == model.fit(-X, np.arange(12) % 2, groups).privacy_


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        ("proportional", [0.75, 0.25]),
        ("uniform", [0.5, 0.5]),
        (0, [0.75, 0.25]),
        (0.5, [0.625, 0.375]),
        (1.0, [0.5, 0.5]),
        ([1, 4], [0.2, 0.8]),
        (np.array([2.0, 2.0]), [0.5, 0.5]),
    ],
)
def test_prior_weights(prior, expected):
    assert resolve_prior(prior, [30, 10]) == pytest.approx(expected)


@pytest.mark.parametrize(
    "prior",
    [
        "unifrom", None, np.nan, -0.1, 1.1, [1.0], [1.0, 0.0], [1.0, np.inf], [1.0, np.nan],
        ["a", "b"], [[1.0, 1.0]], {"a": 1},
    ],
)  # fmt: skip
def test_wrong_priors(prior):
    with pytest.raises(ValueError, match=r"^prior must be 'proportional', 'uniform', a number"):
        resolve_prior(prior, [30, 10])
