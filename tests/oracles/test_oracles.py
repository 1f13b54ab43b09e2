"""Oracles give each record once, and say in one sentence where they cannot."""

from __future__ import annotations

import sqlite3
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.data.oracles import DatabaseOracle, GeneratorOracle, InMemoryOracle, SampleOracle
from sklearn_dpwg.data.oracles.base import EncodingOracle, RecordOracle
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.losses import BinaryLogLoss


def numbered(n=60, seed=0):
    """Return rows that tell which record they are, with targets and groups to match."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", 'c"; drop'], size=n)
    return np.column_stack([np.arange(n), np.arange(n) / 7.0]), np.arange(n) % 2, groups


@pytest.fixture
def connection():
    X, y, groups = numbered()
    made = sqlite3.connect(":memory:")
    made.execute(
        'create table "odd ""table" ("x 1" real, x2 real, y integer, "group" text, part int)'
    )
    made.executemany(
        'insert into "odd ""table" values (?, ?, ?, ?, ?)',
        [
            (*row, int(t), str(g), int(row[0]) % 2)
            for row, t, g in zip(X.tolist(), y, groups, strict=True)
        ],
    )
    made.commit()
    yield made
    made.close()


def database(connection, **parameters):
    settings_ = {"features": ["x 1", "x2"], "target": "y", "groups": "group"}
    return DatabaseOracle(connection, 'odd "table', **(settings_ | parameters))


@pytest.mark.parametrize("kind", ["memory", "database"])
@pytest.mark.parametrize("seed", [None, 0])
def test_every_record_once_and_of_the_right_group(kind, seed, connection):
    X, y, groups = numbered()
    oracle = (
        InMemoryOracle(X, y, groups, random_state=seed)
        if kind == "memory"
        else database(connection, random_state=seed)
    )
    labels, counts = np.unique(groups, return_counts=True)
    assert oracle.group_sizes == dict(zip(labels.tolist(), counts.tolist(), strict=True))
    seen, orders = [], []
    for label, count in oracle.group_sizes.items():
        order = []
        while len(order) < count:
            rows, targets = oracle.draw(label, min(4, count - len(order)))
            numbers = rows[:, 0].astype(int)
            assert np.allclose(rows, X[numbers])
            assert (targets == y[numbers]).all()
            assert (groups[numbers] == label).all()
            order += numbers.tolist()
        seen += order
        orders.append(order)
        with pytest.raises(OracleError):
            oracle.draw(label, 1)
    assert sorted(seen) == list(range(len(X)))
    assert any(order != sorted(order) for order in orders)  # not in the order of the table


def test_a_seed_fixes_the_order(connection):
    first, second, other = (database(connection, random_state=seed) for seed in (1, 1, 2))
    draws = [oracle.draw("a", 8)[0].tolist() for oracle in (first, second, other)]
    assert draws[0] == draws[1] != draws[2]


def test_every_order_is_as_likely():
    counts = np.zeros((3, 3))
    for seed in range(3000):
        rows, _ = InMemoryOracle([[0], [1], [2]], [0, 0, 0], ["a"] * 3, seed).draw("a", 3)
        counts[np.arange(3), rows[:, 0]] += 1
    assert abs(counts - 1000).max() < 150


def test_several_columns_of_groups(connection):
    oracle = database(connection, groups=["group", "part"])
    assert sum(oracle.group_sizes.values()) == 60
    rows, _ = oracle.draw(("a", 1), 3)
    assert (rows[:, 0] % 2 == 1).all()
    rows, _ = oracle.draw((np.str_("a"), np.int64(0)), 3)
    assert (rows[:, 0] % 2 == 0).all()


def test_a_file_is_read_and_never_written(tmp_path, connection):
    path = tmp_path / "visits and more.sqlite"
    file = sqlite3.connect(path)
    connection.backup(file)
    file.close()
    before = path.read_bytes()
    with database(path) as oracle:
        oracle.draw("a", 5)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            oracle._connection.execute('delete from "odd ""table"')
    assert path.read_bytes() == before
    with pytest.raises(OracleError, match=r"^the oracle is closed"):
        oracle.draw("a", 1)
    with pytest.raises(ValueError, match=r"^database must be an existing file, got '.*none\.db'"):
        database(tmp_path / "none.db")


def test_a_transaction_of_the_caller_stays_open(connection):
    connection.execute('insert into "odd ""table" values (99, 1, 1, \'a\', 1)')
    oracle = database(connection)
    oracle.draw("a", 2)
    oracle.close()
    connection.rollback()
    assert connection.execute('select count(*) from "odd ""table"').fetchone() == (60,)
    assert connection.execute("select count(*) from temp.sqlite_master").fetchone() == (0,)


def test_a_table_that_changes_is_seen(connection):
    oracle = database(connection)
    oracle.draw("a", 2)
    connection.execute('delete from "odd ""table"')
    with pytest.raises(OracleError, match=r"^group 'a' gave 0 row\(s\) where 2 were asked for"):
        oracle.draw("a", 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"target": "z"}, "must have the column 'z'"),
        ({"features": ["x 1", "nothing"]}, "must have the column 'nothing'"),
        ({"groups": "x9"}, "must have the column 'x9'"),
        ({"key": "id"}, "must have the column 'id'"),
        ({"key": "part"}, "key must be a column that the schema makes unique"),
        ({"features": "x2"}, "features must be a sequence of column names, got 'x2'"),
        ({"features": []}, "features must be a sequence of column names"),
        ({"target": ""}, "names of tables and columns must be non-empty strings, got ''"),
    ],
)
def test_columns_that_are_not_there(connection, parameters, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        database(connection, **parameters)


@settings(max_examples=60, deadline=None)
@given(
    name=st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1)
)
def test_names_and_labels_cannot_break_out(name):
    """Whatever a name or a label holds, it stays a name or a label."""
    made = sqlite3.connect(":memory:")
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        made.execute(f'create table {quoted} ({quoted} real, "y y" integer, "g g" text)')
    except sqlite3.OperationalError:  # SQLite reserves some names
        return
    made.execute(f"insert into {quoted} values (0.5, 1, ?)", (name,))
    made.execute(f"insert into {quoted} values (0.7, 0, 'other')")
    oracle = DatabaseOracle(made, name, features=[name], target="y y", groups="g g")
    rows, targets = oracle.draw(name, 1)
    if name != "other":
        assert (rows.tolist(), targets.tolist()) == ([[0.5]], [1])
    made.close()


def test_nothing_is_loaded_at_once(tmp_path):
    """A draw takes memory for its rows, not for the table's."""
    path = tmp_path / "many.sqlite"
    file = sqlite3.connect(path)
    file.execute("create table t (a real, b real, y integer, g text)")
    file.executemany(
        "insert into t values (?, ?, ?, 'all')", ((i / 1e5, 0.5, i % 2) for i in range(60_000))
    )
    file.commit()
    file.close()
    with DatabaseOracle(path, "t", features=["a", "b"], target="y", groups="g") as oracle:
        tracemalloc.start()
        for _ in range(20):
            oracle.draw("all", 100)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 300_000  # keys and rows of the table would take megabytes


# --- encoded records -----------------------------------------------------------------------------


def test_drawn_records_are_those_of_the_encoder():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) * rng.choice([0.1, 3.0, 1e120], size=(400, 1))
    codes, targets = rng.integers(0, 2, 400), rng.choice([-1.0, 1.0], 400)
    records = RecordEncoder(2, 1.5).encode(rows, targets, codes)
    oracle = GroupRisks(records, BinaryLogLoss()).as_oracle(np.random.default_rng(1))
    assert isinstance(oracle, RecordOracle)
    for group in range(2):
        size, found = oracle.group_sizes[group], []
        for chunk in (1, 2, 60, 1, size - 64):  # across the edge of what is gathered ahead
            drawn, drawn_targets = oracle.draw(group, chunk)
            assert len(drawn) == len(drawn_targets) == chunk
            found += np.column_stack([drawn, drawn_targets]).tolist()
        part = slice(records.starts[group], records.starts[group + 1])
        expected = records.rows[part] * records.row_scale[part, None]
        expected = np.column_stack([expected, records.targets[part]])
        assert sorted(found) == sorted(expected.tolist())
        assert found != expected.tolist()
        with pytest.raises(OracleError, match=rf"^group {group} has 0 record\(s\) left"):
            oracle.draw(group, 1)


def encode(y):
    if not np.isin(y, ["no", "yes"]).all():
        raise ValueError("y must hold no class outside ['no', 'yes'], got at least one.")
    return np.where(y == "yes", 1.0, -1.0)


def answering(given):
    return EncodingOracle(
        GeneratorOracle(lambda group, size, rng: given), ["a", "b"], 2, 1.5, encode
    )


def test_rows_are_clipped_as_in_a_fit():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(30, 2)) * rng.choice([0.1, 10.0, 1e150], size=(30, 1))
    y = rng.choice(["no", "yes"], 30)
    drawn, targets = answering((rows, y)).draw(1, 30)
    records = RecordEncoder(1, 1.5).encode(rows, encode(y), np.zeros(30, dtype=int))
    assert np.array_equal(drawn, records.rows * records.row_scale[:, None])
    assert np.array_equal(targets, encode(y))
    assert np.linalg.norm(drawn, axis=1).max() <= 1.0 + 1e-12


GOOD = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((GOOD[:2], ["no", "no"]), "got shapes (2, 2) and (2,); fewer rows mean that it ran dry"),
        (([[0.0]] * 3, ["no"] * 3), "must give X of shape (3, 2)"),
        ((GOOD, [["no"]] * 3), "and y of shape (3,)"),
        ((GOOD, ["no"] * 2), "and y of shape (3,)"),
        ((GOOD[0], "no"), "must give X of shape (3, 2)"),
        (([[np.nan, 0.0]] * 3, ["no"] * 3), "the oracle gave NaN or infinity in X"),
        (([[np.inf, 0.0]] * 3, ["no"] * 3), "the oracle gave NaN or infinity in X"),
        ((GOOD, ["no", "yes", "maybe"]), "gave wrong targets when asked for 3 record(s) of g"),
        ((GOOD, [1, 0, 1]), "gave wrong targets"),
        (None, "must give a pair of X, numbers, and y"),
        ((GOOD,), "must give a pair of X, numbers, and y"),
        (([["x", "y"]] * 3, ["no"] * 3), "must give a pair of X, numbers, and y"),
    ],
)
def test_what_an_oracle_must_not_give(given, message):
    with pytest.raises(OracleError) as caught:
        answering(given).draw(1, 3)
    text = str(caught.value)
    assert message in text
    assert "group 'b'" in text
    assert "\n" not in text


def test_an_oracle_that_raises():
    class Broken(SampleOracle):
        def draw(self, group, size):
            raise ConnectionError("the server is away")

    with pytest.raises(OracleError, match=r"when asked for 2 .*: the server is away$"):
        EncodingOracle(Broken(), ["a"], 2, 1.0, encode).draw(0, 2)


def test_what_is_no_oracle():
    with pytest.raises(TypeError, match=r"^oracle must have a method draw\(group, size\), got int"):
        EncodingOracle(3, ["a"], 2, 1.0, encode)
    with pytest.raises(TypeError, match="generate must be a function, got 3"):
        GeneratorOracle(3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        InMemoryOracle([[1.0]], [0, 1], ["a"])
