"""Public key of a table's rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
            raise ValueError(
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
            raise ValueError(
                f"key must be a column that the schema makes unique, by a primary key or a unique "
                f"index of that column alone, got {key!r} of table {table!r}."
            )
        return cls(found, quoted(name), quoted(collation), None)


def quoted(name: str) -> str:
    """Return a name as SQL reads it."""
    if not name or "\0" in name:
        raise ValueError(f"names of tables and columns must be non-empty strings, got {name!r}.")
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
            raise ValueError(
                f"table must be an ordinary table, got the {kind} {table!r}: private values may "
                f"decide what it shows and how its rows are numbered, so copy its rows into a "
                f"table with a key."
            )
        return str(schema)
    raise ValueError(f"table must be the name of a table of the database, got {table!r}.")


def _stored_name(table: str, key: str, columns: _Rows, indices: _Rows) -> str | None:
    """Return the column that a key is stored in; None for a row number that is not."""
    for _, name, *_, hidden in columns:
        if name.lower() == key.lower():
            if hidden:
                raise ValueError(
                    f"key must be a column of its own, got {key!r}, which is generated from others."
                )
            return str(name)
    if key.lower() not in _ROW_NUMBER:
        raise ValueError(f"table {table!r} of the database must have the column {key!r} as key.")
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
