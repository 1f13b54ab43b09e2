"""Minimax phased ERM: how much noise, and losses with kinks.

First the noise of planned releases over what Lemma 3 of Zhou and Bassily (2024) with the classical
multiplier √(2 log(1.25/δ))/ε asks for: the same records and regularisation, ε = 1, δ = 1e-5. *One
phase* and *phases* (the default plan) keep the group weights fixed within a phase; Lemma 3 gets the
limit μ_λ → ∞, where it is least. *Saddle* is one phase with μ_λ = B/10. One of the phases has a
share of the budget, and its noise is compared with that of a single release for all of ε.

Then losses with kinks at ε = 1: the largest group's mean loss on the training records, beside MGR,
five seeds, mean and half the 95 % interval. `papers.py` has the paper's schedule.

    python benchmarks/phased_erm.py [noise] [kinks]
"""

from __future__ import annotations

import math
from typing import Any

import common
import numpy as np

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.privacy.sensitivity import lemma3_sensitivity
from sklearn_dpwg.solvers import MGR, PhasedERM

N_SEEDS = 5
NOISE_ON = ("adult", "law-school", "compas", "minneapolis-stops", "cps-hourly-earnings")
KINKS = (
    ("adult", "hinge"),
    ("law-school", "hinge"),
    ("compas", "hinge"),
    ("cps-weekly-wages", "absolute_error"),
    ("cps-weekly-wages", "quantile"),
    ("cps-hourly-earnings", "absolute_error"),
)


def noise_ratio(data: Any, solver: PhasedERM) -> tuple[float, float]:
    """Return the noise of the first planned release, and that noise over the classical one."""
    plan = common.make_estimator(data, 1.0, solver=solver).plan(**common.public_facts(data))
    phases, problem = plan.schedule, plan.problem
    phase = phases.phase(0, np.asarray(problem.prior))
    ours = phases.multiplier * phase.sensitivity
    lemma3 = lemma3_sensitivity(
        group_sizes=problem.group_sizes,
        lipschitz=problem.lipschitz,
        loss_range=problem.loss_range,
        strong_convexity=phase.mu_weights,
        entropy_weight=min(phase.mu_groups, 1e12),
    )
    return ours, ours / (lemma3 * math.sqrt(2.0 * math.log(1.25 / common.DELTA)))


def noise() -> None:
    """Print the noise of the releases."""
    print("noise std of a release, and over Lemma 3 with √(2 log(1.25/δ))/ε, ε = 1\n")
    common.row("data set", ("one phase", "ratio", "saddle", "ratio", "phases", "ratio"), 12)
    for name in NOISE_ON:
        data = load_dataset(name)
        loss_range = (
            common.make_estimator(data, 1.0).plan(**common.public_facts(data)).problem.loss_range
        )
        solvers = (
            PhasedERM(1, mu_groups=math.inf),
            PhasedERM(1, mu_groups=loss_range / 10),
            PhasedERM(),
        )
        found = [value for solver in solvers for value in noise_ratio(data, solver)]
        common.row(name, [f"{value:.4f}" for value in found], 12)


def kinks() -> None:
    """Print the largest group loss of losses with kinks."""
    print(f"\nlargest group loss, ε = 1, δ = {common.DELTA:g}, {N_SEEDS} seeds\n")
    common.row("data set", ("loss", "phased ERM", "MGR", "predict nothing"))
    for name, loss in KINKS:
        data, cells = load_dataset(name), []
        for solver in (PhasedERM(), MGR()):
            models = list(common.fits(data, N_SEEDS, epsilon=1.0, solver=solver, loss=loss))
            risks = common.unit_risks(data).with_loss(models[0].plan_.problem.loss)
            mean, half = common.interval(
                np.array([common.worst_risk(each, risks, data) for each in models])
            )
            cells.append(f"{mean:.4f} ± {half:.4f}")
        zero = risks.risks(np.zeros(risks.n_weights)).max()
        common.row(name, (loss, *cells, f"{zero:.4f}"))


if __name__ == "__main__":
    common.run_tables({"noise": noise, "kinks": kinks})
