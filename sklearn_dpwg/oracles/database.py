"""Records that stay in a database until they are drawn."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.oracles.base import SampleOracle


class DatabaseOracle(SampleOracle):
    """Draws from a table of an SQLite database, each row once, in random order.

    When a group is first asked for, its keys are written to a temporary table in random order; a
    draw then fetches its rows by key. Neither keys nor rows are ever in memory together.

    Parameters
    ----------
    database : path or sqlite3.Connection
        A file, which is opened for reading only, or an open connection, which stays open.
    table : str
        Name of the table or view.
    features : sequence of str
        Columns of numbers, in the order of the columns of X.
    target : str
        Column of y.
    groups : str or sequence of str
        Column of the group's label, or several, whose labels are tuples.
    key : str, default="rowid"
        Column whose values are unique; SQLite's own row number by default.
    random_state : int, Generator or None, default=None
        Where the order comes from.

    Raises
    ------
    ValueError
        If there is no such table or column.

    Notes
    -----
    The table must not change meanwhile. A row that is gone when its turn comes, or a key that is
    not unique, is an `OracleError`. Temporary tables take 8 to 20 bytes a row, on disk
    where they are large. Use it as a context manager, or call `close`.

    Examples
    --------
    >>> import sqlite3
    >>> from sklearn_dpwg.oracles import DatabaseOracle
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("create table visits (age, dose, cured, clinic)")
    >>> _ = connection.executemany(
    ...     "insert into visits values (?, ?, ?, ?)",
    ...     [(0.3, 0.1, 1, "east"), (0.4, 0.7, 0, "west"), (0.2, 0.9, 1, "east")],
    ... )
    >>> oracle = DatabaseOracle(
    ...     connection, "visits", features=["age", "dose"], target="cured", groups="clinic"
    ... )
    >>> oracle.group_sizes
    {'east': 2, 'west': 1}
    >>> oracle.draw("west", 1)
    (array([[0.4, 0.7]]), array([0]))
    """

    def __init__(
        self,
        database: str | Path | sqlite3.Connection,
        table: str,
        *,
        features: Sequence[str],
        target: str,
        groups: str | Sequence[str],
        key: str = "rowid",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        if isinstance(features, str) or not features:
            raise ValueError(f"features must be a sequence of column names, got {features!r}.")
        self._rng = np.random.default_rng(random_state)
        self._owns_connection = not isinstance(database, sqlite3.Connection)
        if isinstance(database, sqlite3.Connection):
            self._connection = database
        else:
            path = Path(database).absolute()
            if not path.exists():
                raise ValueError(f"database must be an existing file, got {str(database)!r}.")
            self._connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        self._one_column = isinstance(groups, str)
        group_columns = [groups] if isinstance(groups, str) else list(groups)
        self._table, self._key = _quoted(table), _quoted(key)
        self._groups = [_quoted(column) for column in group_columns]
        self._columns = [_quoted(column) for column in [*features, target]]
        self._n_given: dict[Hashable, int] = {}
        self._orders: dict[Hashable, str] = {}
        try:
            self._check_columns([key, *group_columns, *features, target], table)
        except BaseException:
            self.close()
            raise

    @property
    def group_sizes(self) -> dict[Hashable, int]:
        """Rows of each group, drawn or not: a public fact, found by one query."""
        columns = ", ".join(self._groups)
        query = f"select {columns}, count(*) from {self._table} group by {columns}"
        query += f" order by {columns}"
        rows = self._connection.execute(query).fetchall()
        if any(cell is None for row in rows for cell in row):
            raise ValueError(
                f"groups must be known for every row, got NULL in "
                f"{sum(row[-1] for row in rows if None in row):,} row(s) of {self._table}."
            )
        return {row[0] if self._one_column else tuple(row[:-1]): row[-1] for row in rows}

    def draw(self, group: Hashable, size: int) -> tuple[FloatArray, NDArray[Any]]:
        """Return rows of one group that were never given before.

        Parameters
        ----------
        group : hashable
            Label of the group, a tuple where there are several columns.
        size : int
            How many.

        Returns
        -------
        X : ndarray of shape (size, n_features)
            Rows; NULL is NaN.
        y : ndarray of shape (size,)
            Targets.

        Raises
        ------
        OracleError
            If there are not as many left, or the table has changed.
        """
        order = self._order_of(group)
        start = self._n_given[group]
        columns = ", ".join(f"t.{column}" for column in self._columns)
        found = self._connection.execute(
            f"select {columns} from {order} as o join {self._table} as t on t.{self._key} = o.key "
            "where o.position > ? and o.position <= ? order by o.position",
            (start, start + size),
        ).fetchall()
        if len(found) != size:
            raise OracleError(
                f"group {group!r} gave {len(found)} row(s) where {size} were asked for after "
                f"{start}: it has no more, the table has changed, or the key is not unique."
            )
        self._n_given[group] = start + size
        rows = np.array([row[:-1] for row in found], dtype=np.float64)
        return rows, np.array([row[-1] for row in found])

    def close(self) -> None:
        """Drop the temporary tables, and close the connection if it was opened here."""
        for order in self._orders.values():
            self._connection.execute(f"drop table if exists {order}")
        self._orders.clear()
        if self._owns_connection:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _order_of(self, group: Hashable) -> str:
        """Return the temporary table of a group's keys in random order, made on first use."""
        if group in self._orders:
            return self._orders[group]
        values = [group] if self._one_column else list(group)  # type: ignore[call-overload]
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        condition = " and ".join(f"{column} is ?" for column in self._groups)
        # a name that no other oracle on the same connection has
        order = f"temp.dpwg_{id(self):x}_{len(self._orders)}"
        # an insert opens a transaction; the caller's own, if there is one, stays open
        was_open = self._connection.in_transaction
        self._connection.create_function("dpwg_coin", 0, self._coin)
        self._connection.execute(f"create table {order} (position integer primary key, key)")
        try:
            self._connection.execute(
                f"insert into {order} (key) select {self._key} from {self._table} "
                f"where {condition} order by dpwg_coin()",
                values,
            )
        except BaseException:
            self._connection.execute(f"drop table {order}")
            raise
        if not was_open:
            self._connection.commit()
        self._orders[group], self._n_given[group] = order, 0
        return order

    def _coin(self) -> int:
        # 62 bits: no ties that the order of the rows would break
        return int(self._rng.integers(2**62))

    def _check_columns(self, names: Sequence[str], table: str) -> None:
        for name in names:
            try:
                # a quoted name that is no column would be a string to SQLite, a qualified one not
                self._connection.execute(
                    f"select t.{_quoted(name)} from {self._table} as t limit 0"
                )
            except sqlite3.OperationalError as error:
                raise ValueError(
                    f"table {table!r} of the database must have the column {name!r}: {error}."
                ) from None


def _quoted(name: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"names of tables and columns must be non-empty strings, got {name!r}.")
    return '"' + name.replace('"', '""') + '"'
