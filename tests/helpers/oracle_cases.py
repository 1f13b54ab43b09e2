"""Tables that hold the same records in every way that SQLite may lay them out and scan them."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import numpy as np

from sklearn_dpwg.data.oracles import DatabaseOracle

COLUMNS = "x0 real, x1 real, x2 real, y integer, g text"


class Layout(NamedTuple):
    """A table `v`, what else is run after its rows are in, and the column that is the key."""

    columns: str
    after: tuple[str, ...] = ()
    key: str = "id"
    # rows are inserted in the order of their first feature, so that row numbers follow it
    by_value: bool = False
    make_key: object = staticmethod(lambda i: i)


def nth_mixed(i):
    """Return keys of every type, some of which look the same when printed."""
    return [i, str(i + 1), str(i + 2).encode(), i + 0.5][i % 4]


NUMBER = f"(id integer primary key, {COLUMNS})"
LAYOUTS = {
    "no index": Layout(NUMBER),
    "by group": Layout(NUMBER, ("create index i on v (g)",)),
    "by group and value": Layout(NUMBER, ("create index i on v (g, x0)",)),
    "by value": Layout(NUMBER, ("create index i on v (x0 desc)", "create index j on v (y, g)")),
    "covering": Layout(NUMBER, ("create index i on v (g, x1, x0, x2, y, id)", "analyze")),
    "a text as key": Layout(
        f"(id text unique not null, {COLUMNS})",
        ("create index i on v (g, x0)",),
        by_value=True,
        make_key=lambda i: f"k{i * 7 % 101:03d}",
    ),
    "a text in any case": Layout(
        f"(id text collate nocase primary key, {COLUMNS})",
        ("create index i on v (g, x0, id)",),
        by_value=True,
        make_key=lambda i: "Kk"[i % 2] + str(i),
    ),
    "case does not matter to the column only": Layout(
        f"(id text collate nocase, {COLUMNS})",
        ("create unique index i on v (id collate binary)", "create index j on v (g, x0)"),
        make_key=lambda i: "Kk"[i % 2] + str(i // 2),
    ),
    "mixed keys": Layout(
        f"(id unique, {COLUMNS})",
        ("create index i on v (g, x0)",),
        by_value=True,
        make_key=nth_mixed,
    ),
    "numbers in a text column": Layout(
        f"(id text primary key, {COLUMNS})", ("create index i on v (g, x2)",), by_value=True
    ),
    "real numbers as key": Layout(
        f"(id real unique, {COLUMNS})", by_value=True, make_key=lambda i: i / 3.0
    ),
    "without row numbers": Layout(
        f"(id text primary key, {COLUMNS}) without rowid",
        ("create index i on v (g, x0)",),
        by_value=True,
        make_key=lambda i: f"k{i * 7 % 101:03d}",
    ),
    "descending": Layout(
        f"(id integer primary key desc, {COLUMNS})",
        ("create index i on v (g, x0)",),
        by_value=True,
    ),
    "row number that is stored": Layout(NUMBER, ("create index i on v (g, x0)",), key="rowid"),
    "row number that is not": Layout(
        f"(id integer, {COLUMNS})", ("create index i on v (g, x0)",), key="_rowid_"
    ),
    "with holes": Layout(
        f"(id integer, {COLUMNS})",
        (
            "insert into v select id + 100, x0, x1, x2, y, g from v",
            "delete from v where rowid % 2 = 1 and id < 100",
            "delete from v where id >= 100 and (id - 100) in (select id from v where id < 100)",
            "vacuum",
            "create index i on v (g, x0)",
        ),
        key="rowid",
    ),
    "generated columns": Layout(
        "(id integer primary key, z0 real, x1 real, x2 real, y integer, g text, "
        "x0 real generated always as (z0 + 0.0) stored, w as (x1 * 3))",
        ("create index i on v (g, w, x0)",),
    ),
}


def table(layout, X, y, groups):
    """Return a connection to a new table of these records."""
    connection = sqlite3.connect(":memory:")
    connection.execute(f"create table v {layout.columns}")
    rows = [
        (layout.make_key(i), *row, target, group)
        for i, (row, target, group) in enumerate(
            zip(X.tolist(), np.asarray(y).tolist(), list(groups), strict=True)
        )
    ]
    if layout.by_value:
        rows.sort(key=lambda row: row[1:4])
    connection.executemany("insert into v values (?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    for statement in layout.after:
        connection.execute(statement)
        connection.commit()
    return connection


def database_oracle(layout, X, y, groups, seed=0, **changes):
    """Return an oracle on a new table of these records."""
    parameters = {"features": ["x0", "x1", "x2"], "target": "y", "groups": "g", "key": layout.key}
    return DatabaseOracle(
        table(layout, X, y, groups), "v", **(parameters | {"random_state": seed} | changes)
    )
