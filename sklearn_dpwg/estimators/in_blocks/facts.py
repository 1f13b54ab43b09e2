"""Facts of all records, of what is known of each partition, as they are found in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from sklearn_dpwg.estimators.fitting import Fitting, precisions
from sklearn_dpwg.estimators.in_blocks.held import Names
from sklearn_dpwg.estimators.in_blocks.survey import Survey, first_of_each
from sklearn_dpwg.estimators.inputs import (
    check_columns,
    check_found_groups,
    check_targets,
    warn_if_target_is_group,
)
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.groups import encode_groups, grouping_names, label_column


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of all records before one of their rows is read."""

    targets: Targets  # what encodes y
    labels: NDArray[np.object_]  # labels of the groups
    has_groups: bool  # whether groups were given; else all records are one
    # how many records of each group each partition has; (n_partitions, n_groups)
    sizes: NDArray[np.intp]
    n_features: int
    dtype: np.dtype[Any]  # what rows are taken in as

    @property
    def first_ranks(self) -> NDArray[np.intp]:
        """How many records of each group the partitions before each one have."""
        return np.cumsum(self.sizes, axis=0) - self.sizes


def merge(estimator: Fitting, surveys: Sequence[Survey], names: Names) -> Facts:
    """Return the facts of all partitions, refused and warned of as they are in memory."""
    if not surveys:
        raise InputError("X must have at least one partition, got none.")
    n_records = sum(each.n_records for each in surveys)
    form = _common_form(surveys)
    check_columns(form)
    validate_data(
        estimator,
        form,
        dtype=precisions(form),
        accept_sparse="csr",
        ensure_min_samples=0 if n_records else 1,
    )
    y = _all_targets(surveys, n_records, is_classifier=not is_regressor(estimator))
    targets = estimator._targets(y)
    estimator._groupings = grouping_names(names.groups, estimator.group_by)
    targets.encode(y)
    sizes, labels = _group_sizes(estimator, surveys, n_records)
    found = targets.attributes.get("classes_", ())
    warn_if_target_is_group(names.targets, names.groups, estimator.group_by, labels, found)
    return Facts(
        targets=targets,
        labels=labels,
        has_groups=surveys[0].labels is not None,
        sizes=sizes,
        n_features=estimator.n_features_in_,
        dtype=_common_precision(surveys),
    )


def _columns(form: Any) -> list[Any] | None:
    return list(form.columns) if hasattr(form, "columns") else None


def _common_form(surveys: Sequence[Survey]) -> Any:
    """Return the columns that all partitions have."""
    first = surveys[0].form
    for each in surveys:
        same = _columns(each.form) == _columns(first) and each.form.shape[1:] == first.shape[1:]
        if not same:
            got = [_columns(form) or form.shape[1] for form in (first, each.form)]
            raise InputError(
                f"X must have the same columns in every partition, in one order, got {got[0]!r} "
                f"and {got[1]!r}."
            )
    return first


def _common_precision(surveys: Sequence[Survey]) -> np.dtype[Any]:
    """Return single precision if the rows of all partitions have it."""
    types = {
        check_array(
            each.form, dtype=precisions(each.form), accept_sparse="csr", ensure_min_samples=0
        ).dtype
        for each in surveys
    }
    return np.dtype(types.pop() if len(types) == 1 else np.float64)


def _all_targets(surveys: Sequence[Survey], n_records: int, *, is_classifier: bool) -> NDArray[Any]:
    """Return targets that stand for all: the same classes, or the same range, and no more."""
    parts = [each.targets for each in surveys if each.n_records]
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    y = np.concatenate(parts)
    check_targets(y, is_classifier=is_classifier)
    if any(each.is_column for each in surveys):
        column_or_1d(y[:1, None], warn=True)
    if not is_classifier:
        return np.array([y.min(), y.max()])
    y = first_of_each(y)
    # as many as there are, up to where more make no difference to what can be classes
    return np.resize(y, min(n_records, 3 * len(y)))


def _group_sizes(
    estimator: Fitting, surveys: Sequence[Survey], n_records: int
) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Return how many records of each group each partition has, and the labels of the groups."""
    if any((each.labels is None) != (surveys[0].labels is None) for each in surveys):
        raise InputError("groups must be given for every partition or for none, got some.")
    if surveys[0].labels is None:
        estimator._warn_of_no_groups()
        return np.array([each.counts for each in surveys]), np.array([0], dtype=object)
    found: list[Hashable] = [label for each in surveys for label in each.labels or ()]
    counts = np.concatenate([each.counts for each in surveys])
    codes, labels = encode_groups(label_column(found), len(found), estimator.group_labels)
    if estimator.group_labels is None:
        check_found_groups(labels, n_records)
    sizes = np.zeros((len(surveys), len(labels)), dtype=np.intp)
    partition = np.repeat(np.arange(len(surveys)), [len(each.counts) for each in surveys])
    np.add.at(sizes, (partition, codes), counts)
    return sizes, labels
