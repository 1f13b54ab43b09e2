"""Games on oracles of neighbours move what they release by no more than their plans state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg.data.oracles import GeneratorOracle, InMemoryOracle
from sklearn_dpwg.data.oracles.base import EncodingOracle
from sklearn_dpwg.solvers import OCO, PhasedERM
from tests.helpers.cases.stream import BUDGET
from tests.helpers.contract import compared
from tests.helpers.group_data import make_problem
from tests.helpers.replay import fixed_transcript

ROUNDING = 1e-6  # of a phase's certificate


def in_memory(X, y, groups, seed):
    return InMemoryOracle(X, y, groups, random_state=seed)


def dealt(X, y, groups, seed):
    rng, labels = np.random.default_rng(seed), np.asarray(groups)
    order = {g: list(rng.permutation(np.flatnonzero(labels == g))) for g in np.unique(labels)}

    def deal(group, size, rng):
        chosen = [order[group].pop(0) for _ in range(size)]
        return X[chosen], y[chosen]

    return GeneratorOracle(deal, seed)


def neighbours(sizes, rng):
    """Return records whose order by the first feature is that of the first record's extremes."""
    n = sum(sizes)
    X = np.column_stack([rng.uniform(-0.2, 0.2, n), rng.choice([-0.95, 0.95], n)])
    groups = np.repeat([f"g{i}" for i in range(len(sizes))], sizes).tolist()
    other = X.copy()
    X[0], other[0] = (-1.0, 0.0), (1.0, 0.0)
    y = np.ones(n, dtype=int)
    return (X, y, groups), (other, y, groups)


# the first two are of issue 13: 400 rounds of single records
@pytest.mark.parametrize(
    ("sizes", "solver"),
    [
        *(((400,), OCO(n_rounds=400, batch_size=1, noise=each)) for each in ("toeplitz", "tree")),
        *(((60, 30), OCO(play=play, n_rounds=10)) for play in ("weighted", "sampled")),
        ((60, 30), PhasedERM(4)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("make", [in_memory, dealt])
def test_oracles_of_neighbours(make, sizes, solver):
    plan = solver.plan(replace(make_problem(sizes, scaling=0.0), fresh_calls=1), BUDGET)
    moved = []
    for seed in range(1 if len(sizes) == 1 else 5):
        runs = []
        for X, y, groups in neighbours(sizes, np.random.default_rng(seed)):
            oracle = make(X, y, groups, seed)
            encoded = EncodingOracle(oracle, sorted(set(groups)), 2, 1.0, lambda y: 2.0 * y - 1.0)
            source = fixed_transcript(seed, {})
            runs.append((source, solver.run(plan, encoded, source)))
        moved.append(max(compared(plan, *runs).values(), default=0.0))
    assert 0.1 < max(moved) <= 1.0 + ROUNDING
