"""Runs of rows of mapped arrays are views, cut where public facts say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.sources import ArraySource, source


def mapped(folder: Path, name: str, array: np.ndarray) -> np.memmap:
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


@given(
    n_records=st.integers(0, 30),
    block_rows=st.one_of(st.none(), st.integers(1, 40)),
    dtype=st.sampled_from(["<f4", "<f8", "<i2", "?"]),
    order=st.sampled_from("CF"),
    on_file=st.booleans(),
)
def test_parts_put_together_are_the_arrays(
    tmp_path_factory, n_records, block_rows, dtype, order, on_file
):
    full = np.arange(3.0 * n_records).reshape(n_records, 3).astype(dtype)
    X = full = np.asarray(full, order=order)
    if on_file and n_records:
        X = mapped(tmp_path_factory.mktemp("arrays"), "X", full)
    y, groups = np.arange(n_records), np.arange(n_records) % 2
    parts = ArraySource(X, y, groups, block_rows=block_rows).partitions()
    tables = [part.read() for part in parts]
    np.testing.assert_array_equal(np.concatenate([table.X for table in tables]), full)
    np.testing.assert_array_equal(np.concatenate([table.y for table in tables]), y)
    np.testing.assert_array_equal(np.concatenate([table.groups for table in tables]), groups)
    assert all(len(table.y) <= (block_rows or 30) for table in tables)
    assert all(np.shares_memory(table.X, X) for table in tables if n_records)
    for part in parts:
        labels = part.read_labels()
        assert labels.X.shape == (0, 3)
        assert len(labels.y) == len(part.read().y)


def test_public_facts_alone_decide_where_blocks_end(monkeypatch):
    monkeypatch.setattr(source, "PART_BYTES", 640)
    assert ArraySource(np.ones((50, 4)), np.ones(50)).block_rows == 20
    monkeypatch.setattr(source, "PART_ROWS", 7)
    assert ArraySource(np.ones((50, 4)), np.ones(50)).block_rows == 7
    assert ArraySource(np.ones((50, 1000)), np.ones(50)).block_rows == 1
    for n_entries in (0, 1, 49, 50):
        rows = np.eye(50)
        rows[0] = np.arange(50) < n_entries
        result = ArraySource(csr_array(rows), np.ones(50))
        assert result.block_rows == source.SPARSE_PART_ROWS


@pytest.mark.parametrize(
    ("name", "X", "y", "groups"),
    [
        ("X", [[1.0]], np.ones(1), None),
        ("X", np.array([["a"]]), np.ones(1), None),
        ("y", np.ones((2, 1)), np.ones(3), None),
        ("y", np.ones((2, 1)), [1, 2], None),
        ("groups", np.ones((2, 1)), np.ones(2), np.ones(3)),
    ],
)
def test_wrong_arrays_are_refused(name, X, y, groups):
    with pytest.raises(ValueError, match=f"^{name} must"):
        ArraySource(X, y, groups)
