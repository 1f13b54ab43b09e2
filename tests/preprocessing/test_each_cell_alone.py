"""A cell is read as if it were alone: no record decides how those of others are read."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing import Boolean, Category, Cells, Date, Number, Ordered, PublicSchema
from sklearn_dpwg.preprocessing.public_schema import Schema

UTC = datetime.UTC
ODD = [
    *(None, float("nan"), pd.NaT, pd.NA, "", " ", "?", " -9 ", "abc", "nan", "inf", "1e400"),
    *(True, False, np.True_, 1, 0, 1.0, "1", "1.0", " 1 ", -0.0, 2**53 + 1, str(2**53 + 1), 2**63),
    *(
        2**64,
        -(2**64),
        10**400,
        "1_0",
        "0x10",
        "1,5 kg",
        1 + 1j,
        Decimal("1.50"),
        b"1",
        np.float32(1),
    ),
    *([1], (True,), (1,), "true", "TRUE", "yes", "Aix", "aachen "),
    *("now", "today", " now", "9999-12-31", "0001-01-01", "2020-01-01", " 2020-01-01 ", "2020-06"),
    *("2020-01-01 00:00:00.123456789", "2020-01-01T00:00:00+14:00", "2020-13-01", "01.02.2020"),
    *("9999-12-31 00:00:00.123456789", "1677-09-21", "2262-04-12", "-0001-01-01"),
    *(datetime.date(9999, 12, 31), datetime.datetime(2020, 1, 1, tzinfo=UTC)),
    *(datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=14))),),
    *(pd.Timestamp("2020-01-01 00:00:00.000000001"), pd.Timestamp("2020-01-01", tz="Asia/Tokyo")),
    *(np.datetime64("2020-01-01"), np.datetime64("9999-12-31", "s"), np.datetime64(5, "ns")),
    *(datetime.time(1), datetime.timedelta(1), np.timedelta64(1, "s"), pd.Period("2020")),
]
# What another cell must not change, each of a library's types of columns among them.
USUAL = ["9999-12-31", "2020-01-01 06:00:00", "1500-01-01", "01.01.2021", True, 1, 2**53 + 1, "1"]
USUAL += [0.5, "0,5", "yes", "true", "Aachen", (1,), datetime.date(9999, 12, 31), None]
KINDS = {
    "number": Number(0, 100, missing=True),
    "amount": Number(0, 2**65, log=True, missing=True, decimal=",", unit="kg"),
    "date": Date("2000-01-01", "9999-12-31", missing=True),
    "second": Date("2019-12-31", "2020-01-02", unit="second", missing=True),
    "written": Date("2000-01-01", "2030-01-01", missing=True, format="%d.%m.%Y"),
    "boolean": Boolean(missing=True),
    "yes": Boolean("yes", "no", missing=True),
    "ordered": Ordered((0, 1, 2), missing=True),
    "category": Category(("1", "true", "Aachen", "(1,)"), missing=True),
    "coded": Category((1, "true", "inf"), other=False, missing=True),
}
MISSING = Cells(["?", -9], unusable="missing")


def column(cells: list) -> pd.DataFrame:
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return pd.DataFrame({"c": pd.Series(values, dtype=object)})


def read(schema: Schema, cells: list):
    """Return the encoded rows, or None where they are refused."""
    try:
        return schema.encode(column(cells), sparse=False)
    except InputError:
        return None


@pytest.mark.parametrize("cells", [None, MISSING])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_two_cells_are_read_as_each_is_alone(kind, cells):
    schema = Schema({"c": kind}, cells=cells)
    alone = [read(schema, [cell]) for cell in ODD]
    witnesses = [(one, rows) for one in USUAL if (rows := read(schema, [one])) is not None]
    assert witnesses
    expected = np.concatenate([rows for _, rows in witnesses])
    for cell, rows in zip(ODD, alone, strict=True):
        found = read(schema, [cell, *(one for one, _ in witnesses), cell])
        if rows is None:
            assert found is None
            assert cells is not MISSING
        else:
            assert np.array_equal(found[1:-1], expected)
            assert np.array_equal(found[[0, -1]], rows.repeat(2, axis=0))
    usable = [place for place, rows in enumerate(alone) if rows is not None]
    for order in (usable, usable[::-1]):  # all at once
        found = read(schema, [ODD[place] for place in order])
        assert np.array_equal(found, np.concatenate([alone[place] for place in order]))


def test_a_nanosecond_of_one_record_hides_no_date_of_another():
    kind = Date("2000-01-01", "9999-12-31", missing=True)
    schema = Schema({"c": kind}, cells=MISSING)
    one, other = (
        read(schema, ["9999-12-31"] * 599 + [last])
        for last in ("2020-01-01", "2020-01-01 00:00:00.123456789")
    )
    assert np.array_equal(one, other)


def test_a_large_number_of_one_record_hides_no_number_of_another():
    schema = Schema({"c": Number(0, 100, missing=True)})
    one, other = (read(schema, [True] * 999 + [last]) for last in (100, 2**64))
    assert np.array_equal(one, other)


def test_the_clock_is_no_date():
    kind = Date("2000-01-01", "2100-01-01")
    for word in ("now", "today", " now "):
        with pytest.raises(InputError, match="'c' must hold dates of the form"):
            PublicSchema({"c": kind}).fit_transform(column([word]))
    with pytest.raises(InputError, match="must have dates with first < last"):
        PublicSchema({"c": Date("2000-01-01", "now")}).fit(column([None]))


@pytest.mark.parametrize("library", ["pandas", "polars", "parquet"])
def test_a_missing_cell_rounds_no_other(library, tmp_path):
    """A column of whole numbers with a gap is one of floats in NumPy, which hold 53 bits."""
    large = 2**53 + 1
    kind = Category((large, large - 1), missing=True)
    schema = PublicSchema({"c": kind}, shapes="linear", cells=MISSING)

    def rows(cells: list):
        if library == "pandas":
            return schema.fit_transform(pd.DataFrame({"c": pd.array(cells, dtype="Int64")}))
        if library == "polars":
            polars = pytest.importorskip("polars")
            return schema.fit_transform(polars.DataFrame({"c": cells}, schema={"c": polars.Int64}))
        pa = pytest.importorskip("pyarrow")
        from sklearn_dpwg.cli.cells import features

        return schema.fit_transform(features({"c": pa.chunked_array([pa.array(cells)])}, schema))

    assert np.array_equal(rows([large, 5])[0], rows([large, None])[0])
    assert rows([large, None])[0, 0] > 0
