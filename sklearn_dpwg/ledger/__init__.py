"""What several fits cost together: `PrivacyLedger` keeps books, `privacy_of` adds up a model."""

from sklearn_dpwg.ledger.costs import privacy_of
from sklearn_dpwg.ledger.ledger import PrivacyLedger

__all__ = ["PrivacyLedger", "privacy_of"]
