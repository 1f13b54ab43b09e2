"""How a fit is charged to the ledgers around it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any
from uuid import uuid4

from sklearn_dpwg.exceptions import LedgerUnreachableError
from sklearn_dpwg.ledger.file import LedgerFile
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee

# Tells the processes that are started inside a ledger of it, whoever starts them.
_VARIABLE = "SKLEARN_DPWG_LEDGERS"

# The open blocks that count the fits of this process, innermost last. Global and not of one
# thread or context, as the threads of a pool inherit neither.
_active = [LedgerFile(*token) for token in json.loads(os.environ.get(_VARIABLE, "[]"))]
_lock = Lock()
_thread = local()


@contextmanager
def charge(
    guarantee: PrivacyGuarantee,
    noise: Any,
    what: str,
    key: str | None = None,
    *,
    is_paid: bool = False,
) -> Iterator[None]:
    """Charge what happens inside to every open ledger; refuse it before it starts.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        What the whole plan costs.
    noise : NoiseSource
        The source that the noise is drawn from, or whatever else lists its ``draws``: where
        there are none at a failure, nothing is charged.
    what : str
        Name of what is fitted, for the report.
    key : str, optional
        Name of a plan that is run in several parts: a ledger that knows it is not charged again.
    is_paid : bool, default=False
        Whether it is a part of something that was charged, as `take_payment` says.

    Yields
    ------
    None
        Once the fit may go on.

    Raises
    ------
    BudgetExceededError
        If a ledger has less left; nothing is charged to any ledger then.
    LedgerUnreachableError
        If a ledger's file is missing or broken.
    """
    key = uuid4().hex if key is None else key
    reserved: list[LedgerFile] = []
    try:
        for ledger in [] if is_paid else active_ledgers():
            # a second block on the same file finds the key charged
            if ledger.reserve(key, guarantee, what):
                reserved.append(ledger)  # noqa: PERF401
    except BaseException:
        for ledger in reserved:
            ledger.settle(key, spent=False)
        raise
    try:
        yield
    except BaseException:
        for ledger in reserved:
            ledger.settle(key, spent=bool(noise.draws))
        raise
    for ledger in reserved:
        ledger.settle(key, spent=True)


@contextmanager
def paid_for(estimator: Any) -> Iterator[None]:
    """Charge one fit of an estimator inside to nobody, as it is a part of what was charged.

    Whatever else is fitted, by other steps, losses or callables, is charged.

    Parameters
    ----------
    estimator : object
        The very object whose fit is paid for, in this thread.

    Yields
    ------
    None
        Where it is fitted.
    """
    before = getattr(_thread, "paid_for", None)
    _thread.paid_for = estimator
    try:
        yield
    finally:
        _thread.paid_for = before


def take_payment(estimator: Any) -> bool:
    """Return whether a fit that begins now is paid for; the next one of the same object is not.

    Parameters
    ----------
    estimator : object
        What is fitted.

    Returns
    -------
    bool
        True once inside `paid_for` of that object.
    """
    is_paid = getattr(_thread, "paid_for", None) is estimator
    if is_paid:
        _thread.paid_for = None
    return is_paid


def active_ledgers() -> list[LedgerFile]:
    """Return the open ledgers of this process, innermost last.

    Returns
    -------
    list of LedgerFile
        Those whose block has ended, as in a worker that outlives it, are forgotten.

    Raises
    ------
    LedgerUnreachableError
        If it cannot be known whether a block has ended.
    """
    for ledger in list(_active):
        if not ledger.is_open():
            deactivate(ledger)
    return list(_active)


def activate(ledger: LedgerFile) -> None:
    """Charge the fits of this process, and of those that it starts, to a ledger from now on.

    Parameters
    ----------
    ledger : LedgerFile
        The ledger's file, with the block.
    """
    with _lock:
        if ledger not in _active:
            _active.append(ledger)
        _publish()


def deactivate(ledger: LedgerFile) -> None:
    """Charge no more fits of this process to a ledger.

    Parameters
    ----------
    ledger : LedgerFile
        The ledger's file, with the block that has ended.
    """
    with _lock:
        if ledger in _active:
            _active.remove(ledger)
        _publish()


def _publish() -> None:
    if _active:
        os.environ[_VARIABLE] = json.dumps(_tokens())
    else:
        os.environ.pop(_VARIABLE, None)


def _tokens() -> tuple[tuple[str, str], ...]:
    return tuple((ledger.path, ledger.block) for ledger in list(_active))


def with_ledgers(state: Any) -> dict[str, Any]:
    """Return an estimator's state for a pickle, with the ledgers that count its fits.

    Parameters
    ----------
    state : dict
        The state without them.

    Returns
    -------
    dict
        A new one.
    """
    return {**state, "_ledgers": _tokens()} if _active else {**state}


def join_ledgers(state: dict[str, Any]) -> dict[str, Any]:
    """Charge the fits of this process to the ledgers that an estimator's state names.

    Parameters
    ----------
    state : dict
        The state from a pickle.

    Returns
    -------
    dict
        The state without them.

    Raises
    ------
    LedgerUnreachableError
        If the estimator was not fitted, so that it came to be fitted here, and a ledger has
        ended or cannot be reached. A fitted one may be a stored model: that it says is ignored.
    """
    state = dict(state)
    for token in state.pop("_ledgers", ()):
        ledger = LedgerFile(*token)
        if ledger in _active:
            continue
        try:
            is_open = ledger.is_open()
        except LedgerUnreachableError:
            is_open = False
        if is_open:
            activate(ledger)
        elif "privacy_" not in state:
            raise LedgerUnreachableError(
                "this estimator, not yet fitted, was pickled inside a PrivacyLedger that cannot "
                "be reached from here, so its fits would not be counted: in a ledger use joblib's "
                "backends loky, multiprocessing or threading, not one on other machines (dask, "
                "ray, spark); to store an estimator, fit it or pickle it outside the ledger."
            )
    return state
