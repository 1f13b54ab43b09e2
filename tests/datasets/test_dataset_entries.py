"""The entries: complete, consistent with one another and with the columns of the files."""

from __future__ import annotations

import math


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
