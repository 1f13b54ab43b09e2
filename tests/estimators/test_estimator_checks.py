"""scikit-learn's own checks; none is expected to fail. They see the estimator, not the solver."""

from __future__ import annotations

import math
import tomllib
from inspect import signature
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP

# Without noise the scores are held to account too, so bounds are those of the checks' data.
CHECKS = parametrize_with_checks(
    [
        DPWorstGroupClassifier(solver=MGR(n_steps=5), data_norm=1.0),
        DPWorstGroupClassifier(epsilon=math.inf, data_norm=1.0),
        DPWorstGroupClassifier(solver="oco", data_norm=1.0, **WITHIN_GROUP),
        DPWorstGroupRegressor(solver=MGR(n_steps=5), data_norm=1.0, target_bounds=(-1, 1)),
        DPWorstGroupRegressor(epsilon=math.inf, target_bounds=(-3, 3), data_norm=10, radius=20),
        DPAUCClassifier(data_norm=1.0),
        DPSearchCV(DPWorstGroupClassifier(data_norm=1.0), {"radius": [1.0, 2.0]}, n_iter=1),
        DPSearchCV(
            DPWorstGroupRegressor(data_norm=1.0, target_bounds=(-1, 1)),
            {"radius": [1.0, 2.0]},
            n_iter=1,
        ),
    ]
)


# as a list, since scikit-learn 1.6 hands over a generator, which pytest 9 deprecates
@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor])
def test_an_estimator_has_no_more_parameters_than_its_limit(kind):
    """`.ci/limits.py` reads an ``__init__`` that is written out, which a dataclass has not."""
    limits = Path(__file__).parents[2] / ".ci" / "limits.toml"
    limit = tomllib.loads(limits.read_text())[f"parameters of {kind.__name__}"]
    assert len(signature(kind).parameters) <= limit
