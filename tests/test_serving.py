"""Each estimator in each format that it may serve from answers as it did."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from skops import io

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.inspection import AuditResult, GroupAudit
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import (
    BoundedScaler,
    DPStandardScaler,
    Number,
    PublicSchema,
    PublicShapes,
)
from sklearn_dpwg.serving import trusted_types
from sklearn_dpwg.solvers import MGR, OCO, SOLVERS
from tests.helpers.relations import WITHIN_GROUP, relation_of

pytestmark = pytest.mark.filterwarnings("ignore")
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(400, 2))
Y, G = np.where(X[:, 0] > 0, "yes", "no"), np.where(rng.random(400) < 0.5, "a", "b")
COLUMNS = {0: Number(-1, 1), 1: Number(-1, 1, missing=True)}


def model(solver: Any = None, **given: Any) -> DPWorstGroupClassifier:
    solver = MGR(n_steps=2) if solver is None else solver
    given = {"data_norm": 1.0, "random_state": 0} | relation_of(solver) | given
    return DPWorstGroupClassifier(4.0, solver=solver, **given)


def after(kind: Any, of: Any) -> Any:
    return kind(of, epsilon=4.0, random_state=0).fit(X, Y, G)


RANKING = DPAUCClassifier(4.0, data_norm=1.0, random_state=0)
REGRESSOR = DPWorstGroupRegressor(
    4.0, solver="moments", data_norm=1.0, random_state=0, target_bounds=(0.0, 1.0)
)
SEARCH = DPSearchCV(model(), {"radius": [1.0]}, epsilon=2.0, n_iter=2, random_state=0)
FROZEN = FrozenEstimator(LogisticRegression().fit(X, Y))
BOTH = np.stack([G, Y], axis=1)
MADE = {
    "classifier": lambda: model().fit(X, Y, G),
    "of public groups": lambda: model(**WITHIN_GROUP).fit(X, Y, G),
    "of people": lambda: model(rows_per_person=1).fit(X, Y, G),
    "of overlaps": lambda: model(overlap="attributes", **WITHIN_GROUP).fit(X, Y, BOTH),
    "of a stream": lambda: model(OCO()).partial_fit(X, Y, G),
    "regressor": lambda: REGRESSOR.fit(X, np.abs(X[:, 0]), G),
    "ranking": lambda: RANKING.fit(X, Y),
    "thresholds": lambda: after(DPThresholdClassifier, model()),
    "thresholds of a frozen model": lambda: after(DPThresholdClassifier, FROZEN),
    "calibration": lambda: after(DPCalibratedClassifier, model()),
    "search": lambda: SEARCH.fit(X, Y, G),
    "scaler": lambda: DPStandardScaler(4.0, bounds=(-1.0, 1.0), random_state=0).fit(X),
    "public scaler": lambda: BoundedScaler((-1.0, 1.0)).fit(X),
    "shapes": lambda: PublicShapes((-1.0, 1.0)).fit(X),
    "schema": lambda: PublicSchema(COLUMNS).fit(X),
}


def in_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def in_skops(thing: Any) -> Any:
    return io.loads(io.dumps(thing), trusted=list(trusted_types()))


def answer(thing: Any) -> Any:
    by_group = isinstance(thing, DPThresholdClassifier | DPCalibratedClassifier)
    method = "transform" if hasattr(thing, "transform") else "predict"
    if hasattr(thing, "predict_proba") and not isinstance(thing, DPThresholdClassifier):
        method = "predict_proba"
    return getattr(thing, method)(X, **({"groups": G} if by_group else {}))


@pytest.mark.parametrize("name", MADE)
def test_it_answers_from_a_pickle_and_from_skops(name):
    thing = MADE[name]()
    for form in (in_pickle, in_skops):
        assert np.array_equal(answer(form(thing)), answer(thing))


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("auto", "exact")])
def test_a_model_keeps_the_object_that_solved_it(name):
    kind = SOLVERS[name]
    assert f"{kind.__module__}.{kind.__qualname__}" in trusted_types()
    assert type(in_skops(model(kind())).solver) is kind


def test_an_audit_is_kept():
    audit = GroupAudit(4.0, group_labels=["a", "b"], classes=["no", "yes"], random_state=0)
    result = audit.run(Y, Y, G, kind="decisions")
    assert result.verdict().answer
    assert in_skops(result) == in_pickle(result) == result
    assert AuditResult.from_json(result.to_json()) == result
    assert vars(in_pickle(result)).keys() == {field.name for field in fields(result)}
    assert type(in_skops(audit)) is GroupAudit
