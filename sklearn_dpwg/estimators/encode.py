"""Rows, targets and starting weights as solvers take them; wrong ones are refused by name."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.data.frames import as_pandas, label_key, places, plain_list, same_text
from sklearn_dpwg.data.groups import check_kind_of_overlap, names_of_columns
from sklearn_dpwg.data.records import ADVICE
from sklearn_dpwg.exceptions import GroupsWarning, InputError, warn
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.solvers import Solution

# The types that rows are taken in as they are; anything else becomes the first.
PRECISIONS = [np.float64, np.float32]

# Up to so many labels a column is never taken for one of identifiers or of measured numbers.
_FEW = 20

# Types that are no real numbers. A timestamp of pandas is a date, a period is not.
_NO_NUMBERS: dict[str, tuple[type, ...]] = {
    "strings": (str, bytes),
    "dates or times": (
        datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period,
    ),
    "complex numbers": (complex, np.complexfloating),
}  # fmt: skip


def check_columns(X: Any) -> None:
    """Refuse rows with columns that are no numbers, or that share a name."""
    if issparse(X):
        return
    if hasattr(X, "columns"):
        names = list(X.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"X must have a name of its own for each column, got {twice!r} twice.")
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        columns = [X.iloc[:, at] for at, kind in enumerate(kinds) if kind not in "biuf"]
    else:
        rows = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)
        columns = [] if rows.ndim != 2 or rows.dtype.kind in "biuf" else list(rows.T)
    for place, column in enumerate(columns):
        kind = _kind(np.asarray(column))
        if kind is not None:
            name = getattr(column, "name", place)
            raise InputError(f"X must hold numbers, got {kind} in column {name!r}: {ADVICE[kind]}.")


def _kind(values: NDArray[Any]) -> str | None:
    """Say what values are that are no real numbers, as far as their types tell."""
    if values.dtype.kind in "biuf":
        return None
    of_objects = values.dtype.kind == "O"
    types = set(map(type, values.ravel())) if of_objects else {values.dtype.type}
    for kind, wrong in _NO_NUMBERS.items():
        if any(issubclass(each, wrong) for each in types):
            return kind
    return None


@contextmanager
def errors_by_column(X: Any) -> Iterator[None]:
    """Refuse wrong columns, and name where scikit-learn finds NaN or infinity in X."""
    check_columns(X)
    try:
        yield
    except (TypeError, ValueError) as error:
        is_of_values = str(error).startswith("Input X contains") or "'NAType'" in str(error)
        values = np.array([]) if issparse(X) else np.asarray(X, dtype=object)
        if values.ndim != 2 or not is_of_values:
            raise
        numbers = np.where(pd.isna(values), np.nan, values).astype(np.float64)
        row, column = np.argwhere(~np.isfinite(numbers))[0].tolist()
        name = list(X.columns)[column] if hasattr(X, "columns") else column
        if np.isinf(numbers[row, column]):
            raise InputError(f"Input X contains infinity in column {name!r}, row {row}.") from None
        raise InputError(
            f"Input X contains NaN in column {name!r}, row {row}: PublicSchema takes a fill that "
            "is said beforehand, while an imputer would learn from the records what no guarantee "
            "covers."
        ) from None


def check_targets(y: Any, *, is_classifier: bool) -> Any:
    """Return targets, decimals as floats, or refuse those of the wrong kind."""
    values = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if values.dtype == object and pd.api.types.infer_dtype(values.ravel()) == "decimal":
        return values.astype(np.float64)
    kind = _kind(values)
    if not is_classifier and kind is not None:
        advice = {
            "strings": "for classes use DPWorstGroupClassifier",
            "complex numbers": "Complex data not supported",
        }.get(kind, "make numbers of them, with target_bounds in the same unit")
        raise InputError(f"y must hold numbers for a regressor, got {kind}: {advice}.")
    return y


def check_found(values: NDArray[Any], n_records: int, parameter: str) -> None:
    """Refuse classes or groups that nobody stated and can be none; all of that is public."""
    needed, limit = "y must hold classes", max(_FEW, n_records / 2)
    if parameter == "group_labels":
        needed = "groups must be labels that records share"
    if len(values) > _FEW and parameter == "group_labels":
        is_measured = any(isinstance(one, float | np.floating) and one % 1.0 for one in values)
        limit = _FEW if is_measured else limit
    if len(values) > limit:
        raise InputError(
            f"{needed}, got {len(values):,} different ones in {n_records:,} records, as in a "
            f"column of identifiers or of measured numbers: pass another, or state "
            f"{parameter}=[...]."
        )


def warn_if_target_is_group(y: Any, groups: Any, group_by: Any) -> None:
    """Warn if the target is among the groups, which are public.

    Told from what was passed, an object or a name, never from values: that targets agree with
    groups in every record is a fact about each of them, and labels may be the same words by chance.
    """
    name = getattr(y, "name", None) or None  # series of polars without a name have ""
    is_column = isinstance(name, str) and name in names_of_columns(groups, group_by)
    if is_column or (groups is not None and y is groups):
        warn(
            "groups hold the target y: the groups are public, so the guarantee protects no "
            "record's target. Leave it out of groups, or rename it if it is something else.",
            GroupsWarning,
        )


# Public facts that a plan is made from: counts, and the prior weights of the groups.

NEIGHBOURS = ("replace-one", "replace-one-within-group")


def stated_rows(value: Any) -> int | None:
    """Return how many rows a person has at most, None where nobody says it."""
    return None if value is None else whole_number(value, "rows_per_person", least=1)


def group_size(value: Any) -> Any:
    """Return the size of a group: a positive whole number, or infinity where it has no end."""
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return whole_number(value, "an entry of group_sizes", least=1)


def check_protection(neighbours: Any, overlap: Any, *, hides_groups: bool) -> None:
    """Refuse what neighbours, or what overlap of groups, a fit cannot be private for."""
    if not isinstance(neighbours, str) or neighbours not in NEIGHBOURS:
        raise InputError(
            f"neighbours must be one of {', '.join(map(repr, NEIGHBOURS))}, got {neighbours!r}."
        )
    check_kind_of_overlap(overlap)
    if overlap != "cells" and hides_groups:
        raise InputError(
            f"overlap must be 'cells' with neighbours='replace-one', as nothing is proved for a "
            f"record that leaves several groups for others, got {overlap!r}: it is for "
            f"neighbours='replace-one-within-group'."
        )


def resolve_prior(prior: Any, group_sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the positive weights, summing to 1, that the parameter `prior` stands for."""
    sizes, n_groups = np.asarray(group_sizes, dtype=float), len(group_sizes)
    fraction = {"proportional": 0.0, "uniform": 1.0}.get(prior) if isinstance(prior, str) else prior
    try:
        weights = np.asarray(fraction, dtype=float)  # None and NaN fail the comparisons below
    except (TypeError, ValueError):
        weights = np.array(math.nan)
    if weights.ndim == 0 and 0.0 <= weights <= 1.0:
        if (is_endless := np.isinf(sizes)).any():  # groups without end have equal fractions
            if not is_endless.all() and weights < 1.0:
                raise InputError(
                    f"prior must be 'uniform' or one positive weight a group where some groups "
                    f"have an end and others have none, got {prior!r}."
                )
            sizes = is_endless.astype(float)
        weights = weights / n_groups + (1.0 - weights) * (sizes / sizes.sum())
    elif weights.shape == (n_groups,) and (weights > 0).all() and np.isfinite(weights).all():
        added_up = weights.sum()
        if (weights < 1).all() and abs(added_up - 1) > 1e-6:
            raise InputError(
                f"prior must sum to 1 where its weights are below 1, got {prior!r}, which "
                f"sums to {added_up:.6g}."
            )
        weights = weights / added_up
    else:
        raise InputError(
            "prior must be 'proportional', 'uniform', a number from 0 to 1 (the fraction of equal "
            "weights in a mixture with the proportional ones) or one positive weight a group, "
            f"{n_groups} here, got {prior!r}."
        )
    return tuple(weights.tolist())


# Targets as a loss expects them, and weights in the units of y.


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Classes, encoded as -1 and 1 where there are two, else as 0, 1, ..."""

    classes: NDArray[Any]
    loss: Loss

    def encode(self, y: NDArray[Any]) -> FloatArray:
        """Return targets for the loss, or refuse other classes."""
        index = places(y, self.classes)
        if (index < 0).any():
            row = int(np.argmax(index < 0))
            raise InputError(
                f"y must hold no class outside classes={self.classes.tolist()!r}, got "
                f"{y[row : row + 1].tolist()[0]!r} in row {row}."
            )
        return np.asarray(2.0 * index - 1.0 if self.loss.n_outputs == 1 else index.astype(float))

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, Any]:
        """Return ``coef_`` and ``intercept_`` of what the loss learned."""
        return coef, intercept

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        """Return what the loss would have learned, of ``coef_`` and ``intercept_``."""
        return coef, intercept

    def check_later(self, classes: ArrayLike | None) -> None:
        """Refuse classes that a later call of ``partial_fit`` names and the first did not."""
        keys = None if classes is None else {*map(label_key, plain_list(classes))}
        if keys not in (None, {*map(label_key, self.classes)}):
            raise InputError(
                f"classes must be those of the first call, {self.classes.tolist()!r}, got "
                f"{classes!r}."
            )


@dataclass(frozen=True, eq=False)
class BoundedTargets:
    """Numbers between public bounds, mapped to [-1, 1]."""

    low: float
    high: float
    loss: Loss
    classes = None

    @property
    def _center(self) -> float:
        return self.low / 2.0 + self.high / 2.0

    @property
    def _half_width(self) -> float:
        return self.high / 2.0 - self.low / 2.0

    def encode(self, y: NDArray[Any]) -> FloatArray:
        """Return targets for the loss."""
        # clipped before it is mapped, so that no target overflows
        inside = np.clip(numeric_targets(y), self.low, self.high)
        return np.clip((inside - self._center) / self._half_width, -1.0, 1.0)

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, Any]:
        """Return ``coef_`` and ``intercept_`` in the units of y, of what the loss learned."""
        return self._half_width * coef[0], float(self._center + self._half_width * intercept[0])

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        """Return what the loss would have learned, of ``coef_`` and ``intercept_``."""
        return coef / self._half_width, (intercept - self._center) / self._half_width

    def check_later(self, classes: ArrayLike | None) -> None:
        """Refuse classes."""
        refuse_classes(classes)


Targets = ClassTargets | BoundedTargets


def find_classes(y: NDArray[Any] | None, given: ArrayLike | None) -> NDArray[Any]:
    """Return the classes, sorted, that are given or else found in y; refuse what can be none."""
    if given is None and y is None:
        raise InputError("classes must be given or set where y is not there to find them in.")
    listed = np.ravel(np.asarray(as_pandas(y if given is None else given)))
    try:
        known = np.unique(listed)
    except TypeError:
        got = "a mixture in y" if given is None else repr(given)
        raise InputError(f"classes must be all numbers or all strings, got {got}.") from None
    if given is None:
        check_classification_targets(y)
        check_found(known, len(listed), "classes")
    if twice := same_text((known if given is None else listed).tolist()):
        needed = (
            "y must hold classes that differ"
            if given is None
            else "classes must name each class once"
        )
        raise InputError(f"{needed}, got {twice}.")
    if len(known) < 2:
        raise InputError(
            f"classes must be at least two, found in y or given, got one class: {known.tolist()!r}."
        )
    return known


def numeric_targets(y: NDArray[Any]) -> FloatArray:
    """Return targets as numbers."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(y.astype(np.float64))
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        raise InputError(f"y must hold finite numbers, got NaN in row {row}.")
    return numbers


def refuse_classes(classes: ArrayLike | None) -> None:
    """Refuse classes of a regressor."""
    if classes is not None:
        raise InputError(f"classes must be None for a regressor, got {classes!r}.")


# First weights of a fit, from weights in the units of the caller.


def first_weights(start: Any, targets: Targets, n_features: int, estimator: Any) -> Solution | None:
    """Return where a run of an estimator begins, in its units; perhaps off the ball."""
    if start is None:
        return None
    coef, intercept = _coef_and_intercept(start)
    _check_same_task(start, targets.classes, getattr(estimator, "feature_names_in_", None))
    n_outputs = targets.loss.n_outputs
    shape = (n_outputs, n_features)
    matrix, constants = np.atleast_2d(coef), np.ravel(intercept)
    if matrix.shape != shape or constants.size not in {1, n_outputs}:
        raise InputError(
            f"start must have a coef of shape {shape} and one intercept or {n_outputs}, got "
            f"shapes {coef.shape} and {intercept.shape}."
        )
    matrix, constants = targets.encode_weights(matrix, np.broadcast_to(constants, n_outputs))
    with np.errstate(all="ignore"):
        matrix = matrix * estimator._row_norm
        if estimator.fit_intercept:
            matrix = np.column_stack([matrix, constants / estimator._intercept_scaling])
        elif not np.all(np.abs(constants) <= 1e-9):
            raise InputError(
                "start must have the intercept of a model that predicts nothing with "
                f"fit_intercept=False, got {np.ravel(intercept).tolist()!r}."
            )
        if not np.isfinite(np.linalg.norm(matrix)):
            raise InputError("start must be finite in the units of the fit, got infinite or NaN.")
    return Solution(matrix.ravel(), None, 0)


def _coef_and_intercept(start: Any) -> tuple[FloatArray, FloatArray]:
    """Return both as arrays, or refuse what has none."""
    if hasattr(start, "coef_"):
        pair = start.coef_, getattr(start, "intercept_", 0.0)
    elif isinstance(start, tuple | list) and len(start) == 2:
        pair = start[0], start[1]
    else:
        raise InputError(
            "start must be a fitted linear model with coef_ and intercept_, or a pair (coef, "
            f"intercept) in the units of X and y, got {type(start).__name__}."
        )
    coef: Any = pair[0]
    coef = coef.toarray() if hasattr(coef, "toarray") else coef
    return np.asarray(coef, dtype=float), np.asarray(pair[1], dtype=float)


def _check_same_task(start: Any, classes: NDArray[Any] | None, names: Any) -> None:
    """Refuse a model of other classes, in another order, or of other columns."""
    of_start = getattr(start, "classes_", None)
    keys = [None if each is None else [*map(label_key, each)] for each in (classes, of_start)]
    if of_start is not None and keys[0] != keys[1]:
        needed = "no classes" if classes is None else f"the classes {classes.tolist()!r}, in order"
        raise InputError(f"start must know {needed}, got {np.asarray(of_start).tolist()!r}.")
    known = getattr(start, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise InputError(
            f"start must be fitted to columns of the names {list(names)!r}, got {list(known)!r}."
        )
