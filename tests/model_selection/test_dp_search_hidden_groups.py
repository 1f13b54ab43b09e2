"""Private searches that protect who is in which group."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.problem import LABELS_THAT_OCCUR
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.model_selection import DPSearchCV, fit_then_release
from sklearn_dpwg.model_selection import search as dp_search_cv
from sklearn_dpwg.model_selection.fit_then_release import split
from sklearn_dpwg.model_selection.search import plan_search
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR
from tests.helpers.search_cases import GROUPS, X, Y, search

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("SeededNoiseWarning", "WeakPlanWarning", "NoProtectionWarning")
]
LABELS = ["a", "b", "other"]


def model(**parameters):
    known = {"group_labels": LABELS, "solver": MGR(n_steps=2)}
    return DPWorstGroupClassifier(**known | {"data_norm": 1.0} | parameters)


# --- what is said and what it costs -------------------------------------------------------------


def test_a_search_keeps_its_budget_and_says_what_it_protects():
    result = search(model(), random_state=0).fit(X, Y, GROUPS)
    guarantee = result.privacy_
    assert guarantee.relation == "replace any record, its group included"
    assert guarantee.epsilon == result.plan().guarantee.epsilon <= 2.0
    assert guarantee.groupings == ()
    assert "which group each record is in" not in str(guarantee)
    assert privacy_of(result) == privacy_of(result.best_estimator_) == guarantee
    public = {name for name in vars(result) if name.endswith("_")}
    assert public == {"best_score_", "best_params_", "best_estimator_", "plan_", "privacy_"}
    assert "Counts of the groups are released once" in str(result.plan_)
    assert search(model(), random_state=0).fit(X, Y, GROUPS).best_score_ == result.best_score_


def test_every_draw_was_planned(monkeypatch):
    draws = []
    for name in ("gaussian", "laplace"):
        honest = getattr(NoiseSource, name)

        def watched(self, value, *, sensitivity, release, honest=honest):
            draws.append((np.asarray(value), sensitivity, release))
            return honest(self, value, sensitivity=sensitivity, release=release)

        monkeypatch.setattr(NoiseSource, name, watched)
    monkeypatch.setattr(dp_search_cv, "count_runs", lambda *args: 3)
    result = search(model(), random_state=1).fit(X, Y, GROUPS)
    counts, *others = draws
    assert counts[2] == result.plan_.counts
    assert counts[0].tolist() == [np.sum(label == GROUPS) for label in LABELS]
    assert counts[1] == math.sqrt(2.0)
    scores = [draw for draw in others if draw[2].name == "score"]
    assert len(scores) == 3
    assert len({draw[1] for draw in scores}) == 1  # one count for all candidates
    assert all(draw[2].noise_multiplier == result.plan_.score_multiplier for draw in scores)
    assert sum(draw[2].name == "group counts" for draw in others) == 3  # of the runs' own fits


def test_labels_that_were_found_are_those_of_every_candidate():
    """Whichever records a run is fitted on, and the plan says that they are public."""
    groups = np.where(np.arange(600) == 3, "c", GROUPS)
    result = search(model(group_labels=None), random_state=0).fit(X, Y, groups)
    assert result.best_estimator_.group_labels_.tolist() == ["a", "b", "c"]
    assert LABELS_THAT_OCCUR in result.plan().guarantee.public
    assert LABELS_THAT_OCCUR not in search(model()).plan().guarantee.public


@pytest.mark.parametrize("alike", ["a", "other", "unheard of"])
def test_any_sizes_go_through(alike):
    """Empty groups, labels that are not stated and groups of one record are no errors."""
    groups = np.full(600, alike, dtype=object)
    groups[3], groups[5] = "b", None
    result = search(model(), random_state=0).fit(X, Y, groups)
    assert math.isfinite(result.best_score_)


# --- neighbours that change their group ---------------------------------------------------------

PLAN = plan_search(Budget(1.0, 1e-6), mean_runs=2, count_fraction=0.5)


class Seen:
    """What a search of fixed candidates reads and releases, on counts that are the same for all.

    A record's score is its first column, so any numbers may stand for what a model does to it.
    """

    def __init__(self, monkeypatch):
        unfitted = SimpleNamespace(guarantee=None)
        form = SimpleNamespace(n_features_in_=2, classes_=np.arange(2), group_labels_=[])
        self.counts, self.scores, self.parts = [], [], []
        self.noisy = None
        stands_for = {
            "fit_in_groups": lambda candidate, *_: setattr(candidate, "plan_", unfitted),
            "check_releases": lambda *_: None,
            "learn_nothing": lambda *_: form,
            "record_scores": lambda scoring, fitted, rows, y: self.parts.append(
                rows[:, 1].tolist()
            ),
            "plan_search": lambda *_, **facts: PLAN,
            "count_runs": lambda *_: 2,
        }
        for name, stand_in in stands_for.items():
            monkeypatch.setattr(dp_search_cv, name, stand_in)
        monkeypatch.setattr(DPSearchCV, "_candidate", lambda *_: clone(model()))
        monkeypatch.setattr(NoiseSource, "gaussian", self._gaussian)
        monkeypatch.setattr(NoiseSource, "laplace", self._laplace)

    def _gaussian(self, value, *, sensitivity, release):
        assert release == PLAN.counts
        self.counts.append((np.array(value), sensitivity))
        return self.noisy

    def _laplace(self, value, *, sensitivity, release):
        assert release.noise_multiplier == PLAN.score_multiplier
        self.scores.append((value, sensitivity))
        return value


def small_problem(rng):
    """Return scores, codes and noisy counts; few records, of which any group may have none."""
    n_records, n_groups = int(rng.integers(2, 14)), int(rng.integers(2, 4))
    codes = rng.choice(n_groups, p=rng.dirichlet(np.full(n_groups, 0.6)), size=n_records)
    scores = rng.choice([0.0, 1.0, rng.uniform()], size=n_records)
    noisy = rng.normal(n_records / n_groups, n_records, size=n_groups)
    return scores, codes, noisy


def replay(monkeypatch, seeds):
    """Return by how much neighbours move a score over its sensitivity, and what else differs."""
    seen, ratios, leaks = Seen(monkeypatch), [], set()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        scores, codes, seen.noisy = small_problem(rng)
        labels = [*"abc"][: len(seen.noisy)]
        place = int(rng.integers(len(codes)))
        for which in range(2):
            if which:  # the record becomes any other, mostly of another group
                scores[place], codes[place] = rng.choice([0.0, 1.0]), rng.integers(len(labels))
            rows = np.column_stack([scores, np.arange(len(codes))])
            searched = DPSearchCV(
                model(group_labels=labels), {"radius": [1.0]}, random_state=seed, test_size=0.4,
                scoring=lambda fitted, rows, y: rows[:, 0],
            )  # fmt: skip
            try:
                searched.fit(rows, np.arange(len(codes)) % 2, np.array(labels)[codes])
            except ValueError as error:
                leaks.add(f"an error about {str(error)[:5]}")
                break
        else:
            (one, step), (other, _) = seen.counts[-2:]
            assert step == math.sqrt(2.0)
            if np.linalg.norm(one - other) > step:
                leaks.add("counts")
            if seen.parts[-1] != seen.parts[-2]:
                leaks.add("who is held out")
                continue
            (before, bound), (after, other_bound) = seen.scores[-4], seen.scores[-2]
            if bound != other_bound:
                leaks.add("scale of the noise")
            ratios.append(abs(before - after) / min(bound, other_bound))
    return max(ratios, default=0.0), leaks


def few_noise(monkeypatch, floor=0):
    """Let the floor be low, so that all or some groups are scored on few records."""
    monkeypatch.setattr(type(PLAN), "count_floor", property(lambda plan: floor))
    honest = fit_then_release.release_sizes

    def count(release, counts, noise):
        honest(release, counts, noise)
        sizes = noise.gaussian(counts, sensitivity=math.sqrt(2.0), release=release)
        sizes = np.rint(np.clip(sizes, 1, sum(counts)))
        return tuple(np.maximum(max(1, floor), sizes).astype(int).tolist())

    monkeypatch.setattr(fit_then_release, "release_sizes", count)


@pytest.mark.parametrize("floor", [0, 4, None])
def test_no_neighbour_moves_a_search_by_more_than_its_sensitivity(monkeypatch, floor):
    """At the plan's own floor no group is scored by itself, at 4 some are."""
    if floor is not None:
        few_noise(monkeypatch, floor)
    worst, leaks = replay(monkeypatch, range(200))
    assert not leaks
    assert 0.99 < worst <= 1.0


def test_planted_faults_are_caught(monkeypatch):
    honest = fit_then_release.worst_score

    def true_means(scores, codes, sizes):
        n_held_out = np.bincount(codes, minlength=len(sizes))
        means = np.bincount(codes, weights=scores, minlength=len(n_held_out))
        means = means / np.maximum(1, n_held_out)
        return float(means[n_held_out > 0].min()), honest(scores, codes, sizes)[1]

    def true_scale(plan, codes, n_groups, n_held_out, seed):
        counts, release = np.bincount(codes, minlength=n_groups), plan.counts
        fit_then_release.release_sizes(release, counts.tolist(), NoiseSource(None, [release]))
        return np.maximum(counts * (n_held_out / len(codes)), 0.1)

    with monkeypatch.context() as patch:
        few_noise(patch)
        patch.setattr(fit_then_release, "worst_score", true_means)
        worst, leaks = replay(patch, range(200))
        assert worst > 1.1
        assert not leaks
    with monkeypatch.context() as patch:
        few_noise(patch)
        patch.setattr(dp_search_cv, "release_held_out_sizes", true_scale)
        assert "scale of the noise" in replay(patch, range(50))[1]
    with monkeypatch.context() as patch:
        by_group = lambda codes, _, *how: split(codes, np.arange(codes.max() + 1), *how)  # noqa: E731
        patch.setattr(dp_search_cv, "split", by_group)
        assert "who is held out" in replay(patch, range(50))[1]
