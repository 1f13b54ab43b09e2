"""Everything that spends: named by pickles inside ledgers, and refused without privacy."""

from __future__ import annotations

import ast
import importlib
import math
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import sklearn_dpwg
from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import BudgetExceededError, LedgerUnreachableError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger.file import LedgerFile
from sklearn_dpwg.ledger.ledger import CountedEstimator, active_ledgers, deactivate
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from tests.helpers.ledger_cases import DELTA, X, Y, assert_spent, ledger, model

PACKAGE = Path(sklearn_dpwg.__file__).parent
LABELS = Y > 0
GROUPS = np.arange(len(X)) % 2
AUDIT = GroupAudit(delta=DELTA, group_labels=[0, 1])


def audit(one):
    return one.run(LABELS.astype(int), np.linspace(0, 1, len(X)), GROUPS)


def spending_classes():
    """Find the classes with a method that reaches what charges ledgers, by the names it calls."""
    functions = []
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(["sklearn_dpwg", *path.relative_to(PACKAGE).with_suffix("").parts])
        for node in ast.parse(path.read_text()).body:
            owner = node.name if isinstance(node, ast.ClassDef) else None
            for each in node.body if owner else [node]:
                if isinstance(each, ast.FunctionDef):
                    calls = (call.func for call in ast.walk(each) if isinstance(call, ast.Call))
                    called = {getattr(one, "attr", getattr(one, "id", None)) for one in calls}
                    functions.append((module, owner, each.name, called))
    reach, size = {"spending"}, 0
    while len(reach) > size:
        size = len(reach)
        reach |= {
            name
            for _, owner, name, called in functions
            if called & reach and (owner is None or name.startswith("_"))
        }
    return {
        getattr(importlib.import_module(module), owner)
        for module, owner, _, called in functions
        if owner and called & reach
    }


def counted(base=CountedEstimator):
    """Return the classes of the package that take ledgers along and that no other one extends."""
    inner = [one for one in base.__subclasses__() if one.__module__.startswith("sklearn_dpwg.")]
    return set().union(*map(counted, inner)) if inner else {base}


def test_what_spends_takes_its_ledgers_along():
    found = spending_classes()
    assert {GroupAudit, DPSearchCV, DPStandardScaler, DPAUCClassifier} <= found
    # some are parts, which are no estimators by themselves
    inherited = {base for one in counted() for base in one.__mro__}
    assert found <= inherited
    assert all(issubclass(one, CountedEstimator) for one in found if hasattr(one, "get_params"))


INNER = DPWorstGroupClassifier(data_norm=1.0, epsilon=math.inf)
WITHOUT_PRIVACY = {
    DPWorstGroupClassifier: lambda: INNER.fit(X, LABELS, GROUPS),
    DPWorstGroupRegressor: lambda: model(epsilon=math.inf).fit(X, Y),
    DPAUCClassifier: lambda: DPAUCClassifier(math.inf, data_norm=1.0).fit(X, LABELS),
    DPStandardScaler: lambda: DPStandardScaler(math.inf).fit(X),
    DPThresholdClassifier: lambda: DPThresholdClassifier(INNER, epsilon=math.inf).fit(X, LABELS),
    DPCalibratedClassifier: lambda: DPCalibratedClassifier(INNER, epsilon=math.inf).fit(X, LABELS),
    DPSearchCV: lambda: DPSearchCV(INNER, {"radius": [1.0]}, epsilon=math.inf).fit(
        X, LABELS, GROUPS
    ),
    GroupAudit: lambda: audit(GroupAudit(math.inf, group_labels=[0, 1])),
}


def test_every_class_that_spends_is_tried_without_privacy():
    assert counted() == set(WITHOUT_PRIVACY)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
@pytest.mark.parametrize("kind", WITHOUT_PRIVACY)
def test_a_ledger_refuses_what_has_no_privacy(kind):
    refused = (BudgetExceededError, "epsilon=inf")
    if kind is DPSearchCV:  # which has none without
        refused = (ValueError, "epsilon")
    with ledger() as book, pytest.raises(refused[0], match=refused[1]):
        WITHOUT_PRIVACY[kind]()
    assert_spent(book, 0)


def test_an_audit_takes_the_ledgers_along():
    with ledger() as book:
        sent = pickle.dumps(AUDIT)
        deactivate(book._file)  # as in a worker that was there before the block
        audit(pickle.loads(sent))
        assert [row.what for row in book.rows] == ["GroupAudit"]
    assert [row.state for row in book.rows] == ["spent"]
    assert "): 1 audit(s), epsilon=" in repr(book)
    with pytest.raises(LedgerUnreachableError, match=r"^this GroupAudit was pickled inside a Priv"):
        pickle.loads(sent)


FORGED = {
    "no seal": lambda path, block, seal: (path, block),
    "a wrong seal": lambda path, block, seal: (path, block, "0" * len(seal)),
    "the seal of another": lambda path, block, seal: (path + "2", block, seal),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_file_cannot_name_a_ledger(how, tmp_path, monkeypatch):
    """A stored model may come from anywhere: the path that it names is not even opened."""
    fitted = model().fit(X, Y)
    with ledger(path=tmp_path / "book") as book:
        states = [fitted.__getstate__(), model().__getstate__()]
        (sealed,) = states[0]["_ledgers"]
        deactivate(book._file)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", None)
            for state in states:
                state["_ledgers"] = (FORGED[how](*sealed),)
            stored = DPWorstGroupRegressor.__new__(DPWorstGroupRegressor)
            stored.__setstate__(states[0])
            with pytest.raises(LedgerUnreachableError):
                stored.__setstate__(states[1])
            assert active_ledgers() == []
        assert stored.predict(X).shape == Y.shape
        assert LedgerFile(*sealed[:2]).is_open()
