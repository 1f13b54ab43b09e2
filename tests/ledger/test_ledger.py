"""Fits counted, refused and reported by a ledger."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from sklearn import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.ledger.file import total_epsilon
from sklearn_dpwg.ledger.ledger import active_ledgers, spending
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.solvers import OCO
from tests.helpers.ledger_cases import DELTA, X, Y, assert_spent, ledger, model, ones


def test_plain_and_cloned_fits_are_counted_inside_alone():
    with ledger() as book:
        pass
    fitted = model().fit(X, Y)
    assert_spent(book, 0)
    assert active_ledgers() == []
    with ledger() as book:
        fitted.fit(X, Y)
        clone(fitted).fit(X, Y)
        make_pipeline(BoundedScaler(), model()).fit(X, Y)
    assert_spent(book, 3)
    fitted.fit(X, Y)
    assert_spent(book, 3)
    with ledger() as book:
        make_pipeline(DPStandardScaler(delta=DELTA), model()).fit(X, Y)
    assert_spent(book, 2)
    assert [row.what for row in book.rows] == ["DPStandardScaler", "DPWorstGroupRegressor"]


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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more")
def test_searches_that_overspend_stop():
    search = GridSearchCV(model(), {"epsilon": [1.0]}, cv=3)
    with ledger(epsilon=1.3) as book, pytest.raises(BudgetExceededError):
        search.fit(X, Y)
    assert book.epsilon_spent <= 1.3


@pytest.mark.parametrize("n_draws", [0, 1])
def test_a_fit_that_fails(n_draws):
    releases = calibrate([Release("value", "gaussian", 1.0, max_count=1)], Budget(1.0, DELTA))
    guarantee = PrivacyGuarantee.from_releases(releases, Budget(1.0, DELTA))
    noise = NoiseSource(releases=releases)
    with ledger() as book:

        def fail():
            with spending(guarantee, noise, "fit", guarantee):
                assert [row.state for row in book.rows] == ["reserved"]
                for _ in range(n_draws):
                    noise.gaussian(0.0, sensitivity=1.0, release=releases[0])
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert_spent(book, n_draws)


@pytest.mark.parametrize(
    ("parameters", "targets", "error", "said"),
    [
        ({}, Y * np.nan, ValueError, "NaN"),
        ({"epsilon": -1.0}, Y, ValueError, "epsilon must be positive"),
        ({"epsilon": math.inf}, Y, BudgetExceededError, "epsilon=inf"),
    ],
)
def test_wrong_input_and_fits_without_privacy_cost_nothing(parameters, targets, error, said):
    with ledger() as book, pytest.raises(error, match=said):
        model(**parameters).fit(X, targets)
    assert_spent(book, 0)


def test_nested_ledgers_all_count_and_those_of_one_file_once(tmp_path):
    with ledger() as outer, ledger(epsilon=1.2) as inner:
        model().fit(X, Y)
        with pytest.raises(BudgetExceededError):
            model().fit(X, Y)
    assert_spent(outer, 1)
    assert_spent(inner, 1)
    with ledger(path=tmp_path / "book") as outer:
        with ledger(path=tmp_path / "book") as inner:
            model().fit(X, Y)
        assert_spent(inner, 1)
        model().fit(X, Y)
        assert_spent(outer, 2)
    assert active_ledgers() == []


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
    for n_fits in (1, 2):
        with ledger(path=path):
            model().fit(X, Y)
        assert_spent(ledger(path=path), n_fits)
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


def test_guarantees_for_unlike_numbers_of_records_are_not_counted_together():
    guarantee = model().fit(X, Y).privacy_
    assert total_epsilon([guarantee] * 2, DELTA) > guarantee.epsilon
    several = guarantee.for_records(2)
    assert total_epsilon([several] * 2, DELTA) > several.epsilon
    with pytest.raises(ValueError, match=r"for equally many records of a person, got \[1, 2\]"):
        total_epsilon([guarantee, several], DELTA)


def test_a_total_that_anyone_can_compute_again():
    with ledger() as book:
        cross_validate(model(), X, Y, cv=2)
        DPStandardScaler(delta=DELTA, epsilon=0.5).fit(X)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    for row in book.rows:
        accountant.compose(row.guarantee.events[0])
    assert book.epsilon_spent == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)


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
    frame = pd.DataFrame({"x": X[:, 0], "sex": half(X), "age": np.arange(len(X)) % 3})
    with ledger(path=tmp_path / "ledger") as book:
        for group_by in ("sex", ["sex", "age"], half):
            model(group_by=group_by).fit(frame, Y)
        model(group_by=None).fit(frame, Y, groups=frame["sex"])
        model(group_by=None).fit(X, Y, groups=half(X))
    names = ["column 'sex'", "columns 'sex', 'age' together", "function half", "column 'sex'",
             "groups passed to fit"]  # fmt: skip
    assert [row.guarantee.groupings for row in book.rows] == [(name,) for name in names]
    total = book.guarantee
    assert total.groupings == tuple(dict.fromkeys(names))
    assert total.epsilon == book.epsilon_spent
    said = " ".join(str(total).split())
    assert all(name in said for name in names)
    assert "replaced by one of the same group, by each of these groupings; a replacement" in said


def half(rows):
    return np.arange(len(rows)) % 2
