"""Rows as they are: centred runs have tests of their own, in `tests/solvers/centring`."""

import pytest

from sklearn_dpwg.solvers import phased_erm


@pytest.fixture(autouse=True, scope="module")
def rows_as_they_are():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phased_erm, "is_worth_centring", lambda problem: False)
        yield
