"""What a plan needs to know of a partition: how many records of which group, classes, columns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_X_y

from sklearn_dpwg.estimators.in_blocks.refusal import told
from sklearn_dpwg.estimators.inputs import advice_on_missing_values, check_targets
from sklearn_dpwg.estimators.targets import numeric_targets
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.groups import count_labels, find_groups

# Labels or classes of one partition that are gathered; more are no groups, and would fill memory.
MOST_LABELS = 2**17
NO_TARGETS = (
    "target must be the column of y in a source that is passed to fit or score, got None: of "
    "records without targets a fitted model makes predictions alone."
)


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known of one partition."""

    form: Any  # no rows, with the columns that rows have
    n_records: int  # how many rows there are
    # the classes found, in the order in which they come; of numbers the least and the largest
    targets: NDArray[Any]
    is_column: bool  # whether targets came as a table of one column
    # labels of groups found, in the order in which they come; None without groups
    labels: list[Hashable] | None
    counts: NDArray[np.intp]  # how many records have each label; of all where there are no groups
    fingerprint: bytes  # of names, types, targets and groups

    def __repr__(self) -> str:
        return "Survey()"


def survey_partition(partition: Any, *, group_by: Any, is_classifier: bool) -> Survey | Any:
    """Return what is known of a partition, or what is wrong with its targets and groups."""
    return _survey(partition, group_by, is_classifier)


@told
def _survey(partition: Any, group_by: Any, is_classifier: bool) -> Survey:
    # groups that are made of the rows ask for all columns
    table = partition.read_labels() if group_by is None else partition.read()
    y, groups = targets_of(table), find_groups(table.X, table.groups, group_by)
    n_records = len(y)
    is_column = np.ndim(y) == 2
    found = checked_targets(y, is_classifier=is_classifier)
    if is_classifier:
        found = _few(first_of_each(found), "y must hold classes", n_records)
    elif n_records:
        numbers = numeric_targets(found)
        found = np.array([numbers.min(), numbers.max()])
    labels, counts = None, np.array([n_records])
    if groups is not None:
        labels, counts = count_labels(groups, n_records)
        _few(labels, "groups must be labels that records share", n_records)
    return Survey(
        form=table.X[:0],
        n_records=n_records,
        targets=found,
        is_column=is_column,
        labels=labels,
        counts=counts,
        fingerprint=fingerprint_of(table, groups),
    )


def targets_of(table: Any) -> Any:
    """Return the targets of a partition, or refuse one of a source that has none."""
    if table.y is None:
        raise InputError(NO_TARGETS)
    return table.y


def checked_targets(y: Any, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets as a vector, checked as they are in memory."""
    check_targets(y, is_classifier=is_classifier)
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not len(values):
        return values.ravel()
    with advice_on_missing_values(None):
        _, checked = check_X_y(np.zeros((len(values), 1)), values, y_numeric=not is_classifier)
    return np.asarray(checked)


def first_of_each(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values without repetitions, in the order in which they come, of the same type."""
    codes, _ = pd.factorize(values)
    _, places = np.unique(codes, return_index=True)
    return values[places]


def fingerprint_of(table: Any, groups: Any) -> bytes:
    """Return what names, types, targets and groups of a partition are known again by."""
    from sklearn_dpwg.sources import Table, fingerprint

    return fingerprint(Table(table.X[:0], table.y, groups))


def _few(found: Any, rule: str, n_records: int) -> Any:
    if len(found) > MOST_LABELS:
        raise InputError(
            f"{rule}, got {len(found):,} different ones in {n_records:,} records of one partition, "
            f"as in a column of identifiers; at most {MOST_LABELS:,} are read."
        )
    return found
