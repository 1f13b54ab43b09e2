"""What several columns of groups mean: cells, attributes, both, or membership."""

from __future__ import annotations

import math
import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.sources import ParquetSource
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.metrics import group_table, worst_group_score, worst_group_scorer
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.privacy import Relation
from sklearn_dpwg.solvers import GDA, MGR, SOLVERS, Moments
from tests.helpers.relations import WITHIN_GROUP

N = 600
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(N, 3))
GROUPS = pd.DataFrame(
    {
        "race": RNG.choice(["A", "B", "C"], p=[0.6, 0.35, 0.05], size=N),
        "sex": RNG.choice(["f", "m"], size=N),
    }
)
SIGNAL = X[:, 0] + np.where(GROUPS["race"] == "B", 0.5, -0.5) * X[:, 1]
Y = (np.asarray(SIGNAL) > 0).astype(int)
MEMBERS = pd.DataFrame({"old": RNG.random(N) < 0.4, "poor": RNG.random(N) < 0.3})
ATTRIBUTES = [("race", "A"), ("race", "B"), ("race", "C"), ("sex", "f"), ("sex", "m")]


def classifier(**parameters):
    given = {"solver": MGR(n_steps=4), "random_state": 0, "data_norm": 1.0} | WITHIN_GROUP
    return DPWorstGroupClassifier(**(given | parameters))


def learned(model):
    return np.concatenate([model.coef_.ravel(), model.intercept_, model.group_weights_])


def test_every_value_of_a_column_is_a_group():
    model = classifier(overlap="attributes").fit(X, Y, groups=GROUPS)
    assert list(model.group_labels_) == ATTRIBUTES
    counts = [(GROUPS[name] == value).sum() for name, value in ATTRIBUTES]
    assert model.group_sizes_.tolist() == counts
    assert model.group_weights_.shape == (5,)
    assert model.plan_.problem.n_records == N
    assert model.privacy_.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    assert "in exactly the same ones" in " ".join(model.privacy_.public)
    # arrays have places for names, which says nothing else of the records
    other = classifier(overlap="attributes").fit(X, Y, groups=GROUPS.to_numpy())
    assert next(iter(other.group_labels_)) == (0, "A")
    np.testing.assert_array_equal(learned(model), learned(other))


def test_both_adds_intersections_of_a_public_size():
    model = classifier(overlap="both").fit(X, Y, groups=GROUPS)
    cells = GROUPS.value_counts()
    large = sorted(tuple(zip(GROUPS, cell, strict=True)) for cell in cells.index[cells >= 36])
    assert 4 <= len(large) < len(cells)
    assert list(model.group_labels_) == [*ATTRIBUTES, *large]
    assert model.plan_.problem.cells.most_groups == 3


def test_membership_may_overlap_and_leave_people_out():
    with pytest.warns(UngroupedWarning, match=r"^\d+ of 600 records are in no group, so that"):
        model = classifier(overlap="membership").fit(X, Y, groups=MEMBERS)
    assert list(model.group_labels_) == ["old", "poor"]
    assert model.group_sizes_.tolist() == MEMBERS.sum().tolist()
    assert model.plan_.problem.n_records == N


@pytest.mark.parametrize("overlap", ["attributes", "both"])
@pytest.mark.parametrize("groups", [GROUPS["race"], GROUPS[["race"]], GROUPS["race"].tolist()])
def test_one_attribute_is_the_fit_of_its_groups(overlap, groups):
    plain = classifier().fit(X, Y, groups=GROUPS["race"])
    model = classifier(overlap=overlap).fit(X, Y, groups=groups)
    assert list(model.group_labels_) == ["A", "B", "C"]
    assert model.plan_ == plain.plan_
    np.testing.assert_array_equal(learned(model), learned(plain))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("overlap", ["attributes", "both"])
def test_one_attribute_is_planned_as_its_groups_are_by_every_solver(solver, overlap):
    epsilon = math.inf if solver == "exact" else 1.0
    facts = {"target_bounds": (-1, 1), "data_norm": 1.0, "solver": solver, "epsilon": epsilon}
    facts |= WITHIN_GROUP
    sizes = {"group_sizes": GROUPS["race"].value_counts(), "n_features": 3}
    plain = DPWorstGroupRegressor(**facts).plan(**sizes)
    assert DPWorstGroupRegressor(**facts, overlap=overlap).plan(**sizes) == plain


@pytest.mark.parametrize("solver", ["auto", MGR(n_steps=4), GDA(n_steps=4)])
def test_membership_that_happens_to_be_disjoint_is_the_fit_of_its_groups(solver):
    plain = classifier(solver=solver).fit(X, Y, groups=GROUPS["race"])
    members = pd.DataFrame({name: GROUPS["race"] == name for name in "CBA"})
    model = classifier(solver=solver, overlap="membership").fit(X, Y, groups=members)
    assert model.plan_.problem.group_sizes == plain.plan_.problem.group_sizes[::-1]
    other = classifier(solver=solver, overlap="membership", group_labels=list("ABC"))
    other.fit(X, Y, groups=members)
    assert other.group_sizes_.tolist() == plain.group_sizes_.tolist()
    # the same draws, and cells in another order
    np.testing.assert_allclose(learned(other), learned(plain), rtol=1e-6)


def test_plan_is_that_of_the_fit_from_counts_of_cells():
    for overlap in ("attributes", "both"):
        model = classifier(overlap=overlap).fit(X, Y, groups=GROUPS)
        assert model.plan(group_sizes=GROUPS.value_counts(), n_features=3) == model.plan_
        counts = dict(GROUPS.value_counts())
        by_place = model.plan(group_sizes=counts, n_features=3)
        assert by_place.problem.cells.sizes == model.plan_.problem.cells.sizes
    with pytest.warns(UngroupedWarning):
        model = classifier(overlap="membership").fit(X, Y, groups=MEMBERS)
    with pytest.warns(UngroupedWarning):
        found = model.plan(group_sizes=MEMBERS.value_counts(), n_features=3)
    assert found == model.plan_


@pytest.mark.parametrize("overlap", ["attributes", "both"])
def test_plan_takes_cells_where_labels_of_groups_are_stated(overlap):
    stated = ATTRIBUTES[::-1]
    model = classifier(overlap=overlap, group_labels=stated).fit(X, Y, groups=GROUPS)
    assert model.plan(group_sizes=GROUPS.value_counts(), n_features=3) == model.plan_


@pytest.mark.parametrize(
    ("sizes", "stated", "message"),
    [
        ([300, 300], ATTRIBUTES, "^group_sizes must name the cell of each size where groups overl"),
        (
            dict.fromkeys(product("yn", "yn"), 9),
            list(product(["a", "b"], "yn")),
            "^group_sizes must name the columns of its cells, as the index of groups.value_counts",
        ),
    ],
)
def test_sizes_that_are_not_of_cells_are_refused_in_a_sentence(sizes, stated, message):
    model = classifier(overlap="attributes", group_labels=stated)
    with pytest.raises(ValueError, match=message):
        model.plan(group_sizes=sizes, n_features=3)


def test_cells_of_a_value_each_are_cells():
    # countries and cities, of which each is in one country
    cells = {("A", "a"): 100, ("A", "b"): 200, ("B", "c"): 100}
    plan = classifier(overlap="attributes").plan(group_sizes=cells, n_features=3)
    assert plan.problem.group_sizes == (300, 100, 100, 200, 100)


def test_stated_labels_are_all_groups_in_their_order():
    stated = [*ATTRIBUTES[::-1], (("race", "A"), ("sex", "f"))]
    model = classifier(overlap="both", group_labels=stated).fit(X, Y, groups=GROUPS)
    assert list(model.group_labels_) == stated
    with pytest.raises(ValueError, match=r"^groups must hold labels of group_labels="):
        classifier(overlap="attributes", group_labels=stated[1:]).fit(X, Y, groups=GROUPS)
    with pytest.raises(
        ValueError, match=r"^group_labels contains \('race', 'D'\), a group without"
    ):
        classifier(overlap="both", group_labels=[*stated, ("race", "D")]).fit(X, Y, groups=GROUPS)


def test_groups_come_from_columns_of_the_rows():
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    frame["sex"], frame["old"] = (GROUPS["sex"] == "f").astype(float), MEMBERS["old"].astype(float)
    model = classifier(overlap="attributes", group_by=["sex", "old"]).fit(frame, Y)
    assert list(model.group_labels_) == [(a, b) for a in ("sex", "old") for b in (0.0, 1.0)]
    unnamed = classifier(overlap="attributes", group_by=[3, 4]).fit(frame.to_numpy(), Y)
    assert list(unnamed.group_labels_) == list(product((3, 4), (0.0, 1.0)))
    np.testing.assert_array_equal(learned(model), learned(unnamed))
    members = classifier(overlap="membership", group_by=["sex", "old"])
    with pytest.warns(UngroupedWarning):
        members.fit(frame, Y)
    assert members.group_sizes_.tolist() == frame[["sex", "old"]].sum().tolist()


def test_exact_and_regression_know_overlaps():
    exact = classifier(overlap="attributes", epsilon=math.inf).fit(X, Y, groups=GROUPS)
    assert exact.group_weights_.sum() == pytest.approx(1.0)
    model = DPWorstGroupRegressor(
        solver=Moments(), overlap="attributes", target_bounds=(-1, 1), data_norm=1.0,
        random_state=0, **WITHIN_GROUP,
    )  # fmt: skip
    model.fit(X, np.asarray(SIGNAL), groups=GROUPS)
    assert list(model.group_labels_) == ATTRIBUTES
    other = pickle.loads(pickle.dumps(model))
    assert other.plan_ == model.plan_
    assert clone(model).overlap == "attributes"


@pytest.mark.parametrize(
    ("parameters", "groups", "message"),
    [
        ({"overlap": "all"}, GROUPS, "^overlap must be one of 'cells', 'attributes', 'both', "),
        (
            {"overlap": "attributes", "neighbours": "replace-one", "group_labels": ATTRIBUTES},
            GROUPS,
            "^overlap must be 'cells' with neighbours='replace-one', as nothing is proved",
        ),
        ({"overlap": "membership"}, GROUPS, "^groups must say True or False in every column"),
        (
            {"overlap": "membership"},
            MEMBERS.assign(nobody=False),
            "^groups must have records in every group, got none in 'nobody'",
        ),
        ({"overlap": "attributes", "solver": "oco"}, GROUPS, "^solver 'oco' needs disjoint groups"),
        (
            {"overlap": "attributes"},
            GROUPS.assign(who=np.arange(N)),
            "^groups must be labels that records share, got 600 different ones",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(parameters, groups, message):
    with pytest.raises(ValueError, match=message):
        classifier(**parameters).fit(X, Y, groups=groups)


def test_records_used_once_are_of_one_group():
    model = classifier(overlap="attributes", solver="oco")
    with pytest.raises(AttributeError, match="overlap='attributes': a record that is used once"):
        model.partial_fit(X, Y, groups=GROUPS)
    search = DPSearchCV(classifier(overlap="attributes"), {"radius": [1.0]}, delta=1e-6)
    with pytest.raises(
        ValueError, match=r"^overlap of the estimator must be 'cells' in DPSearchCV"
    ):
        search.fit(X, Y, groups=GROUPS)


def test_tables_have_a_row_a_value_of_a_column():
    guess = (X[:, 0] > 0).astype(int)
    table = group_table(Y, guess, groups=GROUPS, overlap="attributes")
    assert table.index.names == ["attribute", "value"]
    assert list(table.index) == ATTRIBUTES
    is_c = GROUPS["race"] == "C"
    row = table.loc[("race", "C")]
    assert row["size"] == is_c.sum()
    assert row["accuracy"] == pytest.approx((guess == Y)[is_c].mean())
    worst = worst_group_score(Y, guess, groups=GROUPS, overlap="attributes")
    assert worst == table["accuracy"].min()
    both = group_table(Y, guess, groups=GROUPS, overlap="both")
    assert both["size"].iloc[5:].min() >= 36
    members = group_table(Y, guess, groups=MEMBERS, overlap="membership")
    assert members["size"].to_dict() == MEMBERS.sum().to_dict()
    with pytest.raises(ValueError, match=r"^overlap must be one of"):
        group_table(Y, guess, groups=GROUPS, overlap="rows")


@pytest.mark.parametrize("overlap", ["attributes", "both"])
def test_the_scorer_scores_the_groups_of_the_model(overlap):
    model = classifier(overlap=overlap, group_by=["race", "sex"])
    frame = pd.DataFrame(X, columns=["x", "y", "z"]).join(pd.get_dummies(GROUPS, dtype=float))
    by = ["sex_f", "race_A"]
    model.set_params(group_by=by).fit(frame, Y)
    scorer = worst_group_scorer("accuracy", per_group=True, group_by=by)
    scores = scorer(model, frame, Y)
    hits = model.predict(frame) == Y
    assert list(scores)[:-1] == [f"group_{label}" for label in model.group_labels_]
    assert scores["group_('sex_f', 1.0)"] == pytest.approx(hits[frame["sex_f"] == 1.0].mean())
    assert scores["worst_group"] == min(scores.values())
    # a fold that lacks a group of the model
    part = (frame["sex_f"] == 1.0).to_numpy()
    with pytest.raises(ValueError, match="has 0 of the records to score"):
        scorer(model, frame[part], Y[part])


@pytest.mark.parametrize("overlap", ["attributes", "both", "membership"])
@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_records_in_partitions_are_the_fit_of_the_whole(overlap, tmp_path):
    groups = MEMBERS if overlap == "membership" else GROUPS
    table = pd.DataFrame(X, columns=list("xyz")).join(groups).assign(target=Y)
    for place in range(3):
        table[200 * place : 200 * (place + 1)].to_parquet(tmp_path / f"{place}.parquet")
    source = ParquetSource(
        tmp_path, features=list("xyz"), target="target", groups=list(groups.columns)
    )
    model, whole = classifier(overlap=overlap).fit(source), classifier(overlap=overlap)
    whole.fit(X, Y, groups=groups)
    assert list(model.group_labels_) == list(whole.group_labels_)
    assert model.plan_ == whole.plan_
    np.testing.assert_allclose(learned(model), learned(whole), rtol=1e-9)


def test_thresholds_refuse_groups_that_overlap():
    thresholds = DPThresholdClassifier(classifier(overlap="attributes"), group_labels=["f", "m"])
    with pytest.raises(
        ValueError, match=r"^overlap of the estimator must be 'cells' in DPThreshold"
    ):
        thresholds.fit(X, Y, groups=GROUPS["sex"])


def test_the_promise_is_about_records_of_exactly_the_same_groups():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 600), "b": rng.choice(["u", "v"], 600)})
    plan = classifier(overlap="attributes", rows_per_person=1).plan(
        group_sizes=frame.value_counts(), n_features=3
    )
    assert "by any other record of exactly the same groups" in " ".join(str(plan.guarantee).split())
