"""Tasks on all cores, and rows cut into fractions for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

IndexArray = NDArray[np.intp]
# A group, the first of its rows and the end of them.
Segment = tuple[int, int, int]

Result = TypeVar("Result")

_ALLOWED: ContextVar[int | None] = ContextVar("allowed_threads", default=None)


def n_threads() -> int:
    """Return how many threads a pass may use: all cores, if neither caller nor OpenMP says less."""
    cores = _n_cores()
    stated = _ALLOWED.get()
    if stated is not None:
        return min(cores, stated)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(allowed)) if allowed.isdecimal() and int(allowed) > 0 else cores


@contextmanager
def allow_threads(number: int) -> Iterator[None]:
    """Let passes of this thread use so many: a cluster's worker is told one by its environment."""
    token = _ALLOWED.set(number)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def run_on_threads(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run tasks that release the interpreter's lock, each once, on a few threads.

    Results are in the order of the tasks. Which thread runs a task depends on the time each takes,
    so none may write where another does, nor run others. Threads follow the caller's
    `numpy.errstate`.
    """
    number = min(n_threads(), len(tasks))
    if number < 2:
        return [task() for task in tasks]
    settings: dict[str, Any] = dict(np.geterr())

    def run(task: Callable[[], Result]) -> Result:
        with np.errstate(**settings):
            return task()

    return list(_pool(os.getpid(), number).map(run, tasks))


def run_on_runs(task: Callable[[int, int], Result], n_rows: int, n_tasks: int) -> list[Result]:
    """Run a task on each of at most `MAX_TASKS` even runs of rows, given the ends of the run."""
    borders = np.linspace(0, n_rows, max(1, min(n_tasks, MAX_TASKS)) + 1).astype(int).tolist()
    return run_on_threads([partial(task, *each) for each in pairwise(borders)])


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS, of the whole process, from starting threads of its own below ours."""
    global _n_inside, _limit
    with _LOCK:
        if _n_inside == 0:
            _limit = _blas().limit(limits=1)
        _n_inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _n_inside -= 1
            if _n_inside == 0:
                _limit.restore_original_limits()


# The limit is the process's: the first caller to come sets it, the last to go lifts it.
_LOCK = threading.Lock()
_n_inside = 0
_limit: Any = None


@lru_cache(maxsize=1)
def _n_cores() -> int:
    return int(joblib.cpu_count())


@lru_cache(maxsize=8)
def _pool(process: int, number: int) -> ThreadPoolExecutor:
    """Return so many threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(number, thread_name_prefix=f"sklearn_dpwg-{process}")


@lru_cache(maxsize=1)
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


# Enough tasks for a few cores to finish together, few enough for their partial sums.
MAX_TASKS = 16


def even_tasks(starts: IndexArray, n_tasks: int) -> list[list[Segment]]:
    """Cut rows ``starts[i]:starts[i + 1]`` of groups into at most `MAX_TASKS` even tasks.

    It depends on sizes only, never on the number of cores, so sums that are combined in its order
    are the same bit for bit on every number of threads. A group without rows has no segment.
    """
    n_tasks = max(1, min(n_tasks, MAX_TASKS))
    cuts = np.linspace(starts[0], starts[-1], n_tasks + 1).astype(np.intp)
    points = np.union1d(cuts, starts)
    groups = np.searchsorted(starts, points[:-1], side="right") - 1
    columns = groups.tolist(), points[:-1].tolist(), points[1:].tolist()
    segments = list(zip(*columns, strict=True))
    bounds = np.unique(np.searchsorted(points[:-1], cuts)).tolist()
    return [segments[first:last] for first, last in pairwise(bounds)]
