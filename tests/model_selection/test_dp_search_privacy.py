"""What a private search releases, how far a record moves it, and what it hides."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.pipeline import make_pipeline

from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.model_selection import search as dp_search_cv
from sklearn_dpwg.model_selection.fit_then_release import (
    noisy_score,
    split,
    worst_score,
)
from sklearn_dpwg.model_selection.search import count_runs, plan_search
from sklearn_dpwg.preprocessing import BoundedScaler
from sklearn_dpwg.privacy import Budget, NoiseSource
from tests.helpers.search_cases import GROUPS, X, Y, model, search

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("SeededNoiseWarning", "WeakPlanWarning", "NoProtectionWarning")
]


def test_a_score_has_the_noise_that_is_paid_for():
    """What a run is compared by, against the worst group's score: 1/4, of 40 records."""
    plan, codes = search().plan(), np.repeat([0, 1], [40, 60])
    scores = np.where(codes == 0, 0.25, 0.75)
    run = partial(
        noisy_score, lambda *_: scores, None, plan.score_multiplier, None, (codes, codes, codes)
    )
    stated = plan.score_multiplier / 40.0
    for released in (None, np.array([40.0, 60.0])):
        errors = [run(released) - 0.25 for _ in range(200)]
        assert 0.65 < np.abs(errors).mean() / stated < 1.35  # five deviations to either side


def test_warnings_do_not_tell_the_number_of_runs(monkeypatch):
    for n_runs in (1, 7):
        monkeypatch.setattr(dp_search_cv, "count_runs", lambda *args, n=n_runs: n)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search(random_state=0).fit(X, Y, GROUPS)
        assert [warning.category for warning in caught] == [SeededNoiseWarning]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_no_record_moves_a_score_by_more_than_its_sensitivity(data):
    n_groups = data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=n_groups, max_size=n_groups))
    codes = np.repeat(np.arange(n_groups), sizes)
    scores = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=len(codes), max_size=len(codes)))
    )
    index = data.draw(st.integers(0, len(codes) - 1))
    values, bounds = [], []

    def seen(self, value, *, sensitivity, release):
        values.append(value)
        bounds.append(sensitivity)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoiseSource, "laplace", seen)
        for replacement in (scores[index], data.draw(st.floats(-9, 9))):
            scores[index] = replacement
            held_out = scores[:, None], scores, codes
            noisy_score(lambda model, X, y: scores, None, 1.0, None, held_out)
    assert abs(Fraction(values[0]) - Fraction(values[1])) <= Fraction(bounds[0])
    assert bounds[0] == bounds[1] == (1.0 + min(sizes) * 2.0**-50) / min(sizes)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_persons_rows_move_a_score_by_no_more_than_so_many_sensitivities(data):
    """In one group or several, and between groups where these are hidden."""
    n_groups, hidden = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=n_groups, max_size=n_groups))
    codes, n = np.repeat(np.arange(n_groups), sizes), sum(sizes)
    ends = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
    scores = np.array(data.draw(st.lists(ends, min_size=n, max_size=n)))
    rows = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))
    others, moved = scores.copy(), codes.copy()
    for row in rows:
        others[row] = data.draw(ends)
        moved[row] = data.draw(st.integers(0, n_groups - 1)) if hidden else codes[row]
    released = None
    if hidden:
        active = np.array(data.draw(st.lists(st.booleans(), min_size=n_groups, max_size=n_groups)))
        released = np.where(active, np.array(sizes) + 0.5, 0.0)
    (one, step), (two, _) = (
        worst_score(*pair, released) for pair in ((scores, codes), (others, moved))
    )
    assert abs(Fraction(one) - Fraction(two)) <= len(rows) * Fraction(step)


@pytest.mark.parametrize("released", [None, np.array([2.0**16])])
def test_no_score_decides_how_others_are_rounded(released, monkeypatch):
    """Behind a power of two, thousands of scores of half a last digit vanish or count twice."""
    n, seen = 2**15, []

    def spy(self, value, *, sensitivity, release):
        seen.append((Fraction(value), Fraction(sensitivity)))
        return value

    monkeypatch.setattr(NoiseSource, "laplace", spy)
    codes = np.zeros(2 * n, dtype=int)
    sums = []
    for first in (1.0, 0.0):
        scores = np.repeat([1.0, 0.51 * n * 2.0**-52], n)
        scores[0] = first
        sums.append(Fraction(np.bincount(codes, weights=scores)[0]))
        held_out = scores[:, None], scores, codes
        noisy_score(lambda *_, scores=scores: scores, None, 1.0, None, held_out, released)
    (one, sensitivity), (other, _) = seen
    assert abs(one - other) <= sensitivity
    assert sums[0] - sums[1] > 1 + n * Fraction(2) ** -50  # the attack is on


@given(st.lists(st.integers(2, 30), min_size=1, max_size=4), st.floats(0.05, 0.5))
def test_parts_are_disjoint_and_hold_every_group(sizes, test_size):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    train, held_out = split(codes, np.arange(len(sizes)), test_size, np.random.default_rng(0))
    assert sorted([*train, *held_out]) == list(range(len(codes)))
    for code, size in enumerate(sizes):
        assert np.count_nonzero(codes[held_out] == code) == math.ceil(test_size * size)


@pytest.mark.parametrize("n_records", [2, 601])
def test_where_groups_are_hidden_who_is_held_out_follows_from_places_alone(n_records):
    (train, held_out), other = (
        split(codes, None, 0.3, np.random.default_rng(5))
        for codes in (np.zeros(n_records, int), np.arange(n_records) % 3)
    )
    assert np.array_equal(train, other[0])
    assert np.array_equal(held_out, other[1])
    assert sorted([*train, *held_out]) == list(range(n_records))
    assert len(held_out) == math.ceil(0.3 * n_records)


def test_nothing_tells_the_number_of_runs(capsys):
    class Listener:
        active = 0

        def setup(self, estimator, context):
            type(self).active += 1

        teardown = on_fit_task_begin = on_fit_task_end = setup

    loud = make_pipeline(BoundedScaler((-1, 1)), model(verbose=True), verbose=True)
    for each in (loud, loud[-1]):
        if hasattr(each, "set_callbacks"):
            each.set_callbacks(Listener())
    search(loud, {"dpworstgroupclassifier__radius": [1.0, 2.0]}, n_iter=8).fit(X, Y, GROUPS)
    assert capsys.readouterr().out == ""
    assert Listener.active == 0
    search(model(verbose=3), {"verbose": [1, 2]}).fit(X, Y, GROUPS)
    assert capsys.readouterr().out == ""


@pytest.mark.audit
@pytest.mark.parametrize("planted", [False, True])
def test_audit_of_the_selection(planted, monkeypatch, capsys):
    """Attack the best of many noisy scores with the record that moves it most."""
    # what a candidate is does not matter to its score
    plan_of_fit = SimpleNamespace(guarantee=None)
    candidate = SimpleNamespace(plan_=plan_of_fit, data_norm=1.0, set_params=lambda **_: None)
    form = SimpleNamespace(n_features_in_=2, classes_=np.arange(2), group_labels_=[])
    for name in ("_candidate", "_in_budget"):
        monkeypatch.setattr(DPSearchCV, name, lambda *_: candidate)
    for name, stand_in in (("fit_in_groups", None), ("learn_nothing", form), ("check_releases", 0)):
        monkeypatch.setattr(dp_search_cv, name, lambda *_, stand_in=stand_in: stand_in)
    monkeypatch.setattr(dp_search_cv, "split", lambda *_: (np.arange(1), np.arange(1, 2)))
    multiplier = 0.2 if planted else 1.0
    plan = plan_search(Budget(1.0, 1e-6), mean_runs=10)
    plan = replace(plan, score_multiplier=multiplier * plan.score_multiplier)
    monkeypatch.setattr(dp_search_cv, "plan_search", lambda *args, **kwargs: plan)
    n_trials, best = 3000, {}
    for score in (0.0, 1.0):
        chosen = search(epsilon=1.0, n_iter=10, scoring=lambda m, X, y, s=score: np.full(len(y), s))
        best[score] = np.array(
            [chosen.fit(X[:2], Y[:2], np.array(["a", "a"])).best_score_ for _ in range(n_trials)]
        )
    bound = 0.0
    for threshold in np.quantile(np.concatenate([*best.values()]), np.linspace(0.02, 0.98, 25)):
        for hits, misses in ((best[1.0] > threshold, best[0.0] > threshold),
                             (best[0.0] <= threshold, best[1.0] <= threshold)):  # fmt: skip
            low = beta.ppf(5e-4, hits.sum(), n_trials - hits.sum() + 1)
            high = beta.ppf(1 - 5e-4, misses.sum() + 1, n_trials - misses.sum())
            if low > 1e-6:
                bound = max(bound, math.log((low - 1e-6) / high))
    with capsys.disabled():
        kind = "planted fault" if planted else "sound code"
        sys.stdout.write(f"\n  private search, {kind}: epsilon >= {bound:.2f}, claimed 1")
    assert (bound > 1.0) is planted


def test_runs_and_candidates_follow_from_no_other_randomness(monkeypatch):
    """Whoever knew who is held out, all that the public generator gives, would know no run."""

    def runs_after(n_public, seed=None):
        """How many runs there are and which candidates they take, without fitting any."""
        asked, drawn = [], []

        def spoil(codes, labels, test_size, rng):
            parts = split(codes, labels, test_size, rng)
            rng.random(n_public)
            return parts

        def count(plan, coins):
            drawn.append([count_runs(plan, coins), *coins.integers(2**32, size=20)])
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("secrets.randbits", lambda bits: asked.append(bits) or 5)
            patch.setattr(dp_search_cv, "split", spoil)
            patch.setattr(dp_search_cv, "count_runs", count)
            with pytest.raises(KeyboardInterrupt):
                search(random_state=seed).fit(X, Y, GROUPS)
        assert asked.count(256) == (seed is None)
        return drawn

    assert runs_after(0) == runs_after(7)
    assert runs_after(0, seed=3) == runs_after(7, seed=3) != runs_after(0, seed=4)
