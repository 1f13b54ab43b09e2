"""
Choosing epsilon: the preview and the group sizes
=================================================

The plan of a fit needs group sizes, the number of features and bounds, and no record. So one can
look at many budgets for free and choose before the data are opened. Here are law school's five
groups with 21,791 records in all, and then the same groups with fewer and with more records.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier

SIZES = {"White": 18_285, "Black": 1_282, "Latino": 987, "Asian": 845, "Other": 392}

plan = DPWorstGroupClassifier(epsilon=1.0, delta=1e-6).plan(group_sizes=SIZES, n_features=4)
nothing = plan.problem.constants.zero_score
print(f"bound on the excess loss at epsilon = 1; predicting nothing costs {nothing:.3f}")
labels = sorted(SIZES)  # a mapping is put in the order of group_labels_
for label, bound in zip(labels, plan.predicted_excess_if_worst, strict=True):
    print(f"  if {label} is the worst off: {bound:.3f}")

# %%
# The bound of each group
# -----------------------
#
# A plan holds a planning bound on the excess loss for each group, should that group be the
# worst-off one, and their mean by prior weights. A small group is harder: the noise on its mean
# is louder. Where a line is above the dotted one, the plan promises that group no more than a
# model that predicts nothing. The bounds are cautious: what
# fits lose in ``make bench-solvers`` is usually well below.

epsilons = np.geomspace(0.02, 10, 20)
plans = [
    DPWorstGroupClassifier(epsilon, 1e-6).plan(group_sizes=SIZES, n_features=4)
    for epsilon in epsilons
]

figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for index, label in enumerate(labels):
    bounds = [plan.predicted_excess_if_worst[index] for plan in plans]
    axes.plot(epsilons, bounds, label=f"{label} ({SIZES[label]:,})")
axes.plot(epsilons, [plan.predicted_excess for plan in plans], "k", linewidth=2.5, label="mean")
axes.axhline(nothing, color="grey", linestyle=":")
axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="planning bound on the excess log loss")
axes.legend(fontsize="small")
plt.show()

# %%
# More records or a larger epsilon?
# ---------------------------------
#
# Twice the records are worth about twice the ε as long as noise is what limits the fit. Where a
# curve is flat, a larger budget buys nothing that this bound can see.

figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for factor in (0.1, 1, 10):
    sizes = {label: round(size * factor) for label, size in SIZES.items()}
    bounds = [
        DPWorstGroupClassifier(epsilon, 1e-6).plan(group_sizes=sizes, n_features=4).predicted_excess
        for epsilon in epsilons
    ]
    axes.plot(epsilons, bounds, label=f"{sum(sizes.values()):,} records")
axes.axhline(nothing, color="grey", linestyle=":")
axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="mean planning bound")
axes.legend()
plt.show()

# %%
# The smallest ε of the grid whose plan promises more than predicting nothing, for the mean and for
# the smallest group:

smallest = labels.index("Other")
mean = next(e for e, plan in zip(epsilons, plans, strict=True) if plan.predicted_excess < nothing)
print(f"mean over the groups: epsilon = {mean:.2g}")
small = [
    e
    for e, plan in zip(epsilons, plans, strict=True)
    if plan.predicted_excess_if_worst[smallest] < nothing
]
print(f"group of {SIZES['Other']}: epsilon = {small[0]:.2g}")
