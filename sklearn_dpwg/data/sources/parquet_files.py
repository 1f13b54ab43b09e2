"""Parquet files: which there are, what they hold, and the records of a run of row groups."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg.data.records import ADVICE
from sklearn_dpwg.data.sources.spool import FILE_CHANGED
from sklearn_dpwg.data.sources.table import Table
from sklearn_dpwg.exceptions import ChangedDataError, InputError, InputTypeError

# Columns of Arrow: what they may be, and their values as arrays.


def check_feature(name: str, kind: Any) -> None:
    """Refuse a column of rows whose type holds no real numbers."""
    found = kind_of(kind)
    if found is not None:
        advice = ADVICE.get(found, "cast them to a type of numbers")
        raise InputError(f"X must hold numbers, got {found} in column {name!r}: {advice}.")


def check_label(name: str, kind: Any, *, of: str) -> None:
    """Refuse a column of targets or groups whose entries are no labels and no numbers."""
    found = kind_of(kind)
    if found not in (None, "strings", "dates or times"):
        wanted = "classes or numbers" if of == "y" else "labels"
        raise InputError(f"{of} must hold {wanted}, got {found} in column {name!r}.")


def kind_of(kind: Any) -> str | None:
    """Say what a type holds that is no real number; None for numbers."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if types.is_decimal(kind) or _is_plain(kind):
        return None
    texts = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    named = [getattr(types, f"is_{text}", None) for text in (*texts, "fixed_size_binary")]
    if any(is_text is not None and is_text(kind) for is_text in named):  # views are newer
        return "strings"
    if types.is_temporal(kind):
        return "dates or times"
    if types.is_nested(kind):
        return "lists or structs"
    return "missing values alone" if types.is_null(kind) else f"values of type {kind}"


def as_codes(kind: Any) -> Any:
    """Return the type that labels are read in: text as a dictionary, which is read faster."""
    import pyarrow as pa

    if kind_of(kind) != "strings":
        return kind
    # the numbers of several files together may be more than a narrow type has
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.dictionary(pa.int32(), value_type)


def fill_numbers(out: NDArray[Any], column: Any, name: str) -> None:
    """Write an array of Arrow to one of NumPy; a missing value is an error."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = _without_decimals(column)
    if column.null_count:
        raise InputError(
            f"Input X contains NaN in column {name!r}: PublicSchema takes a fill that is said "
            f"beforehand, while an imputer would learn from the records what no guarantee covers."
        )
    out[:] = column.to_numpy(zero_copy_only=False)


def as_targets(column: Any, name: str) -> NDArray[Any]:
    """Return a chunked column of targets as numbers or Python objects; no value is missing."""
    values = as_labels(_without_decimals(column))
    if values.isna().any():
        raise InputError(f"y must hold no missing values, got some in column {name!r}.")
    return np.asarray(values)


def as_labels(column: Any) -> pd.Series[Any]:
    """Return a chunked column of labels; text as categories, which take a byte a record."""
    from pyarrow import types

    if types.is_dictionary(column.type):  # whose writer may have numbered one value twice
        column = column.cast(column.type.value_type)
    if kind_of(column.type) != "strings":
        held: pd.Series[Any] = column.to_pandas(integer_object_nulls=True)
        return held
    held = column.dictionary_encode().to_pandas()
    return held.cat.reorder_categories(sorted(held.cat.categories))


def _without_decimals(column: Any) -> Any:
    from pyarrow import float64, types

    return column.cast(float64()) if types.is_decimal(column.type) else column


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


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
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys([*self.features, *self.labels]))

    def schema(self, names: Sequence[str]) -> Any:
        """Return Arrow's schema of some of them."""
        import pyarrow as pa

        return pa.schema([(name, self.kinds[name]) for name in names])

    @property
    def bytes_per_row(self) -> int:
        """Bytes that the numbers of a row take."""
        return len(self.features) * self.dtype.itemsize


@dataclass(frozen=True)
class ParquetFile:
    """A file as it was when the source was made."""

    path: str
    filesystem: Any
    n_bytes: int  # with the time of its last change
    modified: int | None
    group_rows: tuple[int, ...]  # records of each row group
    keys: dict[str, Any]  # columns that its path tells, by name

    @classmethod
    def of(cls, fragment: Any) -> ParquetFile:
        """Return the file of a fragment of a dataset, with its footer read."""
        from pyarrow import dataset

        info = fragment.filesystem.get_file_info(fragment.path)
        rows = _group_rows(fragment)
        keys = dataset.get_partition_keys(fragment.partition_expression)
        return cls(fragment.path, fragment.filesystem, info.size, info.mtime_ns, rows, keys)

    def open(self, coded: Sequence[str] = ()) -> Any:
        """Open it, if it is what it was; some columns of text are read as codes."""
        from pyarrow import fs

        info = self.filesystem.get_file_info(self.path)
        if (info.size, info.mtime_ns) != (self.n_bytes, self.modified):
            raise self._changed()
        is_local = isinstance(self.filesystem, fs.LocalFileSystem)
        found = _opened(self.filesystem.open_input_file(self.path), coded, is_local=is_local)
        if _group_rows(found) != self.group_rows:
            raise self._changed()
        return found

    def close(self) -> None:
        """Leave it to its owner."""

    def _changed(self) -> ChangedDataError:
        return ChangedDataError(FILE_CHANGED.format(self.path))


class SpooledFile:
    """A file without a name, which this process alone reads, and which it owns."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        weakref.finalize(self, content.close).atexit = False
        self.group_rows = _group_rows(_opened(content))
        self.keys: dict[str, Any] = {}

    def open(self, coded: Sequence[str] = ()) -> Any:
        """Open it; some columns of text are read as codes."""
        return _opened(self._content, coded)

    def close(self) -> None:
        """Give its room back; it is not read again."""
        self._content.close()


def _opened(content: Any, coded: Sequence[str] = (), *, is_local: bool = True) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(
        content,
        read_dictionary=list(coded),
        # far files are asked for all columns at once, near ones for a little of each at a time
        pre_buffer=not is_local,
        buffer_size=_BUFFER_BYTES if is_local else 0,
    )


def _group_rows(file: Any) -> tuple[int, ...]:
    footer = file.metadata
    return tuple(footer.row_group(place).num_rows for place in range(footer.num_row_groups))


class ParquetPartition:
    """Records of some row groups of a file."""

    def __init__(
        self, file: ParquetFile | SpooledFile, row_groups: Sequence[int], columns: Columns
    ) -> None:
        self._file = file
        self._row_groups = list(row_groups)
        self._columns = columns

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # a path may tell a group

    def close(self) -> None:
        """Remove the file if it was written for the source; the partition is not read again."""
        self._file.close()

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
        for batch in self._batches(columns.names):
            stop = start + len(batch)
            for place, name in enumerate(columns.features):
                fill_numbers(rows[start:stop, place], batch.column(name), name)
            labels.append(batch.select(columns.labels))
            start = stop
        table = self._table(rows, labels)
        pa.default_memory_pool().release_unused()  # what the columns were decoded in
        return table

    def read_labels(self) -> Table:
        columns = self._columns
        rows = np.empty((0, len(columns.features)), dtype=columns.dtype)
        return self._table(rows, list(self._batches(columns.labels)))

    def _table(self, rows: Any, labels: list[Any]) -> Table:
        import pyarrow as pa

        columns = self._columns
        found = pa.Table.from_batches(labels, columns.schema(columns.labels))
        # without a copy; a list of names keeps frames of one column and of several alike
        X = pd.DataFrame(rows, columns=list(columns.features), copy=False)
        y = None
        if columns.target is not None:
            y = as_targets(found.column(columns.target), columns.target)
        if not columns.groups:
            return Table(X, y)
        cells = {name: as_labels(found.column(name)) for name in columns.groups}
        return Table(X, y, pd.DataFrame(cells, copy=False))

    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Yield columns of the records as batches, in the types of the source."""
        import pyarrow as pa

        kinds, keys = self._columns.kinds, self._file.keys
        in_file = [name for name in names if name not in keys]
        coded = [name for name in in_file if pa.types.is_dictionary(kinds[name])]
        with self._file.open(coded) as file:
            # a file that is read for keys alone has rows all the same, which some column counts
            read = in_file or file.schema_arrow.names[:1]
            for batch in file.iter_batches(BATCH_ROWS, self._row_groups, read):
                found = {name: batch.column(name) for name in in_file}
                for name in keys.keys() & set(names):  # one value, which may be missing
                    kind = getattr(kinds[name], "value_type", kinds[name])
                    found[name] = pa.array([keys[name]] * len(batch), kind)
                columns = [_cast(found[name], kinds[name], name) for name in names]
                yield pa.record_batch(columns, schema=self._columns.schema(names))


def _cast(column: Any, kind: Any, name: str) -> Any:
    """Return a column in the type that all files share, labels of text as a dictionary."""
    import pyarrow as pa

    try:
        if not pa.types.is_dictionary(kind):
            return column if column.type == kind else column.cast(kind)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return column if column.type == kind else column.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"data must hold values that {kind} can hold in column {name!r}, whose type differs "
            f"between files: {error}"
        ) from error


# --- which files -------------------------------------------------------------------------------


def datasets_of(data: Any) -> list[Any]:
    """Return the datasets of paths: one for each file or directory, in the order given."""
    paths = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not paths:
        raise InputError("data must be a path or a sequence of paths, got an empty one.")
    wrong = [path for path in paths if not isinstance(path, str | os.PathLike)]
    if wrong:
        raise InputTypeError(
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
        raise OSError(
            f"data must be Parquet files that exist, got {path!r}{advice if is_pattern else ''}."
        )
    is_folder = info.type == fs.FileType.Directory
    files = _files_in(filesystem, inner) if is_folder else [inner]
    if not files:
        raise InputError(
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
    except pa.ArrowInvalid:
        _refuse_twice(files[0], filesystem)
        raise InputError(
            f"data must be Parquet files, got {path!r}, which cannot be read as one."
        ) from None


def _refuse_twice(path: str, filesystem: Any) -> None:
    """Refuse a Parquet file with two columns of one name, whatever else may be wrong with it."""
    import pyarrow as pa
    from pyarrow import parquet

    with suppress(pa.ArrowInvalid):
        names = parquet.read_schema(path, filesystem=filesystem).names
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(
                f"data must have a name of its own for each column, got {twice[0]!r} twice in "
                f"{path!r}."
            )


def _files_in(filesystem: Any, folder: str) -> list[str]:
    """Return the Parquet files in a folder and below, but for hidden ones, by their names."""
    from pyarrow import fs

    found = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    paths = [info.path for info in found if info.type == fs.FileType.File]
    return sorted(
        path
        for path in paths
        if path.lower().endswith(_ENDINGS)
        and not any(part.startswith(("_", ".")) for part in path[len(folder) :].split("/"))
    )


# --- parts of files ----------------------------------------------------------------------------


def runs_of(
    file: ParquetFile | SpooledFile, n_rows: int, among: Sequence[int] | None = None
) -> list[list[int]]:
    """Return which row groups are read together: at most so many records, or a single one."""
    runs: list[list[int]] = []
    n_in_run = 0
    for place in range(len(file.group_rows)) if among is None else among:
        size = file.group_rows[place]
        if not size:
            continue
        if not runs or n_in_run + size > n_rows:
            runs.append([])
            n_in_run = 0
        runs[-1].append(place)
        n_in_run += size
    return runs


def cut(files: Sequence[ParquetFile], columns: Columns, n_rows: int, out: BinaryIO) -> list[range]:
    """Write files once more, in row groups of so many records; return the row groups of each."""
    import pyarrow as pa
    from pyarrow import parquet

    ends = [0]
    schema = columns.schema(columns.names)
    with parquet.ParquetWriter(out, schema, compression="lz4", write_statistics=False) as writer:

        def write(batches: list[Any]) -> int:
            table = pa.Table.from_batches(batches, schema)
            writer.write_table(table, row_group_size=n_rows)
            return -(-table.num_rows // n_rows)

        for file in files:
            end, waiting = ends[-1], []
            whole = ParquetPartition(file, range(len(file.group_rows)), columns)
            for batch in whole._batches(columns.names):
                waiting.append(batch)
                if len(waiting) * BATCH_ROWS >= n_rows:
                    end += write(waiting)
                    waiting = []
            ends.append(end + (write(waiting) if waiting else 0))
    return [range(*pair) for pair in pairwise(ends)]
