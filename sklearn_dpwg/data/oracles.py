"""Sample oracles: sources of fresh records of a group.

A fresh solver never holds the records. It asks a `SampleOracle` for a few of one group, uses each
once, and forgets them. They may lie in memory (`InMemoryOracle`), or be made on demand or fetched
from a database by a function (`GeneratorOracle`); a class of your own needs one method and has to
keep the promises of `SampleOracle`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_consistent_length

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.data.frames import label_key, same_rows
from sklearn_dpwg.data.groups import encode_groups
from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.exceptions import InputTypeError, OracleError

__all__ = ["GeneratorOracle", "InMemoryOracle", "SampleOracle"]


class SampleOracle(ABC):
    """Gives fresh records of a group on demand.

    Notes
    -----
    The guarantee of whoever learns from an oracle is about records that are drawn *once*, in an
    order that no record decides. Both are up to the oracle:

    - No record is given twice, in one draw or in two. One that was given k times pays k times.
    - The records of a group come in one order. Positions, public keys and independent coins may
      decide it; what a record holds may not, not even for its own place.
    - Neither the sizes of draws nor draws of other groups change that order.
    - A record is given as it is: nothing in it is computed from other records.
    - What is not there is an error, never fewer records.

    Records that are made on demand, as by a simulator, have no order: there it is enough that each
    is made once and independently.
    """

    @abstractmethod
    def draw(self, group: Hashable, size: int) -> tuple[Any, ArrayLike]:
        """Return records of one group that were never given before.

        Parameters
        ----------
        group : hashable
            Label of the group.
        size : int
            Number of records, at least 1.

        Returns
        -------
        X : array-like of shape (size, n_features)
            Rows.
        y : array-like of shape (size,)
            Targets.

        Raises
        ------
        OracleError
            If there are not as many left; any other error will do too.
        """


class EncodingOracle(SampleOracle):
    """Calls an oracle by label, for a group's index, and checks and encodes its records."""

    def __init__(
        self,
        oracle: SampleOracle,
        group_labels: Sequence[Hashable],
        n_features: int,
        data_norm: float,
        encode_targets: Callable[[NDArray[Any]], FloatArray],
    ) -> None:
        if not callable(getattr(oracle, "draw", None)):
            raise InputTypeError(
                f"oracle must have a method draw(group, size), got {type(oracle).__name__}."
            )
        self._oracle = oracle
        self._labels = list(group_labels)
        self._n_features = n_features
        self._encoder = RecordEncoder(n_groups=1, data_norm=data_norm)
        self._encode_targets = encode_targets

    def draw(self, group: Hashable, size: int) -> tuple[FloatArray, FloatArray]:
        """Return rows and encoded targets of `size` records of the group with index `group`."""
        assert isinstance(group, int)
        label = self._labels[group]
        request = f"asked for {size} record(s) of group {label!r}"
        drawn = self._oracle.draw(label, size)
        try:
            rows, targets = drawn
            rows, targets = np.asarray(rows, dtype=np.float64), np.asarray(targets)
        except (TypeError, ValueError) as error:
            raise OracleError(
                f"the oracle must give a pair of X, numbers, and y when {request}, got something "
                f"else of type {type(drawn).__name__}."
            ) from error
        if rows.shape != (size, self._n_features) or targets.shape != (size,):
            raise OracleError(
                f"the oracle must give X of shape {(size, self._n_features)} and y of shape "
                f"{(size,)} when {request}, got shapes {rows.shape} and {targets.shape}; fewer "
                f"rows mean that it ran dry."
            )
        if not np.isfinite(rows).all():
            raise OracleError(f"the oracle gave NaN or infinity in X when {request}.")
        group_codes = np.zeros(size, dtype=np.intp)  # all records are of one group
        records = self._encoder.encode(rows, self._encode_targets(targets), group_codes)
        return records.rows.astype(np.float64), records.targets


class GeneratorOracle(SampleOracle):
    """Draws from a function that makes or fetches records, such as a simulator or a query.

    Parameters
    ----------
    generate : callable
        ``generate(group, size, rng)`` returns X and y of `size` new records of a group. Records
        that it fetches come once each, in an order that no value decides: by a public key.
    random_state : int, Generator or None, default=None
        The generator that is handed to the function.

    Examples
    --------
    >>> from sklearn_dpwg.data.oracles import GeneratorOracle
    >>> def generate(group, size, rng):
    ...     X = rng.uniform(-1, 1, size=(size, 2))
    ...     return X, (X[:, 0] > (0.2 if group == "north" else -0.2)).astype(int)
    >>> X, y = GeneratorOracle(generate).draw("north", 5)
    >>> X.shape, y.shape
    ((5, 2), (5,))
    """

    def __init__(
        self,
        generate: Callable[[Hashable, int, np.random.Generator], tuple[Any, ArrayLike]],
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        if not callable(generate):
            raise InputTypeError(f"generate must be a function, got {generate!r}.")
        self._generate = generate
        self._rng = np.random.default_rng(random_state)

    def draw(self, group: Hashable, size: int) -> tuple[Any, ArrayLike]:
        return self._generate(group, size, self._rng)


class InMemoryOracle(SampleOracle):
    """Draws from arrays, each record once.

    Parameters
    ----------
    X : array-like of shape (n_records, n_features)
        Rows; a DataFrame keeps its column types out of the draws, which are arrays.
    y : array-like of shape (n_records,)
        Targets.
    groups : array-like of shape (n_records,)
        Label of the group of each record.
    random_state : int, Generator or None, default=None
        Where the order of positions comes from. It is no secret: it need not be random for
        privacy, but a seed needs positions that no value decides.

    Examples
    --------
    >>> from sklearn_dpwg.data.oracles import InMemoryOracle
    >>> oracle = InMemoryOracle([[0.1], [0.2], [0.3]], [0, 1, 1], ["a", "b", "a"])
    >>> oracle.group_sizes
    {'a': 2, 'b': 1}
    >>> X, y = oracle.draw("b", 1)
    >>> X.tolist(), y.tolist()
    ([[0.2]], [1])
    >>> oracle.draw("b", 1)
    Traceback (most recent call last):
    sklearn_dpwg.exceptions.OracleError: group 'b' has 0 record(s) left, and 1 were asked for.
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        X, y, groups = same_rows(X=X, y=y, groups=groups)
        self._rows, self._targets = np.asarray(X), np.asarray(y)
        check_consistent_length(self._rows, self._targets)
        codes, labels = encode_groups(groups, len(self._targets), None)
        rng = np.random.default_rng(random_state)
        members = [np.flatnonzero(codes == code) for code in range(len(labels))]
        # positions of the records of each group that were not drawn yet, in random order
        orders = [rng.permutation(positions) for positions in members]
        self._undrawn = dict(zip(map(label_key, labels), orders, strict=True))
        self._sizes = dict(zip(labels.tolist(), map(len, members), strict=True))

    @property
    def group_sizes(self) -> dict[Hashable, int]:
        """Number of records of each group label, drawn ones included."""
        return dict(self._sizes)

    def draw(self, group: Hashable, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        size = whole_number(size, "size", least=1)
        undrawn = self._undrawn.get(label_key(group), np.empty(0, dtype=np.intp))
        if len(undrawn) < size:
            raise OracleError(
                f"group {group!r} has {len(undrawn)} record(s) left, and {size} were asked for."
            )
        chosen, self._undrawn[label_key(group)] = undrawn[:size], undrawn[size:]
        return self._rows[chosen], self._targets[chosen]


class RecordOracle(SampleOracle):
    """Draws from `GroupedRecords` without replacement; each group is shuffled once, by position.

    Groups are numbered from 0; rows have norm at most 1 and are copied when they are drawn. Where
    groups are hidden there is one queue, number 0, with the records of all groups: its order
    depends on their places alone, never on their groups.
    """

    def __init__(self, records: GroupedRecords, rng: np.random.Generator) -> None:
        self._rows, self._targets = records.rows, records.targets
        self._is_sparse = issparse(records.rows)
        queues = np.split(np.arange(records.starts[-1]), records.starts[1:-1])
        self._groups = np.repeat(np.arange(len(queues)), records.group_sizes)
        if records.places is not None:
            queues = [np.argsort(records.places)]
        # positions of the records in `records`, in the order in which each queue gives them
        self._order = [rng.permutation(queue) for queue in queues]
        self._n_drawn = [0] * len(self._order)

    def draw_places(self, size: int) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        """Return rows and targets of the next records of queue 0, and the group code of each."""
        start = self._n_drawn[0]
        rows, targets = self.draw(0, size)
        return rows, targets, self._groups[self._order[0][start : start + size]]

    def draw(self, group: Hashable, size: int) -> tuple[FloatArray, FloatArray]:
        """Return rows and targets of the next `size` records of the queue with number `group`."""
        assert isinstance(group, int)
        start, order = self._n_drawn[group], self._order[group]
        stop = start + size
        if stop > len(order) or size < 1:
            raise OracleError(
                f"group {group} has {len(order) - start} record(s) left, and {size} were asked for."
            )
        chosen, self._n_drawn[group] = order[start:stop], stop
        # draws are of few rows, so sparse rows are made dense
        rows = self._rows[chosen].toarray() if self._is_sparse else self._rows.take(chosen, 0)
        return rows.astype(np.float64), self._targets.take(chosen)
