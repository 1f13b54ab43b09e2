"""Columns that are made from others, and lists that several columns share."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

Make = Callable[[pd.DataFrame], Any]

# States of the United States, and the census bureau's regions.
# Each with its code, its number in the federal standard FIPS 5-2, and its name.
_STATES_BY_REGION = """\
northeast: CT 9 Connecticut, MA 25 Massachusetts, ME 23 Maine, NH 33 New Hampshire, NJ 34 New
    Jersey, NY 36 New York, PA 42 Pennsylvania, RI 44 Rhode Island, VT 50 Vermont
midwest: IA 19 Iowa, IL 17 Illinois, IN 18 Indiana, KS 20 Kansas, MI 26 Michigan, MN 27
    Minnesota, MO 29 Missouri, ND 38 North Dakota, NE 31 Nebraska, OH 39 Ohio, SD 46 South
    Dakota, WI 55 Wisconsin
south: AL 1 Alabama, AR 5 Arkansas, DC 11 District of Columbia, DE 10 Delaware, FL 12 Florida, GA
    13 Georgia, KY 21 Kentucky, LA 22 Louisiana, MD 24 Maryland, MS 28 Mississippi, NC 37 North
    Carolina, OK 40 Oklahoma, SC 45 South Carolina, TN 47 Tennessee, TX 48 Texas, VA 51 Virginia,
    WV 54 West Virginia
west: AK 2 Alaska, AZ 4 Arizona, CA 6 California, CO 8 Colorado, HI 15 Hawaii, ID 16 Idaho, MT 30
    Montana, NM 35 New Mexico, NV 32 Nevada, OR 41 Oregon, UT 49 Utah, WA 53 Washington, WY 56
    Wyoming
"""


def _states() -> Iterator[tuple[str, str, int, str]]:
    """Yield region, code, number and name of each state."""
    for line in re.split(r"\n(?! )", _STATES_BY_REGION.strip()):
        region, _, states = line.partition(": ")
        for state in states.split(","):
            code, number, name = state.split(maxsplit=2)
            yield region, code, int(number), " ".join(name.split())


REGION_OF_STATE = {code: region for region, code, _, _ in _states()}
REGION_OF_FIPS = {number: region for region, _, number, _ in _states()}
REGION_OF_NAME = {name: region for region, _, _, name in _states()}
STATES, STATE_NAMES = tuple(sorted(REGION_OF_STATE)), tuple(sorted(REGION_OF_NAME))
STATES_OF_DISEASES = tuple(name.replace("of C", "Of C") for name in STATE_NAMES)
# Electors of two states are chosen by district.
_DISTRICTS = {"northeast": ("Maine", 2), "midwest": ("Nebraska", 3)}
REGION_OF_NAME |= {
    f"{name} CD-{district}": region
    for region, (name, most) in _DISTRICTS.items()
    for district in range(1, most + 1)
}

YEARS = {**{f"emp_{years}": years for years in range(1, 10)}, "emp_lt_1": 0, "emp_ge_10": 10}

GENRES = (
    *("Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "IMAX", "Musical", "Mystery", "Romance", "Sci-Fi"),
    *("Thriller", "War", "Western"),
)

WORDS = (
    *("america", "thank", "obama", "hillary", "news", "apprentice", "debate", "poll", "vote"),
    *("tonight", "join", "interview", "jobs", "china", "best", "http", "@realdonaldtrump"),
)

ELECTION = pd.Timestamp("2016-11-08")
STRIKE_FORMAT = "%m/%d/%Y %H:%M:%S"

LISTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "genres": GENRES,
        "words": WORDS,
        "states": STATES,
        "names of states": STATE_NAMES,
        "states of diseases": STATES_OF_DISEASES,
    }
)


def _dates(column: str, part: str, **how: Any) -> Make:
    """Return what reads a part of dates."""
    return lambda frame: getattr(pd.to_datetime(frame[column], **how).dt, part)


def _region(column: str, region_of: Mapping[Any, str]) -> Make:
    """Return what maps states to regions."""
    return lambda frame: frame[column].map(region_of)


def _fraction_of_wins(frame: pd.DataFrame) -> pd.Series:
    return frame["wins"] / frame["games_played"]


def _first_of(words: Mapping[str, str], otherwise: str) -> Make:
    """Return what names the first of some columns of 0 and 1 that is 1."""
    return lambda frame: np.select(
        [frame[column] == 1 for column in words], list(words.values()), otherwise
    )


def _joined(**words: str) -> Make:
    """Return what joins the words of columns of 0 and 1 that are 1; "other" where none is."""

    def join(frame: pd.DataFrame) -> pd.Series:
        parts = [frame[column].map({1: word, 0: ""}) for column, word in words.items()]
        return functools.reduce(operator.add, parts).replace("", "other")

    return join


def _texts(frame: pd.DataFrame) -> pd.Series:
    stated = frame["text_while_driving_30d"]
    return stated.ne("0").where(stated.notna()).astype(float)


def _bird_size(frame: pd.DataFrame) -> pd.Series:
    sizes = frame["species"].str.extract(r"- (SMALL|MEDIUM|LARGE)$")[0]
    return sizes.str.lower().fillna("known species")


def _has_genre(genre: str) -> Make:
    return lambda frame: ("|" + frame["genres"] + "|").str.contains(f"|{genre}|", regex=False)


def _says(word: str) -> Make:
    return lambda frame: frame["text"].str.lower().str.contains(word, regex=False)


# Columns of a table that are made from others, row by row, one after the other.
MADE: Mapping[str, Mapping[str, Make]] = {
    "wooldridge/alcohol": {
        "health": _first_of(
            {
                "exhealth": "excellent",
                "vghealth": "very good",
                "goodhealth": "good",
                "fairhealth": "fair",
            },
            "poor",
        )
    },
    "modeldata/check_times": {"compiled": lambda frame: frame["src_count"] > 0},
    "modeldata/lending_club": {
        "region": _region("addr_state", REGION_OF_STATE),
        "years": lambda frame: frame["emp_length"].map(YEARS),
    },
    "openintro/loans_full_schema": {"region": _region("state", REGION_OF_STATE)},
    "modeldata/mlc_churn": {"region": _region("state", REGION_OF_STATE)},
    "modeldata/hotel_rates": {
        "month": _dates("arrival_date", "month"),
        "weekend": lambda frame: pd.to_datetime(frame["arrival_date"]).dt.day_of_week >= 4,
        "family": lambda frame: frame["children"] + frame["babies"] > 0,
    },
    "modeldata/deliveries": {"late_hour": lambda frame: (frame["hour"] - 15).clip(0, 6)},
    "survival/nafld1": {"is_case": lambda frame: frame["case.id"] == frame["id"]},
    "openintro/yrbss": {"texts": _texts},
    "AER/Fertility": {"same_sex": lambda frame: frame["gender1"] == frame["gender2"]},
    "wooldridge/fertil2": {
        "religion": _first_of(
            {"spirit": "spirit", "protest": "protestant", "catholic": "catholic"}, "other"
        )
    },
    "carData/Wells": {"near": lambda frame: frame["distance"] < 30},
    "dslabs/movielens": {
        "rated": _dates("timestamp", "year", unit="s"),
        "age": lambda frame: (frame["rated"] - frame["year"]).clip(0, 110),
        **{f"is {genre}": _has_genre(genre) for genre in GENRES},
    },
    "dslabs/polls_us_election_2016": {
        "region": lambda frame: frame["state"].map(REGION_OF_NAME).fillna("nation"),
        "lead": lambda frame: frame["rawpoll_clinton"] - frame["rawpoll_trump"],
        "days": lambda frame: (ELECTION - pd.to_datetime(frame["enddate"])).dt.days,
    },
    "dslabs/trump_tweets": {
        **{f"says {word}": _says(word) for word in WORDS},
        "length": lambda frame: frame["text"].str.len(),
        "quotes": lambda frame: frame["text"].str.startswith('"'),
        "shouts": lambda frame: frame["text"].str.count("!"),
        "hour": _dates("created_at", "hour"),
        "year": _dates("created_at", "year"),
    },
    "openintro/mlb_teams": {"fraction": _fraction_of_wins},
    "Stat2Data/Kershaw": {
        "off_side": lambda frame: frame["HPos"].abs(),
        "off_height": lambda frame: (frame["VPos"] - 30).abs(),
    },
    "dslabs/us_contagious_diseases": {
        "decade": lambda frame: frame["year"] // 10 * 10,
        "rate": lambda frame: 1 + 1e5 * frame["count"] / frame["population"],
    },
    "carData/MplsStops": {
        "hour": lambda frame: pd.to_datetime(frame["date"]).dt.hour // 3,
        "weekday": _dates("date", "day_of_week"),
    },
    "openintro/mn_police_use_of_force": {
        "more": lambda frame: (frame["force_type"] != "Bodily Force").astype(float),
        "problem": lambda frame: frame["problem"].str.strip(),
        "precinct": lambda frame: frame["precinct"].astype(str),
        "resists": lambda frame: frame["type_resistance"].str.strip().str.lower(),
        "year": lambda frame: frame["response_datetime"].str[:4].astype(int),
    },
    "wooldridge/crime1": {
        "ethnicity": _first_of({"black": "black", "hispan": "hispanic"}, "other")
    },
    "wooldridge/countymurders": {"region": _region("statefips", REGION_OF_FIPS)},
    "wooldridge/catholic": {"race": _joined(black="black", hispan="hispanic", asian="asian")},
    "wooldridge/twoyear": {"race": _joined(black="black", hispanic="hispanic")},
    "mlmRev/egsingle": {"race": _joined(black="black", hispanic="hispanic")},
    "wooldridge/gpa2": {"race": _joined(black="black", white="white")},
    "mlmRev/Chem97": {
        "above": lambda frame: (frame["gcsescore"] - 6).clip(0, 2),
        "below": lambda frame: (4 - frame["gcsescore"]).clip(0, 4),
        "square": lambda frame: frame["gcsescore"] ** 2,
    },
    "nycflights13/flights": {"hour": lambda frame: frame["sched_dep_time"] // 100},
    "nycflights13/weather": {
        "spread": lambda frame: frame["temp"] - frame["dewp"],
        "part_of_day": lambda frame: frame["hour"] // 4,
    },
    "openintro/birds": {
        "year": _dates("date", "year", format=STRIKE_FORMAT),
        "month": _dates("date", "month", format=STRIKE_FORMAT),
        "size": _bird_size,
    },
    "modeldata/Chicago": {
        "weekday": _dates("date", "day_of_week"),
        "month": _dates("date", "month"),
        "year": _dates("date", "year"),
    },
    "wooldridge/airfare": {"square": lambda frame: np.log(frame["dist"]) ** 2},
    "modeldata/taxi": {"part_of_day": lambda frame: frame["hour"] // 4},
    "wooldridge/wagepan": {
        "occupation": lambda frame: (
            1 + np.argmax(frame[[f"occ{code}" for code in range(1, 10)]].to_numpy(), axis=1)
        )
    },
    "AER/CPSSW9204": {"age_group": lambda frame: frame["age"]},
    "carData/SLID": {
        "young": lambda frame: (40 - frame["age"]).clip(0, 24),
        "earner": lambda frame: frame["wages"].notna(),
    },
}
