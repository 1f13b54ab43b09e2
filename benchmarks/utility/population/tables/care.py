"""Care, insurance and tests."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number, Ordered
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
    yes_no,
)

ALCOHOL = {
    "unemrate": Number(2, 12),
    "age": Number(25, 60),
    "educ": Number(0, 19),
    "famsize": Number(1, 10),
    **flags("married", "white", "northeast", "midwest", "south", "centcity", "outercity"),
    **flags("qrt1", "qrt2", "qrt3", "mothalc", "fathalc", "livealc"),
    "beertax": Number(0, 2.5),
    "cigtax": Number(0, 40),
    "ethanol": Number(1, 5),
}

HEALTH_LEVEL = {
    "health": lambda frame: np.select(
        [frame[name] == 1 for name in ("exhealth", "vghealth", "goodhealth", "fairhealth")],
        ["excellent", "very good", "good", "fair"],
        "poor",
    )
}

DOCTOR = {
    "age": Number(0.15, 0.75),
    "income": Number(0, 1.5),
    "illness": Number(0, 5),
    "reduced": Number(0, 14),
    "health": Number(0, 12),
    **yes_no("private", "freepoor", "freerepat", "nchronic", "lchronic"),
}

NMES = {
    "health": only("poor", "average", "excellent"),
    "chronic": Number(0, 8),
    "age": Number(6.5, 11),
    "school": Number(0, 18),
    "income": Number(0, 40, log=True),
    "adl": Boolean("limited", "normal"),
    "gender": Boolean("female", "male"),
    **yes_no("afam", "married", "employed", "insurance", "medicaid"),
    "region": only("other", "midwest", "northeast", "west"),
}

RAND = {
    "coins": only(0, 25, 50, 95, 100),
    "year": Ordered((1, 2, 3, 4, 5)),
    "black": Number(0, 1),
    "income": Number(0, 30_000, log=True),
    "xage": Number(0, 65),
    "educdec": Number(0, 25),
    "time": Number(0, 1),
    "num": Number(1, 14),
    "mhi": Number(0, 100),
    "disea": Number(0, 60),
    "physlm": Number(0, 1),
    "mdeoff": Number(0, 1000),
    "pioff": Number(0, 1300),
    **flags("tookphys", "female", "child", "fchild", "idp", "hlthg", "hlthf", "hlthp"),
}

RAND_SITES = Values("site", (1, 2, 3, 4, 5, 6))

RAND_DROPPED = (
    "plan repeats coins and mdeoff; zper; visits, admissions and dollars of the same year; "
    "logarithms and linear combinations; ghindx is often missing"
)

INJURY = {
    "age": Number(12, 90, missing=True),
    "prewage": Number(80, 1600, log=True),
    "injtype": only(*range(1, 9)),
    **flags("afchnge", "highearn", "ky"),
    **flags("male", "married"),
}

COVID = {
    "pan_day": Number(1, 110),
    "age": Number(0, 100),
    "gender": Boolean("female", "male"),
    **flags("drive_thru_ind", "orderset"),
    "payor_group": Category(
        ("commercial", "government", "unassigned", "self pay", "medical assistance"), missing=True
    ),
    "patient_class": Category(
        (
            "inpatient",
            "emergency",
            "not applicable",
            "outpatient",
            "recurring outpatient",
            "observation",
        ),
        missing=True,
    ),
}

TASKS = (
    Definition(
        name="smokers-by-education",
        asks="Does an indoor worker smoke?",
        source="national-health-interview-survey",
        table="AER/SmokeBan",
        target=Is("smoker", ("yes",)),
        groups=(
            Values("education", ("hs drop out", "hs", "some college", "college", "master")),
            Values("gender", ("female", "male")),
        ),
        columns={**yes_no("ban", "afam", "hispanic"), "age": Number(18, 90)},
        dropped="rownames",
    ),
    Definition(
        name="smoking-bans",
        asks="Does an indoor worker's employer ban smoking?",
        source="national-health-interview-survey",
        table="AER/SmokeBan",
        target=Is("ban", ("yes",)),
        groups=(
            Values("afam", {"yes": "black", "no": "not black"}),
            Values("hispanic", {"yes": "hispanic", "no": "not hispanic"}),
        ),
        columns={
            "age": Number(18, 90),
            "education": only("hs drop out", "hs", "some college", "college", "master"),
            "gender": Boolean("female", "male"),
        },
        merged={"black, hispanic": "black", "black, not hispanic": "black"},
        dropped="smoking may follow from the ban",
    ),
    Definition(
        name="alcohol-and-work",
        asks="Is a man employed?",
        source="national-health-interview-survey",
        table="wooldridge/alcohol",
        target=Is("employ", (1,)),
        groups=(Values("health", ("excellent", "very good", "good", "fair", "poor")),),
        columns={**ALCOHOL, "abuse": Boolean()},
        derived=HEALTH_LEVEL,
        dropped="status and inwf hold the target; squares",
    ),
    Definition(
        name="alcohol-abuse",
        asks="Does a man abuse alcohol?",
        source="national-health-interview-survey",
        table="wooldridge/alcohol",
        target=Is("abuse", (1,)),
        groups=(Bands("age", (30, 35, 40, 50)), Values("married", {0: "single", 1: "married"})),
        columns={
            **{name: kind for name, kind in ALCOHOL.items() if name != "married"},
            "health": only("excellent", "very good", "good", "fair", "poor"),
        },
        derived=HEALTH_LEVEL,
        dropped="employment may follow; squares",
    ),
    Definition(
        name="doctor-visits",
        asks="Did an Australian see a doctor in the last two weeks?",
        source="australian-health-survey",
        table="AER/DoctorVisits",
        target=Above("visits", 0),
        groups=(Values("gender", ("female", "male")), Bands("age", (0.25, 0.35, 0.6))),
        columns=DOCTOR,
        dropped="rownames",
    ),
    Definition(
        name="private-insurance",
        asks="Does an Australian have private health insurance?",
        source="australian-health-survey",
        table="AER/DoctorVisits",
        target=Is("private", ("yes",)),
        groups=(Bands("income", (0.3, 0.6, 1.0)),),
        columns={
            **{n: k for n, k in DOCTOR.items() if n not in {"private", "freepoor", "freerepat"}},
            "gender": Boolean("female", "male"),
        },
        dropped="free cover excludes private insurance",
    ),
    Definition(
        name="emergency-visits",
        asks="Did an elderly person go to an emergency room?",
        source="national-medical-expenditure-survey",
        table="AER/NMES1988",
        target=Above("emergency", 0),
        groups=(
            Values("region", ("other", "midwest", "northeast", "west")),
            Values("adl", ("normal", "limited")),
        ),
        columns={name: kind for name, kind in NMES.items() if name not in {"region", "adl"}},
        dropped="visits and hospital stays of the same year",
    ),
    Definition(
        name="supplementary-insurance",
        asks="Does an elderly person have private insurance?",
        source="national-medical-expenditure-survey",
        table="AER/NMES1988",
        target=Is("insurance", ("yes",)),
        groups=(Values("afam", {"no": "not black", "yes": "black"}), Bands("school", (8, 12))),
        columns={n: k for n, k in NMES.items() if n not in {"afam", "insurance", "medicaid"}},
        dropped="medicaid stands in the place of insurance; visits follow",
    ),
    Definition(
        name="visits-of-the-elderly",
        asks="How often does an elderly person see a physician in an office?",
        source="national-medical-expenditure-survey",
        table="AER/NMES1988",
        target=Amount("visits", 0, 40),
        groups=(
            Values("health", ("poor", "average", "excellent")),
            Values("insurance", {"yes": "insured", "no": "not insured"}),
        ),
        columns={name: kind for name, kind in NMES.items() if name not in {"health", "insurance"}},
        dropped="other visits and hospital stays of the same year",
    ),
    Definition(
        name="any-physician-visit",
        asks="Does a person see a physician within a year?",
        source="rand-health-insurance-experiment",
        table="sampleSelection/RandHIE",
        target=Above("mdvis", 0),
        groups=(RAND_SITES,),
        columns=RAND,
        rows=complete("educdec", "mdeoff", "pioff"),
        dropped=RAND_DROPPED,
    ),
    Definition(
        name="hospital-by-coinsurance",
        asks="Is a person admitted to hospital within a year?",
        source="rand-health-insurance-experiment",
        table="sampleSelection/RandHIE",
        target=Above("totadm", 0),
        groups=(Values("coins", (0, 25, 50, 95, 100)), Bands("xage", (18,))),
        columns={
            **{name: kind for name, kind in RAND.items() if name != "coins"},
            "site": only(1, 2, 3, 4, 5, 6),
        },
        rows=complete("educdec", "mdeoff", "pioff"),
        dropped=RAND_DROPPED,
    ),
    Definition(
        name="medical-spending",
        asks="What does care cost a year, where it costs something (log)?",
        source="rand-health-insurance-experiment",
        table="sampleSelection/RandHIE",
        target=Amount("lnmeddol", -1, 10.6),
        groups=(RAND_SITES, Bands("xage", (18,))),
        columns=RAND,
        rows=complete("educdec", "mdeoff", "pioff"),
        dropped=RAND_DROPPED,
    ),
    Definition(
        name="covid-tests",
        asks="Is a test positive?",
        source="covid-testing",
        table="medicaldata/covid_testing",
        target=Is("result", ("positive",)),
        groups=(
            Values(
                "demo_group",
                {
                    "patient": "patient",
                    "misc adult": "other",
                    "client": "client",
                    "other adult": "other",
                },
            ),
            Bands("age", (18, 40)),
        ),
        columns={name: kind for name, kind in COVID.items() if name != "patient_class"},
        rows=lambda frame: frame["result"].ne("invalid"),
        merged={
            "client, age under 18": "client",
            "client, age 18 to 40": "client",
            "client, age 40 and more": "client",
            "other, age under 18": "other, age under 40",
            "other, age 18 to 40": "other, age under 40",
        },
        dropped="ct_result is the test; names; turn-around times; the clinic tells the person",
    ),
    Definition(
        name="slow-laboratory",
        asks="Does a test take more than six hours in the laboratory?",
        source="covid-testing",
        table="medicaldata/covid_testing",
        target=Above("rec_ver_tat", 6),
        groups=(
            Values(
                "patient_class",
                (
                    "inpatient",
                    "emergency",
                    "not applicable",
                    "outpatient",
                    "recurring outpatient",
                    "observation",
                ),
            ),
            Bands("pan_day", (40, 70)),
        ),
        columns={name: kind for name, kind in COVID.items() if name != "patient_class"},
        dropped="names; times and results",
    ),
    Definition(
        name="long-hospital-stays",
        asks="Does a heart patient stay more than a week?",
        source="arizona-medicare",
        table="COUNT/azpro",
        target=Above("los", 7),
        groups=(
            Values("procedure", {0: "angioplasty", 1: "bypass"}),
            Values("admit", {0: "elective", 1: "emergency"}),
            Values("sex", {0: "woman", 1: "man"}),
        ),
        columns={
            "age75": Boolean(),
            "hospital": Number(0, 10),
            **flags("procedure", "admit"),
        },
        dropped="rownames",
    ),
    Definition(
        name="injured-in-hospital",
        asks="Is an injured worker taken to hospital?",
        source="workers-compensation",
        table="wooldridge/injury",
        target=Is("hosp", (1,)),
        groups=(
            Values("indust", {1: "manufacturing", 2: "construction", 3: "other"}),
            Bands("prewage", (200, 400)),
        ),
        columns=INJURY,
        rows=complete("male", "married"),
        dropped="duration, costs and benefits follow; indicators of the type; logarithms",
    ),
    Definition(
        name="time-off-work",
        asks="How many weeks is an injured worker paid (log)?",
        source="workers-compensation",
        table="wooldridge/injury",
        target=Amount("durat", 0.25, 182, log=True),
        groups=(Values("injtype", tuple(range(1, 9))),),
        columns={
            **{name: kind for name, kind in INJURY.items() if name != "injtype"},
            "hosp": Boolean(),
            "indust": only(1, 2, 3, missing=True),
        },
        rows=complete("male", "married"),
        dropped="costs and benefits follow; logarithms",
    ),
)
