"""One entry a file, and the list of them.

A new data set is a new file here that defines a `DatasetEntry` and its reader, and one line in
`ENTRIES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sklearn_dpwg.datasets.entries.justice import COMPAS, LAW_SCHOOL
from sklearn_dpwg.datasets.entries.surveys import (
    CPS_HOURLY_EARNINGS,
    CPS_WEEKLY_WAGES,
    HEALTH_INSURANCE,
    MINNEAPOLIS_STOPS,
)
from sklearn_dpwg.datasets.entries.uci import ADULT, CENSUS_INCOME_KDD, GERMAN_CREDIT
from sklearn_dpwg.datasets.entry import DatasetEntry

__all__ = ["ENTRIES"]

ENTRIES: Mapping[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        ADULT,
        CENSUS_INCOME_KDD,
        COMPAS,
        CPS_HOURLY_EARNINGS,
        CPS_WEEKLY_WAGES,
        GERMAN_CREDIT,
        HEALTH_INSURANCE,
        LAW_SCHOOL,
        MINNEAPOLIS_STOPS,
    )
}
