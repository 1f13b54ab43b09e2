"""The bar of a fit on a terminal."""

from __future__ import annotations

import io

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.cli.fitting import shown_progress
from sklearn_dpwg.solvers import MGR


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fit_with(stream: io.StringIO) -> DPWorstGroupClassifier:
    model = DPWorstGroupClassifier(data_norm=1.0, solver=MGR(n_steps=5))
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (400, 2))
    with shown_progress(model, stream):
        return model.fit(X, X[:, 0] > 0, np.repeat(["a", "b"], 200))


@pytest.mark.skipif(
    not hasattr(DPWorstGroupClassifier, "set_callbacks"), reason="scikit-learn before 1.9"
)
def test_a_terminal_sees_how_far_the_fit_is_and_the_model_forgets_it():
    terminal = Terminal()
    model = fit_with(terminal)
    assert "releases" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
    assert not hasattr(model, "_skl_callbacks")


def test_a_file_sees_nothing():
    stream = io.StringIO()
    fit_with(stream)
    assert stream.getvalue() == ""
