"""Parquet files: which there are, what they hold, and the records of a run of row groups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sklearn_dpwg.exceptions import ChangedDataError
from sklearn_dpwg.sources.arrow_columns import as_group_column, as_targets, fill_numbers
from sklearn_dpwg.sources.table import Table

# Rows that are decoded at once: columns of so many lie in the cache while rows are made of them.
BATCH_ROWS = 2**14
# Bytes that are read from a local file at once, for each column.
_BUFFER_BYTES = 2**18
_ENDINGS = (".parquet", ".pq", ".parq")


@dataclass(frozen=True)
class Columns:
    """Which columns are read, and in which types."""

    features: tuple[str, ...]  # columns of the rows
    target: str | None  # column of the targets, if there are any
    groups: tuple[str, ...]  # columns of the groups; may be empty
    kinds: dict[str, Any]  # Arrow's type of each of them
    dtype: np.dtype[Any]  # type of the rows

    @property
    def labels(self) -> list[str]:
        """Columns of targets and groups."""
        target = [] if self.target is None else [self.target]
        return list(dict.fromkeys([*target, *self.groups]))

    @property
    def bytes_per_row(self) -> int:
        """Bytes that the numbers of a row take."""
        return len(self.features) * self.dtype.itemsize


@dataclass(frozen=True)
class ParquetFile:
    """A file as it was when the source was made."""

    path: str
    filesystem: Any
    n_bytes: int  # its size and the time of its last change
    modified: int | None
    group_rows: tuple[int, ...]  # records of each row group
    keys: dict[str, Any]  # columns that its path tells, by name

    @classmethod
    def of(cls, fragment: Any) -> ParquetFile:
        """Return the file of a fragment of a dataset, with its footer read."""
        from pyarrow import dataset

        info = fragment.filesystem.get_file_info(fragment.path)
        rows = tuple(group.num_rows for group in fragment.row_groups)
        keys = dataset.get_partition_keys(fragment.partition_expression)
        return cls(fragment.path, fragment.filesystem, info.size, info.mtime_ns, rows, keys)

    def open(self, coded: Sequence[str] = ()) -> Any:
        """Open it, if it is what it was; some columns of text are read as codes."""
        from pyarrow import fs, parquet

        info = self.filesystem.get_file_info(self.path)
        if (info.size, info.mtime_ns) != (self.n_bytes, self.modified):
            raise self._changed()
        is_local = isinstance(self.filesystem, fs.LocalFileSystem)
        found = parquet.ParquetFile(
            self.filesystem.open_input_file(self.path),
            read_dictionary=list(coded),
            # far files are asked for all columns at once, near ones for a little of each at a time
            pre_buffer=not is_local,
            buffer_size=_BUFFER_BYTES if is_local else 0,
        )
        footer = found.metadata
        rows = tuple(footer.row_group(place).num_rows for place in range(footer.num_row_groups))
        if rows != self.group_rows:
            raise self._changed()
        return found

    def _changed(self) -> ChangedDataError:
        return ChangedDataError(
            f"the file {self.path!r} must stay as it was when its source was made, and it has "
            f"changed or is gone."
        )


class ParquetPartition:
    """Records of some row groups of a file, which lives as long as `keeper` does."""

    def __init__(
        self, file: ParquetFile, row_groups: Sequence[int], columns: Columns, keeper: Any = None
    ) -> None:
        self._file = file
        self._row_groups = list(row_groups)
        self._columns = columns
        self._keeper = keeper

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # a path may tell a group

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keeper": None}

    def close(self) -> None:
        """Remove the file if a spool keeps it; the partition is not read again."""
        if self._keeper is not None:
            self._keeper.close()

    @property
    def n_records(self) -> int:
        """Number of records."""
        return sum(self._file.group_rows[place] for place in self._row_groups)

    def read(self) -> Table:
        """Return the records; numbers of a row lie together."""
        import pyarrow as pa

        columns = self._columns
        rows = np.empty((self.n_records, len(columns.features)), dtype=columns.dtype)
        labels = []
        start = 0
        for batch in self._batches(list(dict.fromkeys([*columns.features, *columns.labels]))):
            stop = start + len(batch)
            for place, name in enumerate(columns.features):
                fill_numbers(rows[start:stop, place], batch.column(name), name)
            labels.append(batch.select(columns.labels))
            start = stop
        table = self._table(rows, labels)
        pa.default_memory_pool().release_unused()  # what the columns were decoded in
        return table

    def read_labels(self) -> Table:
        """Return targets and groups; columns of rows are not read."""
        columns = self._columns
        rows = np.empty((0, len(columns.features)), dtype=columns.dtype)
        return self._table(rows, list(self._batches(columns.labels)))

    def _table(self, rows: Any, labels: list[Any]) -> Table:
        import pyarrow as pa

        columns = self._columns
        schema = pa.schema([(name, columns.kinds[name]) for name in columns.labels])
        found = pa.Table.from_batches(labels, schema)
        # without a copy; a list of names keeps frames of one column and of several alike
        X = pd.DataFrame(rows, columns=list(columns.features), copy=False)
        y = None
        if columns.target is not None:
            y = as_targets(found.column(columns.target), columns.target)
        if not columns.groups:
            return Table(X, y)
        cells = {name: as_group_column(found.column(name)) for name in columns.groups}
        return Table(X, y, pd.DataFrame(cells, copy=False))

    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Yield columns of the records as batches, in the types of the source."""
        import pyarrow as pa

        kinds, keys = self._columns.kinds, self._file.keys
        schema = pa.schema([(name, kinds[name]) for name in names])
        in_file = [name for name in names if name not in keys]
        coded = [name for name in in_file if pa.types.is_dictionary(kinds[name])]
        with self._file.open(coded) as file:
            # a file that is read for keys alone has rows all the same, which some column counts
            read = in_file or file.schema_arrow.names[:1]
            for batch in file.iter_batches(BATCH_ROWS, self._row_groups, read):
                found = [
                    _cast(batch.column(name), kinds[name], name)
                    if name not in keys
                    else _cast(_repeated(keys[name], len(batch), kinds[name]), kinds[name], name)
                    for name in names
                ]
                yield pa.record_batch(found, schema=schema)


def _repeated(value: Any, n_times: int, kind: Any) -> Any:
    """Return a column of one value, which may be missing."""
    import pyarrow as pa

    return pa.array([value] * n_times, getattr(kind, "value_type", kind))


def _cast(column: Any, kind: Any, name: str) -> Any:
    """Return a column in the type that all files share, labels of text as a dictionary."""
    import pyarrow as pa

    try:
        if not pa.types.is_dictionary(kind):
            return column if column.type == kind else column.cast(kind)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return column if column.type == kind else column.cast(kind)
    except pa.ArrowInvalid:
        # Arrow's own message shows the value
        raise ValueError(
            f"data must hold values that {kind} can hold in column {name!r}, whose type differs "
            f"between files, got others."
        ) from None


# --- which files -------------------------------------------------------------------------------


def datasets_of(data: Any) -> list[Any]:
    """Return the datasets of paths: one for each file or directory, in the order given."""
    paths = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not paths:
        raise ValueError("data must be a path or a sequence of paths, got an empty one.")
    wrong = [path for path in paths if not isinstance(path, str | os.PathLike)]
    if wrong:
        raise TypeError(
            f"data must be a path or a sequence of paths, got a {type(wrong[0]).__name__} in it."
        )
    return [_dataset_at(os.fspath(path)) for path in paths]


def _dataset_at(path: str) -> Any:
    """Return the dataset of a file, or of a directory whose files come by their names."""
    import pyarrow as pa
    from pyarrow import dataset, fs

    if "://" in path:
        filesystem, inner = fs.FileSystem.from_uri(path)
    else:
        filesystem, inner = fs.LocalFileSystem(), str(Path(path).absolute())
    info = filesystem.get_file_info(inner)
    if info.type == fs.FileType.NotFound:
        is_pattern = any(sign in path for sign in "*?[")
        advice = ": patterns are not expanded, pass their directory or sorted(glob.glob(...))"
        raise FileNotFoundError(
            f"data must be Parquet files that exist, got {path!r}{advice if is_pattern else ''}."
        )
    is_folder = info.type == fs.FileType.Directory
    files = _files_in(filesystem, inner) if is_folder else [inner]
    if not files:
        raise ValueError(
            f"data must be Parquet files, got {path!r}, a directory in which no name ends in "
            f"{', '.join(_ENDINGS)}."
        )
    try:
        return dataset.dataset(
            files,
            format="parquet",
            filesystem=filesystem,
            partitioning="hive" if is_folder else None,
            partition_base_dir=inner if is_folder else None,
        )
    except pa.ArrowInvalid as error:
        _refuse_twice(files[0], filesystem)
        raise ValueError(f"data must be Parquet files, got {path!r}: {error}") from None


def _refuse_twice(path: str, filesystem: Any) -> None:
    """Refuse a Parquet file with two columns of one name, whatever else may be wrong with it."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        names = parquet.read_schema(path, filesystem=filesystem).names
    except pa.ArrowInvalid:
        return
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"data must have a name of its own for each column, got {name!r} twice in {path!r}."
            )


def _files_in(filesystem: Any, folder: str) -> list[str]:
    from pyarrow import fs

    found = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    return sorted(
        info.path
        for info in found
        if info.type == fs.FileType.File
        and info.path.lower().endswith(_ENDINGS)
        and not any(
            part.startswith(("_", ".")) for part in info.path[len(folder) :].split("/") if part
        )
    )


# --- parts of files ----------------------------------------------------------------------------


def parts_of(
    file: ParquetFile, columns: Columns, n_rows: int, keeper: Any = None
) -> list[ParquetPartition]:
    """Return runs of row groups of at most so many records, or of one row group."""
    return [ParquetPartition(file, run, columns, keeper) for run in runs_of(file, n_rows)]


def runs_of(file: ParquetFile, n_rows: int) -> list[list[int]]:
    """Return which row groups are read together: at most so many records, or a single one."""
    runs: list[list[int]] = []
    n_in_run = 0
    for place, size in enumerate(file.group_rows):
        if not size:
            continue
        if not runs or n_in_run + size > n_rows:
            runs.append([])
            n_in_run = 0
        runs[-1].append(place)
        n_in_run += size
    return runs


def cut(file: ParquetFile, columns: Columns, n_rows: int, spool: Any, name: str) -> ParquetFile:
    """Write the columns of a file once more, in row groups of so many records."""
    import pyarrow as pa
    from pyarrow import dataset, fs, parquet

    whole = ParquetPartition(file, range(len(file.group_rows)), columns)
    names = list(dict.fromkeys([*columns.features, *columns.labels]))
    schema = pa.schema([(each, columns.kinds[each]) for each in names])
    waiting: list[Any] = []
    with (
        spool.writing(),
        spool.create(name) as out,
        parquet.ParquetWriter(out, schema, compression="lz4", write_statistics=False) as writer,
    ):
        for batch in whole._batches(names):
            waiting.append(batch)
            if len(waiting) * BATCH_ROWS >= n_rows:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=n_rows)
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=n_rows)
    format = dataset.ParquetFileFormat()
    fragment = format.make_fragment(str(spool.path / name), fs.LocalFileSystem())
    return replace(ParquetFile.of(fragment), keys={})
