"""Public maps of a number into pieces, on which a linear model bends, and products of two columns.

A map takes u in [-1, 1] to a block of numbers of norm at most 1, whatever u is, so that rows are no
longer than before and noise is no louder: it is a prior over functions in which lines are as cheap
as they were, and bends at a few public places cost a little more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.preprocessing.columns import (
    Block,
    Boolean,
    Category,
    Column,
    Date,
    Number,
    Ordered,
    check_none_missing,
    feature_name,
    norm_bound,
    scale_to_bounds,
)
from sklearn_dpwg.preprocessing.scalers import Bounds, FreeByBounds

KINDS = ("auto", "ramps", "linear")
# How many pieces "auto" and "ramps" have: `benchmarks/shapes.py` prints what they are worth.
PIECES = 8


@dataclass(frozen=True)
class Ramps:
    """A map of u in [-1, 1] to ramps on equal pieces, of norm at most 1 together.

    Each of K ramps rises by 2/√K on its piece, and does not change elsewhere. So a line in u has
    the same price by itself, which is one ramp, and as a sum of many.
    """

    width: int

    def __call__(self, u: FloatArray) -> FloatArray:
        """Return the block of each number, in rows."""
        if self.width == 1:
            return u[:, None]
        half = self.width / 2
        rise = np.clip(u[:, None] * half + (half - np.arange(self.width)), 0.0, 1.0)
        return np.asarray((2.0 * rise - 1.0) / math.sqrt(self.width))

    def names(self, name: str, at: Callable[[float], str]) -> tuple[str, ...]:
        """Return a name a ramp: the ends of its piece as `at` writes them, or else its place."""
        if self.width == 1:
            return (name,)
        ends = [at(u) for u in np.linspace(-1.0, 1.0, self.width + 1).tolist()]
        return named(name, [f"{first}..{last}" for first, last in pairwise(ends)])


def named(name: str, ends: Sequence[str]) -> tuple[str, ...]:
    """Return a name a part of a column: by where it is, if that tells all apart, or its number."""
    if len(set(ends)) < len(ends):
        ends = [f"{place + 1}/{len(ends)}" for place in range(len(ends))]
    return tuple(f"{name}={end}" for end in ends)


@dataclass(frozen=True)
class Hats:
    """A map of u in [-1, 1]: numbers in [0, 1] that add up to 1, two at most above 0."""

    width: int = 4

    def __call__(self, u: FloatArray) -> FloatArray:
        """Return the hats of each number, in rows."""
        away = np.abs((u[:, None] + 1.0) * ((self.width - 1) / 2.0) - np.arange(self.width))
        return np.asarray(np.clip(1.0 - away, 0.0, 1.0))

    def names(self, name: str, at: Callable[[float], str]) -> tuple[str, ...]:
        """Return a name a hat: where it is 1, as `at` writes that, or else its place."""
        return named(name, [at(u) for u in np.linspace(-1.0, 1.0, self.width).tolist()])


LINE = Ramps(1)


@dataclass(frozen=True)
class Seen:
    """What a picture of a column shows: encoded columns, and rows of them at public values."""

    name: str
    columns: slice
    values: tuple[str, ...]
    rows: FloatArray  # of shape (len(values), width), as encoded; of a number at even steps
    is_number: bool  # whether values follow each other; a missing one, if it may be, is the last
    may_be_missing: bool
    has_order: bool = True
    # of an interaction its columns, all pairs of whose values are its values: `rows` has parts of
    # the first of them, `others` of the second
    of: tuple[str, ...] = ()
    others: FloatArray | None = None

    @property
    def n_known(self) -> int:
        """How many values are not the missing one."""
        return len(self.values) - self.may_be_missing

    def effects(self, weights: FloatArray) -> FloatArray:
        """Return what a model adds at each value, less the mean over known ones."""
        own = weights[self.columns]
        if self.others is None:
            effects = self.rows @ own
        else:
            effects = (self.rows @ own.reshape(self.rows.shape[1], -1) @ self.others.T).ravel()
        return np.asarray(effects - effects[: self.n_known].mean())


def parts_of(model: Any, schema: Any) -> tuple[Any, Any]:
    """Return the estimator and its transformer."""
    inner = getattr(model, "best_estimator_", model)
    if hasattr(inner, "steps"):
        schema = next((s for _, s in inner.steps if hasattr(s, "_shown_columns")), schema)
        inner = inner.steps[-1][1]
    if not hasattr(schema, "_shown_columns"):
        raise InputTypeError(
            f"schema must be the PublicSchema or PublicShapes in front of the model, got "
            f"{type(schema).__name__}."
        )
    if not hasattr(inner, "coef_"):
        raise InputTypeError(f"model must be fitted and have coef_, got {type(inner).__name__}.")
    return inner, schema


# So many points of a number's range are shown: each eighth, and each of its eighths, ends at one.
_POINTS = 65


def seen(
    name: str, columns: slice, shape: Ramps | Hats, at: Callable[[float], str], divisor: float
) -> Seen:
    """Return what is shown of a number that is never missing."""
    u = np.linspace(-1.0, 1.0, _POINTS)
    return Seen(name, columns, tuple(map(at, u.tolist())), shape(u) / divisor, True, False)


def shape_of(kind: Any, parameter: str = "shapes") -> Ramps:
    """Return the map of a name."""
    if kind not in KINDS:
        raise InputError(f"{parameter} must be one of {', '.join(KINDS)}, got {kind!r}.")
    return LINE if kind == "linear" else Ramps(PIECES)


@dataclass(frozen=True)
class Shaped:
    """A column of numbers in [-1, 1] as blocks, and an indicator where values may be missing."""

    column: Number | Date | Ordered | Boolean
    shape: Ramps | Hats

    @property
    def _width(self) -> int:
        return self.shape.width + self.column.missing

    @property
    def _n_stored(self) -> int:
        return self._width

    def _names(self, name: str) -> tuple[str, ...]:
        last = (f"{name}=missing",) if self.column.missing else ()
        return (*self.shape.names(name, getattr(self.column, "_at", str)), *last)

    def _encode(self, values: pd.Series, name: str) -> Block:
        return self._filled(self.column._scaled(values, name), name)

    def _filled(self, scaled: FloatArray, name: str) -> Block:
        """Return the blocks of numbers; of a missing one the fill's, and an indicator."""
        absent, block = np.isnan(scaled), self.shape(scaled)
        if self.column.missing:
            filled = self.shape(np.array([self.column._scaled_fill()]))[0]
            filled = np.nan_to_num(filled, nan=0.0)
            block = np.column_stack([block, np.zeros(len(block))])
            block[absent] = np.append(filled, math.sqrt(max(0.0, 1.0 - float(filled @ filled))))
        else:
            check_none_missing(absent, name)
        return np.tile(np.arange(block.shape[1], dtype=np.intp), (len(block), 1)), block


def shaped(column: Column, kind: str) -> Shaped | Category:
    """Return a column as what is encoded: numbers and dates bend, but for those that do not."""
    if isinstance(column, Category):
        return column
    if isinstance(column, Ordered | Boolean):
        return Shaped(column, LINE)
    return Shaped(
        column, shape_of(kind) if column.shape is None else shape_of(column.shape, "shape")
    )


# What columns by themselves keep of a row's squared norm beside pairs.
OWN_FRACTION = 0.7


class Product:
    """Two columns as parts in [0, 1] that add up to 1, and the products of these, a block.

    Squares of parts add up to at most 1, so those of all products of two columns' parts do.
    """

    def __init__(self, keys: Sequence[Any], parts: tuple[Any, Any]) -> None:
        self.keys, self.parts = tuple(keys), parts
        self.of = feature_name(keys[0]), feature_name(keys[1])
        one, other = (part._names(name) for part, name in zip(parts, self.of, strict=True))
        self.name, self.names = "×".join(self.of), [f"{a}×{b}" for a in one for b in other]
        self.width = len(self.names)
        self.n_stored = parts[0]._n_stored * parts[1]._n_stored

    def encode(self, frame: pd.DataFrame) -> Block:
        """Return the products of parts."""
        whose = zip(self.parts, self.keys, self.of, strict=True)
        a, b = (part._encode(frame[key], name) for part, key, name in whose)
        places = a[0][:, :, None] * self.parts[1]._width + b[0][:, None, :]
        values = a[1][:, :, None] * b[1][:, None, :]
        return places.reshape(len(places), -1), values.reshape(len(values), -1)


def _parts(columns: Mapping[Any, Column], name: Any) -> Any:
    column = columns.get(name) if isinstance(name, Hashable) else None
    if isinstance(column, Number | Date):
        return Shaped(replace(column, fill=None), Hats())
    if isinstance(column, Boolean | Ordered):
        return Category(column._all_levels(), other=False, missing=column.missing)
    if not isinstance(column, Category):
        raise InputError(f"interactions must be of columns of the schema, got {name!r}.")
    return column


def products(columns: Mapping[Any, Column], interactions: Any) -> tuple[Product, ...]:
    """Return the blocks of named pairs of columns."""
    by_pair: dict[frozenset[Any], Product] = {}
    for pair in interactions if isinstance(interactions, list | tuple) else [interactions]:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"interactions must be pairs of names of columns, got {pair!r}.")
        one, other = (_parts(columns, name) for name in pair)
        if frozenset(pair) in by_pair or pair[0] == pair[1]:
            raise InputError(f"interactions must be of two columns, each pair once, got {pair!r}.")
        by_pair[frozenset(pair)] = Product(pair, (one, other))
    return tuple(by_pair.values())


class PublicShapes(FreeByBounds):
    """Let a linear model bend in each number, by pieces between public bounds.

    Each column with bounds becomes ramps on eighths of its range, scaled so that they are together
    no longer than the one number was. Nothing is learned from the records, so it costs no privacy,
    and rows have norm at most 1.

    Parameters
    ----------
    bounds : (low, high), sequence of such pairs, or mapping from column name to pair
        What is known of each column without looking at the records, as of `BoundedScaler`. A
        mapping may leave columns out, which pass through.
    resolution : int, default=8
        Number of pieces; 1 is a line.
    rest_norm : float, optional
        Bound on the norm of what passes through of a row, which is shortened to it: of one-hot
        columns the root of the number of categories' columns before they were encoded. By default
        the root of the number of columns that pass through.

    Attributes
    ----------
    data_norm_ : float
        Largest norm of a transformed row: 1.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names.

    See Also
    --------
    PublicSchema : The same for raw tables, with categories, dates and missing values.

    Notes
    -----
    The block of each of m columns has norm at most 1, so rows are divided by the root of m and of
    the square of `rest_norm` (``docs/theory/encoded_rows.md``).

    Examples
    --------
    >>> from sklearn_dpwg.preprocessing import PublicShapes
    >>> shapes = PublicShapes(bounds=[(0, 100)], resolution=2).fit([[25.0], [130.0]])
    >>> list(shapes.get_feature_names_out())
    ['x0=0..50', 'x0=50..100']
    >>> shapes.transform([[25.0], [130.0]]).round(2)
    array([[ 0.  , -0.71],
           [ 0.71,  0.71]])
    """

    def __init__(
        self,
        bounds: Bounds = (-1.0, 1.0),
        *,
        resolution: int = PIECES,
        rest_norm: float | None = None,
    ) -> None:
        self.bounds = bounds
        self.resolution = resolution
        self.rest_norm = rest_norm

    def _check(self, X: Any) -> None:
        self._shape = Ramps(whole_number(self.resolution, "resolution", least=1))
        rows, self._low, self._high = self._bounded(X, of_all=False)
        self._bent = np.ones(rows.shape[1], dtype=bool)
        if isinstance(self.bounds, Mapping):
            self._bent[:] = [name in self.bounds for name in self.feature_names_in_]
        n_rest = int((~self._bent).sum())
        self._rest_norm = math.sqrt(n_rest)
        if n_rest and self.rest_norm is not None:
            self._rest_norm = positive_finite(self.rest_norm, "rest_norm")
        self._divisor = norm_bound(rows.shape[1] - n_rest + self._rest_norm**2)
        self.data_norm_ = 1.0

    def _scaled(self, X: FloatArray) -> FloatArray:
        low, high = self._low[self._bent], self._high[self._bent]
        unit, rest = scale_to_bounds(X[:, self._bent], low, high), X[:, ~self._bent]
        if rest.size:
            largest = np.abs(rest).max(axis=1, initial=self._rest_norm, keepdims=True)
            norms = largest * np.linalg.norm(rest / largest, axis=1, keepdims=True)
            rest = rest / np.maximum(norms / self._rest_norm, 1.0)
        rows = np.concatenate([*map(self._shape, unit.T), rest], axis=1)
        return np.asarray(np.divide(rows, self._divisor, out=rows))

    def _ends(self) -> list[Callable[[float], str]]:
        """Return what writes where a number lies between the bounds of each column."""
        return [Number(low, high)._at for low, high in zip(self._low, self._high, strict=True)]

    def _shown_columns(self) -> list[Seen]:
        """Return what is shown of each column, of those that pass through a line."""
        check_is_fitted(self)
        names, ends = OneToOneFeatureMixin.get_feature_names_out(self), self._ends()
        columns, first = [], 0
        for place in (*np.flatnonzero(self._bent), *np.flatnonzero(~self._bent)):
            shape, at = (self._shape, ends[place]) if self._bent[place] else (LINE, "{:.6g}".format)
            where = slice(first, first + shape.width)
            columns.append(seen(str(names[place]), where, shape, at, self._divisor))
            first += shape.width
        return columns

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the pieces.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X; by default those of the fit, or x0, x1, ….

        Returns
        -------
        ndarray of shape (n_features_out,)
            Names such as "age" and "age=25..50".
        """
        check_is_fitted(self)
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        bent = zip(names[self._bent], np.array(self._ends())[self._bent], strict=True)
        pieces = [piece for name, at in bent for piece in self._shape.names(str(name), at)]
        return np.array([*pieces, *map(str, names[~self._bent])], dtype=object)
