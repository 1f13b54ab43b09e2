"""Coverage of the intervals of a private audit with OpenDP's noise; prints its verdicts."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.audit

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
LEAST, MIN_MEAN = 0.935, 0.945  # of 0.95, at a standard error of 0.005 in a cell
# A side may err with 0.025; 2,000 repetitions have a standard error of 0.0035.
MAX_ON_A_SIDE = 0.04


@pytest.fixture
def measuring(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import interval_coverage

    yield interval_coverage
    for name in ("interval_coverage", "common"):
        sys.modules.pop(name, None)


def say(text):
    sys.stdout.write(f"\n  {text}")


@pytest.mark.parametrize(
    ("kind", "repetitions"),
    [("rate", 2000), ("true-positives", 2000), ("hidden", 1000), ("attribute", 1000)],
)
def test_every_interval_covers(measuring, kind, repetitions):
    cells = {
        (n, epsilon): measuring.measure(kind, n, epsilon, repetitions=repetitions)
        for n, epsilon in product(measuring.SIZES, measuring.EPSILONS)
    }
    coverage = [one.coverage for measured in cells.values() for one in measured]
    sides = [side for measured in cells.values() for one in measured for side in one.sides]
    say(f"{kind}, 36 cells: smallest coverage {min(coverage):.3f}, mean {np.mean(coverage):.3f}")
    assert min(coverage) >= LEAST
    assert np.mean(coverage) >= MIN_MEAN
    assert max(sides) <= MAX_ON_A_SIDE


def test_statements_about_the_worst_group_hold(measuring):
    result = {}
    for name, world in measuring.worlds():
        result[name] = measuring.measure_worst(world, repetitions=1000)
    for statement in ("set", "value", "gap"):
        held = [world[statement] for world in result.values()]
        say(f"{statement}, 36 worlds: smallest {min(held):.3f}, mean {np.mean(held):.3f}")
        assert min(held) >= LEAST
        assert np.mean(held) >= MIN_MEAN
    assert min(world["set"] for world in result.values()) >= MIN_MEAN
    argmax = [world["argmax"] for name, world in result.items() if "equal" not in name]
    say(f"the largest estimate is the worst group in {min(argmax):.2f} to {max(argmax):.2f}")
