"""Records that come in parts."""

from __future__ import annotations

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import RecordOracle
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.solvers import OCO

SIZES = {"a": 60, "b": 30, "c": 20}


def make_part(task, seed):
    """Return a call's records: the same sizes each time, other records."""
    rng = np.random.default_rng([seed, 5])
    groups = rng.permutation(np.repeat(list(SIZES), list(SIZES.values())))
    X = rng.uniform(-0.5, 0.5, size=(len(groups), 3))
    signal = X[:, 0] + np.where(groups == "a", 0.5, -0.5) * X[:, 1]
    if task.estimator is DPWorstGroupRegressor:
        return X, signal, groups
    classes = np.unique(task.data.y)
    cuts = [0.0] if len(classes) == 2 else [-0.15, 0.15]
    return X, classes[np.digitize(signal, cuts)], groups


def make(task, **parameters):
    return task.make(**({"solver": OCO(horizon=4)} | parameters))


@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_parts_are_one_game_with_one_budget(task, draws, play):
    estimator = make(task, solver=OCO(horizon=4, play=play))
    classes = {} if task.estimator is DPWorstGroupRegressor else {"classes": np.unique(task.data.y)}
    plan = estimator.plan(
        group_sizes={label: 4 * size for label, size in SIZES.items()}, n_features=3, **classes
    )
    rounds, models = [], []
    for number in range(4):
        assert estimator.partial_fit(*make_part(task, number)) is estimator
        rounds.append(estimator.n_iter_)
        models.append(np.array(estimator.coef_))
        assert estimator.plan_ == plan
        assert estimator.privacy_.epsilon == plan.guarantee.epsilon <= 1.0
        assert estimator.group_sizes_.tolist() == [(number + 1) * size for size in SIZES.values()]
    assert all(not np.array_equal(one, other) for one, other in pairwise(models))
    drawn = [draw.release.name for draw in draws()]
    assert drawn.count("gradient sums") == 1
    assert drawn.count("group losses") == rounds[-1]
    if play == "weighted":
        fraction = plan.n_steps // 4
        assert rounds == [fraction, 2 * fraction, 3 * fraction, 4 * fraction]
    assert np.isclose(estimator.group_weights_.sum(), 1.0)


def test_no_record_is_drawn_twice(binary, monkeypatch):
    seen = []

    def draw(self, group, size, real=RecordOracle.draw):
        rows, targets = real(self, group, size)
        seen.extend(map(tuple, rows.tolist()))
        return rows, targets

    monkeypatch.setattr(RecordOracle, "draw", draw)
    estimator, given = make(binary), set()
    for number in range(4):
        X, y, groups = make_part(binary, number)
        records = RecordEncoder(1, estimator.data_norm).encode(
            X, np.zeros(len(X)), np.zeros(len(X), dtype=int)
        )
        given |= set(map(tuple, records.rows.tolist()))
        estimator.partial_fit(X, y, groups)
    assert len(seen) == len(set(seen))
    assert set(seen) <= given
    assert len(seen) > 0.9 * len(given)


def test_one_part_is_what_a_fit_is(task):
    """With a horizon of one call, fit and partial_fit are the same."""
    part = make_part(task, 0)
    solver = OCO(horizon=1, n_rounds=7)
    fitted = make(task, solver=solver).fit(*part)
    partly = make(task, solver=solver).partial_fit(*part)
    assert fitted.plan_ == partly.plan_
    assert np.array_equal(fitted.coef_, partly.coef_)
    assert np.array_equal(fitted.intercept_, partly.intercept_)


def test_records_that_are_too_few_or_too_late(binary):
    estimator = make(binary)
    estimator.partial_fit(*make_part(binary, 0))
    before = np.array(estimator.coef_)
    X, y, groups = make_part(binary, 1)
    few = np.flatnonzero(groups != "c")
    with pytest.warns(UserWarning, match="no round could be played with so few") as caught:
        estimator.partial_fit(X[few], y[few], groups[few])
    assert caught[0].filename == __file__
    assert np.array_equal(estimator.coef_, before)
    for number in range(1, 4):
        estimator.partial_fit(*make_part(binary, number))
    before = np.array(estimator.coef_)
    with pytest.warns(UserWarning, match="all rounds of the plan were played before"):
        estimator.partial_fit(*make_part(binary, 9))
    assert np.array_equal(estimator.coef_, before)


COPIES = {
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("how", COPIES)
def test_secrets_are_not_copied(one_output, how):
    task = one_output
    estimator = make(task).partial_fit(*make_part(task, 0))
    part = X, *_ = make_part(task, 1)
    other = COPIES[how](estimator)
    assert np.array_equal(other.predict(X), estimator.predict(X))
    assert other.privacy_ == estimator.privacy_
    for each in (other, COPIES[how](other)):
        assert not hasattr(each, "_open_game")
        before = dict(vars(each))
        with pytest.raises(RuntimeError, match="running sums and unused noise are secrets, which"):
            each.partial_fit(*part)
        assert vars(each) == before
    # the original goes on, a clone and a fit begin anew
    assert estimator.partial_fit(*part).n_iter_ > other.n_iter_
    if how == "copy":
        assert clone(other).partial_fit(*part)
        assert other.fit(*part).partial_fit(*part)


def test_a_pickle_holds_no_secret(binary):
    """Nothing in it but what an observer of the fitted attributes has."""
    estimator = make(binary).partial_fit(*make_part(binary, 0))
    state = estimator.__getstate__()
    secrets = set(map(id, vars(estimator._open_game).values()))
    shared = {id(estimator.plan_), id(estimator._fit_key)}  # the key is a name drawn at random
    assert not secrets & set(map(id, state.values())) - shared
    assert "_open_game" not in state
    public = {name for name in state if name.endswith("_") and not name.startswith("_")}
    own = set(estimator.get_params(deep=False))
    assert set(state) - public - own <= {
        "_group_weights", "_grouping_names", "_why_closed", "_fit_key", "_start_costs",
    }  # fmt: skip


def test_parameters_must_not_change(binary):
    estimator = make(binary).partial_fit(*make_part(binary, 0))
    for change in ({"epsilon": 2.0}, {"solver__n_rounds": 7}, {"radius": 3.0}):
        old = {name: estimator.get_params()[name] for name in change}
        estimator.set_params(**change)
        with pytest.raises(ValueError, match="parameters must not change between calls"):
            estimator.partial_fit(*make_part(binary, 1))
        estimator.set_params(**old)
    assert estimator.partial_fit(*make_part(binary, 1)).n_iter_ > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, g: (X[:, :2], y, g), "X has 2 features, but .* is expecting 3 features"),
        (lambda X, y, g: (X * np.nan, y, g), "NaN"),
        (lambda X, y, g: (X, np.full(len(y), "other"), g), "y must hold no class outside"),
        (lambda X, y, g: (X, y, np.full(len(g), "z")), "groups must hold labels of"),
        (lambda X, y, g: (X, y, None), "groups must be given, as in the first call, got None"),
        (lambda X, y, g: (X, y, g[:5]), "groups must have one entry a record"),
        (lambda X, y, g: (X, y, g, ["no", "maybe"]), "classes must be those of the first call"),
    ],
)
def test_wrong_input_costs_nothing_and_the_game_goes_on(binary, draws, change, message):
    estimator = make(binary).partial_fit(*make_part(binary, 0))
    before, n_draws = dict(vars(estimator)), len(draws())
    with pytest.raises(ValueError, match=message) as caught:
        estimator.partial_fit(*change(*make_part(binary, 1)))
    assert not hasattr(caught.value, "__notes__")
    assert vars(estimator) == before
    assert len(draws()) == n_draws
    assert estimator.partial_fit(*make_part(binary, 1)).n_iter_ > 0


@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_fails_in_the_middle(binary, monkeypatch, first):
    estimator = make(binary)
    if not first:
        estimator.partial_fit(*make_part(binary, 0))
    before = dict(vars(estimator))
    n_good = iter(range(3))

    def draw(self, group, size, real=RecordOracle.draw):
        if next(n_good, None) is None:
            raise MemoryError("no memory left")
        return real(self, group, size)

    with monkeypatch.context() as patch:
        patch.setattr(RecordOracle, "draw", draw)
        with pytest.raises(MemoryError) as caught:
            estimator.partial_fit(*make_part(binary, 1))
    assert "as spent" in caught.value.__notes__[0]
    if first:
        assert vars(estimator) == before
        return
    with pytest.raises(RuntimeError, match="an earlier call failed when values had been released"):
        estimator.partial_fit(*make_part(binary, 2))
    assert estimator.predict(make_part(binary, 2)[0]).shape == (110,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads of other tests
def test_one_half_of_a_fork_goes_on(binary):
    estimator = make(binary).partial_fit(*make_part(binary, 0))
    child = os.fork()
    if child == 0:
        try:
            estimator.partial_fit(*make_part(binary, 1))
        except RuntimeError as error:
            os._exit(7 if "cannot go on in a forked process" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    estimator.partial_fit(*make_part(binary, 1))


def test_one_thread_at_a_time(binary, monkeypatch):
    estimator = make(binary).partial_fit(*make_part(binary, 0))
    game = type(estimator._open_game.game)
    real, errors = game.advance, []

    def advance(self, *args):
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(estimator.partial_fit, *make_part(binary, 2))
            errors.append(second.exception())
        return real(self, *args)

    monkeypatch.setattr(game, "advance", advance)
    estimator.partial_fit(*make_part(binary, 1))
    assert [type(error) for error in errors] == [RuntimeError]
    assert "is running already" in str(errors[0])
    monkeypatch.undo()
    estimator.partial_fit(*make_part(binary, 2))
    assert estimator.n_iter_ == 3 * estimator.plan_.n_steps // 4
