"""What a fit may cost, and what is left where it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.oracles import InMemoryOracle
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, OCO

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (200, 2))
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.tile(["a", "b"], 100)


class LoudMGR(MGR):
    """Plans for an epsilon that nobody asked for."""

    def plan(self, problem, budget):
        return super().plan(problem, Budget(5.0, budget.delta))


class LooseMGR(MGR):
    """Keeps epsilon, at a delta that nobody asked for."""

    def plan(self, problem, budget):
        return super().plan(problem, Budget(budget.epsilon, 1e-3))


class LoudOCO(OCO):
    """Plans for an epsilon that nobody asked for."""

    def plan(self, problem, budget):
        return super().plan(problem, Budget(5.0, budget.delta))


def fit(model):
    model.fit(X, Y, GROUPS)


def partial_fit(model):
    model.partial_fit(X, Y, GROUPS)


def fit_oracle(model):
    model.fit_oracle(
        InMemoryOracle(X, Y, GROUPS), group_sizes={"a": 100, "b": 100}, n_features=2, classes=[0, 1]
    )


def preview(model):
    model.plan(group_sizes=[100, 100], n_features=2)


@pytest.mark.parametrize(
    ("solver", "call"),
    [
        (LoudMGR(n_steps=3), fit),
        (LoudMGR(n_steps=3), preview),
        (LooseMGR(n_steps=3), fit),
        (LoudOCO(n_rounds=3), fit),
        (LoudOCO(n_rounds=3), partial_fit),
        (LoudOCO(n_rounds=3), fit_oracle),
    ],
)
def test_a_plan_that_costs_more_than_the_estimator_allows_is_refused(solver, call, draws):
    model = DPWorstGroupClassifier(epsilon=1.0, solver=solver)
    before = dict(vars(model))
    with (
        PrivacyLedger(epsilon=10.0, delta=1e-2) as ledger,
        pytest.raises(PlanExceededError, match=r"must cost at most epsilon=1\.0 at delta=1e-06"),
    ):
        call(model)
    assert vars(model) == before
    assert ledger.epsilon_spent == 0.0
    assert not ledger.rows
    assert not draws()


@pytest.mark.parametrize("solver", [MGR(n_steps=3), OCO(n_rounds=3)], ids=["mgr", "oco"])
def test_a_plan_that_costs_what_it_may_is_not_refused(solver):
    model = DPWorstGroupClassifier(epsilon=0.7, solver=solver).fit(X, Y, GROUPS)
    assert 0.69 < model.privacy_.epsilon_at(model.delta) <= 0.7
    assert DPWorstGroupClassifier(epsilon=float("inf")).fit(X, Y, GROUPS).privacy_.epsilon > 1e300


def test_classes_of_later_parts_are_refused_for_a_regressor_as_for_the_first():
    model = DPWorstGroupRegressor(solver=OCO(n_rounds=8, horizon=2))
    for _ in range(2):
        with pytest.raises(ValueError, match="classes must be None for a regressor, got"):
            model.partial_fit(X, X[:, 0], GROUPS, classes=[0, 1])
        model.partial_fit(X, X[:, 0], GROUPS)
