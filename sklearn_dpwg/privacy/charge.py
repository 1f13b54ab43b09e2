"""How a fit is charged to the ledgers around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

from sklearn_dpwg.exceptions import LedgerUnreachableError
from sklearn_dpwg.privacy._ledger_file import LedgerFile
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee

# The open ledgers of this process, innermost last. Global and not of one thread or context, as
# the threads of a pool inherit neither.
_active: list[LedgerFile] = []
_lock = Lock()
_thread = local()


@contextmanager
def charge(guarantee: PrivacyGuarantee, noise: Any, what: str) -> Iterator[None]:
    """Charge what happens inside to every open ledger; refuse it before it starts.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        What the whole plan costs.
    noise : NoiseSource
        The source that the noise is drawn from, or whatever else lists its ``releases``: where
        there are none at a failure, nothing is charged.
    what : str
        Name of what is fitted, for the report.

    Yields
    ------
    None
        Once the fit may go on.

    Raises
    ------
    BudgetExceededError
        If a ledger has less left; nothing is charged to any ledger then.
    """
    reserved: list[tuple[LedgerFile, int]] = []
    try:
        for ledger in [] if getattr(_thread, "is_paid_for", False) else active_ledgers():
            reserved.append((ledger, ledger.reserve(guarantee, what)))  # noqa: PERF401
        yield
    except BaseException:
        for ledger, number in reserved:
            ledger.settle(number, spent=bool(noise.releases))
        raise
    for ledger, number in reserved:
        ledger.settle(number, spent=True)


@contextmanager
def paid_for() -> Iterator[None]:
    """Charge no fits of this thread inside: what happens around them is charged as a whole.

    Yields
    ------
    None
        Where the fits go.
    """
    before = getattr(_thread, "is_paid_for", False)
    _thread.is_paid_for = True
    try:
        yield
    finally:
        _thread.is_paid_for = before


def active_ledgers() -> list[LedgerFile]:
    """Return the open ledgers of this process, innermost last.

    Returns
    -------
    list of LedgerFile
        Those closed meanwhile, as in a worker that outlives them, are forgotten.
    """
    with _lock:
        _active[:] = [ledger for ledger in _active if ledger.is_open()]
        return list(_active)


def activate(path: str) -> None:
    """Charge the fits of this process to a ledger from now on.

    Parameters
    ----------
    path : str
        The ledger's file.
    """
    with _lock:
        if all(ledger.path != path for ledger in _active):
            _active.append(LedgerFile(path))


def deactivate(path: str) -> None:
    """Charge no more fits of this process to a ledger.

    Parameters
    ----------
    path : str
        The ledger's file.
    """
    with _lock:
        _active[:] = [ledger for ledger in _active if ledger.path != path]


def activate_from_pickle(paths: tuple[str, ...]) -> None:
    """Charge the fits of a process that was handed an estimator from inside a ledger.

    Parameters
    ----------
    paths : tuple of str
        Files of the ledgers that were open where the estimator was pickled.

    Raises
    ------
    LedgerUnreachableError
        If one is closed or on another machine.
    """
    for path in paths:
        if not LedgerFile(path).is_open():
            raise LedgerUnreachableError(
                "this estimator, not yet fitted, was pickled inside a PrivacyLedger that cannot "
                "be reached from here, so its fits would not be counted: in a ledger use joblib's "
                "backends loky, multiprocessing or threading, not one on other machines (dask, "
                "ray, spark); to store an estimator, fit it or pickle it outside the ledger."
            )
        activate(path)
