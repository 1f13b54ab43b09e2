"""What travels to workers and back shows nothing of the records in logs, and its size."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.data.distributed.cluster import Derive, Held, Hold, Pass, Result
from sklearn_dpwg.data.distributed.collections import MakeTable, TablePartition


def test_reprs_are_bare():
    secret = np.array([31415.0])
    shown = [Held(secret), Hold(secret), Result((secret,), "here"), Derive(np.add, (secret,))]
    shown += [Pass(np.sum, adds=True), MakeTable(0), TablePartition(secret, secret, secret)]
    for one in shown:
        assert "31415" not in repr(one) + str(one)
        assert len(repr(one)) < 20


def test_dask_knows_how_large_an_object_is():
    rows = np.zeros((1000, 10))
    assert rows.nbytes <= Held(TablePartition(rows, rows[:, 0])).__sizeof__() < 2 * rows.nbytes
    assert rows.nbytes <= Held([rows, {"same": rows}]).__sizeof__() < rows.nbytes + 1000
