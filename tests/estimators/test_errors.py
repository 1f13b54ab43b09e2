"""Wrong input: one sentence, before any noise, and nothing lost."""

from __future__ import annotations

import math
from dataclasses import replace
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from sklearn_dpwg.losses import Hinge, Huber, MultinomialLogLoss, Quantile
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP

BOTH = [
    ({"epsilon": 0}, "epsilon must be positive"),
    ({"epsilon": math.nan}, "epsilon must be a number, got NaN"),
    ({"epsilon": "1"}, "epsilon must be a number, got '1'"),
    ({"delta": 0.0}, "delta must be strictly between 0 and 1, got 0.0"),
    *(
        ({name: value}, f"{name} must be a number")
        for name in ("radius", "data_norm")
        for value in (0, math.nan, "1")
    ),
    *(
        ({name: value}, f"{name} must be a bool or a whole number, got {value!r}")
        for name in ("fit_intercept", "verbose")
        for value in ("x", 0.5)
    ),
    ({"prior": [0.5, 0.5]}, "prior must be 'proportional', 'uniform', a number from 0 to 1"),
    ({"solver": "sgd"}, "solver must be one of ['ags', "),
    ({"solver": MGR}, "solver must be a name or a solver instance, got <class"),
    ({"solver": "exact"}, "solver 'exact' adds no noise and needs epsilon=inf, got epsilon=1.0"),
    ({"solver": MGR(n_steps=0)}, "n_steps of MGR must be a positive whole number, got 0"),
    ({"group_by": 0}, "groups were passed and group_by is set: use one of them, not both."),
    (
        {"group_labels": ["a", "b"]},
        "groups must hold labels of group_labels=['a', 'b'] alone, got",
    ),
    ({"group_labels": list("abcd")} | WITHIN_GROUP, "group_labels contains 'd', a group without"),
    ({"random_state": "seed"}, "random_state must be a whole number, got 'seed'"),
]
CLASSIFIER = [
    (
        {"loss": "huber"},
        "loss of a classifier must be one of ['hinge', 'log_loss', 'smoothed_hinge', "
        "'squared_hinge'] or a Loss instance, got 'huber'.",
    ),
    ({"loss": Huber()}, "loss of a classifier must be one for a classifier, got Huber("),
    ({"loss": MultinomialLogLoss(3)}, "loss MultinomialLogLoss(n_outputs=3) is for 3 classes, "),
    ({"classes": ["no"]}, "classes must be at least two, found in y or given, got one class: "),
    ({"classes": ["no", "maybe"]}, "y must hold no class outside classes=['maybe', 'no'], got '"),
    ({"classes": ["no", None]}, "classes must be all numbers or all strings, got ['no', None]."),
]
REGRESSOR = [
    (
        {"loss": "hinge"},
        "loss of a regressor must be one of ['absolute_error', 'huber', 'quantile', "
        "'squared_error'] or a Loss instance, got 'hinge'.",
    ),
    ({"loss": Hinge()}, "loss of a regressor must be one for a regressor, got Hinge()."),
    ({"loss": Quantile(0.9, 0.5)}, "target_bound of a regressor's loss must be 1, as target_bou"),
    *(
        ({"target_bounds": bounds}, "target_bounds must be two finite numbers, the lower one first")
        for bounds in ((1, 0), (0, math.inf), (0, 5e-324), ("a", 1))
    ),
]


def assert_refused(task, draws, message, *, data=None, **parameters):
    """Check the message of a fit, that nothing was drawn, and that the estimator is as before."""
    estimator = task.make(**parameters)
    before = dict(vars(estimator))
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.fit(*(data or task.data))
    assert str(caught.value).startswith(message)
    assert not hasattr(caught.value, "__notes__")
    assert not draws()
    assert vars(estimator) == before


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        # what both refuse is looked at in turns
        *((("binary", "regressor")[k % 2], *case) for k, case in enumerate(BOTH)),
        *(("binary", *case) for case in CLASSIFIER),
        *(("regressor", *case) for case in REGRESSOR),
    ],
)
def test_parameters(make_task, draws, kind, parameters, message):
    assert_refused(make_task(kind), draws, message, **parameters)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"groups": None}, "groups must be given where group_labels is set, got None: pass"),
        ({"groups": ["a", "b"]}, "groups must have one entry a record: got 2 for 90 records"),
        ({"groups": [None, *"ab"] * 30}, "groups contains NaN or None in row 0; give records"),
        ({"groups": [pd.NA, *"ab"] * 30}, "groups contains NaN or None in row 0; give records"),
        ({"groups": [np.nan, 1, 2] * 30}, "groups contains NaN or None in row 0; give records"),
        ({"X": np.full((90, 3), np.nan)}, "Input X contains NaN in column 0, row 0: "),
        ({"y": ["yes"] * 90}, "classes must be at least two, found in y or given, got one class"),
    ],
)
def test_data(binary, draws, wrong, message):
    assert_refused(
        binary, draws, message, data=binary.data._replace(**wrong), group_labels=["a", "b", "c"]
    )


def test_a_weight_is_refused_and_none_is_no_error(task):
    with pytest.raises(TypeError, match=r"^sample_weight must be None in fit of DPWorstGroup"):
        task.make().fit(*task.data, sample_weight=np.ones(90))
    task.make().fit(*task.data, sample_weight=None)
    assert "sample_weight" not in signature(task.estimator.fit).parameters


def test_the_name_of_a_solver_stands_for_its_default_instance(task):
    step = make_pipeline(task.make(solver="oco")).set_params(
        **{f"{task.estimator.__name__.lower()}__{name}": value
           for name, value in {"solver": "mgr", "solver__n_steps": 2}.items()}
    )[0]  # fmt: skip
    assert step.fit(*task.data).n_iter_ == 2
    with pytest.raises(ValueError, match="Invalid parameter 'steps' for estimator MGR"):
        task.make(solver="mgr").set_params(solver__steps=2)


class Interrupted(MGR):
    """Fails after its releases, as a solver with a fault would."""

    def run(self, plan, data, noise, *, start=None):
        super().run(plan, data, noise, start=start)
        raise KeyboardInterrupt


def test_a_fit_that_fails_midway_says_that_the_budget_is_spent(task, draws):
    fresh = task.make(solver=Interrupted(n_steps=5))
    before = dict(vars(fresh))
    with pytest.raises(KeyboardInterrupt) as caught:
        fresh.fit(*task.data)
    assert caught.value.__notes__ == [
        "Noisy values had been released before this error: count the budget of this fit, "
        "epsilon = 1 at delta = 1e-06, as spent."
    ]
    assert draws()
    assert vars(fresh) == before


def test_group_weights_that_are_not_there(task):
    class Secretive(MGR):
        def run(self, plan, data, noise, *, start=None):
            return replace(super().run(plan, data, noise, start=start), group_weights=None)

    secretive = task.fit(solver=Secretive(n_steps=5))
    sentence = r"^solver 'mgr' does not release group weights\.$"
    for model, stated in ((task.make(), "not fitted yet"), (secretive, sentence)):
        assert not hasattr(model, "group_weights_")
        with pytest.raises(AttributeError, match=stated):
            model.group_weights_  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_sizes": {"a": 30, "c": 1}}, "group_sizes must be those of group_labels"),
        ({"group_sizes": {"a": 30, "b": 0}}, "an entry of group_sizes must be at least 1"),
        ({"group_sizes": {"a": 30, "b": 2.5}}, "an entry of group_sizes must be a whole number"),
        ({"n_features": 0}, "n_features must be at least 1, got 0"),
        ({"classes": ["one"]}, "classes must be at least two, found in y or given, got one class"),
        ({"classes": 3}, "classes must be at least two, found in y or given, got one class"),
    ],
)
def test_wrong_plans(binary, arguments, message):
    facts = {"group_sizes": {"a": 30, "b": 20}, "n_features": 3} | arguments
    with pytest.raises((ValueError, TypeError), match=rf"^{message}.*\.$"):
        binary.make(group_labels=["a", "b"]).plan(**facts)
