"""Runs of rows of mapped arrays: views here, the same file again in another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.sources import ArraySource
from sklearn_dpwg.data.sources import table as partition
from sklearn_dpwg.data.sources.table import fingerprint
from sklearn_dpwg.exceptions import ChangedDataError


def mapped(folder: Path, name: str, array: np.ndarray) -> np.memmap:
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def cut(X: np.ndarray, form: str) -> np.ndarray:
    """Return a view that does not begin or go on where the file does."""
    return {
        "whole": X, "plain": np.asarray(X), "later": X[3:], "thin": X[:, 1:], "back": X[::-1, ::-1],
        "of a view": np.asarray(X[1:])[1::2],
    }[form]  # fmt: skip


@given(
    n_records=st.integers(0, 30),
    block_rows=st.one_of(st.none(), st.integers(1, 40)),
    dtype=st.sampled_from(["<f4", "<f8", "<i2", "?"]),
    order=st.sampled_from("CF"),
    form=st.sampled_from(["whole", "plain", "later", "thin", "back", "of a view"]),
    on_file=st.booleans(),
)
def test_parts_put_together_are_the_arrays(
    tmp_path_factory, n_records, block_rows, dtype, order, form, on_file
):
    folder = tmp_path_factory.mktemp("arrays")
    full = np.arange(3.0 * n_records).reshape(n_records, 3).astype(dtype)
    full = np.asarray(full, order=order)
    held = mapped(folder, "X", full) if on_file and n_records else full
    X, expected = cut(held, form), cut(full, form)
    y, groups = np.arange(len(X)), np.arange(len(X)) % 2
    source = ArraySource(X, y, groups, block_rows=block_rows)
    parts = source.partitions()
    for parts_read in (parts, pickle.loads(pickle.dumps(parts))):
        tables = [part.read() for part in parts_read]
        np.testing.assert_array_equal(np.concatenate([table.X for table in tables]), expected)
        np.testing.assert_array_equal(np.concatenate([table.y for table in tables]), y)
        np.testing.assert_array_equal(np.concatenate([table.groups for table in tables]), groups)
        assert all(len(table.y) <= (block_rows or 30) for table in tables)
    for part, again in zip(parts, pickle.loads(pickle.dumps(parts)), strict=True):
        assert fingerprint(part.read()) == fingerprint(again.read())
        labels = again.read_labels()
        assert labels.X.shape == (0, X.shape[1])
        assert labels.X.dtype == X.dtype


def test_reading_a_mapped_run_copies_nothing(tmp_path):
    X = mapped(tmp_path, "X", np.ones((1000, 4)))
    parts = ArraySource(X, np.ones(1000), block_rows=300).partitions()
    assert [len(part.read().X) for part in parts] == [300, 300, 300, 100]
    assert all(np.shares_memory(part.read().X, X) for part in parts)


def test_a_pickle_holds_the_place_and_not_the_rows(tmp_path):
    X = mapped(tmp_path, "X", np.full((100_000, 4), 0.123))
    y = mapped(tmp_path, "y", np.ones(100_000))
    (part,) = ArraySource(X, y).partitions()
    pickled = pickle.dumps(part)
    assert len(pickled) < 2000
    # in another process on the machine it is the same file
    code = (
        "import pickle, sys, numpy as np\n"
        "table = pickle.load(sys.stdin.buffer).read()\n"
        "base = table.X\n"
        "while isinstance(base, np.ndarray) and not isinstance(base, np.memmap): base = base.base\n"
        "print(type(base).__name__, table.X.shape, table.X.sum() == 0.123 * 400_000, "
        "table.X.flags.writeable)"
    )
    run = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True)
    assert run.returncode == 0, run.stderr
    shown = run.stdout.decode().split()
    assert shown[0] == "memmap"
    assert shown[1:3] == ["(100000,", "4)"]
    assert shown[-1] == "False"


def test_what_is_in_no_file_is_copied_for_the_run_alone(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((1000, 4)))
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[:] = 7.0  # on this mapping alone
    for rows in (X, np.full((1000, 4), 7.0)):
        part = ArraySource(rows, np.ones(1000), block_rows=10).partitions()[3]
        pickled = pickle.dumps(part)
        assert len(pickled) < 2000
        assert (pickle.loads(pickled).read().X == 7.0).all()


def test_a_file_that_changes_is_refused(tmp_path):
    X = mapped(tmp_path, "X", np.ones((20, 4)))
    (part,) = ArraySource(X, np.ones(20)).partitions()
    pickled = pickle.dumps(part)
    with open(tmp_path / "X.npy", "rb+") as file:
        file.seek(-8, os.SEEK_END)
        file.write(np.float64(2.0).tobytes())
    os.utime(tmp_path / "X.npy", ns=(1, 1))
    for read in (part.read, part.read_labels, lambda: pickle.loads(pickled)):
        with pytest.raises(ChangedDataError, match=r"X\.npy' must stay as it was"):
            read()
    os.unlink(tmp_path / "X.npy")
    with pytest.raises(ChangedDataError, match="has changed or is gone"):
        part.read()


def test_sparse_rows_and_frames_of_groups_are_cut_too():
    X = csr_array(np.eye(5))
    groups = pd.DataFrame({"g": list("aabbb"), "h": range(5)}, index=range(10, 15))
    parts = ArraySource(X, np.arange(5), groups, block_rows=2).partitions()
    tables = [pickle.loads(pickle.dumps(part)).read() for part in parts]
    np.testing.assert_array_equal(np.vstack([t.X.toarray() for t in tables]), np.eye(5))
    pd.testing.assert_frame_equal(pd.concat([table.groups for table in tables]), groups)


def test_blocks_are_as_large_as_they_may_be(monkeypatch):
    monkeypatch.setattr(partition, "PART_BYTES", 640)
    assert ArraySource(np.ones((50, 4)), np.ones(50)).block_rows == 20
    monkeypatch.setattr(partition, "PART_ROWS", 7)
    assert ArraySource(np.ones((50, 4)), np.ones(50)).block_rows == 7
    assert ArraySource(np.ones((50, 1000)), np.ones(50)).block_rows == 1


def test_no_entry_of_a_sparse_row_decides_where_blocks_end(monkeypatch):
    monkeypatch.setattr(partition, "SPARSE_PART_ROWS", 7)
    sizes = set()
    for n_entries in (0, 1, 49, 50):
        rows = np.eye(50)
        rows[0] = np.arange(50) < n_entries
        parts = ArraySource(csr_array(rows), np.ones(50)).partitions()
        sizes.add(tuple(len(part.read().y) for part in parts))
    assert sizes == {(7,) * 7 + (1,)}


@pytest.mark.parametrize(
    ("X", "y", "groups", "words"),
    [
        ([[1.0]], np.ones(1), None, r"^X must be an array of numbers .*, got list\.$"),
        (np.ones(3), np.ones(3), None, r"got ndarray of shape \(3,\) and type float64"),
        (np.array([["a"]]), np.ones(1), None, "^X must be an array of numbers"),
        (pd.DataFrame({"x": [1.0]}), np.ones(1), None, r"got DataFrame of shape \(1, 1\)"),
        (np.ones((2, 1)), np.ones(3), None, "^y must have one entry a record: got 3 for 2"),
        (np.ones((2, 1)), [1, 2], None, "^y must be an array or a Series with .*, got list"),
        (np.ones((2, 1)), np.ones((2, 1)), None, "^y must be an array or a Series with one target"),
        (np.ones((2, 1)), np.ones(2), np.ones(3), "^groups must have one entry a record: got 3"),
        (np.ones((2, 1)), np.ones(2), ["a", "b"], "^groups must be an array, a Series or"),
    ],
)
def test_wrong_arrays_are_refused(X, y, groups, words):
    with pytest.raises(ValueError, match=words):
        ArraySource(X, y, groups)


def test_reprs_show_no_value():
    source = ArraySource(np.full((2, 1), 0.123), np.full(2, 0.123), np.array(["a", "b"]))
    assert repr(source) == "ArraySource(X of shape (2, 1))"
    for shown in (source.partitions()[0], source.partitions()[0].read()):
        assert "123" not in repr(shown)
        assert "'a'" not in repr(shown)
