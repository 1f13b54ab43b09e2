"""Pieces of numbers: their norm, the lines among them, names, and what passes through."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpwg.preprocessing import Date, Number, PublicSchema, PublicShapes
from sklearn_dpwg.preprocessing.shapes import Ramps


@parametrize_with_checks([PublicShapes(bounds=(-100.0, 100.0))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("width", [1, 2, 3, 8, 32])
def test_a_line_has_the_price_that_it_has_by_itself(width):
    u = np.linspace(-1.0, 1.0, 301)
    block = Ramps(width)(u)
    weights, *_ = np.linalg.lstsq(block, u, rcond=None)
    assert block @ weights == pytest.approx(u, abs=1e-12)
    assert np.linalg.norm(weights) == pytest.approx(1.0)
    assert np.linalg.norm(block, axis=1).max() == pytest.approx(1.0)


@given(
    st.lists(st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4), min_size=1, max_size=5),
    st.sampled_from([1, 8]),
    st.sampled_from([None, 0.5, 1.0]),
)
def test_no_row_is_longer_than_one(rows, resolution, rest_norm):
    table = pd.DataFrame(rows, columns=["a", "b", "c", "d"])
    bounds = {"a": (0, 1), "c": (-5, 1e6)}
    shapes = PublicShapes(bounds, resolution=resolution, rest_norm=rest_norm)
    result = shapes.fit_transform(table)
    assert np.linalg.norm(result, axis=1).max() <= 1.0 == shapes.data_norm_
    assert result.shape == (len(rows), len(shapes.get_feature_names_out()))


def test_pieces_are_named_by_their_ends():
    pay, day = Number(0, 99, log=True), Date("2020-01-01", "2020-01-09")
    era = Date("2020-01-01", "2021-01-01", "year")
    names = PublicSchema({"pay": pay, "day": day, "era": era}).get_feature_names_out()
    assert names[3] == "pay=4.62341..9"
    assert names[8] == "day=2020-01-01..2020-01-02"
    assert names[16] == "era=1/8"  # its ends are not eight years
