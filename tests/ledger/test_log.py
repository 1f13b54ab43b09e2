"""A line in the log for each fit or audit that is charged: of public facts, and of nothing else."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.solvers import MGR

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(400, 2))
Y, G = X[:, 0] > 0, np.where(rng.random(400) < 0.5, "a", "b")


def model(**given):
    known = {"solver": MGR(n_steps=2), "data_norm": 1.0, "random_state": 0}
    return DPWorstGroupClassifier(4.0, **{**known, **given})


DONE = {
    "fit": lambda: model().fit(X, Y, G),
    "AUC": lambda: DPAUCClassifier(4.0, data_norm=1.0, random_state=0).fit(X, Y),
    "scaler": lambda: DPStandardScaler(4.0, bounds=(-1, 1), random_state=0).fit(X),
    "audit": lambda: GroupAudit(4.0, group_labels=["a", "b"], random_state=0).run(Y, Y, G),
    "thresholds": lambda: DPThresholdClassifier(model(), epsilon=4.0, random_state=0).fit(X, Y, G),
    # how often it fits is drawn, and secret
    "search": lambda: DPSearchCV(
        model(random_state=None), {"radius": [0.5, 1.0]}, epsilon=4.0, n_iter=5, random_state=3
    ).fit(X, Y, G),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DONE)
def test_a_fit_is_a_line_of_public_facts(name, caplog):
    with caplog.at_level(logging.DEBUG, logger="sklearn_dpwg"):
        done = DONE[name]()
    *of_model, line = [record.getMessage() for record in caplog.records]
    assert len(of_model) == (name == "thresholds")  # of which model and histogram are charged
    promised = done.privacy_
    what = type(done).__name__ if name != "audit" else "GroupAudit"
    kind = name if name in ("audit", "search") else "fit"
    start = f"{what}: {kind} of epsilon={promised.epsilon:g} at delta=1e-06, {promised.relation}"
    assert line.startswith(start) or of_model, line
    assert line.endswith("void for whoever knows the seed") == promised.seeded or of_model


@pytest.mark.filterwarnings("ignore")
def test_what_fails_is_not_logged_nor_is_anything_shown_unasked(caplog, capsys):
    with caplog.at_level(logging.DEBUG, logger="sklearn_dpwg"), pytest.raises(InputError):
        model().fit(X * np.nan, Y, G)
    assert caplog.records == []
    model().fit(X, Y, G)
    assert capsys.readouterr() == ("", "")
