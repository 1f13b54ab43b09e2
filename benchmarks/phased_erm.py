"""
Minimax phased ERM: how much noise, and how much excess
=======================================================

First the noise of planned releases over what Lemma 3 of Zhou and Bassily (2024) with the classical
multiplier √(2 log(1.25/δ))/ε asks for: the same records and regularisation, ε = 1, δ = 1e-5. *One
phase* and *phases* (the default plan) keep the group weights fixed within a phase; Lemma 3 gets the
limit μ_λ → ∞, where it is least. *Saddle* is one phase with μ_λ = B/10. One of the phases has a
share of the budget, and its noise is compared with that of a single release for all of ε.

Then the excess worst-group risk on the training records over the reference optimum, five seeds:
mean and half the 95 % interval, planned and the paper's schedule, beside predicting nothing.

Last, losses with kinks at ε = 1: the largest group's mean loss on the training records, beside MGR.

    python benchmarks/phased_erm.py [noise] [excess] [kinks]
"""

from __future__ import annotations

import math
import sys

import numpy as np
from common import (
    DELTA,
    excess_of_fits,
    load_dataset,
    make_estimator,
    unit_risks,
    worst_risk,
    zero_excess,
)
from scipy.stats import t as student

from sklearn_dpwg.datasets import dataset_names
from sklearn_dpwg.privacy import lemma3_sensitivity
from sklearn_dpwg.solvers import MGR, PhasedERM

N_SEEDS = 5
EPSILONS = (0.5, 1.0, 2.0)
NOISE_ON = ("adult", "law-school", "compas", "minneapolis-stops", "cps-hourly-earnings")
KINKS = (
    ("adult", "hinge"),
    ("law-school", "hinge"),
    ("compas", "hinge"),
    ("cps-weekly-wages", "absolute_error"),
    ("cps-weekly-wages", "quantile"),
    ("cps-hourly-earnings", "absolute_error"),
)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(half)


def noise_ratio(data, solver: PhasedERM) -> tuple[float, float]:
    """Return the noise of the first planned release, and that noise over the classical one."""
    plan = make_estimator(data, 1.0, solver=solver).plan(**facts(data))
    schedule, problem = plan.schedule, plan.problem
    phase = schedule.phase(0, np.asarray(schedule.prior))
    ours = schedule.weights_multipliers[0] * phase.sensitivity
    lemma3 = lemma3_sensitivity(
        group_sizes=schedule.sizes[0],
        lipschitz=problem.lipschitz,
        loss_range=problem.loss_range,
        strong_convexity=phase.mu_weights,
        entropy_weight=min(phase.mu_groups, 1e12),
    )
    return ours, ours / (lemma3 * math.sqrt(2.0 * math.log(1.25 / DELTA)))


def facts(data) -> dict:
    """Return what a plan asks for."""
    sizes = np.unique(data.groups, return_counts=True)[1].tolist()
    return {"group_sizes": sizes, "n_features": data.data.shape[1]}


def noise_table() -> None:
    """Print the noise of the releases."""
    print("noise std of a release, and over Lemma 3 with √(2 log(1.25/δ))/ε, ε = 1\n")
    titles = ("one phase", "ratio", "saddle", "ratio", "phases", "ratio")
    print(f"{'data set':<22}" + "".join(f"{title:>12}" for title in titles))
    for name in NOISE_ON:
        data = load_dataset(name)
        loss_range = make_estimator(data, 1.0).plan(**facts(data)).problem.loss_range
        cells = (
            *noise_ratio(data, PhasedERM(1, mu_groups=math.inf)),
            *noise_ratio(data, PhasedERM(1, mu_groups=loss_range / 10)),
            *noise_ratio(data, PhasedERM()),
        )
        print(f"{name:<22}" + "".join(f"{cell:12.4f}" for cell in cells), flush=True)


def excess_table() -> None:
    """Print the excess of fits."""
    print(f"\nexcess worst-group risk, δ = {DELTA:g}, {N_SEEDS} seeds\n")
    print(
        f"{'data set':<22}{'ε':>6}{'planned':>20}{'phases':>8}{'paper':>20}"
        f"{'its true ε':>12}{'predict nothing':>18}"
    )
    for name in dataset_names():
        data = load_dataset(name)
        zero = zero_excess(data)
        for epsilon in EPSILONS:
            planned = interval(excess_of_fits(data, N_SEEDS, epsilon=epsilon, solver=PhasedERM()))
            paper = PhasedERM(schedule="paper")
            papers = interval(excess_of_fits(data, N_SEEDS, epsilon=epsilon, solver=paper))
            true, n_phases = (
                make_estimator(data, epsilon, solver=solver).plan(**facts(data))
                for solver in (paper, PhasedERM())
            )
            mark = "" if planned[0] <= zero + planned[1] else " worse"
            ours = f"{planned[0]:11.4f} ± {planned[1]:.4f}{n_phases.n_steps:8d}"
            theirs = f"{papers[0]:11.3f} ± {papers[1]:6.3f}{true.guarantee.epsilon:12.3g}"
            print(f"{name:<22}{epsilon:6g}{ours}{theirs}{zero:18.4f}{mark}", flush=True)


def kinks_table() -> None:
    """Print the largest group loss of losses with kinks."""
    print(f"\nlargest group loss, ε = 1, δ = {DELTA:g}, {N_SEEDS} seeds\n")
    titles = ("phased ERM", "MGR", "predict nothing")
    print(f"{'data set':<22}{'loss':<16}" + "".join(f"{title:>20}" for title in titles))
    for name, loss in KINKS:
        data = load_dataset(name)
        risks = None
        cells = []
        for solver in (PhasedERM(), MGR()):
            found = []
            for seed in range(N_SEEDS):
                model = make_estimator(data, 1.0, solver=solver, loss=loss, random_state=seed)
                model.fit(data.data, data.target, groups=data.groups)
                if risks is None:
                    risks = unit_risks(data).with_loss(model.plan_.problem.loss)
                found.append(worst_risk(model, risks, data))
            mean, half = interval(np.array(found))
            cells.append(f"{mean:.4f} ± {half:.4f}")
        zero = risks.risks(np.zeros(risks.n_weights)).max()
        shown = "".join(f"{cell:>20}" for cell in (*cells, f"{zero:.4f}"))
        print(f"{name:<22}{loss:<16}{shown}", flush=True)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["noise", "excess", "kinks"]
    if "noise" in wanted:
        noise_table()
    if "excess" in wanted:
        excess_table()
    if "kinks" in wanted:
        kinks_table()
