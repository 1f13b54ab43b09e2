"""Parts of Parquet files put together are the table, whatever its types and row groups are."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from sklearn_dpwg.data.sources import ArraySource, ParquetSource
from sklearn_dpwg.data.sources import source as source_module

NUMBERS = {
    "float32": pa.float32(), "float64": pa.float64(), "float16": pa.float16(), "bool": pa.bool_(),
    "int8": pa.int8(), "int64": pa.int64(), "uint64": pa.uint64(), "decimal": pa.decimal128(9, 2),
    "numbers by code": pa.dictionary(pa.int8(), pa.int64()),
}  # fmt: skip
LABELS = {
    "string": pa.string(), "large string": pa.large_string(), "bool": pa.bool_(),
    "int16": pa.int16(), "double": pa.float64(), "date": pa.date32(), "binary": pa.binary(),
    "category": pa.dictionary(pa.int8(), pa.string()),
    "whole category": pa.dictionary(pa.int32(), pa.int64()),
    "time": pa.timestamp("us"),
}  # fmt: skip


def values_of(kind: pa.DataType, rng: np.random.Generator, size: int) -> list:
    """Return random values of a type, few different ones so that labels come again."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_floating(plain):
        return np.round(rng.normal(size=size), 2).astype(plain.to_pandas_dtype()).tolist()
    whole = rng.integers(0, 9, size)
    if pa.types.is_boolean(plain):
        return (whole > 4).tolist()
    if pa.types.is_decimal(plain):
        return [Decimal(int(value)) / 4 for value in whole]
    if pa.types.is_temporal(plain):
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(whole, unit="D")
        return [day.date() if pa.types.is_date(plain) else day.to_pydatetime() for day in days]
    if pa.types.is_binary(plain):
        return [b"label %d" % value for value in whole]
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return [f"label {value}" for value in whole]
    return whole.tolist()


def together(source: ParquetSource) -> tuple[np.ndarray, list, list]:
    """Return rows, targets and groups of all parts."""
    tables = [part.read() for part in source.partitions()]
    assert all(list(table.X.columns) == source.features for table in tables)
    X = np.concatenate([table.X.to_numpy() for table in tables])
    y = [value for table in tables for value in table.y.tolist()]
    groups = [cells for table in tables for cells in table.groups.itertuples(False, None)]
    return X, y, groups


@given(
    kinds=st.lists(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=4),
    labels=st.tuples(*[st.sampled_from(sorted(LABELS))] * 3),
    size=st.integers(0, 60),
    row_group=st.integers(1, 70),
    part_rows=st.integers(1, 40),
    form=st.sampled_from(["file", "files", "dataset"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_parts_put_together_are_the_table(
    tmp_path_factory, kinds, labels, size, row_group, part_rows, form, seed
):
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(seed)
    types = {f"x{place}": NUMBERS[kind] for place, kind in enumerate(kinds)}
    types |= dict(zip(("y", "g", "h"), (LABELS[label] for label in labels), strict=True))
    columns = {name: values_of(kind, rng, size) for name, kind in types.items()}
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
    path = folder / "b.parquet"
    parquet.write_table(table, path, row_group_size=row_group)
    data: object = path
    if form == "files":  # in the order given, not that of their names
        data = [path, folder / "a.parquet"]
        parquet.write_table(table.slice(size // 2), folder / "a.parquet")
        parquet.write_table(table.slice(0, size // 2), path, row_group_size=row_group)
    elif form == "dataset":
        data = dataset.dataset(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "PART_ROWS", part_rows)
        features = [name for name in types if name.startswith("x")]
        source = ParquetSource(data, features=features, target="y", groups=["g", "h"])
        X, y, groups = together(source)
        for part in source.partitions():
            whole, alone = part.read(), part.read_labels()
            assert len(whole.y) <= max(part_rows, row_group, 30 if form == "files" else 0)
            assert alone.X.shape == (0, len(features))
            assert alone.X.dtypes.tolist() == whole.X.dtypes.tolist()
            assert alone.y.tolist() == whole.y.tolist()
            pd.testing.assert_frame_equal(alone.groups, whole.groups)
    single = set(kinds) == {"float32"}
    assert X.dtype == (np.float32 if single else np.float64)
    expected = [np.array(columns[name], dtype=float) for name in source.features]
    np.testing.assert_array_equal(X, np.array(expected).T.reshape(size, len(kinds)))
    assert pd.Series(y).tolist() == pd.Series(columns["y"]).tolist()
    assert groups == list(zip(columns["g"], columns["h"], strict=True))


def write(path: Path, **columns: object) -> Path:
    frame = {"x": [0.5, 1.5], "y": [0, 1], "g": ["a", "b"]} | columns
    parquet.write_table(pa.table(frame), path)
    return path


def source_of(data: object, **parameters: object) -> ParquetSource:
    named = {"features": ["x"], "target": "y", "groups": "g"} | parameters
    return ParquetSource(data, **named)


def test_files_of_a_directory_come_by_name_and_their_paths_are_columns(tmp_path):
    for region, x in (("south", 3.0), ("north", 1.0)):
        folder = tmp_path / f"region={region}"
        folder.mkdir()
        write(folder / "2.parquet", x=[x, x])
        write(folder / "1.parquet", x=[-x, -x])
        write(folder / "_new.parquet", x=[99.0, 99.0])
    (tmp_path / "_SUCCESS").touch()
    X, _, groups = together(source_of(tmp_path, groups=["region"]))
    assert X.ravel().tolist() == [-1, -1, 1, 1, -3, -3, 3, 3]
    assert [cells[0] for cells in groups] == ["north"] * 4 + ["south"] * 4


def test_types_that_differ_between_files_are_read_as_one(tmp_path):
    first = write(tmp_path / "1.parquet", x=pa.array([1, 2], pa.float32()), y=pa.array([1, 0]))
    second = write(tmp_path / "2.parquet", x=pa.array([0.1, 0.2]), y=pa.array([0.0, 1.0]))
    X, y, _ = together(source_of([first, second]))
    assert X.ravel().tolist() == [1, 2, 0.1, 0.2]
    assert {type(value) for value in y} == {float}
    third = write(tmp_path / "3.parquet", y=["no", "yes"])
    with pytest.raises(ValueError, match=r"column 'y', got int64 and string\.$"):
        source_of([first, third])


@pytest.mark.parametrize(
    "parameters",
    [
        {"features": ["x", "z"]},
        {"features": ["x", "x"]},
        {"features": "x"},
        {"features": []},
        {"features": ["x", "y"]},
        {"target": ["y"]},
        {"groups": ["g", "z"]},
        {"groups": 77},
    ],
)
def test_wrong_names_are_refused(tmp_path, parameters):
    with pytest.raises((TypeError, ValueError), match=f"^{min(parameters)} must"):
        source_of(write(tmp_path / "rows.parquet"), **parameters)


def test_wrong_data_is_refused(tmp_path):
    path = write(tmp_path / "rows.parquet")
    (tmp_path / "empty").mkdir()
    for data, words in (
        (pd.read_parquet(path), "got DataFrame: what fits in memory is passed to fit"),
        (pl.scan_parquet(path), r"got LazyFrame: .* query\.sink_parquet\(path\) writes"),
        ([], "a path or several"),
        (tmp_path / "empty", "got none in"),
        (dataset.dataset(path).filter(dataset.field("x") > 1), "filter"),
        (dataset.dataset(pa.table({"x": [1.0]})), "a dataset of Parquet files"),
    ):
        with pytest.raises((TypeError, ValueError, OSError), match=words):
            source_of(data)


def test_a_file_is_read_once_under_whatever_name(tmp_path, monkeypatch):
    rows = write(tmp_path / "rows.parquet")
    (tmp_path / "soft.parquet").symlink_to(rows)
    monkeypatch.chdir(tmp_path)
    for data in ([rows, rows], [rows, "rows.parquet"], [rows, "soft.parquet"], tmp_path):
        with pytest.raises(ValueError, match=r"^data must name each file once, got .* again: a re"):
            source_of(data)


def test_reprs_show_no_value(tmp_path):
    folder = tmp_path / "region=north"
    folder.mkdir()
    write(folder / "rows.parquet")
    source = source_of(tmp_path, groups=["region"])
    (part,) = source.partitions()
    arrays = ArraySource(np.zeros((1, 1)), np.zeros(1), np.array(["north"]))
    for shown in (source, part, part.read(), arrays, *arrays.partitions()):
        assert "north" not in repr(shown)
