"""What is asked of dask, each time with a deadline."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from sklearn_dpwg.exceptions import DeadlineError, WorkerLostError

# Seconds after which a wait looks whether workers went away.
LOOK_EVERY = 0.5


def check_client(client: Any) -> None:
    """Refuse what is no client that one can wait for, without importing what it is made with."""
    kind = getattr(sys.modules.get("distributed"), "Client", None)
    if kind is None or not isinstance(client, kind) or client.asynchronous:
        raise TypeError(
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
        raise DeadlineError(
            f"A pass over the records was not done after pass_timeout={self._pass_timeout:g} "
            "seconds, so it is given up and nothing of it is released; the cluster has "
            f"{self._n_workers()} workers: see whether they are there and busy, or allow more time "
            "in sklearn_dpwg.distributed.options."
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


def _scheduler_lost() -> WorkerLostError:
    return WorkerLostError(
        "The scheduler of the dask cluster went away, or cancelled a pass over the records, so the "
        "pass is given up and nothing of it is released."
    )
