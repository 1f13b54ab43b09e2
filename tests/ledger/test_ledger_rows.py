"""Rows of a ledger that others rely on, and files that were put back from an older copy."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.exceptions import BudgetExceededError, LedgerUnreachableError
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.file import LedgerFile
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate, gdp_epsilon, gdp_mu
from tests.helpers.ledger_cases import DELTA, X, Y, assert_spent, ledger, model

BUDGET = Budget(1.0, DELTA)
COST = PrivacyGuarantee.from_releases(
    calibrate([Release("value", "gaussian", 1.0, max_count=1)], BUDGET), BUDGET
)


def in_a_thread(fit):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fit).result()


def in_a_process(fit):
    child = os.fork()
    if child == 0:
        try:
            fit()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ELSEWHERE = {"meanwhile": lambda fit: fit(), "thread": in_a_thread}
if hasattr(os, "fork"):
    ELSEWHERE["process"] = in_a_process


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads of other tests
@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_fit_that_fails_takes_back_no_start(where, monkeypatch):
    """Whoever began with the same weights meanwhile relies on the row of their fit."""
    first = model().fit(X, Y)
    other = model(start=first)
    encode = RecordEncoder.encode

    def fail(*args):
        monkeypatch.setattr(RecordEncoder, "encode", encode)
        ELSEWHERE[where](lambda: other.fit(X, Y))
        raise MemoryError

    monkeypatch.setattr(RecordEncoder, "encode", fail)
    with ledger() as outer, ledger() as inner, pytest.raises(MemoryError):
        model(start=first).fit(X, Y)
    for book in (outer, inner):
        assert_spent(book, 2)
        assert book.rows[0].what == "start: DPWorstGroupRegressor"
    assert outer.epsilon_spent >= privacy_of(model(start=first).fit(X, Y)).epsilon - 1e-9


def test_two_fits_of_one_object_at_a_time_are_two():
    class Twice(DPWorstGroupRegressor):
        def _warn_about_budget(self, budget, n_records):
            if not vars(self).pop("is_second", False):
                self.is_second = True
                in_a_thread(lambda: self.fit(X, Y))

    with ledger() as book:
        Twice(**model().get_params(deep=False)).fit(X, Y)
    assert_spent(book, 2)


def test_a_key_of_two_stays_when_one_of_them_fails():
    def fail():
        with spending(COST, SimpleNamespace(draws=[]), "fit", BUDGET, key="a"):
            with spending(COST, SimpleNamespace(draws=[1]), "fit", BUDGET, key="a"):
                pass
            raise ZeroDivisionError

    with ledger() as book, pytest.raises(ZeroDivisionError):
        fail()
    assert_spent(book, 1)


def test_what_one_of_nested_ledgers_refuses_is_charged_to_none():
    first = model().fit(X, Y)
    with ledger() as outer, ledger(epsilon=1.3) as inner:
        with pytest.raises(
            BudgetExceededError, match=r"with 1 private fit\(s\) that it began with"
        ):
            model(start=first).fit(X, Y)
        for book in (outer, inner):
            assert_spent(book, 0)
        model().fit(X, Y)


KEYS = st.sampled_from("abc")


class Unsynced(sqlite3.Connection):
    """Does not wait for the disk."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.execute("PRAGMA synchronous = OFF")


class Interleaved(RuleBasedStateMachine):
    """Fits that begin and end in any order, in nested ledgers of which one can refuse."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Unsynced))
        room = gdp_epsilon(DELTA, gdp_mu(1.0, DELTA) * math.sqrt(3)) + 1e-6
        self.books = [ledger().__enter__(), ledger(epsilon=room).__enter__()]
        self.running, self.needed = [], set()

    @rule(key=KEYS, starts=st.sets(KEYS, max_size=2))
    def begin(self, key, starts):
        noise = SimpleNamespace(draws=[])
        begun = [StartCost(start, "start", COST) for start in sorted(starts)]
        fit, before = spending(COST, noise, "fit", BUDGET, key=key, before=begun), self.keys()
        try:
            fit.__enter__()
        except BudgetExceededError:
            assert self.keys() == before
        else:
            self.running.append((fit, noise, {key}))
            self.needed |= starts

    @rule(which=st.integers(0, 9), draws=st.booleans(), fails=st.booleans())
    def end(self, which, draws, fails):
        if not self.running:
            return
        fit, noise, keys = self.running.pop(which % len(self.running))
        noise.draws += [1] * draws
        error = ZeroDivisionError() if fails else None
        assert not fit.__exit__(type(error) if fails else None, error, None)
        self.needed |= keys if draws or not fails else set()

    def keys(self):
        return [{row.key for row in book.rows} for book in self.books]

    @invariant()
    def nothing_is_missing(self):
        held = set().union(*(keys for _, _, keys in self.running))
        for keys in self.keys():
            assert keys >= self.needed | held

    def teardown(self):
        for book in reversed(self.books):
            book.__exit__()
        self.patch.undo()


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


def put_back(path, older):
    os.replace(shutil.copy(older, path.with_name("copy")), path)


@pytest.fixture
def older(tmp_path):
    """Return a ledger that is open, after two fits of which a copy of the file knows one."""
    path = tmp_path / "book.sqlite"
    book = ledger(path=path).__enter__()
    model().fit(X, Y)
    shutil.copy(path, tmp_path / "older")
    model().fit(X, Y)
    yield book, path, tmp_path / "older"
    if book._file is not None:
        with pytest.raises(LedgerUnreachableError, match="rows that were charged are missing"):
            book.__exit__()


def test_an_older_copy_is_noticed_inside_a_block(older):
    book, path, copy = older
    put_back(path, copy)
    for use in (lambda: model().fit(X, Y), book.report):
        with pytest.raises(LedgerUnreachableError, match="rows that were charged are missing"):
            use()


def test_an_older_copy_is_noticed_while_a_fit_runs(older):
    _, path, copy = older
    shutil.copy(path, copy)  # all that was seen, but for the fit itself
    with (
        pytest.raises(LedgerUnreachableError, match="are missing or changed"),
        spending(COST, SimpleNamespace(draws=[1]), "fit", BUDGET),
    ):
        put_back(path, copy)


def test_an_older_copy_is_noticed_by_a_worker_that_saw_more(older):
    book, path, copy = older
    worker = LedgerFile(str(path), book._file.block)
    assert len(worker.rows()) == 2
    put_back(path, copy)
    with pytest.raises(LedgerUnreachableError, match="are missing or changed"):
        worker.rows()


def test_an_older_copy_is_noticed_between_blocks_of_one_object(older):
    book, path, copy = older
    book.__exit__()
    with book:
        assert_spent(book, 2)
    put_back(path, copy)
    for use in (book.__enter__, book.to_json):
        with pytest.raises(LedgerUnreachableError, match="are missing or changed"):
            use()
    with ledger(path=path) as new:  # which has no memory: this is what a file cannot promise
        assert_spent(new, 1)


@pytest.mark.parametrize("change", ["state = 'reserved'", "guarantee = guarantee || ' '"])
def test_rows_that_were_changed_are_noticed(older, change):
    _, path, _ = older
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE fits SET {change} WHERE id = 1")
    connection.close()
    with pytest.raises(LedgerUnreachableError, match="are missing or changed"):
        model().fit(X, Y)


def test_rows_that_were_taken_back_stay_in_the_file(tmp_path):
    path = tmp_path / "book.sqlite"

    def fail(book):
        with spending(COST, SimpleNamespace(draws=[]), "fit", BUDGET, key="key"):
            assert [row.state for row in book.rows] == ["reserved"]
            raise ZeroDivisionError

    with ledger(path=path) as book:
        for _ in range(2):  # the key is free again
            with pytest.raises(ZeroDivisionError):
                fail(book)
        assert_spent(book, 0)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT state FROM fits").fetchall() == [("taken back",)] * 2
    connection.close()
