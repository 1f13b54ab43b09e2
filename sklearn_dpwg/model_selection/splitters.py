"""Folds that depend on public facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import MetadataRequest

from sklearn_dpwg.data.frames import same_rows
from sklearn_dpwg.data.groups import (
    GroupBy,
    encode_groups,
    find_groups,
    grouping_names,
    select_groups,
)
from sklearn_dpwg.exceptions import InputError

Indices = NDArray[np.intp]


class PublicKFold(KFold):
    """Deal records to folds by public facts alone, so that what is fitted on them can be summed.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Deal in a random order, or by another hash of the key. Rows that repeat in a rhythm, as one
        a weekday, need it.
    random_state : int or RandomState, optional
        Seed of the shuffling.
    group_by : column name, column index, sequence of them, or callable, optional
        Finds the groups in X. By default they are passed to ``split``, which scikit-learn does
        for ``groups=`` of searches and ``cross_validate``, with metadata routing and without, and
        ``CalibratedClassifierCV`` with routing alone. Without any, all records are one group.
    key : column name, column index, sequence of them, or callable, optional
        Finds a public key in X, such as the id of a person, as ``lambda X: X.index``. Its hash
        chooses the fold, so that records of one key stay together and nobody's fold changes when
        others join or leave.

    Notes
    -----
    Without `key` the i-th record, or the i-th of an order that the seed decides, is in fold
    i mod `n_splits`, so that folds are as large, up to one record. With `key` a record's fold is a
    function of its own key and of the seed. So neighbours, which agree in the key of every place,
    have the same folds, and every fit on folds reads the same places of both, of which at most one
    holds another record, of whatever group: the fit's own guarantee covers it, and composition all
    of them (``docs/guide/searches.md``).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.model_selection import PublicKFold
    >>> groups = np.array(["a", "b", "a", "a", "b", "a"])
    >>> for _, test in PublicKFold(2).split(groups, groups=groups):
    ...     print(test, groups[test])
    [0 2 4] ['a' 'a' 'b']
    [1 3 5] ['b' 'a' 'a']
    """

    # the groups reach split through everything that routes metadata, unless X holds them
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        group_by: GroupBy | None = None,
        key: GroupBy | None = None,
    ) -> None:
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)
        self.group_by = group_by
        self.key = key

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what scikit-learn should hand to ``split``: groups, unless X holds them."""
        if self.group_by is not None:
            return MetadataRequest(owner=self)
        return super().get_metadata_routing()

    def _grouping_names(self) -> tuple[str, ...]:
        """Return the names of the public keys that decide the folds, for `privacy_of`."""
        return tuple(f"key of folds: {name}" for name in grouping_names(None, self.key))

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield positions of all other folds and of one; only `group_by` and `key` read X."""
        _, groups = same_rows(X=X, groups=groups)
        n_records = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        groups = find_groups(X, groups, self.group_by)
        codes, labels = np.zeros(n_records, dtype=np.intp), None
        if groups is not None:
            codes, labels = encode_groups(groups, n_records, None)
        rng = check_random_state(self.random_state) if self.shuffle else None
        if self.key is None:
            places = np.arange(n_records) if rng is None else rng.permutation(n_records)
            folds = places % self.n_splits
        else:
            folds = self._folds_of_keys(X, n_records, salt=b"" if rng is None else rng.bytes(16))
        counts = np.zeros((codes.max(initial=0) + 1, self.n_splits), dtype=np.intp)
        np.add.at(counts, (codes, folds), 1)  # records of each group in each fold
        rarest = int(counts.min(axis=1).argmin())
        if not counts[rarest].all():
            name = "X" if labels is None else f"group {labels[rarest]!r}"
            n_filled = np.count_nonzero(counts[rarest])
            raise InputError(
                f"n_splits={self.n_splits} folds must each hold records of every group: {name} has "
                f"{counts[rarest].sum()}, and {n_filled} fold(s) hold any."
            )
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def _folds_of_keys(self, X: Any, n_records: int, salt: bytes) -> Indices:
        """Return the fold of each record: a hash of its key modulo n_splits, the same anywhere."""
        try:
            codes, keys = encode_groups(select_groups(X, self.key), n_records, None)
        except InputError as error:
            raise InputError(f"key must be found for every record: {error}") from None
        texts = (_text(one).encode("utf-8", "surrogatepass") for one in keys)
        digests = (blake2b(text, digest_size=8, key=salt).digest() for text in texts)
        numbers = np.array([int.from_bytes(digest) for digest in digests], dtype=np.uint64)
        return (numbers % np.uint64(self.n_splits)).astype(np.intp)[codes]


def _text(key: Any) -> str:
    """Return a key as text; 7.0 and 7 are the same text, as arrays may turn ints to floats."""
    return ",".join(map(_text, key)) if isinstance(key, tuple) else str(key).removesuffix(".0")
