"""Oracles give each record once, and say in one sentence where they cannot."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sklearn_dpwg.data.oracles import (
    EncodingOracle,
    GeneratorOracle,
    InMemoryOracle,
    RecordOracle,
    SampleOracle,
)
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.losses import BinaryLogLoss


def numbered(n=60, seed=0):
    """Return rows that tell which record they are, with targets and groups to match."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", 'c"; drop'], size=n)
    return np.column_stack([np.arange(n), np.arange(n) / 7.0]), np.arange(n) % 2, groups


@pytest.mark.parametrize("seed", [None, 0])
def test_every_record_once_and_of_the_right_group(seed):
    X, y, groups = numbered()
    oracle = InMemoryOracle(X, y, groups, random_state=seed)
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


def from_memory(X, y, groups):
    return InMemoryOracle(X, y, groups, 5)


def of_a_fit(X, y, groups):
    records = RecordEncoder(3, 9.0).encode(X, y.astype(float), groups)
    return GroupRisks(records, BinaryLogLoss()).as_oracle(np.random.default_rng(5))


@pytest.mark.parametrize("make", [from_memory, of_a_fit])
def test_the_order_is_of_positions_and_coins_alone(make):
    """Not of what a record holds, of the sizes of draws, or of draws of other groups."""
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(900, 2)), np.arange(900), np.arange(900) % 3
    places = make(X, y, groups).draw(1, 300)[1].tolist()
    assert places != sorted(places)
    for trial in range(10):
        at, pages = rng.integers(900), rng.multinomial(300 - 9, np.full(9, 1 / 9)) + 1
        other = X.copy()
        other[at] = rng.choice([-1e3, 0.0, 1e3])
        oracle, result = make(other, y, groups), []
        for page in pages:
            result += oracle.draw(1, int(page))[1].tolist()
            oracle.draw(2 * (trial % 2), 3)
        assert result == places


# --- encoded records -----------------------------------------------------------------------------


def test_drawn_records_are_those_of_the_encoder():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) * rng.choice([0.1, 3.0, 1e120], size=(400, 1))
    codes, targets = rng.integers(0, 2, 400), rng.choice([-1.0, 1.0], 400)
    records = RecordEncoder(2, 1.5).encode(rows, targets, codes)
    oracle = GroupRisks(records, BinaryLogLoss()).as_oracle(np.random.default_rng(1))
    assert isinstance(oracle, RecordOracle)
    for group in range(2):
        size, result = records.group_sizes[group], []
        for chunk in (1, 2, 60, 1, size - 64):  # across the edge of what is gathered ahead
            drawn, drawn_targets = oracle.draw(group, chunk)
            assert len(drawn) == len(drawn_targets) == chunk
            result += np.column_stack([drawn, drawn_targets]).tolist()
        part = slice(records.starts[group], records.starts[group + 1])
        expected = records.rows[part].astype(float)
        expected = np.column_stack([expected, records.targets[part]])
        assert sorted(result) == sorted(expected.tolist())
        assert result != expected.tolist()
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
    assert np.array_equal(drawn, records.rows.astype(float))
    assert np.array_equal(targets, encode(y))
    assert np.linalg.norm(drawn, axis=1).max() <= 1.0 + 1e-12


GOOD = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((GOOD[:2], ["no", "no"]), "got shapes (2, 2) and (2,); fewer rows mean that it ran dry"),
        (([[0.0]] * 3, ["no"] * 3), "X of shape (3, 2)"),
        ((GOOD, [["no"]] * 3), "y of shape (3,)"),
        (([[np.nan, 0.0]] * 3, ["no"] * 3), "NaN or infinity in X"),
        (([[np.inf, 0.0]] * 3, ["no"] * 3), "NaN or infinity in X"),
        *((no_pair, "a pair of X, numbers, and y") for no_pair in (None, (GOOD,))),
        (([["x", "y"]] * 3, ["no"] * 3), "a pair of X, numbers, and y"),
    ],
)
def test_what_an_oracle_must_not_give(given, message):
    with pytest.raises(OracleError, match=re.escape(message)) as caught:
        answering(given).draw(1, 3)
    assert "group 'b'" in str(caught.value)


def test_errors_of_an_oracle_and_of_targets_pass_as_they_are():
    class Broken(SampleOracle):
        def draw(self, group, size):
            raise ConnectionError("the server is away")

    with pytest.raises(ConnectionError, match="the server is away"):
        EncodingOracle(Broken(), ["a"], 2, 1.0, encode).draw(0, 2)
    with pytest.raises(ValueError, match="y must hold no class outside"):
        answering((GOOD, ["no", "yes", "maybe"])).draw(1, 3)


def test_what_is_no_oracle():
    with pytest.raises(TypeError, match="oracle must have a method draw"):
        EncodingOracle(3, ["a"], 2, 1.0, encode)
    with pytest.raises(TypeError, match="generate must be a function"):
        GeneratorOracle(3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        InMemoryOracle([[1.0]], [0, 1], ["a"])
    for unknown in (None, np.nan):
        with pytest.raises(ValueError, match="groups contains NaN or None"):
            InMemoryOracle(np.zeros((2, 1)), [0, 1], np.array(["a", unknown], dtype=object))
