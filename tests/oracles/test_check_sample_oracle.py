"""The public check lets honest oracles pass and sees every promise broken."""

from __future__ import annotations

import itertools
import sqlite3

import numpy as np
import pytest

from sklearn_dpwg.data.oracles import InMemoryOracle, SampleOracle, check_sample_oracle
from sklearn_dpwg.exceptions import OracleError


class Honest(SampleOracle):
    """Deals each group's records in the order of their positions; the faults start from here."""

    def __init__(self, X, y, groups):
        labels = np.asarray(groups)
        self.X, self.y = X, y
        self.left = {
            label: np.flatnonzero(labels == label).tolist() for label in sorted(set(groups))
        }

    def draw(self, group, size):
        left = self.left[group]
        if len(left) < size:
            raise OracleError(f"{len(left)} left")
        self.left[group] = left[size:]
        return self.give(left[:size])

    def give(self, chosen):
        return self.X[chosen], self.y[chosen]


def test_honest_oracles_pass():
    check_sample_oracle(Honest)
    check_sample_oracle(lambda X, y, groups: InMemoryOracle(X, y, groups, random_state=3))


class SortedByTarget(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            left.sort(key=lambda i: (self.y[i], i))


class SortedByOneColumn(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            left.sort(key=lambda i: X[i, 2])


class SeededByValues(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        rng = np.random.default_rng(int(1e6 * abs(X).sum()))
        for left in self.left.values():
            rng.shuffle(left)


class LargestLast(Honest):
    """One record at most moves: the one with the largest value, and those between."""

    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            largest = max(left, key=lambda i: X[i, 0])
            left.remove(largest)
            left.append(largest)


class SortedInAPage(Honest):
    def give(self, chosen):
        return super().give(sorted(chosen, key=lambda i: self.X[i, 1]))


class RowByRow(Honest):
    """A target of 1 swaps the two rows after it."""

    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            if y[left[0]] > y.min():
                left[1], left[2] = left[2], left[1]


class Again(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            left[-1] = left[0]


class AgainLater(Honest):
    """Starts anew when it has run dry and said so once."""

    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        self.all = dict(self.left)

    def draw(self, group, size):
        try:
            return super().draw(group, size)
        except OracleError:
            self.left[group] = self.all[group]
            raise


class WithReplacement(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        self.rng = np.random.default_rng(0)

    def draw(self, group, size):
        return self.give(self.rng.choice(self.left[group], size))


class Endless(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        self.left = {label: itertools.cycle(left) for label, left in self.left.items()}

    def draw(self, group, size):
        return self.give([next(self.left[group]) for _ in range(size)])


class Fewer(Honest):
    def draw(self, group, size):
        chosen, self.left[group] = self.left[group][:size], self.left[group][size:]
        return self.give(chosen)


class FewerThanThereAre(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        self.left = {label: left[:-1] for label, left in self.left.items()}


class WrongGroup(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        first, second = list(self.left)[:2]
        one, other = self.left[first], self.left[second]
        one[0], other[0] = other[0], one[0]


class AnyGroup(Honest):
    def draw(self, group, size):
        return super().draw(group, size) if group in self.left else self.give([0] * size)


class EmptyForUnknown(Honest):
    def draw(self, group, size):
        if group not in self.left:
            return np.empty((0, 3)), np.empty(0)
        return super().draw(group, size)


class OneOrder(Honest):
    """One stream of coins for all groups: what a group gives depends on the draws of others."""

    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        self.rng = np.random.default_rng(0)

    def draw(self, group, size):
        if group in self.left:
            self.rng.shuffle(self.left[group])
        return super().draw(group, size)


class BackwardsInAPage(Honest):
    def give(self, chosen):
        return super().give(chosen[::-1])


class NewCoins(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        rng = np.random.default_rng()
        for left in self.left.values():
            rng.shuffle(left)


class Centred(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X - X.mean(axis=0), y, groups)


class CentredByGroup(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            self.X[left] -= self.X[left].mean(axis=0)


class Differences(Honest):
    """Gives what changed from one record to the next."""

    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        for left in self.left.values():
            self.X[left[1:]] -= X[left[:-1]].copy()


class Blank(Honest):
    def give(self, chosen):
        X, y = super().give(chosen)
        return 0.0 * X, 0 * y


class Infinite(Honest):
    def give(self, chosen):
        X, y = super().give(chosen)
        X[0, 0] = np.inf
        return X, y


class NoNumber(Honest):
    def give(self, chosen):
        X, y = super().give(chosen)
        return X, np.where(np.arange(len(y)) == 0, np.nan, y)


class Flat(Honest):
    def give(self, chosen):
        X, y = super().give(chosen)
        return X[0], y


class NoTargets(Honest):
    def give(self, chosen):
        return super().give(chosen)[0]


class Words(Honest):
    def give(self, chosen):
        X, y = super().give(chosen)
        return [["x"] * X.shape[1]] * len(X), y


class Talks(Honest):
    def draw(self, group, size):
        try:
            return super().draw(group, size)
        except OracleError:
            raise OracleError(f"no record left after {self.X.max()}") from None


BROKEN = [
    (SortedByTarget, "the order must not depend on values"),
    (SortedByOneColumn, "the order must not depend on values"),
    (SeededByValues, "the order must not depend on values"),
    (LargestLast, "the order must not depend on values"),
    (RowByRow, "the order must not depend on values"),
    (SortedInAPage, "neither sizes of draws nor draws of other groups may change the order"),
    (BackwardsInAPage, "neither sizes of draws nor draws of other groups may change the order"),
    (OneOrder, "neither sizes of draws nor draws of other groups may change the order"),
    (NewCoins, "the same records and coins must give the same order"),
    (Again, "every record must come once, but [0-9]+ draws of group '[abc]' held"),
    (AgainLater, "what is not there must be an error, but a draw of 1 record"),
    (WithReplacement, "(what is not there must be an error|every record must come once)"),
    (Endless, "what is not there must be an error"),
    (Fewer, "what is not there must be an error"),
    (
        FewerThanThereAre,
        "every record must come once, but the oracle raised OracleError",
    ),
    (WrongGroup, "a draw must hold records of its own group only, as they are"),
    (AnyGroup, "what is not there must be an error.*there is no such group"),
    (EmptyForUnknown, "what is not there must be an error.*there is no such group"),
    (Centred, "a record must be given once and as it is, but 1?[0-9] draws of group"),
    (CentredByGroup, "a record must be given once and as it is, but 1?[0-9] draws of group"),
    (Differences, "a record must be given once and as it is, but 2 draws of group"),
    (Blank, "every record must come once"),
    (Infinite, "values must be finite"),
    (NoNumber, "values must be finite"),
    (Flat, "a draw must have the size that was asked for"),
    (NoTargets, "a draw must"),
    (Words, "a draw must be a pair of X, numbers, and y"),
    (Talks, "the text of an error must not depend on values"),
]


@pytest.mark.parametrize(("broken", "sentence"), BROKEN, ids=[each.__name__ for each, _ in BROKEN])
def test_each_broken_promise_is_named(broken, sentence):
    with pytest.raises(AssertionError, match=f"^{sentence}") as caught:
        check_sample_oracle(broken)
    assert "\n" not in str(caught.value)


def test_coins_in_the_order_of_a_scan_are_seen():
    """The table of issue 13: an index puts rows in the order of a private value."""

    class ByScan(Honest):
        def __init__(self, X, y, groups):
            super().__init__(X, y, groups)
            table = sqlite3.connect(":memory:")
            table.execute("create table v (id integer primary key, age real, clinic text)")
            rows = [
                (i, x, g) for i, (x, g) in enumerate(zip(X[:, 0].tolist(), groups, strict=True))
            ]
            table.executemany("insert into v values (?, ?, ?)", rows)
            table.execute("create index by_age on v (clinic, age)")
            rng = np.random.default_rng(0)
            table.create_function("coin", 0, lambda: int(rng.integers(2**62)))
            for label in sorted(self.left):
                query = "select id from v where clinic is ? order by coin()"
                self.left[label] = [row[0] for row in table.execute(query, (label,))]
            table.close()

    with pytest.raises(AssertionError, match=r"^the order must not depend on values"):
        check_sample_oracle(ByScan)


# --- the caller's own records ---------------------------------------------------------------------


def test_records_of_the_caller():
    X = [[0.0, 1.0], [0.0, 1.0], [0.5, 0.0], [1.0, 2.0], [1.0, 3.0]]
    for y in ([1.5, 1.5, 0.0, 2.0, -1.0], ["yes", "yes", "no", "no", "yes"]):
        for groups in ([0, 0, 1, 1, 1], np.array(["b", "b", "a", "a", "a"])):
            check_sample_oracle(Honest, X, y, groups)
            with pytest.raises(AssertionError, match="the order must not depend on values"):
                check_sample_oracle(SortedByTarget, X, y, groups, n_replaced=5)


def test_labels_of_several_columns():
    class Pairs(Honest):
        def __init__(self, X, y, groups):
            self.X, self.y, self.left = X, y, {}
            for i, label in enumerate(groups):
                self.left.setdefault(tuple(label), []).append(i)

    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    groups = [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("a", 2), ("b", 1)]
    check_sample_oracle(Pairs, X, y, groups)
    check_sample_oracle(Pairs, X, y, np.array(groups, dtype=object))


def test_only_so_many_records_are_replaced():
    made = []

    class Counted(Honest):
        def __init__(self, X, y, groups):
            super().__init__(X, y, groups)
            made.append(self)

    check_sample_oracle(Counted, n_replaced=2)
    few = len(made)
    made.clear()
    check_sample_oracle(Counted)
    assert few < 40 < 190 < len(made)
    X, y = np.zeros((24, 3)), np.zeros(24)  # not changed by what an oracle does with its copy
    check_sample_oracle(Honest, X + np.arange(24)[:, None], y, ["a", "b"] * 12, n_replaced=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X": [[1.0]]}, "X, y and groups must be given together"),
        ({"X": [[1.0]], "y": [0, 1], "groups": ["a"]}, "inconsistent numbers of samples"),
        ({"X": [1.0], "y": [0], "groups": ["a"]}, "X must be a matrix of finite numbers"),
        ({"X": [[np.nan]], "y": [0], "groups": ["a"]}, "X must be a matrix of finite numbers"),
        ({"n_replaced": 0}, "n_replaced must be at least 1, got 0"),
    ],
)
def test_wrong_parameters(given, message):
    with pytest.raises(ValueError, match=message):
        check_sample_oracle(Honest, **given)


def test_what_is_no_oracle():
    with pytest.raises(AssertionError, match=r"^make_oracle must return an object with a method"):
        check_sample_oracle(lambda X, y, groups: (X, y))
