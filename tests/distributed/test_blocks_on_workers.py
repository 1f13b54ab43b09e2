"""Blocks of records on workers answer bit for bit what they answer in memory."""

from __future__ import annotations

from dataclasses import replace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

from sklearn_dpwg.data.distributed import (
    DaskEngine,
    Pass,
    TaskResult,
    check_addresses,
    options,
    partitions_of,
)
from sklearn_dpwg.data.risks.record_block import keyed_parts
from sklearn_dpwg.exceptions import ClusterError
from sklearn_dpwg.losses import BinaryLogLoss, Hinge
from sklearn_dpwg.privacy.noise.poisson import PoissonSample
from tests.helpers import toy_blocks as toy
from tests.helpers.group_data import make_risks
from tests.helpers.storage import in_blocks

SIZES = (37, 1, 90)


@pytest.fixture
def blocks():
    return in_blocks(make_risks(BinaryLogLoss(), SIZES), 5)


@pytest.fixture
def engine(threads):
    with options(client=threads, pass_timeout=60.0):
        yield DaskEngine()


def answers(risks):
    weights = np.linspace(-0.5, 0.5, risks.n_weights)
    sample = PoissonSample(0.3, bytes(range(32)), False)
    part = keyed_parts(SIZES, [(10, 1, 20)], np.random.default_rng(3))[0]
    result = [
        risks.risks(weights),
        *risks.risks_and_gradients(weights),
        risks.hessian(weights, np.array([0.2, 0.3, 0.5])),
        *risks.sums(weights, loss_clip=0.8),
        *risks.sampled_sums(weights, sample, loss_clip=0.8, center=2.0**-3),
        *risks.part(part).risks_and_gradients(weights),
        risks.with_loss(Hinge()).risks(weights),
    ]
    return [np.asarray(one).tobytes() for one in result]


def test_workers_answer_what_memory_answers_and_forget(engine, blocks, threads):
    handles = toy.on_workers(engine, blocks.handles)
    assert answers(replace(blocks, engine=engine, handles=handles)) == answers(blocks)
    toy.wait_until_held(threads, len(handles))
    engine.close()
    toy.wait_until_held(threads, 0)


def test_errors_of_a_task_come_to_the_client_as_they_are(engine, blocks):
    handles = toy.on_workers(engine, blocks.handles)
    with pytest.raises(ValueError, match=r"row 52\.25"):
        engine.collect(engine.derive(handles, toy.fail), toy.itself)


def test_a_deadline_ends_a_pass(threads, blocks):
    with options(client=threads, pass_timeout=0.5):
        engine = DaskEngine()
    handles = toy.on_workers(engine, blocks.handles)
    with pytest.raises(ClusterError, match=r"not done after pass_timeout=0\.5 seconds"):
        engine.collect(handles, toy.slowly)


def test_tasks_show_nothing_and_dask_knows_how_large_a_block_is(blocks):
    secret = np.array([31415.0])
    for shown in (TaskResult(secret, None), Pass(secret.__add__)):
        assert "31415" not in repr(shown) + str(shown)
    block = blocks.handles[0]
    n_bytes = block.records.rows.nbytes + block.records.targets.nbytes
    assert n_bytes <= TaskResult(block, None).__sizeof__() < 2 * n_bytes + 2000


# Dask arrays and frames as partitions, and predictions for their rows.

ROWS, TARGETS = np.arange(40.0).reshape(10, 4), np.arange(10.0)
FRAME = pd.DataFrame({"a": TARGETS, "b": 2.0 * TARGETS, "g": list("xyxyzxyxyz")}, index=TARGETS + 9)


def shape(partition):
    table = partition.read_labels()
    return len(table.y), table.X.shape, None if table.groups is None else list(table.groups)


def test_collections_are_read_by_block_of_rows(engine):
    X, y = da.from_array(ROWS, chunks=(3, 2)), da.from_array(TARGETS, chunks=3)
    result = engine.collect(partitions_of(X, y), shape)
    assert result == [(n, (0, 4), None) for n in (3, 3, 3, 1)]
    kept = X[:, 0] > 10.0  # of unknown size, the first is empty
    assert [n for n, _, _ in engine.collect(partitions_of(X[kept], y[kept]), shape)] == [0, 3, 3, 1]
    some = dd.from_pandas(FRAME, npartitions=3)
    some = some[some.a > 3.0]
    result = engine.collect(partitions_of(some[["a", "b"]], some["a"], some["g"]), shape)
    assert result == [(0, (0, 2), []), (3, (0, 2), list("zxy")), (3, (0, 2), list("xyz"))]


def test_other_cuts_are_refused(engine):
    X, y = da.from_array(ROWS, chunks=(3, 4)), da.from_array(TARGETS, chunks=3)
    with pytest.raises(ValueError, match="X has 4 partitions and y has 2"):
        partitions_of(X, y.rechunk(5))
    parts = partitions_of(X, y.rechunk(((1, 3, 3, 3),)))
    with pytest.raises(ValueError, match=r"Partition \d of X has \d rows, and that of y has"):
        engine.collect(parts, shape)


# Which cluster is used, and which connections are refused.


def test_a_client_that_is_none_or_closed_is_refused(threads):
    client = Client(threads.cluster, set_as_default=False)
    client.close()
    for wrong in (client, "tcp://localhost:8786"):
        with options(client=wrong), pytest.raises(ValueError, match="Client that is open"):
            DaskEngine()


SAFE = (
    "inproc://10.0.0.5/17/1", "tls://10.0.0.5:8786", "wss://cluster:443", "tcp://127.0.0.1:1",
    "tcp://[::1]:8786", "tcp://localhost:8786", "ws://127.0.0.2:80/path", "127.0.0.1:8786",
)  # fmt: skip
OTHERS = (
    "tcp://10.0.0.5:8786", "tcp://scheduler:8786", "tcp://[fe80::1]:8786", "ucx://10.0.0.5:1",
    "ws://cluster:80", "10.0.0.5:8786", "tcp://0.0.0.0:8786",
)  # fmt: skip


def test_addresses_beyond_this_machine_are_refused_unless_they_are_safe():
    check_addresses(SAFE)
    for address in OTHERS:
        with pytest.raises(ValueError, match=r"beyond this machine.*insecure=True"):
            check_addresses([*SAFE, address])
