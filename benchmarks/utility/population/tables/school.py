"""Schools and colleges."""

from __future__ import annotations

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number, Ordered
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

DISTANCE = {
    **yes_no("fcollege", "mcollege", "home", "urban"),
    "gender": Boolean("female", "male"),
    "unemp": Number(1, 25),
    "wage": Number(6, 14),
    "distance": Number(0, 20),
    "tuition": Number(0.2, 1.5),
    "income": Boolean("high", "low"),
    "region": Boolean("west", "other"),
}
HSB_ETHNICITY = Values("ethnicity", ("other", "hispanic", "afam"))

CATHOLIC = {
    "motheduc": Number(8, 18),
    "fatheduc": Number(8, 18),
    "lfaminc": Number(6, 12.5),
    **flags("female", "cathhs", "parcath"),
}
NELS_RACE = {
    "race": lambda frame: (
        frame["black"].map({1: "black", 0: ""})
        + frame["hispan"].map({1: "hispanic", 0: ""})
        + frame["asian"].map({1: "asian", 0: ""})
    ).replace("", "other")
}
NELS_RACES = Values("race", ("black", "hispanic", "asian", "other"))

STUDENT = {
    "score": Number(19, 87),
    "late": Ordered((1, 2, 3, 4, 5)),
    "income": Number(1, 16),
    "pared": Boolean(),
    **flags("work", "attachment", "gender", "coed", "catholic"),
}

STAR = {
    "cltype": only("small", "reg", "reg+A"),
    "hdeg": Category(("BS/BA", "MS/MA/MEd", "MA+", "Ed.S", "Ed.D/Ph.D"), other=False, missing=True),
    "clad": Category(("1", "2", "3", "APPR", "PROB", "NOT", "PEND"), other=False, missing=True),
    "exp": Number(0, 42, missing=True),
    "trace": Category(("W", "B", "A"), other=False, missing=True),
    "ses": Boolean("F", "N", missing=True),
    "sx": Boolean("F", "M", missing=True),
    "eth": Category(("W", "B"), missing=True),
    "birthy": Number(1977, 1982, missing=True),
}
SCHOOL_TYPES = Values("schtype", ("rural", "suburb", "inner", "urban"))

TWO_YEAR = {
    "phsrank": Number(0, 99),
    "exper": Number(0, 170),
    "stotal": Number(-3.5, 2.5),
    **flags("smcity", "medcity", "submed", "lgcity", "sublg", "vlgcity", "subvlg", "ne", "nc"),
    "south": Boolean(),
}
TWO_YEAR_RACE = {
    "race": lambda frame: (
        frame["black"].map({1: "black", 0: ""}) + frame["hispanic"].map({1: "hispanic", 0: ""})
    ).replace("", "other")
}
TWO_YEAR_GROUPS = (
    Values("race", ("black", "hispanic", "other")),
    Values("female", {0: "man", 1: "woman"}),
)

EG = {
    "year": Number(-2.5, 2.5),
    "size": Number(100, 1500),
    "lowinc": Number(0, 100),
    "mobility": Number(0, 70),
    "female": Boolean("Female", "Male"),
}
EG_RACE = {
    "race": lambda frame: (
        frame["black"].map({1: "black", 0: ""}) + frame["hispanic"].map({1: "hispanic", 0: ""})
    ).replace("", "other")
}

GPA = {
    "sat": Number(400, 1600),
    "tothrs": Number(0, 140),
    "verbmath": Number(0.2, 2),
    "hsize": Number(0, 10),
    "hsperc": Number(0, 100),
    "female": Boolean(),
}

TASKS = (
    Definition(
        name="any-college",
        asks="Does a pupil go on after high school?",
        source="high-school-and-beyond",
        table="AER/CollegeDistance",
        target=Above("education", 12),
        groups=(HSB_ETHNICITY, Values("gender", ("female", "male"))),
        columns={
            **{name: kind for name, kind in DISTANCE.items() if name != "gender"},
            "score": Number(25, 75),
        },
        dropped="rownames",
    ),
    Definition(
        name="composite-score",
        asks="What does a pupil score in the base-year tests?",
        source="high-school-and-beyond",
        table="AER/CollegeDistance",
        target=Amount("score", 25, 75),
        groups=(HSB_ETHNICITY, Values("urban", {"yes": "urban", "no": "not urban"})),
        columns={name: kind for name, kind in DISTANCE.items() if name != "urban"},
        dropped="education comes after the test",
    ),
    Definition(
        name="maths-by-sector",
        asks="What does a pupil score in mathematics?",
        source="high-school-and-beyond",
        table="mlmRev/Hsb82",
        target=Amount("mAch", -3, 25),
        groups=(Values("sector", ("Public", "Catholic")), Values("minrty", ("No", "Yes"))),
        columns={
            "ses": Number(-4, 3),
            "meanses": Number(-1.5, 1),
            "sx": Boolean("Female", "Male"),
            "cses": Number(-4, 3),
        },
        dropped="school is an identifier",
    ),
    Definition(
        name="school-leavers",
        asks="Does a pupil finish high school?",
        source="national-education-longitudinal-study",
        table="wooldridge/catholic",
        target=Is("hsgrad", (1,)),
        groups=(NELS_RACES, Values("female", {0: "boy", 1: "girl"})),
        columns={
            **{name: kind for name, kind in CATHOLIC.items() if name != "female"},
            "read12": Number(25, 75),
            "math12": Number(25, 75),
        },
        derived=NELS_RACE,
        dropped="id",
    ),
    Definition(
        name="maths-at-18",
        asks="What does a pupil score in mathematics in the last year?",
        source="national-education-longitudinal-study",
        table="wooldridge/catholic",
        target=Amount("math12", 25, 75),
        groups=(NELS_RACES,),
        columns=CATHOLIC,
        derived=NELS_RACE,
        dropped="reading is of the same day; id",
    ),
    Definition(
        name="fights-at-school",
        asks="Has a pupil been in a fight?",
        source="education-longitudinal-study",
        table="mediation/student",
        target=Is("fight", (1,)),
        groups=(
            Values("gender", (0, 1)),
            Values(
                "smorale", {2: "low morale", 3: "fair morale", 4: "good morale", 5: "best morale"}
            ),
        ),
        columns={
            **{name: kind for name, kind in STUDENT.items() if name != "gender"},
            "free": Number(1, 7),
        },
        dropped="SCH_ID",
    ),
    Definition(
        name="attached-to-school",
        asks="Does a pupil like school?",
        source="education-longitudinal-study",
        table="mediation/student",
        target=Is("attachment", (1,)),
        groups=(Values("free", (1, 2, 3, 4, 5, 6, 7)),),
        columns={
            **{name: kind for name, kind in STUDENT.items() if name != "attachment"},
            "smorale": Ordered((2, 3, 4, 5)),
        },
        dropped="SCH_ID; fights are told in the same interview",
    ),
    Definition(
        name="pupils-who-work",
        asks="Does a pupil work for pay?",
        source="education-longitudinal-study",
        table="mediation/student",
        target=Is("work", (1,)),
        groups=(Bands("income", (7, 9, 10, 11, 12)), Values("pared", (0, 1))),
        columns={
            **{name: kind for name, kind in STUDENT.items() if name not in {"work", "pared"}},
            "free": Number(1, 7),
            "smorale": Ordered((2, 3, 4, 5)),
        },
        dropped="SCH_ID",
    ),
    Definition(
        name="reading-by-grade",
        asks="What does a child score in reading?",
        source="project-star",
        table="mlmRev/star",
        target=Amount("read", 315, 775),
        groups=(Values("gr", ("K", "1", "2", "3")), SCHOOL_TYPES),
        columns={**STAR, "gr": Ordered(("K", "1", "2", "3"))},
        dropped="mathematics is of the same test; identifiers",
    ),
    Definition(
        name="free-lunch",
        asks="Has a child a claim to free lunch?",
        source="project-star",
        table="mlmRev/star",
        target=Is("ses", ("F",)),
        groups=(SCHOOL_TYPES, Values("eth", ("W", "B"))),
        columns={
            **{name: kind for name, kind in STAR.items() if name not in {"ses", "eth"}},
            "gr": Ordered(("K", "1", "2", "3")),
            "read": Number(315, 775, missing=True),
            "math": Number(288, 774, missing=True),
        },
        merged={"rural, B": "rural or urban, B", "urban, B": "rural or urban, B"},
        dropped="identifiers",
    ),
    Definition(
        name="bachelor-degrees",
        asks="Does a high-school graduate get a bachelor's degree?",
        source="national-longitudinal-study-1972",
        table="wooldridge/twoyear",
        target=Is("BA", (1,)),
        groups=TWO_YEAR_GROUPS,
        columns={name: kind for name, kind in TWO_YEAR.items() if name != "exper"},
        derived=TWO_YEAR_RACE,
        dropped="years of college, experience and wage follow; id",
    ),
    Definition(
        name="wages-after-college",
        asks="What does a high-school graduate earn an hour (log)?",
        source="national-longitudinal-study-1972",
        table="wooldridge/twoyear",
        target=Amount("lwage", 0.5, 4),
        groups=TWO_YEAR_GROUPS,
        columns={**TWO_YEAR, "jc": Number(0, 4), "univ": Number(0, 7.5), **flags("BA", "AA")},
        derived=TWO_YEAR_RACE,
        dropped="totcoll repeats jc and univ; id",
    ),
    Definition(
        name="chemistry-a-level",
        asks="Does a pupil get an A or a B in chemistry?",
        source="chem97",
        table="mlmRev/Chem97",
        target=Above("score", 7),
        groups=(Values("gender", ("F", "M")), Bands("gcsescore", (5, 6, 7))),
        columns={
            "age": Number(-6, 5),
            "gcsescore": Number(0, 8),
            "above": Number(0, 2),
            "below": Number(0, 4),
        },
        derived={
            "above": lambda frame: (frame["gcsescore"] - 6).clip(0, 2),
            "below": lambda frame: (4 - frame["gcsescore"]).clip(0, 4),
        },
        dropped="school and authority are identifiers; gcsecnt is gcsescore centred",
    ),
    Definition(
        name="chemistry-points",
        asks="How many points does a pupil get in chemistry, by month of birth?",
        source="chem97",
        table="mlmRev/Chem97",
        target=Amount("score", 0, 10),
        groups=(Values("age", tuple(range(-6, 6))),),
        columns={
            "gcsescore": Number(0, 8),
            "square": Number(0, 64),
            "gender": Boolean("F", "M"),
            "above": Number(0, 2),
        },
        derived={
            "square": lambda frame: frame["gcsescore"] ** 2,
            "above": lambda frame: (frame["gcsescore"] - 6).clip(0, 2),
        },
        dropped="school and authority are identifiers; gcsecnt is gcsescore centred",
    ),
    Definition(
        name="inner-london-exam",
        asks="What does a pupil score at 16 (normal score)?",
        source="inner-london-exam",
        table="mlmRev/Exam",
        target=Amount("normexam", -3.7, 3.7),
        groups=(Values("schgend", ("mixed", "girls", "boys")), Values("sex", ("F", "M"))),
        columns={
            "standLRT": Number(-3, 3),
            "schavg": Number(-1, 1),
            "vr": Ordered(("bottom 25%", "mid 50%", "top 25%")),
            "intake": Ordered(("bottom 25%", "mid 50%", "top 25%")),
        },
        merged={"girls, F": "girls", "girls, M": "girls", "boys, F": "boys", "boys, M": "boys"},
        dropped="school and student are identifiers; type repeats schgend",
    ),
    Definition(
        name="fife-attainment",
        asks="What does a pupil in Fife attain at 16?",
        source="fife-schools",
        table="mlmRev/ScotsSec",
        target=Amount("attain", 1, 10),
        groups=(Values("social", (0, 1, 20, 31)), Values("sex", ("F", "M"))),
        columns={"verbal": Number(-30, 40), "second": only(*range(1, 20))},
        dropped="primary has 148 levels",
    ),
    Definition(
        name="children-kept-back",
        asks="Has a child been kept back?",
        source="egsingle",
        table="mlmRev/egsingle",
        target=Is("retained", (1,)),
        groups=(
            Values("grade", {0: "K", 1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 5: "4th"}),
            Values("race", ("black", "hispanic", "other")),
        ),
        columns={**EG, "math": Number(-6, 6)},
        derived=EG_RACE,
        dropped="identifiers",
    ),
    Definition(
        name="maths-growth",
        asks="What does a child score in mathematics?",
        source="egsingle",
        table="mlmRev/egsingle",
        target=Amount("math", -6, 6),
        groups=(Values("race", ("black", "hispanic", "other")), Bands("lowinc", (50, 90))),
        columns={**EG, "grade": Number(0, 5), "retained": Boolean()},
        derived=EG_RACE,
        dropped="identifiers",
    ),
    Definition(
        name="good-college-grades",
        asks="Has a student a grade average of 3 or more?",
        source="college-gpa",
        table="wooldridge/gpa2",
        target=Above("colgpa", 3),
        groups=(
            Values("race", ("black", "white", "other")),
            Values("female", {0: "man", 1: "woman"}),
        ),
        columns={**{n: k for n, k in GPA.items() if n != "female"}, "athlete": Boolean()},
        derived={
            "race": lambda frame: (
                frame["black"].map({1: "black", 0: ""}) + frame["white"].map({1: "white", 0: ""})
            ).replace("", "other")
        },
        dropped="hsrank repeats hsperc and hsize; square",
    ),
    Definition(
        name="college-grades",
        asks="What is a student's grade average?",
        source="college-gpa",
        table="wooldridge/gpa2",
        target=Amount("colgpa", 0, 4),
        groups=(
            Values("athlete", {0: "no athlete", 1: "athlete"}),
            Values("female", {0: "man", 1: "woman"}),
        ),
        columns={**{n: k for n, k in GPA.items() if n != "female"}, **flags("black", "white")},
        dropped="hsrank repeats hsperc and hsize; square",
    ),
    Definition(
        name="michigan-fourth-grade",
        asks="Which share of a school's pupils passes fourth-grade mathematics?",
        source="michigan-schools",
        table="wooldridge/school93_98",
        target=Amount("math4", 0, 100),
        groups=(Values("year", tuple(range(1993, 1999))), Bands("lunch", (20, 60))),
        columns={
            "lunch": Number(0, 100),
            "enrol": Number(0, 1400, missing=True),
            "rexpp": Number(0, 15_000, missing=True),
            "found": Number(4000, 11_000, missing=True),
        },
        dropped="identifiers; logarithms and averages",
    ),
    Definition(
        name="michigan-passing-schools",
        asks="Do half of a school's pupils pass fourth-grade mathematics?",
        source="michigan-schools",
        table="wooldridge/school93_98",
        target=Above("math4", 50),
        groups=(Bands("enrol", (200, 400, 600)), Bands("lunch", (20, 40, 60, 80))),
        columns={
            "lunch": Number(0, 100),
            "enrol": Number(0, 1400, missing=True),
            "exppp": Number(0, 14_000, missing=True),
            "year": only(*range(1993, 1999)),
        },
        dropped="identifiers; logarithms and averages",
    ),
)
