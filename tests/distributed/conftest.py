"""Clusters on this machine: one of processes for all tests, one of threads a module."""

from __future__ import annotations

import logging
from contextlib import contextmanager

import dask
import pytest
from distributed import Client, LocalCluster


@contextmanager
def client_of(*, processes):
    with (
        LocalCluster(
            n_workers=2,
            processes=processes,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=processes) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def processes():
    """A client of two worker processes, which start again when they are killed."""
    # dask takes a worker away for good that is not back after 15 seconds, a long time on busy cores
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        client_of(processes=True) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def threads():
    """A client of two workers that are threads of this process."""
    with client_of(processes=False) as client:
        yield client
