"""What a private search refuses, and that it does so before anything is spent."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import uniform
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import DataNormWarning, UnsupportedMechanismError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import PrivacyGuarantee, Release
from tests.helpers.relations import WITHIN_GROUP
from tests.helpers.search_cases import GROUPS, X, Y, model, search

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("SeededNoiseWarning", "WeakPlanWarning", "NoProtectionWarning")
]


class Laplacian:
    guarantee = PrivacyGuarantee.from_releases([Release("r", "laplace", 2.0, max_count=1)], 1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_iter": 0.5}, ValueError, "^n_iter"),
        ({"epsilon": math.inf}, ValueError, "^epsilon must be finite"),
        ({"epsilon": -1}, ValueError, "^epsilon must be positive"),
        ({"scoring": "r2"}, ValueError, "^scoring"),
        ({"test_size": 1.0}, ValueError, "^test_size"),
        ({"test_size": 0.999, "estimator": model(**WITHIN_GROUP)}, ValueError, "^group 'a' must"),
        ({"test_size": 0.9999}, ValueError, r"^X must have records to fit on beside 600"),
        ({"groups": None, "estimator": model(group_labels=["a", "b"])}, ValueError, "^groups must"),
        ({"y": np.arange(600)}, ValueError, "^y must hold classes"),
        ({"y": X[:, 0]}, ValueError, "Unknown label type: continuous"),
        ({"groups": np.where(np.arange(600) == 3, "c", GROUPS), "estimator": model(**WITHIN_GROUP)},
         ValueError, r"^group 'c' must have records"),
        ({"group_by": 0}, ValueError, "^groups were passed and group_by is set"),
        ({"estimator": LogisticRegression()}, TypeError, "^estimator must be a private estimator"),
        ({"estimator": make_pipeline(StandardScaler(), model())}, ValueError, "with StandardScale"),
        ({"estimator": make_pipeline(DPStandardScaler(), model())}, ValueError, "DPStandardScaler"),
        ({"estimator": make_pipeline(TargetEncoder(categories=[["a"], ["b"]]), model())},
         ValueError, "with TargetEncoder"),
        ({"estimator": model(group_by=0)}, ValueError, "^group_by of the estimator"),
        ({"estimator": model(group_labels=["a"])}, ValueError, "state the label 'other' too"),
        ({"estimator": model(solver="ags")}, ValueError, "needs neighbours="),
        ({"grid": {"epsilon": [1.0]}}, ValueError, "must leave epsilon"),
        ({"grid": {"neighbours": ["replace-one-within-group"]}}, ValueError, "leave neighbours"),
        ({"grid": {"group_labels": [["a", "b"]]}}, ValueError, "must leave group_labels"),
        ({"grid": {"no": [1.0]}}, ValueError, "Invalid parameter 'no'"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_what_is_refused_before_anything_is_spent(changes, error, message):
    changes = dict(changes)
    y, groups = changes.pop("y", Y), changes.pop("groups", GROUPS)
    with PrivacyLedger(100.0, 1e-6) as ledger, pytest.raises(error, match=message):
        search(**changes).fit(X, y, groups)
    assert not ledger.rows


def test_candidates_that_cannot_be_accounted_for_are_refused_by_name(monkeypatch):
    monkeypatch.setattr(DPWorstGroupClassifier, "plan", lambda self, **facts: Laplacian)
    with pytest.raises(UnsupportedMechanismError, match=r"^the candidate \{'radius': 0.5\} has"):
        search().fit(X, Y, GROUPS)


def failing(fitted, X, y):
    raise ZeroDivisionError("of a scoring")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"scoring": worst_group_scorer(group_by=lambda rows: np.asarray(rows)[:, 1] > 0.2)},
         ValueError, r"^scoring must return one number a record, shape \(\d+,\), got shape \(\)"),
        ({"scoring": lambda fitted, X: np.ones(len(X))}, TypeError, "takes 2 positional arguments"),
        ({"scoring": failing}, ZeroDivisionError, "of a scoring"),
        ({"grid": {"radius": [1.0, -2.0]}}, ValueError, "^radius"),
        ({"grid": {"radius": uniform(-3.0, 1.0)}}, ValueError, "^radius"),
    ],
)  # fmt: skip
def test_what_shows_in_a_run_is_refused_before_the_first(changes, error, message):
    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(error, match=message) as caught:
            search(**changes).fit(X, Y, GROUPS)
        assert not ledger.rows
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("wrap", [lambda model: model, make_pipeline])
def test_wrong_rows_are_refused_before_the_first_run(wrap):
    rows = pd.DataFrame(X, columns=["u", "v"]).assign(day=pd.Timestamp("2020-01-01"))
    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(ValueError, match=r"^X must hold numbers, got dates or times in colum"):
            search(wrap(model()), grid={}).fit(rows, Y, GROUPS)
        assert not ledger.rows


def test_an_unsaid_data_norm_warns_before_the_first_run():
    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(DataNormWarning):
            search(model(data_norm=None)).fit(X, Y, GROUPS)
        assert not ledger.rows
        search(model(data_norm=None), grid={"data_norm": [0.5, 1.0]}).fit(X, Y, GROUPS)


def test_an_error_in_a_later_run_says_that_the_budget_is_spent():
    calls = []

    def scoring(fitted, X, y):
        calls.append(fitted.coef_.any())
        if len(calls) > 1:
            raise ZeroDivisionError
        return fitted.predict(X) == y

    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(ZeroDivisionError) as caught:
            search(scoring=scoring).fit(X, Y, GROUPS)
        assert [row.what for row in ledger.rows] == ["DPSearchCV"]
    assert calls == [False, True]  # the first model learned nothing
    (note,) = caught.value.__notes__
    assert "count the budget of this search, epsilon = 2" in note
