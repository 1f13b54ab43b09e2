"""Estimators protect groups by default: nothing visible may follow from true sizes."""

import warnings

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.estimators import learn as module
from sklearn_dpwg.exceptions import (
    PlanExceededError,
)
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import MGR, OCO, OnlineToBatch, PhasedERM
from tests.helpers.partitioned import Partitioned
from tests.helpers.plan_check import assert_releases_match

LABELS = ["a", "b", "c", "empty"]


def records(n=600):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    groups = rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=n)
    y = (X[:, 0] + np.where(groups == "a", 0.3, -0.3) * X[:, 1] > 0).astype(int)
    return X, y, groups


X, Y, GROUPS = records()


def classifier(**parameters):
    known = {"group_labels": LABELS, "data_norm": 1.0, "delta": 1e-4}
    return DPWorstGroupClassifier(**known | {"solver": MGR(n_steps=5)} | parameters)


SOLVERS = (
    "auto",
    MGR(n_steps=5),
    MGR(n_steps=5, sampling_rate=0.2),
    PhasedERM(2),
    OCO(n_rounds=5),
    OnlineToBatch(n_rounds=5),
)


# --- what is said -------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_fit_keeps_its_budget_and_says_what_it_protects(solver):
    model = classifier(solver=solver, random_state=0).fit(X, Y, groups=GROUPS)
    assert model.privacy_.relation == "replace any record, its group included"
    assert 0.99 < model.privacy_.epsilon <= 1.0
    text = " ".join(str(model.privacy_).split())
    assert "one record is replaced by any other record, of whatever group" in text
    assert "which group each record is in" not in text
    assert "the number of records of all groups together" in text
    assert not model.privacy_.groupings
    plan = model.plan_
    assert plan.releases[0].name == "group counts"
    assert plan.guarantee.epsilon == model.privacy_.epsilon
    assert model.count_std_ == pytest.approx(np.sqrt(2.0) * plan.releases[0].noise_multiplier)
    assert plan.problem.group_sizes == tuple(model.group_sizes_.tolist())
    for words in ("Two stages", "group counts: 1 x gaussian", "may be empty", "fixed before"):
        assert words in str(plan)
    assert len(model.group_labels_) == len(model.group_sizes_) == 4


# --- nothing follows from true sizes ------------------------------------------------------------


def same_counts(patch, sizes):
    """Let every count be the same, so that whatever differs follows from the records."""

    def count(release, counts, noise):
        honest(release, counts, noise)
        return sizes

    honest = module.release_sizes
    patch.setattr(module, "release_sizes", count)


def neighbours(X, y, groups):
    """Yield the records, and some whose groups are wholly other ones."""
    yield X, y, groups
    yield X, y, np.full(len(X), "c")
    yield X, y, np.where(np.arange(len(X)) < 1, "b", "empty")
    yield X[::-1], y[::-1], groups[::-1]


def visible(model, caught):
    plan = model.plan_
    shown = (
        plan.releases, plan.schedule, plan.problem, plan.counts, plan.predicted_excess_if_worst,
        plan.remark, plan.n_steps, str(plan),
    )  # fmt: skip
    attributes = sorted(name for name in vars(model) if name.endswith("_"))
    settings = sorted(str(each.message) for each in caught)
    facts = (model.group_sizes_.tolist(), model.count_std_, model.n_iter_, str(model.privacy_))
    return (*map(repr, shown), attributes, settings, *facts)


@pytest.mark.parametrize(
    ("solver", "cuts"),
    [
        (solver, cuts)
        for solver in SOLVERS
        for cuts in (None, [80, 400])
        if cuts is None or not isinstance(solver, OCO | OnlineToBatch)
    ],
)
def test_nothing_visible_follows_from_true_sizes(solver, cuts, monkeypatch):
    same_counts(monkeypatch, (350, 180, 60, 10))
    result = []
    for X, y, groups in neighbours(*records()):
        model = classifier(solver=solver, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data = X, y, groups
            model.fit(*(data if cuts is None else [Partitioned(*data, cuts=cuts)]))
        result.append(visible(model, caught))
    for other in result[1:]:
        assert other == result[0]
    assert any("some groups are so small" in text for text in result[0][9])


def test_true_sizes_that_decide_are_seen(monkeypatch):
    """The test above sees a plan that is made for the true sizes."""

    def true(release, counts, noise):
        return tuple(np.maximum(1, counts).tolist())

    monkeypatch.setattr(module, "release_sizes", true)
    result = [
        visible(classifier(random_state=0).fit(*data), []) for data in neighbours(X, Y, GROUPS)
    ]
    assert result[1] != result[0]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_what_is_drawn_is_what_was_planned(solver, monkeypatch):
    sources = []

    class Kept(NoiseSource):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            sources.append(self)

    monkeypatch.setattr(module, "NoiseSource", Kept)
    model = classifier(solver=solver, random_state=0).fit(X, Y, groups=GROUPS)
    first, second = sources
    assert [draw.release for draw in first.draws] == [model.plan_.releases[0]]
    assert_releases_match(second, model.plan_.second_stage)
    n_draws = sum(release.max_count for release in model.plan_.releases)
    assert len(first.draws) + len(second.draws) == n_draws


def test_counts_have_the_stated_noise():
    """What a fit keeps against the truth: were Δ a number other than √2, or no noise used."""
    groups = np.repeat(np.arange(400), 100)
    known = {"delta": 1e-6, "group_labels": range(400), "solver": PhasedERM(1)}
    model = classifier(epsilon=20.0, **known)
    model.fit(np.zeros((40_000, 1)), groups % 2, groups=groups)
    noise = model.group_sizes_ - 100  # and the shift that brings them to their total
    stated = np.sqrt(2.0) * model.plan_.releases[0].noise_multiplier
    assert 0.82 < noise.std() / stated < 1.18  # five deviations to either side


# --- errors and refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"neighbours": "add-or-remove"}, "neighbours must be one of 'replace-one', 'replace-one-"),
        ({"solver": "ags"}, "solver 'ags' .*neighbours='replace-one-within-group'"),
        ({"solver": "gda"}, "solver 'gda' .*neighbours='replace-one-within-group'"),
        ({"solver": OCO(play="sampled")}, "play of OCO must be 'weighted'"),
        ({"solver": MGR(schedule="paper")}, "schedule of MGR .*='replace-one-within-group'"),
        ({"solver": PhasedERM(schedule="paper")}, "schedule.*='replace-one-within-group'"),
        ({"overlap": "attributes"}, "overlap must .*neighbours='replace-one-within-group'"),
    ],
)
def test_wrong_parameters_cost_nothing(parameters, words):
    with PrivacyLedger(3.0, 1e-3) as ledger:
        with pytest.raises(ValueError, match=words):
            classifier(**parameters).fit(X, Y, groups=GROUPS)
        assert ledger.epsilon_spent == 0.0


@pytest.mark.parametrize(
    "solver", [OCO(horizon=2), OnlineToBatch(horizon=2), PhasedERM(horizon=2)], ids=repr
)
def test_calls_count_groups_once_and_show_no_later_sizes(solver, monkeypatch):
    same_counts(monkeypatch, (350, 180, 60, 10))
    result = []
    for last in (GROUPS, np.full(len(X), "c"), np.where(np.arange(len(X)) < 9, "a", "empty")):
        model = classifier(solver=solver, random_state=0)
        model.partial_fit(X, Y, groups=GROUPS).partial_fit(X, Y, groups=last)
        assert model.n_iter_ == model.plan_.n_steps
        result.append(visible(model, []))
    assert result[1] == result[0] == result[2]
    problem = model.plan_.problem
    assert problem.n_records == 2 * len(X)
    assert problem.group_sizes == tuple(2 * model.group_sizes_)
    assert problem.is_active.tolist() == [True, True, False, False]
    assert 0.99 < model.privacy_.epsilon <= 1.0


def test_a_solver_that_spends_more_for_some_counts_is_refused(monkeypatch):
    """Whatever a second stage costs must not follow from the counts."""
    honest, calls = MGR._plan, []

    def louder(solver, problem, budget):
        calls.append(problem)
        plan = honest(solver, problem, budget)
        if problem.group_sizes[0] == problem.group_sizes[1]:  # before the counts
            return plan
        cheaper = [release.scaled(0.99) for release in plan.releases]
        return type(plan)(**{**vars(plan), "releases": tuple(cheaper)})

    monkeypatch.setattr(MGR, "_plan", louder)
    X, y, groups = records(800)
    with pytest.raises(PlanExceededError):
        classifier(random_state=0).fit(X, y, groups=groups)
