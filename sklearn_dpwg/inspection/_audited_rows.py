"""Rows of an audit as codes: groups, classes, predictions and bins of scores."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.groups import GroupBy, encode_groups, select_groups

Codes = NDArray[np.signedinteger[Any]]

# Rows that are read at a time: a few megabytes of labels.
_BLOCK = 50_000

# Models whose predictions are counted together: from six on, noise on so many joint counts is
# louder than that of an audit each.
_MOST_MODELS = 5


def group_codes(
    groups: Any,
    n_records: int,
    group_labels: Sequence[Hashable] | None,
    group_by: GroupBy | None,
) -> tuple[Codes, tuple[Hashable, ...]]:
    """Return the position of each record's group among the labels, and these."""
    if groups is None:
        raise ValueError(
            "groups must be passed: labels, columns of them, or rows in which group_by finds them."
        )
    if group_by is not None:
        _check_columns(groups, group_by)
        groups = select_groups(groups, group_by)
    length = len(groups) if hasattr(groups, "__len__") else -1
    if group_labels is None or length != n_records:
        codes, found = encode_groups(
            groups, n_records, group_labels, may_be_empty=True, are_secret=True
        )
        return codes, tuple(found)
    codes = np.empty(n_records, dtype=np.int32)
    labels: tuple[Hashable, ...] = ()
    for rows in blocks(n_records):
        part = groups.iloc[rows] if hasattr(groups, "iloc") else groups[rows]
        size = rows.stop - rows.start
        codes[rows], found = encode_groups(
            part, size, group_labels, may_be_empty=True, are_secret=True
        )
        labels = tuple(found)
    return codes, labels


def blocks(n_records: int) -> Iterator[slice]:
    """Yield slices of so many rows that what is computed of them needs little memory."""
    for start in range(0, n_records, _BLOCK):
        yield slice(start, min(start + _BLOCK, n_records))


def group_name(groups: Any, group_by: GroupBy | None) -> str:
    """Say what the groups are made of: names of columns, or just "group"."""
    columns: list[Any] = []
    if callable(group_by):
        return "group"
    if group_by is not None:
        columns = list(group_by) if isinstance(group_by, list | tuple) else [group_by]
    elif hasattr(groups, "columns"):
        columns = list(groups.columns)
    elif isinstance(getattr(groups, "name", None), str):
        columns = [groups.name]
    return " and ".join(map(str, columns)) or "group"


def _check_columns(rows: Any, group_by: GroupBy) -> None:
    """Refuse a column that a frame does not have, naming the nearest one."""
    if callable(group_by) or not hasattr(rows, "columns"):
        return
    if hasattr(rows, "column_names"):  # `columns` of an Arrow table are its cells
        raise ValueError(
            "group_by needs rows in a frame of pandas or polars, or an array, got an Arrow table."
        )
    known = [str(column) for column in rows.columns]
    for column in group_by if isinstance(group_by, list | tuple) else [group_by]:
        if column not in rows.columns:
            near = get_close_matches(str(column), known, n=1, cutoff=0.0)
            raise ValueError(
                f"group_by must name columns of the rows, got {column!r}; the nearest is "
                f"{near[0]!r}."
                if near
                else f"group_by names {column!r} of rows without columns."
            )


def class_codes(values: Any, classes: tuple[Hashable, Hashable], name: str) -> NDArray[np.bool_]:
    """Return whether each value is the second class."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one entry a record, got shape {array.shape}.")
    positive = np.asarray(array == classes[1])
    known = positive | np.asarray(array == classes[0])
    if known.shape != array.shape or not known.all():
        hint = "classes=(negative, positive) names others"
        if name != "y_true":
            hint = f"probabilities must be numbers, got {array.dtype}"
        raise ValueError(
            f"{name} must hold the classes {classes[0]!r} and {classes[1]!r} alone, and some "
            f"values differ; {hint}."
        )
    return positive


def are_predictions(scores: NDArray[Any], classes: tuple[Hashable, Hashable]) -> bool:
    """Return whether what is called scores are predicted classes."""
    if scores.dtype.kind not in "biuf":
        return True
    # 0 and 1 are probabilities too, of the class 1 alone
    return scores.dtype.kind in "biu" and tuple(classes) != (0, 1)


def probabilities(scores: NDArray[Any], n_records: int, name: str) -> FloatArray:
    """Return the probability of the second class of each record."""
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1]
    if scores.shape != (n_records,):
        raise ValueError(
            f"{name} must have one entry a record: got shape {scores.shape} for {n_records} "
            f"records."
        )
    found = scores.astype(np.float64, copy=False)
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise ValueError(
            f"{name} must be probabilities between 0 and 1, and some are not; predicted classes "
            f"must be whole numbers, booleans or text."
        )
    return found


def is_predicted(
    scores: Any, n_records: int, classes: tuple[Hashable, Hashable], threshold: float, name: str
) -> NDArray[np.bool_]:
    """Return whether each record is predicted to be of the second class."""
    array = np.asarray(scores)
    if are_predictions(array, classes):
        if array.shape != (n_records,):
            raise ValueError(
                f"{name} must have one entry a record: got shape {array.shape} for {n_records} "
                f"records."
            )
        return class_codes(array, classes, name)
    found = probabilities(array, n_records, name)
    if tuple(classes) == (1, 0) and ((found == 0.0) | (found == 1.0)).all():
        raise ValueError(
            f"{name} of 0.0 and 1.0 alone may be classes or probabilities where classes=(1, 0): "
            f"pass classes as whole numbers."
        )
    return found >= threshold


def joint_bins(
    scores: Mapping[str, ArrayLike],
    n_records: int,
    classes: tuple[Hashable, Hashable],
    threshold: float,
) -> NDArray[np.int8]:
    """Return the predictions of several models as the digits of a binary number."""
    if not 1 <= len(scores) <= _MOST_MODELS:
        raise ValueError(
            f"scores must be of at most {_MOST_MODELS} models at once, got {len(scores)}: audit "
            f"each by itself, with n_audits={max(len(scores), 1)}."
        )
    bins = np.zeros(n_records, dtype=np.int8)
    for digit, (name, one) in enumerate(scores.items()):
        array = np.asarray(one)
        said = f"scores of {name!r}"
        selected = is_predicted(array, n_records, classes, threshold, said)
        bins += selected.astype(np.int8) << digit
    return bins


@dataclass(frozen=True)
class AuditedRows:
    """Records as codes: group, class, bin of scores or joint predictions."""

    codes: Codes
    labels: tuple[Hashable, ...]
    sizes: tuple[int, ...]
    positive: NDArray[np.bool_]
    bins: NDArray[Any]
    score: FloatArray | None
    names: tuple[str, ...]
    n_models: int

    @property
    def n_cells(self) -> int:
        """Of how many noisy counts those of one model are sums."""
        return int(2 ** (self.n_models - 1))

    def counts(self, n_bins: int) -> NDArray[np.int64]:
        """Return the exact counts by group, class and bin: a record is in one of them."""
        shape = (len(self.labels), 2, n_bins)
        counts = np.zeros(math.prod(shape), dtype=np.int64)
        for rows in blocks(len(self.codes)):
            cells = self.codes[rows].astype(np.intp) * (2 * n_bins)
            cells += self.positive[rows] * n_bins
            cells += self.bins[rows]
            counts += np.bincount(cells, minlength=counts.size)
        return counts.reshape(shape)

    def of_models(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the counts of each model, of joint ones."""
        if self.n_models == 1:
            return [counts]
        joint = counts.reshape(*counts.shape[:2], *[2] * self.n_models)
        places = range(2, 2 + self.n_models)
        # the prediction of the first model is the last binary digit
        return [
            joint.sum(axis=tuple(other for other in places if other != place))
            for place in reversed(places)
        ]
