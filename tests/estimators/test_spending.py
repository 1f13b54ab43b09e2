"""What a fit may cost, and what is left where it is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.oracles import InMemoryOracle
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, OCO
from tests.helpers.relations import WITHIN_GROUP

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (200, 2))
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.tile(["a", "b"], 100)


def costly(kind, epsilon=5.0, delta=None):
    """Return a class of solvers that plan for a budget that nobody asked for."""

    def plan(self, problem, budget):
        return kind.plan(self, problem, Budget(epsilon, delta or budget.delta))

    return type(f"Costly{kind.__name__}", (kind,), {"plan": plan})


SIZES = {"a": 100, "b": 100}
CALLS = {
    "fit": lambda model: model.fit(X, Y, GROUPS),
    "partial_fit": lambda model: model.partial_fit(X, Y, GROUPS),
    "fit_oracle": lambda model: model.fit_oracle(
        InMemoryOracle(X, Y, GROUPS), group_sizes=SIZES, n_features=2, classes=[0, 1]
    ),
    "plan": lambda model: model.plan(group_sizes=SIZES, n_features=2),
}


@pytest.mark.parametrize(
    ("solver", "call"),
    [
        (costly(MGR)(n_steps=3), "fit"),
        (costly(MGR)(n_steps=3), "plan"),
        (costly(MGR, 1.0, 1e-3)(n_steps=3), "fit"),
        *((costly(OCO)(n_rounds=3), call) for call in ("fit", "partial_fit", "fit_oracle")),
    ],
)
def test_a_plan_that_costs_more_than_the_estimator_allows_is_refused(solver, call, draws):
    model = DPWorstGroupClassifier(epsilon=1.0, solver=solver, data_norm=1.0, **WITHIN_GROUP)
    before = dict(vars(model))
    with (
        PrivacyLedger(epsilon=10.0, delta=1e-2) as ledger,
        pytest.raises(PlanExceededError, match=r"must cost at most epsilon=1\.0 at delta=1e-06"),
    ):
        CALLS[call](model)
    assert vars(model) == before
    assert ledger.epsilon_spent == 0.0
    assert not ledger.rows
    assert not draws()


class CheapMGR(MGR):
    """Asks a plan what it costs, then puts other releases into it."""

    def _plan(self, problem, budget):
        plan = super()._plan(problem, budget)
        assert plan.guarantee.epsilon <= budget.epsilon
        loud = tuple(release.scaled(1e-3) for release in plan.releases)
        object.__setattr__(plan, "releases", loud)
        return plan


class ForgetfulMGR(MGR):
    def _plan(self, problem, budget):
        super()._plan(problem, budget)


class ChangingMGR(MGR):
    """Changes its plan while it runs."""

    def _run(self, plan, data, noise, start):
        result = super()._run(plan, data, noise, start)
        object.__setattr__(plan, "releases", ())
        object.__setattr__(plan, "solver", "another")
        return result


class FarMGR(MGR):
    def _run(self, plan, data, noise, start):
        result = super()._run(plan, data, noise, start)
        return dataclasses.replace(result, **self.changes)


@pytest.mark.parametrize(
    ("solver", "error", "message"),
    [
        (CheapMGR(n_steps=3), PlanExceededError, "above the budget"),
        (ForgetfulMGR(n_steps=3), TypeError, "_plan of solver 'mgr' must return a Plan, got None"),
    ],
)
def test_a_plan_that_is_changed_or_forgotten_is_refused(draws, solver, error, message):
    with pytest.raises(error, match=message):
        DPWorstGroupClassifier(solver=solver, data_norm=1.0).fit(X, Y, GROUPS)
    assert not draws()


def test_no_run_changes_what_is_kept_of_a_plan():
    model = DPWorstGroupClassifier(epsilon=0.7, solver=ChangingMGR(n_steps=3), data_norm=1.0).fit(
        X, Y, GROUPS
    )
    assert model.plan_.solver == "mgr"
    assert model.plan_.guarantee.epsilon == model.privacy_.epsilon > 0.69


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": np.full(3, 1e3)},
        {"weights": np.full(3, np.nan)},
        {"weights": np.zeros(2)},
        {"group_weights": np.ones(7)},
        {"group_weights": np.array([np.nan, 1.0])},
        {"n_iter": 12345},
    ],
)
def test_an_outcome_that_was_not_planned_is_refused_and_the_budget_is_spent(changes):
    solver = FarMGR(n_steps=3)
    solver.changes = changes
    model = DPWorstGroupClassifier(solver=solver, data_norm=1.0)
    with pytest.raises(RuntimeError, match=r"must (return|take)") as caught:
        model.fit(X, Y, GROUPS)
    assert not hasattr(model, "coef_")
    assert "as spent" in caught.value.__notes__[0]
