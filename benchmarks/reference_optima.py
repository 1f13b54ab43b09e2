"""
Reference optima: the exact minimax risk of every data set
==========================================================

Radius 20 on unit rows with a unit intercept; the numbers stand in the entries of the data sets.
"""

from __future__ import annotations

from common import load_dataset, unit_risks

from sklearn_dpwg.datasets import dataset_names
from sklearn_dpwg.optimum import worst_group_optimum

if __name__ == "__main__":
    print(f"{'data set':<22}{'recomputed':>14}{'in the entry':>14}{'certified gap':>15}")
    for name in dataset_names():
        data = load_dataset(name)
        risks = unit_risks(data)
        found = worst_group_optimum(risks, radius=20.0)
        value = risks.risks(found.weights).max()
        print(f"{name:<22}{value:14.9f}{data.entry.reference_optimum:14.9f}{found.gap:15.1e}")
