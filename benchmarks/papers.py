"""The papers' schedules, beside the plans of this package in one and the same ball.

The steps and the noise of a paper grow with the diameter M = 2R of the ball. So this fits both in
the ball of radius 6, where plans aim at weights as long as that, on Adult and law school. It prints
the excess of the largest group's loss on training records over the exact optimum in this ball (for
online-to-batch of the mean loss of all), δ = 1e-5, mean and standard error, and of the paper the ε
that it really costs and its steps.

    python benchmarks/papers.py
"""

from __future__ import annotations

import math

import numpy as np
from common import (
    DELTA,
    cell,
    excess_of_fits,
    fits,
    game_on_records,
    make_estimator,
    public_facts,
    row,
    unit_risks,
    worst_risk,
)

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.solvers import AGS, GDA, MGR, OCO, OnlineToBatch, PhasedERM

SOLVERS = (MGR, PhasedERM, OCO, AGS, GDA, OnlineToBatch)
RADIUS, N_SEEDS = 6.0, 3
SHARED = {"radius": RADIUS}


@game_on_records()
def data() -> None:
    """Print the excess of every solver as planned and with its paper's schedule."""
    print(f"radius {RADIUS:g}, M = {2.0 * RADIUS:g}, δ = {DELTA:g}, {N_SEEDS} seeds")
    for name in ("adult", "law-school"):
        table, least = load_dataset(name), {}
        for grouped in (True, False):
            facts = {"epsilon": math.inf, "solver": "exact", "grouped": grouped}
            (exact,) = fits(table, 1, **facts, **SHARED)
            risks = unit_risks(table, grouped=grouped)
            least[grouped] = worst_risk(exact, risks, table)
            nothing = risks.risks(np.zeros(risks.n_weights)).max() - least[grouped]
            what = "largest group's" if grouped else "mean"
            print(f"{name}, {what} loss: {least[grouped]:.4f}; predicting nothing {nothing:.4f}")
        for epsilon in (1.0, 4.0):
            row(f"ε = {epsilon:g}", ("planned", "paper", "its true ε", "steps"), 20)
            for kind in SOLVERS:
                facts = {"grouped": kind is not OnlineToBatch, "epsilon": epsilon, **SHARED}
                solvers = kind(initial_distance=1.0), kind(schedule="paper")
                optimum = least[facts["grouped"]]
                cells = [
                    cell(excess_of_fits(table, N_SEEDS, optimum=optimum, solver=solver, **facts))
                    for solver in solvers
                ]
                model = make_estimator(table, epsilon, solver=solvers[1], **SHARED)
                plan = model.plan(**public_facts(table))
                row(kind.name, (*cells, f"{plan.guarantee.epsilon:.3g}", f"{plan.n_steps:,}"), 20)


if __name__ == "__main__":
    data()
