"""Each data set is read once for all tests; a missing package fails them and skips none."""

from __future__ import annotations

from functools import cache

import pandas as pd
import pytest
from sklearn.utils import Bunch

from sklearn_dpwg.datasets import dataset_names, load_dataset
from sklearn_dpwg.datasets.entry import DatasetEntry
from sklearn_dpwg.datasets.load import ENTRIES, _locate


@cache
def load(name: str) -> Bunch:
    return load_dataset(name)


@cache
def raw(name: str) -> pd.DataFrame:
    """What the reader of an entry returns for its smallest part."""
    entry = ENTRIES[name]
    return entry.read(_locate(entry, list(entry.files)[-1]))


@pytest.fixture(params=dataset_names())
def entry(request: pytest.FixtureRequest) -> DatasetEntry:
    return ENTRIES[request.param]


@pytest.fixture
def bunch(entry: DatasetEntry) -> Bunch:
    return load(entry.name)


@pytest.fixture
def frame(entry: DatasetEntry) -> pd.DataFrame:
    return raw(entry.name)


@pytest.fixture
def load_once():
    return load
