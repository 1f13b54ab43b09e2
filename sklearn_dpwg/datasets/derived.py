"""Columns that are made of those of a file, each row on its own, by the data set's name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

# The times of the stops are universal; Minneapolis is six hours behind, five in summer time.
_SUMMER = (pd.Timestamp("2017-03-12T08:00:00Z"), pd.Timestamp("2017-11-05T07:00:00Z"))


def _adult(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the full stop off the labels of the test file, and tell who was born elsewhere."""
    country = frame["native-country"]
    elsewhere = country.where(country == "United-States", "elsewhere").where(country.notna())
    income = frame["income"].astype(object).str.rstrip(".")
    return frame.assign(**{"income": income, "born-in": elsewhere})


def _law_school(frame: pd.DataFrame) -> pd.DataFrame:
    """Put indicator columns back together; a row without exactly one 1 is missing."""
    for column, prefix in (("race", "Race_"), ("sex", "Sex_"), ("passed", "PF_")):
        names = [name for name in map(str, frame) if name.startswith(prefix)]
        indicators = frame[names].to_numpy()
        values = [names[place].removeprefix(prefix) for place in indicators.argmax(axis=1)]
        is_one = indicators.sum(axis=1) == 1
        frame[column] = pd.Series(values, index=frame.index).where(is_one)
    return frame


def _stops(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn the date into month, kind of day and hours of the day."""
    universal = pd.to_datetime(frame["date"], utc=True)
    summer = (universal >= _SUMMER[0]) & (universal < _SUMMER[1])
    local = universal - pd.to_timedelta(6 - summer.astype(int), unit="h")
    first = 3 * (local.dt.hour // 3)
    return frame.assign(
        policePrecinct=frame["policePrecinct"].astype(str),
        month=local.dt.month,
        day=local.dt.day_of_week.ge(5).map({True: "weekend", False: "weekday"}),
        hours=first.map("{:02d}".format) + "-" + (first + 3).map("{:02d}".format),
    )


def _hourly_earnings(frame: pd.DataFrame) -> pd.DataFrame:
    """Add age squared, as earnings rise and then fall with age."""
    return frame.assign(**{"age squared": frame["age"] ** 2})


def _weekly_wages(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the logarithm of the wage, and add squared experience (Mincer)."""
    squared = frame["experience"].clip(lower=0) ** 2
    return frame.assign(**{"log wage": np.log(frame["wage"]), "experience squared": squared})


DERIVED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "adult": _adult,
    "cps-hourly-earnings": _hourly_earnings,
    "cps-weekly-wages": _weekly_wages,
    "law-school": _law_school,
    "minneapolis-stops": _stops,
}
