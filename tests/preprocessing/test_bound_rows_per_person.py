"""At most k rows of each person, whatever the rows hold."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare

from sklearn_dpwg.preprocessing import bound_rows_per_person

rng = np.random.default_rng(0)
PERSON = rng.integers(0, 40, 300)
X = rng.uniform(-0.5, 0.5, (300, 2))
Y = np.arange(300) % 2
GROUPS = np.where(rng.random(300) < 0.5, "a", "b")

seeded = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")


@pytest.mark.parametrize("k", [1, 3, 1000])
def test_as_many_rows_as_are_allowed(k):
    rows = bound_rows_per_person(X, Y, GROUPS, person=PERSON, k=k)
    before, after = (pd.Series(each).value_counts() for each in (PERSON, PERSON[rows.kept]))
    assert (after == before.clip(upper=k).reindex(after.index)).all()
    assert len(after) == len(before)
    assert (np.diff(rows.kept) > 0).all()
    np.testing.assert_array_equal(rows.X, X[rows.kept])
    np.testing.assert_array_equal(rows.y, Y[rows.kept])
    np.testing.assert_array_equal(rows.groups, GROUPS[rows.kept])


@seeded
def test_what_rows_hold_decides_nothing():
    one = bound_rows_per_person(X, Y, GROUPS, person=PERSON, k=2, random_state=3)
    other = bound_rows_per_person(-9 * X, 1 - Y, None, person=PERSON, k=2, random_state=3)
    assert np.array_equal(one.kept, other.kept)


@seeded
def test_every_choice_is_as_likely():
    person = ["a"] * 4 + ["b"] + ["a"]
    counts = np.zeros(6)
    for seed in range(600):
        kept = bound_rows_per_person(X[:6], Y[:6], person=person, k=2, random_state=seed).kept
        counts[kept] += 1
    assert counts[4] == 600
    assert chisquare(counts[[0, 1, 2, 3, 5]]).pvalue > 1e-4


def test_frames_sparse_rows_and_lists():
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(who=PERSON)
    rows = bound_rows_per_person(frame, pd.Series(Y), pd.Series(GROUPS), person="who", k=2)
    assert list(rows.X.columns) == ["u", "v"]
    assert rows.X.index.tolist() == rows.kept.tolist() == rows.y.index.tolist()
    rows = bound_rows_per_person(pl.from_pandas(frame), pl.Series(Y), person="who", k=2)
    np.testing.assert_array_equal(rows.X.to_numpy(), X[rows.kept])
    sparse = bound_rows_per_person(csr_array(X), Y.tolist(), person=PERSON.tolist(), k=2)
    np.testing.assert_array_equal(sparse.X.toarray(), X[sparse.kept])
    assert sparse.groups is None


@pytest.mark.parametrize(
    "changed",
    [
        {"k": 0},
        {"person": PERSON[:9]},
        {"person": "who"},
        {"person": np.where(PERSON == 3, np.nan, PERSON)},
    ],
)
def test_wrong_inputs_are_refused(changed):
    with pytest.raises(ValueError, match=r"^k must|^person must|inconsistent numbers"):
        bound_rows_per_person(**{"X": X, "y": Y, "person": PERSON, "k": 1} | changed)
