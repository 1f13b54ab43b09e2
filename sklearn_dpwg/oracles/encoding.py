"""Records of an oracle, checked and encoded for a solver."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.oracles.base import SampleOracle
from sklearn_dpwg.records import RecordEncoder


class EncodingOracle(SampleOracle):
    """Asks an oracle by label, checks what it gives, and encodes it like a fit on fixed data.

    Its own groups are the numbers 0, 1, ..., and its rows have norm at most 1.

    Parameters
    ----------
    oracle : SampleOracle
        Any object with a method ``draw(group, size)``.
    group_labels : sequence
        Labels of the groups 0, 1, ...
    n_features : int
        Columns of a row.
    data_norm : float
        Rows are shortened to this norm and divided by it.
    encode_targets : callable
        Turns an array of targets into what the loss expects; raises ValueError for others.
    """

    def __init__(
        self,
        oracle: SampleOracle,
        group_labels: Sequence[Hashable],
        n_features: int,
        data_norm: float,
        encode_targets: Callable[[NDArray[Any]], FloatArray],
    ) -> None:
        if not callable(getattr(oracle, "draw", None)):
            raise TypeError(f"oracle must have a method draw(group, size), got {oracle!r}.")
        self._oracle = oracle
        self._labels = list(group_labels)
        self._n_features = n_features
        self._encoder = RecordEncoder(1, data_norm)
        self._encode_targets = encode_targets

    def draw(self, group: Hashable, size: int) -> tuple[FloatArray, FloatArray]:
        assert isinstance(group, int)
        asked = f"asked for {size} record(s) of group {self._labels[group]!r}"
        try:
            given = self._oracle.draw(self._labels[group], size)
        except Exception as error:
            raise OracleError(
                f"the oracle raised {type(error).__name__} when {asked}: {error}"
            ) from error
        rows, targets = self._as_arrays(given, asked)
        if rows.shape != (size, self._n_features) or targets.shape != (size,):
            raise OracleError(
                f"the oracle must give X of shape {(size, self._n_features)} and y of shape "
                f"{(size,)} when {asked}, got shapes {rows.shape} and {targets.shape}; fewer rows "
                f"mean that it ran dry."
            )
        if not np.isfinite(rows).all():
            raise OracleError(f"the oracle gave NaN or infinity in X when {asked}.")
        try:
            encoded = self._encode_targets(targets)
        except (TypeError, ValueError) as error:
            raise OracleError(f"the oracle gave wrong targets when {asked}: {error}") from error
        records = self._encoder.encode(rows, encoded, np.zeros(size, dtype=np.intp))
        return records.rows * records.row_scale[:, None], records.targets

    def _as_arrays(self, given: Any, asked: str) -> tuple[FloatArray, NDArray[Any]]:
        try:
            rows, targets = given
            return np.asarray(rows, dtype=np.float64), np.asarray(targets)
        except (TypeError, ValueError):
            # NumPy's own message may show a value
            raise OracleError(
                f"the oracle must give a pair of X, numbers, and y when {asked}, got something "
                f"else of type {type(given).__name__}."
            ) from None
