"""Checks of rows, targets and starting weights, and their encoding in the units of solvers."""

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

# Rows of these types keep their type; rows of any other type are converted to the first.
PRECISIONS = [np.float64, np.float32]

# A column with at most so many labels is never taken for identifiers or measured numbers.
_MAX_FEW_LABELS = 20

# Types that are no real numbers, by the words of errors. pd.Period derives from no date type, as
# pd.Timestamp does, so it is listed.
_NON_NUMERIC_TYPES: dict[str, tuple[type, ...]] = {
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
            name = next(name for name in names if names.count(name) > 1)
            raise InputError(f"X must have a name of its own for each column, got {name!r} twice.")
        # columns of numeric dtype ("biuf": bool, int, unsigned, float) need no check
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        columns = [X.iloc[:, index] for index, kind in enumerate(kinds) if kind not in "biuf"]
    else:
        rows = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)
        columns = [] if rows.ndim != 2 or rows.dtype.kind in "biuf" else list(rows.T)
    for index, column in enumerate(columns):
        kind = _non_numeric_kind(np.asarray(column))
        if kind is not None:
            name = getattr(column, "name", index)
            raise InputError(f"X must hold numbers, got {kind} in column {name!r}: {ADVICE[kind]}.")


def _non_numeric_kind(values: NDArray[Any]) -> str | None:
    """Return "strings", "dates or times" or "complex numbers" by type; None for real numbers."""
    if values.dtype.kind in "biuf":
        return None
    has_objects = values.dtype.kind == "O"
    value_types = set(map(type, values.ravel())) if has_objects else {values.dtype.type}
    for kind, non_numeric_types in _NON_NUMERIC_TYPES.items():
        if any(issubclass(value_type, non_numeric_types) for value_type in value_types):
            return kind
    return None


@contextmanager
def errors_by_column(X: Any) -> Iterator[None]:
    """Check the columns of X, and add column and row to scikit-learn's error of NaN or infinity."""
    check_columns(X)
    try:
        yield
    except (TypeError, ValueError) as error:
        # pandas' NA raises a TypeError that names its class
        is_bad_value = str(error).startswith("Input X contains") or "'NAType'" in str(error)
        values = np.array([]) if issparse(X) else np.asarray(X, dtype=object)
        if values.ndim != 2 or not is_bad_value:
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
    """Return y as it is, but decimals as floats; refuse what is no number for a regressor."""
    values = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if values.dtype == object and pd.api.types.infer_dtype(values.ravel()) == "decimal":
        return values.astype(np.float64)
    kind = _non_numeric_kind(values)
    if not is_classifier and kind is not None:
        advice = {
            "strings": "for classes use DPWorstGroupClassifier",
            "complex numbers": "Complex data not supported",
        }.get(kind, "make numbers of them, with target_bounds in the same unit")
        raise InputError(f"y must hold numbers for a regressor, got {kind}: {advice}.")
    return y


def check_found(values: NDArray[Any], n_records: int, parameter: str) -> None:
    """Refuse unstated classes or groups (`parameter`) with as many labels as identifiers have."""
    needed, limit = "y must hold classes", max(_MAX_FEW_LABELS, n_records / 2)
    if parameter == "group_labels":
        needed = "groups must be labels that records share"
    if len(values) > _MAX_FEW_LABELS and parameter == "group_labels":
        is_measured = any(isinstance(one, float | np.floating) and one % 1.0 for one in values)
        limit = _MAX_FEW_LABELS if is_measured else limit
    if len(values) > limit:
        raise InputError(
            f"{needed}, got {len(values):,} different ones in {n_records:,} records, as in a "
            f"column of identifiers or of measured numbers: pass another, or state "
            f"{parameter}=[...]."
        )


def warn_if_target_is_group(y: Any, groups: Any, group_by: Any) -> None:
    """Warn if the target is among the groups, which are public.

    Compares only names and object identity, which are public. Values are private, and a warning
    that depended on them would not be covered by the guarantee.
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
    """Return the largest number of rows of one person, checked; None where it is not stated."""
    return None if value is None else whole_number(value, "rows_per_person", least=1)


def group_size(value: Any) -> Any:
    """Return the size of a group, checked: a positive whole number, or infinity for an oracle."""
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return whole_number(value, "an entry of group_sizes", least=1)


def check_protection(neighbours: Any, overlap: Any, *, hides_groups: bool) -> None:
    """Refuse unknown `neighbours` or `overlap`, and overlapping groups that are hidden."""
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
    """Return the prior weights of the groups, positive with sum 1, from the parameter `prior`."""
    sizes, n_groups = np.asarray(group_sizes, dtype=float), len(group_sizes)
    numbers = {"proportional": 0.0, "uniform": 1.0}.get(prior) if isinstance(prior, str) else prior
    try:
        weights = np.asarray(numbers, dtype=float)  # None and NaN fail the comparisons below
    except (TypeError, ValueError):
        weights = np.array(math.nan)
    if weights.ndim == 0 and 0.0 <= weights <= 1.0:
        # one number: the fraction of equal weights in a mixture with proportional ones
        uniform_fraction = weights
        if (is_endless := np.isinf(sizes)).any():  # groups without end have equal sizes
            if not is_endless.all() and uniform_fraction < 1.0:
                raise InputError(
                    f"prior must be 'uniform' or one positive weight a group where some groups "
                    f"have an end and others have none, got {prior!r}."
                )
            sizes = is_endless.astype(float)
        proportions = sizes / sizes.sum()
        weights = uniform_fraction / n_groups + (1.0 - uniform_fraction) * proportions
    elif weights.shape == (n_groups,) and (weights > 0).all() and np.isfinite(weights).all():
        weight_sum = weights.sum()
        if (weights < 1).all() and abs(weight_sum - 1) > 1e-6:
            raise InputError(
                f"prior must sum to 1 where its weights are below 1, got {prior!r}, which "
                f"sums to {weight_sum:.6g}."
            )
        weights = weights / weight_sum
    else:
        raise InputError(
            "prior must be 'proportional', 'uniform', a number from 0 to 1 (the fraction of equal "
            "weights in a mixture with the proportional ones) or one positive weight a group, "
            f"{n_groups} here, got {prior!r}."
        )
    return tuple(weights.tolist())


# Encoders of targets: y to the numbers that a loss expects, and weights to and from units of y.


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Encoder of classes: -1 and 1 where there are two, else 0, 1, ... in their order."""

    classes: NDArray[Any]
    loss: Loss

    def encode(self, y: NDArray[Any]) -> FloatArray:
        """Return y as numbers, of shape (n_records,); refuse classes that were not stated."""
        index = places(y, self.classes)
        if (index < 0).any():
            row = int(np.argmax(index < 0))
            raise InputError(
                f"y must hold no class outside classes={self.classes.tolist()!r}, got "
                f"{y[row : row + 1].tolist()[0]!r} in row {row}."
            )
        return np.asarray(2.0 * index - 1.0 if self.loss.n_outputs == 1 else index.astype(float))

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, Any]:
        """Return ``coef_`` and ``intercept_`` from the learned weights, which are the same."""
        return coef, intercept

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        """Return weights as the loss learns them from ``coef_`` and ``intercept_``: the same."""
        return coef, intercept

    def check_later_classes(self, classes: ArrayLike | None) -> None:
        """Refuse classes that a later call of ``partial_fit`` names and the first did not."""
        keys = None if classes is None else {*map(label_key, plain_list(classes))}
        if keys not in (None, {*map(label_key, self.classes)}):
            raise InputError(
                f"classes must be those of the first call, {self.classes.tolist()!r}, got "
                f"{classes!r}."
            )


@dataclass(frozen=True, eq=False)
class BoundedTargets:
    """Encoder of numbers: clipped to the public bounds low and high, then mapped to [-1, 1]."""

    low: float
    high: float
    loss: Loss
    classes = None

    @property
    def _center(self) -> float:
        # halves first, as the sum of two large bounds could overflow
        return self.low / 2.0 + self.high / 2.0

    @property
    def _half_width(self) -> float:
        return self.high / 2.0 - self.low / 2.0

    def encode(self, y: NDArray[Any]) -> FloatArray:
        """Return y in [-1, 1], of shape (n_records,)."""
        # clipped first, so that no target overflows, and last, as rounding may leave [-1, 1]
        clipped = np.clip(numeric_targets(y), self.low, self.high)
        return np.clip((clipped - self._center) / self._half_width, -1.0, 1.0)

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, Any]:
        """Return ``coef_`` and ``intercept_`` in units of y, from weights for mapped targets."""
        return self._half_width * coef[0], float(self._center + self._half_width * intercept[0])

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        """Return weights for mapped targets from ``coef_`` and ``intercept_`` in units of y."""
        return coef / self._half_width, (intercept - self._center) / self._half_width

    def check_later_classes(self, classes: ArrayLike | None) -> None:
        """Refuse classes, as a regressor has none."""
        refuse_classes(classes)


Targets = ClassTargets | BoundedTargets


def find_classes(y: NDArray[Any] | None, stated_classes: ArrayLike | None) -> NDArray[Any]:
    """Return the classes, sorted: the stated ones, or else those in y; at least two."""
    from_y = stated_classes is None
    if from_y and y is None:
        raise InputError("classes must be given or set where y is not there to find them in.")
    values = np.ravel(np.asarray(as_pandas(y if from_y else stated_classes)))
    try:
        classes = np.unique(values)
    except TypeError:
        got = "a mixture in y" if from_y else repr(stated_classes)
        raise InputError(f"classes must be all numbers or all strings, got {got}.") from None
    if from_y:
        check_classification_targets(y)
        check_found(classes, len(values), "classes")
    # classes that look alike, such as 1 and "1", or one that is stated twice
    if lookalikes := same_text((classes if from_y else values).tolist()):
        needed = (
            "y must hold classes that differ" if from_y else "classes must name each class once"
        )
        raise InputError(f"{needed}, got {lookalikes}.")
    if len(classes) < 2:
        raise InputError(
            f"classes must be at least two, found in y or given, got one class: "
            f"{classes.tolist()!r}."
        )
    return classes


def numeric_targets(y: NDArray[Any]) -> FloatArray:
    """Return targets as floats, of which infinite ones pass; refuse NaN."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(y.astype(np.float64))
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        raise InputError(f"y must hold finite numbers, got NaN in row {row}.")
    return numbers


def refuse_classes(classes: ArrayLike | None) -> None:
    """Refuse `classes` other than None, as a regressor has none."""
    if classes is not None:
        raise InputError(f"classes must be None for a regressor, got {classes!r}.")


# The weights that a fit begins with (`start`), from the units of X and y to those of a solver.


def encode_start(start: Any, targets: Targets, n_features: int, estimator: Any) -> Solution | None:
    """Return the weights of `start` in a solver's units, before projection; None without one."""
    if start is None:
        return None
    coef, intercept = _coef_and_intercept(start)
    _check_same_task(start, targets.classes, getattr(estimator, "feature_names_in_", None))
    n_outputs = targets.loss.n_outputs
    shape = (n_outputs, n_features)
    matrix, intercepts = np.atleast_2d(coef), np.ravel(intercept)
    if matrix.shape != shape or intercepts.size not in {1, n_outputs}:
        raise InputError(
            f"start must have a coef of shape {shape} and one intercept or {n_outputs}, got "
            f"shapes {coef.shape} and {intercept.shape}."
        )
    matrix, intercepts = targets.encode_weights(matrix, np.broadcast_to(intercepts, n_outputs))
    with np.errstate(all="ignore"):  # an overflow is refused below
        matrix = matrix * estimator._row_norm  # solvers see rows divided by their norm bound
        if estimator.fit_intercept:
            # the weight of the constant column, whose value is _intercept_scaling
            matrix = np.column_stack([matrix, intercepts / estimator._intercept_scaling])
        elif not np.all(np.abs(intercepts) <= 1e-9):  # 0 up to rounding
            raise InputError(
                "start must have the intercept of a model that predicts nothing with "
                f"fit_intercept=False, got {np.ravel(intercept).tolist()!r}."
            )
        if not np.isfinite(np.linalg.norm(matrix)):
            raise InputError("start must be finite in the units of the fit, got infinite or NaN.")
    return Solution(weights=matrix.ravel(), group_weights=None, n_iter=0)


def _coef_and_intercept(start: Any) -> tuple[FloatArray, FloatArray]:
    """Return coef and intercept of `start`, an estimator or a pair, as dense float arrays."""
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
    """Refuse a `start` whose classes or column names differ from those of the fit.

    `names` are the columns of the fit. A pair, or a model without names, is not compared.
    """
    start_classes = getattr(start, "classes_", None)
    keys = None if classes is None else [*map(label_key, classes)]
    if start_classes is not None and keys != [*map(label_key, start_classes)]:
        needed = "no classes" if classes is None else f"the classes {classes.tolist()!r}, in order"
        raise InputError(f"start must know {needed}, got {np.asarray(start_classes).tolist()!r}.")
    start_names = getattr(start, "feature_names_in_", None)
    if names is not None and start_names is not None and list(names) != list(start_names):
        raise InputError(
            f"start must be fitted to columns of the names {list(names)!r}, got "
            f"{list(start_names)!r}."
        )
