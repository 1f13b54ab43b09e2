"""Records that stay in a database until they are drawn."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Hashable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.oracles._table_key import TableKey, quoted
from sklearn_dpwg.oracles.base import SampleOracle

# Several oracles may share a connection, so what one creates there has a name of its own.
_numbers = itertools.count()


class DatabaseOracle(SampleOracle):
    """Draws from a table of an SQLite database, each row once, in random order.

    With the first draw the keys of all rows are written to a temporary table, sorted by group and
    by a keyed hash of the key (BLAKE2, its secret from `random_state`); a draw then fetches its
    rows by key. Neither keys nor rows are ever in memory together.

    Parameters
    ----------
    database : path or sqlite3.Connection
        A file, which is opened for reading only, or an open connection, which stays open.
    table : str
        Name of a table. Views and virtual tables are refused: values may decide what they show.
    features : sequence of str
        Columns of numbers, in the order of the columns of X; NULL is NaN.
    target : str
        Column of y.
    groups : str or sequence of str
        Column of the group's label, or several, whose labels are tuples. A label has to be given
        as it is stored: neither ``1`` nor ``"East"`` is ``"1"`` or ``"east"``.
    key : str, default="rowid"
        Public column that the schema makes unique, by a primary key or an index of its own;
        SQLite's row number by default.
    random_state : int, Generator or None, default=None
        Where the secret of the hash comes from; the operating system's entropy by default.

    Raises
    ------
    ValueError
        If there is no such table or column, or no usable key.

    Notes
    -----
    Where a row comes is a function of its own key and the secret, of no value, no other row and
    no index. The key is as public as the position of a row in an array. So is a row number that
    no column holds, which follows the order of insertion. Without a seed every order is as likely
    whatever the keys are; with one, keys that were numbered by a private value tell of it.

    The table must not change meanwhile. A row that is gone when its turn comes is an
    `OracleError`, and so is a change of the schema or a VACUUM where row numbers are not stored.
    The temporary table takes about 8 bytes a row and those of the key, on disk where it is large.
    Use the oracle as a context manager, or call `close`.

    Examples
    --------
    >>> import sqlite3
    >>> from sklearn_dpwg.oracles import DatabaseOracle
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute(
    ...     "create table visits (id integer primary key, age, dose, cured, clinic)"
    ... )
    >>> _ = connection.executemany(
    ...     "insert into visits (age, dose, cured, clinic) values (?, ?, ?, ?)",
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
        self._one_column = isinstance(groups, str)
        group_columns = [groups] if isinstance(groups, str) else list(groups)
        if not group_columns:
            raise ValueError(f"groups must name at least one column, got {groups!r}.")
        self._groups = [quoted(column) for column in group_columns]
        self._columns = [quoted(column) for column in [*features, target]]
        rng = np.random.default_rng(random_state)
        self._secret = rng.bytes(32)
        self._owns_connection = not isinstance(database, sqlite3.Connection)
        self._connection = _connect(database)
        self._number = next(_numbers)
        self._is_closed = False
        self._ranges: dict[Hashable, tuple[int, int]] | None = None
        self._n_given: dict[Hashable, int] = {}
        self._version: object = None
        try:
            self._key = TableKey.find(self._cursor(), table, key, [*features, target])
            self._check_columns([key, *group_columns, *features, target], table)
        except BaseException:
            self.close()
            raise

    @property
    def group_sizes(self) -> dict[Hashable, int]:
        """Rows of each group, drawn or not: a public fact, found by one query."""
        columns = ", ".join(self._groups)
        # labels that differ in upper and lower case only are two, whatever the column's collation
        terms = ", ".join(f"{column} collate binary" for column in self._groups)
        types = ", ".join(f"typeof({column})" for column in self._groups)
        rows = self._query(
            f"select {columns}, count(*) from {self._key.table} group by {terms}, {types} "
            f"order by {terms}, {types}"
        )
        n_unknown = sum(row[-1] for row in rows if None in row)
        if n_unknown:
            raise ValueError(
                f"groups must be known for every row, got NULL in {n_unknown:,} row(s) of "
                f"{self._key.table}."
            )
        sizes: dict[Hashable, int] = {}
        for *cells, size in rows:
            label = cells[0] if self._one_column else tuple(cells)
            # 1 and 1.0 are one label, to SQLite as to Python
            sizes[label] = sizes.get(label, 0) + size
        return sizes

    def draw(self, group: Hashable, size: int) -> tuple[FloatArray, NDArray[Any]]:
        size = whole_number(size, "size", least=1)
        start, n_rows = self._range_of(group)
        n_given = self._n_given.get(group, 0)
        if n_given + size > n_rows:
            raise OracleError(
                f"group {group!r} has {n_rows - n_given} row(s) left, and {size} were asked for."
            )
        self._check_version()
        columns = ", ".join(f"t.{column}" for column in self._columns)
        # a cross join is not turned round: rows are looked up by key
        found = self._query(
            f"select {columns} from {self._order} as o cross join {self._key.table} as t "
            f"on t.{self._key.column} = o.key collate {self._key.collation} "
            "where o.position > ? and o.position <= ? order by o.position",
            (start + n_given, start + n_given + size),
        )
        if len(found) != size:
            raise OracleError(
                f"group {group!r} gave {len(found)} row(s) where {size} were asked for after "
                f"{n_given}: the table has changed since the first draw."
            )
        self._n_given[group] = n_given + size
        return self._as_arrays(found, group)

    def close(self) -> None:
        """Drop the temporary table, and close the connection if it was opened here."""
        if not self._is_closed and self._ranges is not None:
            self._connection.execute(f"drop table if exists {self._order}")
        self._is_closed = True
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

    @property
    def _order(self) -> str:
        return f"temp.dpwg_order_{self._number}"

    def _range_of(self, group: Hashable) -> tuple[int, int]:
        """Return the last position before a group's first in the order, and its number of rows."""
        if self._is_closed:
            raise OracleError("the oracle is closed, and rows that were given may not come again.")
        if self._ranges is None:
            self._ranges = self._make_order()
        return self._ranges.get(group, (0, 0))

    def _make_order(self) -> dict[Hashable, tuple[int, int]]:
        """Write the keys of all groups in the order of the hash; return the range of each group.

        All at once, so that a row whose group changes later does not come in both.
        """
        terms = ", ".join(f"{column} collate binary" for column in self._groups)
        place = f"dpwg_place_{self._number}"
        self._connection.create_function(place, 1, self._place)
        # as one transaction, or as part of the caller's own, which stays open
        savepoint = f"dpwg_{self._number}"
        self._query(f"savepoint {savepoint}")
        try:
            self._version = self._schema_version()
            self._query(f"create table {self._order} (position integer primary key, key not null)")
            self._query(
                f"insert into {self._order} (key) select {self._key.column} from {self._key.table} "
                f"order by {terms}, {place}({self._key.column})"
            )
            sizes = self.group_sizes
        except BaseException as error:
            # the connection itself may be gone
            with suppress(sqlite3.Error):
                self._query(f"rollback to {savepoint}")
                self._query(f"release {savepoint}")
            if isinstance(error, sqlite3.IntegrityError):
                raise OracleError(
                    f"key must be known for every row, got NULL in {self._key.column} of "
                    f"{self._key.table}."
                ) from None
            raise
        self._query(f"release {savepoint}")
        ends = itertools.accumulate(sizes.values())
        return {
            group: (end - size, size)
            for (group, size), end in zip(sizes.items(), ends, strict=True)
        }

    def _place(self, key: object) -> bytes:
        """Return a number without ties that nobody without the secret can tell from a coin."""
        text = f"{type(key).__name__}:{key!r}".encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16, key=self._secret).digest()

    def _schema_version(self) -> object:
        return None if self._key.version is None else self._query(self._key.version)

    def _check_version(self) -> None:
        if self._schema_version() != self._version:
            raise OracleError(
                "the schema of the database has changed or VACUUM ran since the first draw, so row "
                "numbers may be others: give the table an integer primary key."
            )

    def _as_arrays(
        self, found: list[tuple[Any, ...]], group: Hashable
    ) -> tuple[FloatArray, NDArray[Any]]:
        try:
            rows = np.array([row[:-1] for row in found], dtype=np.float64)
        except (TypeError, ValueError):
            # NumPy's own message shows the value
            raise OracleError(
                f"features must be columns of numbers, got something else in group {group!r}."
            ) from None
        targets = [row[-1] for row in found]
        # one target must not decide how another one is rounded or written
        of_one_type = len({type(target) for target in targets}) == 1
        return rows, np.array(targets, dtype=None if of_one_type else object)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None  # the caller's connection may have one
        return cursor

    def _query(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._cursor().execute(query, values).fetchall()

    def _check_columns(self, names: Sequence[str], table: str) -> None:
        for name in names:
            try:
                # a quoted name that is no column would be a string to SQLite, a qualified one not
                self._query(f"select t.{quoted(name)} from {self._key.table} as t limit 0")
            except sqlite3.OperationalError as error:
                raise ValueError(
                    f"table {table!r} of the database must have the column {name!r}: {error}."
                ) from None


def _connect(database: str | Path | sqlite3.Connection) -> sqlite3.Connection:
    if isinstance(database, sqlite3.Connection):
        return database
    path = Path(database).absolute()
    if not path.exists():
        raise ValueError(f"database must be an existing file, got {str(database)!r}.")
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
