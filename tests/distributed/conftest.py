"""Clusters on this machine, one of a kind a module."""

from __future__ import annotations

import logging

import dask
import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="module")
def processes():
    """A client of two worker processes, which start again when they are killed."""
    # dask takes a worker away for good that is not back after 15 seconds, a long time on busy cores
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def threads():
    """A client of two workers that are threads of this process."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
