"""Fits counted wherever they happen."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from sklearn import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.exceptions import BudgetExceededError, LedgerUnreachableError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.ledger.charge import activate, active_ledgers, charge, deactivate
from sklearn_dpwg.ledger.file import LedgerFile, total_epsilon
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Release,
    calibrate,
    gdp_epsilon,
    gdp_mu,
)
from sklearn_dpwg.solvers import MGR, OCO

DELTA = 1e-6
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(400, 2))
Y = X[:, 0]


def model(**parameters):
    public = {"data_norm": 1.0, "target_bounds": (-1, 1), "group_by": ones}
    return DPWorstGroupRegressor(**public | {"solver": MGR(n_steps=3), "delta": DELTA} | parameters)


def ones(rows):
    return np.ones(len(rows))


def ledger(epsilon=10.0, **parameters):
    return PrivacyLedger(epsilon, DELTA, **parameters)


def assert_spent(book, n_fits, each=1.0):
    assert len(book.rows) == n_fits
    assert {row.state for row in book.rows} <= {"spent"}
    mu = gdp_mu(each, DELTA) * math.sqrt(n_fits)
    assert book.epsilon_spent == pytest.approx(gdp_epsilon(DELTA, mu) if n_fits else 0, rel=1e-4)


def test_outside_nothing_is_counted():
    with ledger() as book:
        pass
    model().fit(X, Y)
    assert_spent(book, 0)
    assert active_ledgers() == []


def test_plain_and_cloned_fits():
    with ledger() as book:
        fitted = model().fit(X, Y)
        clone(fitted).fit(X, Y)
        make_pipeline(BoundedScaler(), model()).fit(X, Y)
        fitted.fit(X, Y)
    assert_spent(book, 4)
    fitted.fit(X, Y)
    assert_spent(book, 4)


def test_a_scaler_counts_too():
    with ledger() as book:
        make_pipeline(DPStandardScaler(delta=DELTA), model()).fit(X, Y)
    assert_spent(book, 2)
    assert [row.what for row in book.rows] == ["DPStandardScaler", "DPWorstGroupRegressor"]


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_search(backend):
    search = GridSearchCV(model(), {"epsilon": [1.0, 1.0]}, cv=3, n_jobs=2)
    with ledger() as book, joblib.parallel_config(backend=backend):
        search.fit(X, Y)
    assert_spent(book, 7)


def fit_one(seed):
    DPWorstGroupRegressor(
        solver=MGR(n_steps=3), delta=DELTA, group_by=ones, data_norm=1.0, target_bounds=(-1, 1)
    ).fit(X, Y)
    return seed


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")  # bagging's own
def test_processes_of_the_default_backend():
    with ledger() as book:
        GridSearchCV(model(), {"epsilon": [1.0, 1.0]}, cv=3, n_jobs=2).fit(X, Y)
        assert_spent(book, 7)
        # clones made in workers, and estimators made there
        BaggingRegressor(model(), n_estimators=4, bootstrap=False, n_jobs=2).fit(X, Y)
        assert_spent(book, 11)
        joblib.Parallel(n_jobs=2)(joblib.delayed(fit_one)(seed) for seed in range(4))
    assert_spent(book, 15)
    # workers that are still warm charge a ledger of their own time, or none
    with ledger() as second:
        cross_validate(model(), X, Y, cv=2, n_jobs=2)
    assert_spent(second, 2)
    joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fit_one)(seed) for seed in range(2))
    assert_spent(book, 15)
    assert_spent(second, 2)


def test_a_fit_that_would_overspend_is_refused_before_it_spends(monkeypatch):
    drawn = []
    gaussian = NoiseSource.gaussian

    def watched(self, *args, **kwargs):
        drawn.append(args)
        return gaussian(self, *args, **kwargs)

    monkeypatch.setattr(NoiseSource, "gaussian", watched)
    with ledger(epsilon=1.3) as book:
        model().fit(X, Y)
        before = len(drawn)
        last = model()
        with pytest.raises(BudgetExceededError, match=r"^this fit \(epsilon=1 at .*1 fit\(s\) so"):
            last.fit(X, Y)
        assert len(drawn) == before
        assert not hasattr(last, "coef_")
        model(epsilon=0.3).fit(X, Y)  # a smaller one still finds room
    assert [round(row.guarantee.epsilon, 2) for row in book.rows] == [1.0, 0.3]
    assert book.epsilon_spent <= 1.3


def test_race_of_threads_never_overspends():
    with ledger(epsilon=2.0) as book, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(lambda: model().fit(X, Y)) for _ in range(12)]
        errors = [future.exception() for future in futures]
    refused = [error for error in errors if error is not None]
    assert {type(error) for error in refused} == {BudgetExceededError}
    fits = 12 - len(refused)
    assert_spent(book, fits)
    one_more = gdp_epsilon(DELTA, gdp_mu(1.0, DELTA) * math.sqrt(fits + 1))
    assert book.epsilon_spent <= 2.0 < one_more


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more")
def test_searches_that_overspend_stop():
    search = GridSearchCV(model(), {"epsilon": [1.0]}, cv=3)
    with ledger(epsilon=1.3) as book, pytest.raises(BudgetExceededError):
        search.fit(X, Y)
    assert book.epsilon_spent <= 1.3


def test_without_privacy():
    with ledger() as book, pytest.raises(BudgetExceededError, match="epsilon=inf"):
        model(epsilon=math.inf).fit(X, Y)
    assert_spent(book, 0)


@pytest.mark.parametrize("n_draws", [0, 1])
def test_a_fit_that_fails(n_draws):
    releases = calibrate([Release("value", "gaussian", 1.0, max_count=1)], Budget(1.0, DELTA))
    guarantee = PrivacyGuarantee.from_releases(releases, Budget(1.0, DELTA))
    noise = NoiseSource(releases=releases)
    with ledger() as book:

        def fail():
            with charge(guarantee, noise, "fit"):
                assert [row.state for row in book.rows] == ["reserved"]
                for _ in range(n_draws):
                    noise.gaussian(0.0, sensitivity=1.0, release=releases[0])
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert_spent(book, n_draws)


def test_wrong_input_costs_nothing():
    with ledger() as book:
        with pytest.raises(ValueError, match="NaN"):
            model().fit(X, np.full(400, np.nan))
        with pytest.raises(ValueError, match="epsilon must be positive"):
            model(epsilon=-1.0).fit(X, Y)
    assert_spent(book, 0)


def test_nested_ledgers_all_count():
    with ledger() as outer, ledger(epsilon=1.2) as inner:
        model().fit(X, Y)
        with pytest.raises(BudgetExceededError):
            model().fit(X, Y)
    assert_spent(outer, 1)
    assert_spent(inner, 1)


def fit_and_fail(book):
    with book:
        model().fit(X, Y)
        raise ZeroDivisionError


def test_opened_again_after_an_exception_it_goes_on():
    outer = ledger()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fit_and_fail(outer)
    assert_spent(outer, 2)
    with outer, pytest.raises(RuntimeError, match="open already"):
        outer.__enter__()
    assert active_ledgers() == []


def test_path_outlives_the_session(tmp_path):
    path = tmp_path / "book.sqlite"
    with ledger(path=path):
        model().fit(X, Y)
    later = ledger(path=path)
    assert_spent(later, 1)
    with later:
        model().fit(X, Y)
    assert_spent(ledger(path=path), 2)
    with pytest.raises(ValueError, match=r"^path holds a ledger of epsilon=10 and"):
        ledger(epsilon=11.0, path=path).__enter__()
    assert active_ledgers() == []


def test_report_and_json():
    with ledger() as book:
        model().fit(X, Y)
        DPStandardScaler(delta=DELTA, epsilon=0.5).fit(X)
        report = book.report()
    assert report["what"].tolist() == ["DPWorstGroupRegressor", "DPStandardScaler"]
    assert report["total_epsilon"].iloc[-1] == book.epsilon_spent
    assert report["epsilon"].tolist() == pytest.approx([1.0, 0.5], rel=1e-4)
    again = PrivacyLedger.from_json(book.to_json())
    assert again.rows == book.rows
    assert (again.epsilon, again.delta) == (10.0, DELTA)
    with again:
        model().fit(X, Y)
    assert len(again.rows) == 3
    assert json.loads(again.to_json())["fits"][2]["guarantee"]["delta"] == DELTA
    assert repr(book).startswith("PrivacyLedger(epsilon=10, delta=1e-06): 2 fit(s), epsilon=1.1")


def test_guarantees_of_several_records_are_not_counted():
    guarantee = model().fit(X, Y).privacy_
    assert total_epsilon([guarantee] * 2, DELTA) > guarantee.epsilon
    with pytest.raises(ValueError, match="a ledger counts guarantees of one record"):
        total_epsilon([guarantee.for_records(2)] * 2, DELTA)


def test_a_total_that_anyone_can_compute_again():
    with ledger() as book:
        cross_validate(model(), X, Y, cv=2)
        DPStandardScaler(delta=DELTA, epsilon=0.5).fit(X)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    for row in book.rows:
        accountant.compose(row.guarantee.events[0])
    assert book.epsilon_spent == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)


def test_a_process_that_died_stays_charged(tmp_path):
    with ledger(path=tmp_path / "book.sqlite") as book:
        file = active_ledgers()[0]
        file.reserve("a key", model().fit(X, Y).privacy_, "killed")
        assert [row.state for row in book.rows] == ["spent", "reserved"]
    assert book.epsilon_spent > 1.3


def test_pickles():
    with ledger() as book:
        fitted = pickle.dumps(model().fit(X, Y))
        unfitted = pickle.dumps(model())
        pickle.loads(unfitted).fit(X, Y)
    assert_spent(book, 2)
    assert b"_ledgers" in unfitted
    stored = pickle.loads(fitted)
    assert "_ledgers" not in vars(stored)
    stored.fit(X, Y)  # a ledger that has ended says nothing to a stored model
    for one in (unfitted, dumped_inside(DPStandardScaler())):
        with pytest.raises(LedgerUnreachableError, match=r"^this estimator, not yet fitted, was"):
            pickle.loads(one)
    assert_spent(book, 2)


def dumped_inside(estimator):
    with ledger():
        return pickle.dumps(estimator)


def test_another_session_on_the_same_file(tmp_path):
    path = tmp_path / "book.sqlite"
    code = f"""if True:
        from sklearn_dpwg.ledger import PrivacyLedger
        with PrivacyLedger(1.5, {DELTA}, path={str(path)!r}):
            pass
    """
    alone = {name: value for name, value in os.environ.items() if "LEDGER" not in name}
    with ledger(epsilon=1.5, path=path) as book:
        model().fit(X, Y)
        subprocess.run([sys.executable, "-c", code], check=True, env=alone)
        model().fit(X, Y)
        with pytest.raises(BudgetExceededError):
            model().fit(X, Y)
    assert_spent(book, 2)


def test_nested_blocks_on_one_file_charge_it_once(tmp_path):
    path = tmp_path / "book.sqlite"
    with ledger(path=path) as outer:
        with ledger(path=path) as inner:
            model().fit(X, Y)
        assert_spent(inner, 1)
        model().fit(X, Y)
        assert_spent(outer, 2)
    assert active_ledgers() == []


BREAK = {
    "gone": lambda path: path.unlink(),
    "broken": lambda path: path.write_bytes(b"something else entirely, of some length" * 50),
    "empty": lambda path: path.write_bytes(b""),
    "another": lambda path: (path.unlink(), ledger(path=path).__enter__().__exit__()),
}


@pytest.mark.parametrize("how", BREAK)
def test_without_its_file_nothing_is_spent(how, tmp_path, monkeypatch):
    path = tmp_path / "book.sqlite"
    book = ledger(path=path).__enter__()
    model().fit(X, Y)
    BREAK[how](path)
    monkeypatch.setattr(NoiseSource, "gaussian", None)  # any draw fails
    for private in (model(), DPStandardScaler(delta=DELTA)):
        with pytest.raises(LedgerUnreachableError, match=r"^the ledger's file .* cannot be"):
            private.fit(X, Y)
    path.unlink(missing_ok=True)
    with pytest.raises(LedgerUnreachableError):
        book.__exit__()
    assert active_ledgers() == []
    with pytest.raises(RuntimeError, match="open already"):  # what was counted is lost
        book.__enter__()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads of other tests
def test_a_fork_that_leaves_the_block_does_not_end_it():
    with ledger() as book:
        handle = LedgerFile(book._file.path, book._file.block)  # as a worker has it
        child = os.fork()
        if child == 0:
            try:
                book.__exit__()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert handle.is_open()
    assert not handle.is_open()


def test_a_worker_that_outlives_a_block_stops_counting_to_it():
    with ledger() as book:
        handle = LedgerFile(book._file.path, book._file.block)
    activate(handle)
    assert active_ledgers() == []
    activate(LedgerFile(handle.path, "a block that never was"))
    with pytest.raises(LedgerUnreachableError, match="not the file in which"):
        model().fit(X, Y)
    deactivate(LedgerFile(handle.path, "a block that never was"))


def refit(fitted):
    fitted.fit(X, Y)


def test_processes_of_a_backend_that_the_caller_names():
    fitted = model().fit(X, Y)
    named = {"n_jobs": 2, "backend": "loky"}
    joblib.Parallel(**named)([joblib.delayed(fit_one)(0)] * 2)  # to be reused
    with ledger() as book, joblib.parallel_config(**named):
        joblib.Parallel()([joblib.delayed(fit_one)(0)] * 3)
        assert_spent(book, 3)
        joblib.Parallel()([joblib.delayed(refit)(fitted)] * 3)
        assert_spent(book, 6)
        cross_validate(make_pipeline(DPStandardScaler(delta=DELTA), Ridge()), X, Y, cv=3)
        assert_spent(book, 9)
    joblib.Parallel(**named)([joblib.delayed(fit_one)(0)])
    assert_spent(book, 9)


@pytest.mark.parametrize("private", [model(), DPStandardScaler(delta=DELTA)])
def test_a_fitted_estimator_takes_the_ledgers_along(private):
    """To workers that were there before the block, in pools that are not joblib's."""
    fitted = clone(private).fit(X, Y)
    with ledger() as book:
        sent = pickle.dumps(fitted)
        ours = book._file
        deactivate(ours)  # as in a worker that knows of nothing
        pickle.loads(sent).fit(X, Y)
        assert [file.owner for file in active_ledgers()] == [None]
    assert_spent(book, 1)


def test_partial_fit_that_began_outside_is_charged_in_full_once():
    solver = OCO(horizon=4)
    learner = DPWorstGroupRegressor(
        solver=solver, delta=DELTA, group_by=ones, data_norm=1.0, target_bounds=(-1, 1)
    ).partial_fit(X, Y)
    before = vars(learner)["_open"].game, learner.n_iter_
    with ledger(epsilon=0.5), pytest.raises(BudgetExceededError):
        learner.partial_fit(X, Y)
    assert (vars(learner)["_open"].game, learner.n_iter_) == before
    book = ledger()
    for _ in range(2):
        with book:
            learner.partial_fit(X, Y)
        assert_spent(book, 1)
    with book:  # one that began inside is charged once too, in whatever block it goes on
        learner = clone(learner).partial_fit(X, Y).partial_fit(X, Y)
    with book:
        learner.partial_fit(X, Y)
    assert_spent(book, 2)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
def test_a_total_names_every_grouping(tmp_path):
    """What each fit grouped by is in its guarantee, in the file and in the words of the total."""
    frame = pd.DataFrame({"x": X[:, 0], "sex": np.arange(len(X)) % 2, "age": np.arange(len(X)) % 3})
    with ledger(path=tmp_path / "ledger") as book:
        model(group_by="sex").fit(frame, Y)
        model(group_by=["sex", "age"]).fit(frame, Y)
        model(group_by=half).fit(frame, Y)
        model(group_by=None).fit(frame, Y, groups=frame["sex"])
        model(group_by=None).fit(X, Y, groups=np.arange(len(X)) % 2)
    names = [row.guarantee.groupings for row in book.rows]
    assert names == [
        ("column 'sex'",),
        ("columns 'sex', 'age' together",),
        ("function half",),
        ("column 'sex'",),
        ("groups passed to fit",),
    ]
    total = book.guarantee
    assert total.groupings == tuple(dict.fromkeys(itertools.chain(*names)))
    assert total.epsilon == book.epsilon_spent
    said = " ".join(str(total).split())
    for (name,) in names:
        assert name in said
    assert "stays in its group by each of them, in every fit that is counted here" in said


def half(rows):
    return np.arange(len(rows)) % 2
