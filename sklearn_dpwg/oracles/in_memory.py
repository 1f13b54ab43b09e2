"""Records in memory, drawn without replacement."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.oracles.base import SampleOracle


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

    Raises
    ------
    ValueError
        If the lengths differ, or a group is unknown.

    Examples
    --------
    >>> from sklearn_dpwg.oracles import InMemoryOracle
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
        refuse_lazy(X=X, y=y, groups=groups)
        self._rows, self._targets = np.asarray(X), np.asarray(y)
        labels = np.asarray(groups)
        check_consistent_length(self._rows, self._targets, labels)
        if labels.ndim != 1:
            raise ValueError(f"groups must have one dimension, got the shape {labels.shape}.")
        n_unknown = int(pd.isna(labels).sum())
        if n_unknown:
            raise ValueError(
                f"groups must be known for every record, got NaN or None for {n_unknown:,}."
            )
        rng = np.random.default_rng(random_state)
        self._left: dict[Hashable, NDArray[np.intp]] = {
            label.item() if isinstance(label, np.generic) else label: rng.permutation(
                np.flatnonzero(labels == label)
            )
            for label in np.unique(labels)
        }
        self._sizes = {label: len(order) for label, order in self._left.items()}

    @property
    def group_sizes(self) -> dict[Hashable, int]:
        """Records of each group, drawn or not."""
        return dict(self._sizes)

    def draw(self, group: Hashable, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        size = whole_number(size, "size", least=1)
        left = self._left.get(group, np.empty(0, dtype=np.intp))
        if len(left) < size:
            raise OracleError(
                f"group {group!r} has {len(left)} record(s) left, and {size} were asked for."
            )
        chosen, self._left[group] = left[:size], left[size:]
        return self._rows[chosen], self._targets[chosen]
