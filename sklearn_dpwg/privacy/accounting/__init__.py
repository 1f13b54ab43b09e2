"""Cost of releases: compositions, privacy-loss distributions, calibration, trade-off curves.

`part_events` makes one dp_accounting event of what a record of each disjoint part pays for; an
event becomes a canonical composition, equal mechanisms merged. Gaussian noise alone has a closed
form (`sklearn_dpwg.privacy.gaussian`); the rest is accounted for by dp_accounting's privacy-loss
distributions, a selection among runs by Rényi divergences, and what those do not state tightly is
refused. `delta_of` and `epsilon_of` read the cost off, `calibrate` finds the least noise that
keeps a budget, and `predict_multiplier` guesses it fast enough to compare plans by.
"""

from sklearn_dpwg.privacy.accounting.accountant import (
    delta_of,
    epsilon_of,
    is_gaussian,
    part_events,
)
from sklearn_dpwg.privacy.accounting.calibration import calibrate, predict_multiplier

__all__ = [
    "calibrate",
    "delta_of",
    "epsilon_of",
    "is_gaussian",
    "part_events",
    "predict_multiplier",
]
