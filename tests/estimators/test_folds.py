"""Folds that lack a group to score are refused before the first fit on them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.estimators.folds_around import check_folds_of_search
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.model_selection import GroupLabelStratifiedKFold
from sklearn_dpwg.solvers import MGR

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("WeakPlanWarning", "DeltaWarning")
]

N = 300
RNG = np.random.default_rng(0)
# sorted by group, so that each of three folds in order holds one group alone
LABELS = np.repeat(["a", "b", "c"], N // 3)
X = np.column_stack([RNG.uniform(-0.5, 0.5, N), np.repeat([-0.5, 0.0, 0.5], N // 3)])
Y = (X[:, 0] > 0).astype(int)
IN_ORDER = KFold(3)
EVERY_GROUP = GroupLabelStratifiedKFold(3)
LACKS = r"^group '[abc]' has 0 of the records to score in fold 0 \(nothing was fitted yet\), fewer"


def place(rows):
    return np.select([rows[:, 1] < -0.3, rows[:, 1] < 0.3], ["a", "b"], "c")


def model(**parameters):
    public = {"solver": MGR(n_steps=2), "data_norm": 1.0, "classes": [0, 1]}
    return DPWorstGroupClassifier(**public | parameters)


SCORER = worst_group_scorer()
BY_PLACE = worst_group_scorer(group_by=place)

# what is called, with which model, folds and scorer
CALLS = {
    "cross_val_score": lambda m, cv, s: cross_val_score(m, X, Y, cv=cv, scoring=s),
    "with jobs": lambda m, cv, s: cross_val_score(m, X, Y, cv=cv, scoring=s, n_jobs=2),
    "several scorers": lambda m, cv, s: cross_validate(
        m, X, Y, cv=cv, scoring={"plain": "accuracy", "worst": s}
    ),
    "learning_curve": lambda m, cv, s: learning_curve(
        m, X, Y, cv=cv, scoring=s, train_sizes=[0.9], error_score="raise"
    ),
    "validation_curve": lambda m, cv, s: validation_curve(
        m, X, Y, cv=cv, scoring=s, param_name="verbose", param_range=[0]
    ),
    "GridSearchCV": lambda m, cv, s: GridSearchCV(m, {"verbose": [0]}, cv=cv, scoring=s).fit(X, Y),
    "RandomizedSearchCV": lambda m, cv, s: RandomizedSearchCV(
        m, {"verbose": [0]}, n_iter=1, cv=cv, scoring={"worst": s}, refit="worst"
    ).fit(X, Y),
}


def refused(call, *, match=LACKS):
    with PrivacyLedger(1000.0, 1e-6) as ledger:
        with pytest.raises(ValueError, match=match):
            call()
        assert not ledger.rows


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("cv", [IN_ORDER, list(IN_ORDER.split(X))], ids=["splitter", "list"])
def test_a_fold_without_a_group_is_refused_before_the_first_fit(name, cv):
    refused(lambda: CALLS[name](model(group_by=place), cv, SCORER))


@pytest.mark.parametrize("name", ["cross_val_score", "GridSearchCV"])
def test_folds_that_hold_every_group_are_scored(name):
    folds = list(EVERY_GROUP.split(X, Y, LABELS))
    with PrivacyLedger(1000.0, 1e-6) as ledger:
        CALLS[name](model(group_by=place), folds, SCORER)
        assert len(ledger.rows) == {"cross_val_score": 3, "GridSearchCV": 4}[name]


def test_a_later_fold_is_named():
    first, second, third = EVERY_GROUP.split(X, Y, LABELS)
    some = second[0], second[1][LABELS[second[1]] != "b"]
    refused(
        lambda: cross_val_score(
            model(group_by=place), X, Y, cv=[first, some, third], scoring=SCORER
        ),
        match=r"^group 'b' has 0 of the records to score in fold 1 \(nothing",
    )


def test_the_groups_of_the_scorer_count_whatever_the_model_is_fitted_on():
    ungrouped = model(group_by=lambda rows: np.ones(len(rows)))
    refused(lambda: cross_val_score(ungrouped, X, Y, cv=IN_ORDER, scoring=BY_PLACE))
    cross_val_score(model(group_by=place), X, Y, cv=IN_ORDER, scoring=worst_group_scorer(
        group_by=lambda rows: np.ones(len(rows)), group_labels=[1.0]
    ))  # fmt: skip


def test_routed_groups():
    calls = (
        lambda cv: cross_validate(
            model(), X, Y, cv=cv, scoring=SCORER, params={"groups": LABELS}, error_score="raise"
        ),
        lambda cv: GridSearchCV(
            model(), {"verbose": [0]}, cv=cv, scoring=SCORER, error_score="raise"
        ).fit(X, Y, groups=LABELS),
        lambda cv: cross_validate(
            make_pipeline(model()), X, Y, cv=cv, scoring=SCORER, params={"groups": LABELS}
        ),
    )
    with config_context(enable_metadata_routing=True):
        for call in calls:
            refused(lambda call=call: call(IN_ORDER))
            refused(lambda call=call: call(LeaveOneGroupOut()))
            call(EVERY_GROUP)


def test_models_inside_meta_estimators():
    inside = CalibratedClassifierCV(model(group_by=place), cv=2)
    refused(lambda: cross_val_score(inside, X, Y, cv=IN_ORDER, scoring=SCORER))


def test_counts_labels_and_what_a_scorer_does_about_them():
    folds, by_place = list(EVERY_GROUP.split(X, Y, LABELS)), model(group_by=place)

    def score(cv=folds, **parameters):
        scorer = worst_group_scorer(**parameters)
        return cross_val_score(by_place, X, Y, cv=cv, scoring=scorer, error_score="raise")

    few = r"^group 'a' has 3[34] of the records to score in fold 0 .*, fewer than min_count=50"
    refused(lambda: score(min_count=50), match=few)
    refused(lambda: score(group_labels=["a", "d"]), match=r"^group 'd' has 0 of the records .* in")
    assert np.isnan(score(cv=IN_ORDER, missing="nan")).all()
    assert np.isfinite(score(cv=IN_ORDER, missing="ignore")).all()
    refused(lambda: score(cv=IN_ORDER, group_labels=["a"]), match=r"^group 'a' has 0 .* in fold 1")
    cross_val_score(by_place, X, Y, cv=IN_ORDER)  # no scorer of groups, nothing to refuse


def test_a_scorer_that_no_groups_reach_is_refused_by_cross_validation_too():
    refused(
        lambda: cross_val_score(model(), X, Y, cv=2, scoring=SCORER),
        match=r"^no groups reached the scorer",
    )


@pytest.mark.parametrize("name", ["cross_val_score", "GridSearchCV"])
@pytest.mark.parametrize("state", [0, "instance", None])
def test_looking_at_folds_does_not_change_them(name, state):
    """Nor what the generator of the process gives afterwards."""
    seen = []

    class Watched(ShuffleSplit):
        def split(self, *args, **named):
            folds = list(super().split(*args, **named))
            seen.append([test.tolist() for _, test in folds])
            return iter(folds)

    def splitter():
        made = np.random.RandomState(3) if state == "instance" else state
        return Watched(2, test_size=0.5, random_state=made)

    kept = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(5)  # noqa: NPY002
        expected = [test.tolist() for _, test in splitter().split(X)]
        after = np.random.random()  # noqa: NPY002
        seen.clear()
        np.random.seed(5)  # noqa: NPY002
        CALLS[name](model(group_by=place), splitter(), SCORER)
        # cross-validation has split when the model is cloned, a search has not
        assert seen[0 if name == "cross_val_score" else -1] == expected
        assert np.random.random() == after  # noqa: NPY002
    finally:
        np.random.set_state(kept)  # noqa: NPY002


FEW = np.where(np.arange(N) < 2, "few", "many")
UNSEEDED = [
    KFold(3, shuffle=True),
    StratifiedKFold(3, shuffle=True),
    RepeatedKFold(n_splits=3, n_repeats=2),
]


def fit_routed(name, cv, groups, scorer=SCORER):
    with config_context(enable_metadata_routing=True):
        if name == "search":
            search = GridSearchCV(model(), {"verbose": [0]}, cv=cv, scoring=scorer)
            return search.fit(X, Y, groups=groups)
        return cross_val_score(model(), X, Y, cv=cv, scoring=scorer, params={"groups": groups})


@pytest.mark.parametrize("name", ["search", "cross_val_score"])
@pytest.mark.parametrize("cv", UNSEEDED, ids=str)
def test_groups_smaller_than_unseeded_folds_are_refused_before_a_fit(name, cv):
    lacks = r"^group 'few' has 2 of the records, too few .*in each of 3 folds.*a seed"
    with PrivacyLedger(epsilon=100.0, delta=1e-6) as ledger:
        with pytest.raises(ValueError, match=lacks):
            fit_routed(name, cv, FEW)
        assert ledger.rows == []
    kept = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(5)  # noqa: NPY002
        after = np.random.random()  # noqa: NPY002
        np.random.seed(5)  # noqa: NPY002
        if name == "search":
            with pytest.raises(ValueError, match=lacks):
                fit_routed(name, cv, FEW)
            assert np.random.random() == after  # noqa: NPY002
    finally:
        np.random.set_state(kept)  # noqa: NPY002


def test_groups_that_unseeded_folds_may_all_hold_are_left_to_the_draw():
    just = np.where(np.arange(N) < 3, "few", "many")
    at_least_two = worst_group_scorer(min_count=2)
    with pytest.raises(ValueError, match="'few' has 3 of the records, too few for min_count=2"):
        fit_routed("search", KFold(3, shuffle=True), just, at_least_two)
    with pytest.raises(ValueError, match="'none' has 0 of the records, too few for min_count=1"):
        fit_routed(
            "search", KFold(3, shuffle=True), LABELS, worst_group_scorer(group_labels=["a", "none"])
        )
    lenient = worst_group_scorer(missing="ignore")
    assert np.isfinite(fit_routed("search", KFold(3, shuffle=True), FEW, lenient).best_score_)
    assert np.isfinite(fit_routed("search", KFold(3, shuffle=True), LABELS).best_score_)
    search = GridSearchCV(model(), {"verbose": [0]}, cv=ShuffleSplit(3), scoring=SCORER)
    check_folds_of_search(search, search.estimator, {"X": X, "y": Y, "params": {"groups": FEW}})


def test_folds_that_can_be_read_once_are_left_to_the_search():
    folds = EVERY_GROUP.split(X, Y, LABELS)
    search = GridSearchCV(model(group_by=place), {"verbose": [0]}, cv=folds, scoring=SCORER)
    assert np.isfinite(search.fit(X, Y).best_score_)
    search.cv = EVERY_GROUP.split(X, Y, LABELS)
    check_folds_of_search(search, search.estimator, {"X": X, "y": Y})
    assert len(list(search.cv)) == 3


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_folds_are_looked_at_once(n_jobs, monkeypatch):
    looked_at = []
    monkeypatch.setattr(type(SCORER), "check_folds", lambda *args: looked_at.append(args))
    folds = list(EVERY_GROUP.split(X, Y, LABELS))
    cross_val_score(model(group_by=place), X, Y, cv=folds, scoring=SCORER, n_jobs=n_jobs)
    assert len(looked_at) == 1


def test_what_only_the_splitter_gets_are_no_groups_to_score():
    persons = np.random.default_rng(0).permutation(N) // 2
    search = GridSearchCV(model(group_by=place), {"verbose": [0]}, cv=GroupKFold(3), scoring=SCORER)
    assert np.isfinite(search.fit(X, Y, groups=persons).best_score_)


def test_other_models_are_scored_as_before():
    found = cross_val_score(LogisticRegression(), X, Y, cv=IN_ORDER, scoring=BY_PLACE)
    assert np.isfinite(found).all()
