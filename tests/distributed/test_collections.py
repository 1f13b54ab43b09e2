"""Dask arrays and frames as partitions, and predictions for their rows."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.data.distributed.collections import hold_collections, map_rows
from sklearn_dpwg.data.distributed.dask_engine import DaskEngine
from tests.helpers import toy_blocks as toy

ROWS = np.arange(40.0).reshape(10, 4)
TARGETS = np.arange(10.0)
FRAME = pd.DataFrame(
    {"a": TARGETS, "b": 2.0 * TARGETS, "g": list("xyxyzxyxyz"), "y": TARGETS % 2},
    index=np.arange(100, 110),
)


@pytest.fixture
def engine(threads):
    return DaskEngine(threads, pass_timeout=60.0)


@pytest.fixture
def arrays():
    return da.from_array(ROWS, chunks=(3, 2)), da.from_array(TARGETS, chunks=3)


@pytest.fixture
def frame():
    return dd.from_pandas(FRAME, npartitions=3)


def read(engine, *collections):
    handles = hold_collections(*collections)
    assert "partition" not in repr(handles[0])
    read = engine.collect(handles, toy.shape)
    return read, np.concatenate(engine.collect(engine.derive(handles, toy.encode), np.sort))


def test_arrays_are_read_by_block_of_rows_and_groups_come_along(engine, arrays):
    found, values = read(engine, *arrays)
    assert found == [(n, (0, 4), None) for n in (3, 3, 3, 1)]
    assert np.array_equal(np.sort(values), np.sort(np.concatenate([ROWS.ravel(), TARGETS])))
    groups = da.from_array(np.array(list("xyxyzxyxyz")), chunks=3)
    found, _ = read(engine, *arrays, groups)
    assert [labels for _, _, labels in found] == [list(one) for one in ("xyx", "yzx", "yxy", "z")]


def test_unknown_chunks_and_empty_partitions_are_fine(engine, arrays):
    X, y = arrays
    kept = X[:, 0] > 10.0
    found, values = read(engine, X[kept], y[kept])
    assert [n for n, _, _ in found] == [0, 3, 3, 1]
    assert len(values) == 7 * 5


def test_frames_keep_names_and_groups(engine, frame):
    some = frame[frame.a > 3.0]
    X = some[["a", "b"]]
    found, values = read(engine, X, some["y"], some["g"])
    assert found == [
        (0, (0, 2), []),
        (3, (0, 2), ["z", "x", "y"]),
        (3, (0, 2), ["x", "y", "z"]),
    ]
    assert values.sum() == 3 * FRAME.a[4:].sum() + FRAME.y[4:].sum()


def test_other_cuts_are_refused(engine, arrays, frame):
    X, y = arrays
    for others, words in (
        ((y.rechunk(5),), "X has 4 partitions and y has 2"),
        ((y.rechunk(((1, 3, 3, 3),)),), "Partition 0 of X has 3 rows, and that of y has 1"),
        ((y, y.rechunk(10)), "X has 4 partitions and groups has 1"),
        ((frame["y"],), "X has 4 partitions and y has 3"),
    ):
        with pytest.raises(ValueError, match=words):
            hold_collections(X, *others)
    # what only a pass sees
    handles = hold_collections(X[X[:, 0] > 10.0], y[X[:, 0] > 14.0])
    with pytest.raises(ValueError, match="Partition 1 of X has 3 rows, and that of y has 2"):
        engine.collect(handles, toy.shape)


def test_nothing_is_held_before_something_is_derived(engine, threads, arrays):
    handles = hold_collections(*arrays)
    engine.collect(handles, toy.shape)
    blocks = engine.derive(handles, toy.encode)
    engine.collect(blocks, toy.size)

    toy.wait_until_held(threads, len(blocks))


def test_rows_of_arrays_are_mapped_lazily(arrays):
    X, _ = arrays
    sums = map_rows(X, row_sums)
    assert isinstance(sums, da.Array)
    assert np.array_equal(sums.compute(scheduler="synchronous"), ROWS.sum(axis=1))
    two = map_rows(X[X[:, 0] > 10.0], first_two, columns=["p", "q"])
    assert two.dtype == float
    assert np.array_equal(two.compute(scheduler="synchronous"), ROWS[3:, :2])
    words = map_rows(X, row_words, dtype=np.dtype("U3"))
    assert words.compute(scheduler="synchronous")[0] == "6.0"


def test_rows_of_frames_keep_their_index(frame):
    X = frame[frame.a > 3.0][["a", "b"]]
    sums = map_rows(X, row_sums).compute(scheduler="synchronous")
    assert sums.equals(3.0 * FRAME.a[4:].rename(None))
    two = map_rows(X, first_two, columns=["p", "q"]).compute(scheduler="synchronous")
    assert list(two.columns) == ["p", "q"]
    assert two.index.equals(FRAME.index[4:])


def row_sums(rows):
    return np.asarray(rows).sum(axis=1)


def first_two(rows):
    return np.asarray(rows)[:, :2]


def row_words(rows):
    return [f"{number:.1f}" for number in row_sums(rows)]
