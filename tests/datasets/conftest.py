"""Entries of all data sets and a part of each; a missing package fails tests and skips none."""

from __future__ import annotations

from functools import cache

import pandas as pd
import pytest
from sklearn.utils import Bunch

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.datasets.load import ENTRIES, DatasetEntry

LARGE = "census-income-kdd"
WHOLE = [pytest.param(name, marks=[pytest.mark.audit] * (name == LARGE)) for name in ENTRIES]


@cache
def smallest_part(name: str) -> pd.DataFrame:
    """What the reader of an entry returns for its smallest part."""
    entry = ENTRIES[name]
    return entry.read(entry.path(list(entry.files)[-1]))


@pytest.fixture(params=ENTRIES)
def entry(request: pytest.FixtureRequest) -> DatasetEntry:
    return ENTRIES[request.param]


@pytest.fixture
def frame(entry: DatasetEntry) -> pd.DataFrame:
    return smallest_part(entry.name)


@pytest.fixture(scope="module", params=WHOLE)
def bunch(request: pytest.FixtureRequest) -> Bunch:
    return load_dataset(request.param)
