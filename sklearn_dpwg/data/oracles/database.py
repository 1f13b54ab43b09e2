"""Records that stay in a database until they are drawn."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.data.oracles.base import SampleOracle
from sklearn_dpwg.exceptions import InputError, OracleError

# Public key of a table's rows.

_ROW_NUMBER = ("rowid", "oid", "_rowid_")
_MAIN, _TEMPORARY = "main", "temp"
_Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class TableKey:
    """A table of one schema, and what tells its rows apart."""

    table: str  # quoted name of the table, with its schema
    column: str  # quoted name of the key
    collation: str  # quoted name of the collation under which keys are unique
    # query of a number that changes when row numbers may have been given anew; None where the key
    # is stored
    version: str | None

    @classmethod
    def find(cls, cursor: sqlite3.Cursor, table: str, key: str, private: Sequence[str]) -> TableKey:
        """Look a table and its key up in the schema, which says nothing about values."""
        schema = _schema_of(cursor, table)
        pragma = f"pragma {quoted(schema)}."
        columns = cursor.execute(f"{pragma}table_xinfo({quoted(table)})").fetchall()
        indices = cursor.execute(f"{pragma}index_list({quoted(table)})").fetchall()
        name = _stored_name(table, key, columns, indices)
        if name is not None and name.lower() in (column.lower() for column in private):
            raise InputError(
                f"key must be public, so neither a feature nor the target, got {key!r}, which is "
                f"the column {name!r}: give the table a key that no private value decides."
            )
        found = f"{quoted(schema)}.{quoted(table)}"
        if name is None:
            # VACUUM raises the version of the schema; temporary tables are not vacuumed
            version = None if schema == _TEMPORARY else f"{pragma}schema_version"
            return cls(found, quoted(key), '"binary"', version)
        collation = _unique_collation(cursor, pragma, name, columns, indices)
        if collation is None:
            raise InputError(
                f"key must be a column that the schema makes unique, by a primary key or a unique "
                f"index of that column alone, got {key!r} of table {table!r}."
            )
        return cls(found, quoted(name), quoted(collation), None)


def quoted(name: str) -> str:
    """Return a name as SQL reads it."""
    if not name or "\0" in name:
        raise InputError(f"names of tables and columns must be non-empty strings, got {name!r}.")
    return '"' + name.replace('"', '""') + '"'


def _schema_of(cursor: sqlite3.Cursor, table: str) -> str:
    """Return the schema that SQLite takes a table from, if it is an ordinary table."""
    schemas = [row[1] for row in cursor.execute("pragma database_list").fetchall()]
    # temporary tables hide those of the database, and these hide those of attached ones
    for schema in sorted(schemas, key=lambda name: (name != _TEMPORARY, name != _MAIN)):
        found = cursor.execute(
            f"select type, rootpage from {quoted(schema)}.sqlite_master "
            "where name = ? collate nocase and type in ('table', 'view')",
            (table,),
        ).fetchone()
        if found is None:
            continue
        kind = "view" if found[0] == "view" else "virtual table"
        # neither views nor virtual tables have pages of their own
        if found[0] == "view" or not found[1]:
            raise InputError(
                f"table must be an ordinary table, got the {kind} {table!r}: private values may "
                f"decide what it shows and how its rows are numbered, so copy its rows into a "
                f"table with a key."
            )
        return str(schema)
    raise InputError(f"table must be the name of a table of the database, got {table!r}.")


def _stored_name(table: str, key: str, columns: _Rows, indices: _Rows) -> str | None:
    """Return the column that a key is stored in; None for a row number that is not."""
    for _, name, *_, hidden in columns:
        if name.lower() == key.lower():
            if hidden:
                raise InputError(
                    f"key must be a column of its own, got {key!r}, which is generated from others."
                )
            return str(name)
    if key.lower() not in _ROW_NUMBER:
        raise InputError(f"table {table!r} of the database must have the column {key!r} as key.")
    primary = [column for column in columns if column[5]]
    # an integer primary key is the row number, unless it has an index (as with "desc")
    has_index = any(origin == "pk" for _, _, _, origin, _ in indices)
    is_row_number = len(primary) == 1 and primary[0][2].upper() == "INTEGER" and not has_index
    return str(primary[0][1]) if is_row_number else None


def _unique_collation(
    cursor: sqlite3.Cursor,
    pragma: str,
    name: str,
    columns: _Rows,
    indices: _Rows,
) -> str | None:
    """Return the collation of an index that makes a column unique; None without one."""
    for _, index, is_unique, _, is_partial in indices:
        if not is_unique or is_partial:
            continue
        info = cursor.execute(f"{pragma}index_xinfo({quoted(index)})").fetchall()
        keys = [(column, collation) for _, _, column, _, collation, is_key in info if is_key]
        if len(keys) == 1 and keys[0][0] == name:
            return str(keys[0][1])
    primary = [column[1] for column in columns if column[5]]
    return "binary" if primary == [name] else None


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
    >>> from sklearn_dpwg.data.oracles import DatabaseOracle
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
            raise InputError(f"features must be a sequence of column names, got {features!r}.")
        self._one_column = isinstance(groups, str)
        group_columns = [groups] if isinstance(groups, str) else list(groups)
        if not group_columns:
            raise InputError(f"groups must name at least one column, got {groups!r}.")
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
            raise InputError(
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

    def __exit__(self, *_: object) -> None:
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
        """Write the keys of all groups by hash, at once: a row whose group changes comes in one."""
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
                raise InputError(
                    f"table {table!r} of the database must have the column {name!r}: {error}."
                ) from None


def _connect(database: str | Path | sqlite3.Connection) -> sqlite3.Connection:
    if isinstance(database, sqlite3.Connection):
        return database
    path = Path(database).absolute()
    if not path.exists():
        raise InputError(f"database must be an existing file, got {str(database)!r}.")
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
