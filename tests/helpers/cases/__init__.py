"""Cases of the contract that every solver passes, with the faults that it must show."""

import numpy as np

from sklearn_dpwg.losses import Hinge, SquaredError
from sklearn_dpwg.solvers import Auto
from tests.helpers.cases import descent, rounds, stream
from tests.helpers.contract import Case
from tests.helpers.neighbours import random_budget, random_problem


def auto_plans():
    """Yield plans by whichever solver has the least bound; a run hands over to it."""
    rng = np.random.default_rng(0)
    for index in range(12):
        loss = (*descent.LOSSES, Hinge(), SquaredError())[index % 8]
        problem = random_problem(rng, loss)
        yield Auto().plan(problem, random_budget(rng)), Auto()


CASES: dict[str, Case] = {
    # few of these plans are of phases, whose own cases are tight
    "auto": Case(Auto, auto_plans, n_pairs=12, rounding=rounds.CERTIFIED, strength=0.7),
    **descent.CASES,
    **rounds.CASES,
    **stream.CASES,
}
