"""Pieces of numbers: their norm, the lines among them, and names."""

import numpy as np
import pytest

from sklearn_dpwg.preprocessing import Date, Number, PublicSchema
from sklearn_dpwg.preprocessing.shapes import Ramps


@pytest.mark.parametrize("width", [1, 2, 3, 8, 32])
def test_a_line_has_the_price_that_it_has_by_itself(width):
    u = np.linspace(-1.0, 1.0, 301)
    block = Ramps(width)(u)
    weights, *_ = np.linalg.lstsq(block, u, rcond=None)
    assert block @ weights == pytest.approx(u, abs=1e-12)
    assert np.linalg.norm(weights) == pytest.approx(1.0)
    assert np.linalg.norm(block, axis=1).max() == pytest.approx(1.0)


def test_pieces_are_named_by_their_ends():
    pay, day = Number(0, 99, log=True), Date("2020-01-01", "2020-01-09")
    era = Date("2020-01-01", "2021-01-01", "year")
    names = PublicSchema({"pay": pay, "day": day, "era": era}).get_feature_names_out()
    assert names[3] == "pay=4.62341..9"
    assert names[8] == "day=2020-01-01..2020-01-02"
    assert names[16] == "era=1/8"  # its ends are not eight years
