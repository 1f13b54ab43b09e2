"""Fitted models, and the scalers and schemas in front of them, in ONNX.

After `register_converters`, ``skl2onnx.to_onnx`` converts them like estimators of scikit-learn,
alone and in pipelines. What is converted is what was released: it costs nothing more. `skl2onnx` is
needed, and imported when `register_converters` is called.
"""

from sklearn_dpwg.onnx.converters import (
    check_graph,
    initial_types,
    register_converters,
    to_graph,
)

__all__ = ["check_graph", "initial_types", "register_converters", "to_graph"]
