"""Rows as they are: centred runs have tests of their own, in `tests/solvers/centring`."""

import pytest

from sklearn_dpwg.solvers.descent import planning


@pytest.fixture(autouse=True, scope="module")
def rows_as_they_are():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "is_worth_centring", lambda problem: False)
        yield
