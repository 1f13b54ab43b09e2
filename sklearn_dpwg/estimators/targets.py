"""Targets as a loss expects them, and weights in the units of y."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.estimators.encode import check_found_classes
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.solvers import Solution


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
        index = pd.Index(self.classes).get_indexer(y)
        if (index < 0).any():
            # which one is not said, as y is private
            raise InputError(
                f"y must hold no class outside classes={self.stated!r}, got at least one."
            )
        return np.asarray(2.0 * index - 1.0 if self.loss.n_outputs == 1 else index.astype(float))

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        return coef, intercept

    def encode_weights(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, ...]:
        return coef, intercept

    def check_later(self, classes: ArrayLike | None) -> None:
        if classes is not None and not np.array_equal(np.unique(classes), self.classes):
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
        raise InputError("y must hold a class for every record, got NaN or None.")
    if given is None and y is None:
        raise InputError("classes must be given or set where y is not there to find them in.")
    is_found = given is None
    if is_found:
        given = _few_values(np.asarray(y))
        check_classification_targets(given)
    # targets that were looked at to find the classes are not shown
    got = "a mixture in y" if is_found else repr(given)
    try:
        known = np.unique(np.asarray(given))
    except TypeError:
        raise InputError(f"classes must be all numbers or all strings, got {got}.") from None
    if is_found:
        check_found_classes(known, len(np.asarray(y)))
    elif len(known) < np.asarray(given).size:
        stated = np.ravel(np.asarray(given)).tolist()
        twice = next(each for each in stated if stated.count(each) > 1)
        raise InputError(f"classes must name each class once, got {twice!r} twice.")
    if len(known) < 2:
        shown = "" if is_found else f": {known.tolist()!r}"
        raise InputError(
            f"classes must be at least two, found in y or given, got one class{shown}."
        )
    return known


def _few_values(y: NDArray[Any]) -> NDArray[Any]:
    """Return each value twice where these are whole numbers that repeat, which are quick to find.

    What scikit-learn says of targets follows from their values, and from whether most are alone.
    """
    if y.ndim != 1 or y.dtype.kind not in "biu" or not y.dtype.isnative:
        return y
    values = pd.unique(y)
    return np.repeat(values, 2) if 2 * len(values) <= len(y) else y


def numeric_targets(y: NDArray[Any]) -> FloatArray:
    """Return targets as numbers, or refuse them without showing one."""
    try:
        with np.errstate(over="ignore"):
            numbers = np.asarray(y.astype(np.float64))
    except (TypeError, ValueError):
        # NumPy's own message shows the value
        raise InputError("y must hold finite numbers, got something else.") from None
    if np.isnan(numbers).any():
        raise InputError("y must hold finite numbers, got NaN.")
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
    """Return the weights that a run begins with, for rows divided by their largest norm.

    They may lie outside the ball: a run projects them to it.
    """
    coef, intercept = _coef_and_intercept(start)
    classes = targets.attributes.get("classes_")
    of_start = getattr(start, "classes_", None)
    if classes is None and of_start is not None:
        raise ValueError(
            f"start must be a regressor where y holds numbers, got {type(start).__name__}, which "
            f"knows the classes {np.asarray(of_start).tolist()!r}."
        )
    if classes is not None and of_start is not None and not np.array_equal(classes, of_start):
        raise ValueError(
            f"start must know the classes {np.asarray(classes).tolist()!r}, in this order, got "
            f"{np.asarray(of_start).tolist()!r}."
        )
    known = getattr(start, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(
            f"start must be fitted to columns of the names {list(names)!r}, got {list(known)!r}."
        )
    n_outputs = targets.loss.n_outputs
    wanted = (n_outputs, n_features)
    matrix, constants = np.atleast_2d(coef), np.ravel(intercept)
    if matrix.shape != wanted or constants.size not in {1, n_outputs}:
        raise ValueError(
            f"start must have a coef of shape {wanted} and one intercept or {n_outputs}, got "
            f"shapes {coef.shape} and {intercept.shape}."
        )
    matrix, constants = targets.encode_weights(matrix, np.broadcast_to(constants, n_outputs))
    with np.errstate(all="ignore"):
        matrix = matrix * row_norm
        if intercept_scaling > 0.0:
            matrix = np.column_stack([matrix, constants / intercept_scaling])
        elif np.any(np.abs(constants) > 1e-9):
            raise ValueError(
                "start must have the intercept of a model that predicts nothing with "
                f"fit_intercept=False, got {np.ravel(intercept).tolist()!r}."
            )
        is_usable = np.isfinite(np.linalg.norm(matrix))
    if not is_usable:
        raise ValueError("start must be finite in the units of the fit, got infinite or NaN.")
    return Solution(matrix.ravel(), None, 0)


def _coef_and_intercept(start: Any) -> tuple[FloatArray, FloatArray]:
    """Return both as arrays of finite numbers, or refuse what has none."""
    if hasattr(start, "coef_") and not isinstance(start, type):
        given = start.coef_, getattr(start, "intercept_", 0.0)
    elif isinstance(start, BaseEstimator):
        raise ValueError(
            f"start must be {_START}, got {type(start).__name__}, which is not fitted or is not "
            "linear: a search clones the values of its grid, which forgets a fit, so pass "
            "FrozenEstimator(model) there."
        )
    elif isinstance(start, tuple | list) and len(start) == 2:
        given = start[0], start[1]
    else:
        raise ValueError(f"start must be {_START}, got {type(start).__name__}.")
    found = []
    for each in given:
        try:
            plain = each.toarray() if hasattr(each, "toarray") else each
            array = np.asarray(plain, dtype=float)
        except (TypeError, ValueError):
            array = np.array(np.nan)
        if not np.isfinite(array).all():
            raise ValueError(f"start must hold finite numbers, got {each!r}.")
        found.append(array)
    return found[0], found[1]
