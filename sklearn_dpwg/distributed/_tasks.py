"""What runs on the workers: nothing in it has a repr that shows records, sums or keys."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_dpwg.exceptions import DPWGError, WorkerError
from sklearn_dpwg.kernels import allow_threads

_PACKAGE = __name__.partition(".")[0]


class Held:
    """An object on a worker: dask is told its size, and nothing else."""

    __slots__ = ("content", "n_bytes")

    def __init__(self, content: Any) -> None:
        self.content = content
        self.n_bytes = _n_bytes(content, set())

    def __repr__(self) -> str:
        return "<held>"

    def __sizeof__(self) -> int:
        return self.n_bytes


class Failure:
    """An error as a result: dask writes errors, with what they say, into its logs."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return "<failure>"


class Hold:
    """Task that makes an object known to the cluster: it travels with its task."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __repr__(self) -> str:
        return "<hold>"

    def __call__(self) -> Held:
        return Held(self._content)


class Derive:
    """Task that makes one object of another."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments

    def __repr__(self) -> str:
        return "<derive>"

    def __call__(self, held: Held | Failure) -> Held | Failure:
        if isinstance(held, Failure):
            return held
        try:
            return Held(self._function(held.content, *self._arguments))
        except Exception as error:
            return Failure(without_values(error))


class Pass:
    """Task that calls a function on each object of a worker, and adds what it returns if asked."""

    def __init__(self, function: Callable[[Any], Any], *, adds: bool) -> None:
        self._function = function
        self.adds = adds

    def __repr__(self) -> str:
        return "<pass>"

    def __call__(self, *held: Held | Failure) -> Any:
        worker = _worker()
        results: list[Any] = []
        for one in held:
            if isinstance(one, Failure):
                return one
            try:
                with allow_threads(worker.state.nthreads):
                    result = self._function(one.content)
                if self.adds:
                    results = [add(*results, result)]
                else:
                    results.append(result)
            except Exception as error:
                return Failure(without_values(error))
        return Result(results[0] if self.adds else results, worker.address)


class Result:
    """What a pass returns, on its way to the client, and the address it comes from."""

    __slots__ = ("content", "place")

    def __init__(self, content: Any, place: str) -> None:
        self.content = content
        self.place = place

    def __repr__(self) -> str:
        return "<result>"


class Add:
    """Task that adds sums: a knot of the tree."""

    def __repr__(self) -> str:
        return "<add>"

    def __call__(self, *results: Result | Failure) -> Result | Failure:
        sums = []
        for one in results:
            if isinstance(one, Failure):
                return one
            sums.append(one.content)
        return Result(add(*sums), _worker().address)


def add(*sums: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add tuples of arrays, element by element, in their order."""
    total = sums[0]
    for other in sums[1:]:
        total = tuple(np.add(one, two) for one, two in zip(total, other, strict=True))
    return total


def without_values(error: Exception) -> Exception:
    """Return an error that may leave the worker: with its words if they are this package's own."""
    if isinstance(error, DPWGError):
        return _bare(error)
    trace = error.__traceback__
    if trace is None:
        return WorkerError(f"A task failed on a worker with {type(error).__name__}.")
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "")
    return WorkerError(
        f"A task failed on a worker with {type(error).__name__} in {module}, line "
        f"{trace.tb_lineno}; its words may show values of records, so they stay there: the same "
        "call with some of the rows in memory shows them."
    )


def _bare(error: Exception) -> Exception:
    """Return an error without the frames and errors behind it, which hold records."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _worker() -> Any:
    """Return the worker that runs this task."""
    from distributed import get_worker

    return get_worker()


def _n_bytes(value: Any, seen: set[int]) -> int:
    """Return about how much memory an object takes, through its attributes and containers."""
    from dask.sizeof import sizeof

    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, dict):
        return sum(_n_bytes(one, seen) for one in value.values())
    if isinstance(value, list | tuple):
        return sum(_n_bytes(one, seen) for one in value)
    attributes = getattr(value, "__dict__", None)
    if attributes and type(value).__module__.partition(".")[0] == _PACKAGE:
        return sum(_n_bytes(one, seen) for one in attributes.values())
    return int(sizeof(value))
