"""Loading: the right rows, encoded one by one, and errors that say what to do."""

from __future__ import annotations

import importlib.metadata
import re
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_dpwg.datasets import dataset_names, load, load_dataset

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
    assert dataset_names() == tuple(sorted(FACTS))


def test_rows_features_and_rates(bunch):
    n_rows, n_features, mean, smallest, largest = FACTS[bunch.entry.name]
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


def test_a_row_alone_is_encoded_as_among_all_others(entry, frame):
    """Nothing is read off the data."""
    frame = frame.iloc[:2_000]
    together = entry.encode(frame)
    for position in np.random.default_rng(0).integers(len(frame), size=5):
        for alone, among in zip(entry.encode(frame.iloc[[position]]), together, strict=True):
            np.testing.assert_array_equal(alone[0], among[position])


def test_values_that_are_unknown_missing_or_outside_their_bounds(entry, frame):
    strange = frame.iloc[[0]].astype(object)
    far = frame.iloc[[0, 0]].astype(object)
    for column in (*entry.categories, *entry.groups, entry.target):
        strange[column] = "never heard of"
    for column in entry.numeric:
        strange[column] = np.nan
        far[column] = [-1e12, 1e12]
    features, target, group = entry.encode(strange)
    np.testing.assert_array_equal(features, 0.0)
    assert group[0] == -1
    assert np.isnan(target[0])
    encoded = entry.encode(far)[0][:, : len(entry.numeric)]
    np.testing.assert_array_equal(encoded, np.outer([-1.0, 1.0], np.ones(len(entry.numeric))))


def test_adult_by_hand():
    """The first line of adult.data: 39, State-gov, 77516, Bachelors, 13, Never-married, ..."""
    adult = load_dataset("adult")
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


@pytest.mark.parametrize(
    ("name", "subset", "words"),
    [("iris", None, "^name must.*adult"), ("compas", "valid", "^subset of 'compas' must be 'all'")],
)
def test_unknown_names_and_subsets(name, subset, words):
    with pytest.raises(ValueError, match=words):
        load_dataset(name, subset=subset)


def test_a_missing_package_or_file_names_the_command(monkeypatch, tmp_path):
    command = re.escape(load_dataset("compas").entry.install)

    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    elsewhere = SimpleNamespace(locate_file=lambda path: tmp_path / path)
    for distribution in (nothing, lambda name: elsewhere):
        monkeypatch.setattr(load, "distribution", distribution)
        with pytest.raises(ImportError, match=command):
            load_dataset("compas")
