"""Where a fit spends its budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_dpwg.ledger.charge import charge, take_payment
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import Plan


@contextmanager
def spending(
    noise: NoiseSource, budget: Budget, plan: Plan, estimator: Any, key: str | None = None
) -> Iterator[None]:
    """Charge a plan to the ledgers, and say in every error whether the budget is spent.

    Parameters
    ----------
    noise : NoiseSource
        What the releases are drawn from.
    budget : Budget
        What all of them cost together.
    plan : Plan
        What to charge.
    estimator : object
        What is fitted; a ledger reports the name of its class.
    key : str, optional
        Name of a plan that several calls run; a ledger that knows it is not charged again.

    Yields
    ------
    None
        Nothing.
    """
    try:
        # whether a number over- or underflows depends on the records: no warning, no error
        guarantee = replace(plan.guarantee, seeded=noise.seeded)
        name = type(estimator).__name__
        is_paid = take_payment(estimator)
        with np.errstate(all="ignore"), charge(guarantee, noise, name, key, is_paid=is_paid):
            yield
    except BaseException as error:
        if noise.draws:
            # how many is not said: where a run fails may depend on the records
            error.add_note(
                f"Noisy values had been released before this error: count the budget of "
                f"this fit, epsilon={budget.epsilon:g} and delta={budget.delta:g}, as spent."
            )
        raise
