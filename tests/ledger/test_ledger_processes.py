"""Fits counted in threads, in other processes and from pickles, and files that are lost."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from sklearn_dpwg.exceptions import BudgetExceededError, LedgerUnreachableError
from sklearn_dpwg.ledger.file import LedgerFile, LedgerRow
from sklearn_dpwg.ledger.ledger import activate, active_ledgers, deactivate
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import NoiseSource, gdp_epsilon, gdp_mu
from tests.helpers.ledger_cases import DELTA, X, Y, assert_spent, ledger, model


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_search(backend):
    search = GridSearchCV(model(), {"epsilon": [1.0, 1.0]}, cv=3, n_jobs=2)
    with ledger() as book, joblib.parallel_config(backend=backend):
        search.fit(X, Y)
    assert_spent(book, 7)


def fit_one(seed):
    model().fit(X, Y)
    return seed


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")  # bagging's own
def test_processes_of_the_default_backend():
    with ledger() as book:
        GridSearchCV(model(), {"epsilon": [1.0]}, cv=2, n_jobs=2).fit(X, Y)
        assert_spent(book, 3)
        # clones made in workers, and estimators made there
        BaggingRegressor(model(), n_estimators=2, bootstrap=False, n_jobs=2).fit(X, Y)
        joblib.Parallel(n_jobs=2)(joblib.delayed(fit_one)(seed) for seed in range(2))
    assert_spent(book, 7)
    # workers that are still warm charge a ledger of their own time, or none
    with ledger() as second:
        get_reusable_executor(1, reuse=True).submit(fit_one, 0).result()
    assert_spent(second, 1)
    get_reusable_executor(1, reuse=True).submit(fit_one, 1).result()
    assert_spent(book, 7)
    assert_spent(second, 1)


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


def test_a_process_that_died_stays_charged(tmp_path):
    with ledger(path=tmp_path / "book.sqlite") as book:
        file = active_ledgers()[0]
        guarantee = model().fit(X, Y).privacy_
        with file.reserving([LedgerRow("reserved", "killed", "now", guarantee, "a key")]):
            pass
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
        with pytest.raises(LedgerUnreachableError, match=r"^this \w+ was pickled inside"):
            pickle.loads(one)
    assert_spent(book, 2)


def dumped_inside(estimator):
    with ledger():
        return pickle.dumps(estimator)


def test_a_pickle_joins_each_ledger_that_is_not_joined_yet():
    with ledger() as outer, ledger() as inner:
        sent = pickle.dumps(model())
        deactivate(inner._file)  # as in a worker that was started between the two
        pickle.loads(sent).fit(X, Y)
    assert_spent(outer, 1)
    assert_spent(inner, 1)


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_folder_of_ledgers_goes_with_its_process_and_not_with_a_fork():
    code = """if True:
        import os
        import sys
        from sklearn_dpwg.ledger.ledger import _folder

        folder = _folder(os.getpid())
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert os.path.isdir(folder)
            print(folder)
        sys.exit()
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "dpwg-ledgers-" in done.stdout
    assert not os.path.exists(done.stdout.strip())


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


@pytest.mark.audit  # of processes the test above has one kind
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
