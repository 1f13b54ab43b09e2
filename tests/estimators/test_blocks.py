"""Fits of records in partitions: what they learn, say and read, against fits in memory."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.risks import RecordBlock
from sklearn_dpwg.estimators import partitions as encoding
from sklearn_dpwg.exceptions import (
    DataNormWarning,
    DeltaWarning,
    PublicTargetWarning,
    SeededNoiseWarning,
    UngroupedWarning,
)
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.losses import SmoothedHinge
from sklearn_dpwg.solvers import MGR, PhasedERM
from tests.helpers.partitioned import Partitioned

SOLVERS = {
    "auto": {},
    "passes": {"solver": MGR(n_steps=8, sampling_rate=1.0)},
    "batches": {"solver": MGR(n_steps=30, sampling_rate=0.2)},
    "phased-erm": {"solver": PhasedERM(n_phases=2)},
    # it stops at a gap, and weights that records hardly determine, as in a large ball, are off by
    # its root, in whatever order sums are added
    "exact": {"epsilon": np.inf, "radius": 2.0},
    "gda": {"solver": "gda"},
    "best-response": {"solver": "best-response"},
}


def cut(data, n_parts=4, **kwargs):
    """Return a source of partitions of different sizes, one of them empty."""
    n_records = len(data.y)
    cuts = np.linspace(0, 1, n_parts + 1)[1:-1] ** 2 * n_records
    return Partitioned(*data, cuts=[0, *cuts.astype(int)], **kwargs)


def assert_same_fit(model, other):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=1e-9)
    assert model.plan_ == other.plan_
    assert str(model.privacy_) == str(other.privacy_)
    assert model.group_labels_.tolist() == other.group_labels_.tolist()
    assert model.group_sizes_.tolist() == other.group_sizes_.tolist()
    assert model.n_features_in_ == other.n_features_in_
    assert (
        getattr(model, "classes_", np.array(0)).dtype
        == getattr(other, "classes_", np.array(0)).dtype
    )
    names = [getattr(each, "feature_names_in_", np.array([])).tolist() for each in (model, other)]
    assert names[0] == names[1]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regressor"])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_learns_what_it_learns_in_memory(kind, name, make_task):
    task = make_task(kind)
    model, other = (task.make(solver="auto").set_params(**SOLVERS[name]) for _ in range(2))
    source = cut(task.data)
    assert_same_fit(model.fit(*task.data), other.fit(source))
    assert [(part.n_label_reads, part.n_reads) for part in source.parts] == [
        (1, int(len(part.table.y) > 0)) for part in source.parts
    ]


def test_moments(regressor):
    parameters = {"solver": "moments", "epsilon": 8.0}
    assert_same_fit(
        regressor.fit(**parameters), regressor.make(**parameters).fit(cut(regressor.data))
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"prior": "uniform"},
        {"prior": [0.2, 0.3, 0.5]},
        {"group_labels": ["c", "a", "b"]},
        {"rows_per_person": 2},
        {"fit_intercept": False},
        {"data_norm": 0.3},
        {"classes": ["maybe", "no", "yes"]},
        {"loss": "smoothed_hinge"},
        {"loss": SmoothedHinge(width=0.1)},
    ],
    ids=str,
)
def test_parameters(binary, parameters):
    assert_same_fit(binary.fit(**parameters), binary.make(**parameters).fit(cut(binary.data)))


def test_many_classes_are_none_of_identifiers(make_task):
    X, _, groups = make_task("binary").data
    data = (X, np.arange(90) % 25, groups)
    parameters = {"solver": MGR(n_steps=2), "data_norm": 1.0, "random_state": 0}
    source = Partitioned(*data, cuts=[30])
    in_memory = told_by(lambda: DPWorstGroupClassifier(**parameters).fit(*data))
    assert told_by(lambda: DPWorstGroupClassifier(**parameters).fit(source)) == in_memory


def test_start(binary):
    public = LogisticRegression().fit(binary.data.X, binary.data.y)
    assert_same_fit(binary.fit(start=public), binary.make(start=public).fit(cut(binary.data)))


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, csr_array, np.float32, np.asfortranarray]
)
def test_forms_of_rows(binary, kind):
    X, y, groups = binary.data
    if kind in (pd.DataFrame, pl.DataFrame):
        X = (
            kind(X, columns=["u", "v", "w"])
            if kind is pd.DataFrame
            else kind(X, schema=["u", "v", "w"])
        )
    else:
        X = X.astype(kind) if kind is np.float32 else kind(X)
    data = type(binary.data)(X, y, groups)
    source = Partitioned(*data) if kind is pl.DataFrame else cut(data)
    model = binary.make().fit(*data)
    assert_same_fit(model, binary.make().fit(source))
    np.testing.assert_array_equal(model.predict(source), model.predict(X))
    np.testing.assert_allclose(model.predict_proba(source), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(
        model.decision_function(source), model.decision_function(X), atol=1e-12
    )


def test_single_precision_in_some_partitions_alone_becomes_double(binary):
    X, y, groups = binary.data
    single = X.astype(np.float32)
    for part in (0, 1):
        source = Partitioned(X, y, groups, cuts=[40])
        source.parts[part] = Partitioned(single, y, groups, cuts=[40]).parts[part]
        rows = np.concatenate([each.table.X for each in source.parts])
        assert_same_fit(binary.make().fit(rows, y, groups), binary.make().fit(source))


def test_groups_of_several_columns_and_of_rows(binary):
    X, y, groups = binary.data
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    frame["kind"] = np.tile([0.0, 1.0], 45)
    several = pd.DataFrame({"letter": groups, "kind": frame["kind"].astype(int)})
    model = binary.make().fit(frame, y, several)
    source = cut(type(binary.data)(frame, y, several))
    assert_same_fit(model, binary.make().fit(source))
    by = binary.make(group_by="kind")
    source = cut(type(binary.data)(frame, y, None))
    assert_same_fit(binary.make(group_by="kind").fit(frame, y), by.fit(source))
    by_function = {"group_by": lambda rows: np.asarray(rows)[:, 3] > 0}
    source = cut(type(binary.data)(frame, y, None))
    assert_same_fit(
        binary.make(**by_function).fit(frame, y), binary.make(**by_function).fit(source)
    )


@pytest.mark.parametrize(
    "labels",
    [[3, 1, 2], [2.5, 1.0, -1.0], [True, False, True], ["b", 1, ("c", 2)], ["10", "9", 8]],
    ids=str,
)
def test_labels_are_in_the_order_of_memory(binary, labels):
    X, y, _ = binary.data
    groups = np.empty(len(y), dtype=object)
    groups[:] = [labels[i % 3] for i in range(30)] + [labels[i % 2] for i in range(60)]
    if all(isinstance(label, type(labels[0])) for label in labels):
        groups = groups.astype(type(labels[0]))
    data = type(binary.data)(X, y, groups)
    assert_same_fit(binary.make().fit(*data), binary.make().fit(cut(data)))


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 60), max_size=6),
    kinds=st.integers(0, 2),
    seed=st.integers(0, 99),
    is_sorted=st.booleans(),
)
def test_any_partition_gives_the_fit_in_memory(cuts, kinds, seed, is_sorted):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (60, 2))
    # sorted, a group or class may be in one partition alone
    groups = rng.integers(0, 3, 60)
    groups[:3] = [0, 1, 2]
    y = rng.integers(0, 2 + (kinds == 2), 60)
    y[3:6] = [0, 1, 2 if kinds == 2 else 0]
    if is_sorted:
        groups, y = np.sort(groups), np.sort(y)
    batches = {"sampling_rate": 0.3} if kinds else {"sampling_rate": 1.0}
    parameters = {"solver": MGR(n_steps=4, **batches), "random_state": seed, "data_norm": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPWorstGroupClassifier(**parameters).fit(X, y, groups)
        other = DPWorstGroupClassifier(**parameters).fit(Partitioned(X, y, groups, cuts=cuts))
    assert_same_fit(model, other)


def told_by(fit):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit()
    return [(each.category, str(each.message)) for each in seen]


def test_the_same_warnings_in_the_same_order(binary):
    X, y, _ = binary.data
    parameters = {"data_norm": None, "delta": 0.5}
    in_memory = told_by(lambda: binary.make(**parameters).fit(X, y))
    elsewhere = told_by(lambda: binary.make(**parameters).fit(Partitioned(X, y, cuts=[10])))
    assert in_memory == elsewhere
    kinds = [kind for kind, _ in elsewhere]
    assert {UngroupedWarning, DataNormWarning, DeltaWarning, SeededNoiseWarning} <= set(kinds)


def test_the_same_warning_of_targets_among_the_groups(binary):
    X, y, groups = binary.data
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    table = pd.DataFrame({"y": y, "letter": groups})
    in_memory = told_by(lambda: binary.make().fit(frame, pd.Series(y, name="y"), table))
    source = Partitioned(frame, y, table, cuts=[30])
    source.target, source.groups = "y", ["y", "letter"]
    elsewhere = told_by(lambda: binary.make().fit(source))
    assert in_memory == elsewhere
    assert PublicTargetWarning in [kind for kind, _ in elsewhere]


def test_scores_are_those_of_memory(task):
    X, y, _ = task.data
    model = task.fit()
    assert model.score(cut(task.data)) == pytest.approx(model.score(X, y), abs=1e-12)
    alone = Partitioned(X[:1], y[:1])
    assert model.score(alone) in (0.0, 1.0)


def test_a_constant_target_has_the_score_of_memory(regressor):
    X, _, groups = regressor.data
    model = regressor.make(epsilon=np.inf).fit(X, np.full(len(X), 0.5), groups)
    for y in (np.full(len(X), 0.25), np.full(len(X), 0.5)):
        assert model.score(Partitioned(X, y, cuts=[9])) == pytest.approx(
            model.score(X, y), abs=1e-9
        )


def test_ledgers_and_progress(binary, capsys):
    with PrivacyLedger(epsilon=3.0, delta=1e-6) as ledger:
        model = binary.make(verbose=1).fit(cut(binary.data))
        assert ledger.epsilon_spent == pytest.approx(model.privacy_.epsilon)
    assert "planned draws of noise" in capsys.readouterr().out


def test_one_draw_a_release_as_in_memory(binary, draws):
    binary.fit()
    in_memory = [draw.release.name for draw in draws()]
    binary.make().fit(cut(binary.data))
    both = [draw.release.name for draw in draws()]
    assert both == in_memory * 2


def test_without_bounds_the_range_is_that_of_all_targets(regressor):
    parameters = {"epsilon": np.inf, "target_bounds": None}
    assert_same_fit(
        regressor.fit(**parameters), regressor.make(**parameters).fit(cut(regressor.data))
    )


def test_regressor_of_single_column_targets_warns_as_in_memory(regressor):
    X, y, groups = regressor.data
    in_memory = told_by(lambda: regressor.make().fit(X, y[:, None], groups))
    elsewhere = told_by(lambda: regressor.make().fit(Partitioned(X, y[:, None], groups, cuts=[7])))
    assert in_memory == elsewhere


def test_estimators_have_no_trace_of_where_they_were_fitted(binary):
    model = binary.make().fit(cut(binary.data))
    assert set(vars(model)) == set(vars(binary.fit()))
    assert isinstance(model, DPWorstGroupClassifier)
    assert not isinstance(model, DPWorstGroupRegressor)


@pytest.mark.parametrize("solver", ["passes", "batches"])
def test_blocks_lie_by_rows_wherever_they_end(solver, monkeypatch):
    """A frame lies by columns, and so would rows that a border happens to leave sorted."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((1200, 20)), columns=[f"x{j}" for j in range(20)])
    y = pd.Series((X["x0"] + rng.standard_normal(1200) > 0).astype(int))
    groups = pd.Series(np.repeat(["b", "a"], 600))
    by_rows = []

    def watched(records, *facts, **places):
        by_rows.append(records.rows.flags.c_contiguous)
        return RecordBlock(records, *facts, **places)

    monkeypatch.setattr(encoding, "RecordBlock", watched)
    fits = []
    for cuts in ([600], [601], [1, 600, 1199]):
        model = DPWorstGroupClassifier(data_norm=6.0, random_state=0, **SOLVERS[solver])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataNormWarning)
            fits.append(model.fit(Partitioned(X, y, groups, cuts=cuts)))
    assert len(by_rows) == 8
    assert all(by_rows)
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        np.testing.assert_array_equal(other.intercept_, fits[0].intercept_)
