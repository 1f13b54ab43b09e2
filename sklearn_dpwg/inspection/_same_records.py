"""The guarantee of a model that was fitted to the records of an audit."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.privacy import PrivacyGuarantee


def model_guarantee(
    same_records_as: Any, model: Any, n_records: int, *, is_private: bool
) -> PrivacyGuarantee | None:
    """Return what the model that saw these records cost, or None where it saw others.

    A model that was fitted to just as many records, which is public, most likely saw these: then
    one has to say so, or say that it did not.
    """
    if same_records_as is False:
        return None
    if same_records_as is None:
        if is_private and model is not None and _n_fitted(model) == n_records:
            raise ValueError(
                f"same_records_as must be the model where it was fitted to these records, or False "
                f"where it was not, got None for a model that was fitted to as many, {n_records:,}."
            )
        return None
    if isinstance(same_records_as, PrivacyGuarantee):
        return same_records_as
    if same_records_as is True:
        if model is None:
            raise ValueError(
                "same_records_as must be the model or its guarantee where no model is passed, got "
                "True."
            )
        same_records_as = model
    return privacy_of(same_records_as, warn=False)


def _n_fitted(model: Any) -> int | None:
    """Return how many records a model was fitted to, where it tells."""
    inside = model
    while hasattr(inside, "steps") or hasattr(inside, "best_estimator_"):
        inside = inside.steps[-1][1] if hasattr(inside, "steps") else inside.best_estimator_
    sizes = getattr(inside, "group_sizes_", None)
    return None if sizes is None else round(float(np.sum(sizes)))
