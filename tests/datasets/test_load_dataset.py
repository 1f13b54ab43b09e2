"""Loading: the right rows, encoded one by one, and errors that say what to do."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.datasets import load, load_dataset
from sklearn_dpwg.datasets.entry import encode_features, encode_groups, encode_target
from sklearn_dpwg.datasets.load import ENTRIES

# Rows, features, mean of the target, rows of the smallest and of the largest group.
FACTS = {
    "adult": (32_561, 42, 0.2408, 574, 19_174),
    "census-income-kdd": (299_285, 139, 0.0620, 3_460, 250_978),
    "compas": (7_214, 9, 0.4507, 427, 3_696),
    "cps-hourly-earnings": (61_395, 3, 18.4351, 5_473, 10_305),
    "cps-weekly-wages": (28_155, 7, 6.1706, 195, 7_468),
    "german-credit": (1_000, 57, 0.3000, 50, 548),
    "health-insurance": (8_802, 23, 0.8012, 365, 7_354),
    "law-school": (21_791, 4, 0.8884, 392, 18_285),
    "minneapolis-stops": (34_480, 23, 0.1490, 647, 15_220),
}


def test_the_registry_holds_every_data_set():
    assert set(FACTS) == set(ENTRIES)
    assert list(ENTRIES) == sorted(ENTRIES)


def test_rows_features_and_rates(entry, bunch):
    n_rows, n_features, mean, smallest, largest = FACTS[entry.name]
    assert bunch.data.shape == (n_rows, n_features)
    assert bunch.target.shape == bunch.groups.shape == (n_rows,)
    assert bunch.target.mean() == pytest.approx(mean, abs=1e-4)
    labels, sizes = np.unique(bunch.groups, return_counts=True)
    assert (sizes.min(), sizes.max()) == (smallest, largest)
    assert tuple(labels) == bunch.group_labels
    assert bunch.groups.dtype.kind == "U"


def test_values_and_norms_keep_their_public_bounds(bunch):
    assert bunch.data.dtype == np.float64
    assert np.isfinite(bunch.data).all()
    assert np.abs(bunch.data).max() <= 1
    assert np.ptp(bunch.data, axis=0).min() > 0
    squares = np.einsum("ij,ij->i", bunch.data, bunch.data)
    assert squares.max() <= bunch.data_norm**2 * (1 + 1e-12)
    assert len(bunch.feature_names) == bunch.data.shape[1]


def test_targets(entry, bunch):
    if entry.task == "classification":
        assert bunch.target.dtype.kind == "i"
        assert bunch.classes == (0, 1)
        assert set(np.unique(bunch.target)) == {0, 1}
        assert bunch.target_names == entry.class_names
    else:
        low, high = bunch.target_bounds
        assert low <= bunch.target.min() <= bunch.target.max() <= high


def test_worst_group_gap_of_the_minneapolis_stops(load_once):
    stops = load_once("minneapolis-stops")
    searched = {g: stops.target[stops.groups == g].mean() for g in stops.group_labels}
    assert searched["Native American"] == pytest.approx(0.306, abs=1e-3)
    assert searched["White"] == pytest.approx(0.082, abs=1e-3)


def test_a_row_alone_is_encoded_as_among_all_others(entry, frame):
    """Nothing is read off the data."""
    together = encode_features(frame, entry)
    groups, target = encode_groups(frame, entry), encode_target(frame, entry)
    for position in np.random.default_rng(0).integers(len(frame), size=5):
        alone = frame.iloc[[position]]
        np.testing.assert_array_equal(encode_features(alone, entry)[0], together[position])
        assert encode_groups(alone, entry)[0] == groups[position]
        np.testing.assert_array_equal(encode_target(alone, entry)[0], target[position])


def test_values_that_are_unknown_missing_or_outside_their_bounds(entry, frame):
    strange = frame.iloc[[0]].astype(object)
    far = frame.iloc[[0, 0]].astype(object)
    for column in (*entry.categories, *entry.groups, entry.target):
        strange[column] = "never heard of"
    for column in entry.numeric:
        strange[column] = np.nan
        far[column] = [-1e12, 1e12]
    np.testing.assert_array_equal(encode_features(strange, entry), 0.0)
    assert encode_groups(strange, entry)[0] == -1
    assert np.isnan(encode_target(strange, entry)[0])
    encoded = encode_features(far, entry)[:, : len(entry.numeric)]
    np.testing.assert_array_equal(encoded, np.outer([-1.0, 1.0], np.ones(len(entry.numeric))))


def test_adult_by_hand(load_once):
    """The first line of adult.data: 39, State-gov, 77516, Bachelors, 13, Never-married, ..."""
    adult = load_once("adult")
    row = dict(zip(adult.feature_names, adult.data[0], strict=True))
    assert row["age"] == pytest.approx(2 * (39 - 17) / (90 - 17) - 1)
    assert row["log1p(capital-gain)"] == pytest.approx(2 * np.log(2175) / np.log(100_000) - 1)
    assert row["hours-per-week"] == pytest.approx(2 * 40 / 99 - 1)
    ones = {name for name, value in row.items() if "=" in name and value == 1}
    assert ones == {
        "workclass=State-gov",
        "marital-status=Never-married",
        "occupation=Adm-clerical",
        "relationship=Not-in-family",
        "born-in=United-States",
    }
    assert adult.groups[0] == "White, male"
    assert adult.target[0] == 0


def test_time_of_a_stop_is_local(load_once):
    """The first kept stop was at 2017-01-01T06:23:15Z, just after midnight on a Sunday."""
    stops = load_once("minneapolis-stops")
    row = dict(zip(stops.feature_names, stops.data[0], strict=True))
    assert row["hours=00-03"] == 1
    assert row["day=weekend"] == 1
    assert row["month"] == -1


def test_frames():
    arrays, frames = load_dataset("compas"), load_dataset("compas", as_frame=True)
    assert isinstance(frames.data, pd.DataFrame)
    assert list(frames.data.columns) == arrays.feature_names
    np.testing.assert_array_equal(frames.data.to_numpy(), arrays.data)
    np.testing.assert_array_equal(frames.target.to_numpy(), arrays.target)
    np.testing.assert_array_equal(frames.groups.to_numpy(), arrays.groups)
    assert (frames.target.name, frames.groups.name) == ("two_year_recid", "race")


@pytest.mark.parametrize(
    ("name", "subset", "sentence"),
    [
        ("iris", None, "name='iris' is not a data set; the names are 'adult', "),
        (
            "adult",
            "valid",
            "subset='valid' is not a part of 'adult'; its .* 'train', 'test', 'all'",
        ),
        ("compas", "valid", "subset='valid' is not a part of 'compas'; its parts are 'all'"),
    ],
)
def test_unknown_names_and_subsets(name, subset, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_dataset(name, subset=subset)


@pytest.mark.parametrize("name", ["adult", "minneapolis-stops"])
def test_a_missing_package_or_file_names_the_command(name, monkeypatch, tmp_path):
    entry = ENTRIES[name]

    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(load, "distribution", nothing)
    with pytest.raises(ImportError) as caught:
        load_dataset(name)
    for part in (repr(name), entry.package, entry.version, entry.install):
        assert part in str(caught.value)
    elsewhere = SimpleNamespace(locate_file=lambda path: tmp_path / path)
    monkeypatch.setattr(load, "distribution", lambda name: elsewhere)
    with pytest.raises(ImportError, match=entry.install):
        load_dataset(name)
