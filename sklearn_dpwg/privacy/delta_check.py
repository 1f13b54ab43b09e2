"""A warning about large δ."""

from __future__ import annotations

import warnings

from sklearn_dpwg._checks import open_unit, whole_number
from sklearn_dpwg.exceptions import DeltaWarning


def check_delta(delta: float, n_records: int, *, stacklevel: int = 2) -> None:
    """Warn if δ is not below one over the number of records.

    At δ = 1/K a mechanism that publishes one record chosen at random keeps ε = 0, so δ should be
    far smaller than that.

    Parameters
    ----------
    delta : float
        δ, strictly between 0 and 1.
    n_records : int
        Number of records K in all groups together, which is public.
    stacklevel : int, default=2
        Whose line the warning names; 2 is the caller's.

    Warns
    -----
    DeltaWarning
        If δ ≥ 1/K.
    """
    delta = open_unit(delta, "delta")
    n_records = whole_number(n_records, "n_records", least=1)
    if delta >= 1.0 / n_records:
        warnings.warn(
            f"delta = {delta:g} is not below 1/{n_records}, one over the number of records: "
            "publishing a whole record at random would be allowed; choose a far smaller delta.",
            DeltaWarning,
            stacklevel=stacklevel,
        )
