"""Groups: from a column, table or function of the user to one integer code a record."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from sklearn_dpwg.data.frames import (
    as_narwhals,
    as_pandas,
    checked_labels,
    in_memory,
    label_column,
    label_key,
    places,
    plain,
)
from sklearn_dpwg.exceptions import GroupsWarning, InputError, warn

# A stated label of this name takes the records whose label is missing or not stated.
OTHER = "other"

GroupBy = Hashable | list[Hashable] | tuple[Hashable, ...] | Callable[[Any], ArrayLike]


def select_groups(rows: Any, group_by: GroupBy) -> Any:
    """Return the columns of rows that `group_by` names, one or a table, or its result on rows."""
    (native_rows,) = in_memory(X=rows)
    if callable(group_by):
        return group_by(rows)
    columns = _as_list(group_by)
    is_frame = hasattr(native_rows, "columns")
    table = native_rows if is_frame else _array(native_rows)
    names = list(table.columns) if is_frame else list(range(table.shape[1]))
    missing = [column for column in columns if column not in names]
    if missing:
        raise InputError(f"group_by must name columns of X, {names!r}, got {missing[0]!r}.")
    cells: Any = table[columns] if is_frame else table[:, columns]
    if issparse(native_rows):
        cells = cells.toarray()
    if isinstance(group_by, list | tuple):
        return cells
    return cells[columns[0]] if is_frame else cells[:, 0]


def without_groups(rows: Any, group_by: GroupBy | None, model: Any = None) -> Any:
    """Return the rows without the columns that `group_by` names.

    Columns that the fitted `model` uses as features stay. A callable `group_by` names none.
    """
    if group_by is None or callable(group_by):
        return rows
    columns = _as_list(group_by)
    frame = rows if isinstance(rows, pd.DataFrame) else as_narwhals(rows)
    if hasattr(frame, "columns"):
        features = list(getattr(model, "feature_names_in_", ()))
        dropped = [name for name in columns if name in frame.columns and name not in features]
        if isinstance(frame, pd.DataFrame):
            return frame.drop(columns=dropped)
        return frame.drop(dropped).to_native() if dropped else rows
    table = _array(rows)
    if table.ndim != 2 or table.shape[1] == getattr(model, "n_features_in_", None):
        return rows  # not a table, or a table of the model's features alone
    return table[:, [column for column in range(table.shape[1]) if column not in columns]]


def _array(rows: Any) -> Any:
    """Return rows as an array: CSR of sparse rows, objects of a list, whose cells keep types."""
    if issparse(rows):
        return csr_array(rows)  # type: ignore[call-overload]
    return np.asarray(rows, dtype=None if hasattr(rows, "dtype") else object)


def _as_list(group_by: Any) -> list[Any]:
    """Return the column names in `group_by`, which is one name or a list or tuple of names."""
    return list(group_by) if isinstance(group_by, list | tuple) else [group_by]


def names_of_columns(groups: Any, group_by: GroupBy | None) -> list[Any]:
    """Return the names of the columns with the groups, an empty list where there are none."""
    if group_by is not None:
        stated: Any = group_by  # mypy thinks that a Hashable is never callable
        return [] if callable(stated) else _as_list(stated)
    groups = as_pandas(groups)
    name = getattr(groups, "name", None)
    return list(getattr(groups, "columns", [name] if isinstance(name, str) else []))


def grouping_names(groups: Any, group_by: GroupBy | None) -> tuple[str, ...]:
    """Return the origin of the groups of a fit as one phrase, or an empty tuple for no groups."""
    if callable(group_by):
        name = getattr(group_by, "__qualname__", type(group_by).__name__)
        return (f"function {name.rpartition('.<locals>.')[2]}",)
    columns = names_of_columns(groups, group_by)
    if not columns:
        return () if groups is None else ("groups passed to fit",)
    names = ", ".join(repr(str(name) if isinstance(name, str) else name) for name in columns)
    return (f"columns {names} together" if len(columns) > 1 else f"column {names}",)


def find_groups(rows: Any, groups: Any, group_by: GroupBy | None) -> Any:
    """Return `groups` where `group_by` is None, else the groups that `group_by` takes from rows."""
    if group_by is None:
        return groups
    if groups is not None:
        raise InputError("groups were passed and group_by is set: use one of them, not both.")
    return select_groups(rows, group_by)


def take_rows(rows: Any, members: NDArray[np.intp]) -> Any:
    """Return the rows at the positions `members`, in the container type of `rows`."""
    if hasattr(rows, "iloc"):
        return rows.iloc[members]
    if hasattr(rows, "tocsr"):
        return rows.tocsr()[members]
    if isinstance(frame := as_narwhals(rows), nw.DataFrame | nw.Series):
        return frame[members].to_native()
    return rows[members] if hasattr(rows, "shape") else [rows[i] for i in members]


def encode_groups(
    groups: Any,
    n_records: int,
    group_labels: Sequence[Hashable] | None,
    *,
    may_be_empty: bool = False,
    is_hidden: bool = False,
    overlap: str = "cells",
    form: Any = None,
) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Return (codes, labels): record i is in the group ``labels[codes[i]]``.

    Several columns give one group for each combination of values, labelled by the tuple of them.
    With `group_labels`, these are the labels; a record with another or a missing label joins the
    group `OTHER` if that label is stated, else it is an error. Without, labels are the values that
    occur, ordered by categories, else sorted. A stated group without records is an error unless
    `may_be_empty`. `form` has the categories, where `groups` has lost them; `overlap` other than
    "cells" means that columns overlap, and turns off the warning about membership columns.
    """
    (groups,) = in_memory(groups=groups)
    value_codes, values = _factorized(groups, n_records, is_stated=group_labels is not None)
    if group_labels is None:
        if overlap == "cells":
            _warn_of_memberships(values)
        form, is_hidden = groups if form is None else form, is_hidden or may_be_empty
        labels = _index(_one_spelling(values, form, is_hidden))
    else:
        labels = _index(checked_labels(group_labels))
    # a missing value has code -1, which picks the last entry
    label_of_value = np.append(places(values, labels), -1)
    codes = label_of_value[value_codes]
    if (codes < 0).any():
        codes[codes < 0] = places([OTHER], labels)[0]
    if (codes < 0).any():
        unknown_value = value_codes[np.argmax(codes < 0)]
        if unknown_value < 0:
            raise _missing_in(value_codes < 0)
        raise InputError(
            f"groups must hold labels of group_labels={list(labels)!r} alone, got "
            f"{values[unknown_value]!r}: state the label {OTHER!r} too, which takes in "
            f"whatever is not stated."
        )
    empty = np.flatnonzero(np.bincount(codes, minlength=len(labels)) == 0)
    if empty.size and not may_be_empty:
        raise _without_records(labels[empty[0]])
    return codes, labels.to_numpy(dtype=object)


def _without_records(label: Hashable) -> InputError:
    """Return the error for a stated group that has no records."""
    return InputError(
        f"group_labels contains {label!r}, a group without records: the worst group can only be "
        f"found among groups with records, leave it out."
    )


def _warn_of_memberships(labels: pd.Index[Any]) -> None:
    """Warn if all labels are tuples of 0 and 1 and some have several ones: memberships, perhaps."""
    flags = [label for label in labels if isinstance(label, tuple) and set(label) <= {0, 1}]
    if len(flags) == len(labels) and any(sum(label) > 1 for label in flags):
        warn(
            f"groups are {len(flags[0])} columns of 0 and 1, and some records have several ones: "
            f"each combination is taken for a group of its own. Where a column is a group that "
            f"overlaps with others, say overlap='membership'; where combinations are meant, state "
            f"group_labels, or write the values as words.",
            GroupsWarning,
        )


def _one_spelling(labels: Iterable[Any], groups: Any, is_hidden: bool) -> list[Any]:
    """Return the labels in order; of labels with the same text, such as 1 and "1", one is kept.

    That is the one with the shortest ``repr``, then the first by alphabet, in each part of a tuple.
    The choice depends on the set of labels alone, not on the order of the records.
    """
    # (length of the repr, repr, value), by the column and text key of a part
    shortest: dict[Any, tuple[int, str, Any]] = {}
    kept_labels: dict[Any, Any] = {}  # by whether the label is a tuple, and the keys of its parts
    for label in labels:
        keys = []
        for column, part in enumerate(map(plain, label if isinstance(label, tuple) else [label])):
            key = (column, label_key(part))
            keys.append(key)
            spelling = (len(text := repr(part)), text, part)
            if key not in shortest or spelling[:2] < shortest[key][:2]:
                shortest[key] = spelling
        kept_labels[isinstance(label, tuple), *keys] = None
    for is_tuple, *keys in kept_labels:
        parts = tuple([shortest[key][2] for key in keys])
        kept_labels[is_tuple, *keys] = parts if is_tuple else parts[0]
    return _in_order(_index(label_column(kept_labels.values())), groups, is_hidden)


def count_labels(
    groups: Any, n_records: int, *, is_stated: bool = False, takes_missing: bool = False
) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the labels by first occurrence, with None last for missing, and records of each."""
    (groups,) = in_memory(groups=groups)
    codes, labels = _factorized(groups, n_records, is_stated=is_stated)
    if (codes < 0).any() and not takes_missing:
        raise _missing_in(codes < 0)
    n_missing, *counts = np.bincount(codes + 1, minlength=len(labels) + 1).tolist()
    if n_missing:
        return [*labels, None], np.array([*counts, n_missing])
    return labels.tolist(), np.array(counts, dtype=np.intp)


def _factorized(
    groups: Any, n_records: int, *, is_stated: bool
) -> tuple[NDArray[np.intp], pd.Index[Any]]:
    """Return (codes, labels): record i has ``labels[codes[i]]``, labels by first occurrence.

    Without stated labels, a missing label is an error; with them its code is -1. With them, too,
    each entry of a list is one label, however long: a frame of the list would have as many columns
    as its longest entry, so one record could change the label of another.
    """
    is_list = isinstance(groups, list | tuple) and is_stated
    column: Any = label_column(groups) if is_list else _one_column(groups, is_stated)
    try:
        codes, labels = pd.factorize(column)
    except TypeError:  # a list among them
        if not is_stated:
            raise
        codes, labels = pd.factorize(label_column(map(_as_label, column)))
    if len(codes) != n_records:
        raise InputError(
            f"groups must have one entry a record: got {len(codes)} for {n_records} records."
        )
    if not is_stated and (codes < 0).any():
        raise _missing_in(codes < 0)
    objects = labels.astype(object)
    plain_labels = _index(label_column(map(_as_label, objects)) if is_list else objects)
    return np.asarray(codes, dtype=np.intp), plain_labels


def labelled_sizes(
    group_sizes: Any,
    size_labels: Sequence[Hashable] | None,
    group_labels: Sequence[Hashable] | None,
    *,
    may_be_unnamed: bool = False,
) -> tuple[Any, list[Any]]:
    """Return (labels, sizes) in the order that ``fit`` gives the groups; sizes are not checked.

    `group_sizes` is a mapping from labels to sizes, a sequence with its labels in `size_labels`, or
    a sequence in the order of `group_labels`. Labels are None without both, if `may_be_unnamed`.
    """
    known = None if group_labels is None else checked_labels(group_labels)
    index = group_sizes.index if isinstance(group_sizes, pd.Series) else None  # may have categories
    if hasattr(group_sizes, "keys"):  # a mapping, or the Series that value_counts returns
        if size_labels is not None:
            raise InputError("group_labels must be None where group_sizes is a mapping.")
        pairs = list(group_sizes.items())  # much faster for a Series than a look-up by label
        size_labels, group_sizes = [label for label, _ in pairs], [size for _, size in pairs]
    sizes = list(group_sizes) if np.iterable(group_sizes) else []
    if not sizes:
        raise InputError(f"group_sizes must hold at least one size, got {group_sizes!r}.")
    if size_labels is None:
        if known is not None and len(sizes) != len(known):
            raise InputError(
                f"group_sizes must have one size a group of group_labels={known!r}, got "
                f"{len(sizes)}."
            )
        if known is None and not may_be_unnamed:
            raise InputError(
                "group_labels must be given, or set, where group_sizes is a sequence, got None."
            )
        return None if known is None else label_column(known), sizes
    labels = checked_labels(size_labels)
    if len(labels) != len(sizes):
        raise InputError(
            f"group_sizes must have one size a label of group_labels={labels!r}, got {len(sizes)}."
        )
    if known is None:
        label_table = index.to_frame() if isinstance(index, pd.MultiIndex) else index
        known = _in_order(_index(label_column(labels)), label_table)
    positions = places(label_column(known), labels)
    if (positions < 0).any() or len(known) < len(labels):
        raise InputError(
            f"group_sizes must be those of group_labels={known!r}, got those of {labels!r}."
        )
    return label_column(known), [sizes[position] for position in positions]


# Groups that overlap. A cell is a combination of values of the columns, so cells are disjoint and
# each group is a union of cells.

OVERLAPS = ("cells", "attributes", "both", "membership")

# With "both", cells of at least so many records are groups too; in smaller ones the loss cannot be
# told from chance at any epsilon.
MIN_CELL_SIZE = 36


def check_kind_of_overlap(overlap: Any) -> None:
    """Raise `InputError` unless `overlap` is one of `OVERLAPS`."""
    if not isinstance(overlap, str) or overlap not in OVERLAPS:
        raise InputError(
            f"overlap must be one of {', '.join(map(repr, OVERLAPS))}, got {overlap!r}."
        )


def columns_of(groups: Any, group_by: GroupBy | None = None) -> list[Hashable]:
    """Return the names of the columns of `groups`, or their positions; ``[0]`` for one column."""
    groups = as_pandas(groups)
    if hasattr(groups, "columns"):
        return list(groups.columns)
    if isinstance(group_by, list | tuple):
        return list(group_by)
    shape = groups.shape if hasattr(groups, "shape") else pd.DataFrame(groups).shape
    return list(range(shape[1])) if len(shape) > 1 else [0]


def by_column(cell_labels: Iterable[Hashable]) -> list[NDArray[np.object_]]:
    """Return the distinct values in each column, from labels with one value a column."""
    values = [label if isinstance(label, tuple) else (label,) for label in cell_labels]
    return [label_column(dict.fromkeys(column)) for column in zip(*values, strict=True)]


def overlapping_groups(
    cell_labels: Sequence[Hashable],
    cell_sizes: Sequence[int],
    overlap: str,
    *,
    columns: Sequence[Hashable] | None = None,
    group_labels: Sequence[Hashable] | None = None,
    may_be_missing: bool = False,
    table: Any = None,
) -> tuple[NDArray[np.object_], tuple[tuple[int, ...], ...]]:
    """Return (labels, cells): the labels of the overlapping groups, and the cells in each group.

    A cell is an index into `cell_labels`, which hold one value a column. A group is a value of a
    column, labelled ``(column, value)`` or, of a single column, by the value. With "membership" it
    is a column of 0 and 1, labelled by its name. With "both", cells of `MIN_CELL_SIZE` records are
    groups too, labelled by the tuple of their pairs. `group_labels` are exactly the groups, in
    order; with `may_be_missing` they decide only which cells are groups, and groups without cells
    are left out. `table` has the categories that order values.
    """
    width = max((len(label) if isinstance(label, tuple) else 1 for label in cell_labels), default=1)
    names = list(range(width)) if columns is None else list(columns)
    cell_values: list[Any] = [label if len(names) > 1 else (label,) for label in cell_labels]
    if len(names) != width or any(not isinstance(values, tuple) for values in cell_values):
        raise InputError(
            f"groups must be labelled by one value for each of their columns {names!r} where they "
            f"overlap, got {cell_labels[0]!r}."
        )
    group_cells: dict[Hashable, list[int]] = {}
    for position, name in enumerate(names):
        cells_by_value: dict[Hashable, list[int]] = {}
        for cell, values in enumerate(cell_values):
            cells_by_value.setdefault(values[position], []).append(cell)
        if overlap == "membership":
            group_cells[name] = _member_cells(name, cells_by_value)
            continue
        column = table.iloc[:, position] if isinstance(table, pd.DataFrame) else table
        for value in _in_order(_index(label_column(cells_by_value)), column):
            group_cells[(name, value) if width > 1 else value] = cells_by_value[value]
    cells_as_groups: dict[Hashable, list[int]] = {}
    if overlap == "both" and width > 1:
        pairs = [tuple(zip(names, values, strict=True)) for values in cell_values]
        stated = None if group_labels is None else {*map(label_key, checked_labels(group_labels))}
        for cell, (label, size) in enumerate(zip(pairs, cell_sizes, strict=True)):
            if size >= MIN_CELL_SIZE if stated is None else label_key(label) in stated:
                cells_as_groups[label] = [cell]
    if group_labels is not None and not may_be_missing:
        group_cells = _stated_groups(group_cells, cells_as_groups, checked_labels(group_labels))
    else:
        group_cells |= cells_as_groups
    if may_be_missing:
        group_cells = {label: cells for label, cells in group_cells.items() if cells}
    empty = next((label for label, cells in group_cells.items() if not cells), None)
    if empty is not None:
        raise InputError(f"groups must have records in every group, got none in {empty!r}.")
    return label_column(group_cells), tuple(map(tuple, group_cells.values()))


def _member_cells(name: Hashable, cells_by_value: dict[Hashable, list[int]]) -> list[int]:
    """Return the cells in which the membership column `name` is 1; its values must be 0 and 1."""
    if not set(cells_by_value) <= {0, 1}:
        raise InputError(
            f"groups must say True or False in every column with overlap='membership', got "
            f"something else in column {name!r}."
        )
    return cells_by_value.get(1, [])


def members_of_groups(
    groups: Any,
    n_records: int,
    overlap: str,
    group_labels: Sequence[Hashable] | None = None,
) -> tuple[NDArray[np.object_], list[NDArray[np.intp]]]:
    """Return the labels of the groups, and for each group the sorted positions of its records.

    `group_labels` decides with "both" which cells are groups too, and is not read otherwise.
    """
    check_kind_of_overlap(overlap)
    (groups,) = in_memory(groups=groups)
    codes, labels = encode_groups(groups, n_records, None, overlap=overlap)
    sizes = np.bincount(codes, minlength=len(labels))
    cell_members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    if overlap == "cells":
        return labels, cell_members
    labels, group_cells = overlapping_groups(
        labels.tolist(),
        sizes.tolist(),
        overlap,
        columns=columns_of(groups),
        group_labels=group_labels,
        may_be_missing=True,
        table=groups,
    )
    group_members = [[cell_members[cell] for cell in cells] for cells in group_cells]
    return labels, [np.sort(np.concatenate(members)) for members in group_members]


def _stated_groups(
    group_cells: dict[Hashable, list[int]],
    cells_as_groups: dict[Hashable, list[int]],
    stated: list[Hashable],
) -> dict[Hashable, list[int]]:
    """Return the cells of each stated group, in that order; an error unless the groups agree."""
    merged = group_cells | cells_as_groups
    cells_by_key = {label_key(label): cells for label, cells in merged.items()}
    label_by_key = {label_key(label): label for label in stated}
    for label in group_cells:
        if label_key(label) not in label_by_key:
            raise InputError(
                f"groups must hold labels of group_labels={stated!r} alone, got {label!r}."
            )
    for key, label in label_by_key.items():
        if key not in cells_by_key:
            raise _without_records(label)
    return {label: cells_by_key[key] for key, label in label_by_key.items()}


def _as_label(label: Any) -> Hashable:
    """Return the label in an entry: a tuple of several values; a new object if it has no hash."""
    if isinstance(label, list | tuple | np.ndarray):
        cells = tuple(np.atleast_1d(label)) if isinstance(label, np.ndarray) else tuple(label)
        label = cells[0] if len(cells) == 1 else cells
    try:
        hash(label)
    except TypeError:
        return object()
    return label


def _one_column(groups: Any, may_be_missing: bool) -> Any:
    """Return a sequence with one label a record: the only column, or tuples of several columns."""
    try:
        # pandas would store an old scipy sparse matrix as a single cell
        table = pd.DataFrame() if issparse(groups) else pd.DataFrame(groups)
    except (TypeError, ValueError):
        table = pd.DataFrame()
    if not table.shape[1]:
        raise InputError(
            f"groups must be one label a record, or a table with a row a record and at least one "
            f"column, got {type(groups).__name__}."
        )
    table = table.apply(_numbers_alike)
    if table.shape[1] == 1:
        return table.iloc[:, 0]
    if not may_be_missing and (is_missing := table.isna().to_numpy().any(axis=1)).any():
        raise _missing_in(is_missing)
    return label_column(map(tuple, table.to_numpy(dtype=object)))


def _numbers_alike(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with numbers of one type; of 1, 1.0 and True pandas would keep the first."""
    if column.dtype != object:
        return column
    parts = (part for cell in column for part in (cell if isinstance(cell, tuple) else (cell,)))
    kinds = {kind for kind in set(map(type, parts)) if issubclass(kind, Real | np.bool_)}
    if len(kinds) < 2:
        return column
    return pd.Series(list(map(_as_one_kind, column)), column.index, object, column.name)


def _as_one_kind(cell: Any) -> Any:
    """Return a label whose numbers are int if they are whole, else float; parts of tuples, too."""
    if isinstance(cell, tuple):
        return tuple(map(_as_one_kind, cell))
    if not isinstance(cell, Real | np.bool_):
        return cell
    if isinstance(cell, Integral | np.bool_):  # a float would lose digits of a large one
        return int(cell)
    number = float(cell)
    return int(number) if number.is_integer() else number


def _missing_in(is_missing: Any) -> InputError:
    """Return the error for missing labels, which names the first row where `is_missing`."""
    return InputError(
        f"groups contains NaN or None in row {np.argmax(is_missing)}; give records of unknown "
        f"group a label of their own or leave them out."
    )


def _index(labels: Sequence[Any] | NDArray[np.object_] | pd.Index[Any]) -> pd.Index[Any]:
    """Return an index of objects, in which a tuple is one label and not several levels."""
    return pd.Index(labels, tupleize_cols=False, dtype=object)


def _in_order(labels: pd.Index[Any], groups: Any, is_hidden: bool = False) -> list[Any]:
    """Return labels in the order of the categories of the columns of `groups`, else sorted."""
    columns = [groups[name] for name in groups] if isinstance(groups, pd.DataFrame) else [groups]
    categories: list[Any] = [None] * len(columns)
    for position, column in enumerate(columns):
        kind = getattr(column, "dtype", None)
        # unordered categories may be in the order of the records, which shows a hidden group
        if isinstance(kind, pd.CategoricalDtype) and (kind.ordered or not is_hidden):
            categories[position] = kind.categories
    if all(each is None for each in categories):
        return sorted(labels, key=_sort_key)
    cells = zip(*(label if len(columns) > 1 else (label,) for label in labels), strict=True)
    ranks = []  # for each column, the rank of each label's value in it
    for of_column, values in zip(categories, cells, strict=True):
        ordered = sorted(set(values), key=_sort_key) if of_column is None else of_column
        ranks.append(_index(ordered).get_indexer(_index(values)))
    # lexsort sorts by its last key first
    return [labels[position] for position in np.lexsort(ranks[::-1])]


def _sort_key(label: Any) -> tuple[int, Any]:
    """Return a sort key: numbers, then strings, tuples, intervals and the rest as text."""
    if isinstance(label, bool | int | float | np.number):
        return 0, label
    if isinstance(label, str):
        return 1, label
    if isinstance(label, tuple):
        return 2, tuple(_sort_key(part) for part in label)
    if isinstance(label, pd.Interval):
        return 3, (label.left, label.right)
    return 4, str(label)
