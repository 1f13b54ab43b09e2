"""Tasks on a thread pool, and even cuts of rows into tasks."""

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
    """Return the number of threads of a pass: all cores, `allow_threads` or OMP_NUM_THREADS."""
    cores = _n_cores()
    stated = _ALLOWED.get()
    if stated is not None:
        return min(cores, stated)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(allowed)) if allowed.isdecimal() and int(allowed) > 0 else cores


@contextmanager
def allow_threads(number: int) -> Iterator[None]:
    """Limit the threads of passes in this context, which overrides OMP_NUM_THREADS."""
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
    """Return the results of ``task(first, stop)`` on at most `MAX_TASKS` even ranges of rows."""
    borders = np.linspace(0, n_rows, max(1, min(n_tasks, MAX_TASKS)) + 1).astype(int).tolist()
    return run_on_threads([partial(task, *each) for each in pairwise(borders)])


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS, in the whole process, to one thread, as tasks run on threads already."""
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
    """Return a pool of threads, cached by process id, as a fork has no threads of its parent."""
    return ThreadPoolExecutor(number, thread_name_prefix=f"sklearn_dpwg-{process}")


@lru_cache(maxsize=1)
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


# Enough tasks for a few cores to finish together, few enough for their partial sums.
MAX_TASKS = 16


def even_tasks(starts: IndexArray, n_tasks: int) -> list[list[Segment]]:
    """Cut rows sorted by group (i has ``starts[i]:starts[i + 1]``) into at most `MAX_TASKS` tasks.

    A task is a list of segments (group, start, stop), none of them empty. Cuts depend on sizes
    only, so sums added in task order are equal to the bit on any number of threads.
    """
    n_tasks = max(1, min(n_tasks, MAX_TASKS))
    cuts = np.linspace(starts[0], starts[-1], n_tasks + 1).astype(np.intp)
    points = np.union1d(cuts, starts)
    groups = np.searchsorted(starts, points[:-1], side="right") - 1
    columns = groups.tolist(), points[:-1].tolist(), points[1:].tolist()
    segments = list(zip(*columns, strict=True))
    bounds = np.unique(np.searchsorted(points[:-1], cuts)).tolist()
    return [segments[first:last] for first, last in pairwise(bounds)]
