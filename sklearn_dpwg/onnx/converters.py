"""Converters for skl2onnx."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import reduce
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from sklearn_dpwg.estimators import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import DPWGError, InputError
from sklearn_dpwg.preprocessing import (
    Boolean,
    BoundedScaler,
    Category,
    Date,
    DPStandardScaler,
    Number,
    Ordered,
    PublicSchema,
    PublicShapes,
)
from sklearn_dpwg.preprocessing.cells import levels_of
from sklearn_dpwg.preprocessing.columns import feature_name, of_missing
from sklearn_dpwg.preprocessing.interactions import Hats
from sklearn_dpwg.preprocessing.shapes import Ramps, Shaped

MODELS = (DPWorstGroupClassifier, DPAUCClassifier, DPWorstGroupRegressor)
# ONNX names types by number.
FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11


class Graph:
    """The nodes of a converter, by what they compute; a value goes by its name."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope = scope
        self._container = container

    def node(self, kind: str, *inputs: str, version: int = 13, domain: str = "", **how: Any) -> str:
        """Add a node with one output, and return that."""
        output: str = self._scope.get_unique_variable_name(kind.lower())
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(
            kind, list(inputs), output, op_version=version, op_domain=domain, name=name, **how
        )
        return output

    def constant(self, value: ArrayLike, kind: int = DOUBLE) -> str:
        """Add a constant."""
        array = np.asarray(value, dtype=np.float64 if kind == DOUBLE else np.int64)
        name: str = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kind, list(array.shape), array.ravel().tolist())
        return name

    def rows(self, inputs: list[Any]) -> str:
        """Return inputs side by side, in double precision."""
        return self.beside([self.double(item.full_name) for item in inputs])

    def double(self, value: str) -> str:
        """Return a value in double precision."""
        return self.node("Cast", value, to=DOUBLE)

    def beside(self, values: list[str]) -> str:
        """Return columns beside each other."""
        return values[0] if len(values) == 1 else self.node("Concat", *values, axis=1)

    def clip(self, value: str, low: ArrayLike, high: ArrayLike) -> str:
        """Clip columns; NaN stays."""
        least = self.node("Max", value, self.constant(low))
        return self.node("Min", least, self.constant(high))

    def affine(self, value: str, minus: ArrayLike, over: ArrayLike, plus: ArrayLike) -> str:
        """Subtract, divide, and add."""
        difference = self.node("Sub", value, self.constant(minus), version=14)
        quotient = self.node("Div", difference, self.constant(over), version=14)
        return self.node("Add", quotient, self.constant(plus), version=14)

    def one_hot(self, value: str, width: int, **levels: Any) -> str:
        """Return zeros with a 1 at the level, nowhere for another value."""
        domain = "ai.onnx.ml"
        found = self.node("OneHotEncoder", value, version=1, domain=domain, zeros=1, **levels)
        return self.node("Reshape", found, self.constant([-1, width], INT64))

    def finish(self, value: str, output: Any) -> None:
        """Hand a value to an output, in its precision."""
        from skl2onnx.common.data_types import DoubleTensorType

        to = DOUBLE if isinstance(output.type, DoubleTensorType) else FLOAT
        name = self._scope.get_unique_operator_name("Cast")
        self._container.add_node("Cast", [value], output.full_name, op_version=13, name=name, to=to)


_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
# Of the Gregorian calendar, whose years begin in March here: days from its year 0 to 1970, and of a
# period of 400 years, of a century, of four years and a year.
_TO_1970, _PERIOD, _CENTURY, _FOUR_YEARS, _YEAR = 719_468, 146_097, 36_524, 1460, 365


def months_since_1970(graph: Graph, seconds: str) -> str:
    """Return whole months from seconds since 1970, as the calendar has them; NaN stays."""

    def floor(value: str, over: float, plus: float = 0.0) -> str:
        return graph.node("Floor", graph.affine(value, -plus, over, 0.0))

    def times(value: str, by: float) -> str:
        return graph.node("Mul", value, graph.constant(by), version=14)

    def plus(*values: str) -> str:
        return reduce(lambda a, b: graph.node("Add", a, b, version=14), values)

    days = graph.affine(floor(seconds, 86_400.0), 0.0, 1.0, _TO_1970)
    period = floor(days, _PERIOD)
    day = plus(days, times(period, -_PERIOD))
    # a leap day ends four years, a century has none but the fourth
    leaps = (times(floor(day, _FOUR_YEARS), -1.0), floor(day, _CENTURY))
    last = times(floor(day, _PERIOD - 1), -1.0)
    year = floor(plus(day, *leaps, last), _YEAR)
    starts = (times(year, -_YEAR), times(floor(year, 4.0), -1.0), floor(year, 100.0))
    month = floor(plus(times(plus(day, *starts), 5.0)), 153.0, plus=2.0)  # 5 months have 153 days
    years = plus(year, times(period, 400.0))
    return graph.affine(plus(times(years, 12.0), month), 12.0 * 1970.0 - 2.0, 1.0, 0.0)


def encoded_rows(graph: Graph, schema: Any, inputs: list[Any]) -> str:
    """Return the rows of a schema, from one input a column."""
    by_name = {item.raw_name: item for item in inputs}
    blocks = []
    for key, column in schema.blocks.items():
        name = feature_name(key)
        if name not in by_name:
            raise InputError(f"initial_types must have an input {name!r}, got {sorted(by_name)!r}.")
        blocks.append(_block(graph, column, name, by_name[name]))
    divisors = np.repeat(schema.row_norm, sum(column.width for column in schema.blocks.values()))
    for product in schema.products:
        factors = []
        places = np.indices([part.width for part in product.parts]).reshape(2, -1)
        for part, name, at in zip(product.parts, product.of, places, strict=True):
            of_part = _block(graph, part, name, by_name[name])
            factors.append(graph.node("Gather", of_part, graph.constant(at, INT64), axis=1))
        blocks.append(graph.node("Mul", *factors, version=14))
        divisors = np.append(divisors, np.repeat(schema.pair_norm, product.width))
    return graph.affine(graph.beside(blocks), 0.0, divisors, 0.0)


def _block(graph: Graph, column: Any, name: str, item: Any) -> str:
    if isinstance(column, Shaped):
        value, absent = _scaled(graph, column.column, name, item)
        pieces = _pieces(graph, column.shape, value)
        stands = of_missing(column.fill, column.shape)
        return _filled(graph, pieces, absent, stands) if column.column.missing else pieces
    if isinstance(column, Boolean):
        return _ordered(graph, (column.false, column.true), column.missing, name, item)
    if isinstance(column, Ordered):
        return _ordered(graph, column.levels, column.missing, name, item)
    if isinstance(column, Category):
        return _category(graph, column, name, item)
    raise InputError(
        f"column {name!r} must be of a kind of this package for ONNX, got {type(column).__name__}."
    )


def _pieces(graph: Graph, shape: Ramps | Hats, value: str) -> str:
    """Return the pieces of numbers in [-1, 1], in one column."""
    if isinstance(shape, Hats):
        tops, step = np.linspace(-1.0, 1.0, shape.width)[None], 2.0 / (shape.width - 1)
        away = graph.node("Abs", graph.affine(value, tops, step, 0.0))
        return graph.clip(graph.affine(away, 1.0, -1.0, 0.0), 0.0, 1.0)
    if shape.width == 1:
        return value
    starts = np.linspace(-1.0, 1.0, shape.width, endpoint=False)[None]
    rise = graph.clip(graph.affine(value, starts, 2.0 / shape.width, 0.0), 0.0, 1.0)
    return graph.affine(rise, 0.5, 0.5 * math.sqrt(shape.width), 0.0)


def _scaled(graph: Graph, column: Number | Date, name: str, item: Any) -> tuple[str, str]:
    """Return numbers in [-1, 1], and which are missing."""
    if _is_text(item):
        raise InputError(f"input {name!r} must have numbers or seconds since 1970, got strings.")
    value = graph.double(item.full_name)
    absent = graph.node("IsNaN", value)
    if isinstance(column, Date):
        if column.unit in _SECONDS:
            value = graph.node("Floor", graph.affine(value, 0.0, _SECONDS[column.unit], 0.0))
        else:
            value = months_since_1970(graph, value)
            if column.unit == "year":
                value = graph.node("Floor", graph.affine(value, 0.0, 12.0, 0.0))
    low, high = column._bounds()
    value = graph.clip(value, low, high)
    if isinstance(column, Number) and column.log:
        value = graph.node("Log", graph.affine(value, 0.0, 1.0, 1.0))
        low, high = math.log1p(low), math.log1p(high)
    value = graph.clip(graph.affine(value, low, 0.5 * high - 0.5 * low, -1.0), -1.0, 1.0)
    return value, absent


def _filled(graph: Graph, block: str, absent: str, stands: Any) -> str:
    """Put what stands for a missing value in the place of some blocks, and an indicator beside."""
    filled = graph.node("Where", absent, graph.constant(stands[None, :-1]), block, version=9)
    said = graph.node("Mul", graph.double(absent), graph.constant(stands[-1]))
    return graph.beside([filled, said])


def _ordered(
    graph: Graph, levels: tuple[Hashable, ...], missing: bool, name: str, item: Any
) -> str:
    scale = np.linspace(-1.0, 1.0, len(levels))[:, None]
    value = graph.node("MatMul", _one_hot(graph, levels, name, item), graph.constant(scale))
    if not missing:
        return value
    return _filled(graph, value, _absent(graph, levels, item), of_missing(0.0))


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
        numbers = [int(cast("Any", level)) for level in stated]
        low = min(numbers) - 1
        numbers += [low] * (len(levels) - len(stated))
        value, how = _whole(graph, item, low - 1), {"cats_int64s": numbers}
    else:
        raise InputError(
            f"levels of column {name!r} must be all strings or all whole numbers for ONNX, and its "
            f"input of the same kind, got {levels!r}."
        )
    return graph.double(graph.one_hot(value, len(levels), **how))


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
    found = graph.one_hot(item.full_name, 1, cats_strings=[sought])
    return graph.node("Cast", found, to=BOOL)


def _is_text(item: Any) -> bool:
    return "String" in type(item.type).__name__


def _is_whole(level: Hashable) -> bool:
    return isinstance(level, Integral | np.bool_) or (
        isinstance(level, float) and level.is_integer()
    )


def register_converters() -> None:
    """Teach skl2onnx the estimators, scalers and schemas of this package.

    Models compute in the precision of their input, scalers and schemas in double precision.

    A `PublicSchema` has an input of shape [None, 1] a column, with the column's name, or "xp" for a
    position p. It holds strings for levels that are strings, without blanks around them and ""
    where a value is missing; numbers for others, NaN where one is missing; seconds since 1970 for
    dates, and of scalers too. An ONNX graph raises no errors: what a transformer refuses is NaN or
    0 in its output.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.

    Notes
    -----
    ``skl2onnx.to_onnx(pipeline, initial_types=...)`` takes a pair of name and type for each column
    of a `PublicSchema`, such as ``("age", FloatTensorType([None, 1]))``.
    """
    try:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import (
            calculate_linear_classifier_output_shapes,
            calculate_linear_regressor_output_shapes,
        )
    except ImportError:
        raise ImportError("register_converters needs skl2onnx: pip install skl2onnx.") from None
    of_classifiers = {
        "nocl": [True, False],
        "output_class_labels": [False, True],
        "raw_scores": [True, False],
        "zipmap": [True, False, "columns"],
    }
    for classifier in MODELS[:2]:
        update_registered_converter(
            classifier,
            classifier.__name__,
            calculate_linear_classifier_output_shapes,
            _convert_classifier,
            options=of_classifiers,
        )
    update_registered_converter(
        DPWorstGroupRegressor,
        "DPWorstGroupRegressor",
        calculate_linear_regressor_output_shapes,
        _convert_regressor,
    )
    for transformer, convert in (
        (BoundedScaler, _convert_bounded_scaler),
        (DPStandardScaler, _convert_standard_scaler),
        (PublicSchema, _convert_schema),
        (PublicShapes, _convert_shapes),
    ):
        known = (transformer, transformer.__name__, _transformed_shape, convert)
        update_registered_converter(*known, parser=_parse_transformer)


def initial_types(schema: PublicSchema) -> list[tuple[str, Any]]:
    """Return the inputs of a graph of a schema: text for levels that are text, else doubles.

    Parameters
    ----------
    schema : PublicSchema
        It need not be fitted.

    Returns
    -------
    list of pair of str and type
        The ``initial_types`` of ``skl2onnx.to_onnx``, one a column.
    """
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    found = []
    for key, column in schema.columns.items():
        levels = levels_of(column)
        is_text = levels is not None and all(isinstance(level, str) for level in levels)
        kind = StringTensorType if is_text else DoubleTensorType
        found.append((feature_name(key), kind([None, 1])))
    return found


def to_graph(pipeline: Any) -> bytes:
    """Return the graph of a fitted pipeline of a `PublicSchema` and a private model.

    Parameters
    ----------
    pipeline : Pipeline
        A `PublicSchema` without `cells`, which no graph reads, and a model.

    Returns
    -------
    bytes
        The content of an .onnx file, with the inputs of `initial_types`.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.
    ValueError
        If a step or a column has no graph.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_dpwg import DPWorstGroupRegressor
    >>> from sklearn_dpwg.onnx import check_graph, to_graph
    >>> from sklearn_dpwg.preprocessing import Number, PublicSchema
    >>> table = pd.DataFrame({"age": np.linspace(0.0, 100.0, 2000)})
    >>> model = DPWorstGroupRegressor(target_bounds=(0.0, 1.0), data_norm=1.0, solver="mgr")
    >>> steps = make_pipeline(PublicSchema({"age": Number(0, 100)}), model)
    >>> check_graph(steps)  # before the budget is spent
    >>> groups = {"dpworstgroupregressor__groups": np.arange(2000) % 2}
    >>> content = to_graph(steps.fit(table, table["age"] / 100.0, **groups))
    """
    register_converters()
    from skl2onnx import to_onnx
    from skl2onnx.common.exceptions import MissingShapeCalculator

    schema, model = _two_steps(pipeline)
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    try:
        graph = to_onnx(pipeline, initial_types=initial_types(schema), options=options)
    except (MissingShapeCalculator, NameError, RuntimeError) as error:
        if isinstance(error, DPWGError):
            raise
        raise _no_graph(model) from None
    content: bytes = graph.SerializeToString()
    return content


def check_graph(pipeline: Any) -> None:
    """Refuse, before anything is spent, what `to_graph` would refuse after a fit.

    Parameters
    ----------
    pipeline : Pipeline
        A `PublicSchema` and a model, neither of which need be fitted.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.
    ValueError
        If a step or a column has no graph.
    """
    schema, model = (clone(step) for step in _two_steps(pipeline))
    width, is_classifier = len(schema.get_feature_names_out()), hasattr(model, "classes")
    model.coef_ = np.zeros((1, width) if is_classifier else width)
    model.intercept_ = np.zeros(1) if is_classifier else 0.0
    model.n_features_in_ = width
    if is_classifier:
        model.classes_ = np.array(["no", "yes"])
    to_graph(Pipeline([("schema", schema), ("model", model)]))


def _two_steps(pipeline: Any) -> tuple[PublicSchema, Any]:
    steps = [step for _, step in getattr(pipeline, "steps", ())]
    if len(steps) != 2 or not isinstance(steps[0], PublicSchema):
        raise InputError(
            f"pipeline must be a PublicSchema and a model, got {type(pipeline).__name__}: "
            f"skl2onnx.to_onnx converts others."
        )
    if not isinstance(steps[1], MODELS):
        raise _no_graph(steps[1])
    return steps[0], steps[1]


def _no_graph(model: Any) -> InputError:
    return InputError(
        f"{type(model).__name__} has no graph in ONNX with these inputs and parameters: serve it "
        f"from a file of skops."
    )


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    model = operator.raw_operator
    plain = LogisticRegression() if hasattr(model, "predict_proba") else LinearSVC()
    plain.classes_ = model.classes_
    plain.coef_ = model.coef_
    plain.intercept_ = np.atleast_1d(model.intercept_)
    _convert_as(plain, scope, operator, container)


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    plain = LinearRegression()
    plain.coef_ = operator.raw_operator.coef_
    plain.intercept_ = np.float64(operator.raw_operator.intercept_)
    _convert_as(plain, scope, operator, container)


def _convert_as(plain: Any, scope: Any, operator: Any, container: Any) -> None:
    """Convert a model of scikit-learn with the same weights in place of one."""
    from skl2onnx import get_model_alias
    from skl2onnx.common._apply_operation import apply_identity

    options = scope.get_options(operator.raw_operator)
    options.pop("zipmap", None)  # the outer one has been asked already
    inner = scope.declare_local_operator(get_model_alias(type(plain)), plain)
    for holder in (container, scope):
        holder.add_options(id(plain), options)
    inner.inputs = operator.inputs
    for output in operator.outputs:
        found = scope.declare_local_variable(output.onnx_name, type=output.type)
        inner.outputs.append(found)
        apply_identity(scope, found.full_name, output.full_name, container)


def _precision_of(inputs: list[Any]) -> Any:
    """Return the type of rows: doubles where there are some among the inputs and no singles."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    found = {type(item.type) for item in inputs}
    is_double = DoubleTensorType in found and FloatTensorType not in found
    return DoubleTensorType if is_double else FloatTensorType


def _parse_transformer(
    scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None
) -> Any:
    """Declare an output, by whose type what stands behind is typed; skl2onnx asks one input."""
    operator = scope.declare_local_operator(type(model).__name__, model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("variable", _precision_of(inputs)()))
    return operator.outputs


def _transformed_shape(operator: Any) -> None:
    """Say how many numbers a row has, and in which precision."""
    kind = _precision_of(operator.inputs)
    n_features = len(operator.raw_operator.get_feature_names_out())
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), n_features])


def _convert_bounded_scaler(scope: Any, operator: Any, container: Any) -> None:
    scaler, graph = operator.raw_operator, Graph(scope, container)
    low, high = scaler.low_, scaler.high_
    clipped = graph.clip(graph.rows(operator.inputs), low, high)
    unit = graph.affine(clipped, low, 0.5 * high - 0.5 * low, -1.0)
    graph.finish(graph.affine(unit, 0.0, scaler._divisor, 0.0), operator.outputs[0])


def _convert_standard_scaler(scope: Any, operator: Any, container: Any) -> None:
    scaler, graph = operator.raw_operator, Graph(scope, container)
    clipped = graph.clip(graph.rows(operator.inputs), scaler.low_, scaler.high_)
    scaled = graph.affine(clipped, scaler.mean_, scaler.scale_, 0.0)
    graph.finish(scaled, operator.outputs[0])


def _convert_schema(scope: Any, operator: Any, container: Any) -> None:
    graph, schema = Graph(scope, container), operator.raw_operator
    if schema.cells is not None:
        raise InputError(
            "cells of a PublicSchema must be None in a graph, which reads no words: clean its "
            "inputs before it."
        )
    rows = encoded_rows(graph, schema._schema(), operator.inputs)
    graph.finish(rows, operator.outputs[0])


def _convert_shapes(scope: Any, operator: Any, container: Any) -> None:
    shapes, graph = operator.raw_operator, Graph(scope, container)
    rows = graph.rows(operator.inputs)
    places = np.arange(shapes.n_features_in_)
    bent = [
        graph.node("Gather", rows, graph.constant([p], INT64), axis=1) for p in places[shapes._bent]
    ]
    low, high = shapes._low[shapes._bent], shapes._high[shapes._bent]
    parts = []
    for value, least, most in zip(bent, low, high, strict=True):
        unit = graph.affine(graph.clip(value, least, most), least, 0.5 * most - 0.5 * least, -1.0)
        parts.append(_pieces(graph, shapes._shape, graph.clip(unit, -1.0, 1.0)))
    if not shapes._bent.all():
        rest = graph.node("Gather", rows, graph.constant(places[~shapes._bent], INT64), axis=1)
        square = graph.node(
            "MatMul",
            graph.node("Mul", rest, rest),
            graph.constant(np.ones((int((~shapes._bent).sum()), 1))),
        )
        longer = graph.node(
            "Div", graph.node("Sqrt", square), graph.constant(shapes._rest_norm), version=14
        )
        parts.append(
            graph.node("Div", rest, graph.node("Max", longer, graph.constant(1.0)), version=14)
        )
    graph.finish(graph.affine(graph.beside(parts), 0.0, shapes._divisor, 0.0), operator.outputs[0])
