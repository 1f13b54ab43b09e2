"""What ``benchmarks/rates.py`` measures with: tables of counts, known excess, fitted slopes."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.rows import whole_rows
from sklearn_dpwg.losses import Huber
from tests.helpers.selections import Listed

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")


@pytest.fixture
def rates(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    with pytest.MonkeyPatch.context() as patch:
        # a benchmark silences the warnings that it makes on purpose
        patch.setattr("warnings.simplefilter", lambda *_: None)
        import rates
    yield rates
    for name in ("rates", "rates_worlds", "online_to_batch", "common"):
        sys.modules.pop(name, None)


def repeated(table):
    """The same records, one row each."""
    times = table.counts.astype(int)
    records = table.records
    groups = np.repeat(np.arange(table.n_groups), np.diff(records.starts))
    sizes = np.bincount(np.repeat(groups, times), minlength=table.n_groups)
    rows = GroupedRecords(
        whole_rows(np.repeat(records.rows, times, axis=0), 1.0),
        np.repeat(records.targets, times),
        np.concatenate([[0], np.cumsum(sizes)]),
    )
    return GroupRisks(rows, table.loss, table.intercept_scaling)


def test_a_table_of_counts_is_its_records(rates):
    world = rates.TypicalWorld(3, 4)
    world.rows = whole_rows(world.rows, 1.0).astype(float)
    table = world.draw(200, np.random.default_rng(0))
    rows = repeated(table)
    weights = np.random.default_rng(1).normal(size=4)
    assert table.group_sizes == rows.group_sizes == (200, 200, 200)
    assert table.n_weights == rows.n_weights
    for loss_clip in (np.inf, 0.5):
        result, exact = (
            np.column_stack(each.risks_and_gradients(weights, loss_clip=loss_clip))
            for each in (table, rows)
        )
        np.testing.assert_allclose(result, exact, rtol=1e-12)
    rng = np.random.default_rng(2)
    positions = Listed([np.sort(rng.choice(200, size=n, replace=False)) for n in (50, 1, 200)])
    np.testing.assert_allclose(
        table.part(positions).risks(weights), rows.part(positions).risks(weights), rtol=1e-12
    )
    fractions = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(
        table.hessian(weights, fractions), rows.hessian(weights, fractions), rtol=1e-10, atol=1e-15
    )


def test_excess_of_the_hard_world_is_exact(rates):
    world = rates.HardWorld(3, 4, signal=0.5, seed=2)
    signs = np.array(list(product([-1.0, 1.0], repeat=4)))
    chances = np.prod((1.0 + signs * world.mean * 2.0) / 2.0, axis=1)
    rows = signs / 2.0
    np.testing.assert_allclose(chances @ rows, world.mean)

    def risk(weights):
        return chances @ Huber(0.5).value(rows @ weights, np.ones(16))

    best = world.radius * world.mean / np.linalg.norm(world.mean)
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = rng.normal(size=4)
        weights *= world.radius * rng.random() / np.linalg.norm(weights)
        assert world.excess(weights) == pytest.approx(risk(weights) - risk(best), abs=1e-12)
        assert risk(weights) >= 0.125  # the other groups have loss 0
    assert world.excess(best) == pytest.approx(0.0, abs=1e-15)
    # the mean stands in for the rows it is the mean of
    table = world.draw(1000, rng)
    assert table.group_sizes == (1000, 1000, 1000)
    assert abs(table.records.rows[0] - world.mean).max() < 0.05
    values = table.risks(weights)
    assert values[0] == pytest.approx(0.5 * (1.0 - table.records.rows[0] @ weights - 0.25))
    assert values[1:].tolist() == [0.0, 0.0]
