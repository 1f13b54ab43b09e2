"""A line in the log for each fit or audit that is charged: of public facts, and of nothing else."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.solvers import MGR

pytestmark = pytest.mark.filterwarnings("ignore")
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(400, 2))
Y, G = X[:, 0] > 0, np.where(rng.random(400) < 0.5, "a", "b")
MODEL = DPWorstGroupClassifier(4.0, solver=MGR(n_steps=2), data_norm=1.0)
DONE = {
    "fit": lambda: MODEL.fit(X, Y, G),
    "audit": lambda: GroupAudit(4.0, group_labels=["a", "b"], random_state=0).run(Y, Y, G),
    # how often it fits is drawn, and secret
    "search": lambda: DPSearchCV(MODEL, {"radius": [0.5, 1.0]}, epsilon=4.0).fit(X, Y, G),
}


@pytest.mark.parametrize("kind", DONE)
def test_a_fit_is_a_line_of_public_facts(kind, caplog):
    with caplog.at_level(logging.DEBUG, logger="sklearn_dpwg"):
        promised = DONE[kind]().privacy_
    (line,) = [record.getMessage() for record in caplog.records]
    assert f": {kind} of epsilon={promised.epsilon:g} at delta=1e-06, {promised.relation}" in line
    assert line.endswith("void for whoever knows the seed") == promised.seeded


def test_what_fails_is_not_logged(caplog):
    with caplog.at_level(logging.DEBUG, logger="sklearn_dpwg"), pytest.raises(InputError):
        MODEL.fit(X * np.nan, Y, G)
    assert caplog.records == []
