"""Methods that exist for some solvers only."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from sklearn_dpwg.solvers import SOLVERS, FreshSolver


class FreshMethod:
    """A method that an estimator has with a fresh solver only; else an AttributeError says why.

    scikit-learn's ``available_if`` would raise a sentence of its own in place of the reason.

    Parameters
    ----------
    method : callable
        The method.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:  # documentation and routing look at the class
            return self._method
        solver = instance.solver
        if isinstance(solver, str):
            solver = SOLVERS.get(solver)
        is_fresh = isinstance(solver, FreshSolver) or (
            isinstance(solver, type) and issubclass(solver, FreshSolver)
        )
        name = f"{type(instance).__name__} has no {self._method.__name__} with"
        if not is_fresh:
            raise AttributeError(
                f"{name} solver={instance.solver!r}, which needs all records at once: use fit."
            )
        if instance.epsilon == float("inf"):
            raise AttributeError(
                f"{name} epsilon=inf, as the exact solution needs all records at once: use fit."
            )
        return MethodType(self._method, instance)
