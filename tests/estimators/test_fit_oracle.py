"""Fits that draw their records from an oracle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import GeneratorOracle, InMemoryOracle, SampleOracle
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import MGR, OCO
from tests.helpers.relations import WITHIN_GROUP


def facts(task, **changes):
    labels, counts = np.unique(task.data.groups, return_counts=True)
    known = {
        "group_sizes": dict(zip(labels.tolist(), counts.tolist(), strict=True)),
        "n_features": task.data.X.shape[1],
        "classes": None if task.estimator is DPWorstGroupRegressor else np.unique(task.data.y),
    }
    return known | changes


def fresh(task, **parameters):
    return task.make(**({"solver": OCO(n_rounds=5)} | parameters))


@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_an_oracle_on_the_records_is_like_a_fit(task, play):
    """The same plan and guarantee; with an oracle that deals as a fit does, the same model."""
    solver = OCO(n_rounds=5, play=play)
    fitted = fresh(task, solver=solver).fit(*task.data)

    class Dealt(SampleOracle):
        """Deals the records in the order of a seeded fit."""

        def __init__(self):
            rng = NoiseSource(0).rng
            self.order = {
                label: list(rng.permutation(np.flatnonzero(task.data.groups == label)))
                for label in "abc"
            }

        def draw(self, group, size):
            chosen = [self.order[group].pop(0) for _ in range(size)]
            return task.data.X[chosen], task.data.y[chosen]

    drawn = fresh(task, solver=solver).fit_oracle(Dealt(), **facts(task))
    assert drawn.plan_ == fitted.plan_
    assert drawn.privacy_.groupings == ("groups of the oracle",)
    assert replace(drawn.privacy_, groupings=fitted.privacy_.groupings) == fitted.privacy_
    assert drawn.group_labels_.tolist() == fitted.group_labels_.tolist() == ["a", "b", "c"]
    assert drawn.group_sizes_.tolist() == fitted.group_sizes_.tolist()
    assert drawn.n_features_in_ == 3
    if play == "weighted":  # a sampled fit draws its groups from the same coins as the order
        assert np.allclose(drawn.coef_, fitted.coef_, rtol=1e-10)
        assert np.allclose(drawn.group_weights_, fitted.group_weights_)
    assert drawn.predict(task.data.X).shape == (len(task.data.X),)


def simulate(group, size, rng):
    X = rng.uniform(-0.5, 0.5, size=(size, 3))
    return X, X[:, 0] + (0.5 if group == "a" else -0.5) * X[:, 1]


@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_groups_without_end(play):
    solver = OCO(n_rounds=200, batch_size=400, play=play)
    regressor = DPWorstGroupRegressor(
        solver=solver, random_state=0, data_norm=1.0, target_bounds=(-1, 1), **WITHIN_GROUP
    )
    facts = {"group_sizes": [math.inf, math.inf], "n_features": 3}
    plan = regressor.plan(**facts)
    regressor.fit_oracle(GeneratorOracle(simulate, 0), group_labels=["a", "b"], **facts)
    assert regressor.plan_ == plan
    assert math.isfinite(plan.predicted_excess)
    assert plan.n_drawn >= 200 * 400
    assert regressor.n_iter_ == 200
    assert regressor.group_sizes_.tolist() == [math.inf, math.inf]
    X, y = simulate("a", 2000, np.random.default_rng(1))
    assert np.mean((regressor.predict(X) - y) ** 2) < 0.6 * np.mean(y**2)
    assert "inf" in str(plan)


class Failing(SampleOracle):
    """Works for some draws, then does something wrong."""

    def __init__(self, data, n_good, fault):
        self.good = InMemoryOracle(*data, random_state=0)
        self.n_left, self.fault = n_good, fault

    def draw(self, group, size):
        X, y = self.good.draw(group, size)
        self.n_left -= 1
        return (X, y) if self.n_left >= 0 else self.fault(X, y)


def fails(X, y):
    raise KeyError("no such key")


FAULTS = {
    "runs dry": (lambda X, y: (X[:0], y[:0]), "ran dry"),
    "raises": (fails, "KeyError|no such key"),
    "a column too many": (lambda X, y: (np.hstack([X, X]), y), "must give X of shape"),
    "NaN": (lambda X, y: (X * np.nan, y), "NaN or infinity in X"),
    "a label too many": (lambda X, y: (X, np.full(len(y), "other", dtype=object)), "other"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("n_good", [0, 4])
def test_an_oracle_that_fails(one_output, draws, fault, n_good):
    break_it, message = FAULTS[fault]
    task, known = one_output, facts(one_output)
    # what is fitted stays as it was
    for estimator in (fresh(task), fresh(task, solver=OCO(n_rounds=2)).fit(*task.data)):
        before, n_draws = dict(vars(estimator)), len(draws())
        with pytest.raises(Exception, match=message) as caught:
            estimator.fit_oracle(Failing(task.data, n_good, break_it), **known)
        # before the first round is through nothing has left the records
        assert (len(draws()) > n_draws) == (n_good > 0)
        assert getattr(caught.value, "__notes__", []) == [
            "Noisy values had been released before this error: count the budget of this fit, "
            "epsilon = 1 at delta = 1e-06, as spent."
        ] * (n_good > 0)
        assert vars(estimator) == before


def test_classes_of_an_oracle(binary, regressor):
    oracle = InMemoryOracle(*binary.data)
    with pytest.raises(ValueError, match="classes must be given or set where y is not there"):
        fresh(binary).fit_oracle(oracle, **facts(binary, classes=None))
    assert fresh(binary, classes=["no", "yes"]).fit_oracle(oracle, **facts(binary, classes=None))
    with pytest.raises(ValueError, match="classes must be None for a regressor, got"):
        fresh(regressor).fit_oracle(
            InMemoryOracle(*regressor.data), **facts(regressor, classes=[0, 1])
        )


def test_a_fixed_solver_has_no_plan_without_end_and_no_fit_oracle(task):
    with pytest.raises(ValueError, match=r"^group_sizes must be finite with solver="):
        task.make().plan(group_sizes=[math.inf, math.inf], n_features=3)
    for solver in (MGR(n_steps=2), "mgr", "auto", "exact", "sgd"):
        assert not hasattr(task.make(solver=solver), "fit_oracle")
    assert not hasattr(task.make(solver="oco", epsilon=math.inf), "fit_oracle")
    assert hasattr(task.make(solver="oco"), "fit_oracle")
