"""Disease and survival."""

from __future__ import annotations

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
)

MONICA = {
    "age": Number(35, 70),
    "yronset": Ordered((85, 86, 87, 88, 89, 90, 91, 92, 93)),
    "smstat": only("c", "x", "n", "nk"),
    **{
        name: only("y", "n", "nk")
        for name in ("premi", "diabetes", "highbp", "hichol", "angina", "stroke")
    },
}

HEAD = (
    "age.65",
    "amnesia.before",
    "basal.skull.fracture",
    "GCS.decrease",
    "GCS.13",
    "GCS.15.2hours",
    "loss.of.consciousness",
    "open.skull.fracture",
    "vomiting",
)

FLCHAIN = {
    "sample.yr": Number(1995, 2003),
    "kappa": Number(0, 20, log=True),
    "lambda": Number(0, 25, log=True),
    "creatinine": Number(0.3, 10, log=True, missing=True),
    "mgus": Boolean(),
    "sex": Boolean("F", "M"),
    "age": Number(50, 100),
}

ROTTERDAM = {
    "year": Number(1978, 1993),
    "age": Number(20, 90),
    "meno": Boolean(),
    "grade": only(2, 3),
    "nodes": Number(0, 35, log=True),
    "pgr": Number(0, 5000, log=True),
    "er": Number(0, 3500, log=True),
    **flags("hormon", "chemo"),
    "size": Ordered(("<=20", "20-50", ">50")),
}

YRBS = {
    "age": Ordered((12, 13, 14, 15, 16, 17, 18)),
    "height": Number(1.2, 2.2, missing=True),
    "weight": Number(25, 180, missing=True),
    "physically_active_7d": Number(0, 7, missing=True),
    "strength_training_7d": Number(0, 7, missing=True),
    "hours_tv_per_school_day": Ordered(
        ("do not watch", "<1", "1", "2", "3", "4", "5+"), missing=True
    ),
    "school_night_hours_sleep": Ordered(("<5", "5", "6", "7", "8", "9", "10+"), missing=True),
    "helmet_12m": only(
        "did not ride", "never", "rarely", "sometimes", "most of time", "always", missing=True
    ),
}

YRBS_RACES = Values(
    "race",
    {
        "White": "White",
        "Black or African American": "Black",
        "Asian": "Asian",
        "American Indian or Alaska Native": "American Indian",
        "Native Hawaiian or Other Pacific Islander": "Pacific Islander",
    },
)

GENDERS = Values("gender", ("female", "male"))

TASKS = (
    Definition(
        name="heart-attack-deaths",
        asks="Does a person die within 28 days of a coronary event?",
        source="monica-newcastle",
        table="DAAG/monica",
        target=Is("outcome", ("dead",)),
        groups=(Values("sex", {"f": "woman", "m": "man"}), Bands("age", (45, 55, 65))),
        columns=MONICA,
        dropped="whether the person reached hospital follows from the event",
    ),
    Definition(
        name="heart-attack-hospital",
        asks="Does a person with a coronary event reach hospital?",
        source="monica-newcastle",
        table="DAAG/monica",
        target=Is("hosp", ("y",)),
        groups=(Values("premi", ("y", "n", "nk")), Values("smstat", ("c", "x", "n", "nk"))),
        columns={
            **{name: kind for name, kind in MONICA.items() if name not in {"premi", "smstat"}},
            "sex": Boolean("f", "m"),
        },
        dropped="the outcome follows",
        merged={
            "y, nk": "y, unknown or never",
            "y, n": "y, unknown or never",
            "nk, c": "nk, smokes or smoked",
            "nk, x": "nk, smokes or smoked",
            "nk, n": "nk, unknown or never",
            "nk, nk": "nk, unknown or never",
            "n, nk": "n, unknown or never",
            "n, n": "n, unknown or never",
        },
    ),
    Definition(
        name="head-injury",
        asks="Is a minor head injury clinically important?",
        source="canadian-head-injury",
        table="DAAG/headInjury",
        target=Is("clinically.important.brain.injury", (1,)),
        groups=(
            Values("high.risk", {0: "low risk", 1: "high risk"}),
            Values("vomiting", {0: "-", 1: "vomiting"}),
        ),
        columns=flags(*(name for name in HEAD if name != "vomiting")),
        dropped="rownames",
    ),
    Definition(
        name="free-light-chain",
        asks="Does a person of 50 and more die within the study?",
        source="flchain",
        table="survival/flchain",
        target=Is("death", (1,)),
        groups=(Bands("age", (55, 60, 65, 70, 75, 80)),),
        columns=FLCHAIN,
        dropped="futime and chapter follow from death; flc.grp repeats kappa and lambda",
    ),
    Definition(
        name="fatty-liver-deaths",
        asks="Does a person of the liver study die within it?",
        source="nafld",
        table="survival/nafld1",
        target=Is("status", (1,)),
        groups=(Values("male", {0: "woman", 1: "man"}), Bands("age", (40, 50, 60, 70))),
        columns={
            "age": Number(18, 98),
            "weight": Number(30, 180, missing=True),
            "height": Number(120, 215, missing=True),
            "bmi": Number(10, 80, log=True, missing=True),
            "is_case": Boolean(),
        },
        derived={"is_case": lambda frame: frame["case.id"] == frame["id"]},
        dropped="futime follows from death; id",
    ),
    Definition(
        name="wilms-relapse",
        asks="Does a child's kidney tumour come back?",
        source="national-wilms-tumor-study",
        table="survival/nwtco",
        target=Is("rel", (1,)),
        groups=(Values("stage", (1, 2, 3, 4)), Values("histol", {1: "favourable", 2: "not"})),
        columns={
            "age": Number(0, 200, log=True),
            "study": only(3, 4),
            "instit": only(1, 2),
            "histol": only(1, 2),
        },
        dropped="edrel follows from relapse; in.subcohort is a design",
    ),
    Definition(
        name="breast-cancer-recurrence",
        asks="Does breast cancer come back?",
        source="rotterdam-tumour-bank",
        table="survival/rotterdam",
        target=Is("recur", (1,)),
        groups=(Bands("nodes", (1, 4, 10)),),
        columns=ROTTERDAM,
        dropped="times and death follow; pid",
    ),
    Definition(
        name="breast-cancer-deaths",
        asks="Does a person with breast cancer die within the study?",
        source="rotterdam-tumour-bank",
        table="survival/rotterdam",
        target=Is("death", (1,)),
        groups=(Values("size", ("<=20", "20-50", ">50")), Bands("age", (45, 65))),
        columns={name: kind for name, kind in ROTTERDAM.items() if name != "size"},
        dropped="times and recurrence follow; pid",
    ),
    Definition(
        name="prostate-cancer-deaths",
        asks="Does a person with prostate cancer die of it within the study?",
        source="seer-prostate",
        table="asaur/prostateSurvival",
        target=Is("status", (1,)),
        groups=(
            Values("grade", {"mode": "moderate", "poor": "poor"}),
            Values("stage", ("T1ab", "T1c", "T2")),
        ),
        columns={
            "ageGroup": Category(("66-69", "70-74", "75-79", "80+"), other=False),
            "stage": only("T1ab", "T1c", "T2"),
        },
        dropped="survTime follows",
    ),
    Definition(
        name="texting-drivers",
        asks="Did a pupil who drives text at the wheel within 30 days?",
        source="youth-risk-behavior-survey",
        table="openintro/yrbss",
        target=Is("texts", (1,)),
        groups=(YRBS_RACES, GENDERS),
        columns=YRBS,
        rows=lambda frame: (
            frame["text_while_driving_30d"].ne("did not drive") & frame["age"].notna()
        ),
        derived={
            "texts": lambda frame: (
                frame["text_while_driving_30d"]
                .ne("0")
                .where(frame["text_while_driving_30d"].notna())
                .astype(float)
            )
        },
        dropped="rownames",
    ),
    Definition(
        name="sleep-of-pupils",
        asks="Does a pupil sleep eight hours or more?",
        source="youth-risk-behavior-survey",
        table="openintro/yrbss",
        target=Is("school_night_hours_sleep", ("8", "9", "10+")),
        groups=(Values("grade", ("9", "10", "11", "12")), GENDERS),
        columns={
            **{name: kind for name, kind in YRBS.items() if name != "school_night_hours_sleep"},
            "race": only(*YRBS_RACES.labels, missing=True),
            "hispanic": Boolean("hispanic", "not", missing=True),
        },
        rows=complete("age"),
        dropped="rownames",
    ),
    Definition(
        name="weight-of-pupils",
        asks="What does a pupil weigh?",
        source="youth-risk-behavior-survey",
        table="openintro/yrbss",
        target=Amount("weight", 30, 180),
        groups=(YRBS_RACES, GENDERS),
        columns={name: kind for name, kind in YRBS.items() if name != "weight"},
        rows=complete("age"),
        dropped="rownames",
    ),
    Definition(
        name="rides-with-drinkers",
        asks="Did a pupil ride with a driver who had drunk?",
        source="youth-risk-behavior-survey",
        table="Stat2Data/YouthRisk",
        target=Is("ride.alc.driver", (1,)),
        groups=(
            Values("grade", {9: "9th", 10: "10th", 11: "11th", 12: "12th"}),
            Values("female", {0: "boy", 1: "girl"}),
        ),
        columns={
            "age4": Ordered((14, 15, 16, 17, 18), missing=True),
            **flags("smoke", "DriverLicense", missing=True),
        },
        dropped="rownames",
    ),
    Definition(
        name="pesticide-deaths",
        asks="Does a person die of a suicide attempt?",
        source="shandong-suicides",
        table="Stat2Data/SuicideChina",
        target=Is("Died", ("yes",)),
        groups=(Values("Sex", ("female", "male")), Bands("Age", (35, 60))),
        columns={
            "Age": Number(10, 100),
            "Year": only(2009, 2010, 2011),
            "Urban": Category(("no", "yes")),
            "Education": Category(("iliterate", "primary", "Secondary", "Tertiary", "unknown")),
            "Occupation": Category(("farming", "household")),
            "method": Category(("Pesticide", "Hanging")),
        },
        dropped="whether the person was in hospital follows from the outcome",
    ),
)
