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
