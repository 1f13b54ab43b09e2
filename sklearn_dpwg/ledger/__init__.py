"""Joint cost of several fits: the part of the accounting that knows estimators.

A `PrivacyLedger` counts the fits inside its block against one budget and refuses to overspend;
its `plan_search` tells what a search will cost;
`privacy_of` adds up what a fitted pipeline, search or other meta-estimator cost.
Folds that labels decide are outside all of it.
"""

from sklearn_dpwg.ledger.costs import privacy_of
from sklearn_dpwg.ledger.ledger import PrivacyLedger
from sklearn_dpwg.ledger.planned_search import PlannedSearch

__all__ = ["PlannedSearch", "PrivacyLedger", "privacy_of"]
