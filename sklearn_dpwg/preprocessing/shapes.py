"""Piecewise linear encodings of numbers, with which a linear model bends, and products of columns.

An encoding maps u in [-1, 1] to a block of numbers of norm at most 1. So rows are no longer than
with u itself and the noise is no larger; a straight line needs weights of the same norm as before,
and bends at a few public points need a little more.
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
# Number of pieces of "auto" and "ramps": `benchmarks/shapes.py` compares others.
PIECES = 8


@dataclass(frozen=True)
class Ramps:
    """Encode u in [-1, 1] by K = `width` ramps, one for each of K equal pieces; norm at most 1.

    A ramp rises from -1/√K to 1/√K on its piece and is constant elsewhere. So a straight line needs
    weights of the same norm for every K.
    """

    width: int

    def __call__(self, u: FloatArray) -> FloatArray:
        """Return the ramps of each number, (n_records, width)."""
        if self.width == 1:
            return u[:, None]
        half = self.width / 2
        rise = np.clip(u[:, None] * half + (half - np.arange(self.width)), 0.0, 1.0)
        return np.asarray((2.0 * rise - 1.0) / math.sqrt(self.width))

    def names(self, name: str, at: Callable[[float], str]) -> tuple[str, ...]:
        """Return a name for each ramp: "name=low..high", where `at` writes a value u as text."""
        if self.width == 1:
            return (name,)
        ends = [at(u) for u in np.linspace(-1.0, 1.0, self.width + 1).tolist()]
        return part_names(name, [f"{low}..{high}" for low, high in pairwise(ends)])


def part_names(name: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return "name=label" for each part of a column, or "name=1/8" if labels are not distinct."""
    if len(set(labels)) < len(labels):
        labels = [f"{index + 1}/{len(labels)}" for index in range(len(labels))]
    return tuple(f"{name}={label}" for label in labels)


@dataclass(frozen=True)
class Hats:
    """Encode u in [-1, 1] by hat functions: in [0, 1], of sum 1, at most two above 0."""

    width: int = 4

    def __call__(self, u: FloatArray) -> FloatArray:
        """Return the hats of each number, (n_records, width)."""
        distance = np.abs((u[:, None] + 1.0) * ((self.width - 1) / 2.0) - np.arange(self.width))
        return np.asarray(np.clip(1.0 - distance, 0.0, 1.0))

    def names(self, name: str, at: Callable[[float], str]) -> tuple[str, ...]:
        """Return a name for each hat: its peak, which `at` writes as text."""
        return part_names(name, [at(u) for u in np.linspace(-1.0, 1.0, self.width).tolist()])


LINE = Ramps(1)
# Points of a number's range that are shown: the ends of 64 equal steps, eight on each of 8 pieces.
_POINTS = 65


@dataclass(frozen=True)
class ShownColumn:
    """Public values of a column and their encoding, from which its effects in a model follow."""

    name: str
    columns: slice  # its encoded columns
    values: tuple[str, ...]  # of a number at even steps; "missing", if it may be, is the last
    rows: FloatArray  # encoded values, (len(values), width)
    is_number: bool = False
    may_be_missing: bool = False
    has_order: bool = True
    # an interaction has the names of its two columns here, and as values all pairs of their values;
    # `rows` has the encoded values of the first column and `others` those of the second
    of: tuple[str, ...] = ()
    others: FloatArray | None = None

    @classmethod
    def of_number(
        cls, name: str, columns: slice, shape: Ramps | Hats, at: Callable[[float], str], norm: float
    ) -> ShownColumn:
        """Return a number at even steps of u, which `at` writes as text; rows are over `norm`."""
        u = np.linspace(-1.0, 1.0, _POINTS)
        rows, values = shape(u) / norm, tuple(map(at, u.tolist()))
        return cls(name, columns, values, rows, is_number=True)

    @property
    def n_known(self) -> int:
        """Number of values without "missing"."""
        return len(self.values) - self.may_be_missing

    def effects(self, weights: FloatArray) -> FloatArray:
        """Return what weights add to the score at each value, minus the mean over known values."""
        block_weights = weights[self.columns]
        if self.others is None:
            effects = self.rows @ block_weights
        else:
            matrix = block_weights.reshape(self.rows.shape[1], -1)
            effects = (self.rows @ matrix @ self.others.T).ravel()
        return np.asarray(effects - effects[: self.n_known].mean())


def parts_of(model: Any, schema: Any) -> tuple[Any, Any]:
    """Return the linear estimator of a pipeline or search, and its schema, else `schema`."""
    estimator = getattr(model, "best_estimator_", model)
    if hasattr(estimator, "steps"):
        schema = next((s for _, s in estimator.steps if hasattr(s, "_shown_columns")), schema)
        estimator = estimator.steps[-1][1]
    if not hasattr(schema, "_shown_columns"):
        raise InputTypeError(
            f"schema must be the PublicSchema or PublicShapes in front of the model, got "
            f"{type(schema).__name__}."
        )
    if not hasattr(estimator, "coef_"):
        name = type(estimator).__name__
        raise InputTypeError(f"model must be fitted and have coef_, got {name}.")
    return estimator, schema


def shape_of(kind: Any, parameter: str = "shapes") -> Ramps:
    """Return the encoding that a value of the parameter `shapes` names."""
    if kind not in KINDS:
        raise InputError(f"{parameter} must be one of {', '.join(KINDS)}, got {kind!r}.")
    return LINE if kind == "linear" else Ramps(PIECES)


@dataclass(frozen=True)
class Shaped:
    """A column that is scaled to [-1, 1], with its encoding and an indicator of missing values."""

    column: Number | Date | Ordered | Boolean
    shape: Ramps | Hats

    @property
    def _width(self) -> int:
        return self.shape.width + self.column.missing

    @property
    def _n_stored(self) -> int:
        return self._width

    def _names(self, name: str) -> tuple[str, ...]:
        missing = (f"{name}=missing",) if self.column.missing else ()
        return (*self.shape.names(name, getattr(self.column, "_at", str)), *missing)

    def _encode(self, values: pd.Series, name: str) -> Block:
        return self._filled(self.column._scaled(values, name), name)

    def _filled(self, scaled: FloatArray, name: str) -> Block:
        """Encode scaled numbers; a missing one is the fill's block and the rest of norm 1."""
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
    """Return a column with its encoding; numbers and dates bend as their `shape`, else `kind`."""
    if isinstance(column, Category):
        return column
    if isinstance(column, Ordered | Boolean):
        return Shaped(column, LINE)
    shape = shape_of(kind) if column.shape is None else shape_of(column.shape, "shape")
    return Shaped(column, shape)


# Fraction of a row's squared norm that single columns keep; interactions have the rest.
OWN_FRACTION = 0.7


class Product:
    """Interaction of two columns: all products of their parts, a block of norm at most 1.

    The parts of a column, levels or hats, are in [0, 1] and add up to 1. So their squares add up to
    at most 1, and those of the products too.
    """

    def __init__(self, keys: Sequence[Any], parts: tuple[Any, Any]) -> None:
        self.keys, self.parts = tuple(keys), parts
        self.of = feature_name(keys[0]), feature_name(keys[1])
        left, right = (part._names(name) for part, name in zip(parts, self.of, strict=True))
        self.name, self.names = "×".join(self.of), [f"{a}×{b}" for a in left for b in right]
        self.width = len(self.names)
        self.n_stored = parts[0]._n_stored * parts[1]._n_stored

    def encode(self, frame: pd.DataFrame) -> Block:
        """Return the block of a table: positions and values of the products."""
        columns = zip(self.parts, self.keys, self.of, strict=True)
        left, right = (part._encode(frame[key], name) for part, key, name in columns)
        positions = left[0][:, :, None] * self.parts[1]._width + right[0][:, None, :]
        values = left[1][:, :, None] * right[1][:, None, :]
        return positions.reshape(len(positions), -1), values.reshape(len(values), -1)


def _interacting(columns: Mapping[Any, Column], name: Any) -> Any:
    """Return a column as an interaction encodes it: numbers by hats, all others by levels."""
    column = columns.get(name) if isinstance(name, Hashable) else None
    if isinstance(column, Number | Date):
        return Shaped(replace(column, fill=None), Hats())
    if isinstance(column, Boolean | Ordered):
        return Category(column._all_levels(), other=False, missing=column.missing)
    if not isinstance(column, Category):
        raise InputError(f"interactions must be of columns of the schema, got {name!r}.")
    return column


def products(columns: Mapping[Any, Column], interactions: Any) -> tuple[Product, ...]:
    """Return a `Product` for each pair of names; refuse wrong and repeated pairs."""
    by_pair: dict[frozenset[Any], Product] = {}
    for pair in interactions if isinstance(interactions, list | tuple) else [interactions]:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"interactions must be pairs of names of columns, got {pair!r}.")
        left, right = (_interacting(columns, name) for name in pair)
        if frozenset(pair) in by_pair or pair[0] == pair[1]:
            raise InputError(f"interactions must be of two columns, each pair once, got {pair!r}.")
        by_pair[frozenset(pair)] = Product(pair, (left, right))
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

    def _writers(self) -> list[Callable[[float], str]]:
        """Return for each column a function that writes the value scaled to u as text."""
        return [Number(low, high)._at for low, high in zip(self._low, self._high, strict=True)]

    def _shown_columns(self) -> list[ShownColumn]:
        """Return each column at public values, in the order of the encoded columns."""
        check_is_fitted(self)
        names, writers = OneToOneFeatureMixin.get_feature_names_out(self), self._writers()
        columns, start = [], 0
        for index in (*np.flatnonzero(self._bent), *np.flatnonzero(~self._bent)):
            # a column that passes through is a line
            bent = (self._shape, writers[index])
            shape, at = bent if self._bent[index] else (LINE, "{:.6g}".format)
            block = slice(start, start + shape.width)
            columns.append(
                ShownColumn.of_number(str(names[index]), block, shape, at, self._divisor)
            )
            start += shape.width
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
        bent = zip(names[self._bent], np.array(self._writers())[self._bent], strict=True)
        pieces = [piece for name, at in bent for piece in self._shape.names(str(name), at)]
        return np.array([*pieces, *map(str, names[~self._bent])], dtype=object)
