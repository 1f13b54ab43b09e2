"""Which cluster fits run on, and how long they wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn_dpwg._checks import positive_finite, whole_number
from sklearn_dpwg.distributed._cluster import check_client

if TYPE_CHECKING:
    from sklearn_dpwg.distributed.dask_engine import DaskEngine


@dataclass(frozen=True)
class Options:
    """What `options` was told.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of the cluster; None for dask's current client.
    pass_timeout : float, default=600.0
        Seconds that one pass may take.
    insecure : bool, default=False
        Whether connections without encryption beyond this machine are accepted.
    fan_in : int, optional
        Sums of how many workers one task adds; None for the client adding all.
    """

    client: Any = None
    pass_timeout: float = 600.0
    insecure: bool = False
    fan_in: int | None = None


_CURRENT: ContextVar[Options | None] = ContextVar("distributed_options", default=None)


@contextmanager
def options(
    client: Any = None,
    pass_timeout: float = 600.0,
    insecure: bool = False,
    fan_in: int | None = None,
) -> Iterator[None]:
    """Say which cluster the fits inside a ``with`` block use, and how.

    Results do not depend on any of it. Blocks may be nested; the inner one counts.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of the cluster; without one dask's current client.
    pass_timeout : float, default=600.0
        Seconds that one pass over the records may take, the first ones, which read the records,
        included. What takes longer is an error, `sklearn_dpwg.exceptions.DeadlineError`.
    insecure : bool, default=False
        Whether to accept connections without encryption beyond this machine: records and exact sums
        travel through them, and whoever reaches the scheduler can read both and run code.
    fan_in : int, optional
        Sums of how many workers one task adds where there are more; without it the client adds the
        sums of all.

    Yields
    ------
    None
        Nothing; the options count until the block is left.

    Raises
    ------
    TypeError
        If a parameter is of the wrong kind, as an address or an asynchronous client is.
    ValueError
        If `pass_timeout` is not positive and finite, or `fan_in` below 2.
    """
    if not isinstance(insecure, bool):
        raise TypeError(f"insecure must be True or False, got {insecure!r}.")
    if client is not None:
        check_client(client)
    token = _CURRENT.set(
        Options(
            client=client,
            pass_timeout=positive_finite(pass_timeout, "pass_timeout"),
            insecure=insecure,
            fan_in=None if fan_in is None else whole_number(fan_in, "fan_in", least=2),
        )
    )
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_options() -> Options:
    """Return the options of the innermost ``with`` block.

    Returns
    -------
    Options
        Its client, pass_timeout, insecure and fan_in.
    """
    return _CURRENT.get() or Options()


def engine() -> DaskEngine:
    """Return an engine for the cluster of the options, or else dask's current client.

    Returns
    -------
    DaskEngine
        The engine.

    Raises
    ------
    ValueError
        If there is no client, or a closed one, or the cluster's connections are not safe.
    """
    from distributed import Client

    from sklearn_dpwg.distributed.dask_engine import DaskEngine

    chosen = current_options()
    client = chosen.client
    if client is None:
        try:
            client = Client.current()
        except ValueError:
            raise ValueError(
                "There is no dask client: start one, client = distributed.Client(...), or pass it "
                "in sklearn_dpwg.distributed.options(client=client)."
            ) from None
    return DaskEngine(
        client,
        pass_timeout=chosen.pass_timeout,
        fan_in=chosen.fan_in,
        insecure=chosen.insecure,
    )
