"""Source of records in Parquet files, read by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_dpwg.data.frames import NoArray, as_pandas, plain_list
from sklearn_dpwg.data.records import ADVICE, Table
from sklearn_dpwg.data.sources.source import check_spool, rows_per_part
from sklearn_dpwg.exceptions import InputError, InputTypeError


class ParquetSource(NoArray):
    """Columns of Parquet files that need not fit in memory.

    Parameters
    ----------
    data : path, sequence of paths or pyarrow.dataset.Dataset
        Files, directories, or URLs that pyarrow's file systems know, such as ``s3://...``; or a
        dataset of Parquet files. Records come in the order of the files given and of the rows in
        them, files of a directory by their names. A lazy query of polars is written first, by
        ``query.sink_parquet(path)``.
    features : sequence of str
        Columns of numbers: X, in this order.
    target : str or None
        Column of the targets: y. None for records without any, which a fitted model predicts and
        nothing is learned from.
    groups : str or sequence of str, optional
        Column of the groups, or several whose cells are intersected.
    spool : path, optional
        Existing directory for the encoded rows of a fit, four bytes a number and 16 a record; None
        holds them in memory. They are in a file without a name, of which nothing is left when the
        fit ends, however it ends.

    Notes
    -----
    A part is a run of row groups that takes 64 MiB as numbers or less, or a single row group: where
    one is too large for memory, write the file with a smaller ``row_group_size``.

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
        check_spool(spool)
        if isinstance(features, str):
            raise InputTypeError(f"features must be names of columns, got {features!r}.")
        self.features = _names(features, "features")
        of_target = [] if target is None else _names([target], "target")
        of_groups = [] if groups is None else [groups] if isinstance(groups, str) else groups
        self._groups = [] if groups is None else _names(of_groups, "groups")
        self.target, self.spool = target, spool
        self.groups = groups if isinstance(groups, str | None) else self._groups
        if target in self.features:
            raise InputError(f"features must not hold the target, got {target!r}.")
        self._fragments = _fragments(data)
        self._labels = [*dict.fromkeys([*of_target, *self._groups])]
        self._schema = _schema(self._fragments, self.features, of_target, self._groups)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(features={len(self.features)} columns, target={self.target!r}, "
            f"groups={self.groups!r})"
        )

    def partitions(self) -> list[ParquetPartition]:
        """Return the parts, in the order of the records.

        Returns
        -------
        list of ParquetPartition
            Runs of row groups, at least one.
        """
        n_rows = rows_per_part(8 * len(self.features))
        runs: list[Any] = []  # pairs of a file and the numbers of its row groups
        for fragment, _ in self._fragments:
            n_in_run = n_rows  # full, so that each file begins a run
            for group in fragment.row_groups:
                if not group.num_rows:
                    continue
                if n_in_run + group.num_rows > n_rows:
                    runs.append((fragment, []))
                    n_in_run = 0
                runs[-1][1].append(group.id)
                n_in_run += group.num_rows
        return [
            ParquetPartition(fragment.subset(row_group_ids=ids), self)
            for fragment, ids in runs or [(self._fragments[0][0], [])]
        ]

    def _table(self, fragment: Any, names: Sequence[str], *, has_rows: bool) -> Table:
        """Read the columns `names` of a fragment; without `has_rows`, X has columns but no rows."""
        table = fragment.to_table(schema=self._schema, columns=names)
        features = table if has_rows else self._schema.empty_table()
        return Table(
            as_pandas(features.select(self.features)),
            None if self.target is None else np.asarray(as_pandas(table.column(self.target))),
            as_pandas(table.select(self._groups)) if self._groups else None,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ParquetPartition:
    """`Partition` of some row groups of one file."""

    fragment: Any  # pyarrow.dataset.ParquetFileFragment of the row groups
    source: ParquetSource

    def read(self) -> Table:
        """Return the records."""
        return self.source._table(self.fragment, self.source._schema.names, has_rows=True)

    def read_labels(self) -> Table:
        """Return targets and groups of all records, and X with no rows."""
        return self.source._table(self.fragment, self.source._labels, has_rows=False)


def _names(names: Any, parameter: str) -> list[str]:
    """Return a parameter as a list of distinct column names; an error if it is anything else."""
    listed = plain_list(names) if np.iterable(names) else []
    if not listed or not all(isinstance(name, str) for name in listed):
        got = type(listed[0] if listed else names).__name__
        raise InputTypeError(f"{parameter} must be names of columns, got {got}.")
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise InputError(f"{parameter} must name each column once, got {twice!r} twice.")
    return listed


def _fragments(data: Any) -> list[tuple[Any, Any]]:
    """Return pairs (file, fields in its path, such as ``year=2020``) of all Parquet files."""
    try:
        from pyarrow import dataset
    except ImportError:
        raise ImportError(
            "ParquetSource needs pyarrow: pip install 'sklearn-dpwg[parquet]'."
        ) from None
    paths = [data] if isinstance(data, str | os.PathLike | dataset.Dataset) else data
    if not isinstance(paths, list | tuple) or not paths:
        raise InputTypeError(
            f"data must be a path or several, or a dataset of pyarrow, got "
            f"{type(data).__name__}: what fits in memory is passed to fit as it is, and "
            f"query.sink_parquet(path) writes a lazy query of polars."
        )
    files: dict[str, Any] = {}  # by path, so that no record is read twice
    for path in paths:
        path_data = path
        if not isinstance(path, dataset.Dataset):
            path_data = dataset.dataset(path, format="parquet", partitioning="hive")
        for fragment in path_data.get_fragments():
            if not hasattr(fragment, "row_groups"):
                raise InputError("data must be a dataset of Parquet files, got one of others.")
            real_path = os.path.realpath(fragment.path)
            if real_path in files:
                raise InputError(
                    f"data must name each file once, got {fragment.path!r} again: a record in it "
                    f"would count for two, and the guarantee is for one."
                )
            keys = dataset.get_partition_keys(fragment.partition_expression)
            files[real_path] = fragment, [path_data.schema.field(name) for name in keys]
    if not files:
        raise InputError(f"data must be Parquet files, got none in {data!r}.")
    return list(files.values())


def _schema(
    fragments: list[tuple[Any, Any]], features: list[str], target: list[str], groups: list[str]
) -> Any:
    """Return the pyarrow schema in which all files are read: one type a column, floats for X."""
    import pyarrow as pa

    columns = {"features": features, "target": target, "groups": groups}
    kinds: dict[str, list[Any]] = {}
    for fragment, path_fields in fragments:
        fields = {field.name: field.type for field in [*fragment.physical_schema, *path_fields]}
        for parameter, names in columns.items():
            for name in names:
                if name not in fields:
                    raise InputError(
                        f"{parameter} must name columns of every file, got {name!r}, which "
                        f"{fragment.path!r} has not among {list(fields)!r}."
                    )
                kind = fields[name]
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                kinds.setdefault(name, []).append(pa.schema([(name, kind)]))
    types = {}
    for name, schemas in kinds.items():
        try:
            types[name] = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            got = " and ".join(dict.fromkeys(str(schema.field(0).type) for schema in schemas))
            raise InputError(
                f"data must have one type of values in all files for column {name!r}, got {got}."
            ) from None
    for name in features:
        if wrong := _non_numeric_content(types[name]):
            advice = ADVICE.get(wrong, "cast them to a type of numbers")
            raise InputError(f"X must hold numbers, got {wrong} in column {name!r}: {advice}.")
    is_single = {types[name] for name in features} == {pa.float32()}
    number = pa.float32() if is_single else pa.float64()
    row_types = {name: number for name in features if name not in groups}
    return pa.schema(list((types | row_types).items()))


def _non_numeric_content(kind: Any) -> str | None:
    """Return in words what values a pyarrow type has, such as "strings"; None for real numbers."""
    from pyarrow import types

    if any(is_kind(kind) for is_kind in (types.is_boolean, types.is_integer, types.is_floating)):
        return None
    if types.is_decimal(kind):
        return None
    if str(kind).endswith(("string", "string_view")) or "binary" in str(kind):
        return "strings"
    return "dates or times" if types.is_temporal(kind) else f"values of type {kind}"
