"""Columns of Parquet files, of a dataset of pyarrow or of a lazy query of polars."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from sklearn_dpwg.data.frames import NoArray, lazy_table
from sklearn_dpwg.data.sources import parquet_files as files
from sklearn_dpwg.data.sources.spool import check_spool, new_file, writing
from sklearn_dpwg.data.sources.table import rows_per_part
from sklearn_dpwg.exceptions import InputError, InputTypeError

# A row group of more is written once more, in smaller ones, where there is a spool.
LARGEST_GROUP_BYTES = 2**28
LARGEST_GROUP_ROWS = 2**20
_SHOWN_NAMES = 20


class ParquetSource(NoArray):
    """Columns of Parquet files that need not fit in memory.

    Parameters
    ----------
    data : path, sequence of paths, pyarrow.dataset.Dataset or polars.LazyFrame
        Files, directories, or URLs that pyarrow's file systems know, such as ``s3://...``; a
        dataset of Parquet files; or a lazy query, which is run once a fit and written to the spool.
        Records come in the order of the files given and of the rows in them, files of a directory
        by their names.
    features : sequence of str
        Columns of numbers: X, in this order. Single precision stays if all of them have it.
    target : str or None
        Column of the targets: y. None for records without any, which a fitted model predicts and
        nothing is learned from.
    groups : str or sequence of str, optional
        Column of the groups, or several whose cells are intersected.
    spool : path, optional
        Existing directory for the encoded rows of a fit, about as large as the table of numbers;
        None holds them in memory. They are in files without a name, of which nothing is left when
        the process ends, however it ends.

    Notes
    -----
    A part is a run of row groups that takes 64 MiB as numbers or less, or a single row group. With
    a spool, one of above 256 MiB or 2**20 records is written there once more in smaller ones, so
    that no part is larger than that.

    Size, time of change and row groups of each file are noted when the source is made, and a file
    that is read when they differ is an error.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn_dpwg.data.sources import ParquetSource
    >>> visits = pd.DataFrame(
    ...     {"age": [0.3, 0.5, 0.1], "dose": [1, 2, 1], "cured": [True, False, True],
    ...      "clinic": ["north", "south", "north"]}
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     visits.to_parquet(folder + "/visits.parquet")
    ...     source = ParquetSource(
    ...         folder + "/visits.parquet",
    ...         features=["age", "dose"], target="cured", groups="clinic",
    ...     )
    ...     (part,) = source.partitions()
    ...     table = part.read()
    >>> table.X
       age  dose
    0  0.3   1.0
    1  0.5   2.0
    2  0.1   1.0
    >>> table.y
    array([ True, False,  True])
    """

    def __init__(
        self,
        data: Any,
        *,
        features: Sequence[str],
        target: str | None,
        groups: str | Sequence[str] | None = None,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        self.features = _several(features, "features")
        if not (target is None or isinstance(target, str)):
            raise InputTypeError(
                f"target must be the name of a column, got {type(target).__name__}."
            )
        self.target = target
        self._groups = tuple([] if groups is None else _several(groups, "groups", one=True))
        self.groups = groups if groups is None or isinstance(groups, str) else list(groups)
        if spool is not None:
            check_spool(spool)
        self.spool = spool
        if self.target in self.features:
            raise InputError(f"features must not hold the target, got {self.target!r}.")
        self._query = data if lazy_table(data) == "polars LazyFrame" else None
        self._files: list[files.ParquetFile] = []
        if self._query is None:
            fragments, schemas = _fragments(data)
            _refuse_again(fragments)
            self._columns = self._kinds(schemas)
            for fragment in fragments:
                file = files.ParquetFile.of(fragment)
                self._check_file(fragment.physical_schema, file)
                self._files.append(file)
            return
        if spool is None:
            raise InputError(
                "spool must name a directory where data is a LazyFrame, whose rows are written "
                "there once, got None."
            )
        # as Arrow has them, without running it
        schema = self._query.collect_schema().to_frame().to_arrow().schema
        self._columns = self._kinds([schema])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(features={len(self.features)} columns, target={self.target!r}, "
            f"groups={self.groups!r})"
        )

    def partitions(self) -> list[files.ParquetPartition]:
        """Return the parts, in the order of the records; a lazy query is run."""
        columns = self._columns
        n_rows = rows_per_part(columns.bytes_per_row)
        if self._query is not None:
            file, _ = self._spooled(partial(self._run, n_rows=n_rows))
            runs = files.runs_of(file, n_rows) or [[]]
            return [files.ParquetPartition(file, run, columns) for run in runs]
        coarse = [file for file in self._files if self._is_coarse(file)]
        cuts: Iterator[range] = iter(())
        if coarse:
            spooled, found = self._spooled(partial(files.cut, coarse, columns, n_rows))
            cuts = iter(found)
        parts: list[files.ParquetPartition] = []
        for each in self._files:
            kept, among = (spooled, next(cuts)) if self._is_coarse(each) else (each, None)
            runs = files.runs_of(kept, n_rows, among)
            parts += [files.ParquetPartition(kept, run, columns) for run in runs]
        return parts or [files.ParquetPartition(self._files[0], [], columns)]

    def release(self, parts: Sequence[files.ParquetPartition]) -> None:
        """Remove what was written to the spool for parts, which are not read again.

        Parameters
        ----------
        parts : sequence of ParquetPartition
            What `partitions` has returned.
        """
        for part in parts:
            part.close()

    def _is_coarse(self, file: files.ParquetFile) -> bool:
        """Whether row groups are so large that they are written once more, in smaller ones."""
        most = min(LARGEST_GROUP_ROWS, LARGEST_GROUP_BYTES // max(1, self._columns.bytes_per_row))
        return self.spool is not None and max(file.group_rows, default=0) > most

    def _spooled(self, write: Callable[[BinaryIO], Any]) -> tuple[files.SpooledFile, Any]:
        """Return a file of the spool that was just written, and what its writer returned."""
        assert self.spool is not None
        out = new_file(self.spool)
        with writing(out):
            written = write(out)
            out.flush()
            return files.SpooledFile(out), written

    def _run(self, out: BinaryIO, n_rows: int) -> None:
        """Run the query."""
        assert self._query is not None
        self._query.select(self._columns.names).sink_parquet(
            out, compression="lz4", row_group_size=n_rows, statistics=False
        )

    def _kinds(self, schemas: list[Any]) -> files.Columns:
        """Return what is read, or refuse a column that is missing or of a wrong type."""
        by_name = {field.name: field.type for schema in schemas for field in schema}
        target = [] if self.target is None else [self.target]
        named = {"features": self.features, "target": target, "groups": self._groups}
        for parameter, names in named.items():
            for name in names:
                if name not in by_name:
                    shown = ", ".join(map(repr, list(by_name)[:_SHOWN_NAMES]))
                    more = ", ..." if len(by_name) > _SHOWN_NAMES else ""
                    raise InputError(
                        f"{parameter} must name columns of data, [{shown}{more}], got {name!r}."
                    )
        wanted = list(dict.fromkeys([*self.features, *target, *self._groups]))
        kinds = {name: _common_type(name, schemas) for name in wanted}
        for name in self.features:
            files.check_feature(name, kinds[name])
        for of, labels in (("y", target), ("groups", self._groups)):
            for name in labels:
                files.check_label(name, kinds[name], of=of)
                kinds[name] = files.as_codes(kinds[name])
        is_single = all(str(kinds[name]) == "float" for name in self.features)
        dtype = np.dtype(np.float32 if is_single else np.float64)
        return files.Columns(tuple(self.features), self.target, self._groups, kinds, dtype)

    def _check_file(self, schema: Any, file: files.ParquetFile) -> None:
        """Refuse a file that lacks a column, or has two of one name."""
        for name in self._columns.names:
            n_found = len(schema.get_all_field_indices(name))
            if n_found > 1:
                raise InputError(
                    f"data must have a name of its own for each column, got {name!r} twice in "
                    f"{file.path!r}."
                )
            if not n_found and name not in file.keys:
                raise InputError(
                    f"data must have the column {name!r} in every file, and {file.path!r} has not."
                )


def _common_type(name: str, schemas: list[Any]) -> Any:
    """Return the type that a column has in all files, or that all its types go into."""
    import pyarrow as pa
    from pyarrow import types

    found = [
        schema.field(place).type
        for schema in schemas
        for place in schema.get_all_field_indices(name)
    ]
    if len(set(found)) > 1:
        found = [kind.value_type if types.is_dictionary(kind) else kind for kind in found]
    try:
        fields = [pa.schema([(name, kind)]) for kind in dict.fromkeys(found)]
        return pa.unify_schemas(fields, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        shown = " and ".join(dict.fromkeys(map(str, found)))
        raise InputError(
            f"data must have one type of values in all files for column {name!r}, got {shown}."
        ) from None


def _fragments(data: Any) -> tuple[list[Any], list[Any]]:
    """Return the files of what was given, and the schemas that say the types of columns."""
    try:
        import pyarrow as pa
        from pyarrow import dataset
    except ImportError:
        raise ImportError(
            "ParquetSource needs pyarrow: pip install 'sklearn-dpwg[parquet]'."
        ) from None
    if isinstance(data, dataset.Dataset):
        return _fragments_of(data), [data.schema]
    is_list = isinstance(data, Sequence) and not isinstance(data, bytes)
    if hasattr(data, "columns") or not (isinstance(data, os.PathLike) or is_list):
        raise InputTypeError(
            f"data must be a path or several, a dataset of pyarrow or a LazyFrame of polars, got "
            f"{type(data).__name__}: what fits in memory is passed to fit as it is."
        )
    fragments, schemas = [], []
    for found in files.datasets_of(data):
        for fragment in found.get_fragments():
            keys = dataset.get_partition_keys(fragment.partition_expression)
            # a dataset has looked at its first file alone, and knows what paths tell
            own = [field for field in fragment.physical_schema if field.name not in keys]
            schemas.append(pa.schema([*own, *map(found.schema.field, keys)]))
            fragments.append(fragment)
    return fragments, schemas


def _fragments_of(data: Any) -> list[Any]:
    """Return the files of a dataset, or refuse one of something else or of some records only."""
    try:
        fragments = list(data.get_fragments())
    except ValueError:
        raise InputError(
            "data must be a dataset without a filter and a projection, got one that has some: pass "
            "a LazyFrame of polars instead."
        ) from None
    if not fragments or not all(hasattr(fragment, "row_groups") for fragment in fragments):
        raise InputError(
            "data must be a dataset of Parquet files, got one of something else or of none."
        )
    for fragment in fragments:
        listed = [group.id for group in fragment.row_groups]
        if listed != list(range(fragment.metadata.num_row_groups)):
            raise InputError(
                f"data must be a dataset of whole files, got one of some row groups of "
                f"{fragment.path!r}: write the records that are meant to a file of their own."
            )
    return fragments


def _refuse_again(fragments: list[Any]) -> None:
    """Refuse a file that comes twice, whose records would count for more than one."""
    seen: dict[Hashable, str] = {}
    for fragment in fragments:
        known = _known_by(fragment.filesystem, fragment.path)
        first = next((seen[one] for one in known if one in seen), None)
        if first is not None:
            raise InputError(
                f"data must name each file once, got {fragment.path!r}, which is {first!r} again: "
                f"a record in it would count for two, and the guarantee is for one."
            )
        seen |= dict.fromkeys(known, fragment.path)


def _known_by(filesystem: Any, path: str) -> list[Hashable]:
    """Return what a file is known again by: under whatever name it comes, where it is local."""
    from pyarrow import fs

    while isinstance(filesystem, fs.SubTreeFileSystem):
        filesystem, path = filesystem.base_fs, filesystem.base_path + path
    if not isinstance(filesystem, fs.LocalFileSystem):
        return [(filesystem.type_name, path)]
    place = os.stat(path)
    known: list[Hashable] = [os.path.normcase(os.path.realpath(path))]
    # a file system that numbers no files says 0
    return [*known, (place.st_dev, place.st_ino)] if place.st_ino else known


def _several(names: Any, parameter: str, *, one: bool = False) -> list[str]:
    """Return names of columns, each once; a single name stands for itself where it may."""
    if one and isinstance(names, str):
        return [names]
    # what holds records is not looked into, as an error would show values of theirs
    is_column = hasattr(names, "dtype") and not isinstance(names, pd.Index)
    if is_column and (one or not isinstance(names, np.ndarray)):
        raise InputTypeError(f"{parameter} must be names of columns, got {type(names).__name__}.")
    listed = [] if isinstance(names, str) or not np.iterable(names) else list(names)
    other = next((type(name).__name__ for name in listed if not isinstance(name, str)), None)
    if not listed or other is not None:
        shown = repr(names) if isinstance(names, str) else type(names).__name__
        if not isinstance(names, str) and np.iterable(names):
            shown += " with nothing in it" if other is None else f" with {other} in it"
        raise InputTypeError(f"{parameter} must be names of columns, got {shown}.")
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise InputError(f"{parameter} must name each column once, got {twice!r} twice.")
    return [str(name) for name in listed]
