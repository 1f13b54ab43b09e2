"""Mothers, households and savings."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Number, Ordered
from utility.population.definition import (
    Above,
    Amount,
    Bands,
    Definition,
    Is,
    Values,
    flags,
    only,
    yes_no,
)

RWM_COLUMNS = {
    "year": Ordered((1984, 1985, 1986, 1987, 1988)),
    "age": Number(25, 64),
    "hhninc": Number(0, 20, log=True),
    "educ": Number(7, 18),
    **flags("married", "kids", "self"),
}

MOTHERS = {
    "age": Number(21, 35),
    **yes_no("gender1", "gender2", yes="female", no="male"),
    **yes_no("afam", "hispanic", "other"),
}

LABSUP = {
    "age": Number(21, 35),
    "agefstm": Number(15, 35),
    "educ": Number(0, 20),
    "kids": Number(2, 8),
    "nonmomi": Number(-10, 150),
    **flags("boy1st", "boy2nd", "multi2nd"),
}

TASKS = (
    Definition(
        name="gsoep-doctor",
        asks="Did a German see a doctor in the last three months?",
        source="german-socio-economic-panel",
        table="COUNT/rwm5yr",
        target=Above("docvis", 0),
        groups=(
            Values("female", {0: "man", 1: "woman"}),
            Values(
                "edlevel", {1: "no degree", 2: "school", 3: "university entrance", 4: "university"}
            ),
        ),
        columns={**RWM_COLUMNS, "outwork": Boolean()},
        dropped="id; hospvis is of the same months; edlevel1 to 4 repeat edlevel",
    ),
    Definition(
        name="gsoep-out-of-work",
        asks="Is a German out of work?",
        source="german-socio-economic-panel",
        table="COUNT/rwm5yr",
        target=Is("outwork", (1,)),
        groups=(Values("married", {0: "single", 1: "married"}), Bands("age", (30, 40, 50, 60))),
        columns={
            **{n: k for n, k in RWM_COLUMNS.items() if n not in {"married", "self", "hhninc"}},
            "female": Boolean(),
            "edlevel": only(1, 2, 3, 4),
            "docvis": Number(0, 100, log=True),
        },
        dropped="id; self is of those in work; household income follows from work",
    ),
    Definition(
        name="gsoep-income",
        asks="What is the monthly income of a German household (log)?",
        source="german-socio-economic-panel",
        table="COUNT/rwm5yr",
        target=Amount("hhninc", 0.5, 20, log=True),
        groups=(
            Values(
                "edlevel", {1: "no degree", 2: "school", 3: "university entrance", 4: "university"}
            ),
            Values("self", {0: "employee or none", 1: "self-employed"}),
        ),
        columns={
            **{name: kind for name, kind in RWM_COLUMNS.items() if name not in {"hhninc", "self"}},
            **flags("female", "outwork"),
        },
        dropped="id; edlevel1 to 4 repeat edlevel",
    ),
    Definition(
        name="third-child",
        asks="Does a mother of two have a third child?",
        source="census-1980-mothers",
        table="AER/Fertility",
        target=Is("morekids", ("yes",)),
        groups=(
            Values("afam", {"yes": "black", "no": "not black"}),
            Values("hispanic", {"yes": "hispanic", "no": "not hispanic"}),
            Values("other", {"yes": "other", "no": "-"}),
        ),
        columns={
            **{name: kind for name, kind in MOTHERS.items() if name.startswith(("age", "gender"))},
            "work": Number(0, 52),
            "same_sex": Boolean(),
        },
        derived={"same_sex": lambda frame: frame["gender1"] == frame["gender2"]},
        merged={
            "black, hispanic, other": "black hispanic",
            "black, hispanic, -": "black hispanic",
            "black, not hispanic, other": "black",
            "black, not hispanic, -": "black",
        },
        dropped="rownames",
    ),
    Definition(
        name="minority-mothers-in-work",
        asks="Did a black or Hispanic mother work in 1979?",
        source="census-1980-mothers",
        table="wooldridge/labsup",
        target=Is("worked", (1,)),
        groups=(Values("hispan", {0: "black", 1: "hispanic"}), Bands("kids", (3, 4, 5))),
        columns=LABSUP,
        dropped="weeks, hours, labinc, faminc follow from work; samesex, agesq repeat columns",
    ),
    Definition(
        name="mothers-age-at-first-birth",
        asks="How old was a black or Hispanic mother at her first birth?",
        source="census-1980-mothers",
        table="wooldridge/labsup",
        target=Amount("agefstm", 15, 35),
        groups=(Bands("educ", (9, 12, 13, 16)),),
        columns={
            **{name: kind for name, kind in LABSUP.items() if name != "agefstm"},
            "hispan": Boolean(),
            "weeks": Number(0, 52),
        },
        dropped="earnings and hours repeat weeks; samesex, agesq repeat columns",
    ),
    Definition(
        name="retirement-plan",
        asks="Is a worker eligible for a 401(k) plan?",
        source="survey-of-income-and-program-participation",
        table="wooldridge/k401ksubs",
        target=Is("e401k", (1,)),
        groups=(
            Values("marr", {0: "single", 1: "married"}),
            Values("male", {0: "woman", 1: "man"}),
        ),
        columns={
            "inc": Number(10, 200, log=True),
            "age": Number(25, 64),
            "fsize": Number(1, 8),
            "pira": Boolean(),
            "nettfa": Number(-50, 200),
        },
        dropped="p401k is of the eligible only; squares",
    ),
    Definition(
        name="retirement-account",
        asks="Does a worker have an individual retirement account?",
        source="survey-of-income-and-program-participation",
        table="wooldridge/k401ksubs",
        target=Is("pira", (1,)),
        groups=(Bands("inc", (20, 30, 40, 60)), Bands("age", (35, 50))),
        columns={
            **flags("e401k", "p401k", "marr", "male"),
            "fsize": Number(1, 8),
            "age": Number(25, 64),
        },
        dropped="net financial assets hold the account; squares",
    ),
    Definition(
        name="contraception-in-botswana",
        asks="Has a woman in Botswana ever used contraception?",
        source="botswana-fertility",
        table="wooldridge/fertil2",
        target=Is("usemeth", (1,)),
        groups=(
            Values("religion", ("spirit", "protestant", "catholic", "other")),
            Values("urban", {0: "rural", 1: "urban"}),
        ),
        columns={
            "age": Number(15, 49),
            "educ": Number(0, 20),
            "children": Number(0, 13),
            "idlnchld": Number(0, 20, missing=True),
            "evermarr": Boolean(),
            **flags("electric", "radio", "tv", "bicycle", missing=True),
        },
        derived={
            "religion": lambda frame: np.select(
                [frame[name] == 1 for name in ("spirit", "protest", "catholic")],
                ["spirit", "protestant", "catholic"],
                "other",
            )
        },
        dropped="knowmeth is nearly the target; squares; dates repeat ages",
    ),
    Definition(
        name="children-in-botswana",
        asks="How many children has a woman in Botswana?",
        source="botswana-fertility",
        table="wooldridge/fertil2",
        target=Amount("children", 0, 13),
        groups=(Bands("age", (20, 25, 30, 35, 40, 45)),),
        columns={
            "age": Number(15, 49),
            "educ": Number(0, 20),
            **flags("urban", "evermarr", "spirit", "protest", "catholic"),
            **flags("electric", "radio", "tv", "bicycle", "usemeth", missing=True),
        },
        dropped="ceb is nearly the target; squares; dates repeat ages",
    ),
)
