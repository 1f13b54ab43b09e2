"""What is asked of dask, each time with a deadline, and what its workers run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any
from uuid import uuid4

import numpy as np

from sklearn_dpwg.data.threads import allow_threads
from sklearn_dpwg.exceptions import ClusterError, InputError, InputTypeError

# Seconds after which a wait looks whether workers went away.
LOOK_EVERY = 0.5


def check_client(client: Any) -> None:
    """Refuse what is no client that one can wait for, without importing what it is made with."""
    kind = getattr(sys.modules.get("distributed"), "Client", None)
    if kind is None or not isinstance(client, kind) or client.asynchronous:
        raise InputTypeError(
            f"client must be a distributed.Client that is not asynchronous, got {client!r}."
        )


class Cluster:
    """A client that waits no longer than a deadline, and knows which worker holds what."""

    def __init__(self, client: Any, pass_timeout: float, check: Callable[[list[str]], None]):
        self.client = client
        self._pass_timeout = pass_timeout
        self._check = check
        self._places: dict[str, str] = {}

    def deadline(self) -> float:
        """Return when a pass that begins now has to be done."""
        return time.monotonic() + self._pass_timeout

    def submit(self, task: Callable[..., Any], futures: Sequence[Any], place: str | None) -> Any:
        """Send a task, preferably to the worker at an address; the futures are its arguments."""
        pin = {} if place is None else {"workers": [place], "allow_other_workers": True}
        return self.client.submit(task, *futures, key=random_name(repr(task)), pure=False, **pin)

    def persist(self, lazy: Sequence[Any]) -> list[Any]:
        """Send lazy objects, all at once, and return their futures."""
        from distributed import futures_of

        return [futures_of(one)[0] for one in self.client.persist(list(lazy))]

    def wait(self, futures: Sequence[Any], deadline: float) -> None:
        """Wait until all are settled, or for a moment."""
        from distributed import CancelledError, wait

        left = self._left(deadline)
        try:
            with self.client.as_current():
                wait(futures, timeout=min(left, LOOK_EVERY))
        except TimeoutError:
            self._left(deadline)
        except CancelledError:
            raise _scheduler_lost() from None

    def gather(self, futures: Sequence[Any], deadline: float) -> list[Any] | None:
        """Return the results of settled futures, or None if a worker that has one went away."""
        from distributed import CancelledError

        async def fetch() -> Any:
            return await self.client.gather(list(futures), asynchronous=True)

        patience = LOOK_EVERY
        while True:
            patience = min(2.0 * patience, self._left(deadline))
            try:
                return list(self.client.sync(fetch, callback_timeout=patience))
            except TimeoutError:
                if any(future.status != "finished" for future in futures):
                    return None
            except CancelledError:
                raise _scheduler_lost() from None

    def ask(self, question: Callable[[], Any], deadline: float) -> Any:
        """Return the scheduler's answer to a method of the client."""

        async def answer() -> Any:
            return await question()

        while True:
            try:
                return self.client.sync(answer, callback_timeout=self._left(deadline))
            except TimeoutError:
                self._left(deadline)
            except OSError:
                raise _scheduler_lost() from None

    def places(self, futures: Sequence[Any], deadline: float) -> dict[str, list[int]]:
        """Return which of some futures each worker holds; of those that nobody holds, none."""
        if any(future.key not in self._places for future in futures):
            holders = self.ask(lambda: self.client.who_has(list(futures)), deadline)
            known = {
                key: place for key, place in self._places.items() if key in self.client.futures
            }
            load: dict[str, int] = {}
            for key, addresses in holders.items():
                if addresses:
                    place = min(addresses, key=lambda address: (load.get(address, 0), address))
                    load[place] = load.get(place, 0) + 1
                    known[key] = place
            self._check(list(load))
            self._places = known
        held: dict[str, list[int]] = {}
        for index, future in enumerate(futures):
            if future.key in self._places:
                held.setdefault(self._places[future.key], []).append(index)
        return held

    def raise_unless_killed(self, future: Any, deadline: float) -> None:
        """Raise the error of a future, unless it is that workers died under it."""
        from distributed import KilledWorker

        error = future.exception(timeout=self._left(deadline))
        if not isinstance(error, KilledWorker):
            raise error

    def retry(self, futures: Sequence[Any], deadline: float) -> None:
        """Let dask try again what it gave up."""
        self.ask(lambda: self.client.retry(list(futures)), deadline)

    def forget_places(self) -> None:
        """Ask again where everything is."""
        self._places = {}

    def _left(self, deadline: float) -> float:
        """Return how many seconds are left, or give up."""
        left = deadline - time.monotonic()
        if left > 0.0:
            return left
        raise ClusterError(
            f"A pass over the records was not done after pass_timeout={self._pass_timeout:g} "
            "seconds, so it is given up and nothing of it is released; the cluster has "
            f"{self._n_workers()} workers: see whether they are there and busy, or allow more time "
            "in sklearn_dpwg.data.distributed.options."
        ) from None

    def _n_workers(self) -> str:
        """Return how many workers there are, in a word."""

        async def ask() -> Any:
            return await self.client.nthreads()

        try:
            return str(len(self.client.sync(ask, callback_timeout=2.0)) or "no")
        except Exception:  # the scheduler does not answer
            return "unknown"


def random_name(kind: str) -> str:
    """Return a task's name that says nothing but what kind of task it is."""
    return f"dpwg_{kind.strip('<>')}-{uuid4().hex}"


def lazy_task(task: Callable[..., Any], *arguments: Any) -> Any:
    """Return a task that is sent when it is needed."""
    from dask import delayed

    wrapped = delayed(task, name=random_name("task"), pure=False, traverse=False)
    return wrapped(*arguments, dask_key_name=random_name(repr(task)))


def _scheduler_lost() -> ClusterError:
    return ClusterError(
        "The scheduler of the dask cluster went away, or cancelled a pass over the records, so the "
        "pass is given up and nothing of it is released."
    )


# Which connections may carry records.

_SAFE_SCHEMES = ("inproc", "tls", "wss")


def check_addresses(addresses: Iterable[str]) -> None:
    """Refuse connections that anybody on the network may read or write."""
    for address in addresses:
        scheme, _, rest = address.rpartition("://")
        if scheme in _SAFE_SCHEMES or _is_loopback(rest):
            continue
        raise InputError(
            f"The dask cluster is at {scheme or 'tcp'}://, beyond this machine, where records and "
            "exact sums would travel without encryption and anybody could take part: use tls:// "
            "(distributed's security=), or say insecure=True in data.distributed.options "
            "if the network itself keeps everybody else out."
        )


def _is_loopback(rest: str) -> bool:
    """Tell whether host and port are of this machine alone."""
    host = rest.rpartition(":")[0].strip("[]") or rest
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# What runs on the workers: nothing in it has a repr that shows records, sums or keys.

_PACKAGE = __name__.partition(".")[0]


class Unshown:
    """Whose ``repr`` says what kind of thing it is, and no more."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()}>"


class Held(Unshown):
    """An object on a worker: dask is told its size, and nothing else."""

    __slots__ = ("content", "n_bytes")

    def __init__(self, content: Any) -> None:
        self.content = content
        self.n_bytes = _n_bytes(content, set())

    def __sizeof__(self) -> int:
        return self.n_bytes


class Hold(Unshown):
    """Task that makes an object known to the cluster: it travels with its task."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __call__(self) -> Held:
        return Held(self._content)


class Derive(Unshown):
    """Task that makes one object of another."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments

    def __call__(self, held: Held) -> Held:
        with np.errstate(all="ignore"):
            return Held(self._function(held.content, *self._arguments))


class Pass(Unshown):
    """Task that calls a function on each object of a worker, and adds what it returns if asked."""

    def __init__(self, function: Callable[[Any], Any], *, adds: bool) -> None:
        self._function = function
        self._adds = adds

    def __call__(self, *held: Held) -> Result:
        worker = _worker()
        results: list[Any] = []
        with np.errstate(all="ignore"), allow_threads(worker.state.nthreads):
            for one in held:
                result = self._function(one.content)
                results = [add(*results, result)] if self._adds else [*results, result]
        return Result(results[0] if self._adds else results, worker.address)


class Result(Unshown):
    """What a pass returns, on its way to the client, and the address it comes from."""

    __slots__ = ("content", "place")

    def __init__(self, content: Any, place: str) -> None:
        self.content = content
        self.place = place


def add(*sums: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add tuples of arrays, element by element, in their order."""
    total = sums[0]
    for other in sums[1:]:
        total = tuple(np.add(one, two) for one, two in zip(total, other, strict=True))
    return total


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
