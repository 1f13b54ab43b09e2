"""Guarantees of calibrated releases."""

import math
import re

from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate

BUDGET = Budget(1.0, 1e-6)
PUBLIC = ("which group each record is in", "the group sizes")
MIXED = [
    Release("a", "gaussian", 1.0, 10),
    Release("b", "laplace", 1.0, 10, part=0),
    Release("c", "laplace", 0.9, 5, part=1),
]


def guarantee_of(releases, **options):
    return PrivacyGuarantee.from_releases(calibrate(releases, BUDGET), BUDGET, **options)


def mu_of(guarantee):
    """The worst part's μ."""
    return max(math.sqrt(event.count) / event.event.noise_multiplier for event in guarantee.events)


def words(guarantee):
    return re.sub(r"\s+", " ", str(guarantee))
