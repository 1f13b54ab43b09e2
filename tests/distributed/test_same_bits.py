"""Fits that have the same bits whatever the cluster looks like."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data import distributed
from sklearn_dpwg.solvers import MGR

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_dpwg.exceptions.SeededNoiseWarning",
    "ignore::sklearn_dpwg.exceptions.WeakPlanWarning",
)


def scale(client, n_workers):
    client.cluster.scale(n_workers)
    client.wait_for_workers(n_workers, timeout=60)
    while len(client.nthreads()) > n_workers:
        client.sync(client.scheduler.identity)
    assert len(client.nthreads()) == n_workers


def test_one_two_and_three_workers(three_threads):
    cluster, rng = three_threads, np.random.default_rng(5)
    X = rng.uniform(-0.5, 0.5, (700, 3))
    groups = rng.integers(0, 2, 700)
    y = (X[:, 0] + (2 * groups - 1) * X[:, 1] > 0).astype(int)
    parts = [da.from_array(each, chunks=(100, *each.shape[1:])) for each in (X, y, groups)]
    learned = set()
    for n_workers in (3, 2, 1):
        scale(cluster, n_workers)
        solver = MGR(n_steps=4, sampling_rate=0.3)
        model = DPWorstGroupClassifier(data_norm=1.0, solver=solver, random_state=0)
        with distributed.options(client=cluster):
            model.fit(*parts)
        learned.add(np.append(model.coef_, model.intercept_).tobytes())
    assert len(learned) == 1
