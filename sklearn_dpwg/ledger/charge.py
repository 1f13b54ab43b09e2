"""Charging of a fit to the ledgers around it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, local
from typing import Any
from uuid import uuid4

from sklearn_dpwg.exceptions import LedgerUnreachableError
from sklearn_dpwg.ledger.file import LedgerFile
from sklearn_dpwg.ledger.starts import StartCost
from sklearn_dpwg.privacy import PrivacyGuarantee

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
    before: Sequence[StartCost] = (),
) -> Iterator[None]:
    """Charge what happens inside to every open ledger; refuse it, charging none, before it starts.

    ``guarantee`` is what the whole plan costs. Where ``noise``, a NoiseSource or whatever else
    lists its ``draws``, has none at a failure, nothing is charged. ``what`` names the fit in the
    report; ``key`` names a plan that is run in several parts, so that a ledger that knows it is
    not charged again; ``is_paid`` says, as `take_payment` does, that something charged before
    holds the fit. Fits that happened ``before``, and that this one begins with, are charged too
    where a ledger does not know them. Raises BudgetExceededError if a ledger has less left,
    LedgerUnreachableError if a ledger's file is missing or broken.
    """
    key = uuid4().hex if key is None else key
    costs = [*before, *([] if is_paid else [StartCost(key, what, guarantee)])]
    reserved: list[tuple[LedgerFile, str]] = []
    try:
        for ledger in active_ledgers() if costs else []:
            for cost in costs:
                # a second block on the same file finds the key charged
                if ledger.reserve(cost.key, cost.guarantee, cost.what):
                    reserved.append((ledger, cost.key))  # noqa: PERF401
    except BaseException:
        for ledger, charged in reserved:
            ledger.settle(charged, spent=False)
        raise
    try:
        yield
    except BaseException:
        for ledger, charged in reserved:
            ledger.settle(charged, spent=bool(noise.draws))
        raise
    for ledger, charged in reserved:
        ledger.settle(charged, spent=True)


@contextmanager
def note_of_spending(
    is_spent: Callable[[], object], budget: Any, whose: str = "fit", what: str = "values"
) -> Iterator[None]:
    """Say in an error that ε and δ of a budget are spent, once something was released.

    How much was is not said: where a run fails may depend on the records.
    """
    try:
        yield
    except BaseException as error:
        if is_spent():
            error.add_note(
                f"Noisy {what} had been released before this error: count the budget of this "
                f"{whose}, epsilon={budget.epsilon:g} and delta={budget.delta:g}, as spent."
            )
        raise


@contextmanager
def paid_for(estimator: Any) -> Iterator[None]:
    """Charge one fit of this very object, in this thread, to nobody: what was charged holds it.

    Whatever else is fitted inside, by other steps, losses or callables, is charged.
    """
    before = getattr(_thread, "paid_for", None)
    _thread.paid_for = estimator
    try:
        yield
    finally:
        _thread.paid_for = before


def take_payment(estimator: Any) -> bool:
    """Return whether a fit that begins now is paid for: once inside `paid_for` of that object."""
    is_paid = getattr(_thread, "paid_for", None) is estimator
    if is_paid:
        _thread.paid_for = None
    return is_paid


def active_ledgers() -> list[LedgerFile]:
    """Return the open ledgers of this process, innermost last.

    Those whose block has ended, as in a worker that outlives it, are forgotten; where that cannot
    be known, LedgerUnreachableError is raised.
    """
    for ledger in list(_active):
        if not ledger.is_open():
            deactivate(ledger)
    return list(_active)


def activate(ledger: LedgerFile) -> None:
    """Charge the fits of this process, and of those that it starts, to a ledger from now on."""
    with _lock:
        if ledger not in _active:
            _active.append(ledger)
        _publish()


def deactivate(ledger: LedgerFile) -> None:
    """Charge no more fits of this process to a ledger."""
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
    """Return an estimator's state for a pickle, with the ledgers that count its fits."""
    return {**state, "_ledgers": _tokens()} if _active else {**state}


def join_ledgers(state: dict[str, Any]) -> dict[str, Any]:
    """Charge the fits of this process to the ledgers that a pickled state names, and take them out.

    Raises LedgerUnreachableError if the estimator was not fitted, so that it came to be fitted
    here, and a ledger has ended or cannot be reached. What a fitted one says is ignored then: it
    may be a stored model.
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
