"""Named pairs of columns: products of two columns' parts, in blocks of norm at most 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing.columns import (
    Block,
    Boolean,
    Category,
    Column,
    Date,
    Number,
    Ordered,
    feature_name,
)
from sklearn_dpwg.preprocessing.shapes import Shaped, named

# What columns by themselves keep of a row's squared norm beside pairs.
OWN_SHARE = 0.7


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
        places = a.places[:, :, None] * self.parts[1]._width + b.places[:, None, :]
        values = a.values[:, :, None] * b.values[:, None, :]
        return Block(places.reshape(len(places), -1), values.reshape(len(values), -1))


def _parts(columns: Mapping[Any, Column], name: Any) -> Any:
    column = columns.get(name) if isinstance(name, Hashable) else None
    if isinstance(column, Number | Date):
        return Shaped(replace(column, fill=None), Hats())
    if isinstance(column, Boolean):
        return Category((column.false, column.true), other=False, missing=column.missing)
    if isinstance(column, Ordered):
        return Category(column.levels, other=False, missing=column.missing)
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
