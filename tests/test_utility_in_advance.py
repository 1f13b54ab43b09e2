"""Peers of the benchmark whose parameters are fixed in advance: the choice, the runs, the table."""

import json
import types

import numpy as np
import pytest

from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def utility():
    """The package with the modules that run and report such peers."""
    with utility_with("__main__", "peers.in_advance") as package:
        yield package


def small_task(utility, name="small", n=300, seed=0):
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < 0.3).astype(int)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    rows = np.column_stack([X, np.ones(n)])
    targets = np.where(X[:, 0] + np.where(codes, 1.0, -0.5) * X[:, 1] > 0.0, 1.0, -1.0)
    part = utility.tasks.Part(rows, targets, codes, X, targets > 0, np.array(["a", "b"])[codes])
    return utility.tasks.Task(name, "classification", part, part, ("a", "b"), {"data_norm": 1.0})


def test_a_run_is_taken_by_its_geometric_mean_over_floored_excesses(utility):
    choose = utility.peers.in_advance.choose
    tried = [
        # by the plain mean "steady" would be taken, without a floor "lucky"
        {'["lucky", "last"]': 1e-9, '["steady", "last"]': 0.03, '["good", "last"]': 0.01},
        {'["lucky", "last"]': 0.2, '["steady", "last"]': 0.03, '["good", "last"]': 0.06},
    ]
    taken = choose(tried, 1e-3)
    assert taken.run == ("lucky", "last")
    assert taken.excess == pytest.approx(np.sqrt(1e-3 * 0.2))
    assert choose(tried, 1e-2).run == ("good", "last")
    assert choose(tried, 1e-2).n_tasks == 2


@pytest.mark.parametrize("method", ["dp-newton", "amp", "dp-sgd group-dro"])
def test_what_was_taken_is_run_on_all_records_of_another_task(utility, monkeypatch, method):
    module, peers = utility.peers.in_advance, utility.peers.numpy_peers
    task, other = small_task(utility), small_task(utility, seed=1)
    whole = peers.peer_of(task, method)
    monkeypatch.setattr(
        module, "peer_of", lambda task, name: whole._replace(grid=whole.grid[:3], train=of(task))
    )

    def of(task):
        return peers.peer_of(task, method).train

    tried = module.try_grid(task, method, (1.0, 8.0))
    assert set(tried) == {"1", "8"}
    kinds = {json.loads(run)[-1] for run in tried["1"]}
    assert len(tried["1"]) == 3 * len(kinds)
    chosen = {epsilon: module.choose([tried[f"{epsilon:g}"]], 1e-3) for epsilon in (1.0, 8.0)}
    cells = module.run_chosen(other, method, chosen, 2)
    for epsilon, taken in chosen.items():
        found = cells[f"{epsilon:g}"]
        assert found["parameters"] == dict(
            zip((*whole.grid[0]._fields, "iterate"), taken.run, strict=True)
        )
        assert found["choosing_excess"] == taken.excess
        run = type(whole.grid[0])(*taken.run[:-1])
        part = other.train if whole.is_double else utility.peers.tuning.single(other.train)
        alone = of(other)(part, [run] * 2, np.full(2, epsilon), np.arange(2), is_final=True)
        expected = other.train_excess(alone[taken.run[-1]])
        assert found["train_excess"] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_the_halves_are_kept_apart_and_other_choices_are_run_again(
    utility, tmp_path, monkeypatch, capsys
):
    module = utility.peers.in_advance
    tasks = {name: small_task(utility, name, seed=k) for k, name in enumerate(("one", "two"))}
    definitions = tuple(
        types.SimpleNamespace(name=name, half=half, kind="classification")
        for name, half in (("one", "choosing"), ("two", "checking"))
    )
    monkeypatch.setattr(module, "DEFINITIONS", definitions)
    loaded = []

    def load(name, cache):
        loaded.append(name)
        return tasks[name]

    path = lambda task, method, folder=tmp_path: tmp_path / task / f"{method}.json"  # noqa: E731
    whole = utility.peers.numpy_peers.peer_of
    first = slice(0, 2)
    monkeypatch.setattr(module, "load_by_name", load)
    monkeypatch.setattr(module, "peer_path", path)
    monkeypatch.setattr(module, "GRIDS", ("dp-newton",))
    monkeypatch.setattr(
        module,
        "peer_of",
        lambda task, name: whole(task, name)._replace(grid=whole(task, name).grid[first]),
    )
    module.main()
    assert "classification, dp-newton, epsilon 1: (5, 'once', " in capsys.readouterr().out
    assert loaded == ["one", "two"]
    _, found = utility.store.read_cells(path("two", "dp-newton, fixed in advance"))
    assert set(found) == set("1248")
    assert all(len(each["train_excess"]) == 8 for each in found.values())
    module.main()
    assert loaded == ["one", "two"]
    # another run does best on the choosing half now
    kept = path("one", "dp-newton tried")
    content = json.loads(kept.read_text())
    for of_epsilon in content["cells"].values():
        least = min(of_epsilon, key=of_epsilon.get)
        of_epsilon[least] = 10.0
    kept.write_text(json.dumps(content))
    module.main()
    assert loaded == ["one", "two", "two"]


# --- what is said of them ------------------------------------------------------------------------


def compared_cell(
    utility, name, epsilon, ours, others, *, kind="classification", half="checking", best=0.02
):
    """A cell with a best peer in hindsight; `others` are excesses of fixed ones."""
    run, report = utility.peers.run, utility.report

    def cell(excess, **more):
        figures = ("train_excess", "test_loss", "seconds")
        found = {figure: [0.99 * excess, excess, 1.01 * excess] for figure in figures}
        return found | {"parameters": {"solver": "mgr"}} | more

    cells = {method: cell(best) for method in run.METHODS if run.applies(method, name, kind)}
    cells["ours (auto)"] = cell(ours)
    for rank, (grid, excess) in enumerate(others.items()):
        cells[report.in_advance(grid)] = cell(excess, choosing_excess=0.1 + rank)
    definition = types.SimpleNamespace(name=name, source=name, half=half, kind=kind)
    (found,), _ = utility.compared.compare({(name, epsilon): cells}, [definition])
    return found


def test_the_defaults_stand_beside_the_peer_that_did_best_on_the_choosing_half(utility):
    grids = utility.peers.run.GRIDS
    others = dict.fromkeys(grids[::-1], 0.08)
    others[grids[0]] = 0.01  # best here, not where it is chosen
    compared = [
        compared_cell(utility, "one", 1.0, 0.04, others),
        compared_cell(utility, "two", 1.0, 0.02, others),
        compared_cell(utility, "one", 4.0, 0.16, others),
        compared_cell(utility, "not run", 1.0, 0.04, {}),
        compared_cell(utility, "chosen on", 1.0, 0.04, others, half="choosing"),
    ]
    assert next(iter(compared[0].in_advance)) == f"{grids[-1]}, fixed in advance"
    rows = utility.in_advance_summary.in_advance_rows(compared)
    assert [(row.kind, row.epsilon, row.n_cells) for row in rows] == [
        ("classification", None, 3),
        ("classification", 1.0, 2),
        ("classification", 4.0, 1),
    ]
    at_one = rows[1]
    assert at_one.best == f"{grids[-1]}, fixed in advance"
    assert at_one.best_mean.value == pytest.approx(np.sqrt(0.5 * 0.25))
    assert at_one.means[f"{grids[0]}, fixed in advance"].value == pytest.approx(np.sqrt(4.0 * 2.0))
    assert (at_one.n_won, at_one.n_lost) == (2, 0)
    assert (rows[2].n_won, rows[2].n_lost) == (0, 1)
    text = utility.in_advance_summary.in_advance_table(compared)
    best = f"| classification | 1 | 2 | {at_one.best_mean} | {grids[-1]} | 2 | 0 | 2.83 | 0.35 |"
    assert best in text
    report = utility.population_report
    assert text in report.short_report(compared, [])
    json.dumps(report.as_json(compared, []))
    lines = utility.chart.chart(compared, {}).splitlines()
    (fixed,) = (line for line in lines if line.startswith("  fixed in advance ‡"))
    assert fixed.split()[-2:] == ["0.35", "2.00"]
    assert sum(line.startswith("‡") for line in lines) == 1
    # the means beside peers in hindsight are what they are without these
    assert compared[0].ratio.value == pytest.approx(2.0)


def test_cells_count_whatever_a_peer_does_in_hindsight(utility):
    others = dict.fromkeys(utility.peers.run.GRIDS, 0.08)
    cell = compared_cell(utility, "one", 1.0, 0.04, others, best=1e-5)
    assert cell.is_under_floor
    (_, row) = utility.in_advance_summary.in_advance_rows([cell])
    assert (row.n_cells, row.best_mean.value) == (1, pytest.approx(0.5))
    # predicting nothing needs no setting, and stands last
    assert list(row.means)[-1] == utility.peers.run.NOTHING


def test_nothing_is_said_where_none_was_run(utility):
    compared = [compared_cell(utility, "one", 1.0, 0.04, {})]
    assert utility.in_advance_summary.in_advance_rows(compared) == []
    assert "‡" not in utility.chart.chart(compared, {})
    assert "fixed in advance" not in utility.population_report.short_report(compared, [])
