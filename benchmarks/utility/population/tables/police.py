"""Police, crime, crashes and the army."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number, Ordered
from utility.population.definition import Above, Amount, Bands, Definition, Is, Values, only
from utility.population.tables.places import REGION_OF_FIPS

MINNEAPOLIS_RACES = Values(
    "race",
    ("Black", "White", "East African", "Latino", "Native American", "Other", "Asian"),
)

HOUR = {
    "hour": lambda frame: pd.to_datetime(frame["date"]).dt.hour // 3,
    "weekday": lambda frame: pd.to_datetime(frame["date"]).dt.day_of_week,
}

CRASH = {
    "airbag": Boolean("airbag", "none"),
    "seatbelt": Boolean("belted", "none"),
    "frontal": Boolean(),
    "sex": Boolean("f", "m"),
    "ageOFocc": Number(16, 97),
    "yearacc": Ordered((1997, 1998, 1999, 2000, 2001, 2002)),
    "yearVeh": Number(1970, 2003, missing=True),
    "occRole": Boolean("driver", "pass"),
    "dvcat": Ordered(("1-9km/h", "10-24", "25-39", "40-54", "55+")),
}

COUNTY = {
    "density": Number(0, 50_000, log=True),
    "popul": Number(50, 10_000_000, log=True),
    "perc1019": Number(5, 30),
    "perc2029": Number(5, 40),
    "percblack": Number(0, 90),
    "percmale": Number(35, 80),
    "rpcincmaint": Number(0, 1300, log=True, missing=True),
    "rpcpersinc": Number(3000, 45_000, log=True, missing=True),
    "rpcunemins": Number(0, 650, log=True, missing=True),
    "year": Number(1980, 1996),
}

COUNTY_REGION = {"region": lambda frame: frame["statefips"].map(REGION_OF_FIPS)}

US_REGIONS = Values("region", ("northeast", "midwest", "south", "west"))

TASKS = (
    Definition(
        name="traffic-citations",
        asks="Does a stop in Minneapolis end with a citation?",
        source="minneapolis-police",
        table="carData/MplsStops",
        target=Is("citationIssued", ("YES",)),
        groups=(MINNEAPOLIS_RACES,),
        columns={
            "problem": Boolean("traffic", "suspicious"),
            "gender": Category(("Male", "Female", "Unknown"), missing=True),
            "policePrecinct": only(1, 2, 3, 4, 5),
            "lat": Number(44.89, 45.06),
            "long": Number(-93.33, -93.19),
            "hour": Category(tuple(range(8)), other=False),
            "weekday": Category(tuple(range(7)), other=False),
        },
        derived=HOUR,
        dropped="searches are of the same stop; preRace; neighbourhoods repeat the place",
    ),
    Definition(
        name="police-force",
        asks="Do the police use more than bodily force?",
        source="minneapolis-police",
        table="openintro/mn_police_use_of_force",
        target=Is("more", (1,)),
        groups=(
            Values(
                "race",
                {
                    "Black": "Black",
                    "White": "White",
                    "Native American": "Native American",
                    "Other / Mixed Race": "other",
                    "Asian": "other",
                    "Pacific Islander": "other",
                },
            ),
            Values("is_911_call", {"Yes": "911", "No": "no 911"}),
        ),
        columns={
            "sex": Boolean("Female", "Male", missing=True),
            "age": Number(10, 85, missing=True),
            "precinct": only("0", "1", "2", "3", "4", "5"),
            "problem": Category(
                (
                    "Suspicious Person",
                    "Fight",
                    "Disturbance",
                    "Domestic Abuse-In Progress",
                    "Emotionally Disturb Person",
                    "Assault in Progress",
                    "Suspicious Vehicle",
                    "Unwanted Person",
                    "Unknown Trouble",
                    "Traffic Law Enforcement",
                    "Check the Welfare",
                    "Person with a Gun",
                    "Theft",
                    "Officer Needs Help",
                )
            ),
            "resists": Category(
                (
                    "tensed",
                    "other",
                    "commission of crime",
                    "commission of a crime",
                    "fled on foot",
                    "assaulted officer",
                    "verbal non-compliance",
                    "unspecified",
                    "fled in vehicle",
                    "fled in a vehicle",
                ),
                missing=True,
            ),
            "year": Number(2016, 2021),
        },
        derived={
            "more": lambda frame: (frame["force_type"] != "Bodily Force").astype(float),
            "problem": lambda frame: frame["problem"].str.strip(),
            "precinct": lambda frame: frame["precinct"].astype(str),
            "resists": lambda frame: frame["type_resistance"].str.strip().str.lower(),
            "year": lambda frame: frame["response_datetime"].str[:4].astype(int),
        },
        dropped="the action and the injury follow; offences are a long list",
    ),
    Definition(
        name="released-after-arrest",
        asks="Is a person arrested for marijuana released with a summons?",
        source="toronto-arrests",
        table="carData/Arrests",
        target=Is("released", ("Yes",)),
        groups=(
            Values("colour", ("White", "Black")),
            Values("citizen", {"Yes": "citizen", "No": "no citizen"}),
        ),
        columns={
            "year": Ordered((1997, 1998, 1999, 2000, 2001, 2002)),
            "age": Number(12, 70),
            "sex": Boolean("Female", "Male"),
            "employed": Boolean("Yes", "No"),
            "checks": Number(0, 6),
        },
        dropped="rownames",
    ),
    Definition(
        name="police-checks",
        asks="Is an arrested person in a police data base?",
        source="toronto-arrests",
        table="carData/Arrests",
        target=Above("checks", 0),
        groups=(Bands("age", (18, 22, 30)), Values("colour", ("White", "Black"))),
        columns={
            "year": Ordered((1997, 1998, 1999, 2000, 2001, 2002)),
            "age": Number(12, 70),
            "sex": Boolean("Female", "Male"),
            "employed": Boolean("Yes", "No"),
            "citizen": Boolean("Yes", "No"),
        },
        dropped="the release comes later",
    ),
    Definition(
        name="arrested-again",
        asks="Is a man arrested in 1986?",
        source="california-arrests",
        table="wooldridge/crime1",
        target=Above("narr86", 0),
        groups=(
            Values("ethnicity", ("black", "hispanic", "other")),
            Values("born60", {0: "born earlier", 1: "born 1960"}),
        ),
        columns={
            "pcnv": Number(0, 1),
            "avgsen": Number(0, 60, log=True),
            "tottime": Number(0, 65, log=True),
            "ptime86": Number(0, 12),
            "qemp86": Number(0, 4),
            "inc86": Number(0, 550, log=True),
            "durat": Number(0, 25),
        },
        derived={
            "ethnicity": lambda frame: np.select(
                [frame["black"] == 1, frame["hispan"] == 1], ["black", "hispanic"], "other"
            )
        },
        dropped="felonies and property crimes are of the same arrests; squares",
    ),
    Definition(
        name="crash-deaths",
        asks="Does a person in a crashed car die?",
        source="nass-crashworthiness",
        table="DAAG/nassCDS",
        target=Is("dead", ("dead",)),
        groups=(
            Values("dvcat", ("1-9km/h", "10-24", "25-39", "40-54", "55+")),
            Values("seatbelt", {"belted": "belted", "none": "no belt"}),
        ),
        columns={name: kind for name, kind in CRASH.items() if name not in {"dvcat", "seatbelt"}},
        merged={"1-9km/h, belted": "1-9km/h", "1-9km/h, no belt": "1-9km/h"},
        dropped="injSeverity and deploy are of the same crash; survey weights; caseid",
    ),
    Definition(
        name="crash-injuries",
        asks="Is a person in a crashed car badly hurt?",
        source="nass-crashworthiness",
        table="DAAG/nassCDS",
        target=Above("injSeverity", 2),
        groups=(
            Bands("ageOFocc", (20, 25, 35, 50, 65, 80)),
            Values("sex", {"f": "woman", "m": "man"}),
        ),
        columns={name: kind for name, kind in CRASH.items() if name != "sex"},
        dropped="deaths and airbags that opened are of the same crash; survey weights; caseid",
    ),
    Definition(
        name="murder-counties",
        asks="Has a county a murder within a year?",
        source="county-murders",
        table="wooldridge/countymurders",
        target=Above("murders", 0),
        groups=(US_REGIONS, Bands("popul", (10_000, 30_000, 100_000))),
        columns=COUNTY,
        derived=COUNTY_REGION,
        dropped="rates and arrests follow; identifiers",
    ),
    Definition(
        name="murder-rates",
        asks="How many murders has a county a year per 10,000 people?",
        source="county-murders",
        table="wooldridge/countymurders",
        target=Amount("murdrate", 0, 10),
        groups=(US_REGIONS,),
        columns=COUNTY,
        derived=COUNTY_REGION,
        dropped="murders and arrests; executions; identifiers",
    ),
    Definition(
        name="field-officers",
        asks="Has an officer a rank of major or above?",
        source="military-demographics",
        table="openintro/military",
        target=Above("rank", 5),
        groups=(
            Values(
                "race",
                {
                    "white": "white",
                    "black": "black",
                    "asian": "asian",
                    "multi": "multi",
                    "ami/aln": "native",
                    "p/i": "native",
                    "unk": "unknown",
                },
            ),
            Values("gender", ("female", "male")),
        ),
        columns={"branch": only("army", "navy", "air force", "marine corps"), "hisp": Boolean()},
        rows=lambda frame: frame["grade"].eq("officer"),
        dropped="grade is constant",
    ),
)
