"""What was silently accepted or obscurely refused: parameters, losses, solvers, databases."""

import sqlite3
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import DatabaseOracle, GeneratorOracle
from sklearn_dpwg.exceptions import DataNormWarning, UnusedRecordsWarning
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.solvers import MGR, OCO, Solution

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (200, 2))
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.tile(["a", "b"], 100)


def test_logarithms_of_probabilities():
    model = DPWorstGroupClassifier(solver=MGR(n_steps=3), data_norm=1.0).fit(X, Y, GROUPS)
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    model.coef_ = np.array([[1e4, 0.0]])  # a probability of zero is no warning
    assert model.predict_log_proba(X).min() == -np.inf
    assert not hasattr(DPWorstGroupClassifier(loss="hinge", data_norm=1.0), "predict_log_proba")


@pytest.mark.parametrize("bounds", [("0", "1"), np.array([0, 1], dtype=np.float32)], ids=repr)
def test_target_bounds_are_read_as_numbers(bounds):
    model = DPWorstGroupRegressor(solver=MGR(n_steps=3), target_bounds=bounds, data_norm=1.0).fit(
        X, Y, GROUPS
    )
    assert model.predict(X).shape == (200,)


def test_bounds_of_single_precision_do_not_overflow():
    model = DPWorstGroupClassifier(solver=MGR(n_steps=3), data_norm=np.float32(1))
    assert model.fit(X, Y, GROUPS).coef_.shape == (1, 2)


@pytest.mark.parametrize("name", ["fit_intercept", "verbose"])
@pytest.mark.parametrize("value", ["x", None, 0.5])
def test_switches_are_bools(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a bool or a whole number, got {value!r}"):
        DPWorstGroupClassifier(**{name: value}).fit(X, Y, GROUPS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lipschitz": -1.0}, "lipschitz of a loss must be finite and at least 0, got -1.0"),
        ({"gradient_diameter": np.inf}, "gradient_diameter of a loss must be finite"),
        ({"smoothness": np.nan}, "smoothness of a loss must be finite"),
        ({"supremum": np.nan}, "infimum, zero_score and supremum of a loss must be finite"),
        ({"infimum": 5.0}, "infimum, zero_score and supremum of a loss must be finite"),
    ],
)
def test_a_loss_with_impossible_constants_is_refused(changes, said):
    class Wrong(BinaryLogLoss):
        kernel = None

        def constants(self, score_bound):
            return replace(super().constants(score_bound), **changes)

    with pytest.raises(ValueError, match=said):
        DPWorstGroupClassifier(loss=Wrong(), data_norm=1.0).fit(X, Y, GROUPS)


def test_a_loss_for_an_unknown_task_is_refused_by_name():
    class Wrong(BinaryLogLoss):
        task = "classification"

    with pytest.raises(ValueError, match="task of a loss must be one of"):
        DPWorstGroupClassifier(loss=Wrong(), data_norm=1.0).fit(X, Y, GROUPS)


@pytest.mark.parametrize("weights", [np.full(3, np.nan), np.zeros(2)], ids=["NaN", "short"])
def test_a_solver_that_returns_no_weights_leaves_the_estimator_unfitted(weights):
    class Wrong(MGR):
        def run(self, plan, data, noise, *, start=None):
            return Solution(weights, None, 1)

    model = DPWorstGroupClassifier(solver=Wrong(), data_norm=1.0)
    with pytest.raises(RuntimeError, match="must return 3 weights, all finite"):
        model.fit(X, Y, GROUPS)
    assert not hasattr(model, "coef_")


def test_a_database_without_the_group_of_a_row_is_refused():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (x, y, g)")
    connection.executemany("insert into t values (?, ?, ?)", [(0.1, 0, "a"), (0.2, 1, None)])
    oracle = DatabaseOracle(connection, "t", features=["x"], target="y", groups="g")
    with pytest.raises(ValueError, match="groups must be known for every row, got NULL in 1 row"):
        _ = oracle.group_sizes
    connection.close()


def test_records_that_were_not_used_are_not_counted():
    model = DPWorstGroupClassifier(solver=OCO(batch_size=50, horizon=1), data_norm=1.0)
    assert model.partial_fit(X, Y, GROUPS).group_sizes_.tolist() == [100, 100]
    with pytest.warns(UnusedRecordsWarning, match="may be passed again"):
        model.partial_fit(X, Y, GROUPS)
    assert model.group_sizes_.tolist() == [100, 100]


# --- bounds that nobody chose -------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1e9])
def test_target_bounds_must_be_said_where_there_is_noise(draws, epsilon):
    model = DPWorstGroupRegressor(epsilon, data_norm=1.0, solver=MGR(n_steps=3))
    message = r"^target_bounds must be said at a finite epsilon, as \(low, high\), .* got None\.$"
    with pytest.raises(ValueError, match=message):
        model.fit(X, 100.0 * X[:, 0], GROUPS)
    with pytest.raises(ValueError, match=message):
        model.plan(group_sizes=[100, 100], n_features=2)
    fresh = model.set_params(solver="oco")
    with pytest.raises(ValueError, match=message):
        fresh.partial_fit(X, 100.0 * X[:, 0], GROUPS)
    assert not draws()
    with pytest.raises(ValueError, match=r"^epsilon must be positive"):
        model.set_params(epsilon=-1.0).fit(X, 100.0 * X[:, 0], GROUPS)


def test_without_privacy_target_bounds_are_the_range_of_y():
    y = 5_000.0 + 1_000.0 * X[:, 0]
    model = DPWorstGroupRegressor(float("inf"), data_norm=1.0, radius=20.0)
    said = model.set_params(target_bounds=(y.min(), y.max())).fit(X, y, GROUPS).coef_
    left_open = model.set_params(target_bounds=None).fit(X, y, GROUPS)
    assert np.array_equal(left_open.coef_, said)
    assert left_open.score(X, y) > 0.99
    constant = model.fit(X, np.full(len(X), 1e9), GROUPS)
    assert np.allclose(constant.predict(X), 1e9)


@pytest.mark.parametrize("begin", ["fit", "partial_fit", "fit_oracle"])
def test_an_unsaid_data_norm_warns_before_the_first_release(draws, begin):
    solver = "oco" if begin != "fit" else MGR(n_steps=3)
    model = DPWorstGroupClassifier(solver=solver, delta=1e-3, random_state=0)
    data = (X, Y, GROUPS)
    facts = {"group_sizes": {"a": 100, "b": 100}, "n_features": 2, "classes": [0, 1]}
    model.plan(**facts)
    calls = {
        "fit": lambda: model.fit(*data),
        "partial_fit": lambda: model.partial_fit(*data),
        "fit_oracle": lambda: model.fit_oracle(GeneratorOracle(lambda *args: None), **facts),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DataNormWarning)
        with pytest.raises(DataNormWarning, match=r"^data_norm was left open and is taken as 1: "):
            calls[begin]()
        assert not draws()
        said = clone(model).set_params(data_norm=1.0, solver=MGR(n_steps=3)).fit(*data)
        warnings.simplefilter("ignore", DataNormWarning)
        unsaid = clone(model).set_params(solver=MGR(n_steps=3)).fit(*data)
    assert unsaid.data_norm is None
    assert np.array_equal(said.coef_, unsaid.coef_)
    assert unsaid.check_rows([[0.9, 0.9]]).tolist() == [True]
