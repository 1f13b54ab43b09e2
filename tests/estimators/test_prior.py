from __future__ import annotations

import numpy as np
import pytest

from sklearn_dpwg.estimators.encode import resolve_prior


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        ("proportional", [0.75, 0.25]),
        ("uniform", [0.5, 0.5]),
        (0, [0.75, 0.25]),
        (0.5, [0.625, 0.375]),
        (1.0, [0.5, 0.5]),
        ([1, 4], [0.2, 0.8]),
        (np.array([2.0, 2.0]), [0.5, 0.5]),
    ],
)
def test_weights(prior, expected):
    assert resolve_prior(prior, [30, 10]) == pytest.approx(expected)


@pytest.mark.parametrize(
    "prior",
    [
        "unifrom", None, np.nan, -0.1, 1.1, [1.0], [1.0, 0.0], [1.0, np.inf], [1.0, np.nan],
        ["a", "b"], [[1.0, 1.0]], {"a": 1},
    ],
)  # fmt: skip
def test_wrong_priors(prior):
    with pytest.raises(ValueError, match=r"^prior must be 'proportional', 'uniform', a number"):
        resolve_prior(prior, [30, 10])
