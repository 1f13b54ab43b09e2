"""Each data set is read once for all tests; a missing package fails them and skips none."""

from __future__ import annotations

from functools import cache

import pandas as pd
import pytest
from sklearn.utils import Bunch

from sklearn_dpwg.datasets import dataset_names, load_dataset


@cache
def load(name: str) -> Bunch:
    return load_dataset(name)


@cache
def raw(name: str) -> pd.DataFrame:
    """What the reader of an entry returns for its smallest part."""
    entry = load(name).entry
    return entry.read(entry.path(list(entry.files)[-1]))


@pytest.fixture(params=dataset_names())
def bunch(request: pytest.FixtureRequest) -> Bunch:
    return load(request.param)


@pytest.fixture
def entry(bunch: Bunch):
    return bunch.entry


@pytest.fixture
def frame(entry) -> pd.DataFrame:
    return raw(entry.name)
