"""Book of what several fits spend, in one SQLite file or in memory."""

from __future__ import annotations

import logging
import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from sklearn_dpwg.exceptions import BudgetExceededError, InputError
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.folds import SEVERAL_FITS
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Relation, joint_guarantee
from sklearn_dpwg.privacy.statement import cost_of, rounded_up

if TYPE_CHECKING:
    import pandas as pd

_LOG = logging.getLogger(__name__)
_TABLES = (
    "CREATE TABLE IF NOT EXISTS budget (epsilon REAL, delta REAL, neighbours TEXT)",
    "CREATE TABLE IF NOT EXISTS entries "
    "(guarantee TEXT, key TEXT UNIQUE, state TEXT, what TEXT, started TEXT)",
)
# A composition that is not plain Gaussian can take seconds, and others wait for it.
_SECONDS_TO_WAIT = 600.0

ELSEWHERE = "fits in other processes, which count where they open a ledger of the same file"

# The open ledgers of this process: of all its threads, as those of a pool inherit no context.
_open_ledgers: list[PrivacyLedger] = []


@dataclass(frozen=True)
class LedgerRow:
    """One entry: ``state`` is "spent", or "reserved" while it runs or if its process died."""

    guarantee: PrivacyGuarantee
    key: str
    state: str
    what: str
    started: str


@contextmanager
def spending(
    guarantee: PrivacyGuarantee,
    noise: Any,
    what: str,
    budget: Any,
    *,
    whose: str = "fit",
    values: str = "values",
    also: Sequence[object] = (),
    key: str | None = None,
    is_paid: bool = False,
    before: Sequence[StartCost] = (),
) -> Iterator[None]:
    """Charge the block inside to every open ledger, or raise before it starts and charge none.

    At a failure nothing is charged if ``noise`` lists no ``draws``; else, or if something ``also``
    was released, the error says that the whole budget is spent, as where a run fails may depend on
    the records. A ``key`` names a plan that runs in several parts and is charged once; ``is_paid``
    says that something charged holds the fit. Fits ``before``, with which it begins, stay spent.
    """
    key = uuid4().hex if key is None else key
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [LedgerRow(cost.guarantee, cost.key, "spent", cost.what, now) for cost in before]
    if not is_paid:
        rows.append(LedgerRow(guarantee, key, "reserved", what, now))
    charged = _charge(rows, key) if rows else []
    is_spent = False
    try:
        yield
        is_spent = True
    except BaseException as error:
        if noise.draws or also:
            error.add_note(
                f"Noisy {values} had been released before this error: count the budget of this "
                f"{whose}, {cost_of(budget)}, as spent."
            )
        raise
    finally:
        for ledger in charged:
            ledger._settle(key, spent=is_spent or bool(noise.draws))
    if not is_paid:  # how many fits a search makes is secret
        stated = f"{cost_of(guarantee)}, {guarantee.relation}"
        seeded = ", void for whoever knows the seed" if guarantee.seeded else ""
        _LOG.info("%s: %s of %s%s", what, whose, stated, seeded)


def _charge(rows: Sequence[LedgerRow], key: str) -> list[PrivacyLedger]:
    """Charge rows to every open ledger, or to none; return the ledgers in which `key` is new."""
    ledger_of_place = {ledger._place: ledger for ledger in list(_open_ledgers)}
    with ExitStack() as all_or_none:  # locked in sorted order, so that no two fits deadlock
        return [
            ledger
            for _, ledger in sorted(ledger_of_place.items())
            if key in ledger._reserve(all_or_none.enter_context(ledger._transaction()), rows)
        ]


class PrivacyLedger:
    """Count what is spent in a ``with`` block, and refuse what would exceed one budget.

    Every private fit, audit, threshold, calibration and search in any thread of this process is
    charged before its first release, or refused with nothing spent. What fails before its first
    release is taken back; what fails later stays charged.

    Parameters
    ----------
    epsilon, delta : float
        ε and δ of all entries together.
    path : str or Path, optional
        SQLite file to keep the ledger in, made if it is not there; other processes and later
        sessions open the same path. By default it lives as long as this object.
    neighbours : {None, "replace-one-within-group", "replace-one", "add-or-remove"}, default=None
        Neighbours that everything must have a guarantee for, or be refused. The default None takes
        every guarantee, and states all of them under the weakest, or what its file demands.

    Notes
    -----
    Costs are composed as events, not by adding ε, at the ledger's δ: the same noise has a smaller ε
    at a larger δ. All entries count as if they had read the same records. Those that say
    `rows_per_person` are added up for a person, each by its own number, and not to those of rows.

    Fits may be chosen by the results of earlier ones: for Gaussian releases stopping at a budget is
    as good as composition fixed in advance (Smith and Thakurta 2022, "Fully Adaptive Composition
    for Gaussian Differential Privacy"), and else the total is proved for fits whose parameters were
    fixed in advance. It holds where public facts chose the records, as `PublicKFold` does.

    A fit in another process is not counted, unless that process opens the same path, nor is what
    other libraries learn. Where ``partial_fit`` goes on, its whole plan is charged, once.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPAUCClassifier
    >>> from sklearn_dpwg.ledger import PrivacyLedger
    >>> X, y = np.full((4000, 1), 0.5), np.arange(4000) % 2
    >>> with PrivacyLedger(epsilon=2.0, delta=1e-6) as ledger:
    ...     for _ in range(3):
    ...         _ = DPAUCClassifier(1.0, data_norm=1.0).fit(X, y)
    >>> round(ledger.epsilon_spent, 2)  # three of epsilon 1, at the same delta
    1.81
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        path: str | os.PathLike[str] | None = None,
        neighbours: Relation | str | None = None,
    ) -> None:
        budget = Budget(epsilon, delta)
        self.epsilon, self.delta, self.path = budget.epsilon, budget.delta, path
        self._place = f"memory {id(self)}" if path is None else os.path.realpath(path)
        self._memory = _connection(":memory:") if path is None else None
        if self._memory is not None:
            weakref.finalize(self, self._memory.close)
        self._lock = RLock()  # all threads share the one in memory
        demand = None if neighbours is None else Relation(neighbours).short_name
        with self._transaction() as connection:
            for table in _TABLES:
                connection.execute(table)
            kept = connection.execute("SELECT * FROM budget").fetchone()
            if kept is None:
                kept = (self.epsilon, self.delta, demand)
                connection.execute("INSERT INTO budget VALUES (?, ?, ?)", kept)
            if kept[:2] != (self.epsilon, self.delta) or demand not in (None, kept[2]):
                raise InputError(
                    f"path must hold a ledger of epsilon={self.epsilon}, delta={self.delta}, "
                    f"neighbours={demand!r}, as asked for, got one of epsilon={kept[0]}, "
                    f"delta={kept[1]}, neighbours={kept[2]!r}."
                )
        self.neighbours = None if kept[2] is None else Relation(kept[2])

    def __enter__(self) -> Self:
        """Count from now on."""
        _open_ledgers.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        """Count no more; what was charged stays charged."""
        _open_ledgers.remove(self)

    @property
    def rows(self) -> list[LedgerRow]:
        """Every entry, in order."""
        with self._transaction() as connection:
            return _rows(connection)

    @property
    def epsilon_spent(self) -> float:
        """What all entries cost together: ε at the ledger's δ."""
        return self._total(self.rows)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What all entries promise together, at the ledger's δ; print it for the words."""
        rows = self.rows
        joint, several = self._joint(rows), (SEVERAL_FITS,) if len(rows) > 1 else ()
        return replace(joint, outside=(*joint.outside, *several, ELSEWHERE))

    def report(self) -> pd.DataFrame:
        """List the entries.

        Returns
        -------
        DataFrame
            A row an entry: what it was, when it started, whether it is "spent" or still "reserved",
            its ε and δ, the unit that they are for, whether its noise came from a seed, and ε of
            all up to it, at the ledger's δ.
        """
        import pandas as pd

        rows = self.rows
        table = pd.DataFrame([vars(row) for row in rows], columns=["what", "started", "state"])
        for name in ("epsilon", "delta", "unit", "seeded"):
            table[name] = [getattr(row.guarantee, name) for row in rows]
        table["total_epsilon"] = [self._total(rows[: i + 1]) for i in range(len(rows))]
        return table

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger(epsilon={rounded_up(self.epsilon)}, delta={rounded_up(self.delta)}): "
            f"{len(self.rows)} entries, epsilon={rounded_up(self.epsilon_spent)} spent"
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that no other process or thread shares; an error rolls back."""
        if self._memory is None:
            opened: Any = closing(_connection(self._place))
        else:
            opened = nullcontext(self._memory)
        with self._lock, opened as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def _reserve(self, connection: sqlite3.Connection, rows: Sequence[LedgerRow]) -> list[str]:
        """Write rows of new keys, or raise if they exceed the budget; return the new keys."""
        charged = {row.key: row for row in _rows(connection)}
        new: dict[str, LedgerRow] = {}
        for row in rows:
            if row.key in charged:  # spent, not reserved: another fit starts from this one
                connection.execute("UPDATE entries SET state = 'spent' WHERE key = ?", (row.key,))
            else:
                new.setdefault(row.key, row)
        before, added = list(charged.values()), list(new.values())
        total = self._total([*before, *added]) if added else 0.0
        if total > self.epsilon:
            starts = f" with {len(added) - 1} start(s)" if added[1:] else ""
            cost = added[-1].guarantee
            raise BudgetExceededError(
                f"{added[-1].what} of {cost_of(cost)}"
                f"{starts} would bring the ledger from epsilon={rounded_up(self._total(before))} "
                f"to {rounded_up(total)} at delta={rounded_up(self.delta)}, above its "
                f"epsilon={rounded_up(self.epsilon)}. Nothing was spent."
            )
        for row in new.values():
            values = (row.guarantee.to_json(), row.key, row.state, row.what, row.started)
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", values)
        return list(new)

    def _settle(self, key: str, *, spent: bool) -> None:
        """Mark a reserved entry as spent, or delete it if nothing was released."""
        change = "UPDATE entries SET state = 'spent'" if spent else "DELETE FROM entries"
        with self._transaction() as connection:
            connection.execute(f"{change} WHERE key = ? AND state = 'reserved'", (key,))

    def _total(self, rows: Sequence[LedgerRow]) -> float:
        return self._joint(rows).epsilon if rows else 0.0

    def _joint(self, rows: Sequence[LedgerRow]) -> PrivacyGuarantee:
        """Return the joint guarantee of rows at the ledger's δ, for its `neighbours`."""
        each = [row.guarantee for row in rows]
        if self.neighbours is not None:
            each = [guarantee.under(self.neighbours) for guarantee in each]
        return joint_guarantee(each, self.delta)


def _connection(place: str) -> sqlite3.Connection:
    settings: Any = {"isolation_level": None, "check_same_thread": False}
    return sqlite3.connect(place, timeout=_SECONDS_TO_WAIT, **settings)


def _rows(connection: sqlite3.Connection) -> list[LedgerRow]:
    stored = connection.execute("SELECT * FROM entries ORDER BY rowid")
    return [LedgerRow(PrivacyGuarantee.from_json(text), *row) for text, *row in stored]
