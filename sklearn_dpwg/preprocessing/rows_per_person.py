"""Codes of the persons that rows belong to, and a random choice of at most k rows a person."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from sklearn_dpwg._checks import as_text, whole_number
from sklearn_dpwg.data.frames import as_pandas, same_rows
from sklearn_dpwg.data.groups import take_rows, without_groups
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import NoiseSource


def person_codes(person: Any) -> NDArray[np.intp]:
    """Return each row's person as a whole number; entries that are equal as text are one person."""
    codes, cells = pd.factorize(np.asarray(person, dtype=object).ravel())
    texts = np.array([*(as_text(cell) or None for cell in cells), None], dtype=object)[codes]
    people, _ = pd.factorize(texts)
    if (people < 0).any():
        row = int(np.argmax(people < 0))
        raise InputError(f"person must say whose row each row is, got a missing one in row {row}.")
    return people.astype(np.intp)


class BoundedRows(NamedTuple):
    """Rows of which no person has more than a stated number."""

    X: Any
    y: Any
    groups: Any
    kept: NDArray[np.intp]  # positions in what was passed, increasing
    rows_per_person: int

    @property
    def promise(self) -> str:
        """The guarantee of a fit to these rows for a person, and its public facts."""
        return (
            f"No person has more than {self.rows_per_person} of these rows. A model fitted to them "
            f"with rows_per_person={self.rows_per_person} promises its epsilon and delta to a "
            f"person: whatever all of the person's rows hold, those left out included, may be "
            f"replaced, each by any other row, and with neighbours='replace-one-within-group' by "
            f"any of its group. Public, that is unprotected, is which rows belong to one "
            f"person, though not to whom, and so how many each person has, in each group where "
            f"groups are public, and which of them were kept."
        )


def bound_rows_per_person(
    X: Any, y: Any, groups: Any = None, *, person: Any, k: int, random_state: Any = None
) -> BoundedRows:
    """Keep at most k rows of each person, by coins that look at nothing else.

    Parameters
    ----------
    X : array, sparse array (CSR) or frame of shape (n_records, n_features)
        Rows.
    y : array-like of shape (n_records,)
        Targets.
    groups : array-like of shape (n_records,) or (n_records, n_columns), optional
        Public groups.
    person : array-like of shape (n_records,) or str
        Whose row it is: entries that are the same as text are one person, as 7, 7.0 and " 7". A
        string names a column of a frame X, which is left out of the rows that are returned.
    k : int
        Largest number of rows of one person. Choose it without a look at the records.
    random_state : int, RandomState, Generator or SeedSequence, optional
        None takes coins from the operating system's entropy. A seed makes the choice repeatable.

    Returns
    -------
    BoundedRows
        Rows, targets and groups, in their order; ``print(rows.promise)``.

    Warns
    -----
    SeededNoiseWarning
        If `random_state` is set.

    Notes
    -----
    Neighbours differ in what the rows of one person hold and agree in whose row each is and, where
    groups are public, in its group. So the same coins keep the same rows of both, of which at most
    k differ: that is what `PrivacyGuarantee.for_records` is about. The coins are drawn for
    positions and need no secrecy.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.preprocessing import bound_rows_per_person
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    >>> rows = bound_rows_per_person(X, y, person=["a", "a", "b", "a", "a", "c"], k=2)
    >>> rows.X.shape, len(rows.y), rows.groups is None
    ((4, 2), 4, True)
    """
    k = whole_number(k, "k", least=1)
    same_rows(X=X, y=y, groups=groups, person=person)
    if isinstance(person, str):
        frame = as_pandas(X)
        if person not in list(getattr(frame, "columns", ())):
            raise InputError(f"person must be a column of the frame X or an array, got {person!r}.")
        X, person = without_groups(X, person), frame[person]
    codes = person_codes(as_pandas(person))
    check_consistent_length(X, y, groups, codes)
    rng = NoiseSource(random_state).secret_rng("rows of a person")
    # rows in random order, sorted by person: the first k of each person are kept
    shuffled = rng.permutation(len(codes))
    ordered = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sorted_codes = codes[ordered]
    person_starts = np.searchsorted(sorted_codes, sorted_codes)
    kept = np.sort(ordered[np.arange(len(codes)) - person_starts < k])
    return BoundedRows(_take(X, kept), _take(y, kept), _take(groups, kept), kept, k)


def _take(values: Any, kept: NDArray[np.intp]) -> Any:
    if values is None:
        return None
    return take_rows(np.asarray(values) if isinstance(values, list) else values, kept)
