"""The papers' schedules, beside the plans of this package in one and the same ball.

The steps and the noise of a paper grow with the diameter M = 2R of the ball. So `data` fits both in
the ball of radius 6, where plans aim at weights as long as that, on Adult and law school. It prints
the excess of the largest group's loss on training records over the exact optimum in this ball (for
online-to-batch of the mean loss of all), δ = 1e-5, mean and standard error, and of the paper the ε
that it really costs and its steps. `worlds` prints the population excess where the optimum is
known, ε = 1, δ = 1e-6, and `slopes` what more records bring.

    python benchmarks/papers.py [data] [worlds] [slopes]
"""

from __future__ import annotations

import math
from functools import partial

import ags
import numpy as np
import oco
import online_to_batch
import rates
from common import (
    DELTA,
    cell,
    excess_of_fits,
    fits,
    game_on_records,
    make_estimator,
    public_facts,
    row,
    run_tables,
    sweep,
    unit_risks,
    worst_risk,
)

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.solvers import AGS, GDA, MGR, OCO, OnlineToBatch, PhasedERM

SOLVERS = (MGR, PhasedERM, OCO, AGS, GDA, OnlineToBatch)
RADIUS, N_SEEDS, FEW = 6.0, 3, (300, 646, 1_392, 3_000)
SHARED = {"radius": RADIUS}


@game_on_records()
def data() -> None:
    """Print the excess of every solver as planned and with its paper's schedule."""
    print(f"radius {RADIUS:g}, M = {2.0 * RADIUS:g}, δ = {DELTA:g}, {N_SEEDS} seeds")
    for name in ("adult", "law-school"):
        table, least = load_dataset(name), {}
        for grouped in (True, False):
            told = {"epsilon": math.inf, "solver": "exact", "grouped": grouped}
            (exact,) = fits(table, 1, **told, **SHARED)
            risks = unit_risks(table, grouped=grouped)
            least[grouped] = worst_risk(exact, risks, table)
            nothing = risks.risks(np.zeros(risks.n_weights)).max() - least[grouped]
            what = "largest group's" if grouped else "mean"
            print(f"{name}, {what} loss: {least[grouped]:.4f}; predicting nothing {nothing:.4f}")
        for epsilon in (1.0, 4.0):
            row(f"ε = {epsilon:g}", ("planned", "paper", "its true ε", "steps"), 20)
            for kind in SOLVERS:
                told = {"grouped": kind is not OnlineToBatch, "epsilon": epsilon, **SHARED}
                solvers = kind(aim=1.0), kind(schedule="paper")
                optimum = least[told["grouped"]]
                cells = [
                    cell(excess_of_fits(table, N_SEEDS, optimum=optimum, solver=solver, **told))
                    for solver in solvers
                ]
                model = make_estimator(table, epsilon, solver=solvers[1], **SHARED)
                plan = model.plan(**public_facts(table))
                row(kind.name, (*cells, f"{plan.guarantee.epsilon:.3g}", f"{plan.n_steps:,}"), 20)


def worlds() -> None:
    """Print the excess in populations, beside that of predicting nothing."""
    values = rates.powers(1e4, 1e6, 3)
    points = [rates.Point(n_records=value) for value in values]
    for kind, worlds_at in rates.FAMILIES.items():
        diameter = 2.0 * worlds_at(points[0])[0].radius
        print(f"\n{kind} population: M = {diameter:g}, p = 4, d = 16, ε = 1")
        nothing = np.array([rates.nothing_at(worlds_at, point) for point in points])
        columns = {
            each.name: rates.measured(
                worlds_at, points, partial(rates.excess_of_runs, solver=each(schedule="paper"))
            )
            for each in (MGR, PhasedERM, AGS)
        }
        rates.show("K", values, {"nothing": nothing[:, None, None], **columns})


def slopes() -> None:
    """Print slopes in the number of records, each in the world of its solver's own benchmark."""
    choice = partial(ags.median_excess, ags.choice_world, AGS(schedule="paper", max_passes=100_000))
    stream = partial(oco.population_excess, OCO(schedule="paper", noise="toeplitz"), 4)
    conversion = partial(online_to_batch.hard_excess, OnlineToBatch(schedule="paper"))
    curves = {
        "AGS, where the choice rules, M = 2, ε = 1": (ags.SIZES, choice, -0.5),
        "OCO, M = 10, ε = 1": ((8_000, 32_000, 128_000), stream, -0.5),
        "online-to-batch, M = 1, ε = 1": (FEW, partial(conversion, 1.0), -1.0),
        "online-to-batch, M = 1, ε = 1000": (FEW, partial(conversion, 1e3), -0.5),
    }
    for title, (sizes, excess, exponent) in curves.items():
        sweep(f"{title}, by records", sizes, {"excess": (excess, exponent)})


if __name__ == "__main__":
    run_tables({"data": data, "worlds": worlds, "slopes": slopes})
