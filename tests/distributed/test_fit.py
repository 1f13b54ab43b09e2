"""Fits of dask's arrays and frames: what they learn, what is lost on the way, what they refuse."""

import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.distributed import DaskEngine
from sklearn_dpwg.estimators import learn
from sklearn_dpwg.exceptions import ChangedDataError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import MGR, PhasedERM
from tests.helpers.partitioned import Partitioned
from tests.helpers.relations import WITHIN_GROUP
from tests.helpers.toy_blocks import kill

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_dpwg.exceptions.SeededNoiseWarning",
    "ignore::sklearn_dpwg.exceptions.WeakPlanWarning",
)
CHUNKS = (40, 90, 0, 70)  # of uneven length, one empty
PASSES = MGR(n_steps=4, sampling_rate=1.0)
BATCHES = MGR(n_steps=8, sampling_rate=0.3)


def records():
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, (200, 3))
    groups = rng.choice(["a", "b"], 200, p=[0.7, 0.3]).astype("<U4")
    groups[-9:] = "late"  # known to the last partition alone
    y = np.where(X[:, 0] + 0.3 * (groups == "a") * X[:, 1] > 0, "yes", "no")
    return X, y, groups


def in_chunks(values, chunks=CHUNKS):
    return da.from_array(values, chunks=(chunks, *((-1,) * (values.ndim - 1))))


def make(**parameters):
    return DPWorstGroupClassifier(**({"data_norm": 1.0, "random_state": 0} | parameters))


def same_bits(model, other):
    return model.coef_.tobytes() == other.coef_.tobytes() and np.array_equal(
        model.intercept_, other.intercept_
    )


@pytest.fixture
def draws(monkeypatch):
    sources = []

    class WatchedSource(NoiseSource):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            sources.append(self)

    monkeypatch.setattr(learn, "NoiseSource", WatchedSource)
    return lambda: [draw.release.name for source in sources for draw in source.draws]


@pytest.fixture
def at_pass(monkeypatch):
    """Return what calls a function before the pass of some number of a fit begins."""

    def call(number, function):
        n_passes = []

        def run(method):
            def counted(*args, **kwargs):
                n_passes.append(method)
                if len(n_passes) == number:
                    function()
                return method(*args, **kwargs)

            return counted

        monkeypatch.setattr(DaskEngine, "collect", run(DaskEngine.collect))

    return call


@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": PASSES},
        {"solver": BATCHES},
        {"solver": PhasedERM(n_phases=2), "radius": 5.0},
        {"epsilon": np.inf, "radius": 2.0},
    ],
    ids=["passes", "batches", "phased-erm", "exact"],
)
def test_arrays(processes, parameters):
    data = records()
    chunked = [in_chunks(part) for part in data]
    model = make(**parameters).fit(chunked[0], chunked[1], groups=chunked[2])
    in_memory = make(**parameters).fit(*data)
    np.testing.assert_allclose(model.coef_, in_memory.coef_, rtol=0, atol=1e-9)
    assert model.plan_ == in_memory.plan_
    assert str(model.privacy_) == str(in_memory.privacy_)
    assert model.group_labels_.tolist() == ["a", "b", "late"]
    # on one machine, in the same blocks
    alone = make(**parameters).fit(Partitioned(*data, cuts=np.cumsum(CHUNKS)[:-1]))
    assert same_bits(model, alone)


def test_moments_of_a_frame(processes):
    X, _, groups = records()
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(
        wage=X[:, 0] * 0.5, region=groups, half=np.arange(200) % 2
    )
    parts = dd.from_pandas(frame, npartitions=3, sort=False)
    features, several = ["u", "v", "w"], ["region", "half"]
    known = {"solver": "moments", "target_bounds": (-1, 1), "data_norm": 1.0, "random_state": 0}
    model, other = (DPWorstGroupRegressor(8.0, **known, **WITHIN_GROUP) for _ in range(2))
    model.fit(parts[features], parts["wage"], groups=parts[several])
    other.fit(frame[features], frame["wage"], groups=frame[several])
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=1e-9)
    assert str(model.privacy_) == str(other.privacy_)
    assert model.score(parts[features], parts["wage"]) == pytest.approx(
        model.score(frame[features], frame["wage"])
    )


def test_predictions_are_made_when_asked_for(processes):
    X, y, groups = records()
    model = make(solver=PASSES).fit(X, y, groups)
    chunked = in_chunks(X)
    for name in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
        lazy = getattr(model, name)(chunked)
        assert dask.is_dask_collection(lazy)
        in_memory = getattr(model, name)(X)
        assert (lazy.shape, lazy.dtype) == (in_memory.shape, in_memory.dtype)
        if in_memory.dtype.kind == "f":
            np.testing.assert_allclose(lazy.compute(), in_memory, atol=1e-12)
        else:
            np.testing.assert_array_equal(lazy.compute(), in_memory)
    assert model.score(chunked, in_chunks(y)) == model.score(X, y)


@pytest.mark.parametrize(
    "solver", [PASSES, pytest.param(BATCHES, marks=pytest.mark.audit)], ids=["passes", "batches"]
)
def test_a_killed_worker_changes_no_bit(processes, at_pass, draws, solver):
    data = records()
    alone = make(solver=solver).fit(Partitioned(*data, cuts=np.cumsum(CHUNKS)[:-1]))
    planned = draws()
    at_pass(5, lambda: kill(processes))
    chunked = [in_chunks(part) for part in data]
    assert same_bits(make(solver=solver).fit(*chunked), alone)
    # no release is drawn for twice
    assert draws() == planned * 2


def test_rows_that_come_back_different_end_the_fit(processes, at_pass, draws, tmp_path):
    X, y, groups = records()
    path = tmp_path / "X.npy"
    np.save(path, X)

    def change():
        changed = X.copy()
        changed[50, 1] += 1e-3
        np.save(path, changed)
        kill(processes, 2)

    rows = da.from_delayed(dask.delayed(np.load)(path), X.shape, X.dtype)
    model = make(solver=PASSES)
    at_pass(5, change)
    with pytest.raises(ChangedDataError, match="partition 0 of the records must be") as error:
        model.fit(rows, da.from_array(y, chunks=-1), groups=da.from_array(groups, chunks=-1))
    assert "count the budget of this fit" in error.value.__notes__[0]
    n_drawn = len(draws())
    whole = make(solver=PASSES).fit(X, y, groups).plan_
    assert 0 < n_drawn < sum(release.max_count for release in whole.releases)
    assert not hasattr(model, "coef_")


def test_an_interrupted_client_says_what_is_spent(processes, at_pass, draws):
    def interrupt():
        raise KeyboardInterrupt

    at_pass(6, interrupt)
    chunked = [in_chunks(part) for part in records()]
    model = make(solver=PASSES)
    with PrivacyLedger(epsilon=3.0, delta=1e-6) as ledger:
        with pytest.raises(KeyboardInterrupt) as error:
            model.fit(*chunked)
        spent = ledger.epsilon_spent
    assert spent == pytest.approx(make(solver=PASSES).fit(*records()).privacy_.epsilon)
    assert "count the budget of this fit" in error.value.__notes__[0]
    assert not hasattr(model, "coef_")
    assert_forgotten(processes)


def assert_forgotten(client):
    """Check that the cluster holds nothing of a fit, for which dask takes a moment."""
    for _ in range(100):
        n_tasks = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if not n_tasks:
            return
        time.sleep(0.05)
    raise AssertionError(f"{n_tasks} tasks are left")
