"""In which precision rows are taken."""

from __future__ import annotations

from typing import Any

import numpy as np


def precisions(X: Any) -> list[Any]:
    """Return the types that rows are taken in as they are; anything else becomes the first.

    Parameters
    ----------
    X : array-like of shape (n_records, n_features)
        The rows as they were passed.

    Returns
    -------
    list of types
        Single and double precision, in the order of scikit-learn's ``dtype`` parameters.
    """
    # scikit-learn does not look into the types of a polars frame
    is_single = hasattr(X, "columns") and np.asarray(X[:0]).dtype == np.float32
    return [np.float32, np.float64] if is_single else [np.float64, np.float32]
