"""Attack on the promises of a sample oracle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.data.oracles.base import SampleOracle
from sklearn_dpwg.exceptions import InputError

# Draws of a group's label and a size, one after the other.
_Schedule = list[tuple[Hashable, int]]
# Addresses in memory differ between two oracles that do the same.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def check_sample_oracle(
    make_oracle: Callable[[Any, Any, Any], SampleOracle],
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    groups: Any = None,
    *,
    n_replaced: int = 40,
    random_state: int | np.random.Generator | None = 0,
) -> None:
    """Check that oracles keep the promises of `SampleOracle`, on records and many neighbours.

    Oracles are made on the same records again and again, and on records of which one is
    replaced. All of them are drawn until they are empty, in pages of several sizes.

    Parameters
    ----------
    make_oracle : callable
        ``make_oracle(X, y, groups)`` returns a new oracle of these records, one that has given
        nothing yet. It has to take the same coins each time, from a fixed seed, and may store
        the records first, in a temporary table, say. Positions in the arrays are public.
    X : array-like of shape (n_records, n_features), optional
        Finite rows; 24 rows of 3 columns, of norm at most 1, by default.
    y : array-like of shape (n_records,), optional
        Targets; 0 and 1 by default.
    groups : sequence of n_records labels, optional
        Group of each record, a tuple where there are several columns; three groups ``"a"``,
        ``"b"`` and ``"c"`` by default.
    n_replaced : int, default=40
        How many records are replaced at most, one at a time; each by up to four others.
    random_state : int, Generator or None, default=0
        Where the check's own choices come from.

    Raises
    ------
    AssertionError
        If a promise is broken; the sentence says which one and how.
    ValueError
        If only some of X, `y` and `groups` are given, or they do not match.

    Notes
    -----
    The promises are: draws have the size that was asked for and are finite; every record comes
    once, in a draw of its own group; the order is the same whatever one record holds, for sizes of
    every kind, and between draws of other groups; a replaced record changes its own place only;
    an empty or unknown group is an error.

    The check is an attack, not a proof: an oracle that follows values only on other records
    than these passes. So give it data like yours, with every index and option that you use. A
    simulator holds no records and has nothing that could be checked here.

    Examples
    --------
    >>> from sklearn_dpwg.data.oracles import InMemoryOracle, check_sample_oracle
    >>> check_sample_oracle(lambda X, y, groups: InMemoryOracle(X, y, groups, random_state=0))
    >>> class ByTarget:
    ...     def __init__(self, X, y, groups):
    ...         self.left = {
    ...             label: sorted(zip(y[groups == label], X[groups == label].tolist()))
    ...             for label in "abc"
    ...         }
    ...     def draw(self, group, size):
    ...         y, X = zip(*[self.left[group].pop(0) for _ in range(size)])
    ...         return X, y
    >>> check_sample_oracle(ByTarget)
    Traceback (most recent call last):
    AssertionError: the order must not depend on values, but draws 0 to 3 of group 'b' moved with
    what record 0 of group 'b' held.
    """
    rng = np.random.default_rng(random_state)
    n_replaced = whole_number(n_replaced, "n_replaced", least=1)
    world = _World(make_oracle, _records(X, y, groups, rng))
    schedules = _schedules(world.records, rng)
    first = _check_promises_on_one_data_set(world, schedules)
    positions: dict[Hashable, dict[int, int]] = {}
    chosen = rng.permutation(len(world.records.labels))[:n_replaced]
    for where in sorted(chosen.tolist()):
        label, found = world.records.labels[where], None
        for records in _neighbours(world.records, where, rng):
            for schedule in (schedules[0], schedules[-1]):
                place = _check_neighbour(first, world.drain(schedule, records), where, label)
                _promise(
                    found in (None, place),
                    f"the order must not depend on values, but record {where} of group {label!r} "
                    f"came as draw {found} or {place} with what it held itself",
                )
                found = place
        if found is not None:
            other = positions.setdefault(label, {}).setdefault(found, where)
            _promise(
                other == where,
                f"every record must come once, but records {other} and {where} share draw {found} "
                f"of group {label!r}",
            )


@dataclass(frozen=True)
class _Records:
    """Records for which oracles are made."""

    X: FloatArray
    y: NDArray[Any]
    groups: Any
    labels: list[Hashable]

    @property
    def sizes(self) -> Counter[Hashable]:
        return Counter(self.labels)


@dataclass
class _Drawn:
    """Records of one oracle until it is empty, by group."""

    rows: dict[Hashable, list[tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class _World:
    """A function that makes oracles, and the records that all others are neighbours of."""

    make_oracle: Callable[[Any, Any, Any], SampleOracle]
    records: _Records

    def oracle(self, records: _Records | None = None) -> SampleOracle:
        """Return a new oracle."""
        given = self.records if records is None else records
        oracle = self.make_oracle(given.X.copy(), given.y.copy(), given.groups)
        _promise(
            callable(getattr(oracle, "draw", None)),
            f"make_oracle must return an object with a method draw(group, size), got {oracle!r}",
        )
        return oracle

    def drain(self, schedule: _Schedule, records: _Records | None = None) -> _Drawn:
        """Draw everything from a new oracle, and then ask for more."""
        oracle, drawn = self.oracle(records), _Drawn()
        for group, size in schedule:
            drawn.rows.setdefault(group, []).extend(_draw(oracle, group, size))
        for group, size in self.records.sizes.items():
            for _ in range(2):
                _check_refused(oracle, group, 1, f"all {size} had been given")
        _check_refused(oracle, _unknown_label(self.records.labels), 1, "there is no such group")
        return drawn


def _promise(is_kept: bool, sentence: str) -> None:
    if not is_kept:
        raise AssertionError(f"{sentence}.")


def _check_promises_on_one_data_set(world: _World, schedules: Sequence[_Schedule]) -> _Drawn:
    """Check what can be seen without neighbours, and return the draws in the first schedule."""
    first, again = world.drain(schedules[0]), world.drain(schedules[0])
    _check_each_once(first, world.records)
    _promise(
        first.rows == again.rows,
        "the same records and coins must give the same order, but two oracles of make_oracle "
        "differ: it has to fix a seed",
    )
    for schedule in schedules[1:]:
        found = world.drain(schedule)
        for label, rows in first.rows.items():
            changed, _ = _compare(rows, found.rows[label])
            if changed:
                raise AssertionError(
                    f"neither sizes of draws nor draws of other groups may change the order, but "
                    f"draw {changed[0]} of group {label!r} differs when "
                    f"{_describe(schedule, label)}."
                )
    for label, size in world.records.sizes.items():
        _check_refused(world.oracle(), label, size + 1, f"it has {size}")
    return first


def _check_each_once(drawn: _Drawn, records: _Records) -> None:
    stored = list(zip(map(tuple, records.X.tolist()), records.y.tolist(), strict=True))
    for label, rows in drawn.rows.items():
        own = {pair for pair, of in zip(stored, records.labels, strict=True) if of == label}
        # rows may be rescaled, so only their number is compared
        _promise(
            len(set(rows)) >= len(own),
            f"every record must come once, but {len(rows)} draws of group {label!r} held "
            f"{len(set(rows))} different records instead of {len(own)}",
        )


def _check_neighbour(first: _Drawn, other: _Drawn, where: int, label: Hashable) -> int:
    """Check that a replaced record changes one draw, and return its place."""
    cause = f"with what record {where} of group {label!r} held"
    places: list[int] = []
    for group, rows in first.rows.items():
        changed, n_new = _compare(rows, other.rows[group])
        _promise(
            group == label or not n_new,
            f"a draw must hold records of its own group only, as they are, but {n_new} of group "
            f"{group!r} changed {cause}",
        )
        _promise(
            n_new <= 1,
            f"a record must be given once and as it is, but {n_new} draws of group {group!r} "
            f"changed {cause}",
        )
        if len(changed) != n_new:
            raise AssertionError(
                f"the order must not depend on values, but draws {changed[0]} to {changed[-1]} of "
                f"group {group!r} moved {cause}."
            )
        places += changed
    _promise(bool(places), f"every record must come once, but no draw changed {cause}")
    return places[0]


def _compare(rows: list[Any], others: list[Any]) -> tuple[list[int], int]:
    """Return the draws that changed, and how many records are new."""
    changed = [i for i, pair in enumerate(zip(rows, others, strict=True)) if pair[0] != pair[1]]
    return changed, (Counter(others) - Counter(rows)).total()


def _draw(oracle: SampleOracle, group: Hashable, size: int) -> list[tuple[Any, ...]]:
    """Return the records of one draw, each as a tuple, its shape and numbers checked."""
    asked = f"when asked for {size} record(s) of group {group!r}"
    try:
        given = oracle.draw(group, size)
    except Exception as error:
        raise AssertionError(
            f"every record must come once, but the oracle raised {type(error).__name__} {asked}, "
            f"which are there: {error}"
        ) from error
    try:
        rows, targets = given
        rows, targets = np.asarray(rows, dtype=np.float64), np.asarray(targets)
    except (TypeError, ValueError):
        raise AssertionError(
            f"a draw must be a pair of X, numbers, and y, got something else {asked}."
        ) from None
    _promise(
        rows.ndim == 2 and len(rows) == size and targets.shape == (size,),
        f"a draw must have the size that was asked for, but X has the shape {rows.shape} and y "
        f"{targets.shape} {asked}",
    )
    is_number = targets.dtype.kind in "fc"
    _promise(
        bool(np.isfinite(rows).all()) and not (is_number and not np.isfinite(targets).all()),
        f"values must be finite, but the oracle gave NaN or infinity {asked}",
    )
    return list(zip(map(tuple, rows.tolist()), targets.tolist(), strict=True))


def _check_refused(oracle: SampleOracle, group: Hashable, size: int, why: str) -> None:
    """Check that a draw ends in an error."""
    try:
        oracle.draw(group, size)
    except Exception:
        return
    raise AssertionError(
        f"what is not there must be an error, but a draw of {size} record(s) of group {group!r} "
        f"was answered where {why}."
    )


def _describe(schedule: _Schedule, label: Hashable) -> str:
    sizes = [str(size) for group, size in schedule if group == label]
    others = any(a != b and b == label for (a, _), (b, _) in pairwise(schedule))
    mixed = ", between draws of other groups" if others else ""
    return f"drawn in pages of {', '.join(sizes)}{mixed}"


def _schedules(records: _Records, rng: np.random.Generator) -> list[_Schedule]:
    """Return ways to draw everything: at once, one by one, and mixed three times."""
    sizes = dict(records.sizes)
    schedules: list[_Schedule] = [
        list(sizes.items()),
        [(label, 1) for label, size in reversed(sizes.items()) for _ in range(size)],
    ]
    for _ in range(3):
        left, mixed = dict(sizes), []
        while left:
            label = list(left)[rng.integers(len(left))]
            size = min(left[label], int(rng.integers(1, 5)))
            mixed.append((label, size))
            left[label] -= size
            if not left[label]:
                del left[label]
        schedules.append(mixed)
    return schedules


def _neighbours(records: _Records, where: int, rng: np.random.Generator) -> Iterator[_Records]:
    """Yield the records with one replaced: by extremes, in its row only, in its target only."""
    low, high = records.X.min(axis=0), records.X.max(axis=0)
    targets = np.unique(records.y)
    other = targets[targets != records.y[where]]
    row, target = records.X[where], records.y[where]
    candidates = [
        (low, targets[0]),
        (high, targets[-1]),
        (rng.uniform(low, high), target),
        (row, rng.choice(other) if len(other) else target),
    ]
    for new_row, new_target in candidates:
        if np.array_equal(new_row, row) and new_target == target:
            continue
        X, y = records.X.copy(), records.y.copy()
        X[where], y[where] = new_row, new_target
        yield _Records(X, y, records.groups, records.labels)


def _records(X: Any, y: Any, groups: Any, rng: np.random.Generator) -> _Records:
    """Return the caller's records, or those of the check."""
    n_missing = sum(given is None for given in (X, y, groups))
    if n_missing == 3:
        made = rng.permutation(np.repeat(["a", "b", "c"], [11, 8, 5]))
        # numbers that lower precisions hold too, in rows of norm below 1
        X = rng.permutation(np.arange(-36, 36)).reshape(24, 3) / 64.0
        y = rng.permutation(np.arange(24) % 2)
        return _Records(X, y, made, made.tolist())
    if n_missing:
        raise InputError("X, y and groups must be given together, or none of them.")
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    given = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    labels: list[Hashable] = [tuple(label) if isinstance(label, list) else label for label in given]
    check_consistent_length(X, y, labels)
    if X.ndim != 2 or y.ndim != 1 or not np.isfinite(X).all():
        raise InputError(
            f"X must be a matrix of finite numbers and y have one dimension, got the shapes "
            f"{X.shape} and {y.shape}."
        )
    return _Records(X, y, groups, labels)


def _unknown_label(labels: list[Hashable]) -> Hashable:
    """Return a label of no group, of the kind of the others."""
    if all(isinstance(label, int) for label in labels):
        return max(labels) + 1  # type: ignore[type-var, operator]
    if isinstance(labels[0], tuple):
        return ("no such group",) * len(labels[0])
    return "no such group"
