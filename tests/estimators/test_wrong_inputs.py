"""What a newcomer passes by mistake: one sentence that names it, before anything is spent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.exceptions import (
    DataNormWarning,
    GroupsWarning,
)
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP

N = 200
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (N, 2))
FRAME = pd.DataFrame(X, columns=["u", "v"])
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.tile(["a", "b"], N // 2)
DAYS = pd.date_range("2020-01-01", periods=N)
TEXT = np.tile(["secret", "hidden"], N // 2)
MIXED = np.array([1, "secret"] * (N // 2), dtype=object)


DATES, WORDS = "X must hold numbers, got dates or times in ", "X must hold numbers, got strings in "
NUMBERS = "y must hold numbers for a regressor, got "
# what is wrong, and the sentence that names it
ROWS = [
    (np.column_stack([DAYS, DAYS]), f"{DATES}column 0: make numbers of them by a public range"),
    (FRAME.assign(day=DAYS), f"{DATES}column 'day': "),
    (FRAME.assign(job=pd.Categorical(TEXT)), f"{WORDS}column 'job': encode them with public cat"),
    (pl.DataFrame({"job": TEXT}), f"{WORDS}column 'job': "),
    ([[0.5, "secret"]] * N, f"{WORDS}column 1: "),
    (np.column_stack([X, X * np.nan]), "Input X contains NaN in column 2, row 0: "),
    (FRAME.assign(w=pd.array([pd.NA] * N)), "Input X contains NaN in column 'w', row 0: "),
    (pl.DataFrame({"w": [None, *X[1:, 1]]}), "Input X contains NaN in column 'w', row 0: "),
    (X + 1j, "X must hold numbers, got complex numbers in column 0: Complex data not supported"),
    (pd.DataFrame(X, columns=["u", "u"]), "X must have a name of its own for each column, got 'u'"),
]
TARGETS = [
    (TEXT, f"{NUMBERS}strings: for classes use DPWorstGroupClassifier."),
    (DAYS, f"{NUMBERS}dates or times: make numbers of them, with target_bounds in the"),
    (X[:, 0] + 1j, f"{NUMBERS}complex numbers: "),
]
CLASSES = [
    (MIXED, "classes must be all numbers or all strings, got a mixture in y."),
    ([f"person {i}" for i in range(N)], "y must hold classes, got 200 different ones in 200 rec"),
    (np.tile(["a", "a ", "b", "b"], N // 4), "y must hold classes that differ, got 'a"),
]
LABELS = [
    (csr_array(Y[:, None]), "groups must be one label a record, or a table with a row "),
    (X[:, 0], "groups must be labels that records share, got 200 different ones in 200 rec"),
    (X[:, 0].repeat(6)[:N], "groups must be labels that records share, got 34 different ones"),
    (np.arange(N), "groups must be labels that records share, got 200 different ones in 200 rec"),
]


def classifier(**parameters):
    public = {"data_norm": 1.0, "delta": 1e-4, "solver": MGR(n_steps=3)} | WITHIN_GROUP
    return DPWorstGroupClassifier(**public | parameters)


def regressor(**parameters):
    public = {"data_norm": 1.0, "target_bounds": (-1, 1), "delta": 1e-4, "solver": MGR(n_steps=3)}
    return DPWorstGroupRegressor(**public | parameters)


def refused(model, draws, sentence, rows=X, targets=Y, groups=GROUPS):
    with warnings.catch_warnings():
        # scikit-learn's on the way, of many classes
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        with pytest.raises(ValueError, match=r"\.$") as caught:
            model.fit(rows, targets, groups)
    assert str(caught.value).startswith(sentence)
    assert not draws()


@pytest.mark.parametrize(
    ("make", "what", "cases"),
    [
        (classifier, "rows", ROWS),
        (regressor, "groups", LABELS),
        (classifier, "targets", CLASSES),
        (regressor, "targets", TARGETS),
    ],
    ids=["rows", "groups", "classes", "targets"],
)
def test_data(draws, make, what, cases):
    for wrong, sentence in cases:
        refused(make(), draws, sentence, **{what: wrong})


@pytest.mark.parametrize(
    ("make", "parameters", "sentence"),
    [
        (classifier, {"classes": [0, 0, 1]}, "classes must name each class once, got 0 twice."),
        (classifier, {"classes": np.array(["u", "u"])}, "classes must name each class once, got '"),
        (classifier, {"prior": [0.9, 0.9]}, "prior must sum to 1 where its weights are below 1"),
        (regressor, {"prior": [0.1, 0.1]}, "prior must sum to 1 where its weights are below 1"),
    ],
)
def test_parameters(draws, make, parameters, sentence):
    refused(make(**parameters), draws, sentence)
    with pytest.raises(ValueError, match=rf"^{sentence}.*\.$|^{sentence}$"):
        make(**parameters).plan(group_sizes={"a": 100, "b": 100}, n_features=2)


def test_what_is_stated_is_taken():
    labels = np.arange(N)
    model = classifier(group_labels=labels.tolist()).fit(X, Y, labels)
    assert len(model.group_labels_) == N
    blanks = np.tile(["a", "a ", "b", "b"], N // 4)
    assert classifier().fit(X, Y, blanks).group_labels_.tolist() == ["a", "b"]
    assert classifier(classes=["a", "b"]).fit(X, blanks, GROUPS).classes_.tolist() == ["a", "b"]
    assert len(classifier().fit(X, Y, np.arange(N) % 20 + 0.5).group_labels_) == 20
    assert len(classifier().fit(X, Y, np.arange(N) % 100).group_labels_) == 100
    assert classifier(prior=[3, 1]).fit(X, Y, GROUPS).plan_.problem.prior == (0.75, 0.25)


# --- a target among the groups ------------------------------------------------------------------

TABLE = pd.DataFrame(
    {"age": X[:, 0], "sex": GROUPS, "outcome": np.tile(["yes", "yes", "no"], 67)[:N]}
)
MATRIX = np.column_stack([Y, np.where(GROUPS == "a", 3, 2)])


@pytest.mark.parametrize(
    ("targets", "groups", "rows", "group_by"),
    [
        (Y, Y, X, None),
        (TABLE["outcome"], TABLE["outcome"].copy(), X, None),
        (TABLE["outcome"], TABLE[["sex", "outcome"]], X, None),
        (pd.Series(Y, name="outcome"), None, FRAME.assign(outcome=Y), ["outcome"]),
    ],
)
def test_a_target_among_the_groups_warns_before_the_first_release(
    draws, targets, groups, rows, group_by
):
    # as every warning here, it is raised
    with pytest.raises(GroupsWarning, match=r"^groups hold the target y: the groups are pub"):
        classifier(group_by=group_by).fit(rows, targets, groups)
    assert not draws()


def test_no_warning_follows_from_values():
    # as classes and labels are the same words by chance, and which records agree is a secret
    classifier().fit(X, Y, Y.copy())
    classifier().fit(X, np.array(TABLE["outcome"]), list(TABLE["outcome"]))
    classifier().fit(X, MATRIX[:, 0], MATRIX[:, 1])
    classifier().fit(X, TABLE["outcome"], TABLE["sex"])
    regressor().fit(X, TABLE["age"], TABLE["sex"])
    classifier().fit(X, pl.Series(Y), pl.Series(GROUPS))  # both are named ""


# --- bounds that nobody chose -------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1e9])
def test_target_bounds_must_be_said_where_there_is_noise(draws, epsilon):
    model = DPWorstGroupRegressor(epsilon, data_norm=1.0, solver=MGR(n_steps=3), **WITHIN_GROUP)
    message = r"^target_bounds must be said at a finite epsilon, as \(low, high\), .* got None\.$"
    for call in (
        lambda: model.fit(X, 100.0 * X[:, 0], GROUPS),
        lambda: model.plan(group_sizes=[100, 100], n_features=2),
        lambda: model.set_params(solver="oco").partial_fit(X, 100.0 * X[:, 0], GROUPS),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not draws()
    with pytest.raises(ValueError, match=r"^epsilon must be positive"):
        model.set_params(epsilon=-1.0).fit(X, 100.0 * X[:, 0], GROUPS)


def test_without_privacy_target_bounds_are_the_range_of_y():
    y = 5_000.0 + 1_000.0 * X[:, 0]
    model = DPWorstGroupRegressor(float("inf"), data_norm=1.0, radius=20.0)
    stated = model.set_params(target_bounds=(y.min(), y.max())).fit(X, y, GROUPS).coef_
    left_open = model.set_params(target_bounds=None).fit(X, y, GROUPS)
    assert np.array_equal(left_open.coef_, stated)
    assert left_open.score(X, y) > 0.99
    constant = model.fit(X, np.full(len(X), 1e9), GROUPS)
    assert np.allclose(constant.predict(X), 1e9)


@pytest.mark.parametrize("begin", ["fit", "partial_fit", "fit_oracle"])
def test_an_unsaid_data_norm_warns_before_the_first_release(draws, begin):
    solver = "oco" if begin != "fit" else MGR(n_steps=3)
    model = DPWorstGroupClassifier(solver=solver, delta=1e-3, random_state=0, **WITHIN_GROUP)
    data = (X, Y, GROUPS)
    facts = {"group_sizes": {"a": 100, "b": 100}, "n_features": 2, "classes": [0, 1]}
    model.plan(**facts)
    calls = {
        "fit": lambda: model.fit(*data),
        "partial_fit": lambda: model.partial_fit(*data),
        "fit_oracle": lambda: model.fit_oracle(GeneratorOracle(lambda *args: None), **facts),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DataNormWarning)
        with pytest.raises(DataNormWarning, match=r"^data_norm was left open and is taken as 1: "):
            calls[begin]()
        assert not draws()
        stated = clone(model).set_params(data_norm=1.0, solver=MGR(n_steps=3)).fit(*data)
        warnings.simplefilter("ignore", DataNormWarning)
        unsaid = clone(model).set_params(solver=MGR(n_steps=3)).fit(*data)
    assert unsaid.data_norm is None
    assert np.array_equal(stated.coef_, unsaid.coef_)
