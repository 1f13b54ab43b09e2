"""Records on the workers of a dask cluster.

Fits take dask arrays and frames as they take arrays: workers hold the records and return sums, the
client adds the sums and alone draws noise. Dask schedules the passes, and makes again what a lost
worker held. `options` says which cluster, and how long to wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from ipaddress import ip_address
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import issparse

from sklearn_dpwg._checks import positive_finite
from sklearn_dpwg.data.frames import is_dask, named_class
from sklearn_dpwg.data.records import Table
from sklearn_dpwg.data.risks.risks import LocalEngine
from sklearn_dpwg.data.threads import allow_threads
from sklearn_dpwg.exceptions import ChangedDataError, ClusterError, InputError, InputTypeError

__all__ = ["options"]

_SAFE_SCHEMES = ("inproc", "tls", "wss")


# The arguments of `options`: client, seconds of pass_timeout, insecure.
_CURRENT: ContextVar[tuple[Any, float, bool]] = ContextVar("distributed_options")
_DEFAULTS = (None, 600.0, False)


@contextmanager
def options(
    client: Any = None, pass_timeout: float = 600.0, insecure: bool = False
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
    seconds = positive_finite(pass_timeout, "pass_timeout")
    token = _CURRENT.set((client, seconds, insecure is True))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check_addresses(addresses: Iterable[str]) -> None:
    """Raise `InputError` if a connection beyond this machine is not encrypted."""
    for address in addresses:
        scheme, _, host_and_port = address.rpartition("://")
        if scheme in _SAFE_SCHEMES or _is_loopback(host_and_port):
            continue
        raise InputError(
            f"The dask cluster is at {scheme or 'tcp'}://, beyond this machine, where records and "
            "exact sums would travel without encryption and anybody could take part: use tls:// "
            "(distributed's security=), or say insecure=True in data.distributed.options "
            "if the network itself keeps everybody else out."
        )


def _is_loopback(host_and_port: str) -> bool:
    """Whether only this machine can reach the address ``host:port``."""
    host = host_and_port.rpartition(":")[0].strip("[]") or host_and_port
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# Passes over blocks that workers hold.


class TaskResult:
    """Result of a task on a worker; its size in bytes is all that dask reads of it."""

    def __init__(self, content: Any, seal: bytes | None) -> None:
        self.content = content  # a block of records, or what a function returned
        # digest of the records of the block that it comes from; None if from a partition
        self.seal = seal

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in _arrays_of(self.content)) + 1000


class Pass:
    """Task that calls a function on a partition or a block; its ``repr``, for logs, has no data."""

    def __init__(self, function: Callable[..., Any], *, makes_block: bool = False) -> None:
        self._function = function
        self._makes_block = makes_block

    def __repr__(self) -> str:
        return "dpwg_pass"

    def __call__(self, source: Any, *arguments: Any) -> TaskResult:
        """Return the function's result on a partition or a `TaskResult`; it runs on one thread."""
        with np.errstate(all="ignore"), allow_threads(1):
            if isinstance(source, TaskResult):
                return TaskResult(self._function(source.content, *arguments), source.seal)
            result = self._function(source, *arguments)
            return TaskResult(result, _seal_of(result) if self._makes_block else None)


def _arrays_of(block: Any) -> list[NDArray[Any]]:
    """Return the dense arrays of a `RecordBlock`; an empty list for any other object."""
    records = getattr(block, "records", None)
    values = [getattr(records, name, None) for name in ("rows", "targets", "starts", "places")]
    return [value for value in values if isinstance(value, np.ndarray)]


def _seal_of(block: Any) -> bytes:
    """Return a digest of the records of a block, which tells whether it was computed alike."""
    digest = hashlib.blake2b(digest_size=16)
    for array in _arrays_of(block):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


class DaskEngine(LocalEngine):
    """Runs passes over blocks on the workers, and adds up their results on the client.

    Handles are futures of blocks, or lazy partitions, from which `derive` makes blocks. Dask may
    compute a block a second time, after a worker is lost. It must then hold the same records, or
    parts that were disjoint might not be; `collect` checks the digests (seals) of all blocks.
    """

    def __init__(self) -> None:
        from distributed import Client

        self._client, self._pass_timeout, is_insecure = _CURRENT.get(_DEFAULTS)
        if self._client is None:
            try:
                self._client = Client.current()
            except ValueError:
                raise InputError(
                    "There is no dask client: start one, client = distributed.Client(...), or pass "
                    "it in sklearn_dpwg.data.distributed.options(client=client)."
                ) from None
        if not isinstance(self._client, Client) or self._client.status != "running":
            raise InputError(
                f"client must be a distributed.Client that is open, got {self._client!r}."
            )
        if not is_insecure:
            facts = self._client.scheduler_info(n_workers=-1)
            addresses = [self._client.scheduler.address, facts["address"], *facts["workers"]]
            check_addresses(addresses)
        # seals of all blocks; None is the seal of results that come from partitions directly
        self._known_seals: set[bytes | None] = {None}
        self._block_futures: WeakSet[Any] = WeakSet()

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        results = self._results(Pass(function), handles)
        for position, result in enumerate(results):
            if result.seal not in self._known_seals:
                raise ChangedDataError(
                    f"partition {position} of the records must be the same whenever it is read, "
                    f"and it is not what it was: a file was written to, or a step of its "
                    f"computation draws anew."
                )
        return [result.content for result in results]

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        blocks = self._submit(Pass(function, makes_block=True), handles, arguments)
        self._block_futures.update(blocks)
        if any(map(is_dask, handles)):  # from partitions: a pass of no work returns the new seals
            self._known_seals.update(result.seal for result in self._results(Pass(type), blocks))
        return blocks

    def release(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            if not is_dask(handle):
                handle.release()

    def close(self) -> None:
        """Release all blocks on the workers, even if the traceback of a failed fit holds them."""
        self.release(list(self._block_futures))

    def _results(self, task: Pass, handles: Sequence[Any]) -> list[TaskResult]:
        """Return a task's result on every handle; `ClusterError` if that takes too long."""
        from distributed import wait

        futures = self._submit(task, handles)
        try:
            with self._client.as_current():
                wait(futures, timeout=self._pass_timeout)
            return list(self._client.gather(futures))
        except TimeoutError:
            raise ClusterError(
                f"A pass over the records was not done after pass_timeout={self._pass_timeout:g} "
                "seconds, so it is given up and nothing of it is released: see whether the "
                "cluster's workers are there and busy, or allow more time in "
                "sklearn_dpwg.data.distributed.options."
            ) from None
        finally:
            self.release(futures)

    def _submit(
        self,
        task: Pass,
        handles: Sequence[Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Start a task on every handle, each with its own arguments; return the futures."""
        columns = list(zip(*arguments, strict=True)) if arguments else []  # one for each argument
        if not any(map(is_dask, handles)):
            return list(self._client.map(task, handles, *columns, pure=False))
        from dask import delayed

        lazy = delayed(task, pure=False, traverse=False)
        return list(self._client.compute(list(map(lazy, handles, *columns))))


# Dask arrays and frames as partitions.


def partitions_of(X: Any, y: Any, groups: Any = None) -> list[Any]:
    """Return a lazy `Table` for each partition of dask collections, which must be cut alike."""
    from dask import delayed

    passed = {"X": X, "y": y} | ({} if groups is None else {"groups": groups})
    for name, value in passed.items():
        _check_kind(name, value)
    parts = {name: _lazy_parts(value) for name, value in passed.items()}
    for name, own_parts in parts.items():
        if len(own_parts) != len(parts["X"]):
            raise InputError(
                f"X has {len(parts['X'])} partitions and {name} has {len(own_parts)}: X, y and "
                f"groups must be cut at the same rows, for arrays by "
                f"{name}.rechunk({{0: X.chunks[0]}})."
            )
    lazy = delayed(_table, pure=False, traverse=False)
    rows = zip(*parts.values(), strict=True)
    return [lazy(position, *values) for position, values in enumerate(rows)]


def _table(position: int, X: Any, y: Any, groups: Any = None) -> Table:
    """Return the `Table` of the partition at a position; runs on a worker."""
    if issparse(X):
        raise InputError(
            "X has sparse blocks, which are not taken from a cluster: pass dense blocks, "
            "X.map_blocks(lambda rows: rows.toarray()), or sparse rows in memory."
        )
    for name, part in (("y", y), ("groups", groups)):
        if part is not None and len(part) != len(X):
            raise InputError(
                f"Partition {position} of X has {len(X)} rows, and that of {name} has {len(part)}: "
                f"X, y and groups must be cut at the same rows."
            )
    return Table(X, np.asarray(y), groups)


def _check_kind(name: str, value: Any) -> None:
    """Raise an error unless a value is a dask array or frame with the dimensions of its name."""
    allowed = {"X": (2,), "y": (1,), "groups": (1, 2)}[name]
    if not named_class(value, {"dask": ("Array", "DataFrame", "Series")}):
        raise InputTypeError(
            f"{name} must be a collection of dask where others are, an array or a frame, got "
            f"{type(value).__name__}: make one of it, for instance by dask.array.from_array."
        )
    if value.ndim not in allowed:
        words = " or ".join(map(str, allowed))
        raise InputError(f"{name} must have {words} dimensions, got {value.ndim}.")


def _lazy_parts(value: Any) -> list[Any]:
    """Return the partitions of a dask array or frame as delayed values."""
    if not hasattr(value, "divisions"):  # an array
        return list(_whole_rows(value).to_delayed().ravel())
    # optimize_graph=False: dask would merge files when few columns are read, which moves the cuts
    return list(value.simplify().to_delayed(optimize_graph=False))


def _whole_rows(X: Any) -> Any:
    """Return a dask array of rows whose blocks have all columns."""
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def map_rows(
    X: Any,
    function: Callable[[Any], ArrayLike],
    *,
    dtype: DTypeLike = np.float64,
    columns: Sequence[Any] | None = None,
) -> Any:
    """Return a lazy dask collection of the results of a function on the blocks of rows of X.

    The function gets at least one row, and returns a value a row, or one for each of `columns`.
    """
    _check_kind("X", X)
    mapped = partial(_apply, function=function, dtype=np.dtype(dtype), columns=columns)
    token = f"rows-{uuid4().hex}"  # else dask would hash the function and its data for a name
    if hasattr(X, "divisions"):
        return X.map_partitions(mapped, meta=mapped(X._meta.iloc[:0]), token=token)
    shape: dict[str, Any] = {"drop_axis": 1}
    if columns is not None:
        shape = {"chunks": (X.chunks[0], (len(columns),))}
    meta = mapped(np.empty((0, 0)))
    return _whole_rows(X).map_blocks(mapped, dtype=meta.dtype, meta=meta, name=token, **shape)


def _apply(rows: Any, *, function: Any, dtype: Any, columns: Sequence[Any] | None) -> Any:
    """Return the function's values for one block of rows, in the kind of container of `rows`."""
    values = np.empty((0,) if columns is None else (0, len(columns)), dtype=dtype)
    if len(rows):
        values = np.asarray(function(rows), dtype=dtype)
    if not hasattr(rows, "iloc"):
        return values
    if columns is None:
        return pd.Series(values, index=rows.index)
    return pd.DataFrame(values, index=rows.index, columns=list(columns))
