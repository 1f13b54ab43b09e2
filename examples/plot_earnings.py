"""
Regression: what does an hour earn?
===================================

Hourly earnings of full-time workers in the United States, by gender and region, from the Current
Population Survey. Targets need public bounds: whoever earns more than the upper one counts as
earning that much.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.metrics import group_table

earnings = load_dataset("cps-hourly-earnings")
X, y, groups = earnings.data, earnings.target, earnings.groups
private = DPWorstGroupRegressor(
    epsilon=1.0, delta=1e-5, data_norm=earnings.data_norm, target_bounds=earnings.target_bounds
)
private.fit(X, y, groups=groups)
print(f"learned at epsilon = {private.privacy_.epsilon:.3g}, delta = {private.privacy_.delta:g}")

# %%
# Beside it a private model that learns for the average record, and the best for the worst group
# without privacy. What a better worst group costs the others is in the table as well.

average = clone(private)
exact = clone(private).set_params(epsilon=float("inf"), solver="exact")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UngroupedWarning)  # no groups: the average is what is wanted
    average.fit(X, y)
exact.fit(X, y, groups=groups)

models = {"private": private, "average": average, "exact": exact}
table = group_table(
    np.clip(y, *earnings.target_bounds),
    {name: model.predict(X) for name, model in models.items()},
    groups=groups,
    metrics="root_mean_squared_error",
).set_axis(["records", *models], axis="columns")
table = table.sort_values("private", ascending=False)
print("root mean squared error, dollars an hour\n")
print(table.round(2).to_string())
print("\nworst group:", table[list(models)].max().round(2).to_dict())

# %%
# Men in the Northeast are the worst off under every model. Learning for the worst group brings
# their error down; others pay for it, women most.

figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
places = range(len(table))
for name, marker in (("average", "s"), ("private", "o"), ("exact", "D")):
    (points,) = axes.plot(table[name], places, marker, label=name)
    axes.axvline(table[name].max(), color=points.get_color(), linewidth=1, linestyle=":")
axes.set_yticks(places, table.index)
axes.invert_yaxis()
axes.set(xlabel="root mean squared error, $; dotted: the worst group of each model")
axes.legend()
plt.show()
