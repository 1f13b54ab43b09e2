"""Work and wages."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number, Ordered
from utility.population.definition import (
    Amount,
    Bands,
    Definition,
    Is,
    Values,
    complete,
    flags,
    only,
    yes_no,
)
from utility.population.tables.places import STATE_NAMES

NLS_RACE = Values("race", {1: "white", 2: "black", 3: "other"})

NLS_COLUMNS = {
    "year": Number(68, 88),
    "age": Number(15, 45),
    "msp": Boolean(),
    "nev_mar": Boolean(),
    "grade": Number(0, 18),
    "not_smsa": Boolean(),
    "c_city": Boolean(),
    "south": Boolean(),
    "ind_code": Category(tuple(range(4, 13)), missing=True),
    "occ_code": Category((1, 2, 3, 4, 5, 6, 8, 13), missing=True),
    "ttl_exp": Number(0, 25),
    "tenure": Number(0, 20),
    "hours": Number(0, 60),
}

PSID_COLUMNS = {
    "experience": Number(0, 50),
    "weeks": Number(0, 52),
    **yes_no("south", "smsa", "married", "industry"),
    "education": Number(0, 17),
    "year": Ordered(tuple(range(1976, 1983))),
}

WAGEPAN = {
    "year": Number(1980, 1987),
    "educ": Number(0, 16),
    "exper": Number(0, 18),
    "hours": Number(0, 5000),
    "occupation": only(*range(1, 10)),
    **flags(
        "married",
        "poorhlth",
        "rur",
        "nrtheast",
        "nrthcen",
        "south",
        "agric",
        "bus",
        "construc",
        "ent",
        "fin",
        "manuf",
        "min",
        "per",
        "pro",
        "pub",
        "tra",
        "trad",
    ),
}

OCCUPATION = {
    "occupation": lambda frame: (
        1 + np.argmax(frame[[f"occ{code}" for code in range(1, 10)]].to_numpy(), axis=1)
    )
}

TASKS = (
    Definition(
        name="wives-in-work",
        asks="Is a married woman in the labour force?",
        source="current-population-survey",
        table="wooldridge/cps91",
        target=Is("inlf", (1,)),
        groups=(
            Values("kidlt6", {0: "no small child", 1: "small child"}),
            Bands("educ", (12, 13, 16)),
        ),
        columns={
            "age": Number(18, 60),
            "husage": Number(18, 90),
            "huseduc": Number(0, 18),
            "husearns": Number(0, 2000),
            "hushrs": Number(0, 99),
            "husunion": Boolean(missing=True),
            "kidge6": Boolean(),
            **flags("black", "hispanic", "husblck", "hushisp"),
        },
        dropped="earns, hours, wages, union are of those in work; nwifeinc, faminc hold earnings",
    ),
    Definition(
        name="part-time-men",
        asks="Does a man of the 1988 survey work part time?",
        source="current-population-survey",
        table="AER/CPS1988",
        target=Is("parttime", ("yes",)),
        groups=(Values("ethnicity", ("cauc", "afam")), Values("smsa", ("yes", "no"))),
        columns={
            "education": Number(0, 18),
            "experience": Number(-5, 65),
            "region": only("northeast", "midwest", "south", "west"),
            "wage": Number(50, 3000, log=True),
        },
        dropped="rownames",
    ),
    Definition(
        name="young-graduates",
        asks="Does a worker of 25 to 34 have a bachelor's degree, 1992 and 2004?",
        source="current-population-survey",
        table="AER/CPSSW9204",
        target=Is("degree", ("bachelor",)),
        groups=(Values("gender", ("male", "female")), Values("year", (1992, 2004))),
        columns={
            "earnings": Number(1, 70, log=True),
            "age": Number(25, 34),
            "age_group": Category((25, 26, 27, 28, 29, 30, 31, 32, 33, 34), other=False),
        },
        derived={"age_group": lambda frame: frame["age"]},
        dropped="rownames",
    ),
    Definition(
        name="earnings-of-the-young",
        asks="What does a worker of 25 to 34 earn an hour?",
        source="current-population-survey",
        table="AER/CPSSW9298",
        target=Amount("earnings", 1, 60),
        groups=(Values("gender", ("male", "female")), Values("degree", ("highschool", "bachelor"))),
        columns={
            "age": Number(25, 34),
            "year": only(1992, 1998),
            "degree": only("highschool", "bachelor"),
        },
        dropped="rownames",
    ),
    Definition(
        name="nls-union-women",
        asks="Is a young woman a union member?",
        source="national-longitudinal-surveys",
        table="sampleSelection/nlswork",
        target=Is("union", (1,)),
        groups=(NLS_RACE,),
        columns=NLS_COLUMNS,
        rows=complete("age", "msp", "grade", "south", "tenure", "hours"),
        dropped="idcode; wages follow from membership; wks_ue, wks_work are often missing",
    ),
    Definition(
        name="nls-college-women",
        asks="Did a young woman finish college?",
        source="national-longitudinal-surveys",
        table="sampleSelection/nlswork",
        target=Is("collgrad", (1,)),
        groups=(NLS_RACE, Values("south", {0: "elsewhere", 1: "south"})),
        columns={
            name: kind
            for name, kind in NLS_COLUMNS.items()
            if name not in {"grade", "south", "occ_code"}
        },
        rows=complete("age", "msp", "grade", "south", "tenure", "hours"),
        dropped="grade is the target; occupations follow; idcode; wages",
    ),
    Definition(
        name="nls-wages-by-occupation",
        asks="What does a young woman earn an hour (log)?",
        source="national-longitudinal-surveys",
        table="sampleSelection/nlswork",
        target=Amount("ln_wage", 0, 4),
        groups=(Values("occ_code", tuple(range(1, 14))),),
        columns={
            **{name: kind for name, kind in NLS_COLUMNS.items() if name != "occ_code"},
            "union": Boolean(missing=True),
        },
        rows=complete("age", "msp", "grade", "south", "tenure", "hours"),
        dropped="idcode",
        merged={"9": "farm", "10": "farm", "12": "household", "11": "household"},
    ),
    Definition(
        name="nls-men-wages",
        asks="What does a young man earn an hour, 1976?",
        source="national-longitudinal-surveys",
        table="wooldridge/card",
        target=Amount("wage", 100, 2500, log=True),
        groups=(
            Values("black", {0: "not black", 1: "black"}),
            Values("south", {0: "elsewhere", 1: "south"}),
        ),
        columns={
            "educ": Number(0, 18),
            "age": Number(24, 34),
            "motheduc": Number(0, 18, missing=True),
            "fatheduc": Number(0, 18, missing=True),
            "KWW": Number(0, 56, missing=True),
            "IQ": Number(50, 150, missing=True),
            "married": Category((1, 2, 3, 4, 5, 6), other=False, missing=True),
            **flags(
                "nearc2", "nearc4", "momdad14", "sinmom14", "step14", "smsa", "smsa66", "enroll"
            ),
        },
        dropped="id, survey weight; exper and expersq repeat age and educ; regions of 1966",
    ),
    Definition(
        name="young-men-union",
        asks="Does a union set a young man's wage?",
        source="national-longitudinal-surveys",
        table="wooldridge/wagepan",
        target=Is("union", (1,)),
        groups=(
            Values(
                "occupation",
                {
                    1: "manager",
                    2: "manager",
                    3: "sales",
                    4: "clerical",
                    5: "crafts",
                    6: "operative",
                    7: "labourer",
                    8: "farm",
                    9: "service",
                },
            ),
        ),
        columns={name: kind for name, kind in WAGEPAN.items() if name != "occupation"},
        derived=OCCUPATION,
        merged={"farm": "labourer"},
        dropped="nr; squares and year indicators repeat columns; the wage follows",
    ),
    Definition(
        name="young-men-wages",
        asks="What does a young man earn an hour (log)?",
        source="national-longitudinal-surveys",
        table="wooldridge/wagepan",
        target=Amount("lwage", 0, 4),
        groups=(Values("year", tuple(range(1980, 1988))),),
        columns={
            **{name: kind for name, kind in WAGEPAN.items() if name != "year"},
            **flags("union", "black", "hisp"),
        },
        derived=OCCUPATION,
        dropped="nr; squares and year indicators repeat columns",
    ),
    Definition(
        name="psid-union",
        asks="Does a union set a worker's wage?",
        source="panel-study-of-income-dynamics",
        table="AER/PSID7682",
        target=Is("union", ("yes",)),
        groups=(Values("occupation", ("white", "blue")), Values("ethnicity", ("other", "afam"))),
        columns={**PSID_COLUMNS, **yes_no("gender", yes="female", no="male")},
        dropped="id; the wage follows from membership",
    ),
    Definition(
        name="psid-wages",
        asks="What does a head of household earn?",
        source="panel-study-of-income-dynamics",
        table="AER/PSID7682",
        target=Amount("wage", 100, 5000, log=True),
        groups=(Values("gender", ("male", "female")), Values("occupation", ("white", "blue"))),
        columns={**PSID_COLUMNS, **yes_no("union"), **yes_no("ethnicity", yes="afam", no="other")},
        dropped="id",
    ),
    Definition(
        name="canadian-wages",
        asks="What does a worker in Ontario earn an hour?",
        source="survey-of-labour-and-income-dynamics",
        table="carData/SLID",
        target=Amount("wages", 2, 50),
        groups=(
            Values("sex", ("Female", "Male")),
            Values("language", ("English", "French", "Other")),
        ),
        columns={
            "education": Number(0, 20, missing=True),
            "age": Number(16, 95),
            "young": Number(0, 24),
        },
        derived={"young": lambda frame: (40 - frame["age"]).clip(0, 24)},
        rows=lambda frame: frame["wages"].notna(),
        dropped="rownames",
    ),
    Definition(
        name="canadian-earners",
        asks="Does an adult in Ontario earn wages?",
        source="survey-of-labour-and-income-dynamics",
        table="carData/SLID",
        target=Is("earner", (True,)),
        groups=(Values("sex", ("Female", "Male")), Bands("age", (25, 35, 45, 55, 65))),
        columns={
            "education": Number(0, 20, missing=True),
            "age": Number(16, 95),
            "language": only("English", "French", "Other", missing=True),
        },
        derived={"earner": lambda frame: frame["wages"].notna()},
        dropped="wages is the target",
    ),
    Definition(
        name="census-weekly-income",
        asks="What does a worker of the 2000 census earn a week (log)?",
        source="census-2000",
        table="wooldridge/census2000",
        target=Amount("lweekinc", 3, 10),
        groups=(Values("educ", (9, 10, 11, 12, 13, 14, 16)),),
        columns={"exper": Number(3, 49), "state": Category(STATE_NAMES)},
        dropped="puma is a code within states; expersq",
    ),
)
