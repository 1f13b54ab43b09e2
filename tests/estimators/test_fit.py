"""What a fit keeps, warns of and does not depend on."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import ClassDoc
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import (
    NoProtectionWarning,
    SeededNoiseWarning,
    UngroupedWarning,
    WeakPlanWarning,
)
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP


def scores(fitted, X):
    return getattr(fitted, "decision_function", fitted.predict)(X)


def test_fitted_attributes_are_the_documented_ones(task):
    X = pd.DataFrame(task.data.X, columns=["u", "v", "w"])
    fitted = task.make().fit(X, task.data.y, task.data.groups)
    documented = {entry.name for entry in ClassDoc(task.estimator)["Attributes"]}
    result = {name for name in dir(fitted) if name.endswith("_") and not name.startswith("_")}
    assert result == documented
    # anything else that a fit leaves behind, a pickle would hold too
    left = set(vars(fitted)) - set(fitted.get_params(deep=False))
    assert left == documented - {"group_weights_"} | {
        *("_group_weights", "_grouping_names", "_fit_key", "_start_costs")
    }


# inputs


@pytest.mark.parametrize("kind", [bool, int, float, str, object])
def test_classes_keep_their_type(binary, kind):
    y = np.array(binary.data.y == "yes").astype(int)
    y = np.array(["n", "y"])[y] if kind in (str, object) else y
    y = y.astype(kind)
    fitted = binary.make().fit(binary.data.X, y, binary.data.groups)
    assert fitted.classes_.dtype == y.dtype
    assert set(fitted.predict(binary.data.X)) <= set(y)
    assert np.array_equal(fitted.coef_, binary.fit().coef_)


def test_public_classes_may_be_more_than_y_holds(binary):
    fitted = binary.fit(classes=["yes", "perhaps", "no"])
    assert fitted.classes_.tolist() == ["no", "perhaps", "yes"]
    assert fitted.predict_proba(binary.data.X).shape == (90, 3)
    assert fitted.plan_.problem.loss.n_outputs == 3


def test_given_classes_hide_which_of_them_y_holds(binary):
    """With the classes public, even scikit-learn's warning about rare ones would be a leak."""
    X, _, groups = binary.data
    model = binary.make(classes=range(30))
    plans = [model.fit(X, np.arange(90) % n, groups).plan_ for n in (30, 2)]
    assert plans[0] == plans[1]


def test_one_group(task):
    fitted = task.make().fit(task.data.X, task.data.y, ["all"] * 90)
    assert (fitted.group_weights_.tolist(), fitted.group_sizes_.tolist()) == ([1.0], [90])
    assert fitted.privacy_.relation == "replace any record, its group included"
    *before, last = [release.name for release in fitted.plan_.releases]
    assert last == "gradient"
    assert all("mean" in name for name in before)
    with pytest.warns(UngroupedWarning):
        ungrouped = task.make().fit(task.data.X, task.data.y)
    assert np.array_equal(fitted.coef_, ungrouped.coef_)


# warnings


@pytest.mark.parametrize(
    ("category", "parameters", "groups"),
    [
        (UngroupedWarning, {}, False),
        (SeededNoiseWarning, {"random_state": 1}, True),
        (WeakPlanWarning, {"epsilon": 0.1}, True),
        (NoProtectionWarning, {"delta": 0.05}, True),
        (NoProtectionWarning, {"epsilon": 1e9}, True),
    ],
)
def test_warnings_come_before_the_first_release(binary, draws, category, parameters, groups):
    model = binary.make(**WITHIN_GROUP | {"random_state": None} | parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", category)
        with pytest.raises(category):
            model.fit(*(binary.data if groups else binary.data[:2]))
    assert not draws()


# randomness


def test_seeds(task):
    X = task.data.X
    first, again, other = (task.fit(random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(scores(first, X), scores(again, X))
    assert not np.allclose(scores(first, X), scores(other, X))
    state = np.random.RandomState(3)
    advanced = task.make(random_state=state)
    assert not np.allclose(
        scores(advanced.fit(*task.data), X), scores(clone(advanced).fit(*task.data), X)
    )
    for fitted in (first, advanced):
        assert fitted.privacy_.seeded
        assert "void for anyone who knows" in " ".join(str(fitted.privacy_).split())


# invariances


def test_units_of_the_rows_do_not_matter(task):
    X, y, groups = task.data
    expected = task.fit(data_norm=0.4)
    fitted = task.make(data_norm=40.0).fit(100.0 * X, y, groups)
    assert np.allclose(scores(fitted, 100.0 * X), scores(expected, X))


def test_the_order_of_records_does_not_matter(task):
    order = np.random.default_rng(2).permutation(90)
    fitted = task.make().fit(*(column[order] for column in task.data))
    assert np.allclose(fitted.coef_, task.fit().coef_)


def test_long_rows_are_shortened(task):
    X, y, groups = task.data
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    assert np.mean(norms > 0.3) > 0.5
    expected = task.make(data_norm=0.3).fit(X * np.minimum(1.0, 0.3 / norms), y, groups)
    assert np.allclose(task.fit(data_norm=0.3).coef_, expected.coef_)


@pytest.mark.parametrize("size", [1e50, 1e160, 1.7e308])
def test_no_row_is_too_long(task, size):
    """A fit that fails because of one record says that the record was there."""
    X, y, groups = (column.copy() for column in task.data)
    X[0] = [1.0, 0.0, 0.0]
    expected = task.make().fit(X, y, groups)
    X[0, 0] = size
    assert np.allclose(task.make().fit(X, y, groups).coef_, expected.coef_)


def test_targets_are_clipped(regressor):
    X, y, groups = regressor.data
    model = regressor.make(target_bounds=(-0.2, 0.1))
    expected = model.fit(X, np.clip(y, -0.2, 0.1), groups).coef_
    for wild in (y, np.where(y < -0.2, -1.7e308, y)):
        assert np.array_equal(model.fit(X, wild, groups).coef_, expected)


def test_underflow_makes_no_error_that_depends_on_a_record():
    X = np.full((200, 1), 0.5)
    X[7] = 1e-307
    y = np.arange(200) % 2
    model = DPWorstGroupClassifier(delta=1e-3, solver=MGR(n_steps=2), data_norm=1.0)
    with np.errstate(all="raise"):
        model.fit(X, y, groups=y.copy())
    assert np.isfinite(model.coef_).all()
