"""Raw columns to encoded rows in an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Hashable
from numbers import Integral
from typing import Any

import numpy as np

from sklearn_dpwg.onnx._graph import BOOL, INT64, Graph
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered

_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}


def encoded_rows(graph: Graph, schema: Any, inputs: list[Any]) -> str:
    """Return the rows of a schema, from one input a column."""
    by_name = {item.raw_name: item for item in inputs}
    blocks = []
    for key, column in schema.columns.items():
        name = key if isinstance(key, str) else f"x{key}"
        if name not in by_name:
            raise ValueError(f"initial_types must have an input {name!r}, got {sorted(by_name)!r}.")
        blocks.append(_block(graph, column, name, by_name[name]))
    return graph.affine(graph.beside(blocks), 0.0, schema.row_norm, 0.0)


def _block(graph: Graph, column: Any, name: str, item: Any) -> str:
    if isinstance(column, Number | Date):
        return _scaled(graph, column, name, item)
    if isinstance(column, Boolean):
        return _ordered(graph, (column.false, column.true), column.missing, name, item)
    if isinstance(column, Ordered):
        return _ordered(graph, column.levels, column.missing, name, item)
    if isinstance(column, Category):
        return _category(graph, column, name, item)
    raise ValueError(
        f"column {name!r} must be of a kind of this package for ONNX, got {type(column).__name__}."
    )


def _scaled(graph: Graph, column: Number | Date, name: str, item: Any) -> str:
    if _is_text(item):
        raise ValueError(f"input {name!r} must have numbers or seconds since 1970, got strings.")
    value = graph.double(item.full_name)
    absent = graph.node("IsNaN", value)
    if isinstance(column, Date):
        if column.unit not in _SECONDS:
            raise ValueError(
                f"unit of column {name!r} must be one of {', '.join(_SECONDS)} for ONNX, which has "
                f"no calendar, got {column.unit!r}."
            )
        value = graph.node("Floor", graph.affine(value, 0.0, _SECONDS[column.unit], 0.0))
        low, high = column._bounds()
        fill = 0.0 if column.fill is None else column._scaled_fill()
    else:
        low, high = float(column.low), float(column.high)
        fill = 0.0 if column.fill is None else float(column._to_scale(np.array([column.fill]))[0])
    value = graph.clip(value, low, high)
    if isinstance(column, Number) and column.log:
        value = graph.node("Log", graph.affine(value, 0.0, 1.0, 1.0))
        low, high = math.log1p(low), math.log1p(high)
    value = graph.clip(graph.affine(value, low, 0.5 * high - 0.5 * low, -1.0), -1.0, 1.0)
    if not column.missing:
        return value
    return _filled(graph, value, absent, fill)


def _filled(graph: Graph, value: str, absent: str, fill: float) -> str:
    filled = graph.node("Where", absent, graph.constant([[fill]]), value, version=9)
    said = graph.node("Mul", graph.double(absent), graph.constant(math.sqrt(1.0 - fill**2)))
    return graph.beside([filled, said])


def _ordered(
    graph: Graph, levels: tuple[Hashable, ...], missing: bool, name: str, item: Any
) -> str:
    scale = np.linspace(-1.0, 1.0, len(levels))[:, None]
    value = graph.node("MatMul", _one_hot(graph, levels, name, item), graph.constant(scale))
    return _filled(graph, value, _absent(graph, levels, item), 0.0) if missing else value


def _category(graph: Graph, column: Category, name: str, item: Any) -> str:
    levels = column._all_levels()
    found = _one_hot(graph, levels, name, item, added=None if "other" in column.levels else "other")
    absent = graph.double(_absent(graph, levels, item))
    if column.other:
        ones = graph.constant(np.ones((len(levels), 1)))
        known = graph.node("Add", graph.node("MatMul", found, ones), absent, version=14)
        rest = graph.node("Sub", graph.constant([[1.0]]), known, version=14)
        place = np.array([[1.0 if level == "other" else 0.0 for level in levels]])
        spread = graph.node("MatMul", rest, graph.constant(place))
        found = graph.node("Add", found, spread, version=14)
    return graph.beside([found, absent]) if column.missing else found


def _one_hot(
    graph: Graph, levels: tuple[Hashable, ...], name: str, item: Any, added: str | None = None
) -> str:
    """Return zeros with a 1 at the level, nowhere for another value."""
    stated = [level for level in levels if level != added]
    how: dict[str, Any]
    if _is_text(item) and all(isinstance(level, str) for level in stated):
        value, how = item.full_name, {"cats_strings": list(levels)}
    elif not _is_text(item) and all(_is_whole(level) for level in stated):
        # no level is so low: the column of what is added has to be there, it is the last one
        numbers = [_number(level) for level in stated]
        low = min(numbers) - 1
        numbers += [low] * (len(levels) - len(stated))
        value, how = _whole(graph, item, low - 1), {"cats_int64s": numbers}
    else:
        raise ValueError(
            f"levels of column {name!r} must be all strings or all whole numbers for ONNX, and its "
            f"input of the same kind, got {levels!r}."
        )
    found = graph.node("OneHotEncoder", value, version=1, domain="ai.onnx.ml", zeros=1, **how)
    shape = graph.constant([-1, len(levels)], INT64)
    return graph.double(graph.node("Reshape", found, shape))


def _whole(graph: Graph, item: Any, otherwise: int) -> str:
    """Return whole numbers, and one that is no level for others and for NaN."""
    value = graph.double(item.full_name)
    is_whole = graph.node("Equal", value, graph.node("Floor", value))
    kept = graph.node("Where", is_whole, value, graph.constant([[otherwise]]), version=9)
    return graph.node("Cast", kept, to=INT64)


def _absent(graph: Graph, levels: tuple[Hashable, ...], item: Any) -> str:
    """Return whether a value is missing: NaN, or an empty string that is no level."""
    if not _is_text(item):
        return graph.node("IsNaN", graph.double(item.full_name))
    # a string that no table has stands for none where the empty one is a level
    sought = "\x00" if "" in levels else ""
    found = graph.node(
        "OneHotEncoder",
        item.full_name,
        version=1,
        domain="ai.onnx.ml",
        zeros=1,
        cats_strings=[sought],
    )
    shaped = graph.node("Reshape", found, graph.constant([-1, 1], INT64))
    return graph.node("Cast", shaped, to=BOOL)


def _is_text(item: Any) -> bool:
    return "String" in type(item.type).__name__


def _is_whole(level: Hashable) -> bool:
    return isinstance(level, Integral | np.bool_) or (
        isinstance(level, float) and level.is_integer()
    )


def _number(level: Any) -> int:
    return int(level)
