"""Groups in every form that a user may hold them in."""

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
    as_pandas,
    checked_labels,
    in_memory,
    label_column,
    label_key,
    opened,
    places,
    plain,
)
from sklearn_dpwg.exceptions import GroupsWarning, InputError, warn

# Takes in unknown and missing labels, where it is stated.
OTHER = "other"

GroupBy = Hashable | list[Hashable] | tuple[Hashable, ...] | Callable[[Any], ArrayLike]


def select_groups(rows: Any, group_by: GroupBy) -> Any:
    """Return groups computed from the rows: columns, or what a function makes of them."""
    (held,) = in_memory(X=rows)
    if callable(group_by):
        return group_by(rows)
    columns = _as_list(group_by)
    is_frame = hasattr(held, "columns")
    table = held if is_frame else _array(held)
    names = list(table.columns) if is_frame else list(range(table.shape[1]))
    missing = [column for column in columns if column not in names]
    if missing:
        raise InputError(f"group_by must name columns of X, {names!r}, got {missing[0]!r}.")
    cells: Any = table[columns] if is_frame else table[:, columns]
    if issparse(held):
        cells = cells.toarray()
    if isinstance(group_by, list | tuple):
        return cells
    return cells[columns[0]] if is_frame else cells[:, 0]


def without_groups(rows: Any, group_by: GroupBy | None, model: Any = None) -> Any:
    """Return rows without the columns that `group_by` names, where they have them.

    Those that a fitted model has learned from stay.
    """
    if group_by is None or callable(group_by):
        return rows
    columns = _as_list(group_by)
    frame = rows if isinstance(rows, pd.DataFrame) else opened(rows)
    if hasattr(frame, "columns"):
        known = list(getattr(model, "feature_names_in_", ()))
        gone = [each for each in columns if each in frame.columns and each not in known]
        if isinstance(frame, pd.DataFrame):
            return frame.drop(columns=gone)
        return frame.drop(gone).to_native() if gone else rows
    table = _array(rows)
    if table.ndim != 2 or table.shape[1] == getattr(model, "n_features_in_", None):
        return rows
    return table[:, [place for place in range(table.shape[1]) if place not in columns]]


def _array(rows: Any) -> Any:
    """Return rows as an array with columns; a list keeps the types of its cells."""
    if issparse(rows):
        return csr_array(rows)  # type: ignore[call-overload]
    return np.asarray(rows, dtype=None if hasattr(rows, "dtype") else object)


def _as_list(group_by: Any) -> list[Any]:
    return list(group_by) if isinstance(group_by, list | tuple) else [group_by]


def names_of_columns(groups: Any, group_by: GroupBy | None) -> list[Any]:
    """Return the names of the columns that groups are made of, where they have names."""
    if group_by is not None:
        named: Any = group_by
        return [] if callable(named) else _as_list(named)
    groups = as_pandas(groups)
    name = getattr(groups, "name", None)
    return list(getattr(groups, "columns", [name] if isinstance(name, str) else []))


def grouping_names(groups: Any, group_by: GroupBy | None) -> tuple[str, ...]:
    """Say in words what the groups of a fit are made of."""
    if callable(group_by):
        name = getattr(group_by, "__qualname__", type(group_by).__name__)
        return (f"function {name.rpartition('.<locals>.')[2]}",)
    columns = names_of_columns(groups, group_by)
    if not columns:
        return () if groups is None else ("groups passed to fit",)
    names = ", ".join(repr(str(one) if isinstance(one, str) else one) for one in columns)
    return (f"columns {names} together" if len(columns) > 1 else f"column {names}",)


def find_groups(rows: Any, groups: Any, group_by: GroupBy | None) -> Any:
    """Return the groups that were passed, or else those that `group_by` finds in the rows."""
    if group_by is None:
        return groups
    if groups is not None:
        raise InputError("groups were passed and group_by is set: use one of them, not both.")
    return select_groups(rows, group_by)


def take_rows(rows: Any, members: NDArray[np.intp]) -> Any:
    """Return the rows of some records, in whatever holds them."""
    if hasattr(rows, "iloc"):
        return rows.iloc[members]
    if hasattr(rows, "tocsr"):
        return rows.tocsr()[members]
    if isinstance(held := opened(rows), nw.DataFrame | nw.Series):
        return held[members].to_native()
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
    """Return each record's index into the labels, and the labels; of cells where groups overlap.

    Cells of several columns are intersected, and labels then are tuples. Labels that are not given
    are those found, in the order of categories, else sorted. A label that is missing or not among
    those given is `OTHER`, if that is, else an error; so is a group that is empty and may not be.
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
    of_value = np.append(places(values, labels), -1)  # the last is that of a missing label
    codes = of_value[value_codes]
    if (codes < 0).any():
        codes[codes < 0] = places([OTHER], labels)[0]
    if (codes < 0).any():
        first = value_codes[np.argmax(codes < 0)]
        if first < 0:
            raise _missing_in(value_codes < 0)
        raise InputError(
            f"groups must hold labels of group_labels={list(labels)!r} alone, got "
            f"{values[first]!r}: state the label {OTHER!r} too, which takes in "
            f"whatever is not stated."
        )
    empty = np.flatnonzero(np.bincount(codes, minlength=len(labels)) == 0)
    if empty.size and not may_be_empty:
        raise _without_records(labels[empty[0]])
    return codes, labels.to_numpy(dtype=object)


def _without_records(label: Hashable) -> InputError:
    return InputError(
        f"group_labels contains {label!r}, a group without records: the worst group can only be "
        f"found among groups with records, leave it out."
    )


def _warn_of_memberships(labels: pd.Index[Any]) -> None:
    """Warn where labels that were found may say who is a member of which of several groups."""
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
    """Return labels in order, those that are the same text once, as the shortest is written.

    It follows from the set of what is written alone, and no record comes first.
    """
    shortest: dict[Any, tuple[int, str, Any]] = {}  # by the column and the key of a part
    once: dict[Any, Any] = {}
    for label in labels:
        keys = []
        for place, part in enumerate(map(plain, label if isinstance(label, tuple) else [label])):
            keys.append((place, label_key(part)))
            spelled = repr(part)
            known = shortest.get(keys[-1])
            if known is None or (len(spelled), spelled) < known[:2]:
                shortest[keys[-1]] = (len(spelled), spelled, part)
        once[isinstance(label, tuple), *keys] = None
    for is_tuple, *keys in once:
        parts = tuple([shortest[key][2] for key in keys])
        once[is_tuple, *keys] = parts if is_tuple else parts[0]
    return _in_order(_index(label_column(once.values())), groups, is_hidden)


def count_labels(
    groups: Any, n_records: int, *, is_stated: bool = False, takes_missing: bool = False
) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the labels found, in the order in which they come, and how many records have each.

    Where missing ones are taken, None stands for them.
    """
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
    """Return each record's index into the labels found, and these in the order they come in.

    Where labels are stated, an index is -1 for one that is missing, and each follows from what is
    said of that record alone: of a list a frame would have as many columns as its longest entry.
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
    in_order = labels.astype(object)
    return np.asarray(codes, dtype=np.intp), _index(
        label_column(map(_as_label, in_order)) if is_list else in_order
    )


def labelled_sizes(
    group_sizes: Any,
    size_labels: Sequence[Hashable] | None,
    group_labels: Sequence[Hashable] | None,
    *,
    may_be_unnamed: bool = False,
) -> tuple[Any, list[Any]]:
    """Return labels and sizes, not checked, in the order that ``fit`` gives the groups.

    Sizes are a mapping from labels, a sequence with labels, or one in the estimator's order.
    """
    known = None if group_labels is None else checked_labels(group_labels)
    index = group_sizes.index if isinstance(group_sizes, pd.Series) else None  # may say an order
    if hasattr(group_sizes, "keys"):  # a mapping, or the Series that value_counts returns
        if size_labels is not None:
            raise InputError("group_labels must be None where group_sizes is a mapping.")
        pairs = list(group_sizes.items())  # of a Series much quicker than by its labels
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
        of_columns = index.to_frame() if isinstance(index, pd.MultiIndex) else index
        known = _in_order(_index(label_column(labels)), of_columns)
    at = places(label_column(known), labels)
    if (at < 0).any() or len(known) < len(labels):
        raise InputError(
            f"group_sizes must be those of group_labels={known!r}, got those of {labels!r}."
        )
    return label_column(known), [sizes[place] for place in at]


# Groups that overlap, made of the cells of several columns.

OVERLAPS = ("cells", "attributes", "both", "membership")

# With "both", cells of so many records are groups too: what smaller ones lose is told from chance
# at no epsilon.
MIN_CELL_SIZE = 36


def check_kind_of_overlap(overlap: Any) -> None:
    """Refuse what does not say what several columns of groups mean."""
    if not isinstance(overlap, str) or overlap not in OVERLAPS:
        raise InputError(
            f"overlap must be one of {', '.join(map(repr, OVERLAPS))}, got {overlap!r}."
        )


def columns_of(groups: Any, group_by: GroupBy | None = None) -> list[Hashable]:
    """Return the names of the columns that groups come in, or their places; one for a Series."""
    groups = as_pandas(groups)
    if hasattr(groups, "columns"):
        return list(groups.columns)
    if isinstance(group_by, list | tuple):
        return list(group_by)
    shape = groups.shape if hasattr(groups, "shape") else pd.DataFrame(groups).shape
    return list(range(shape[1])) if len(shape) > 1 else [0]


def by_column(cell_labels: Iterable[Hashable]) -> list[NDArray[np.object_]]:
    """Return the different values of each column of cells."""
    values = [each if isinstance(each, tuple) else (each,) for each in cell_labels]
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
    """Return labels of overlapping groups, and the cells that each is made of.

    Cells are labelled by one value a column, as `encode_groups` labels them. Groups are labelled
    ``(column, value)``, or by the column that says who is a member; a cell that is a group too by
    the tuple of all its pairs. Of one column groups are its values themselves, and values are in
    the order that the columns of a table have, if it is a frame. Stated labels are all groups there
    are, in their order; or else tell which cells are groups, and any may be missing.
    """
    width = max((len(each) if isinstance(each, tuple) else 1 for each in cell_labels), default=1)
    names = list(range(width)) if columns is None else list(columns)
    values: list[Any] = [each if len(names) > 1 else (each,) for each in cell_labels]
    if len(names) != width or any(not isinstance(each, tuple) for each in values):
        raise InputError(
            f"groups must be labelled by one value for each of their columns {names!r} where they "
            f"overlap, got {cell_labels[0]!r}."
        )
    made_of: dict[Hashable, list[int]] = {}
    for place, name in enumerate(names):
        of_value: dict[Hashable, list[int]] = {}
        for cell, each in enumerate(values):
            of_value.setdefault(each[place], []).append(cell)
        if overlap == "membership":
            made_of[name] = _members(name, of_value)
            continue
        column = table.iloc[:, place] if isinstance(table, pd.DataFrame) else table
        for value in _in_order(_index(label_column(of_value)), column):
            made_of[(name, value) if width > 1 else value] = of_value[value]
    cells: dict[Hashable, list[int]] = {}
    if overlap == "both" and width > 1:
        pairs = [tuple(zip(names, each, strict=True)) for each in values]
        stated = None if group_labels is None else {*map(label_key, checked_labels(group_labels))}
        for cell, (label, size) in enumerate(zip(pairs, cell_sizes, strict=True)):
            if size >= MIN_CELL_SIZE if stated is None else label_key(label) in stated:
                cells[label] = [cell]
    if group_labels is not None and not may_be_missing:
        made_of = _stated_groups(made_of, cells, checked_labels(group_labels))
    else:
        made_of |= cells
    if may_be_missing:
        made_of = {label: members for label, members in made_of.items() if members}
    empty = next((label for label, members in made_of.items() if not members), None)
    if empty is not None:
        raise InputError(f"groups must have records in every group, got none in {empty!r}.")
    return label_column(made_of), tuple(map(tuple, made_of.values()))


def _members(name: Hashable, of_value: dict[Hashable, list[int]]) -> list[int]:
    """Return the cells that a column says yes of; it must say yes or no of each."""
    if not set(of_value) <= {0, 1}:
        raise InputError(
            f"groups must say True or False in every column with overlap='membership', got "
            f"something else in column {name!r}."
        )
    return of_value.get(1, [])


def members_of_groups(
    groups: Any,
    n_records: int,
    overlap: str,
    group_labels: Sequence[Hashable] | None = None,
) -> tuple[NDArray[np.object_], list[NDArray[np.intp]]]:
    """Return the labels of the groups that records are in, and the places of each group's records.

    Labels, where given, tell which cells are groups with "both", and are otherwise not looked at.
    """
    check_kind_of_overlap(overlap)
    (groups,) = in_memory(groups=groups)
    codes, labels = encode_groups(groups, n_records, None, overlap=overlap)
    sizes = np.bincount(codes, minlength=len(labels))
    of_cells = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    if overlap == "cells":
        return labels, of_cells
    labels, made_of = overlapping_groups(
        labels.tolist(),
        sizes.tolist(),
        overlap,
        columns=columns_of(groups),
        group_labels=group_labels,
        may_be_missing=True,
        table=groups,
    )
    return labels, [np.sort(np.concatenate([of_cells[one] for one in cells])) for cells in made_of]


def _stated_groups(
    made_of: dict[Hashable, list[int]], cells: dict[Hashable, list[int]], stated: list[Hashable]
) -> dict[Hashable, list[int]]:
    """Return the groups in the order in which they were stated; each is there, and all are."""
    known = {label_key(label): members for label, members in (made_of | cells).items()}
    of_stated = {label_key(label): label for label in stated}
    for label in made_of:
        if label_key(label) not in of_stated:
            raise InputError(
                f"groups must hold labels of group_labels={stated!r} alone, got {label!r}."
            )
    for key, label in of_stated.items():
        if key not in known:
            raise _without_records(label)
    return {label: known[key] for key, label in of_stated.items()}


def _as_label(label: Any) -> Hashable:
    """Return a record's label, a tuple for several cells; no stated one if it cannot be."""
    if isinstance(label, list | tuple | np.ndarray):
        cells = tuple(np.atleast_1d(label)) if isinstance(label, np.ndarray) else tuple(label)
        label = cells[0] if len(cells) == 1 else cells
    try:
        hash(label)
    except TypeError:
        return object()
    return label


def _one_column(groups: Any, may_be_missing: bool) -> Any:
    """Return one label a record, a tuple where there are several columns."""
    try:
        # of a sparse matrix of the older kind a frame would make one cell
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
    """Return a column whose numbers are of one kind: of 1, 1.0 and True pandas keeps the first."""
    if column.dtype != object:
        return column
    parts = (part for cell in column for part in (cell if isinstance(cell, tuple) else (cell,)))
    kinds = {kind for kind in set(map(type, parts)) if issubclass(kind, Real | np.bool_)}
    if len(kinds) < 2:
        return column
    return pd.Series(list(map(_as_one_kind, column)), column.index, object, column.name)


def _as_one_kind(cell: Any) -> Any:
    """Return a label with its numbers as whole ones where they are, else with fractions."""
    if isinstance(cell, tuple):
        return tuple(map(_as_one_kind, cell))
    if not isinstance(cell, Real | np.bool_):
        return cell
    if isinstance(cell, Integral | np.bool_):  # of which a float would lose digits
        return int(cell)
    number = float(cell)
    return int(number) if number.is_integer() else number


def _missing_in(is_missing: Any) -> InputError:
    return InputError(
        f"groups contains NaN or None in row {np.argmax(is_missing)}; give records of unknown "
        f"group a label of their own or leave them out."
    )


def _index(labels: Sequence[Any] | NDArray[np.object_] | pd.Index[Any]) -> pd.Index[Any]:
    return pd.Index(labels, tupleize_cols=False, dtype=object)


def _in_order(labels: pd.Index[Any], groups: Any, is_hidden: bool = False) -> list[Any]:
    """Return labels in the order of the categories of their columns, else sorted."""
    columns = [groups[each] for each in groups] if isinstance(groups, pd.DataFrame) else [groups]
    known: list[Any] = [None] * len(columns)
    for place, column in enumerate(columns):
        kind = getattr(column, "dtype", None)
        # categories without an order may be in that of the records, which shows a hidden group
        if isinstance(kind, pd.CategoricalDtype) and (kind.ordered or not is_hidden):
            known[place] = kind.categories
    if all(each is None for each in known):
        return sorted(labels, key=_sort_key)
    cells = zip(*(label if len(columns) > 1 else (label,) for label in labels), strict=True)
    places = [
        _index(sorted(set(values), key=_sort_key) if each is None else each).get_indexer(
            _index(values)
        )
        for each, values in zip(known, cells, strict=True)
    ]
    return [labels[place] for place in np.lexsort(places[::-1])]


def _sort_key(label: Any) -> tuple[int, Any]:
    # numbers before strings before tuples before the rest, so that mixed labels have an order too
    if isinstance(label, bool | int | float | np.number):
        return 0, label
    if isinstance(label, str):
        return 1, label
    if isinstance(label, tuple):
        return 2, tuple(_sort_key(part) for part in label)
    if isinstance(label, pd.Interval):
        return 3, (label.left, label.right)
    return 4, str(label)
