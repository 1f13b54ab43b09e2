"""The public check lets honest oracles pass and sees every promise broken."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sklearn_dpwg.data.oracles import InMemoryOracle, SampleOracle, check_sample_oracle
from sklearn_dpwg.exceptions import OracleError


class Honest(SampleOracle):
    """Deals each group's records in the order of their positions; the faults start from here."""

    def __init__(self, X, y, groups):
        labels = np.asarray(groups)
        self.X, self.y, self.rng = X, y, np.random.default_rng(0)
        self.left = {
            label: np.flatnonzero(labels == label).tolist() for label in sorted(set(groups))
        }
        for left in self.left.values():
            self.arrange(left)

    def arrange(self, left):
        """Leave the records of a group in the order in which they are."""

    def draw(self, group, size):
        left = self.left[group]
        if len(left) < size:
            raise OracleError(f"{len(left)} left")
        self.left[group] = left[size:]
        return self.give(left[:size])

    def give(self, chosen):
        return self.tell(self.X[chosen], self.y[chosen])

    def tell(self, X, y):
        return X, y


def test_honest_oracles_pass():
    check_sample_oracle(Honest)
    check_sample_oracle(lambda X, y, groups: InMemoryOracle(X, y, groups, random_state=3))


BROKEN = []


def breaks(sentence):
    """Put an oracle, and how the check begins to say what is wrong, into the table of faults."""

    def note(broken):
        BROKEN.append((broken, sentence))
        return broken

    return note


BY_VALUES = "the order must not depend on values"
BY_DRAWS = "neither sizes of draws nor draws of other groups may change the order"
TOO_MANY = "what is not there must be an error"
NO_GROUP = "what is not there must be an error.*there is no such group"
NOT_AS_IT_IS = "a record must be given once and as it is, but 1?[0-9] draws of group"


@breaks(BY_VALUES)
class SortedByTarget(Honest):
    def arrange(self, left):
        left.sort(key=lambda i: (self.y[i], i))


@breaks(BY_VALUES)
class SortedByOneColumn(Honest):
    def arrange(self, left):
        left.sort(key=lambda i: self.X[i, 2])


@breaks(BY_VALUES)
class SeededByValues(Honest):
    def arrange(self, left):
        np.random.default_rng(int(1e6 * abs(self.X).sum())).shuffle(left)


@breaks(BY_VALUES)
class LargestLast(Honest):
    """One record at most moves: the one with the largest value, and those between."""

    def arrange(self, left):
        largest = max(left, key=lambda i: self.X[i, 0])
        left.remove(largest)
        left.append(largest)


@breaks(BY_VALUES)
class RowByRow(Honest):
    """A target of 1 swaps the two rows after it."""

    def arrange(self, left):
        if self.y[left[0]] > self.y.min():
            left[1], left[2] = left[2], left[1]


@breaks(BY_DRAWS)
class SortedInAPage(Honest):
    def give(self, chosen):
        return super().give(sorted(chosen, key=lambda i: self.X[i, 1]))


@breaks(BY_DRAWS)
class BackwardsInAPage(Honest):
    def give(self, chosen):
        return super().give(chosen[::-1])


@breaks(BY_DRAWS)
class OneOrder(Honest):
    """One stream of coins for all groups: what a group gives depends on the draws of others."""

    def draw(self, group, size):
        if group in self.left:
            self.rng.shuffle(self.left[group])
        return super().draw(group, size)


@breaks("the same records and coins must give the same order")
class NewCoins(Honest):
    def arrange(self, left):
        np.random.default_rng().shuffle(left)


@breaks("every record must come once, but [0-9]+ draws of group '[abc]' held")
class Again(Honest):
    def arrange(self, left):
        left[-1] = left[0]


@breaks("what is not there must be an error, but a draw of 1 record")
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


@breaks("(what is not there must be an error|every record must come once)")
class WithReplacement(Honest):
    def draw(self, group, size):
        return self.give(self.rng.choice(self.left[group], size))


@breaks(TOO_MANY)
class Endless(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        self.left = {label: itertools.cycle(left) for label, left in self.left.items()}

    def draw(self, group, size):
        return self.give([next(self.left[group]) for _ in range(size)])


@breaks(TOO_MANY)
class Fewer(Honest):
    def draw(self, group, size):
        chosen, self.left[group] = self.left[group][:size], self.left[group][size:]
        return self.give(chosen)


@breaks("every record must come once, but the oracle raised OracleError")
class FewerThanThereAre(Honest):
    def arrange(self, left):
        left.pop()


@breaks("a draw must hold records of its own group only, as they are")
class WrongGroup(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X, y, groups)
        one, other = list(self.left.values())[:2]
        one[0], other[0] = other[0], one[0]


@breaks(NO_GROUP)
class AnyGroup(Honest):
    def draw(self, group, size):
        return super().draw(group, size) if group in self.left else self.give([0] * size)


@breaks(NO_GROUP)
class EmptyForUnknown(Honest):
    def draw(self, group, size):
        return super().draw(group, size) if group in self.left else self.give([])


@breaks(NOT_AS_IT_IS)
class Centred(Honest):
    def __init__(self, X, y, groups):
        super().__init__(X - X.mean(axis=0), y, groups)


@breaks(NOT_AS_IT_IS)
class CentredByGroup(Honest):
    def arrange(self, left):
        self.X[left] -= self.X[left].mean(axis=0)


@breaks("a record must be given once and as it is, but 2 draws of group")
class Differences(Honest):
    """Gives what changed from one record to the next."""

    def arrange(self, left):
        self.X[left[1:]] -= self.X[left[:-1]].copy()


@breaks("every record must come once")
class Blank(Honest):
    def tell(self, X, y):
        return 0.0 * X, 0 * y


@breaks("values must be finite")
class Infinite(Honest):
    def tell(self, X, y):
        X[0, 0] = np.inf
        return X, y


@breaks("values must be finite")
class NoNumber(Honest):
    def tell(self, X, y):
        return X, np.where(np.arange(len(y)) == 0, np.nan, y)


@breaks("a draw must have the size that was asked for")
class Flat(Honest):
    def tell(self, X, y):
        return X[0], y


@breaks("a draw must")
class NoTargets(Honest):
    def tell(self, X, y):
        return X


@breaks("a draw must be a pair of X, numbers, and y")
class Words(Honest):
    def tell(self, X, y):
        return [["x"] * X.shape[1]] * len(X), y


@pytest.mark.parametrize(("broken", "sentence"), BROKEN, ids=[each.__name__ for each, _ in BROKEN])
def test_each_broken_promise_is_named(broken, sentence):
    with pytest.raises(AssertionError, match=f"^{sentence}") as caught:
        check_sample_oracle(broken)
    assert "\n" not in str(caught.value)


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
