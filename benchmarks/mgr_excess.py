"""Excess worst-group risk of the defaults, beside the private average-risk model.

Default parameters, epsilon = 1, delta = 1e-5, five seeds: excess over the reference optimum on
the training records (mean, with half the width of its 95 % interval), of the worst-group model,
of the same learner without groups (private average risk), of the paper's own schedule (of whose
steps a cap of 150 passes leaves the first), and of predicting nothing.
"""

from __future__ import annotations

from common import DELTA, EPSILON, excess_of_fits, interval, row, zero_excess

from sklearn_dpwg.datasets import dataset_names, load_dataset
from sklearn_dpwg.solvers import MGR

N_SEEDS = 5
COLUMNS = {
    "worst-group (default)": {},
    "average risk": {"grouped": False},
    "paper, 150 passes": {"solver": MGR(schedule="paper")},
}

if __name__ == "__main__":
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g}, {N_SEEDS} seeds, excess worst-group risk\n")
    row("data set", ("records", *COLUMNS, "predict nothing"))
    for name in dataset_names():
        data = load_dataset(name)
        found = [interval(excess_of_fits(data, N_SEEDS, **each)) for each in COLUMNS.values()]
        cells = [f"{mean:.5f} ± {half:.5f}" for mean, half in found]
        row(name, (f"{len(data.target):,}", *cells, f"{zero_excess(data):.5f}"))
