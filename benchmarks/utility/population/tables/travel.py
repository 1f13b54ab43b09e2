"""Flights, trains and taxis."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sklearn_dpwg.preprocessing._column_kinds import Category, Number, Ordered
from utility.population.definition import (
    Above,
    Amount,
    Bands,
    Definition,
    Is,
    Values,
    complete,
    flags,
    only,
)
from utility.population.tables.places import STATES

CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL")

LA_GUARDIA_CARRIERS = ("AA", "DL", "MQ", "UA", "EV", "US", "WN", "FL", "B6", "9E", "F9", "YV")
DESTINATIONS = (
    "ATL",
    "ORD",
    "LAX",
    "BOS",
    "CLT",
    "MCO",
    "SFO",
    "MIA",
    "FLL",
    "DCA",
    "DTW",
    "DFW",
    "RDU",
    "TPA",
    "DEN",
    "IAH",
    "MSP",
    "PBI",
    "SJU",
    "LAS",
    "BNA",
    "IAD",
    "BUF",
    "PHX",
    "MDW",
    "STL",
    "CLE",
    "SEA",
    "CVG",
    "RSW",
)

FLIGHT = {
    "month": Category(tuple(range(1, 13)), other=False),
    "day": Number(1, 31),
    "hour": Category(tuple(range(6, 22))),
    "origin": only("EWR", "JFK", "LGA"),
    "dest": Category(DESTINATIONS),
    "distance": Number(80, 5000, log=True),
}

LATE = {"hour": lambda frame: frame["sched_dep_time"] // 100}

BIRD = {
    "ac_mass": Ordered((1, 2, 3, 4, 5), missing=True),
    "num_engs": Ordered((1, 2, 3, 4), missing=True),
    "time_of_day": only("Day", "Night", "Dusk", "Dawn", missing=True),
    "height": Number(0, 32_500, log=True, missing=True),
    "speed": Number(0, 400, missing=True),
    "sky": only("No Cloud", "Some Cloud", "Overcast", missing=True),
    "state": Category(STATES, missing=True),
    "year": Number(1990, 2000),
    "month": Category(tuple(range(1, 13)), other=False),
    "size": only("small", "medium", "large", "known species"),
}

BIRD_DERIVED = {
    "year": lambda frame: pd.to_datetime(frame["date"], format="%m/%d/%Y %H:%M:%S").dt.year,
    "month": lambda frame: pd.to_datetime(frame["date"], format="%m/%d/%Y %H:%M:%S").dt.month,
    "size": lambda frame: (
        frame["species"]
        .str.extract(r"- (SMALL|MEDIUM|LARGE)$")[0]
        .str.lower()
        .fillna("known species")
    ),
}

PHASES = Values(
    "phase_of_flt",
    {
        "Approach": "approach",
        "Take-off run": "take-off",
        "Climb": "climb",
        "Landing Roll": "landing",
        "Descent": "descent",
        "En Route": "en route",
        "Taxi": "ground",
        "Parked": "ground",
    },
)

# Thousands of riders on a busy day, two weeks before.
STATIONS = {
    "Austin": 3,
    "Quincy_Wells": 10,
    "Belmont": 7,
    "Archer_35th": 5,
    "Oak_Park": 3,
    "Western": 6,
    "Clark_Lake": 25,
    "Clinton": 5,
    "Merchandise_Mart": 12,
    "Irving_Park": 6,
    "Harlem": 5,
    "Washington_Wells": 12,
    "Monroe": 12,
    "Polk": 5,
    "Ashland": 3,
    "Kedzie": 5,
    "Addison": 4,
    "Jefferson_Park": 10,
    "Montrose": 3,
    "California": 1.5,
}

CHICAGO = {
    **{name: Number(0, most) for name, most in STATIONS.items()},
    "temp_min": Number(-20, 90),
    "temp_max": Number(-10, 105),
    "dew": Number(-20, 80),
    "humidity": Number(0, 100),
    "pressure": Number(29, 31),
    "wind_max": Number(0, 50),
    "percip_max": Number(0, 2, log=True),
    "weather_rain": Number(0, 1),
    "weather_snow": Number(0, 1),
    "weather_cloud": Number(0, 1),
    "weather_storm": Number(0, 1),
    **flags(
        "Blackhawks_Away",
        "Blackhawks_Home",
        "Bulls_Away",
        "Bulls_Home",
        "Bears_Away",
        "Bears_Home",
        "WhiteSox_Away",
        "WhiteSox_Home",
        "Cubs_Away",
        "Cubs_Home",
    ),
    "year": Number(2001, 2016),
}

CALENDAR = {
    "weekday": lambda frame: pd.to_datetime(frame["date"]).dt.day_of_week,
    "month": lambda frame: pd.to_datetime(frame["date"]).dt.month,
    "year": lambda frame: pd.to_datetime(frame["date"]).dt.year,
}

WEEKDAYS = Values(
    "weekday",
    {
        0: "Monday",
        1: "Tuesday",
        2: "Wednesday",
        3: "Thursday",
        4: "Friday",
        5: "Saturday",
        6: "Sunday",
    },
)

TASKS = (
    Definition(
        name="late-flights",
        asks="Does a flight from La Guardia land more than 15 minutes late?",
        source="new-york-flights",
        table="nycflights13/flights",
        target=Above("arr_delay", 15),
        groups=(Values("carrier", LA_GUARDIA_CARRIERS),),
        columns={name: kind for name, kind in FLIGHT.items() if name != "origin"},
        rows=lambda frame: frame["origin"].eq("LGA"),
        derived=LATE,
        dropped="departure and arrival times and delays; flight and tail numbers",
    ),
    Definition(
        name="late-departures",
        asks="Does a flight from Newark or Kennedy leave more than 15 minutes late?",
        source="new-york-flights",
        table="nycflights13/flights",
        target=Above("dep_delay", 15),
        groups=(Values("carrier", CARRIERS), Values("origin", ("EWR", "JFK"))),
        rows=lambda frame: frame["origin"].ne("LGA"),
        columns={name: kind for name, kind in FLIGHT.items() if name != "origin"},
        derived=LATE,
        merged={
            **{
                f"{carrier}, {origin}": f"{carrier}"
                for carrier in ("EV", "MQ", "US", "WN", "FL")
                for origin in ("EWR", "JFK")
            },
            "WN, EWR": "WN or FL",
            "WN, JFK": "WN or FL",
            "FL, EWR": "WN or FL",
            "FL, JFK": "WN or FL",
        },
        dropped="arrival and air time follow; flight and tail numbers",
    ),
    Definition(
        name="rainy-hours",
        asks="Does it rain within an hour at a New York airport?",
        source="new-york-flights",
        table="nycflights13/weather",
        target=Above("precip", 0),
        groups=(Values("origin", ("EWR", "JFK", "LGA")), Bands("month", (4, 7, 10))),
        columns={
            "spread": Number(0, 40, log=True),
            "dewp": Number(0, 75),
            "wind_dir": Number(0, 360, missing=True),
            "wind_speed": Number(0, 40),
            "pressure": Number(980, 1045),
            "part_of_day": Category(tuple(range(6)), other=False),
        },
        rows=complete("pressure", "temp", "dewp", "wind_speed"),
        derived={
            "spread": lambda frame: frame["temp"] - frame["dewp"],
            "part_of_day": lambda frame: frame["hour"] // 4,
        },
        dropped="visibility, humidity and gusts are of the same rain",
    ),
    Definition(
        name="several-birds",
        asks="Does a plane hit more than one bird?",
        source="bird-strikes",
        table="openintro/birds",
        target=Is("birds_struck", ("2-10", "11-100", "Over 100")),
        groups=(PHASES,),
        columns=BIRD,
        derived=BIRD_DERIVED,
        dropped="remarks; operators and aircraft are long lists; birds_seen is the same count",
    ),
    Definition(
        name="station-riders",
        asks="How many people enter a station of the Chicago underground in a day (thousands)?",
        source="chicago-ridership",
        table="modeldata/Chicago",
        target=Amount("ridership", 0, 26),
        groups=(WEEKDAYS,),
        columns={**CHICAGO, "month": Category(tuple(range(1, 13)), other=False)},
        derived=CALENDAR,
        dropped="means and changes that repeat the weather",
    ),
    Definition(
        name="air-fares",
        asks="What does a flight between two cities cost (log)?",
        source="airfare",
        table="wooldridge/airfare",
        target=Amount("fare", 35, 550, log=True),
        groups=(Values("year", (1997, 1998, 1999, 2000)), Bands("dist", (600, 1200))),
        columns={
            "dist": Number(90, 2800, log=True),
            "passen": Number(1, 9000, log=True),
            "bmktshr": Number(0, 1),
            "square": Number(20, 63),
        },
        derived={"square": lambda frame: np.log(frame["dist"]) ** 2},
        dropped="concen is bmktshr; logarithms",
    ),
    Definition(
        name="taxi-tips",
        asks="Does a passenger tip?",
        source="chicago-taxi",
        table="modeldata/taxi",
        target=Is("tip", ("yes",)),
        groups=(
            Values(
                "company",
                (
                    "other",
                    "Taxi Affiliation Services",
                    "Sun Taxi",
                    "Taxicab Insurance Agency Llc",
                    "City Service",
                    "Flash Cab",
                    "Chicago Independents",
                ),
            ),
            Values("local", {"yes": "local", "no": "across"}),
        ),
        columns={
            "distance": Number(0, 45, log=True),
            "dow": only("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
            "month": only("Jan", "Feb", "Mar", "Apr"),
            "part_of_day": Category(tuple(range(6)), other=False),
        },
        derived={"part_of_day": lambda frame: frame["hour"] // 4},
        dropped="rownames",
    ),
)
