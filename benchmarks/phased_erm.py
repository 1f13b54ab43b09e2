"""Minimax phased ERM: losses with kinks, and other plans; `papers.py` has the paper's schedule.

`kinks`: the largest group's mean loss on the training records, beside MGR, ε = 1, five seeds, mean
and half the 95 % interval. `variants`: mean excess worst-group risk over the reference optimum of
other plans.

    python benchmarks/phased_erm.py [kinks] [variants]
"""

from __future__ import annotations

from typing import Any

import common
import numpy as np

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.solvers import MGR, PhasedERM

N_SEEDS = 5
KINKS = (
    ("adult", "hinge"),
    ("law-school", "hinge"),
    ("compas", "hinge"),
    ("cps-weekly-wages", "absolute_error"),
    ("cps-weekly-wages", "quantile"),
    ("cps-hourly-earnings", "absolute_error"),
)
VARIANTS_ON = ("adult", "law-school", "compas", "german-credit")
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"{n} phases": {"n_phases": n} for n in (1, 2, 4, 8)},
    "equal, last two thirds": {"sharpening": 1.0, "averaging": 2 / 3},
    "equal, last alone": {"sharpening": 1.0, "averaging": 0.01},
    "twice as strong each time": {"sharpening": 2.0},
    "saddle points, μ_λ = 30": {"n_phases": 16, "mu_groups": 30.0},
    "saddle points, μ_λ = 3": {"n_phases": 16, "mu_groups": 3.0},
}


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


def variants() -> None:
    """Print the excess of other plans."""
    tried = {title: {"solver": PhasedERM(**each)} for title, each in VARIANTS.items()}
    common.excess_table("excess", tried, VARIANTS_ON, N_SEEDS)


if __name__ == "__main__":
    common.run_tables({"kinks": kinks, "variants": variants})
