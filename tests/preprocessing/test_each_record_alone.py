"""A change of one record's cell moves that record's row alone, or its column is refused by type.

One cell can change the type of its whole column, by whoever reads the table: a gap makes floats of
whole numbers, a word makes text of numbers and of yes and no.
"""

from __future__ import annotations

import datetime
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered, PublicSchema

BIG = 2**53
COLUMNS = [
    ["1", "2", "3"], ["01", "02", "10"], ["0", "1"], ["1.0", "2.0"], ["0.5", "2.5"], ["a", "b"],
    ["True", "False"], ["TRUE", "false"], ["yes", "no"], ["1e3", "20"], [str(BIG), str(BIG + 1)],
]  # fmt: skip
CELLS = [
    "", "NA", "unk", "2b", "0.5", "1", " 1", "1.0", "01", "+1", "-0", "1.", ".5", "1e3", "1e400",
    "inf", "-Infinity", "True", "true", "FALSE", "1_0", "0x10", "1,5", "2020-01-01", "\uff11",
    str(BIG + 1), str(10**30),
]  # fmt: skip
READERS = {
    "pandas": lambda file: pd.read_csv(file),
    "nullable": lambda file: pd.read_csv(file, dtype_backend="numpy_nullable"),
    "pyarrow": lambda file: pd.read_csv(file, dtype_backend="pyarrow"),
    "categories": lambda file: pd.read_csv(file, dtype={"c": "category"}),
    "objects": lambda file: pd.read_csv(file).astype(object),
    "polars": lambda file: pl.read_csv(file),
}


def encoded(kind, table):
    """Return the rows of a column, or None where it is refused."""
    schema = PublicSchema({"c": kind}, sparse_output=False)
    try:
        return schema.fit_transform(table)
    except InputError:
        return None


def read(reader, cells):
    text = "c,n\n" + "".join(f'"{cell}",1\n' for cell in cells)
    return READERS[reader](io.BytesIO(text.encode()))


@given(st.data(), st.sampled_from(COLUMNS), st.sampled_from(CELLS), st.sampled_from([*READERS]))
def test_one_cell_of_a_file_moves_its_row_alone(data, words, cell, reader):
    cells = data.draw(st.lists(st.sampled_from(words), min_size=2, max_size=5))
    place = data.draw(st.integers(0, len(cells) - 1))
    changed = [*cells[:place], cell, *cells[place + 1 :]]
    others = np.arange(len(cells)) != place
    of_levels = (Category(tuple(words), missing=True), Boolean(*words[:2], missing=True))
    for kind in (*of_levels, Ordered(tuple(words), missing=True), Number(0, 3, missing=True)):
        rows = [encoded(kind, read(reader, each)) for each in (cells, changed)]
        if rows[0] is not None and rows[1] is not None:
            assert np.array_equal(rows[0][others], rows[1][others])
        elif isinstance(kind, Category):
            assert str(BIG) in words  # floats cannot tell these apart
        if kind is of_levels[0] and rows[0] is not None:
            assert not rows[0][:, len(words) :].any()  # each found its level


DATES = [
    datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 12), pd.Timestamp("2020-01-03"),
    pd.Timestamp("2020-01-02T00:30+02:00"), np.datetime64("2020-01-04"),
]  # fmt: skip
ODD = [
    *(None, np.nan, pd.NaT, pd.NA, Decimal("NaN")),
    *("x", "", 1, 0.5, True, Decimal("1.50"), 10**400, 2**64, np.float32(0.5), 1j, b"1", (1,)),
    *(datetime.date(9999, 12, 31), datetime.date(1, 1, 1), np.datetime64("9999-12-31", "s")),
    *(datetime.timedelta(1), datetime.time(1), pd.Period("2020"), np.timedelta64(1, "s")),
    pd.Timestamp("2020-01-01 00:00:00.000000001"),
]
MAKERS = {
    "guessed": lambda cells: pd.DataFrame({"c": cells}),
    "objects": lambda cells: pd.DataFrame({"c": pd.Series(cells, dtype=object)}),
    "categories": lambda cells: pd.DataFrame({"c": pd.Series(cells, dtype="category")}),
    "polars": lambda cells: pl.DataFrame({"c": pl.Series("c", cells, strict=False)}),
}


@given(
    st.one_of(
        *(
            st.lists(st.sampled_from(of), min_size=1, max_size=4)
            for of in (DATES, DATES[:1], [True, False], [0, 1, 2], [0.0, 1.0, 2.5], ["0", "x"])
        )
    ),
    st.sampled_from(ODD),
    st.sampled_from(["0", *DATES, *ODD]),
    st.sampled_from([*MAKERS]),
)
@example([True, False], None, 2, "guessed")
@example([0.5, 1.0], None, "unk", "objects")
def test_one_cell_of_a_frame_moves_its_row_alone(cells, cell, other, maker):
    kinds = (
        Category((0, 1), missing=True),
        Number(0, 2**65, log=True, missing=True),
        Date("2020-01-01", "2020-01-05", unit="hour", missing=True),
    )
    for kind in kinds:
        rows = []
        for last in (cell, other):
            if maker == "polars" and any(isinstance(one, Decimal) for one in (*cells, last)):
                return  # polars panics at some of these
            try:
                table = MAKERS[maker]([*cells, last])
            except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
                return  # no such table
            rows.append(encoded(kind, table))
        if rows[0] is not None and rows[1] is not None:
            assert np.array_equal(rows[0][:-1], rows[1][:-1])
