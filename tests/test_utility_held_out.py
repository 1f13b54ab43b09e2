"""What ``benchmarks/utility/held_out.py`` counts: splits, worst groups, differences."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.preprocessing import Category
from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def held_out():
    with utility_with("held_out") as package:
        yield package.held_out


def test_each_group_keeps_its_share_and_splits_are_a_function_of_the_name(held_out):
    task = held_out.load_by_name("made-classification")
    sizes = len(task.train.codes), len(task.test.codes)
    task.train.X, task.test.X = np.split(np.arange(sum(sizes)), [sizes[0]])
    first, second = held_out.splits(task, 2)
    everybody = task.group_sizes + np.bincount(task.test.codes)
    np.testing.assert_array_equal(first.group_sizes, everybody * 3 // 4)
    np.testing.assert_array_equal(sorted([*first.train.X, *first.test.X]), np.arange(sum(sizes)))
    (again,) = held_out.splits(task, 1)
    np.testing.assert_array_equal(first.train.X, again.train.X)
    shared = np.intersect1d(first.test.X, second.test.X)
    assert 0.2 < len(shared) / len(first.test.X) < 0.3


def test_the_worst_group_is_taken_after_averaging(held_out, tmp_path):
    """Two equal groups with opposite luck: the mean of maxima is 0.6, either group has 0.5."""
    cells = {f"1|{k}": {"test": [0.4 + 0.2 * k, 0.6 - 0.2 * k], "train": [0, 0], "seconds": 0.0}
             for k in range(2)}  # fmt: skip
    held_out.Store(held_out._path("compas", "ours", tmp_path), {}).put(cells)
    frame = held_out.collect(tmp_path, n_splits=2)
    assert frame.loss.item() == pytest.approx(0.5)
    assert held_out.collect(tmp_path, n_splits=3).empty


def losses(worst, best=0.1):
    return np.column_stack([worst, np.full(len(worst), best)])


@pytest.mark.parametrize(
    ("gaps", "kind", "expected"),
    [
        ([0.003, 0.003], "classification", 1),
        ([-0.003, -0.003], "classification", -1),
        ([0.001, 0.001], "classification", 0),
        ([0.001, 0.001], "regression", 1),
        ([0.030, -0.010], "classification", 0),
    ],
)
def test_a_difference_counts_beyond_the_least_and_two_errors(held_out, gaps, kind, expected):
    theirs = np.array([0.5, 0.7])
    found = held_out.difference(losses(theirs + gaps), losses(theirs))
    assert found.verdict(kind) == expected


def test_each_method_is_judged_at_its_own_worst_group(held_out):
    found = held_out.difference(losses([0.5, 0.5], 0.6), losses([0.7, 0.7], 0.6))
    assert found.value == pytest.approx(-0.1)


def frame_of(held_out, **by_method):
    rows = [
        {"name": f"task {k}", "method": method, "epsilon": epsilon, "source": f"source {k}"}
        | {
            "half": "checking",
            "kind": "classification",
            "test": losses(each),
            "loss": np.mean(each),
        }
        | {"record_loss": 0.3 if method == "exact minimax" else 0.35}
        for (method, epsilon), tasks in by_method["cells"].items()
        for k, each in enumerate(tasks)
    ]
    return pd.DataFrame(rows)


def test_the_report_names_what_is_lost_first(held_out, tmp_path):
    frame = frame_of(
        held_out,
        cells={
            ("ours", 1.0): [[0.5, 0.5], [0.6, 0.6], [0.551, 0.551]],
            ("ours", 8.0): [[0.4, 0.4], [0.63, 0.63], [0.551, 0.551]],
            ("group-blind", 1.0): [[0.7, 0.7], [0.55, 0.55], [0.55, 0.55]],
            ("group-blind", 8.0): [[0.7, 0.7], [0.65, 0.65], [0.55, 0.55]],
            ("exact minimax", np.inf): [[0.4, 0.4], [0.5, 0.5], [0.55, 0.55]],
        },
    )
    text = held_out.report(frame)
    assert "worse than *group-blind*: ε = 1: task 1 +0.0500; ε = 8: none" in text.partition("\n")[0]
    assert "*ours*, clearly worse, ε = 8 less 1: task 1 +0.0300." in text
    assert "| ours | 0.5503 | 0.5270 | – |" in text
    assert "| ours | 0.0500 | 0.0500 | – |" in text
    assert "-0.0497 ± 0.3291; 1 / 1" in text
    drawn = held_out.draw_held_out(frame, held_out.REFERENCES, tmp_path)
    assert drawn.exists()


def test_what_is_kept_is_not_measured_again(held_out, tmp_path, monkeypatch):
    fits = []
    for name, kind in (("mine", held_out.METHODS), ("limit", held_out.REFERENCES)):

        def fit(task, epsilon, seed, name=name):
            fits.append((name, epsilon, seed))
            return np.zeros(task.train.rows.shape[1])

        monkeypatch.setitem(kind, name, fit)
    for _ in range(2):
        held_out.measure(
            ["made-regression"], ["mine", "limit"], [1.0, 2.0], n_splits=2, folder=tmp_path
        )
    budgets = [("mine", 1.0), ("mine", 2.0), ("limit", np.inf)]
    assert sorted(fits) == sorted((*each, seed) for each in budgets for seed in range(2))
    frame = held_out.collect(tmp_path, methods=["mine", "limit"], n_splits=2)
    assert set(zip(frame.method, frame.epsilon, strict=True)) == set(budgets)
    targets = held_out.load_by_name("made-regression").train.targets
    assert frame.loss.max() < 0.5 * np.max(targets**2)


@pytest.mark.parametrize("name", ["made-classification", "made-regression"])
def test_references_are_better_than_nothing_and_minimax_is_the_best_on_the_records(held_out, name):
    (task,) = held_out.splits(held_out.load_by_name(name), 1)
    task.train = task.train.take(np.arange(0, len(task.train.codes), 10))
    found = {}
    for method in ("average risk", "exact minimax", "boosted trees, groups alike"):
        model = held_out.REFERENCES[method](task, np.inf, 0)
        found[method] = held_out.losses_of(task, task.train, model).max()
    nothing = held_out.losses_of(task, task.train, np.zeros(task.train.rows.shape[1])).max()
    assert found["exact minimax"] < found["average risk"]
    assert found["boosted trees, groups alike"] < nothing


def test_a_made_table_has_its_optimum_far_out_and_one_its_rows_at_the_bound(held_out):
    from utility import worlds

    far, rows = worlds.far_optimum(20_000), worlds.normal_rows(5_000).train.X
    assert 40.0 < np.linalg.norm(far.optima["worst-group"]["weights"]) < 0.95 * far.radius
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() < 1.0 + 1e-9
    assert np.mean(norms > 0.999) > 0.3
    assert np.linalg.norm(far.train.X, axis=1).max() <= 1.0
    assert {"made-normal-rows", "made-far-optimum"} <= set(held_out.names_of_half("choosing"))


@pytest.mark.parametrize("name", ["compas", "paperless-bills", "medical-spending"])
def test_a_table_survives_its_codes_but_for_the_width_of_bins(
    held_out, name, tmp_path, monkeypatch
):
    """A synthetic table that repeats the codes has the same groups, and all but the same rows."""
    aim = held_out.aim
    monkeypatch.setattr(aim, "FOLDER", tmp_path)
    written = []

    def as_it_is(codes, levels, epsilon, seed, to):
        assert (codes < levels).all()
        to.parent.mkdir(parents=True, exist_ok=True)
        np.savez(to, codes=codes)
        written.append(to)

    monkeypatch.setattr(aim, "_run_aim", as_it_is)
    task = held_out.load_by_name(name)
    for _ in range(2):
        made = aim.synthetic(task, 1.0, 0)
    assert len(written) == 1
    np.testing.assert_array_equal(made.codes, task.train.codes)
    _, divisor = aim.blocks_of(task)
    assert np.abs(made.rows - task.train.rows).max() <= 1.0001 / aim.N_BINS / divisor
    assert np.abs(made.targets - task.train.targets).max() <= 1.0001 / aim.N_BINS


def test_what_takes_too_long_is_left_out(held_out, tmp_path, monkeypatch):
    monkeypatch.setattr(held_out.aim, "FOLDER", tmp_path)
    done = SimpleNamespace(returncode=-held_out.aim.signal.SIGXCPU)
    monkeypatch.setattr(held_out.aim, "environment", lambda *_: "python")
    monkeypatch.setattr(held_out.aim.subprocess, "run", lambda *_, **__: done)
    method = next(iter(held_out.aim.AIM))
    held_out.measure(["german-credit"], ["ours", method], [1.0], n_splits=1, folder=tmp_path)
    frame = held_out.collect(tmp_path, n_splits=1)
    assert frame.method.tolist() == ["ours"]


def test_a_peer_is_fitted_with_what_was_chosen_at_its_budgets_alone(
    held_out, tmp_path, monkeypatch
):
    asked = []

    def chosen(kind, method, epsilon):
        asked.append((kind, method, epsilon))
        return held_out.in_advance.Choice((10, 0.4, 0.25, "average", "mean"), 0.1, 1)

    monkeypatch.setattr(held_out.in_advance, "chosen_run", chosen)
    held_out.measure(["german-credit"], ["dp-gd average"], n_splits=2, folder=tmp_path)
    assert asked == [("classification", "dp-gd average", each) for each in [1.0, 4.0, 8.0] * 2]
    frame = held_out.collect(tmp_path, n_splits=2)
    assert frame.epsilon.tolist() == [1.0, 4.0, 8.0]
    assert frame.loss.max() < 2.0


@pytest.mark.parametrize("name", ["crash-deaths", "wives-in-work"])
def test_bends_are_measured_on_the_rows_of_a_schema_and_dp_ebm_on_its_columns(held_out, name):
    shapes, population, ebm = (
        importlib.import_module(each)
        for each in ("shapes", "utility.population", "utility.peers.ebm")
    )
    sys.modules.pop("shapes")  # it knows a package that the next test forgets
    definition = shapes.OF_TASK[name]
    line, bent = (
        population.load_definition(definition, shapes=kind) for kind in ("linear", "ramps")
    )
    found = shapes.bent_rows(line, shapes.SHAPES["ramps"], line.train)
    assert found == pytest.approx(bent.train.X, abs=1e-12)
    for shape in shapes.SHAPES.values():
        rows = shapes.bent_rows(line, shape, line.train)
        assert np.linalg.norm(rows, axis=1).max() <= 1.0
    table, coded = ebm.table_of(line.train, *held_out.aim.blocks_of(line))
    codes, numbers = table[:, coded], table[:, np.logical_not(coded)]
    assert np.array_equal(codes, codes.astype(int))
    assert np.abs(numbers).max() <= 1.0 + 1e-9
    n_gaps = sum(bool(getattr(each, "missing", False)) for each in definition.columns.values()
                 if not isinstance(each, Category))  # fmt: skip
    assert table.shape[1] == len(definition.columns) + n_gaps
