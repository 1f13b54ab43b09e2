"""A fit warns in one sentence of groups that are too small, by public facts alone."""

import warnings

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import WeakPlanWarning
from sklearn_dpwg.solvers import MGR, Moments, PhasedERM
from tests.helpers.relations import WITHIN_GROUP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")


def make(epsilon=1.0, solver="auto", kind=DPWorstGroupClassifier, **parameters):
    bounds = {"target_bounds": (-1.0, 1.0)} if kind is DPWorstGroupRegressor else {}
    known = bounds | WITHIN_GROUP | parameters
    return kind(epsilon, data_norm=1.0, random_state=0, solver=solver, **known)


def fit_with(model, sizes):
    """Fit to groups of these sizes, of public labels; return what was warned of."""
    labels = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    X = np.full((len(labels), 2), 0.5)
    y = np.arange(len(labels)) % 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y, groups=labels)
    return [str(one.message) for one in seen if one.category is WeakPlanWarning]


@pytest.mark.parametrize(
    "model",
    [
        make(4.0, MGR(n_steps=20)),
        make(1.0, PhasedERM()),
        make(kind=DPWorstGroupRegressor),
        make(0.5, Moments(), DPWorstGroupRegressor),
        make(4.0, neighbours="replace-one", group_labels=["g0", "g1", "other"]),
    ],
    ids=["mgr", "phased-erm", "regression", "moments", "hidden groups"],
)
def test_small_groups_are_told_of_in_the_same_words_whatever_their_sizes(model):
    """So that Python's own filter shows one warning of all folds; nothing of sizes is in it."""
    messages = [fit_with(model, [3000, size]) for size in (2, 3)]
    assert len({*map(tuple, messages)}) == len(messages[0]) == 1
    assert not any(character.isdigit() for character in messages[0][0])
    assert "merging" in messages[0][0]
    assert fit_with(model, [30_000, 30_000]) == []
