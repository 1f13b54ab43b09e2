"""What ``benchmarks/rates.py`` measures with: tables of counts, known excess, fitted slopes."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sklearn_dpwg.losses import Huber

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
