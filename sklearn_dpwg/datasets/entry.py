"""The public facts about one data set, written down before anybody opens it.

Each stands in a file of `entries`, and comes from the documentation of the data or from common
sense, none from the rows: a row is encoded the same way whatever the other rows are, and that costs
no privacy.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.datasets.derived import DERIVED

# Values of columns, as a file has them, to what they are called here.
Labels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What is said about a data set, as `load_dataset` returns it.

    A numeric value v with bounds (l, h) is clipped to them and becomes 2(v - l)/(h - l) - 1, in
    [-1, 1]; a missing one becomes 0, the middle. A categorical value becomes a row of 0 and one 1;
    a missing value, or one outside the schema, becomes all zeros. Every original feature therefore
    adds at most 1 to the squared norm of a row, and no row is longer than `data_norm`.
    """

    name: str
    title: str
    task: Literal["classification", "regression"]
    package: str  # the distribution that holds the files, and the version of it that is described
    version: str
    install: str  # the command that installs it
    files: Mapping[str, str]  # of "train" and "test", or of "all": paths beside the packages
    target: str
    groups: (
        Labels  # several columns are intersected; a row with a value without a label is left out
    )
    numeric: Mapping[str, tuple[float, float]]  # public bounds, in the unit of the file
    unit_of_privacy: str  # what one row is, hence what a guarantee for one record protects
    source: str
    licence: str
    categories: Labels = field(default_factory=dict)
    default_subset: str = "all"
    target_values: Mapping[str, int] = field(default_factory=dict)  # 1 is the positive class
    class_names: tuple[str, ...] = ()
    target_bounds: tuple[float, float] | None = None  # of a regression, which clips to them
    target_unit: str = ""
    log_scaled: frozenset[str] = frozenset()  # scaled by log(1 + value) between their bounds
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # made of what columns
    columns: tuple[str, ...] = ()  # of a file without a header
    csv: Mapping[str, Any] = field(default_factory=dict)  # how pandas reads the file
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # unused, by the reason
    remarks: str = ""
    # exact minimax risk over the ball of radius 200, on unit rows with a unit intercept
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
        kinds = (f"{c}={label}" for c, of in self.categories.items() for label in of.values())
        return (*numeric, *kinds)

    @property
    def group_labels(self) -> tuple[str, ...]:
        """Every label a row can have, sorted; those of several columns are joined by a comma."""
        columns = (sorted(set(labels.values())) for labels in self.groups.values())
        return tuple(sorted(", ".join(cell) for cell in itertools.product(*columns)))

    @property
    def data_norm(self) -> float:
        """Bound on the Euclidean norm of every encoded row, known without looking at one."""
        return math.sqrt(len(self.numeric) + len(self.categories))

    def read(self, path: Path) -> pd.DataFrame:
        """Read one file, with the columns named here and nothing else."""
        words = {*self.groups, *self.categories, *([self.target] if self.target_values else ())}
        made = [*self.numeric, *self.categories, *self.groups, self.target]
        if path.suffix == ".compress":
            # a pickle of an installed package is code that one trusts like an import
            frame = pd.read_pickle(path, compression="xz")
        else:
            used = {*made, *(column for of in self.derived.values() for column in of)}
            frame = pd.read_csv(
                path,
                names=list(self.columns) or None,
                usecols=lambda column: column in used,
                dtype=dict.fromkeys(words - set(self.derived), "category"),
                **self.csv,
            )
            for column in frame.select_dtypes("category"):
                frame[column] = frame[column].cat.rename_categories(lambda word: str(word).strip())
        return DERIVED.get(self.name, pd.DataFrame)(frame)[made]


def entry_of(name: str, facts: Mapping[str, Any]) -> DatasetEntry:
    """Return an entry of its file, where columns of values are lists of "value = label"."""
    values: dict[str, Any] = {
        key: tuple(each) if isinstance(each, list) else each for key, each in facts.items()
    }
    for key in ("groups", "categories"):
        values[key] = {column: _labels(each) for column, each in facts.get(key, {}).items()}
    for key in ("numeric", "derived", "dropped"):
        values[key] = {column: tuple(each) for column, each in facts.get(key, {}).items()}
    values["log_scaled"] = frozenset(facts.get("log_scaled", ()))
    return DatasetEntry(name=name, **values)


def _labels(values: list[str]) -> dict[str, str]:
    pairs = (value.partition(" = ") for value in values)
    return {value: label or value for value, _, label in pairs}


def read_entries() -> dict[str, DatasetEntry]:
    """Return every entry by its name, which is that of its file."""
    paths = sorted(files("sklearn_dpwg.datasets").joinpath("entries").iterdir(), key=str)
    texts = {path.name.removesuffix(".toml"): path.read_text(encoding="utf-8") for path in paths}
    return {name: entry_of(name, tomllib.loads(text)) for name, text in texts.items()}


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
        codes = _codes(frame[column], tuple(schema))
        rows = np.flatnonzero(codes >= 0)
        encoded[rows, first + codes[rows]] = 1.0
        first += len(schema)
    return encoded


def encode_groups(frame: pd.DataFrame, entry: DatasetEntry) -> npt.NDArray[np.intp]:
    """Return the index of each row's label in ``entry.group_labels``, -1 where a value has none."""
    known = np.ones(len(frame), dtype=bool)
    cells = np.full(len(frame), "", dtype=object)
    for place, (column, labels) in enumerate(entry.groups.items()):
        codes = _codes(frame[column], tuple(labels))
        known &= codes >= 0
        cells += (", " if place else "") + np.array(list(labels.values()), dtype=object)[codes]
    places = pd.Index(entry.group_labels).get_indexer(pd.Index(cells))
    return np.where(known, places, -1).astype(np.intp)


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
