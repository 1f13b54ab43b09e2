"""Folds that hold every group in every fold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.multiclass import type_of_target

from sklearn_dpwg.data.groups import GroupBy, encode_groups, find_groups, refuse_lazy
from sklearn_dpwg.exceptions import InputError

Indices = NDArray[np.intp]


class GroupLabelStratifiedKFold(StratifiedKFold):
    """Stratify folds by group and label together.

    Every fold holds its share of each group, and within a group of each class, so that a
    worst-group score is of the same groups in every fold. Targets that are no classes are
    stratified by group alone.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Shuffle the records of each cell before they are dealt out.
    random_state : int or RandomState, optional
        Seed of the shuffling.
    use_labels : bool, default=True
        Stratify by label too, not by group alone.
    group_by : column name, column index, sequence of them, or callable, optional
        Finds the groups in X. By default they are passed to ``split``, which scikit-learn does
        for ``groups=`` of searches and ``cross_validate``, with metadata routing and without.

    Notes
    -----
    Classes of a group with fewer records than folds are dealt out together, so that a fold may
    lack such a class but never the group. scikit-learn's ``StratifiedGroupKFold`` does the
    opposite: it keeps a group within one fold, for records that belong together.

    With ``use_labels=True`` one record's label decides which fold *other* records are in, so that
    replacing it changes more than one record of a training set, and the guarantee of a model
    fitted on a fold does not cover that. Use it where the models and scores of the folds stay with
    those who may see the records. With ``use_labels=False`` the folds follow from groups, positions
    and the seed alone, which are public. To a model with ``neighbours="replace-any"`` groups are
    not, and its guarantee does not cover such folds either: use ``KFold``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.model_selection import GroupLabelStratifiedKFold
    >>> y, groups = np.array([0, 0, 1, 1] * 2), np.repeat(["a", "b"], 4)
    >>> for _, test in GroupLabelStratifiedKFold(2).split(np.zeros((8, 1)), y, groups):
    ...     print(groups[test], y[test])
    ['a' 'a' 'b' 'b'] [0 1 0 1]
    ['a' 'a' 'b' 'b'] [0 1 0 1]
    """

    # the groups reach split through everything that routes metadata, unless X holds them
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        use_labels: bool = True,
        group_by: GroupBy | None = None,
    ) -> None:
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)
        self.use_labels = use_labels
        self.group_by = group_by

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what scikit-learn should hand to ``split``: groups, unless X holds them."""
        if self.group_by is not None:
            return MetadataRequest(owner=self)
        return super().get_metadata_routing()

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the positions of the records of each fold.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows; read only by `group_by`.
        y : array-like of shape (n_records,), optional
            Labels; not needed without `use_labels`.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each record; cells of several columns are intersected.

        Yields
        ------
        train : ndarray of int
            Positions of all other folds.
        test : ndarray of int
            Positions of one fold.

        Raises
        ------
        ValueError
            If there are no groups, or a group has fewer records than there are folds.
        """
        refuse_lazy(X=X, y=y, groups=groups)
        groups = find_groups(X, groups, self.group_by)
        if groups is None:
            raise InputError("groups must be given, or group_by set, to stratify by group.")
        n_records = X.shape[0] if hasattr(X, "shape") else len(X)
        codes, labels = encode_groups(groups, n_records, None)
        sizes = np.bincount(codes)
        if sizes.min() < self.n_splits:
            raise InputError(
                f"n_splits={self.n_splits} folds need as many records of each group: group "
                f"{labels[sizes.argmin()]!r} has {sizes.min()}."
            )
        classes = np.zeros(n_records, dtype=np.intp)
        if self.use_labels:
            if y is None:
                raise InputError("y must be given to stratify by label, or use_labels=False set.")
            if not type_of_target(y).startswith("continuous"):
                classes = np.unique(np.asarray(y), return_inverse=True)[1].ravel()
        yield from super().split(X, self._strata(codes, classes))

    def _strata(self, codes: Indices, classes: Indices) -> Indices:
        """Return a number a cell, those with fewer records than folds of one group united."""
        strata = codes * (classes.max() + 1) + classes
        sizes = np.bincount(strata)
        rare = sizes[strata] < self.n_splits
        united = strata.max() + 1 + codes
        for group in np.unique(codes[rare]):
            members = codes == group
            if np.count_nonzero(members & rare) < self.n_splits:  # then with the largest cell
                cells = strata[members & ~rare]
                rare |= members & (strata == np.bincount(cells).argmax())
        return np.where(rare, united, strata)
