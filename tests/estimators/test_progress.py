"""How far a fit is, as ``verbose`` prints it."""

import math

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.solvers import MGR


def records(n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    return X, (X[:, 0] > 0).astype(int), rng.integers(0, 2, n)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_verbose_prints_planned_steps_and_no_data(capsys):
    X, y, groups = records()
    model = DPWorstGroupClassifier(solver=MGR(n_steps=30), random_state=0, data_norm=1.0)
    model.fit(X, y, groups)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X, y, groups)
    printed = capsys.readouterr().out
    assert printed.startswith("[DPWorstGroupClassifier] Plan of solver 'mgr': 400 records")
    assert "gradient: 30 x gaussian" in printed
    assert "Differential privacy" not in printed  # the guarantee is in privacy_
    assert [line for line in printed.splitlines() if "draws of noise" in line] == [
        f"[DPWorstGroupClassifier] {math.ceil(6.2 * tenth)} of 62 planned draws of noise"
        for tenth in range(1, 11)
    ]
    # the same public facts print the same lines, whatever the records are
    model.fit(-X, 1 - y, groups)
    assert capsys.readouterr().out == printed
