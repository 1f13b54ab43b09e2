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


@pytest.mark.parametrize(
    "sampling_rate", [pytest.param(1.0, marks=pytest.mark.audit), 0.3], ids=["passes", "batches"]
)
def test_one_two_and_three_workers(three_threads, sampling_rate):
    cluster = three_threads
    rng = np.random.default_rng(5)
    n_records = 700
    # rows whose sums are not exact in any order of the blocks without a grid
    X = rng.uniform(-0.5, 0.5, (n_records, 3))
    groups = rng.integers(0, 2, n_records)
    y = (X[:, 0] + (2 * groups - 1) * X[:, 1] > 0).astype(int)
    parts = [da.from_array(each, chunks=(100, *each.shape[1:])) for each in (X, y, groups)]

    def fit():
        model = DPWorstGroupClassifier(
            data_norm=1.0,
            solver=MGR(n_steps=4, sampling_rate=sampling_rate),
            random_state=0,
        )
        with distributed.options(client=cluster):
            model.fit(*parts)
        return np.concatenate([model.coef_.ravel(), model.intercept_]).tobytes()

    scale(cluster, 3)
    three = fit()
    scale(cluster, 2)
    two = fit()
    scale(cluster, 1)
    one = fit()
    assert three == two == one
