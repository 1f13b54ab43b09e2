"""Numbers of double precision in an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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

    def finish(self, value: str, output: Any) -> None:
        """Hand a value to an output, in its precision."""
        from skl2onnx.common.data_types import DoubleTensorType

        to = DOUBLE if isinstance(output.type, DoubleTensorType) else FLOAT
        name = self._scope.get_unique_operator_name("Cast")
        self._container.add_node("Cast", [value], output.full_name, op_version=13, name=name, to=to)
