"""One entry a file, and the list of them.

A new data set is a new file here that defines a `DatasetEntry` and its reader, and one line in
`ENTRIES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sklearn_dpwg.datasets.entries.adult import ADULT
from sklearn_dpwg.datasets.entries.census_income_kdd import CENSUS_INCOME_KDD
from sklearn_dpwg.datasets.entries.compas import COMPAS
from sklearn_dpwg.datasets.entries.cps_hourly_earnings import CPS_HOURLY_EARNINGS
from sklearn_dpwg.datasets.entries.cps_weekly_wages import CPS_WEEKLY_WAGES
from sklearn_dpwg.datasets.entries.german_credit import GERMAN_CREDIT
from sklearn_dpwg.datasets.entries.health_insurance import HEALTH_INSURANCE
from sklearn_dpwg.datasets.entries.law_school import LAW_SCHOOL
from sklearn_dpwg.datasets.entries.minneapolis_stops import MINNEAPOLIS_STOPS
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
