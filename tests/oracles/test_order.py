"""The order of every oracle is a function of keys, positions and coins, whatever records hold."""

from __future__ import annotations

import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.oracles import (
    DatabaseOracle,
    GeneratorOracle,
    InMemoryOracle,
    check_sample_oracle,
)
from sklearn_dpwg.data.oracles.base import EncodingOracle
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.losses import BinaryLogLoss
from tests.helpers.oracle_cases import LAYOUTS, Layout, database_oracle, table

INDEXED = LAYOUTS["by group and value"]
TEMPTING = ("by group and value", "without row numbers", "mixed keys")


def test_an_indexed_age_does_not_move_other_records():
    """Coins that were drawn in the order of a scan put 206 of 400 targets at another place."""
    rng = np.random.default_rng(0)
    X, ids = rng.uniform(0, 1, (400, 3)), np.arange(400)
    places = []
    for age in (0.0, 1.0):
        X[0, 0] = age
        oracle = database_oracle(INDEXED, X, ids, ["east"] * 400)
        places.append(oracle.draw("east", 400)[1].tolist())
    assert places[0] == places[1]
    assert sorted(places[0]) == ids.tolist() != places[0]


# --- neighbours × indices × seeds × page sizes, for every oracle that ships ----------------------


@pytest.mark.parametrize(("seed", "name"), list(enumerate(LAYOUTS)))
def test_tables(seed, name):
    def make(X, y, groups):
        return database_oracle(LAYOUTS[name], X, y, groups, seed)

    # every record where an index tempts, a few that the check chooses by the seed elsewhere
    check_sample_oracle(make, n_replaced=24 if name in TEMPTING else 6, random_state=seed)


def test_several_columns_of_groups():
    X = np.random.default_rng(0).normal(size=(18, 3))
    y, groups = np.arange(18), np.array([("a", 1), ("b", 1), ("a", 2)] * 6, dtype=object)

    def make(X, y, groups):
        # the second column is the parity of the key's third
        connection = table(INDEXED, X, y, groups[:, 0])
        connection.execute("alter table v add column part integer")
        parts = [(int(part), i) for i, part in enumerate(groups[:, 1])]
        connection.executemany("update v set part = ? where id = ?", parts)
        connection.execute("create index p on v (part, g, x1)")
        return DatabaseOracle(
            connection,
            "v",
            features=["x0", "x1", "x2"],
            target="y",
            groups=["g", "part"],
            random_state=1,
        )

    check_sample_oracle(make, X, y, groups)


@pytest.mark.parametrize(
    ("seed", "kind"), [(0, np.asarray), (1, pd.DataFrame), (2, np.ndarray.tolist)]
)
def test_records_in_memory(seed, kind):
    check_sample_oracle(lambda X, y, groups: InMemoryOracle(kind(X), y, groups, seed), n_replaced=8)


def test_a_function_that_deals_what_is_stored():
    def make(X, y, groups):
        order = {g: list(np.flatnonzero(groups == g)) for g in np.unique(groups)}

        def deal(group, size, rng):
            # a place in the order is a coin of its own
            coins = np.random.default_rng([1, ord(group)]).permutation(len(X))
            left = sorted(order[group], key=lambda i: coins[i])
            if len(left) < size:
                raise OracleError("nothing is left")
            order[group] = left[size:]
            return X[left[:size]], y[left[:size]]

        return GeneratorOracle(deal, 1)

    check_sample_oracle(make, n_replaced=8)


@pytest.mark.parametrize(("sparse", "data_norm"), [(False, 0.5), (True, 1.0), (False, 3.0)])
def test_records_of_a_fit(sparse, data_norm):
    def make(X, y, groups):
        codes = np.unique(groups, return_inverse=True)[1]
        rows = csr_array(X) if sparse else X
        records = RecordEncoder(codes.max() + 1, data_norm).encode(rows, 2.0 * y - 1.0, codes)
        return GroupRisks(records, BinaryLogLoss()).as_oracle(np.random.default_rng(3))

    rng = np.random.default_rng(1)
    X, y, groups = rng.normal(size=(24, 3)), np.arange(24) % 2, np.arange(24) % 3
    check_sample_oracle(make, X, y, groups)
    # more than are gathered ahead
    X, y, groups = rng.normal(size=(700, 3)), np.arange(700) % 2, np.arange(700) % 2
    check_sample_oracle(make, X, y, groups, n_replaced=3)


@pytest.mark.parametrize("inner", ["memory", "database"])
def test_encoded_records(inner):
    def make(X, y, groups):
        labels = [f"g{code}" for code in groups]
        if inner == "memory":
            oracle = InMemoryOracle(X, y, labels, random_state=2)
        else:
            oracle = database_oracle(INDEXED, X, y, labels, 2)
        return EncodingOracle(oracle, ["g0", "g1", "g2"], 3, 1.5, lambda y: 2.0 * y - 1.0)

    rng = np.random.default_rng(1)
    X, y, groups = rng.normal(size=(24, 3)), np.arange(24) % 2, np.arange(24) % 3
    check_sample_oracle(make, X, y, groups)


# --- the check sees the order that was ------------------------------------------------------------


@pytest.fixture
def coins_in_the_order_of_a_scan(monkeypatch):
    real = DatabaseOracle.__init__

    def begin(self, *args, random_state=None, **parameters):
        self.coins = np.random.default_rng(random_state)
        real(self, *args, random_state=random_state, **parameters)

    monkeypatch.setattr(DatabaseOracle, "__init__", begin)
    monkeypatch.setattr(DatabaseOracle, "_place", lambda self, key: int(self.coins.integers(2**62)))


@pytest.mark.usefixtures("coins_in_the_order_of_a_scan")
@pytest.mark.parametrize(
    "name", ["by group and value", "covering", "without row numbers", "generated columns"]
)
def test_coins_in_the_order_of_a_scan_are_seen(name):
    with pytest.raises(AssertionError, match=r"^the order must not depend on values"):
        check_sample_oracle(lambda X, y, groups: database_oracle(LAYOUTS[name], X, y, groups))


def test_ties_that_a_scan_decides_are_seen(monkeypatch):
    monkeypatch.setattr(DatabaseOracle, "_place", lambda self, key: b"")
    with pytest.raises(AssertionError, match=r"^the order must not depend on values"):
        check_sample_oracle(lambda X, y, groups: database_oracle(INDEXED, X, y, groups))


# --- tables at random -----------------------------------------------------------------------------

KEYS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=4),
    st.binary(max_size=3),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 2.0])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_tables(data):
    """Position and group of every key are the same, whatever any column holds and where it lies."""
    keys = data.draw(st.lists(KEYS, min_size=2, max_size=12, unique=True))
    n = len(keys)
    groups = data.draw(st.lists(st.sampled_from(["a", "A", "b", "1"]), min_size=n, max_size=n))
    seed = data.draw(st.integers(0, 2**32))
    found = []
    for _ in range(2):
        made = sqlite3.connect(":memory:")
        made.execute("create table v (id, x0, x1, y, g collate nocase)")
        values = [data.draw(st.tuples(VALUES, VALUES)) for _ in range(n)]
        rows = [
            (key, *value, i, group)
            for i, (key, value, group) in enumerate(zip(keys, values, groups, strict=True))
        ]
        if data.draw(st.booleans()):
            rows.sort(key=lambda row: row[1:3])
        try:
            made.execute("create unique index k on v (id)")
            made.executemany("insert into v values (?, ?, ?, ?, ?)", rows)
        except sqlite3.IntegrityError:  # a number and its nearest float are one key
            return
        for index in data.draw(st.sets(st.sampled_from(["g, x0", "x1", "g, x1, x0, id", "y"]))):
            made.execute(f'create index "{index}" on v ({index})')
        made.commit()
        oracle = DatabaseOracle(
            made, "v", features=["x0", "x1"], target="y", groups="g", key="id", random_state=seed
        )
        assert oracle.group_sizes == {label: groups.count(label) for label in set(groups)}
        order = {label: [] for label in oracle.group_sizes}
        left = dict(oracle.group_sizes)
        while left:
            label = data.draw(st.sampled_from(sorted(left)))
            size = data.draw(st.integers(1, left[label]))
            X, y = oracle.draw(label, size)
            assert X.tolist() == [list(values[i]) for i in y]
            order[label] += y.tolist()
            left[label] -= size
            left = {label: size for label, size in left.items() if size}
        assert all(groups[i] == label for label, of in order.items() for i in of)
        assert sorted(i for of in order.values() for i in of) == list(range(n))
        found.append(order)
        made.close()
    assert found[0] == found[1]


def test_every_order_of_a_table_is_as_likely():
    X = np.arange(9.0).reshape(3, 3)
    counts = np.zeros((3, 3))
    connection = table(INDEXED, X, [0, 1, 2], "aaa")
    for seed in range(1500):
        oracle = DatabaseOracle(
            connection, "v", features=["x0"], target="y", groups="g", random_state=seed
        )
        counts[np.arange(3), oracle.draw("a", 3)[1]] += 1
        oracle.close()
    assert abs(counts - 500).max() < 100


def test_a_group_has_the_same_order_whichever_is_drawn_first():
    X, y, groups = np.zeros((20, 3)), np.arange(20), ["a", "b"] * 10
    first, second = (database_oracle(INDEXED, X, y, groups) for _ in range(2))
    first.draw("a", 10)
    second.draw("b", 1)
    rest = np.concatenate([second.draw("b", 4)[1], second.draw("b", 5)[1]])
    assert first.draw("b", 10)[1][1:].tolist() == rest.tolist()


# --- rows that go away or change ------------------------------------------------------------------


@pytest.mark.parametrize("layout", TEMPTING)
def test_a_row_that_is_deleted_stops_the_same_draw_of_every_neighbour(layout):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(20, 3)), np.arange(20)
    stopped = []
    for value in (-5.0, 0.0, 5.0):
        X[3] = value
        oracle = database_oracle(LAYOUTS[layout], X, y, ["a", "b"] * 10)
        found = [oracle.draw("a", 1)[1].item()]
        oracle._connection.execute("delete from v where y = 12")
        for ask in range(10):
            try:
                found.append(oracle.draw("a", 1)[1].item())
            except OracleError as error:
                stopped.append((found, ask, str(error)))
                break
        with pytest.raises(OracleError, match="the table has changed since the first draw"):
            oracle.draw("a", 1)
    assert stopped[0] == stopped[1] == stopped[2]
    assert 0 < len(stopped[0][0]) < 10


def test_a_row_whose_group_changes_does_not_come_twice():
    oracle = database_oracle(INDEXED, np.zeros((20, 3)), np.arange(20), ["a", "b"] * 10)
    seen = oracle.draw("a", 10)[1].tolist()
    oracle._connection.execute("update v set g = 'b'")
    seen += oracle.draw("b", 10)[1].tolist()
    assert sorted(seen) == list(range(20))
    with pytest.raises(OracleError, match=r"^group 'b' has 0 row\(s\) left"):
        oracle.draw("b", 1)


def test_rows_that_are_added_later_do_not_come():
    oracle = database_oracle(INDEXED, np.zeros((6, 3)), np.arange(6), ["a"] * 6)
    oracle.draw("a", 1)
    oracle._connection.execute("insert into v values (99, 0, 0, 0, 99, 'a')")
    assert 99 not in oracle.draw("a", 5)[1]


def test_vacuum_may_number_rows_anew():
    """A row that was given would come again under the number of another."""
    layout = Layout("(id integer, x0 real, x1 real, x2 real, y integer, g text)", key="rowid")
    oracle = database_oracle(layout, np.zeros((9, 3)), np.arange(9), ["a"] * 9)
    oracle.draw("a", 1)
    oracle._connection.execute("delete from v where id < 3")
    oracle._connection.commit()
    oracle._connection.execute("vacuum")
    with pytest.raises(OracleError, match=r"^the schema of the database has changed or VACUUM ran"):
        oracle.draw("a", 1)
    # a key that is stored stays as it is
    stored = database_oracle(INDEXED, np.zeros((9, 3)), np.arange(9), ["a"] * 9)
    seen = stored.draw("a", 4)[1].tolist()
    stored._connection.execute("vacuum")
    seen += stored.draw("a", 5)[1].tolist()
    assert sorted(seen) == list(range(9))


def test_a_closed_oracle_does_not_begin_anew():
    connection = table(INDEXED, np.zeros((9, 3)), np.arange(9), ["a"] * 9)
    oracle = DatabaseOracle(connection, "v", features=["x0"], target="y", groups="g")
    oracle.draw("a", 5)
    oracle.close()
    oracle.close()
    with pytest.raises(OracleError, match=r"^the oracle is closed"):
        oracle.draw("a", 5)
    assert connection.execute("select count(*) from v").fetchone() == (9,)


# --- keys, labels and tables ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "parameters", "message"),
    [
        (["create view w as select * from v order by x0"], {"table": "w"}, "got the view 'w'"),
        (["create temp view v as select * from main.v"], {}, "got the view 'v'"),
        (["create virtual table w using fts5(x0, y, g)"], {"table": "w"}, "got the virtual table"),
        ([], {"table": "none"}, "table must be the name of a table of the database, got 'none'"),
        ([], {"key": "g"}, "key must be a column that the schema makes unique"),
        (["create index k on v (g)"], {"key": "g"}, "that the schema makes unique"),
        (["create unique index k on v (id, g)"], {"key": "g"}, "that the schema makes unique"),
        (
            ["alter table v add column p", "create unique index k on v (p) where p > 0"],
            {"key": "p"},
            "that the schema makes unique",
        ),
        (["create unique index k on v (x0)"], {"key": "x0"}, "key must be public"),
        (["create unique index k on v (y)"], {"key": "Y"}, "key must be public, so neither a feat"),
        ([], {"features": ["id"]}, "key must be public.* got 'rowid', which is the column 'id'"),
        (
            ["alter table v add column w as (x0 * 2)", "create unique index k on v (w)"],
            {"key": "w"},
            "key must be a column of its own, got 'w', which is generated from others",
        ),
        (
            ["create table w (id text primary key, x0, y, g) without rowid"],
            {"table": "w"},
            "table 'w' of the database must have the column 'rowid'",
        ),
        ([], {"groups": []}, "groups must name at least one column"),
    ],
)
def test_tables_that_are_refused(statements, parameters, message):
    connection = table(INDEXED, np.arange(12.0).reshape(4, 3), np.arange(4), "aabb")
    for statement in statements:
        connection.execute(statement)
    settings_ = {"table": "v", "features": ["x0"], "target": "y", "groups": "g"} | parameters
    with pytest.raises(ValueError, match=message):
        DatabaseOracle(connection, **settings_)


def test_a_key_that_is_unknown_for_a_row():
    layout = Layout(LAYOUTS["a text as key"].columns.replace(" not null", ""))
    connection = table(layout, np.zeros((4, 3)), np.arange(4), "aabb")
    connection.execute("update v set id = null where y = 2")
    oracle = DatabaseOracle(
        connection, "v", features=["x0"], target="y", groups="g", key="id", random_state=0
    )
    with pytest.raises(OracleError, match=r"^key must be known for every row, got NULL in \"id\""):
        oracle.draw("a", 1)
    assert connection.execute("select count(*) from temp.sqlite_master").fetchone() == (0,)
    connection.execute("update v set id = 'k' where y = 2")
    assert len(oracle.draw("b", 2)[1]) == 2


def test_rows_without_a_group():
    oracle = database_oracle(INDEXED, np.zeros((4, 3)), np.arange(4), ["a", "a", None, "b"])
    for ask in (lambda: oracle.group_sizes, lambda: oracle.draw("a", 1)):
        with pytest.raises(ValueError, match=r"^groups must be known for every row, got NULL"):
            ask()
    for unknown in (None, np.nan):
        with pytest.raises(ValueError, match=r"^groups must be known for every record"):
            InMemoryOracle(np.zeros((2, 1)), [0, 1], np.array(["a", unknown], dtype=object))
    with pytest.raises(ValueError, match=r"^groups must have one dimension, got the shape"):
        InMemoryOracle([[0.0]], [0], [("a", 1)])


@pytest.mark.parametrize("column", ["g text", "g text collate nocase", "g"])
def test_labels_that_look_alike_are_not_one(column):
    """Else the same rows would come under two names."""
    labels = ["1", "East", "east", "1"] if "text" in column else [1, "East", b"east", "1"]
    layout = Layout(f"(id integer primary key, x0 real, x1 real, x2 real, y integer, {column})")
    oracle = database_oracle(layout, np.zeros((4, 3)), np.arange(4), labels)
    sizes = {label: labels.count(label) for label in labels}
    assert oracle.group_sizes == sizes
    seen = [i for label, size in sizes.items() for i in oracle.draw(label, size)[1].tolist()]
    assert sorted(seen) == [0, 1, 2, 3]
    for label in (1, "1", 1.0, "EAST", "east", b"east", b"1", True, None, np.nan):
        with pytest.raises(OracleError, match="has 0 row"):
            oracle.draw(label, 1)


def test_numbers_that_are_equal_are_one_label():
    layout = Layout("(id integer primary key, x0 real, x1 real, x2 real, y integer, g)")
    oracle = database_oracle(layout, np.zeros((5, 3)), np.arange(5), [1.0, 2, 1, 2.0, 2])
    assert str(oracle.group_sizes) == "{1: 2, 2: 3}"
    assert sorted(oracle.draw(np.int64(2), 3)[1].tolist()) == [1, 3, 4]
    with pytest.raises(OracleError, match="has 0 row"):
        oracle.draw(2.0, 1)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_that_are_no_sizes(size):
    X, y, groups = np.zeros((6, 3)), np.arange(6), np.array(["a"] * 6)
    for oracle in (InMemoryOracle(X, y, groups), database_oracle(INDEXED, X, y, groups)):
        with pytest.raises(ValueError, match=rf"^size must be at least 1, got {size}"):
            oracle.draw("a", size)
        assert sorted(oracle.draw("a", 6)[1].tolist()) == list(range(6))
    records = RecordEncoder(1, 1.0).encode(X, y.astype(float), np.zeros(6, dtype=int))
    oracle = GroupRisks(records, BinaryLogLoss()).as_oracle(np.random.default_rng(0))
    oracle.draw(0, 2)
    with pytest.raises(OracleError):
        oracle.draw(0, size)


def test_a_target_does_not_change_how_others_are_written():
    big = 2**53 + 1
    y = np.array([big, 0.5, big], dtype=object)
    oracle = database_oracle(INDEXED, np.zeros((3, 3)), y, ["a"] * 3)
    assert sorted(oracle.draw("a", 3)[1].tolist()) == [0.5, big, big]


# --- a connection that is the caller's ------------------------------------------------------------


def test_a_connection_with_habits_of_its_own():
    connection = table(INDEXED, np.zeros((9, 3)), np.arange(9), ["a"] * 9)
    connection.row_factory = lambda cursor, row: {"row": row}
    connection.isolation_level = None
    reading = connection.execute("select * from v")
    reading.fetchone()
    parameters = {"features": ["x0"], "target": "y", "groups": "g"}
    oracles = [DatabaseOracle(connection, "v", **parameters) for _ in range(3)]
    for oracle in oracles:
        oracle.draw("a", 4)
    for oracle in oracles:
        oracle.draw("a", 5)
    assert not connection.in_transaction
    assert len(reading.fetchall()) == 8


def test_the_table_that_sqlite_would_take():
    connection = table(INDEXED, np.zeros((4, 3)), np.arange(4), ["a"] * 4)
    connection.execute("attach ':memory:' as other")
    for schema, y in (("other", 70), ("temp", 80)):
        connection.execute(f"create table {schema}.v (id integer primary key, x0, y, g)")
        connection.execute(f"insert into {schema}.v values (1, 0.5, {y}, 'a')")
    connection.execute("create table other.w (id integer, x0, y, g)")
    connection.execute("insert into other.w values (1, 0.5, 71, 'a')")
    connection.commit()
    for name, expected in (("V", 80), ("w", 71)):
        oracle = DatabaseOracle(connection, name, features=["x0"], target="y", groups="g")
        connection.execute(f"create table if not exists temp.{name} (x)")  # too late to matter
        assert oracle.group_sizes == {"a": 1}
        assert oracle.draw("a", 1)[1].tolist() == [expected]
