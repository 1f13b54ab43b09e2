"""Hourly earnings in the Current Population Survey of March 2005."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sklearn_dpwg.datasets.entries import _rdatasets
from sklearn_dpwg.datasets.entry import DatasetEntry


def _read(path: Path) -> pd.DataFrame:
    """Read the stored frame and add age squared, as earnings rise and then fall with age."""
    frame = _rdatasets.read_frame(path).drop(columns="rownames")
    frame["age squared"] = frame["age"] ** 2
    return frame


CPS_HOURLY_EARNINGS = DatasetEntry(
    name="cps-hourly-earnings",
    title="Hourly earnings of full-time workers, Current Population Survey",
    task="regression",
    package=_rdatasets.PACKAGE,
    version=_rdatasets.VERSION,
    install=_rdatasets.INSTALL,
    files={"all": "rdatasets/_data/AER/CPSSW8.pkl.compress"},
    default_subset="all",
    read=_read,
    target="earnings",
    target_bounds=(0.0, 100.0),
    target_unit="dollars per hour",
    groups={
        "gender": {"female": "female", "male": "male"},
        "region": {
            "Northeast": "Northeast",
            "Midwest": "Midwest",
            "South": "South",
            "West": "West",
        },
    },
    numeric={"age": (18, 70), "age squared": (18**2, 70**2), "education": (0, 20)},
    categories={},
    derived={"age squared": ("age",)},
    dropped={"rownames": "a row number"},
    unit_of_privacy="a person; several members of a household may be in the survey",
    source=(
        "Stock and Watson (2007), Introduction to Econometrics, CPSSW8 in Kleiber and Zeileis, AER "
        "(R package), as shipped in rdatasets 0.2.10"
    ),
    reference_optimum=0.018703398,
    licence="public survey of the United States (data), GPL-2 or GPL-3 (AER), GPL-3.0 (rdatasets)",
    remarks="Gender and region make the eight groups and are not features. Age is in years.",
)
