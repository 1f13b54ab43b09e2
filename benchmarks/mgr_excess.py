"""
Excess worst-group risk of the defaults, beside the private average-risk model
===============================================================================

Default parameters, epsilon = 1, delta = 1e-5, five seeds: excess over the reference optimum on
the training records (mean, with half the width of its 95 % interval), of the worst-group model,
of the same learner without groups (private average risk), of the paper's own schedule (of whose
steps a cap of 150 passes leaves the first), and of predicting nothing.
"""

from __future__ import annotations

import numpy as np
from common import DELTA, EPSILON, excess_of_fits, load_dataset, zero_excess
from scipy.stats import t as student

from sklearn_dpwg.datasets import dataset_names
from sklearn_dpwg.solvers import MGR

N_SEEDS = 5


def interval(values: np.ndarray) -> str:
    """Return the mean and half the width of its 95 % interval."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():9.5f} ± {half:.5f}"


if __name__ == "__main__":
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g}, {N_SEEDS} seeds, excess worst-group risk\n")
    titles = ("worst-group (default)", "average risk", "paper, 150 passes", "predict nothing")
    print(f"{'data set':<22}{'records':>9}" + "".join(f"{title:>23}" for title in titles))
    for name in dataset_names():
        data = load_dataset(name)
        cells = [
            interval(excess_of_fits(data, N_SEEDS)),
            interval(excess_of_fits(data, N_SEEDS, grouped=False)),
            interval(excess_of_fits(data, N_SEEDS, solver=MGR(schedule="paper"))),
            f"{zero_excess(data):.5f}",
        ]
        columns = "".join(f"{cell:>23}" for cell in cells)
        print(f"{name:<22}{len(data.target):>9,}{columns}", flush=True)
