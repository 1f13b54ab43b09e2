"""What may be published holds nothing of a record: fitted objects, plans, guarantees, audits, logs.

Errors, warnings, and scores on records are for whoever holds the records.
"""

from __future__ import annotations

import logging
import pickle
import struct
import sys
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.sources import ArraySource
from sklearn_dpwg.inspection import AuditReport, GroupAudit
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.solvers import MGR, OCO, Plan
from tests.helpers.relations import WITHIN_GROUP, relation_of

pytestmark = pytest.mark.filterwarnings("ignore")

# --- values of one record, searched for in all that is kept -------------------------------------

NAME = "Mr Smith"  # the label of its row, and of its group where groups are hidden
NUMBER, TARGET = 0.48151623421, -0.31415926535
N = 400
STATED = {"group_labels": ["a", "b"], "delta": 1e-4}
QUICK = {**STATED, "data_norm": 1.0, "verbose": 1}


def forms_of(number):
    """Return a number as text and as bytes, in the forms in which files hold it."""
    packed = (struct.pack(form, number) for form in ("<d", ">d", "<f", ">f"))
    return [f"{abs(number):.6f}"[:-1].encode(), *packed]


PLANTED = [NAME.encode(), *forms_of(NUMBER), *forms_of(TARGET)]


def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (N, 2))
    y, groups = (X[:, 0] > 0.0).astype(int), np.where(np.arange(N) % 2, "a", "b").astype(object)
    numbers = X[:, 0].copy()
    X[5, 0], numbers[5] = NUMBER, TARGET
    index = [NAME if row == 5 else str(row) for row in range(N)]
    return pd.DataFrame(X, index=index, columns=["u", "v"]), y, groups, numbers


X, Y, GROUPS, NUMBERS = records()
HIDDEN = GROUPS.copy()
HIDDEN[5] = NAME


def classifier(**changed):
    known = {**QUICK, "solver": MGR(n_steps=2), "classes": [0, 1]} | changed
    return DPWorstGroupClassifier(**relation_of(known["solver"]) | known)


def hidden():
    return classifier(group_labels=["a", "b", "other"]).fit(X, Y, HIDDEN)


def audited():
    result = GroupAudit(**STATED).run(Y, X["u"].to_numpy() % 1.0, GROUPS)
    page = AuditReport(result)
    return [result, result.to_json(), page, page.html()]


PUBLISHED = {
    "a classifier": lambda: [classifier().fit(X, Y, GROUPS)],
    "groups are public": lambda: [classifier(**WITHIN_GROUP).fit(X, Y, GROUPS)],
    "of a source": lambda: [classifier().fit(ArraySource(X.to_numpy(), Y, groups=GROUPS))],
    "groups are hidden": lambda: [hidden()],
    "a regressor": lambda: [
        DPWorstGroupRegressor(**QUICK, target_bounds=(-1, 1)).fit(X, NUMBERS, GROUPS)
    ],
    "a game that is open": lambda: [classifier(solver=OCO(n_rounds=4)).partial_fit(X, Y, GROUPS)],
    "AUC": lambda: [DPAUCClassifier(data_norm=1.0, delta=1e-4).fit(X, Y)],
    "thresholds": lambda: [DPThresholdClassifier(classifier(), **STATED).fit(X, Y, GROUPS)],
    "calibration": lambda: [DPCalibratedClassifier(classifier(), **STATED).fit(X, Y, GROUPS)],
    "a search": lambda: [DPSearchCV(classifier(), {}, delta=1e-4, n_iter=1).fit(X, Y, GROUPS)],
    "a scaler": lambda: [DPStandardScaler(delta=1e-4).fit(X)],
    "an audit": audited,
}


def kept(thing):
    """Return all that a thing is published as, in bytes."""
    texts = [repr(thing), str(thing), repr(getattr(thing, "__dict__", ""))]
    for name in ("plan_", "privacy_"):
        if hasattr(thing, name):
            texts += kept(getattr(thing, name))
    if hasattr(thing, "privacy_"):
        texts += [thing.privacy_.to_json(), str(privacy_of(thing, warn=False))]
    return [
        *(one if isinstance(one, bytes) else one.encode() for one in texts),
        pickle.dumps(thing),
    ]


def planted_in(things, caplog, capfd):
    """Return which planted values stand in things, in what was printed, and in what was logged."""
    content = [part for thing in things for part in kept(thing)]
    content += [text.encode() for text in (*capfd.readouterr(), caplog.text)]
    return [value for value in PLANTED if any(value in part for part in content)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_nothing_of_a_record_is_published(name, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        things = PUBLISHED[name]()
    assert planted_in(things, caplog, capfd) == []


def keeps_rows(model):
    model.rows_ = X.to_numpy()


def names_a_row(model):
    model.worst_ = X.index[5]


def plans_by_a_record(model):
    object.__setattr__(model.plan_, "remark", f"the first target is {NUMBERS[5]}")


def promises_by_a_record(model):
    object.__setattr__(model.privacy_, "outside", (f"a row of {NUMBER}",))


def logs_a_row(model):
    logging.getLogger("sklearn_dpwg").debug("row %s", X.iloc[5].tolist())


def prints_a_row(model):
    sys.stdout.write(str(X.iloc[5].tolist()))


@pytest.mark.parametrize(
    "fault",
    [keeps_rows, names_a_row, plans_by_a_record, promises_by_a_record, logs_a_row, prints_a_row],
)
def test_a_planted_fault_is_found(fault, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        model = classifier().fit(X, Y, GROUPS)
        fault(model)
    assert planted_in([model], caplog, capfd)


# --- neighbours, of which all but the releases is the same --------------------------------------

HUGE = 1.7e308
ROWS = {
    "long": [777.0, 0.0, 0.0],
    "huge": [HUGE, -HUGE, HUGE],
    "tiny": [5e-324, 0.0, -1e-310],
    "zero": [-0.0, 0.0, 0.0],
}


def table(kind, n=400):
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    groups = np.where(np.arange(n) % 3 == 0, "a", "b")
    signal = X[:, 0] + np.where(groups == "a", 0.5, -0.5) * X[:, 1]
    y = {
        "regressor": signal,
        "binary": (signal > 0).astype(int),
        "multiclass": np.digitize(signal, [-0.15, 0.15]),
    }[kind]
    return X, y, groups


def facts_of(value):
    """Return the form of an attribute, and its value where it is no release."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.shape, str(value.dtype)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Plan):
        return repr(astuple(value))  # its own text is cut short
    return type(value).__name__ if isinstance(value, float) else repr(value)


def facts_of_fit(kind, solver, X, y, groups, capsys):
    """Return all of a fitted model and its progress, beside the numbers that it releases."""
    known = {"epsilon": 2.0, "delta": 1e-4, "solver": solver, "random_state": 0, "verbose": 1}
    known |= relation_of(solver)
    if kind == "regressor":
        model = DPWorstGroupRegressor(target_bounds=(-1, 1), **known)
    else:
        model = DPWorstGroupClassifier(classes=np.unique(table(kind)[1]).tolist(), **known)
    model.fit(X, y, groups)
    attributes = {name: facts_of(value) for name, value in vars(model).items()}
    assert len(attributes.pop("_fit_key")) == 34  # drawn for each fit by the operating system
    assert set(vars(pickle.loads(pickle.dumps(model)))) == set(vars(model))
    return capsys.readouterr(), repr(model), attributes


@pytest.mark.parametrize(
    ("kind", "solver", "form"),
    [
        ("binary", "auto", np.asarray),
        ("binary", "phased-erm", csr_array),
        ("multiclass", "mgr", np.float32),
        ("multiclass", "oco", csr_array),
        ("regressor", "mgr", csr_array),
        ("regressor", "moments", np.asarray),
    ],
)
def test_all_but_the_releases_is_the_same_for_neighbours(kind, solver, form, capsys):
    X, y, groups = table(kind)
    expected = None
    targets = [y[5], y.min(), y.max(), *([1e300, -0.0] if kind == "regressor" else [y[5], y[6]])]
    for row, target in zip((X[5], *ROWS.values()), targets, strict=True):
        other, flipped = X.copy(), y.copy()
        other[5], flipped[5] = row, target
        given = form(np.clip(other, -3e38, 3e38) if form is np.float32 else other)
        actual = facts_of_fit(kind, solver, given, flipped, groups, capsys)
        expected = actual if expected is None else expected
        assert actual == expected
