"""Functions that are compiled once and kept on disk; importing this module loads numba.

What is kept is found by the file of the function alone: whatever it calls stands in that file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_dpwg.exceptions import MachineError

# read when numba is loaded
os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")
import numba

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def refuse_svml() -> None:
    """Refuse a library of vector functions whose results depend on places (docs/theory/sums.md)."""
    if getattr(numba.config, "USING_SVML", False):
        raise MachineError(
            "numba uses Intel's SVML, in which the exp of a number depends on its place among "
            "others, and so would one record's gradient on who else is there: set the environment "
            "variable NUMBA_DISABLE_INTEL_SVML=1 before numba is loaded."
        )


refuse_svml()


class Kernel:
    """A function that is compiled at its first call for given types, and kept on disk."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._dispatcher = _dispatcher(function, cache=True)
        self._prepared: set[tuple[Any, ...]] = set()

    def prepare(self, *arguments: Any) -> Callable[..., None]:
        """Return the compiled function; threads that called it first would wait for each other."""
        kinds = tuple(map(_kind, arguments))
        if kinds in self._prepared:
            return self._dispatcher
        types = tuple(numba.typeof(argument) for argument in arguments)
        if types not in self._dispatcher.overloads:
            try:
                self._dispatcher.compile(types)
            except Exception:  # a full disk, a damaged file: what is kept is a convenience
                self._dispatcher = _dispatcher(self._function, cache=False)
                self._dispatcher.compile(types)
                self._prepared.clear()
        self._prepared.add(kinds)
        return self._dispatcher


def _kind(argument: Any) -> Any:
    """Return what the type follows from: numba's own answer takes longer than a short pass."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    return type(argument)


def _dispatcher(function: Callable[..., None], *, cache: bool) -> Any:
    if cache:
        try:
            return numba.njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder that compiled code could be kept in
            pass
    return numba.njit(**OPTIONS)(function)
