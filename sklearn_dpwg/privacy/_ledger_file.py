"""The file in which processes reserve and commit what their fits cost."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.privacy._joint import joint_compositions
from sklearn_dpwg.privacy.accounting import composition_epsilon
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (epsilon REAL, delta REAL, is_open INTEGER);
CREATE TABLE IF NOT EXISTS fits (
    id INTEGER PRIMARY KEY, state TEXT, what TEXT, started TEXT, guarantee TEXT
);
"""
# A composition that is not plain Gaussian can take seconds, and others wait for it.
_SECONDS_TO_WAIT = 600.0


@dataclass(frozen=True)
class LedgerRow:
    """One fit: ``state`` is "spent", or "reserved" while it runs or if its process died."""

    state: str
    what: str
    started: str
    guarantee: PrivacyGuarantee


class LedgerFile:
    """A budget and what was charged to it, shared by processes of one machine."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create(self, epsilon: float, delta: float) -> None:
        """Make the file, or open one of the same budget again."""
        with self._connection() as connection:
            connection.executescript(_SCHEMA)
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT epsilon, delta, is_open FROM ledger").fetchone()
            if found is None:
                connection.execute("INSERT INTO ledger VALUES (?, ?, 1)", (epsilon, delta))
            elif found[:2] != (epsilon, delta):
                raise ValueError(
                    f"path holds a ledger of epsilon={found[0]:g} and delta={found[1]:g}, not of "
                    f"epsilon={epsilon:g} and delta={delta:g}."
                )
            else:
                connection.execute("UPDATE ledger SET is_open = 1")

    def close(self) -> None:
        """Accept no more fits."""
        with self._connection() as connection:
            connection.execute("UPDATE ledger SET is_open = 0")

    def is_open(self) -> bool:
        """Whether the file can be reached and accepts fits."""
        if not Path(self.path).exists():
            return False
        try:
            with self._connection() as connection:
                return bool(connection.execute("SELECT is_open FROM ledger").fetchone()[0])
        except (sqlite3.Error, TypeError):
            return False

    def rows(self) -> list[LedgerRow]:
        """Return every fit so far."""
        with self._connection() as connection:
            return _rows(connection)

    def insert(self, row: LedgerRow) -> None:
        """Write a row as it is."""
        with self._connection() as connection:
            _insert(connection, row)

    def reserve(self, guarantee: PrivacyGuarantee, what: str) -> int:
        """Charge a fit before it runs, or refuse it; return its number."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # others wait: what was read stays true
            epsilon, delta = connection.execute("SELECT epsilon, delta FROM ledger").fetchone()
            charged = [row.guarantee for row in _rows(connection)]
            total = total_epsilon([*charged, guarantee], delta)
            if total > epsilon:
                spent = total_epsilon(charged, delta)
                raise BudgetExceededError(
                    f"this fit (epsilon={guarantee.epsilon:.4g} at delta={guarantee.delta:g}) "
                    f"would bring the ledger to epsilon={total:.4g} at delta={delta:g}, above its "
                    f"epsilon={epsilon:g}; {len(charged)} fit(s) so far have epsilon={spent:.4g}. "
                    f"Nothing was spent."
                )
            started = datetime.now(UTC).isoformat(timespec="seconds")
            return _insert(connection, LedgerRow("reserved", what, started, guarantee))

    def settle(self, number: int, *, spent: bool) -> None:
        """Commit a reservation, or take it back where nothing was released."""
        with self._connection() as connection:
            if spent:
                connection.execute("UPDATE fits SET state = 'spent' WHERE id = ?", (number,))
            else:
                connection.execute("DELETE FROM fits WHERE id = ?", (number,))

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
        try:
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            connection.close()


def total_epsilon(guarantees: list[PrivacyGuarantee], delta: float) -> float:
    """Return ε at δ of all together."""
    for guarantee in guarantees:
        if guarantee.n_records != 1:
            raise ValueError("a ledger counts guarantees of one record, not of several together.")
    if any(not guarantee.is_private for guarantee in guarantees):
        return math.inf
    totals = joint_compositions(guarantee.events for guarantee in guarantees)
    return max(composition_epsilon(total, delta) for total in totals) if guarantees else 0.0


def _insert(connection: sqlite3.Connection, row: LedgerRow) -> int:
    written = connection.execute(
        "INSERT INTO fits (state, what, started, guarantee) VALUES (?, ?, ?, ?)",
        (row.state, row.what, row.started, row.guarantee.to_json()),
    )
    return int(written.lastrowid or 0)


def _rows(connection: sqlite3.Connection) -> list[LedgerRow]:
    found = connection.execute("SELECT state, what, started, guarantee FROM fits ORDER BY id")
    return [
        LedgerRow(state, what, started, PrivacyGuarantee.from_json(text))
        for state, what, started, text in found
    ]


def row_to_dict(row: LedgerRow) -> dict[str, object]:
    """Return plain values."""
    guarantee = json.loads(row.guarantee.to_json())
    return {"state": row.state, "what": row.what, "started": row.started, "guarantee": guarantee}


def row_from_dict(described: dict[str, str]) -> LedgerRow:
    """Return the row that `row_to_dict` described."""
    guarantee = PrivacyGuarantee.from_json(json.dumps(described["guarantee"]))
    return LedgerRow(described["state"], described["what"], described["started"], guarantee)
