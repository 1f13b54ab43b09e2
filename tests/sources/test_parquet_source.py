"""Parts of Parquet files put together are the table, whatever its types and row groups are."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
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

from sklearn_dpwg.data.groups import encode_groups
from sklearn_dpwg.data.sources import ParquetSource
from sklearn_dpwg.data.sources import parquet as parquet_source
from sklearn_dpwg.data.sources import table as partition
from sklearn_dpwg.data.sources.parquet_files import BATCH_ROWS, SpooledFile
from sklearn_dpwg.data.sources.table import fingerprint
from sklearn_dpwg.estimators.encode import check_columns
from sklearn_dpwg.exceptions import ChangedDataError

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
    version=st.sampled_from(["1.0", "2.6"]),
    form=st.sampled_from(["file", "files", "dataset", "lazy", "cut"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_parts_put_together_are_the_table(
    tmp_path_factory, kinds, labels, size, row_group, part_rows, version, form, seed
):
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(seed)
    types = {f"x{place}": NUMBERS[kind] for place, kind in enumerate(kinds)}
    types |= dict(zip(("y", "g", "h"), (LABELS[label] for label in labels), strict=True))
    columns = {name: values_of(kind, rng, size) for name, kind in types.items()}
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
    path = folder / "b.parquet"
    kwargs = {"compression": "none", "version": version}
    parquet.write_table(table, path, row_group_size=row_group, **kwargs)
    data: object = path
    if form == "files":  # in the order given, not that of their names
        data = [path, folder / "a.parquet"]
        parquet.write_table(table.slice(size // 2), folder / "a.parquet", **kwargs)
        parquet.write_table(table.slice(0, size // 2), path, row_group_size=row_group, **kwargs)
    elif form == "dataset":
        data = dataset.dataset(path)
    elif form == "lazy":
        data = pl.scan_parquet(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "PART_ROWS", part_rows)
        if form == "cut":
            patch.setattr(parquet_source, "LARGEST_GROUP_ROWS", 5)
        source = ParquetSource(
            data,
            features=[name for name in types if name.startswith("x")],
            target="y",
            groups=["g", "h"],
            spool=folder,
        )
        parts = source.partitions()
        X, y, groups = together(source)
        if form in ("cut", "lazy"):
            assert all(part.n_records <= max(part_rows, 5) for part in parts)
    single = set(kinds) == {"float32"}
    assert X.dtype == (np.float32 if single else np.float64)
    expected = [np.array(columns[name], dtype=float) for name in source.features]
    np.testing.assert_array_equal(X, np.array(expected).T.reshape(size, len(kinds)))
    assert y == columns["y"]
    assert groups == list(zip(columns["g"], columns["h"], strict=True))
    # a file without a name is read by the process that wrote it
    is_spooled = any(isinstance(part._file, SpooledFile) for part in parts)
    for part in parts if is_spooled else pickle.loads(pickle.dumps(parts)):
        whole = part.read()
        assert whole.X.to_numpy().flags.c_contiguous or part.n_records == 0
        labels_alone = replace(whole, X=whole.X[:0])
        assert fingerprint(part.read_labels()) == fingerprint(labels_alone)
    del parts, part
    assert [name for name in os.listdir(folder) if not name.endswith(".parquet")] == []


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
    exact = write(tmp_path / "4.parquet", y=[2**53 + 1, 7])
    with pytest.raises(ValueError, match=r"double can hold in column 'y'"):
        together(source_of([exact, second]))


def test_groups_that_are_missing_are_left_to_who_encodes_them(tmp_path):
    for missing in (["a", None], pa.array([None, 1]), pa.array(["a", None]).dictionary_encode()):
        (part,) = source_of(write(tmp_path / "rows.parquet", g=missing)).partitions()
        for table in (part.read(), part.read_labels()):
            assert table.groups["g"].isna().sum() == 1
            with pytest.raises(ValueError, match="groups contains NaN or None"):
                encode_groups(table.groups, 2, None)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["p", "q"]), pa.array([b"p", b"q"]), pa.array(["p", "q"]).dictionary_encode(),
        pa.array([0, 1], pa.timestamp("s")), pa.array([0, 1], pa.date32()),
        pa.array([0, 1], pa.duration("s")), pa.array([0, 1], pa.time32("s")),
    ],
)  # fmt: skip
def test_features_are_refused_with_the_words_for_frames(tmp_path, column):
    path = write(tmp_path / "rows.parquet", x=column)
    with pytest.raises(ValueError, match=r"^X must hold numbers") as of_frame:
        check_columns(pd.DataFrame({"x": parquet.read_table(path).column("x").to_pandas()}))
    with pytest.raises(ValueError, match="in column 'x'") as found:
        source_of(path)
    assert str(found.value) == str(of_frame.value)


def test_missing_values_are_told_by_column_and_not_by_value(tmp_path):
    (part,) = source_of(write(tmp_path / "rows.parquet", x=[0.25, None])).partitions()
    with pytest.raises(ValueError, match=r"^Input X contains NaN in column 'x': PublicSchema"):
        part.read()
    assert len(part.read_labels().y) == 2
    for y in ([3, None], ["c", None], pa.array(["c", None]).dictionary_encode()):
        (part,) = source_of(write(tmp_path / "rows.parquet", y=y)).partitions()
        for read in (part.read, part.read_labels):
            with pytest.raises(ValueError, match=r"^y must hold no missing values, .* 'y'\.$"):
                read()


WRONG = {
    "unknown feature": ({"features": ["x", "z"]}, "features must name columns .* 'y', 'g'.* 'z'"),
    "unknown target": ({"target": "z"}, "^target must name columns of data"),
    "unknown groups": ({"groups": ["g", "z"]}, "^groups must name columns of data"),
    "features twice": ({"features": ["x", "x"]}, "each column once, got 'x' twice"),
    "one feature": ({"features": "x"}, "^features must be names of columns, got 'x'"),
    "target among features": ({"features": ["x", "y"]}, "must not hold the target, got 'y'"),
    "nested groups": ({"groups": "nested"}, "^groups must hold labels, got lists .* 'nested'"),
    "nested target": ({"target": "nested"}, "^y must hold classes or numbers, got lists"),
}


def test_wrong_data_is_refused(tmp_path):
    path = write(tmp_path / "rows.parquet")
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.parquet").write_text("not Parquet")
    frame = pd.read_parquet(path)
    for data, words in (
        (frame, "got DataFrame: what fits in memory is passed to fit"),
        (pl.from_pandas(frame), "got DataFrame"),
        (7, "got int"),
        ([], "a path or a sequence of paths"),
        ([path, 7], "a path or a sequence of paths"),
        (tmp_path / "gone", "Parquet files that exist, got .*gone"),
        (tmp_path / "empty", "a directory in which no name ends in"),
        (tmp_path / "no.parquet", "data must be Parquet files, got"),
        (dataset.dataset(path).filter(dataset.field("x") > 1), "without a filter"),
        (dataset.dataset(pa.table({"x": [1.0]})), "a dataset of Parquet files"),
    ):
        with pytest.raises((TypeError, ValueError, OSError), match=words):
            source_of(data)
    with pytest.raises(ValueError, match=r"^spool must name a directory where data is a LazyFrame"):
        source_of(pl.scan_parquet(path))
    other = tmp_path / "other.parquet"
    parquet.write_table(pa.table({"x": [1.0], "y": [1]}), other)
    with pytest.raises(ValueError, match=r"column 'g' in every file, and .*other\.parquet"):
        source_of([path, other])
    parquet.write_table(pa.table([[1.0], [2.0], [1], ["a"]], names=["x", "x", "y", "g"]), other)
    for files in (other, [path, other]):
        with pytest.raises(ValueError, match="of its own for each column, got 'x' twice in"):
            source_of(files)


def test_a_file_that_changes_is_refused(tmp_path):
    path = write(tmp_path / "rows.parquet")
    (part,) = source_of(path).partitions()
    before = os.stat(path)
    write(path, x=[0.5, 1.25])
    with pytest.raises(ChangedDataError, match=r"rows\.parquet' must stay as it was"):
        part.read()
    # of one size and time, with another number of rows in a group
    write(path, x=[0.5], y=[0], g=["a"])
    with open(path, "rb+") as file:
        content = file.read()
    assert len(content) <= before.st_size
    file_facts = replace(part._file, n_bytes=len(content), modified=os.stat(path).st_mtime_ns)
    part._file = file_facts
    with pytest.raises(ChangedDataError, match="has changed or is gone"):
        part.read_labels()
    path.unlink()
    with pytest.raises(ChangedDataError, match="is gone"):
        part.read()


def test_empty_files_are_one_empty_part(tmp_path):
    paths = [tmp_path / "rows.parquet", tmp_path / "more.parquet"]
    for path in paths:
        parquet.write_table(pa.table({"x": [0.5], "y": [1], "g": ["a"]}).slice(1), path)
    (part,) = source_of(paths).partitions()
    table = part.read()
    assert table.X.shape == (0, 1)
    assert len(table.y) == len(table.groups) == 0


def test_parts_of_several_batches_are_read_in_order(tmp_path):
    n_rows = 2 * BATCH_ROWS + 7
    x = np.arange(n_rows, dtype=np.float32)
    path = write(tmp_path / "rows.parquet", x=x, y=x, g=np.arange(n_rows) % 3)
    (part,) = source_of(path).partitions()
    table = part.read()
    np.testing.assert_array_equal(table.X["x"], x)
    np.testing.assert_array_equal(table.y, x)
    np.testing.assert_array_equal(table.groups["g"], np.arange(n_rows) % 3)


def test_a_query_that_fails_leaves_nothing(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()

    def fail(frame: pl.DataFrame) -> pl.DataFrame:
        raise RuntimeError("no rows")

    path = write(tmp_path / "rows.parquet")
    query = pl.scan_parquet(path).map_batches(fail, schema=None)
    with pytest.raises((pl.exceptions.PolarsError, RuntimeError), match="no rows"):
        source_of(query, spool=spool).partitions()
    assert list(spool.iterdir()) == []


def test_reprs_show_no_value(tmp_path):
    folder = tmp_path / "region=north"
    folder.mkdir()
    write(folder / "rows.parquet")
    source = source_of(tmp_path, groups=["region"])
    (part,) = source.partitions()
    for shown in (repr(source), repr(part), repr(part.read())):
        assert "north" not in shown
