"""
Several attributes: race, sex and age at once
=============================================

Rules ask about each attribute: about every race, every sex, every age. The cells of all three grow
as a product, and the smallest hold a few dozen people, about whom the whole game then is. With
``overlap="attributes"`` every value of every attribute is a group, and everybody is in three.
"""

import warnings
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.metrics import group_table


def attributes(people):
    """Return race, sex and a band of age, cut at public numbers."""
    actual = pd.DataFrame([group.split(", ") for group in people.groups], columns=["race", "sex"])
    age = people.data[:, people.feature_names.index("age")]  # from 17 to 90, mapped to [-1, 1]
    under_35, under_50 = (2.0 * (years - 17.0) / (90.0 - 17.0) - 1.0 for years in (35, 50))
    bands = ["under 35", "35 to 49"]
    return actual.assign(age=np.select([age < under_35, age < under_50], bands, "50 and over"))


adult, held_out = load_dataset("adult"), load_dataset("adult", subset="test")
groups, of_held_out = attributes(adult), attributes(held_out)
cells = groups.value_counts()
print(f"{len(cells)} cells, of {cells.min():,} to {cells.max():,} people")

# %%
# What a fit would release is known from the sizes of the cells, of which the groups are made. A
# record is in three groups and moves three sums of losses, so these have noise for √3 of one.

public = {"data_norm": adult.data_norm, "neighbours": "replace-one-within-group"}
model = DPWorstGroupClassifier(epsilon=1.0, overlap="attributes", **public)
plan = model.plan(group_sizes=cells, n_features=adult.data.shape[1])
print(str(plan).split("\n\n")[0])

# %%
# The same fit for cells, and for attributes: the log loss of each value of each attribute among
# people whom the models have not seen, and the weight that the learner gave it.

losses, weights = {}, {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    warnings.simplefilter("ignore", WeakPlanWarning)  # of small cells
    for overlap in ("cells", "attributes"):
        # seeded, so that this page repeats itself: never do so with records of people
        model.set_params(overlap=overlap, random_state=0)
        model.fit(adult.data, adult.target, groups=groups)
        losses[overlap] = model.predict_proba(held_out.data)[:, 1]
        weights[overlap] = model.group_weights_
table = group_table(
    held_out.target, losses, groups=of_held_out, metrics="log_loss", overlap="attributes"
)
print(table.assign(weight=weights["attributes"]).round(3))
print(f"worst: {table.iloc[:, 1:].max().round(3).to_dict()}")

# %%
# Bars are the fit for attributes, diamonds that for cells: every value of every attribute loses
# less where all of them are groups than where their cells are, some of which have few people.

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
names, places = [f"{name}: {value}" for name, value in table.index], np.arange(len(table))
ax.barh(places, table["attributes log_loss"], height=0.7, label="every value is a group")
ax.plot(table["cells log_loss"], places, "D", color="C1", label="every cell is a group")
ax.set(yticks=places, yticklabels=names, xlabel="mean log loss, held out")
ax.invert_yaxis()
ax.legend()

# %%
# An audit of the cells serves every attribute: one release, and the counts of a value are sums of
# those of its cells. Are those who earn more found as often, whoever they are?

audit = GroupAudit(
    epsilon=1.0,
    group_labels=list(product(*(sorted(set(groups[name])) for name in groups))),
    random_state=0,
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    result = audit.run(held_out.target, losses["attributes"], of_held_out)
for name, of_attribute in result.by_attribute().items():
    print(f"{name}: {of_attribute.verdict('true_positive_rate')}\n")
print(f"epsilon = {result.privacy_.epsilon:.3g}, for all of them together")
