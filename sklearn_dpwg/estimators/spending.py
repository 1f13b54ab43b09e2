"""Where a fit spends its budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.privacy.charge import charge
from sklearn_dpwg.solvers import Plan


@contextmanager
def spending(
    noise: NoiseSource, budget: Budget, plan: Plan | None = None, what: str = ""
) -> Iterator[None]:
    """Charge a plan to the ledgers, and say in every error whether the budget is spent.

    Parameters
    ----------
    noise : NoiseSource
        What the releases are drawn from.
    budget : Budget
        What all of them cost together.
    plan : Plan, optional
        What to charge; None where an earlier call was charged for this one too.
    what : str, default=""
        Name of what is fitted, for the report of a ledger.

    Yields
    ------
    None
        Nothing.
    """
    try:
        # whether a number over- or underflows depends on the records: no warning, no error
        with np.errstate(all="ignore"), ExitStack() as stack:
            if plan is not None:
                guarantee = replace(plan.guarantee, seeded=noise.seeded)
                stack.enter_context(charge(guarantee, noise, what))
            yield
    except BaseException as error:
        if noise.releases:
            # how many is not said: where a run fails may depend on the records
            error.add_note(
                f"Noisy values had been released before this error: count the budget of "
                f"this fit, epsilon={budget.epsilon:g} and delta={budget.delta:g}, as spent."
            )
        raise
