"""File in which processes reserve and commit what their fits cost."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sklearn_dpwg._version import __version__
from sklearn_dpwg.exceptions import BudgetExceededError, InputError, LedgerUnreachableError
from sklearn_dpwg.privacy import PrivacyGuarantee, Relation, joint_guarantee
from sklearn_dpwg.privacy.accounting.loss_distribution import scaled_event
from sklearn_dpwg.privacy.statement import rounded_up

# What changes tables or their meaning raises the format. A file of before it had one has 0.
_FORMAT = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS writers (version TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS ledger (epsilon REAL, delta REAL);
CREATE TABLE IF NOT EXISTS demands (neighbours TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS blocks (id TEXT PRIMARY KEY, is_open INTEGER);
CREATE TABLE IF NOT EXISTS fits (
    id INTEGER PRIMARY KEY, state TEXT, what TEXT, started TEXT, guarantee TEXT, key TEXT UNIQUE
);
INSERT OR IGNORE INTO writers VALUES ('{__version__}');
PRAGMA user_version = {_FORMAT};
"""
_FITS = "SELECT id, state, what, started, guarantee, key FROM fits ORDER BY id"
# A composition that is not plain Gaussian can take seconds, and others wait for it.
_SECONDS_TO_WAIT = 600.0
# Of what is left noise up to so many times as loud is tried, in so many steps.
_LOUDEST, _N_HALVINGS = 64.0, 10


@dataclass(frozen=True)
class LedgerRow:
    """One fit: ``state`` is "spent", or "reserved" while it runs or if its process died.

    The file keeps a third, "taken back", of fits that released nothing; no row is made of them.
    """

    state: str
    what: str
    started: str
    guarantee: PrivacyGuarantee
    key: str

    @property
    def kind(self) -> str:
        """What it is in words: a fit, or an audit."""
        return "audit" if self.what == "GroupAudit" else "fit"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "guarantee": json.loads(self.guarantee.to_json())}

    @classmethod
    def from_dict(cls, described: dict[str, Any]) -> LedgerRow:
        """Return the row that `to_dict` described."""
        guarantee = PrivacyGuarantee.from_json(json.dumps(described["guarantee"]))
        return cls(**{**described, "guarantee": guarantee})


def counted(rows: Sequence[LedgerRow]) -> str:
    """Return how many fits and audits there are, in words."""
    n_audits = sum(row.kind == "audit" for row in rows)
    named = [(len(rows) - n_audits, "fit"), (n_audits, "audit")]
    found = [f"{n} {name}(s)" for n, name in named if n]
    return " and ".join(found) or "0 fit(s)"


@dataclass(frozen=True)
class LedgerFile:
    """A budget and what was charged to it, as one ``with`` block sees it.

    Whatever cannot be read or written raises LedgerUnreachableError: a ledger never stops counting
    in silence. Several blocks, of any sessions, may be open on one file. Rows are only added, and
    what was ``seen`` of them must still be so, or an older copy is in the file's place.
    """

    path: str  # absolute path, on this machine
    block: str
    # the process whose block it is. It knows itself when the block ends; others ask the file
    owner: int | None = field(default=None, compare=False)
    seen: set[tuple[Any, ...]] = field(default_factory=set, compare=False, repr=False)

    def open_block(self, epsilon: float, delta: float, neighbours: Relation | None = None) -> None:
        """Make the file, or open one of the same budget again, for a block and its demand."""
        with self._connection(mode="rwc") as connection:
            connection.executescript(_SCHEMA)
            connection.execute("BEGIN IMMEDIATE")
            found = _budget(connection)
            if found is None:
                connection.execute("INSERT INTO ledger VALUES (?, ?)", (epsilon, delta))
            elif found != (epsilon, delta):
                raise InputError(
                    f"path holds a ledger of epsilon={found[0]:g} and delta={found[1]:g}, not of "
                    f"epsilon={epsilon:g} and delta={delta:g}."
                )
            connection.execute("INSERT INTO blocks VALUES (?, 1)", (self.block,))
            rows = self._rows(connection)
            if neighbours is not None:
                for row in rows:
                    row.guarantee.under(neighbours)
                connection.execute("INSERT OR IGNORE INTO demands VALUES (?)", (str(neighbours),))

    def close_block(self) -> None:
        """Let other processes know that the block has ended; a forked copy of it says nothing."""
        if self.owner == os.getpid():
            with self._connection() as connection:
                connection.execute("UPDATE blocks SET is_open = 0 WHERE id = ?", (self.block,))
                self._look(connection)

    def is_open(self) -> bool:
        """Whether the block goes on."""
        if self.owner == os.getpid():
            return True
        with self._connection() as connection:
            return self._says_open(connection)

    def budget(self) -> tuple[float, float]:
        """Return ε and δ."""
        with self._connection("ro") as connection:
            found = _budget(connection)
        if found is None:
            raise self._unreachable("it holds no budget")
        return float(found[0]), float(found[1])

    def rows(self) -> list[LedgerRow]:
        """Return every fit so far, but those that were taken back."""
        with self._connection("ro") as connection:
            return self._rows(connection)

    def demand(self) -> Relation | None:
        """Return the strongest relation that a block asked for."""
        with self._connection("ro") as connection:
            return _demand(connection)

    def insert(self, row: LedgerRow) -> None:
        """Write a row as it is."""
        with self._connection() as connection:
            _insert(connection, row)

    @contextmanager
    def reserving(self, rows: Sequence[LedgerRow]) -> Iterator[list[str]]:
        """Charge rows of new keys together, or refuse them; yield these keys.

        They are in the file once what is inside went well. Rows of known keys are spent from now
        on: whoever reserved one may not take back what another relies on.
        """
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # others wait: what was read stays true
            charged = {row.key: row for row in self._rows(connection)}
            known = [(row.key,) for row in rows if row.key in charged]
            new: dict[str, LedgerRow] = {}
            for row in rows:
                if row.key not in charged:
                    new.setdefault(row.key, row)
            connection.executemany("UPDATE fits SET state = 'spent' WHERE key = ?", known)
            if new:
                _refuse_overspending(connection, list(charged.values()), list(new.values()))
            for row in new.values():
                _insert(connection, row)
            yield list(new)
            facts = _facts(connection.execute(_FITS))
        self.seen.update(facts)

    def refuse(self, row: LedgerRow, parts: str) -> None:
        """Refuse what is charged in parts as a whole, if the whole would overspend."""
        with self._connection() as connection:
            _refuse_overspending(connection, self._rows(connection), [row], parts)

    def settle(self, key: str, *, spent: bool) -> None:
        """Commit a reservation, or take it back where nothing was released or relies on it."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._look(connection)
            change = "state = 'spent'" if spent else "state = 'taken back', key = NULL"
            connection.execute(
                f"UPDATE fits SET {change} WHERE key = ? AND state = 'reserved'", (key,)
            )

    def _rows(self, connection: sqlite3.Connection) -> list[LedgerRow]:
        return [
            LedgerRow(state, what, started, PrivacyGuarantee.from_json(text), key)
            for _, state, what, started, text, key in self._look(connection)
            if state != "taken back"
        ]

    def _look(self, connection: sqlite3.Connection) -> list[Any]:
        """Read all rows as they are, and remember them."""
        self._require_format(connection)
        if self.block:
            self._says_open(connection)  # another file in this place would not
        before = self.seen.copy()  # other threads may see more meanwhile
        found = connection.execute(_FITS).fetchall()
        facts = _facts(found)
        if not before <= facts:
            raise self._unreachable(
                "rows that were charged are missing or changed: an older copy may be in its place"
            )
        self.seen.update(facts)
        return found

    def _says_open(self, connection: sqlite3.Connection) -> bool:
        query = "SELECT is_open FROM blocks WHERE id = ?"
        found = connection.execute(query, (self.block,)).fetchone()
        if found is None:
            raise self._unreachable("it is not the file in which the ledger was opened")
        return bool(found[0])

    @contextmanager
    def _connection(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        connection = None
        try:
            connection = sqlite3.connect(
                # "rw": a file that is gone is not made anew
                f"{Path(self.path).as_uri()}?mode={mode}",
                uri=True,
                timeout=_SECONDS_TO_WAIT,
                isolation_level=None,
            )
            self._require_format(connection)
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
        except BaseException as error:
            if connection is not None and connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._unreachable(str(error)) from error
            raise
        finally:
            if connection is not None:
                connection.close()

    def _require_format(self, connection: sqlite3.Connection) -> None:
        """Refuse what another version counts otherwise; nothing was read or charged."""
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found in (0, _FORMAT):
            return
        try:
            query = "SELECT version FROM writers ORDER BY rowid DESC"
            writer = connection.execute(query).fetchone()[0]
        except (sqlite3.Error, TypeError):
            writer = None
        raise self._unreachable(
            f"sklearn-dpwg {writer} wrote it in format {found}, and {__version__} knows "
            f"format {_FORMAT}: go on with the version that wrote it"
        )

    def _unreachable(self, reason: str) -> LedgerUnreachableError:
        return LedgerUnreachableError(
            f"the ledger's file {self.path!r} cannot be used ({reason}), so a fit could not be "
            f"counted: it must stay in its place, readable and writable, for as long as a block or "
            f"a process that was started in it fits."
        )


def total_epsilon(
    guarantees: list[PrivacyGuarantee], delta: float, neighbours: Relation | None = None
) -> float:
    """Return ε at δ of all together, for the neighbours that are asked for."""
    numbers = sorted({guarantee.records_per_person for guarantee in guarantees})
    if len(numbers) > 1 and not all(guarantee.of_person for guarantee in guarantees):
        raise InputError(
            f"a ledger counts guarantees for equally many records of a person, got {numbers!r}: "
            f"set rows_per_person={numbers[-1]} everywhere."
        )
    if neighbours is not None:
        guarantees = [guarantee.under(neighbours) for guarantee in guarantees]
    return joint_guarantee(guarantees, delta).epsilon if guarantees else 0.0


def _insert(connection: sqlite3.Connection, row: LedgerRow) -> None:
    connection.execute(
        "INSERT INTO fits (state, what, started, guarantee, key) VALUES (?, ?, ?, ?, ?)",
        (row.state, row.what, row.started, row.guarantee.to_json(), row.key),
    )


def _budget(connection: sqlite3.Connection) -> Any:
    return connection.execute("SELECT epsilon, delta FROM ledger").fetchone()


def _demand(connection: sqlite3.Connection) -> Relation | None:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'demands'").fetchone()
    # a file of an earlier version has no such table until it is opened
    found = connection.execute("SELECT neighbours FROM demands").fetchall() if known else []
    return min((Relation(said) for (said,) in found), default=None)


def _facts(found: Iterable[Any]) -> set[tuple[Any, ...]]:
    """Return what stays true of rows: what was charged, and how it ended, once it has."""
    facts: set[tuple[Any, ...]] = set()
    for number, state, what, started, guarantee, key in found:
        facts.add((number, hash((what, started, guarantee))))
        if state != "reserved":
            facts.add((number, state, key))
    return facts


def _refuse_overspending(
    connection: sqlite3.Connection,
    charged: list[LedgerRow],
    new: list[LedgerRow],
    parts: str = "",
) -> None:
    """Refuse a fit, last of what is new, if all together would exceed the budget."""
    (epsilon, delta), demand = _budget(connection), _demand(connection)
    before, last = [row.guarantee for row in charged], new[-1]
    try:
        total = total_epsilon([*before, *(row.guarantee for row in new)], delta, demand)
    except ValueError as error:  # the unit of another fit, one of the same pipeline perhaps
        spent = total_epsilon(before, delta, demand)
        raise InputError(
            f"{error} This {last.kind} spent nothing; the ledger holds {counted(charged)}, "
            f"epsilon={rounded_up(spent)} at delta={delta:g}, which stay charged."
        ) from None
    if total > epsilon:
        spent = total_epsilon(before, delta, demand)
        begun = f", with {len(new) - 1} private fit(s) that it began with," if new[1:] else ""
        raise BudgetExceededError(
            f"this {last.kind} (epsilon={rounded_up(last.guarantee.epsilon)} at "
            f"delta={last.guarantee.delta:g}{parts}){begun} "
            f"would bring the ledger to epsilon={rounded_up(total)} at delta={delta:g}, above its "
            f"epsilon={epsilon:g}; {counted(charged)} so far have epsilon={rounded_up(spent)}"
            f"{_left(before, last.guarantee, epsilon, delta, demand)}. Nothing was spent."
        )


def _left(before: list[PrivacyGuarantee], last: PrivacyGuarantee, most: float, *at: Any) -> str:
    """Say about which ε is left for what is like the last, by noise that is louder alone."""

    def louder(factor: float) -> PrivacyGuarantee:
        events = [scaled_event(event, factor) for event in last.events]
        alone = PrivacyGuarantee.from_events(events, last.delta, relation=last.relation)
        return replace(last, epsilon=alone.epsilon, events=alone.events)

    # noise so loud would be of no use
    least, enough = 1.0, _LOUDEST
    if not (before and last.is_private) or total_epsilon([*before, louder(enough)], *at) > most:
        return ""
    for _ in range(_N_HALVINGS):
        middle = math.sqrt(least * enough)
        fits = total_epsilon([*before, louder(middle)], *at) <= most
        least, enough = (least, middle) if fits else (middle, enough)
    left = louder(enough).epsilon
    if not left > 0.0:
        return ""
    unit = 10.0 ** (math.floor(math.log10(left)) - 2)
    return f", which leaves about {math.floor(left / unit) * unit:.3g} for one like it"
