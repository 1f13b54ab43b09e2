"""The lower-bound instance of the benchmark of rates: what its notes prove holds on the data."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def make():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield importlib.import_module("rates_worlds").make_lower_bound
    sys.modules.pop("rates_worlds")


@given(
    n=st.integers(40, 200),
    d=st.sampled_from([4, 16]),  # entries 1/√d are whole numbers of the grid of rows
    radius=st.floats(0.05, 9.0),
    epsilon=st.floats(0.3, 10),
    seed=st.integers(0, 2**32 - 1),
)
def test_worst_group_excess_is_at_least_that_of_the_first_group(make, n, d, radius, epsilon, seed):
    data, optimum = make(n, d, radius, epsilon, seed)
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(10, d))
    lengths = radius * rng.random((10, 1)) ** 0.2
    points = lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for risks in map(data.risks, points):
        assert risks[0] >= optimum - 1e-9
        assert risks[0] >= risks[1]  # the hard group is the worst everywhere
    first, second = points[:2]
    ends = [data.risks(w)[0] for w in (first, second, (first + second) / 2)]
    assert ends[2] == pytest.approx((ends[0] + ends[1]) / 2, abs=1e-9)  # linear on the ball
    mean = -data.risks_and_gradients(0.0 * first)[1][0]
    if np.any(mean):
        best = radius * mean / np.linalg.norm(mean)
        assert data.risks(best).max() == pytest.approx(optimum, abs=1e-9)
    else:
        assert optimum == 2.0 * radius
