"""One entry a file, and the list of them.

A new data set is a new file here that defines a `DatasetEntry` and its reader, and one line in
`ENTRIES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sklearn_dpwg.datasets.entry import DatasetEntry

from .adult import ADULT
from .census_income_kdd import CENSUS_INCOME_KDD
from .compas import COMPAS
from .cps_hourly_earnings import CPS_HOURLY_EARNINGS
from .cps_weekly_wages import CPS_WEEKLY_WAGES
from .german_credit import GERMAN_CREDIT
from .health_insurance import HEALTH_INSURANCE
from .law_school import LAW_SCHOOL
from .minneapolis_stops import MINNEAPOLIS_STOPS

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
