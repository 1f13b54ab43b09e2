"""Where a fit spends its budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sklearn_dpwg.privacy import Budget, NoiseSource


@contextmanager
def spending(noise: NoiseSource, budget: Budget) -> Iterator[None]:
    """Say in every error from here on whether the budget is spent.

    Parameters
    ----------
    noise : NoiseSource
        What the releases are drawn from.
    budget : Budget
        What all of them cost together.

    Yields
    ------
    None
        Nothing.
    """
    try:
        # whether a number over- or underflows depends on the records: no warning, no error
        with np.errstate(all="ignore"):
            yield
    except BaseException as error:
        if noise.releases:
            # how many is not said: where a run fails may depend on the records
            error.add_note(
                f"Noisy values had been released before this error: count the budget of "
                f"this fit, epsilon={budget.epsilon:g} and delta={budget.delta:g}, as spent."
            )
        raise
