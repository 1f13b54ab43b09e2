"""Each estimator in each format that it may serve from: what it says there, or how it refuses."""

from __future__ import annotations

import pickle
import warnings
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
from sklearn_dpwg.privacy import PrivacyGuarantee
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


def regressor() -> DPWorstGroupRegressor:
    given = {"data_norm": 1.0, "random_state": 0, "target_bounds": (0.0, 1.0)}
    return DPWorstGroupRegressor(4.0, solver="moments", **given)


SEARCH = DPSearchCV(model(), {"radius": [1.0]}, epsilon=2.0, n_iter=2, random_state=0)
FROZEN = FrozenEstimator(LogisticRegression().fit(X, Y))
WITHOUT = (AttributeError, "has no attribute 'privacy_'")

# How each is made, what it answers with, and where it refuses: error and words.
MADE: dict[str, tuple[Any, str, dict[str, tuple[type[Exception], str]]]] = {
    "classifier": (lambda: model().fit(X, Y, G), "predict_proba", {}),
    "of public groups": (lambda: model(**WITHIN_GROUP).fit(X, Y, G), "predict_proba", {}),
    "of people": (lambda: model(rows_per_person=1).fit(X, Y, G), "predict_proba", {}),
    "of overlapping groups": (
        lambda: model(overlap="attributes", **WITHIN_GROUP).fit(X, Y, np.stack([G, Y], axis=1)),
        "predict_proba",
        {},
    ),
    "of a stream": (lambda: model(OCO()).partial_fit(X, Y, G), "predict_proba", {}),
    "regressor": (lambda: regressor().fit(X, np.abs(X[:, 0]), G), "predict", {}),
    "ranking": (
        lambda: DPAUCClassifier(4.0, data_norm=1.0, random_state=0).fit(X, Y),
        "predict_proba",
        {},
    ),
    "thresholds": (
        lambda: DPThresholdClassifier(model(), epsilon=4.0, random_state=0).fit(X, Y, G),
        "predict",
        {},
    ),
    "thresholds of a frozen model": (
        lambda: DPThresholdClassifier(FROZEN, epsilon=4.0, random_state=0).fit(X, Y, G),
        "predict",
        {},
    ),
    "calibration": (
        lambda: DPCalibratedClassifier(model(), epsilon=4.0, random_state=0).fit(X, Y, G),
        "predict_proba",
        {},
    ),
    "search": (lambda: SEARCH.fit(X, Y, G), "predict", {}),
    "scaler": (
        lambda: DPStandardScaler(4.0, bounds=(-1.0, 1.0), random_state=0).fit(X),
        "transform",
        {},
    ),
    "public scaler": (lambda: BoundedScaler((-1.0, 1.0)).fit(X), "transform", {"JSON": WITHOUT}),
    "shapes": (lambda: PublicShapes((-1.0, 1.0)).fit(X), "transform", {"JSON": WITHOUT}),
    "schema": (lambda: PublicSchema(COLUMNS).fit(X), "transform", {"JSON": WITHOUT}),
}


def in_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def in_skops(thing: Any) -> Any:
    return io.loads(io.dumps(thing), trusted=list(trusted_types()))


def in_json(thing: Any) -> Any:
    """The guarantee goes as JSON; the rest is made anew."""
    text = thing.privacy_.to_json()
    assert PrivacyGuarantee.from_json(text) == thing.privacy_
    return thing


FORMATS = {"pickle": in_pickle, "skops": in_skops, "JSON": in_json}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: make() for name, (make, _, _) in MADE.items()}


def answer(thing: Any, method: str, name: str) -> Any:
    groups = {"groups": G} if name.startswith(("thresholds", "calibration")) else {}
    return getattr(thing, method)(X, **groups)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", MADE)
def test_it_serves_from_there_or_is_refused(name, form, made):
    _, method, refusals = MADE[name]
    if form in refusals:
        error, words = refusals[form]
        with pytest.raises(error, match=words):
            FORMATS[form](made[name])
        return
    expected = answer(made[name], method, name)
    found = answer(FORMATS[form](made[name]), method, name)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("auto", "exact")])
def test_a_model_keeps_the_object_that_solved_it(name):
    kind = SOLVERS[name]
    trusted = set(trusted_types())
    assert f"{kind.__module__}.{kind.__qualname__}" in trusted
    written = io.dumps(model(kind()))
    assert set(io.get_untrusted_types(data=written)) <= trusted
    assert type(in_skops(model(kind())).solver) is kind


@pytest.mark.parametrize("name", MADE)
def test_a_pickle_holds_no_record(name, made):
    """Whatever was computed of a model and is kept beside it holds no value of a row."""
    answer(made[name], MADE[name][1], name)
    written = pickle.dumps(made[name])
    values = np.concatenate([X.ravel(), X.ravel().byteswap()])
    assert not any(value.tobytes() in written for value in values)


def test_an_audit_is_kept():
    audit = GroupAudit(4.0, group_labels=["a", "b"], classes=["no", "yes"], random_state=0)
    result = audit.run(Y, Y, G, kind="decisions")
    assert in_skops(result) == result == AuditResult.from_json(result.to_json())
    assert result.verdict().answer
    assert in_pickle(result) == result
    assert in_skops(result) == result
    assert vars(in_pickle(result)).keys() == {field.name for field in fields(result)}
    assert type(in_skops(audit)) is GroupAudit
