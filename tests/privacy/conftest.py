"""Guarantees that many tests read."""

import pytest

from sklearn_dpwg.privacy import Release
from tests.helpers.guarantees import MIXED, PUBLIC, guarantee_of


@pytest.fixture(scope="module")
def gaussian():
    releases = [Release("w", "gaussian", 2.0, 3, part=0), Release("w", "gaussian", 1.5, 2, part=1)]
    return guarantee_of(releases, public=PUBLIC)


@pytest.fixture(scope="module")
def mixed():
    return guarantee_of(MIXED, seeded=True)
