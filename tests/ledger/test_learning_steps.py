"""Steps in front of a model that learn from the records, wherever they are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler

from sklearn_dpwg.ledger.costs import learning_steps
from sklearn_dpwg.preprocessing import BoundedScaler

ROWS = np.arange(8.0).reshape(4, 2)
QUIET, LOUD = PolynomialFeatures(), OneHotEncoder()
COLUMNS = ColumnTransformer([("a", BoundedScaler(), [0]), ("b", LOUD, [1])], remainder="drop")


@pytest.mark.parametrize(
    ("step", "learned"),
    [
        (make_pipeline(BoundedScaler(), QUIET), []),
        (
            make_pipeline(QUIET, StandardScaler(), MinMaxScaler()),
            ["StandardScaler", "MinMaxScaler"],
        ),
        (COLUMNS, ["OneHotEncoder"]),
        (clone(COLUMNS).fit(ROWS), ["OneHotEncoder"]),
        (FeatureUnion([("a", "passthrough"), ("b", make_pipeline(LOUD))]), ["OneHotEncoder"]),
        (FeatureUnion([("a", QUIET)]), []),
    ],
    ids=["quiet pipeline", "pipeline", "columns", "fitted columns", "union", "quiet union"],
)
def test_what_learns_is_named_and_not_what_holds_it(step, learned):
    assert learning_steps(step) == learned
