"""Converters for skl2onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

from sklearn_dpwg.estimators import (
    DPAUCClassifier,
    DPWorstGroupClassifier,
    DPWorstGroupRegressor,
)
from sklearn_dpwg.onnx._graph import Graph
from sklearn_dpwg.onnx._schema import encoded_rows
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler, PublicSchema


def register_converters() -> None:
    """Teach skl2onnx the estimators, scalers and schemas of this package.

    Models compute in the precision of their input, scalers and schemas in double precision.

    A `PublicSchema` has an input of shape [None, 1] a column, with the column's name, or "xp" for a
    position p. It holds strings for levels that are strings, without blanks around them and ""
    where a value is missing; numbers for others, NaN where one is missing; seconds since 1970 for
    dates, of units up to the week, since ONNX has no calendar. Dates of scalers are seconds too. An
    ONNX graph raises no errors: what a transformer refuses is NaN or 0 in its output.

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
    for classifier in (DPWorstGroupClassifier, DPAUCClassifier):
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
    ):
        update_registered_converter(transformer, transformer.__name__, _transformed_shape, convert)


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
    plain.intercept_ = float(operator.raw_operator.intercept_)
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


def _transformed_shape(operator: Any) -> None:
    """Say how many numbers a row has, in double precision where all inputs have it."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    is_double = all(isinstance(item.type, DoubleTensorType) for item in operator.inputs)
    kind = DoubleTensorType if is_double else FloatTensorType
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
    graph = Graph(scope, container)
    rows = encoded_rows(graph, operator.raw_operator._schema(), operator.inputs)
    graph.finish(rows, operator.outputs[0])
