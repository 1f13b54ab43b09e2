"""What several columns of groups mean: cells, attributes, both, or membership."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.sources import ParquetSource
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.privacy import Relation
from sklearn_dpwg.solvers import MGR
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
        result = model.plan(group_sizes=MEMBERS.value_counts(), n_features=3)
    assert result == model.plan_


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
