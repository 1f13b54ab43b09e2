"""Wrong tables, targets and groups, told in one sentence each before anything is spent.

What a check reads is public – names and types of columns, the number of records, labels of groups
and classes – unless it says otherwise: then its error, like every error about the input, is outside
the guarantee, and no value is in it.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

from sklearn_dpwg.data.lazy import refuse_lazy
from sklearn_dpwg.data.records import ADVICE
from sklearn_dpwg.exceptions import InputError, PublicTargetWarning, warn

# Up to so many labels a column is never taken for one of identifiers or of measured numbers.
_FEW = 20

# Beginnings of scikit-learn's errors, which hold no value.
_WITHOUT_VALUES = re.compile(
    r"Input [Xy] contains (NaN|infinity or a value too large for dtype\('float\d+'\))\."
    r"|y should be a 1d array, got an array of shape \([\d, ]*\) instead\."
)

_TEXT = (str, bytes)
# A timestamp of pandas is a date, a period is not.
_TIMES = (
    datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period,
)  # fmt: skip


def check_columns(X: Any) -> None:
    """Refuse rows with columns that are no numbers, or that share a name.

    In columns of Python objects the types of the entries are read, which are not public.
    """
    refuse_lazy(X=X)
    if issparse(X):
        return
    if hasattr(X, "columns"):
        names = list(X.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"X must have a name of its own for each column, got {twice!r} twice.")
        columns: Iterable[tuple[Any, Any]] = _columns_of_frame(X)
    else:
        columns = _columns_of_array(X)
    for name, column in columns:
        kind = _kind(np.asarray(column))
        if kind is not None:
            # the first words are those that scikit-learn's checks ask for
            start = "Complex data not supported: " if kind == "complex numbers" else ""
            raise InputError(
                f"{start}X must hold numbers, got {kind} in column {name!r}: {ADVICE[kind]}."
            )


def _columns_of_frame(X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the columns whose type does not say that they are real numbers."""
    for index, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        is_number = getattr(dtype, "kind", "O") in "biuf"
        if not is_number and not (hasattr(dtype, "is_numeric") and dtype.is_numeric()):
            yield name, X.iloc[:, index] if hasattr(X, "iloc") else X[name]


def _columns_of_array(X: Any) -> Iterator[tuple[int, NDArray[Any]]]:
    try:
        rows = np.asarray(X)
        if not hasattr(X, "dtype") and rows.dtype.kind in "USMm":
            rows = np.asarray(X, dtype=object)  # a list of which one string made strings of all
    except ValueError:
        return  # rows of different lengths, which scikit-learn refuses
    if rows.ndim == 2 and rows.dtype.kind not in "biuf":
        yield from enumerate(rows.T)


def _kind(values: NDArray[Any]) -> str | None:
    """Say what values are that are no real numbers, as far as their types tell."""
    if values.dtype.kind in "OUSMmc":
        types = (
            {values.dtype.type}
            if values.dtype.kind != "O"
            else {type(value) for value in values.ravel()}
        )
        for kind, wrong in (("strings", _TEXT), ("dates or times", _TIMES)):
            if any(issubclass(each, wrong) for each in types):
                return kind
        if any(issubclass(each, complex | np.complexfloating) for each in types):
            return "complex numbers"
    return None


def precisions(X: Any) -> list[Any]:
    """Return the types that rows are taken in as they are; anything else becomes the first."""
    # scikit-learn does not look into the types of a polars frame
    is_single = hasattr(X, "columns") and np.asarray(X[:0]).dtype == np.float32
    return [np.float32, np.float64] if is_single else [np.float64, np.float32]


@contextmanager
def advice_on_missing_values(X: Any) -> Iterator[None]:
    """Say in own words, with the column, what scikit-learn says of NaN, infinity and shapes.

    It advises what no guarantee covers, and of its sentences these alone are known to quote no
    value. X is None where y alone is looked at.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        said = _WITHOUT_VALUES.match(str(error))
        if "'NAType'" not in str(error) and said is None:
            raise
        sentence = said.group() if said else f"Input {'y' if X is None else 'X'} contains NaN."
        if X is not None and not issparse(X) and sentence.startswith("Input X"):
            sentence = _by_column(X, sentence)
        raise InputError(sentence) from None


def _by_column(X: Any, sentence: str) -> str:
    """Return the sentence with the first wrong column in it, as far as there is one."""
    of_infinity = "infinity" in sentence
    if of_infinity:
        values = np.asarray(X, dtype=np.float64)
        wrong: Any = np.isinf(values)
        if not wrong.any():  # single precision may not hold what is finite in double
            wrong = np.abs(values) > np.finfo(np.float32).max
    else:
        wrong = pd.isna(np.asarray(X, dtype=object))
    if wrong.ndim != 2 or not wrong.any():
        return sentence if of_infinity else "Input y contains NaN."
    column = int(np.argmax(wrong.any(axis=0)))
    name = list(X.columns)[column] if hasattr(X, "columns") else column
    if of_infinity:
        kind = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        return (
            f"Input X contains infinity or a value too large for {np.dtype(kind)} in column "
            f"{name!r}."
        )
    return (
        f"Input X contains NaN in column {name!r}: PublicSchema takes a fill that is said "
        f"beforehand, while an imputer would learn from the records what no guarantee covers."
    )


def check_targets(y: Any, *, is_classifier: bool) -> None:
    """Refuse targets of the wrong kind, whose types are read and not shown."""
    refuse_lazy(y=y)
    values = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    kind = _kind(values)
    if not is_classifier:
        if kind is None:
            return
        advice = (
            "for classes use DPWorstGroupClassifier"
            if kind == "strings"
            else "make numbers of them, with target_bounds in the same unit"
        )
        start = "Complex data not supported: " if kind == "complex numbers" else ""
        raise InputError(f"{start}y must hold numbers for a regressor, got {kind}: {advice}.")
    if kind == "strings" and values.dtype.kind == "O":
        present = values[~pd.isna(values)]
        if not all(isinstance(value, _TEXT) for value in present):
            raise InputError(
                "y must hold classes of one kind, all numbers or all strings, got some of both."
            )


def check_found_classes(classes: NDArray[Any], n_records: int) -> None:
    """Refuse classes found in y that can be none; classes and the number of records are public."""
    if len(classes) > max(_FEW, n_records / 2):
        raise InputError(
            f"y must hold classes, got {len(classes):,} different ones in {n_records:,} records, "
            f"as in a column of identifiers: pass the target, or state classes=[...]."
        )
    if differ_by_blanks(classes.tolist()) is not None:
        # which ones is not said, as in all errors about y
        raise InputError(
            "y must hold classes that differ by more than blanks at their ends, got two that do "
            "not: strip them, or state classes=[...]."
        )


def check_found_groups(labels: NDArray[np.object_], n_records: int) -> None:
    """Refuse groups that were not stated and can be none; labels and numbers are public."""
    n_labels = len(labels)
    with_fraction = any(
        isinstance(label, float | np.floating) and label % 1.0 != 0.0 for label in labels
    )
    advice = "pass what tells groups of records apart, or state group_labels=[...]"
    if n_labels > _FEW and with_fraction:
        raise InputError(
            f"groups must be labels, got {n_labels:,} different numbers with fractions, as in a "
            f"measured column: cut it into public ranges, or state group_labels=[...]."
        )
    if n_labels > max(_FEW, n_records / 2):
        raise InputError(
            f"groups must be labels that records share, got {n_labels:,} different ones in "
            f"{n_records:,} records, as in a column of identifiers: {advice}."
        )
    pair = differ_by_blanks(labels.tolist())
    if pair is not None:
        raise InputError(
            f"groups must have labels that differ by more than blanks at their ends, got "
            f"{pair[0]!r} and {pair[1]!r}: strip them, or state group_labels=[...]."
        )


def differ_by_blanks(labels: Iterable[Any]) -> tuple[Any, Any] | None:
    """Return two labels that are equal once trimmed, if there are any."""
    first: dict[Any, Any] = {}
    for label in labels:
        other = first.setdefault(_trimmed(label), label)
        if other is not label:
            return other, label
    return None


def _trimmed(label: Any) -> Any:
    if isinstance(label, tuple):
        return tuple(_trimmed(part) for part in label)
    return label.strip() if isinstance(label, _TEXT) else label


def warn_if_target_is_group(
    y: Any, groups: Any, group_by: Any, labels: Iterable[Any], classes: Iterable[Any]
) -> None:
    """Warn if the target is among the groups, which are public.

    Told from what was passed, an object or a name, and from words that are labels of the groups
    and of the classes, never from values: that targets agree with groups in every record is a fact
    about each of them.
    """
    name = getattr(y, "name", None)
    named: list[Any] = []
    if group_by is not None:
        named = list(group_by) if isinstance(group_by, list | tuple) else [group_by]
    elif hasattr(groups, "columns"):
        named = list(groups.columns)
    elif groups is not None:
        named = [getattr(groups, "name", None)]
    is_named = isinstance(name, str) and name != ""  # as series of polars without a name have
    same_name = is_named and any(isinstance(one, str) and one == name for one in named)
    words = {label for label in labels if isinstance(label, str)}
    same_words = len(words) > 1 and words == set(classes)  # numbers may agree by chance
    if same_name or same_words or (groups is not None and _same_object(y, groups)):
        warn(
            "groups hold the target y: the groups are public, so the guarantee protects no "
            "record's target. Leave it out of groups, or rename it if it is something else.",
            PublicTargetWarning,
        )


def _same_object(y: Any, groups: Any) -> bool:
    if y is groups:
        return True
    if not all(hasattr(one, "__array__") for one in (y, groups)):
        return False
    values = np.asarray(y)
    table = np.asarray(groups)
    columns = [table] if table.ndim < 2 else list(table.T)
    # columns of one table lie between each other, which bounds of memory alone do not tell
    return any(column.ndim == 1 and np.shares_memory(values, column) for column in columns)


# Public facts that a plan is made from: counts, and the prior weights of the groups.

NEIGHBOURS = ("replace-in-group", "replace-any")

_ALLOWED = (
    "prior must be 'proportional', 'uniform', a number between 0 and 1 (the share of equal "
    "weights in a mixture with the proportional ones) or one positive weight a group"
)


def positive_whole(value: Any, name: str) -> int:
    """Return a positive whole number, or refuse it by name."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def group_size(value: Any) -> Any:
    """Return the size of a group: a positive whole number, or infinity where it has no end."""
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return positive_whole(value, "an entry of group_sizes")


def check_neighbours(neighbours: Any, count_share: Any, group_labels: Any) -> None:
    """Refuse what neighbours a fit cannot be private for."""
    if not isinstance(neighbours, str) or neighbours not in NEIGHBOURS:
        raise ValueError(
            f"neighbours must be one of {', '.join(map(repr, NEIGHBOURS))}, got {neighbours!r}."
        )
    is_number = isinstance(count_share, int | float | np.number) and not isinstance(
        count_share, bool
    )
    if not is_number or not 0.0 < float(count_share) < 1.0:
        raise ValueError(
            f"count_share must be a share of the budget above 0 and below 1, got {count_share!r}."
        )
    if neighbours == "replace-any" and group_labels is None:
        raise ValueError(
            "group_labels must be stated with neighbours='replace-any', as those found in the "
            "groups would show who is in one, got None."
        )


def resolve_prior(prior: Any, group_sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the positive weights, summing to 1, that the parameter `prior` stands for."""
    n_groups = len(group_sizes)
    proportional = _proportional(np.asarray(group_sizes, dtype=float), prior)
    share = {"proportional": 0.0, "uniform": 1.0}.get(prior) if isinstance(prior, str) else prior
    try:
        found = np.asarray(share, dtype=float)  # None and NaN fail the comparisons below
    except (TypeError, ValueError):
        raise ValueError(f"{_ALLOWED}, got {prior!r}.") from None
    if found.ndim == 0 and 0.0 <= found <= 1.0:
        found = found / n_groups + (1.0 - found) * proportional
    elif (
        found.shape == (n_groups,)
        and ((found > 0) & (found < 1)).all()
        and abs(found.sum() - 1) > 1e-6
    ):
        raise ValueError(
            f"prior must sum to 1 where its weights are shares below 1, got {prior!r}, which sums "
            f"to {found.sum():.6g}."
        )
    elif found.shape == (n_groups,) and (found > 0).all() and np.isfinite(found).all():
        found = found / found.sum()
    else:
        raise ValueError(f"{_ALLOWED}, {n_groups} here, got {prior!r}.")
    return tuple(float(weight) for weight in found)


def _proportional(sizes: np.ndarray, prior: Any) -> np.ndarray:
    """Return the shares of the groups; groups without end have equal ones."""
    endless = np.isinf(sizes)
    if endless.any():
        if not endless.all() and (np.ndim(prior) == 0 and prior not in ("uniform", 1, 1.0)):
            raise ValueError(
                f"prior must be 'uniform' or one positive weight a group where some groups have "
                f"an end and others have none, got {prior!r}."
            )
        sizes = endless.astype(float)
    return np.asarray(sizes / sizes.sum())
