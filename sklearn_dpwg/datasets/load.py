"""Real data sets, each with a file of public facts by which its rows are read and encoded.

The files are in `entries`. The facts come from the documentation of the data or common sense, not
from the rows. So the encoding of a row does not depend on other rows and costs no privacy.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import Bunch

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError

# For each column, its values in the file and their names here.
Labels = Mapping[str, Mapping[str, str]]

# Summer time in UTC, as the times of the stops: Minneapolis is 6 hours behind UTC, 5 in summer.
_SUMMER = (pd.Timestamp("2017-03-12T08:00:00Z"), pd.Timestamp("2017-11-05T07:00:00Z"))


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What is public of a data set, as `load_dataset` returns it.

    A numeric value v with bounds (l, h) is clipped to them and becomes 2(v - l)/(h - l) - 1, in
    [-1, 1]; a missing one becomes 0, the middle. A categorical value becomes a row of 0 and one 1;
    a missing value, or one outside the schema, becomes all zeros. Every original feature therefore
    adds at most 1 to the squared norm of a row, and no row is longer than `data_norm`.
    """

    name: str
    about: str  # title, what one row is, source, licence and remarks
    task: Literal["classification", "regression"]
    package: str  # the distribution that holds the files
    install: str  # the command that installs it, in the version that is described
    files: Mapping[str, str]  # of "train" and "test", or of "all": paths beside the packages
    target: str
    groups: Labels  # several columns are intersected; a row without a label is left out
    numeric: Mapping[str, tuple[float, float]]  # public bounds, in the unit of the file
    # exact minimax risk over the ball of radius 200, on unit rows with a unit intercept
    reference_optimum: float
    categories: Labels = field(default_factory=dict)
    default_subset: str = "all"
    target_values: Mapping[str, int] = field(default_factory=dict)  # 1 is the positive class
    class_names: tuple[str, ...] = ()
    target_bounds: tuple[float, float] | None = None  # of a regression, which clips to them
    target_unit: str = ""
    log_scaled: tuple[str, ...] = ()  # scaled by log(1 + value) between their bounds
    derived: Mapping[str, list[str]] = field(default_factory=dict)  # computed from which columns
    columns: tuple[str, ...] = ()  # of a file without a header
    csv: Mapping[str, Any] = field(default_factory=dict)  # how pandas reads the file
    dropped: Mapping[str, list[str]] = field(default_factory=dict)  # unused, by the reason
    text: str  # content of the file of facts

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns: the numeric ones, then ``column=category``."""
        numeric = (f"log1p({c})" if c in self.log_scaled else c for c in self.numeric)
        kinds = (f"{c}={label}" for c, of in self.categories.items() for label in of.values())
        return [*numeric, *kinds]

    @property
    def group_labels(self) -> tuple[str, ...]:
        """Every label a row can have, sorted; those of several columns are joined by a comma."""
        columns = (sorted(set(labels.values())) for labels in self.groups.values())
        return tuple(sorted(", ".join(cell) for cell in itertools.product(*columns)))

    @property
    def data_norm(self) -> float:
        """Bound on the Euclidean norm of every encoded row, known without looking at one."""
        return math.sqrt(len(self.numeric) + len(self.categories))

    def path(self, part: str) -> Path:
        """Return the path of the file of a part; if it is absent, an error says how to install."""
        try:
            path = Path(str(distribution(self.package).locate_file(self.files[part])))
        except PackageNotFoundError:
            path = Path()
        if not path.is_file():
            raise ImportError(
                f"The data set {self.name!r} is read from {self.files[part]} of {self.package}, "
                f"which is not there; install it with: {self.install}"
            )
        return path

    def read(self, path: Path) -> pd.DataFrame:
        """Read one file: the features, groups and target of this entry, not encoded."""
        columns = [*self.numeric, *self.categories, *self.groups, self.target]
        if path.suffix == ".compress":
            # a pickle in an installed package is trusted as its code is
            frame = pd.read_pickle(path, compression="xz")
        else:
            words = {*self.groups, *self.categories, *([self.target] if self.target_values else ())}
            used = {*columns, *(column for of in self.derived.values() for column in of)}
            frame = pd.read_csv(
                path,
                names=list(self.columns) or None,
                usecols=lambda column: column in used,
                dtype=dict.fromkeys(words - set(self.derived), "category"),
                **self.csv,
            )
            for column in frame.select_dtypes("category"):
                frame[column] = frame[column].cat.rename_categories(lambda word: str(word).strip())
        return _DERIVED.get(self.name, pd.DataFrame)(frame)[columns]

    def encode(self, frame: pd.DataFrame) -> tuple[FloatArray, FloatArray, npt.NDArray[np.intp]]:
        """Encode raw rows: return features, targets, and each row's index in `group_labels`.

        The target is class 0 or 1, or a number clipped to its bounds, and NaN if it is missing. The
        index is -1 for a row without a group.
        """
        if self.target_bounds is not None:
            target = np.clip(_numbers(frame[self.target]), *self.target_bounds)
        else:
            classes = np.array([*self.target_values.values(), np.nan])
            target = classes[_codes(frame[self.target], self.target_values)]
        return self._features(frame), target, self._groups(frame)

    def _features(self, frame: pd.DataFrame) -> FloatArray:
        """Return the encoded columns, in the order of `feature_names`."""
        encoded = np.zeros((len(frame), len(self.feature_names)))
        for position, (column, (low, high)) in enumerate(self.numeric.items()):
            values = np.clip(_numbers(frame[column]), low, high)
            if column in self.log_scaled:
                values, low, high = np.log1p(values), np.log1p(low), np.log1p(high)
            scaled = 2.0 * (values - low) / (high - low) - 1.0
            encoded[:, position] = np.nan_to_num(scaled, nan=0.0)
        start = len(self.numeric)
        for column, schema in self.categories.items():
            codes = _codes(frame[column], schema)
            rows = np.flatnonzero(codes >= 0)
            encoded[rows, start + codes[rows]] = 1.0
            start += len(schema)
        return encoded

    def _groups(self, frame: pd.DataFrame) -> npt.NDArray[np.intp]:
        """Return each row's index in `group_labels`, -1 if a column has no known label."""
        has_label = np.ones(len(frame), dtype=bool)
        cells = np.full(len(frame), "", dtype=object)
        for index, (column, labels) in enumerate(self.groups.items()):
            codes = _codes(frame[column], labels)
            has_label &= codes >= 0
            cells += (", " if index else "") + np.array(list(labels.values()), dtype=object)[codes]
        indices = pd.Index(self.group_labels).get_indexer(pd.Index(cells))
        return np.where(has_label, indices, -1).astype(np.intp)


def _numbers(values: pd.Series) -> FloatArray:
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)


def _codes(values: pd.Series, schema: Mapping[str, Any]) -> npt.NDArray[np.intp]:
    """Return each value's index among the keys of `schema`, -1 if missing or unknown."""
    categorical = values.astype("category").cat.set_categories(list(schema))
    return np.asarray(categorical.cat.codes, dtype=np.intp)


def _entry_of(file: Any) -> DatasetEntry:
    """Read a file of facts, which lists a column's values as "value = label" or "label"."""
    text = file.read_text(encoding="utf-8")
    facts = tomllib.loads(text)
    for key in ("groups", "categories"):
        for column, written in facts.setdefault(key, {}).items():
            pairs = (line.partition(" = ") for line in written)
            facts[key][column] = {value: label or value for value, _, label in pairs}
    values: dict[str, Any] = {
        key: tuple(fact) if isinstance(fact, list) else fact for key, fact in facts.items()
    }
    return DatasetEntry(name=file.name.removesuffix(".toml"), text=text, **values)


_FILES = sorted(files("sklearn_dpwg.datasets").joinpath("entries").iterdir(), key=str)
ENTRIES = {entry.name: entry for entry in map(_entry_of, _FILES)}


# Columns that are made of those of a file, each row on its own, by the data set's name.


def _adult(frame: pd.DataFrame) -> pd.DataFrame:
    """Remove the full stop after incomes in the test file, and add the column "born-in"."""
    country = frame["native-country"]
    elsewhere = country.where(country == "United-States", "elsewhere").where(country.notna())
    income = frame["income"].astype(object).str.rstrip(".")
    return frame.assign(**{"income": income, "born-in": elsewhere})


def _law_school(frame: pd.DataFrame) -> pd.DataFrame:
    """Merge indicator columns into one of values, missing in a row without exactly one 1."""
    for column, prefix in (("race", "Race_"), ("sex", "Sex_"), ("passed", "PF_")):
        names = [name for name in map(str, frame) if name.startswith(prefix)]
        indicators = frame[names].to_numpy()
        values = [names[place].removeprefix(prefix) for place in indicators.argmax(axis=1)]
        is_one = indicators.sum(axis=1) == 1
        frame[column] = pd.Series(values, index=frame.index).where(is_one)
    return frame


def _stops(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace the UTC date by local month, weekday or weekend, and three-hour interval."""
    universal = pd.to_datetime(frame["date"], utc=True)
    summer = (universal >= _SUMMER[0]) & (universal < _SUMMER[1])
    local = universal - pd.to_timedelta(6 - summer.astype(int), unit="h")
    first = 3 * (local.dt.hour // 3)
    return frame.assign(
        policePrecinct=frame["policePrecinct"].astype(str),
        month=local.dt.month,
        day=local.dt.day_of_week.ge(5).map({True: "weekend", False: "weekday"}),
        hours=first.map("{:02d}".format) + "-" + (first + 3).map("{:02d}".format),
    )


def _weekly_wages(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the logarithm of the wage, and add squared experience (Mincer)."""
    squared = frame["experience"].clip(lower=0) ** 2
    return frame.assign(**{"log wage": np.log(frame["wage"]), "experience squared": squared})


_DERIVED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "adult": _adult,
    # earnings rise and then fall with age
    "cps-hourly-earnings": lambda frame: frame.assign(**{"age squared": frame["age"] ** 2}),
    "cps-weekly-wages": _weekly_wages,
    "law-school": _law_school,
    "minneapolis-stops": _stops,
}


def dataset_names() -> tuple[str, ...]:
    """List the data sets that :func:`load_dataset` knows.

    Returns
    -------
    tuple of str
        Names, sorted.
    """
    return tuple(ENTRIES)


def load_dataset(name: str, *, subset: str | None = None, as_frame: bool = False) -> Bunch:
    """Load a real data set with its groups, public bounds and provenance.

    The rows come from a package that is installed already; nothing is downloaded. They are encoded
    with the constants of the data set's entry and never with anything computed from the rows.

    Parameters
    ----------
    name : str
        One of :func:`dataset_names`.
    subset : str, default=None
        Part to load: ``"train"``, ``"test"`` or ``"all"`` where the data come in two parts, else
        ``"all"``. ``None`` is ``"train"`` for adult, everything for the others.
    as_frame : bool, default=False
        Return a DataFrame and Series instead of arrays.

    Returns
    -------
    Bunch
        Records as ``data``, in [-1, 1] and of norm at most ``data_norm``, ``target``, class 0 or 1
        or a number, and ``groups``, a label each. What is public of them: ``feature_names``,
        ``group_labels``, ``data_norm``, and ``classes`` with their ``target_names``, or
        ``target_bounds``, to which targets are clipped. ``entry`` has all that is known of the data
        set, among that what was dropped and why, and ``DESCR`` its file.

    Raises
    ------
    ValueError
        If the name or the subset is not known.
    ImportError
        If the package that holds the files is missing; the message is the command to install it.
    """
    if name not in ENTRIES:
        raise InputError(f"name must be one of {dataset_names()}, got {name!r}.")
    entry = ENTRIES[name]
    subset = entry.default_subset if subset is None else subset
    if subset not in (*entry.files, "all"):
        raise InputError(
            f"subset of {name!r} must be 'all' or one of {[*entry.files]}, got {subset!r}."
        )
    parts = [*entry.files] if subset == "all" else [subset]
    pieces = [entry.encode(entry.read(entry.path(part))) for part in parts]
    data, target, codes = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    kept = (codes >= 0) & ~np.isnan(target)  # a row without a group or a target is left out
    data, target, codes = data[kept], target[kept], codes[kept]
    bunch = Bunch(
        data=data,
        target=target,
        groups=np.array(entry.group_labels)[codes],
        feature_names=entry.feature_names,
        group_labels=entry.group_labels,
        data_norm=entry.data_norm,
        entry=entry,
        DESCR=entry.text,
    )
    if entry.task == "classification":
        bunch.update(target=target.astype(np.int64), classes=(0, 1), target_names=entry.class_names)
    else:
        bunch.target_bounds = entry.target_bounds
    if as_frame:
        bunch.data = pd.DataFrame(data, columns=bunch.feature_names)
        bunch.target = pd.Series(bunch.target, name=entry.target)
        bunch.groups = pd.Series(bunch.groups, name=" and ".join(entry.groups), dtype=object)
    return bunch
