"""Programs, developers, letters and applications."""

from __future__ import annotations

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number
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

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

PACKAGE = {
    "authors": Number(1, 50, log=True),
    **{
        name: Number(0, most, log=True)
        for name, most in (
            ("imports", 25),
            ("suggests", 30),
            ("depends", 6),
            ("descr", 1500),
            ("r_count", 200),
            ("r_size", 1),
            ("ns_import", 100),
            ("ns_export", 500),
            ("s3_methods", 100),
            ("s4_methods", 50),
            ("doc_count", 10),
            ("doc_size", 0.2),
            ("data_count", 50),
            ("data_size", 5),
            ("testthat_count", 50),
            ("testthat_size", 1),
        )
    },
    "Roxygen": Boolean(),
}

COMPILED = {"compiled": lambda frame: frame["src_count"] > 0}

HOSTS = (
    Values("gh", {0: "elsewhere", 1: "github"}),
    Values("compiled", {False: "R only", True: "compiled"}),
)

HPC = {
    "compounds": Number(20, 15_000, log=True),
    "input_fields": Number(10, 60_000, log=True),
    "iterations": Number(10, 200, log=True),
    "num_pending": Number(0, 6000, log=True),
    "hour": Number(0, 24),
    "day": only(*DAYS),
}

DEVELOPER = {
    "YearsCodedJob": Number(0, 20),
    "CompanySizeNumber": Number(1, 10_000, log=True),
    "CareerSatisfaction": Number(0, 10),
    **flags(
        "OpenSource",
        "Hobby",
        "Data_scientist",
        "Database_administrator",
        "Desktop_applications_developer",
        "Developer_with_stats_math_background",
        "DevOps",
        "Embedded_developer",
        "Graphic_designer",
        "Graphics_programming",
        "Machine_learning_specialist",
        "Mobile_developer",
        "Quality_assurance_engineer",
        "Systems_administrator",
        "Web_developer",
    ),
}

COUNTRIES = Values("Country", ("United States", "United Kingdom", "Germany", "India", "Canada"))

TASKS = (
    Definition(
        name="slow-package-checks",
        asks="Does the check of an R package take more than 100 seconds?",
        source="cran-checks",
        table="modeldata/check_times",
        target=Above("check_time", 100),
        groups=HOSTS,
        columns={name: kind for name, kind in PACKAGE.items() if name not in {"gh"}},
        derived=COMPILED,
        dropped="names; the status comes with the time; src sizes make a group",
    ),
    Definition(
        name="package-check-times",
        asks="How long does the check of an R package take (log)?",
        source="cran-checks",
        table="modeldata/check_times",
        target=Amount("check_time", 5, 1400, log=True),
        groups=(*HOSTS, Values("rforge", {0: "-", 1: "r-forge"})),
        columns={
            **PACKAGE,
            "src_count": Number(0, 300, log=True),
            "src_size": Number(0, 50, log=True),
        },
        derived=COMPILED,
        merged={
            "elsewhere, R only, r-forge": "r-forge",
            "elsewhere, compiled, r-forge": "r-forge",
            "github, R only, r-forge": "r-forge",
            "github, compiled, r-forge": "r-forge",
        },
        dropped="names; the status comes with the time",
    ),
    Definition(
        name="slow-jobs",
        asks="Does a job on the cluster take long?",
        source="hpc-jobs",
        table="modeldata/hpc_data",
        target=Is("class", ("M", "L")),
        groups=(Values("protocol", tuple("ACDEFGHIJLMNO")),),
        columns=HPC,
        dropped="rownames",
    ),
    Definition(
        name="remote-developers",
        asks="Does a developer work from afar?",
        source="stack-overflow-survey",
        table="modeldata/stackoverflow",
        target=Is("Remote", ("Remote",)),
        groups=(COUNTRIES,),
        columns={**DEVELOPER, "Salary": Number(1000, 200_000, log=True)},
        dropped="rownames",
    ),
    Definition(
        name="satisfied-developers",
        asks="Is a developer satisfied with the career (8 and more of 10)?",
        source="stack-overflow-survey",
        table="modeldata/stackoverflow",
        target=Above("CareerSatisfaction", 7),
        groups=(COUNTRIES, Bands("YearsCodedJob", (3, 8))),
        columns={
            **{name: kind for name, kind in DEVELOPER.items() if name != "CareerSatisfaction"},
            "Salary": Number(1000, 200_000, log=True),
            "Remote": Boolean("Remote", "Not remote"),
        },
        dropped="rownames",
    ),
    Definition(
        name="developer-salaries",
        asks="What does a developer earn a year?",
        source="stack-overflow-survey",
        table="modeldata/stackoverflow",
        target=Amount("Salary", 0, 200_000),
        groups=(COUNTRIES, Values("Remote", ("Remote", "Not remote"))),
        columns={**DEVELOPER, "Country": only(*COUNTRIES.labels)},
        dropped="rownames",
    ),
    Definition(
        name="callbacks",
        asks="Does an employer call an applicant back?",
        source="resume-experiment",
        table="openintro/resume",
        target=Is("received_callback", (1,)),
        groups=(
            Values("race", ("black", "white")),
            Values("gender", {"f": "woman", "m": "man"}),
            Values("job_city", ("Boston", "Chicago")),
        ),
        columns={
            "years_college": Number(0, 4),
            "years_experience": Number(0, 30),
            "job_industry": Category(
                (
                    "business_and_personal_service",
                    "wholesale_and_retail_trade",
                    "finance_insurance_real_estate",
                    "manufacturing",
                    "transportation_communication",
                )
            ),
            "job_type": only(
                "secretary", "retail_sales", "manager", "sales_rep", "clerical", "supervisor"
            ),
            "job_ownership": only("private", "public", "nonprofit", "unknown"),
            **flags(
                "job_equal_opp_employer",
                "job_req_any",
                "job_req_communication",
                "job_req_education",
                "job_req_computer",
                "job_req_organization",
                "honors",
                "worked_during_school",
                "computer_skills",
                "special_skills",
                "volunteer",
                "military",
                "employment_holes",
                "has_email_address",
            ),
            "resume_quality": Boolean("high", "low"),
        },
        dropped="names tell race and gender; advertisement numbers",
    ),
    Definition(
        name="callbacks-by-job",
        asks="Does an employer call an applicant back?",
        source="resume-experiment",
        table="AER/ResumeNames",
        target=Is("call", ("yes",)),
        groups=(
            Values(
                "wanted",
                ("secretary", "retail sales", "manager", "other", "office support", "supervisor"),
            ),
        ),
        columns={
            "gender": Boolean("female", "male"),
            "ethnicity": Boolean("afam", "cauc"),
            "quality": Boolean("high", "low"),
            "city": Boolean("chicago", "boston"),
            "jobs": Number(1, 7),
            "experience": Number(0, 30),
            **yes_no(
                "honors",
                "volunteer",
                "military",
                "holes",
                "school",
                "email",
                "computer",
                "special",
                "college",
                "equal",
                "requirements",
                "reqexp",
                "reqcomm",
                "reqeduc",
                "reqcomp",
                "reqorg",
            ),
            "industry": Category(
                (
                    "business/personal services",
                    "trade",
                    "unknown",
                    "health/education/social services",
                    "finance/insurance/real estate",
                    "manufacturing",
                    "transport/communication",
                )
            ),
        },
        dropped="names tell ethnicity and gender; minimum repeats reqexp",
    ),
)
