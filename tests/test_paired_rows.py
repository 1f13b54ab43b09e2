"""Rows that an index pairs otherwise, and memberships that overlap, are told before a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier
from sklearn_dpwg.data.oracles import InMemoryOracle
from sklearn_dpwg.exceptions import GroupsWarning, InputError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import group_table, worst_group_score
from sklearn_dpwg.metrics import worst_group_scorer as scorer
from sklearn_dpwg.model_selection import DPSearchCV, PublicKFold
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import bound_rows_per_person
from sklearn_dpwg.solvers import MGR, OCO
from tests.helpers.relations import relation_of

SECRET = 48151623
rng = np.random.default_rng(0)
N = 400
X = pd.DataFrame(rng.uniform(-0.5, 0.5, size=(N, 2)), columns=["u", "v"])
Y = pd.Series(np.where(X["u"] > 0, "yes", "no"))
G = pd.Series(np.where(rng.random(N) < 0.5, "a", "b"))
P = pd.Series(rng.uniform(size=N))
X.index = Y.index = G.index = P.index = pd.Index(SECRET + np.arange(N))


def model(solver=None):
    solver = solver or MGR(n_steps=2)
    known = {"data_norm": 1.0, "random_state": 0} | relation_of(solver)
    return DPWorstGroupClassifier(solver=solver, **known)


FITTED = LogisticRegression().fit(X, Y)
BEHIND = DPThresholdClassifier(model(), epsilon=4.0, random_state=0)
AUDIT = {"epsilon": 1.0, "group_labels": ["a", "b"], "classes": ["no", "yes"]}
SEARCH = DPSearchCV(model(), {"radius": [1.0]}, epsilon=2.0, n_iter=2)

# Each with the names of what it takes, in order; what follows is not paired with records.
DOORS = {
    "fit": (model().fit, "X y groups"),
    "partial_fit": (model(OCO()).partial_fit, "X y groups"),
    "AUC": (DPAUCClassifier(data_norm=1.0).fit, "X y"),
    "thresholds": (BEHIND.fit, "X y groups"),
    "calibration": (DPCalibratedClassifier(model(), epsilon=4.0).fit, "X y groups"),
    "search": (SEARCH.fit, "X y groups"),
    "oracle": (InMemoryOracle, "X y groups"),
    "rows of a person": (
        lambda X, y, groups, p: bound_rows_per_person(X, y, groups, person=p, k=2),
        "X y groups person",
    ),
    "folds": (lambda X, g: list(PublicKFold(2).split(X, groups=g)), "X groups"),
    "audit": (lambda y, s, g: GroupAudit(**AUDIT).run(y, s, g), "y_true scores groups"),
    "scorer": (lambda X, y, g: scorer("accuracy")(FITTED, X, y, groups=g), "X y groups"),
    "table": (lambda y, p, g: group_table(y, p, groups=g), "y_true y_pred groups"),
    "table of two": (
        lambda y, p, g: group_table(y, {"m": p, "n": Y.to_numpy()}, groups=g),
        "y_true y_pred['m'] groups",
    ),
    "worst": (lambda y, p, g: worst_group_score(y, p, groups=g), "y_true y_pred groups"),
}
GIVEN = {"X": X, "y": Y, "y_true": Y, "groups": G, "person": G, "y_pred": Y, "scores": P}


def given(names: str) -> list:
    return [GIVEN[name.partition("[")[0]] for name in names.split()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DOORS)
def test_an_index_that_pairs_rows_otherwise_is_refused_before_anything_is_spent(name):
    door, names = DOORS[name]
    for place, wrong in enumerate(names.split()):
        tables = given(names)
        tables[place] = tables[place].iloc[::-1]
        with PrivacyLedger(100.0, 1e-3) as ledger, pytest.raises(InputError) as caught:
            door(*tables)
        facts = str(caught.value)
        assert f"{wrong} must have the index of" in facts or place == 0, facts
        assert "as rows are paired by their place" in facts
        assert str(SECRET)[:5] not in facts
        assert not ledger.rows


@pytest.mark.filterwarnings("ignore")
def test_predictions_of_other_rows_are_refused():
    fitted, behind = model().fit(X, Y, G), BEHIND.fit(X, Y, G)
    other = X.iloc[::-1]
    for call in (
        lambda: fitted.score(other, Y),
        lambda: fitted.score(X, Y, P.iloc[::-1]),
        lambda: behind.score(other, Y, G.iloc[::-1]),
        lambda: behind.predict(other, G),
    ):
        with pytest.raises(InputError, match="must have the index of X"):
            call()
    assert fitted.score(X, Y) == fitted.score(other, Y.iloc[::-1])


# --- memberships ---------------------------------------------------------------------------------

FLAGS = pd.DataFrame({"women": [1, 1, 0, 0], "black": [1, 0, 1, 0]})


@pytest.mark.parametrize("flags", [FLAGS, FLAGS.astype(bool), FLAGS.to_numpy()])
def test_memberships_that_overlap_are_no_combinations_in_silence(flags):
    with pytest.warns(GroupsWarning, match=r"2 columns of 0 and 1.*say overlap='membership'"):
        group_table([0, 1, 0, 1], [0, 1, 0, 1], groups=flags)
