"""Entries counted, refused and listed by a ledger, in memory and in a file."""

from __future__ import annotations

import logging
import math
import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sklearn import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, privacy
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import NoiseSource, PrivacyGuarantee, Relation
from sklearn_dpwg.privacy.gaussian import gdp_epsilon, gdp_mu
from sklearn_dpwg.solvers import MGR, OCO
from tests.helpers.ledger_cases import DELTA, X, Y, assert_spent, ledger, model
from tests.helpers.relations import WITHIN_GROUP

BUDGET = privacy.Budget(1.0, DELTA)
RELEASES = privacy.calibrate([privacy.Release("value", "gaussian", 1.0, max_count=1)], BUDGET)
COST = PrivacyGuarantee.from_releases(RELEASES, BUDGET)
LABELS, GROUPS, ONES = Y > 0, np.arange(len(X)) % 2, np.ones(len(X), dtype=bool)


def test_fits_inside_are_counted_and_no_others():
    with ledger() as book:
        pass
    fitted = model().fit(X, Y)
    assert_spent(book, 0)
    with book:
        fitted.fit(X, Y)
        clone(fitted).fit(X, Y)
        make_pipeline(DPStandardScaler(delta=DELTA), model()).fit(X, Y)
    assert_spent(book, 4)
    assert [row.what for row in book.rows][2:] == ["DPStandardScaler", "DPWorstGroupRegressor"]
    fitted.fit(X, Y)
    assert_spent(book, 4)


def test_a_fit_that_would_overspend_is_refused_before_it_draws(monkeypatch):
    drawn = []
    gaussian = NoiseSource.gaussian

    def watched(self, *args, **kwargs):
        drawn.append(args)
        return gaussian(self, *args, **kwargs)

    monkeypatch.setattr(NoiseSource, "gaussian", watched)
    with ledger(epsilon=1.3) as book:
        model().fit(X, Y)
        before, last = len(drawn), model()
        with pytest.raises(BudgetExceededError, match=r"epsilon = 1 at .*above its epsilon=1\.3"):
            last.fit(X, Y)
        assert len(drawn) == before
        assert not hasattr(last, "coef_")
        model(epsilon=0.3).fit(X, Y)  # a smaller one still has room
    assert [round(row.guarantee.epsilon, 2) for row in book.rows] == [1.0, 0.3]
    assert book.epsilon_spent <= 1.3


@pytest.mark.parametrize("n_draws", [0, 1])
def test_what_fails_is_charged_if_it_drew(n_draws):
    noise = NoiseSource(releases=RELEASES)

    def fail(book):
        with spending(COST, noise, "fit", COST):
            assert [row.state for row in book.rows] == ["reserved"]
            for _ in range(n_draws):
                noise.gaussian(0.0, sensitivity=1.0, release=RELEASES[0])
            raise KeyboardInterrupt

    with ledger() as book, pytest.raises(KeyboardInterrupt):
        fail(book)
    assert_spent(book, n_draws)


INNER = DPWorstGroupClassifier(data_norm=1.0, epsilon=math.inf)
WITHOUT_PRIVACY = [
    lambda: model(epsilon=math.inf).fit(X, Y),
    lambda: DPAUCClassifier(math.inf, data_norm=1.0).fit(X, LABELS),
    lambda: DPStandardScaler(math.inf).fit(X),
    lambda: DPThresholdClassifier(INNER, epsilon=math.inf).fit(X, LABELS),
    lambda: GroupAudit(math.inf, group_labels=[0, 1]).run(ONES, ONES, GROUPS, kind="decisions"),
]


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
@pytest.mark.parametrize("spend", WITHOUT_PRIVACY)
def test_what_has_no_privacy_is_refused(spend):
    with ledger() as book, pytest.raises(BudgetExceededError, match="epsilon = inf"):
        spend()
    assert_spent(book, 0)


def test_nested_ledgers_all_count_and_those_of_one_file_once(tmp_path):
    first = model().fit(X, Y)
    with ledger() as outer, ledger(epsilon=1.2) as inner:
        model().fit(X, Y)
        with pytest.raises(BudgetExceededError):
            model().fit(X, Y)
        with pytest.raises(BudgetExceededError, match=r"with 1 start\(s\)"):
            model().fit(X, Y, start=first)
    assert_spent(outer, 1)
    assert_spent(inner, 1)
    with ledger(path=tmp_path / "book") as outer, ledger(path=tmp_path / "book") as inner:
        model().fit(X, Y)
    assert_spent(inner, 1)
    assert_spent(outer, 1)


def test_a_file_goes_on_and_keeps_its_budget(tmp_path):
    path = tmp_path / "book.sqlite"
    for n_fits in (1, 2):
        with ledger(path=path):
            model().fit(X, Y)
        assert_spent(ledger(path=path), n_fits)
    with pytest.raises(ValueError, match=r"^path must hold a ledger of epsilon=11.0, delta=1e-06"):
        ledger(epsilon=11.0, path=path)


def test_threads_count_and_never_overspend():
    with ledger() as book, joblib.parallel_config(backend="threading"):
        GridSearchCV(model(), {"epsilon": [1.0, 1.0]}, cv=3, n_jobs=2).fit(X, Y)
    assert_spent(book, 7)
    with ledger(epsilon=2.0) as book, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(lambda: model().fit(X, Y)) for _ in range(12)]
        errors = [future.exception() for future in futures]
    refused = [error for error in errors if error is not None]
    assert {type(error) for error in refused} == {BudgetExceededError}
    assert_spent(book, 12 - len(refused))
    one_more = gdp_epsilon(DELTA, gdp_mu(1.0, DELTA) * math.sqrt(13 - len(refused)))
    assert book.epsilon_spent <= 2.0 < one_more


def fit_on(path, n_fits=4):
    """Return how many fits were refused, as the exit code of a process."""
    n_refused = 0
    with ledger(epsilon=2.0, path=path):
        for _ in range(n_fits):
            try:
                model().fit(X, Y)
            except BudgetExceededError:
                n_refused += 1
    return n_refused


def forked(function, *arguments):
    """Run a function in a process of its own, which exits with what it returns."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = function(*arguments)
        finally:
            os._exit(code)
    return child


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


IN_FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@IN_FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads of other tests
def test_processes_on_one_file_never_overspend(tmp_path):
    path = tmp_path / "book.sqlite"
    refused = [exit_code(child) for child in [forked(fit_on, path) for _ in range(2)]]
    assert max(refused) <= 4
    n_refused = sum(refused)
    book = ledger(epsilon=2.0, path=path)
    assert_spent(book, 8 - n_refused)
    one_more = gdp_epsilon(DELTA, gdp_mu(1.0, DELTA) * math.sqrt(9 - n_refused))
    assert book.epsilon_spent <= 2.0 < one_more


@IN_FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_died_stays_charged(tmp_path, monkeypatch):
    monkeypatch.setattr(NoiseSource, "gaussian", lambda *_, **__: os._exit(1))
    assert exit_code(forked(fit_on, tmp_path / "book")) == 1
    monkeypatch.undo()
    book = ledger(epsilon=2.0, path=tmp_path / "book")
    assert [row.state for row in book.rows] == ["reserved"]
    assert book.epsilon_spent == pytest.approx(1.0, rel=1e-4)


def test_partial_fit_that_began_outside_is_charged_in_full_once():
    learner = model(solver=OCO(horizon=4), **WITHIN_GROUP).partial_fit(X, Y)
    before = learner.n_iter_
    with ledger(epsilon=0.5), pytest.raises(BudgetExceededError):
        learner.partial_fit(X, Y)
    assert learner.n_iter_ == before
    book = ledger()
    for _ in range(2):
        with book:
            learner.partial_fit(X, Y)
        assert_spent(book, 1)
    with book:  # one that began inside is charged once too
        clone(learner).partial_fit(X, Y).partial_fit(X, Y)
    assert_spent(book, 2)


# --- relations ------------------------------------------------------------------------------------

NAMES = ("add-or-remove", "replace-one", "replace-one-within-group")


def spend(neighbours):
    release = privacy.Release("w", "gaussian", 5.0, max_count=1)
    guarantee = PrivacyGuarantee.from_releases([release], DELTA, relation=neighbours)
    with spending(guarantee, SimpleNamespace(draws=[1]), "audit", guarantee):
        pass


@pytest.mark.parametrize("demand", NAMES)
@pytest.mark.parametrize("neighbours", NAMES)
def test_a_demand_refuses_what_does_not_meet_it(neighbours, demand):
    with ledger(neighbours=demand) as book:
        if Relation(neighbours) <= Relation(demand):
            spend(neighbours)
            mu = 0.4 if neighbours == "add-or-remove" != demand else 0.2
            assert book.guarantee.relation == Relation(demand)
            assert book.epsilon_spent == pytest.approx(gdp_epsilon(DELTA, mu), rel=1e-9)
            assert book.report()["total_epsilon"].tolist() == [book.epsilon_spent]
        else:
            with pytest.raises(ValueError, match=f"says nothing of the neighbours '{demand}'"):
                spend(neighbours)
            assert book.rows == []


MODEL = DPWorstGroupClassifier(4.0, solver=MGR(n_steps=2), data_norm=1.0)
DONE = {
    "fit": lambda: MODEL.fit(X, LABELS, GROUPS),
    "audit": lambda: GroupAudit(4.0, group_labels=[0, 1], random_state=0).run(
        LABELS, LABELS, GROUPS, kind="decisions"
    ),
    # how often it fits is drawn, and secret
    "search": lambda: DPSearchCV(MODEL, {"radius": [1.0]}, epsilon=4.0).fit(X, LABELS, GROUPS),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", DONE)
def test_what_is_done_is_a_line_in_the_log_and_a_failure_none(kind, caplog):
    with caplog.at_level(logging.DEBUG, logger="sklearn_dpwg"):
        promised = DONE[kind]().privacy_
        with pytest.raises(ValueError, match="NaN"):
            MODEL.fit(X * np.nan, LABELS, GROUPS)
    (line,) = [record.getMessage() for record in caplog.records]
    assert (
        f": {kind} of epsilon = {promised.epsilon:g} at delta = 1e-06, {promised.relation}" in line
    )
    assert line.endswith("void for whoever knows the seed") == promised.seeded


KEYS = st.sampled_from("abc")


class Interleaved(RuleBasedStateMachine):
    """Fits that begin and end in any order, in nested ledgers of which one can refuse."""

    def __init__(self):
        super().__init__()
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
        begun = set().union(*(keys for _, _, keys in self.running))
        for keys in self.keys():
            assert keys >= self.needed | begun

    def teardown(self):
        for fit, _, _ in self.running:  # or the garbage collector ends them, after their ledgers
            fit.__exit__(None, None, None)
        for book in reversed(self.books):
            book.__exit__()


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
