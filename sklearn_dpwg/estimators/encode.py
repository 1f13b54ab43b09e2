"""Wrong tables, targets and groups, refused in one sentence each before anything is spent."""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from sklearn_dpwg._checks import FloatArray, real_number
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

_TEXT = (str, bytes)
# A timestamp of pandas is a date, a period is not.
_TIMES = (
    datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period,
)  # fmt: skip


def check_columns(X: Any) -> None:
    """Refuse rows with columns that are no numbers, or that share a name."""
    if issparse(X):
        return
    if hasattr(X, "columns"):
        names = list(X.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"X must have a name of its own for each column, got {twice!r} twice.")
        columns: Iterable[tuple[Any, Any]] = _columns_of_frame(X)
    else:
        columns = _columns_of_array(X)
    for name, column in columns:
        kind = _kind(np.asarray(column))
        if kind is not None:
            # the first words are those that scikit-learn's checks ask for
            start = "Complex data not supported: " if kind == "complex numbers" else ""
            raise InputError(
                f"{start}X must hold numbers, got {kind} in column {name!r}: {ADVICE[kind]}."
            )


def _columns_of_frame(X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the columns whose type does not say that they are real numbers."""
    for index, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if getattr(dtype, "kind", "O") not in "biuf":
            yield name, X.iloc[:, index]


def _columns_of_array(X: Any) -> Iterator[tuple[int, NDArray[Any]]]:
    try:
        rows = np.asarray(X)
        if not hasattr(X, "dtype") and rows.dtype.kind in "USMm":
            rows = np.asarray(X, dtype=object)  # a list of which one string made strings of all
    except ValueError:
        return  # rows of different lengths, which scikit-learn refuses
    if rows.ndim == 2 and rows.dtype.kind not in "biuf":
        yield from enumerate(rows.T)


def _kind(values: NDArray[Any]) -> str | None:
    """Say what values are that are no real numbers, as far as their types tell."""
    if values.dtype.kind in "OUSMmc":
        types = (
            {values.dtype.type}
            if values.dtype.kind != "O"
            else {type(value) for value in values.ravel()}
        )
        for kind, wrong in (("strings", _TEXT), ("dates or times", _TIMES)):
            if any(issubclass(each, wrong) for each in types):
                return kind
        if any(issubclass(each, complex | np.complexfloating) for each in types):
            return "complex numbers"
    return None


@contextmanager
def advice_on_missing_values(X: Any) -> Iterator[None]:
    """Name the column and the row where scikit-learn finds NaN or infinity in X."""
    try:
        yield
    except (TypeError, ValueError) as error:
        is_of_rows = str(error).startswith("Input X contains") or "'NAType'" in str(error)
        place = _first_not_finite(X) if is_of_rows and not issparse(X) else None
        if place is None:
            raise
        what, row, column = place
        name = list(X.columns)[column] if hasattr(X, "columns") else column
        advice = (
            ": PublicSchema takes a fill that is said beforehand, while an imputer would learn "
            "from the records what no guarantee covers"
        )
        raise InputError(
            f"Input X contains {what} in column {name!r}, row {row}"
            f"{advice if what == 'NaN' else ''}."
        ) from None


def _first_not_finite(X: Any) -> tuple[str, int, int] | None:
    """Return what is first missing or infinite in rows, its row and its column."""
    values = np.asarray(X, dtype=object)
    is_missing = pd.isna(values)
    if values.ndim != 2:
        return None
    if is_missing.any():
        row, column = np.argwhere(is_missing)[0].tolist()
        return "NaN", row, column
    numbers = values.astype(np.float64)
    if not np.isinf(numbers).any():
        return None
    row, column = np.argwhere(np.isinf(numbers))[0].tolist()
    return "infinity", row, column


def check_targets(y: Any, *, is_classifier: bool) -> Any:
    """Return targets, decimals as floats, or refuse those of the wrong kind."""
    values = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if values.dtype == object and pd.api.types.infer_dtype(values.ravel()) == "decimal":
        return values.astype(np.float64)
    kind = _kind(values)
    if not is_classifier:
        if kind is None:
            return y
        advice = (
            "for classes use DPWorstGroupClassifier"
            if kind == "strings"
            else "make numbers of them, with target_bounds in the same unit"
        )
        start = "Complex data not supported: " if kind == "complex numbers" else ""
        raise InputError(f"{start}y must hold numbers for a regressor, got {kind}: {advice}.")
    if kind == "strings" and values.dtype.kind == "O":
        present = values[~pd.isna(values)]
        if not all(isinstance(value, _TEXT) for value in present):
            raise InputError(
                "y must hold classes of one kind, all numbers or all strings, got some of both."
            )
    return y


def check_found_classes(classes: NDArray[Any], n_records: int) -> None:
    """Refuse classes found in y that can be none; classes and the number of records are public."""
    if len(classes) > max(_FEW, n_records / 2):
        raise InputError(
            f"y must hold classes, got {len(classes):,} different ones in {n_records:,} records, "
            f"as in a column of identifiers: pass the target, or state classes=[...]."
        )
    if twice := same_text(classes.tolist()):
        raise InputError(f"y must hold classes that differ, got {twice}: state classes=[...].")


def check_found_groups(labels: NDArray[np.object_], n_records: int) -> None:
    """Refuse groups that were not stated and can be none; labels and numbers are public."""
    n_labels = len(labels)
    advice = "pass what tells groups of records apart, or state group_labels=[...]"
    if n_labels > _FEW and any(
        isinstance(label, float | np.floating) and label % 1.0 != 0.0 for label in labels
    ):
        raise InputError(
            f"groups must be labels, got {n_labels:,} different numbers with fractions, as in a "
            f"measured column: cut it into public ranges, or state group_labels=[...]."
        )
    if n_labels > max(_FEW, n_records / 2):
        raise InputError(
            f"groups must be labels that records share, got {n_labels:,} different ones in "
            f"{n_records:,} records, as in a column of identifiers: {advice}."
        )


def warn_if_target_is_group(y: Any, groups: Any, group_by: Any) -> None:
    """Warn if the target is among the groups, which are public.

    Told from what was passed, an object or a name, never from values: that targets agree with
    groups in every record is a fact about each of them, and labels may be the same words by chance.
    """
    name = getattr(y, "name", None)
    named = names_of_columns(groups, group_by)
    is_named = isinstance(name, str) and name != ""  # as series of polars without a name have
    same_name = is_named and any(isinstance(one, str) and one == name for one in named)
    if same_name or (groups is not None and _same_object(y, groups)):
        warn(
            "groups hold the target y: the groups are public, so the guarantee protects no "
            "record's target. Leave it out of groups, or rename it if it is something else.",
            GroupsWarning,
        )


def _same_object(y: Any, groups: Any) -> bool:
    if y is groups:
        return True
    if not (hasattr(y, "__array__") and hasattr(groups, "__array__")):
        return False
    values = np.asarray(y)
    table = np.asarray(groups)
    columns = [table] if table.ndim < 2 else list(table.T)
    # columns of one table lie between each other, which bounds of memory alone do not tell
    return any(column.ndim == 1 and np.shares_memory(values, column) for column in columns)


# Public facts that a plan is made from: counts, and the prior weights of the groups.

NEIGHBOURS = ("replace-one", "replace-one-within-group")

_ALLOWED = (
    "prior must be 'proportional', 'uniform', a number between 0 and 1 (the share of equal "
    "weights in a mixture with the proportional ones) or one positive weight a group"
)


def positive_whole(value: Any, name: str) -> int:
    """Return a positive whole number, or refuse it by name."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def stated_rows(value: Any) -> int | None:
    """Return how many rows a person has at most, None where nobody says it."""
    return None if value is None else positive_whole(value, "rows_per_person")


def group_size(value: Any) -> Any:
    """Return the size of a group: a positive whole number, or infinity where it has no end."""
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return positive_whole(value, "an entry of group_sizes")


def columns_of_sizes(group_sizes: Any, group_by: Any) -> list[Any] | None:
    """Return the names of the columns that sizes of cells are of, where these say them."""
    names = list(getattr(getattr(group_sizes, "index", None), "names", ()))
    if names and None not in names:
        return names
    return list(group_by) if isinstance(group_by, list | tuple) else None


def check_neighbours(neighbours: Any) -> None:
    """Refuse what neighbours a fit cannot be private for."""
    if not isinstance(neighbours, str) or neighbours not in NEIGHBOURS:
        raise InputError(
            f"neighbours must be one of {', '.join(map(repr, NEIGHBOURS))}, got {neighbours!r}."
        )


def check_correction(correction: Any) -> None:
    """Refuse what optimism cannot be multiplied by."""
    if not 0.0 <= real_number(correction, "optimism_correction") < math.inf:
        raise InputError(f"optimism_correction must be at least 0 and finite, got {correction!r}.")


def check_overlap(overlap: Any, *, hides_groups: bool) -> None:
    """Refuse what does not say whether groups overlap, or cannot be private."""
    check_kind_of_overlap(overlap)
    if overlap != "cells" and hides_groups:
        raise InputError(
            f"overlap must be 'cells' with neighbours='replace-one', as nothing is proved for a "
            f"record that leaves several groups for others, got {overlap!r}: it is for "
            f"neighbours='replace-one-within-group'."
        )


def resolve_prior(prior: Any, group_sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the positive weights, summing to 1, that the parameter `prior` stands for."""
    n_groups = len(group_sizes)
    proportional = _proportional(np.asarray(group_sizes, dtype=float), prior)
    share = {"proportional": 0.0, "uniform": 1.0}.get(prior) if isinstance(prior, str) else prior
    try:
        found = np.asarray(share, dtype=float)  # None and NaN fail the comparisons below
    except (TypeError, ValueError):
        raise InputError(f"{_ALLOWED}, got {prior!r}.") from None
    if found.ndim == 0 and 0.0 <= found <= 1.0:
        found = found / n_groups + (1.0 - found) * proportional
    elif (
        found.shape == (n_groups,)
        and ((found > 0) & (found < 1)).all()
        and abs(found.sum() - 1) > 1e-6
    ):
        raise InputError(
            f"prior must sum to 1 where its weights are shares below 1, got {prior!r}, which sums "
            f"to {found.sum():.6g}."
        )
    elif found.shape == (n_groups,) and (found > 0).all() and np.isfinite(found).all():
        found = found / found.sum()
    else:
        raise InputError(f"{_ALLOWED}, {n_groups} here, got {prior!r}.")
    return tuple(found.tolist())


def _proportional(sizes: np.ndarray, prior: Any) -> np.ndarray:
    """Return the shares of the groups; groups without end have equal ones."""
    endless = np.isinf(sizes)
    if endless.any():
        if not endless.all() and (np.ndim(prior) == 0 and prior not in ("uniform", 1, 1.0)):
            raise InputError(
                f"prior must be 'uniform' or one positive weight a group where some groups have "
                f"an end and others have none, got {prior!r}."
            )
        sizes = endless.astype(float)
    return np.asarray(sizes / sizes.sum())


# Targets as a loss expects them, and weights in the units of y.


class Targets(ABC):
    """What is known of y before its records are encoded; public facts alone."""

    loss: Loss

    @property
    @abstractmethod
    def attributes(self) -> Mapping[str, Any]:
        """Fitted attributes that an estimator has of its targets, by name."""

    @abstractmethod
    def encode(self, y: NDArray[Any]) -> FloatArray:
        """Return targets for the loss, or refuse some with ValueError."""

    @abstractmethod
    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, Any]:
        """Return ``coef_`` and ``intercept_`` in the units of y, of what the loss learned."""

    @abstractmethod
    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        """Return what the loss would have learned, of ``coef_`` and ``intercept_``."""

    @abstractmethod
    def check_later(self, classes: ArrayLike | None) -> None:
        """Refuse classes that a later call of ``partial_fit`` names and the first did not."""


@dataclass(frozen=True, eq=False)
class ClassTargets(Targets):
    """Classes, encoded as -1 and 1 where there are two, else as 0, 1, ...; `stated` as given."""

    classes: NDArray[Any]
    loss: Loss
    stated: Any

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {"classes_": self.classes}

    def encode(self, y: NDArray[Any]) -> FloatArray:
        index = places(y, self.classes)
        if (index < 0).any():
            row = int(np.argmax(index < 0))
            raise InputError(
                f"y must hold no class outside classes={self.stated!r}, got "
                f"{y[row : row + 1].tolist()[0]!r} in row {row}."
            )
        return np.asarray(2.0 * index - 1.0 if self.loss.n_outputs == 1 else index.astype(float))

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        return coef, intercept

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        return coef, intercept

    def check_later(self, classes: ArrayLike | None) -> None:
        keys = None if classes is None else {*map(label_key, plain_list(classes))}
        if keys not in (None, {*map(label_key, self.classes)}):
            raise InputError(
                f"classes must be those of the first call, {self.classes.tolist()!r}, got "
                f"{classes!r}."
            )


@dataclass(frozen=True, eq=False)
class BoundedTargets(Targets):
    """Numbers between public bounds, mapped to [-1, 1]."""

    low: float
    high: float
    loss: Loss

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {}

    @property
    def _center(self) -> float:
        return self.low / 2.0 + self.high / 2.0

    @property
    def _half_width(self) -> float:
        return self.high / 2.0 - self.low / 2.0

    def encode(self, y: NDArray[Any]) -> FloatArray:
        # clipped before it is mapped, so that no target overflows
        inside = np.clip(numeric_targets(y), self.low, self.high)
        return np.clip((inside - self._center) / self._half_width, -1.0, 1.0)

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, float]:
        return self._half_width * coef[0], float(self._center + self._half_width * intercept[0])

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        return coef / self._half_width, (intercept - self._center) / self._half_width

    def check_later(self, classes: ArrayLike | None) -> None:
        refuse_classes(classes)


def find_classes(y: NDArray[Any] | None, given: ArrayLike | None) -> NDArray[Any]:
    """Return the classes, sorted, that are given or else found in y; refuse what can be none."""
    if y is not None and pd.isna(y).any():
        row = int(np.argmax(pd.isna(y)))
        raise InputError(f"y must hold a class for every record, got NaN or None in row {row}.")
    if given is None and y is None:
        raise InputError("classes must be given or set where y is not there to find them in.")
    is_found = given is None
    if is_found:
        given = np.asarray(y)
        check_classification_targets(given)
    listed = np.ravel(np.asarray(as_pandas(given)))
    try:
        known = np.unique(listed)
    except TypeError:
        got = "a mixture in y" if is_found else repr(given)
        raise InputError(f"classes must be all numbers or all strings, got {got}.") from None
    if is_found:
        check_found_classes(known, len(np.asarray(y)))
    elif twice := same_text(listed.tolist()):
        raise InputError(f"classes must name each class once, got {twice}.")
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

# What a message calls a start that is none.
_START = (
    "a fitted linear model with coef_ and intercept_, or a pair (coef, intercept) in the units of "
    "X and y"
)


def first_weights(
    start: Any,
    targets: Targets,
    n_features: int,
    *,
    row_norm: float,
    intercept_scaling: float,
    names: Any = None,
) -> Solution:
    """Return where a run begins, for rows divided by their largest norm; perhaps off the ball."""
    coef, intercept = _coef_and_intercept(start)
    classes = targets.attributes.get("classes_")
    of_start = getattr(start, "classes_", None)
    if classes is None and of_start is not None:
        raise InputError(
            f"start must be a regressor where y holds numbers, got {type(start).__name__}, which "
            f"knows the classes {np.asarray(of_start).tolist()!r}."
        )
    keys = [None if each is None else [*map(label_key, each)] for each in (classes, of_start)]
    if None not in keys and keys[0] != keys[1]:
        raise InputError(
            f"start must know the classes {np.asarray(classes).tolist()!r}, in this order, got "
            f"{np.asarray(of_start).tolist()!r}."
        )
    known = getattr(start, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise InputError(
            f"start must be fitted to columns of the names {list(names)!r}, got {list(known)!r}."
        )
    n_outputs = targets.loss.n_outputs
    wanted = (n_outputs, n_features)
    matrix, constants = np.atleast_2d(coef), np.ravel(intercept)
    if matrix.shape != wanted or constants.size not in {1, n_outputs}:
        raise InputError(
            f"start must have a coef of shape {wanted} and one intercept or {n_outputs}, got "
            f"shapes {coef.shape} and {intercept.shape}."
        )
    matrix, constants = targets.encode_weights(matrix, np.broadcast_to(constants, n_outputs))
    with np.errstate(all="ignore"):
        matrix = matrix * row_norm
        if intercept_scaling > 0.0:
            matrix = np.column_stack([matrix, constants / intercept_scaling])
        elif np.any(np.abs(constants) > 1e-9):
            raise InputError(
                "start must have the intercept of a model that predicts nothing with "
                f"fit_intercept=False, got {np.ravel(intercept).tolist()!r}."
            )
        is_usable = np.isfinite(np.linalg.norm(matrix))
    if not is_usable:
        raise InputError("start must be finite in the units of the fit, got infinite or NaN.")
    return Solution(matrix.ravel(), None, 0)


def _coef_and_intercept(start: Any) -> tuple[FloatArray, FloatArray]:
    """Return both as arrays of finite numbers, or refuse what has none."""
    if hasattr(start, "coef_") and not isinstance(start, type):
        given = start.coef_, getattr(start, "intercept_", 0.0)
    elif isinstance(start, BaseEstimator):
        raise InputError(
            f"start must be {_START}, got {type(start).__name__}, which is not fitted or is not "
            "linear: a search clones the values of its grid, which forgets a fit, so pass "
            "FrozenEstimator(model) there."
        )
    elif isinstance(start, tuple | list) and len(start) == 2:
        given = start[0], start[1]
    else:
        raise InputError(f"start must be {_START}, got {type(start).__name__}.")
    found = []
    for each in given:
        try:
            plain = each.toarray() if hasattr(each, "toarray") else each
            array = np.asarray(plain, dtype=float)
        except (TypeError, ValueError):
            array = np.array(np.nan)
        if not np.isfinite(array).all():
            raise InputError(f"start must hold finite numbers, got {each!r}.")
        found.append(array)
    return found[0], found[1]
