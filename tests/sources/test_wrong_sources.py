"""What is wrong with a source is said when it is made."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, fs, parquet

from sklearn_dpwg.data.sources import ArraySource, ParquetSource, group_sizes
from sklearn_dpwg.data.sources import parquet as parquet_source
from sklearn_dpwg.data.sources.table import fingerprint

FRAME = pd.DataFrame({"x": [0.5, 77.25], "y": ["secret", "no"], "g": ["secret", "north"]})


@pytest.fixture
def rows(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet", index=False)
    return tmp_path / "rows.parquet"


def source_of(data, **parameters):
    return ParquetSource(data, **({"features": ["x"], "target": "y", "groups": "g"} | parameters))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"target": FRAME["y"]}, "^target must be the name of a column, got Series"),
        ({"target": FRAME["y"].to_numpy()}, "^target must be the name of a column, got ndarray"),
        ({"target": ["secret"]}, "^target must be the name of a column, got list"),
        ({"groups": [0]}, "^groups must be names of columns, got list with int in it"),
        ({"groups": FRAME["g"]}, "^groups must be names of columns, got Series"),
        ({"groups": FRAME["g"].to_numpy()}, "^groups must be names of columns, got ndarray"),
        ({"groups": pl.Series(["secret"])}, "^groups must be names of columns, got Series"),
        ({"groups": pa.chunked_array([["secret"]])}, "names of columns, got ChunkedArray with Str"),
        ({"groups": [FRAME["g"]]}, "^groups must be names of columns, got list with Series in it"),
        ({"groups": 77}, "^groups must be names of columns, got int"),
        ({"features": FRAME["g"]}, "^features must be names of columns, got Series"),
        ({"features": FRAME[["x"]].to_numpy()}, "names of columns, got ndarray with ndarray in it"),
        ({"features": []}, "^features must be names of columns, got list with nothing in it"),
        ({"features": [77.25]}, "^features must be names of columns, got list with float in it"),
    ],
)
def test_values_where_names_belong_are_refused(rows, parameters, words):
    with pytest.raises(TypeError, match=words):
        source_of(rows, **parameters)


def test_names_may_be_an_index_or_an_array_of_features(rows):
    for features in (FRAME.columns[:1], np.array(["x"]), np.array(["x"], dtype=object)):
        source = source_of(rows, features=features, groups=FRAME.columns[2:])
        assert (source.features, source.groups) == (["x"], ["g"])


@pytest.mark.parametrize(
    ("spool", "words"),
    [
        ("", "^spool must be an existing directory, got ''"),
        ("file", "^spool must be an existing directory, got 'file'"),
        ("gone", "^spool must be an existing directory, got 'gone'"),
        (True, "^spool must be the path of a directory, got bool"),
        (FRAME["y"], "^spool must be the path of a directory, got Series"),
    ],
)
def test_a_wrong_spool_is_refused_when_the_source_is_made(
    tmp_path, rows, monkeypatch, spool, words
):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for make in (
        lambda: source_of(rows, spool=spool),
        lambda: source_of(pl.scan_parquet(rows), spool=spool),
        lambda: ArraySource(np.zeros((2, 1)), np.zeros(2), spool=spool),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            make()


def test_a_file_is_read_once_under_whatever_name(tmp_path, rows, monkeypatch):
    for place, name in ((tmp_path, "hard.parquet"), (tmp_path / "b", "rows.parquet")):
        place.mkdir(exist_ok=True)
        os.link(rows, place / name)
    (tmp_path / "soft.parquet").symlink_to(rows)
    monkeypatch.chdir(tmp_path)
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    again = {
        "the same": [rows, rows],
        "from here": [rows, "rows.parquet"],
        "with dots": [rows, tmp_path / "b" / ".." / "rows.parquet"],
        "as a URL": [rows, rows.as_uri()],
        "a symbolic link": [rows, "soft.parquet"],
        "a hard link": [rows, "hard.parquet"],
        "a hard link in a directory": tmp_path,
        "from another root": dataset.dataset(
            [dataset.dataset(rows), dataset.dataset("hard.parquet", filesystem=below)]
        ),
    }
    for data in again.values():
        with pytest.raises(ValueError, match=r"^data must name each file once, got .* again: a re"):
            source_of(data)
    parquet.write_table(pa.Table.from_pandas(FRAME), rows, row_group_size=1)
    (whole,) = dataset.dataset(rows).get_fragments()
    for listed in ([0], [1, 1]):
        parts = [whole.subset(row_group_ids=listed)]
        some = dataset.FileSystemDataset(parts, whole.physical_schema, whole.format)
        with pytest.raises(ValueError, match=r"^data must be a dataset of whole files, got one"):
            source_of(some)
    # where names do not tell capitals apart, and where a file system numbers no files
    monkeypatch.setattr(os, "stat", lambda path: SimpleNamespace(st_dev=0, st_ino=0))
    monkeypatch.setattr(os.path, "normcase", str.lower)
    monkeypatch.setattr(os.path, "realpath", str)
    known = parquet_source._known_by
    assert known(fs.LocalFileSystem(), "/A") == known(fs.LocalFileSystem(), "/a")
    assert known(fs.LocalFileSystem(), "/a") != known(fs.LocalFileSystem(), "/b")


def test_rows_that_share_memory_are_refused():
    numbers = np.arange(12.0)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, 3)
    for X in (np.broadcast_to(numbers[:3], (5, 3)), windows, windows[::-2]):
        with pytest.raises(ValueError, match=r"^X must hold every number once, got rows that"):
            ArraySource(X, np.zeros(len(X)))
    for X in (windows[::3], numbers.reshape(4, 3, order="F")[::-1, ::2], numbers[:3][None]):
        ArraySource(X, np.zeros(len(X)))


@pytest.mark.parametrize("groups", [None, "g", ["g", "y"]])
@pytest.mark.parametrize("form", ["file", "lazy"])
def test_records_without_targets_are_read(tmp_path, rows, form, groups):
    parquet.write_table(parquet.read_table(rows).drop_columns("y" if groups != ["g", "y"] else []),
                        rows)  # fmt: skip
    data = rows if form == "file" else pl.scan_parquet(rows)
    source = source_of(data, target=None, groups=groups, spool=tmp_path)
    parts = source.partitions()
    (table,) = (part.read() for part in parts)
    (labels,) = (part.read_labels() for part in parts)
    assert table.X["x"].tolist() == [0.5, 77.25]
    assert table.y is None
    assert labels.y is None
    assert labels.X.shape == (0, 1)
    assert fingerprint(table)
    source.release(parts)
    if groups is not None:
        assert list(group_sizes(source).values()) == [1, 1]
    assert "target=None" in repr(source)
