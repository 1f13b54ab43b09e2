"""Reference optima: the exact minimax risk of every data set.

Radius 200 on unit rows with a unit intercept; the numbers stand in the entries of the data sets.
"""

from __future__ import annotations

from common import row, unit_risks

from sklearn_dpwg.datasets import dataset_names, load_dataset
from sklearn_dpwg.optimum import worst_group_optimum

if __name__ == "__main__":
    row("data set", ("recomputed", "in the entry", "certified gap"), 15)
    for name in dataset_names():
        data = load_dataset(name)
        risks = unit_risks(data)
        found = worst_group_optimum(risks, radius=200.0)
        optima = risks.risks(found.weights).max(), data.entry.reference_optimum
        row(name, (*(f"{value:.9f}" for value in optima), f"{found.gap:.1e}"), 15)
