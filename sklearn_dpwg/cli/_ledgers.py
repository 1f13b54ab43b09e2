"""Ledger files around a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sklearn_dpwg.cli._answers import WrongInput

if TYPE_CHECKING:
    from sklearn_dpwg.ledger import PrivacyLedger


def ledger_around(
    path: Path | None, epsilon: float | None, delta: float | None
) -> PrivacyLedger | None:
    """Return a ledger to work in, or None where none is asked for.

    A file that is there knows its budget, and a new one has to be told.
    """
    if path is None:
        if epsilon is not None or delta is not None:
            raise WrongInput("ledger must be named, as --ledger FILE, where it is given a budget.")
        return None
    from sklearn_dpwg.ledger import PrivacyLedger
    from sklearn_dpwg.ledger.file import LedgerFile

    if path.exists():
        stated = LedgerFile(str(path.resolve()), "").budget()
        epsilon, delta = (
            stated[0] if epsilon is None else epsilon,
            stated[1] if delta is None else delta,
        )
    if epsilon is None or delta is None:
        raise WrongInput(
            f"ledger {path} is not there yet: say --ledger-epsilon and --ledger-delta, the budget "
            f"of all that will ever be spent on these records."
        )
    if not path.resolve().parent.is_dir():
        raise WrongInput(f"{path} must be in a folder that is there.")
    return PrivacyLedger(epsilon, delta, path=path)
