"""Which cluster fits run on, how long they wait for it, and passes over what its workers hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from sklearn_dpwg._checks import FloatArray, positive_finite
from sklearn_dpwg.data.distributed import cluster
from sklearn_dpwg.exceptions import ClusterError, InputError, InputTypeError


@dataclass(frozen=True)
class Options:
    """What `options` was told."""

    client: Any = None
    pass_timeout: float = 600.0
    insecure: bool = False


_CURRENT: ContextVar[Options | None] = ContextVar("distributed_options", default=None)


@contextmanager
def options(
    client: Any = None,
    pass_timeout: float = 600.0,
    insecure: bool = False,
) -> Iterator[None]:
    """Say which cluster the fits inside a ``with`` block use, and how.

    Results do not depend on any of it. Blocks may be nested; the inner one counts.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of the cluster; without one dask's current client.
    pass_timeout : float, default=600.0
        Seconds that one pass over the records may take, the first ones, which read the records,
        included. What takes longer is an error, `sklearn_dpwg.exceptions.ClusterError`.
    insecure : bool, default=False
        Whether to accept connections without encryption beyond this machine: records and exact sums
        travel through them, and whoever reaches the scheduler can read both and run code.

    Yields
    ------
    None
        Nothing; the options count until the block is left.
    """
    if not isinstance(insecure, bool):
        raise InputTypeError(f"insecure must be True or False, got {insecure!r}.")
    if client is not None:
        cluster.check_client(client)
    token = _CURRENT.set(
        Options(
            client=client,
            pass_timeout=positive_finite(pass_timeout, "pass_timeout"),
            insecure=insecure,
        )
    )
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_options() -> Options:
    """Return the options of the innermost ``with`` block."""
    return _CURRENT.get() or Options()


def engine() -> DaskEngine:
    """Return an engine for the cluster of the options, or else dask's current client."""
    from distributed import Client

    chosen = current_options()
    if chosen.client is None:
        try:
            chosen = replace(chosen, client=Client.current())
        except ValueError:
            raise InputError(
                "There is no dask client: start one, client = distributed.Client(...), or pass it "
                "in sklearn_dpwg.data.distributed.options(client=client)."
            ) from None
    return DaskEngine(**vars(chosen))


# How often a pass sends tasks again that dask gave up, each time after several dead workers.
MOST_RETRIES = 8


@dataclass(frozen=True)
class _Job:
    """What one task of a pass is about."""

    indices: list[int]
    place: str | None = None  # address of the worker that holds the objects


class DaskEngine:
    """Runs passes with one task a worker, and lets dask recompute what dead workers held.

    Task names are random: nothing of records, sums or keys is in names, logs or reprs.
    """

    def __init__(
        self,
        client: Any,
        *,
        pass_timeout: float = 600.0,
        insecure: bool = False,
    ) -> None:
        cluster.check_client(client)
        if client.status in ("closing", "closed"):
            raise InputError(
                "client must be one that is open, got a closed one: start another, "
                "distributed.Client(...), or leave it out for dask's current client."
            )
        self._pass_timeout = pass_timeout
        self._insecure = insecure
        self._cluster = cluster.Cluster(client, pass_timeout, self._check)
        workers = self._cluster.ask(client.nthreads, self._cluster.deadline())
        self._check([client.scheduler.address, client.scheduler_info()["address"], *workers])

    def __repr__(self) -> str:
        return f"DaskEngine(pass_timeout={self._pass_timeout})"

    def hold(self, objects: Sequence[Any]) -> list[Any]:
        """Return handles of small objects that can be pickled; nothing is sent before a pass."""
        return [cluster.lazy_task(cluster.Hold(one)) for one in objects]

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Return handles of what a function makes of each object; errors show in the next pass."""
        each = arguments if arguments is not None else [()] * len(handles)
        tasks = [cluster.Derive(function, tuple(own)) for own in each]
        derived: list[Any] = [None] * len(handles)
        lazy = [index for index, handle in enumerate(handles) if not _is_future(handle)]
        if lazy:
            sent = self._cluster.persist([cluster.lazy_task(tasks[i], handles[i]) for i in lazy])
            for index, future in zip(lazy, sent, strict=True):
                derived[index] = future
        for index, handle in enumerate(handles):
            if _is_future(handle):
                derived[index] = self._cluster.submit(tasks[index], [handle], None)
        return derived

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        results: list[Any] = [None] * len(handles)
        for indices, part in self._run(handles, cluster.Pass(function, adds=False)):
            for index, result in zip(indices, part, strict=True):
                results[index] = result
        return results

    def reduce(
        self, handles: Sequence[Any], function: Callable[[Any], tuple[FloatArray, ...]]
    ) -> tuple[FloatArray, ...]:
        return cluster.add(
            *(part for _, part in self._run(handles, cluster.Pass(function, adds=True)))
        )

    def release(self, handles: Sequence[Any]) -> None:
        """Let workers forget objects, but not how to make what was derived from them."""
        for handle in handles:
            if _is_future(handle):
                handle.release()

    def _check(self, addresses: list[str]) -> None:
        """Refuse addresses that are not safe, if that was not allowed."""
        if not self._insecure:
            cluster.check_addresses(addresses)

    def _run(self, handles: Sequence[Any], task: cluster.Pass) -> list[tuple[list[int], Any]]:
        """Run a task on all objects, a task a worker; return what each gave, and for which."""
        deadline = self._cluster.deadline()
        jobs: dict[Any, _Job] = {}
        retries = 0
        try:
            while True:
                done = {index for job in jobs.values() for index in job.indices}
                pending = [index for index in range(len(handles)) if index not in done]
                if pending:
                    jobs.update(self._submit(handles, pending, task, deadline))
                    retries += self._settle(handles, jobs, deadline)
                    if retries > MOST_RETRIES:
                        raise _given_up()
                    continue
                results = self._fetch(jobs, deadline)
                if results is not None:
                    return results
                _drop(jobs, [future for future in jobs if future.status != "finished"])
        finally:
            _drop(jobs, list(jobs))

    def _submit(
        self, handles: Sequence[Any], pending: list[int], task: cluster.Pass, deadline: float
    ) -> dict[Any, _Job]:
        """Send a task to each worker that holds objects, and one for each that nobody holds yet."""
        lazy = [index for index in pending if not _is_future(handles[index])]
        held = [index for index in pending if _is_future(handles[index])]
        jobs: dict[Any, _Job] = {}
        if lazy:
            sent = self._cluster.persist(
                [cluster.lazy_task(task, handles[index]) for index in lazy]
            )
            jobs.update({future: _Job([index]) for future, index in zip(sent, lazy, strict=True)})
        if held:
            futures = [handles[index] for index in held]
            for place, members in self._places(futures, deadline).items():
                arguments = [futures[member] for member in members]
                future = self._cluster.submit(task, arguments, place)
                jobs[future] = _Job([held[member] for member in members], place)
        return jobs

    def _places(self, futures: list[Any], deadline: float) -> dict[str, list[int]]:
        """Wait until every object is on a worker, and return which are on which."""
        retries = 0
        while True:
            erred = [future for future in futures if future.status == "error"]
            if erred:
                retries += 1
                for future in erred:
                    self._cluster.raise_unless_killed(future, deadline)
                if retries > MOST_RETRIES:
                    raise _given_up()
                self._cluster.retry(erred, deadline)
            if all(future.status == "finished" for future in futures):
                places = self._cluster.places(futures, deadline)
                if sum(map(len, places.values())) == len(futures):
                    return places
            self._cluster.forget_places()
            self._cluster.wait(futures, deadline)

    def _settle(self, handles: Sequence[Any], jobs: dict[Any, _Job], deadline: float) -> int:
        """Wait until tasks are done or have to be sent again; return how many dask gave up."""
        while True:
            killed = [future for future in jobs if future.status == "error"]
            for future in killed:
                self._cluster.raise_unless_killed(future, deadline)
            waiting = [future for future in jobs if future.status != "finished"]
            lost = [
                future
                for future in waiting
                if any(_is_lost(handles[i]) for i in jobs[future].indices)
            ]
            if killed or lost:
                # left alone, dask brings all they need to one worker, however much that is
                self._cluster.forget_places()
                _drop(jobs, {*killed, *lost})
                return len(killed)
            if not waiting:
                return 0
            self._cluster.wait(waiting, deadline)

    def _fetch(self, jobs: dict[Any, _Job], deadline: float) -> list[tuple[list[int], Any]] | None:
        """Return the results of all tasks, or None if some got lost on their way."""
        while any(future.status not in ("finished", "error") for future in jobs):
            self._cluster.wait(list(jobs), deadline)
        for future in jobs:
            if future.status == "error":
                self._cluster.raise_unless_killed(future, deadline)
                return None
        results = self._cluster.gather(list(jobs), deadline)
        if results is None:
            return None
        if any(
            job.place not in (None, r.place) for job, r in zip(jobs.values(), results, strict=True)
        ):
            self._cluster.forget_places()
        return [(job.indices, r.content) for job, r in zip(jobs.values(), results, strict=True)]


def _drop(jobs: dict[Any, _Job], futures: Iterable[Any]) -> None:
    """Let dask cancel tasks, or forget what they gave."""
    for future in futures:
        del jobs[future]
        future.release()


def _is_future(handle: Any) -> bool:
    from distributed import Future

    return isinstance(handle, Future)


def _is_lost(handle: Any) -> bool:
    """Tell whether an object was on a worker that is gone."""
    return _is_future(handle) and handle.status != "finished"


def _given_up() -> ClusterError:
    return ClusterError(
        "Workers of the dask cluster died again and again under a pass over the records, so the "
        "pass is given up and nothing of it is released: a block may be too large for a worker."
    )
