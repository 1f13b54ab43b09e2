"""The registered data sets: their names, and reading one from an installed package."""

from __future__ import annotations

import textwrap
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from sklearn_dpwg.datasets.entry import (
    DatasetEntry,
    encode_features,
    encode_groups,
    encode_target,
    read_entries,
)
from sklearn_dpwg.exceptions import InputError

ENTRIES = read_entries()


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
        ``"all"``. ``None`` is the entry's default: ``"train"`` for adult, everything for the
        others.
    as_frame : bool, default=False
        Return a DataFrame and Series instead of arrays.

    Returns
    -------
    Bunch
        Records as ``data``, in [-1, 1] and of norm at most ``data_norm``, ``target``, class 0 or 1
        or a number, and ``groups``, a label each. What is public of them: ``feature_names``,
        ``group_labels``, ``data_norm``, and ``classes`` with their ``target_names``, or
        ``target_bounds``, to which targets are clipped. ``entry`` has all that is said of the data
        set, among that what was dropped and why, and ``DESCR`` the same for people.

    Raises
    ------
    ValueError
        If the name or the subset is not known.
    ImportError
        If the package that holds the files is missing; the message is the command to install it.
    """
    if name not in ENTRIES:
        allowed = ", ".join(repr(known) for known in ENTRIES)
        raise InputError(f"name={name!r} is not a data set; the names are {allowed}.")
    entry = ENTRIES[name]
    subset = entry.default_subset if subset is None else subset
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
        path = Path(str(distribution(entry.package).locate_file(entry.files[part])))
    except PackageNotFoundError:
        path = Path()
    if not path.is_file():
        raise ImportError(
            f"The data set {entry.name!r} is read from {entry.files[part]} of {entry.package} "
            f"{entry.version}, which is not there; install it with: {entry.install}"
        )
    return path


def _describe(entry: DatasetEntry, subset: str, n_rows: int) -> str:
    """Write the entry out for people."""
    if entry.task == "classification":
        target = f"{entry.target}: 0 is {entry.class_names[0]}, 1 is {entry.class_names[1]}"
    else:
        low, high = entry.target_bounds or (float("nan"), float("nan"))
        target = f"{entry.target}, {entry.target_unit}, clipped to [{low:g}, {high:g}]"
    dropped = [f"{', '.join(columns)}: {reason}" for reason, columns in entry.dropped.items()]
    said = [
        f"Rows: {n_rows:,} (subset {subset}); a row is {entry.unit_of_privacy}",
        f"Target: {target}",
        f"Groups: {' and '.join(entry.groups)}: {'; '.join(entry.group_labels)}",
        f"Features: {len(entry.feature_names)} columns from {len(entry.numeric)} numeric and "
        f"{len(entry.categories)} categorical ones; no row is longer than {entry.data_norm:.4g}",
        *(f"Dropped: {each}" for each in dropped or ["nothing"]),
        *([f"Remarks: {entry.remarks}"] if entry.remarks else []),
        f"Source: {entry.source}",
        f"Licence: {entry.licence}",
    ]
    lines = (textwrap.fill(each, width=88, subsequent_indent="    ") for each in said)
    return "\n".join([entry.title, "=" * len(entry.title), *lines]) + "\n"
