"""Folds by public facts: one replaced record moves no other, whatever it holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_validate

from sklearn_dpwg.model_selection import PublicKFold

PEOPLE = pd.DataFrame(
    {"id": np.repeat(np.arange(30), 2), "group": list("aab") * 20, "income": np.arange(60.0)}
)
Y = np.arange(60) % 7 > 3


def held_out_by(folds, X=PEOPLE, y=None, groups=None):
    parts = list(folds.split(X, y, groups))
    assert all(sorted([*train, *test]) == list(range(len(X))) for train, test in parts)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(len(X)))
    return [test.tolist() for _, test in parts]


@settings(deadline=None)
@given(st.data())
def test_folds_are_as_large_and_hold_every_group_or_are_refused(data):
    n_splits = data.draw(st.integers(2, 5))
    sizes = data.draw(st.lists(st.integers(n_splits, 12), min_size=1, max_size=4))
    groups = np.array(data.draw(st.permutations(np.repeat(np.arange(len(sizes)), sizes).tolist())))
    seed = data.draw(st.none() | st.integers(0, 9))
    folds = PublicKFold(n_splits, shuffle=seed is not None, random_state=seed)
    result = held_out_by(folds, groups)
    assert np.ptp([len(test) for test in result]) <= 1
    if all(set(groups[test]) == set(groups) for test in result):
        assert held_out_by(folds, groups, groups=groups) == result
    else:
        with pytest.raises(ValueError, match="folds must each hold records of every group"):
            held_out_by(folds, groups, groups=groups)


VALUES = st.none() | st.floats() | st.text() | st.booleans()


@settings(deadline=None)
@given(st.sampled_from([None, "id"]), st.booleans(), st.integers(0, 59), VALUES)
@example(None, False, 0, float("nan"))
def test_one_replaced_record_moves_nobody(key, shuffle, place, value):
    """It keeps its key where folds follow keys, and no more: not its group."""
    other = PEOPLE.astype(object)
    for name in {"id", "group", "income"} - {key}:
        other.loc[place, name] = value
    folds = PublicKFold(3, key=key, shuffle=shuffle, random_state=3 if shuffle else None)
    assert held_out_by(folds, other, [value] * 60) == held_out_by(folds, PEOPLE, Y)


def fold_by_id(X):
    result = PublicKFold(3, key="id").split(X)
    return {one: fold for fold, (_, test) in enumerate(result) for one in X["id"].iloc[test]}


@settings(deadline=None)
@given(st.sets(st.integers(0, 29), max_size=20))
def test_by_key_nobody_moves_when_others_leave(gone):
    everyone, rest = fold_by_id(PEOPLE), PEOPLE[~PEOPLE["id"].isin(gone)]
    some_fold = set(everyone.values()) - {everyone[one] for one in rest["id"]}
    if not some_fold:
        assert fold_by_id(rest).items() <= everyone.items()
        assert fold_by_id(rest.sample(frac=1.0, random_state=0)) == fold_by_id(rest)


def test_a_key_has_the_same_fold_in_every_form_and_keeps_its_rows_together():
    by_column = held_out_by(PublicKFold(3, key="id"))
    assert all(PEOPLE["id"].iloc[test].value_counts().eq(2).all() for test in by_column)
    # as floats, if there is one 0.5 anywhere in the array
    for kind in (int, float, str, object):
        array = PEOPLE[["id"]].to_numpy().astype(kind)
        assert held_out_by(PublicKFold(3, key=0), array) == by_column
    assert held_out_by(PublicKFold(3, key=lambda X: X.index), PEOPLE.set_index("id")) == by_column
    shuffled = PublicKFold(3, key="id", shuffle=True, random_state=0)
    assert held_out_by(shuffled) == held_out_by(shuffled) != by_column
    # a fold may not change from one version or machine to another
    assert [fold_by_id(PEOPLE)[one] for one in range(8)] == [1, 2, 2, 1, 1, 2, 1, 1]


@pytest.mark.parametrize(
    ("parameters", "X", "groups", "message"),
    [
        ({"n_splits": 21}, PEOPLE, PEOPLE["group"], "n_splits=21 folds .* 'a' has 40, and 14 fold"),
        ({"n_splits": 61}, PEOPLE, None, "n_splits=61 folds .* X has 60, and 60 fold"),
        ({"key": "group"}, PEOPLE, None, r"n_splits=5 folds .* X has 60, and \d fold"),
        ({"key": "name"}, PEOPLE, None, "key must be found for every record: .* 'name'"),
        ({"key": "id"}, PEOPLE.replace(7, None), None, "key must be found .* NaN or None"),
        ({"group_by": "group"}, PEOPLE, Y, "groups were passed and group_by is set"),
        ({"n_splits": 1}, PEOPLE, None, "n_splits=1"),
    ],
)
def test_what_is_refused(parameters, X, groups, message):
    with pytest.raises(ValueError, match=message):
        list(PublicKFold(**parameters).split(X, None, groups))


class Listener(ClassifierMixin, BaseEstimator):
    """Tells which records each of its fits was made of."""

    active = []  # noqa: RUF012

    def __init__(self, power=1):
        self.power = power

    def fit(self, X, y):
        self.classes_ = np.array([False, True])
        self.active.append(X["income"].tolist())
        return self

    def predict_proba(self, X):
        positive = np.asarray(X["income"]) / 60.0
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X):
        return np.ones(len(X), dtype=bool)


USES = {
    "GridSearchCV": lambda cv: GridSearchCV(Listener(), {"power": [1, 2]}, cv=cv).fit,
    "CalibratedClassifierCV": lambda cv: CalibratedClassifierCV(Listener(), cv=cv).fit,
    "cross_validate": lambda cv: lambda X, y: cross_validate(Listener(), X, y, cv=cv),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize(
    ("cv", "moves"),
    [
        (5, True),
        (PublicKFold(5), False),
        (PublicKFold(5, group_by="group"), False),
        (PublicKFold(5, key="id"), False),
    ],
)
def test_one_replaced_label_moves_others_into_other_fits_or_not(name, cv, moves):
    active = []
    for y in (Y, np.where(np.arange(60) == 50, ~Y, Y)):
        Listener.active = []
        USES[name](cv)(PEOPLE, y)
        active.append(Listener.active)
    assert len(active[0]) >= 5
    assert (active[0] != active[1]) is moves
