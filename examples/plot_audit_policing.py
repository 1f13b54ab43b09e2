"""
Policing: whom do officers search, and in which stops?
======================================================

34,480 police stops in Minneapolis in 2017. People whom the officer recorded as Native American or
Black were searched most often. Were they stopped for other things? One private release answers for
all stops, for stops of a "suspicious person", and for traffic stops.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay

stops = load_dataset("minneapolis-stops", as_frame=True)
# a decision, in the words of the kinds of stops
searched = np.where(stops.target.astype(float) > 0.0, "suspicious", "traffic")
kind = np.where(stops.data["problem=suspicious"] == 1.0, "suspicious", "traffic")

# %%
# The decision is the search. As the outcome of an audit the kind of stop will do: the counts then
# hold searches within each kind, so that "true positives" are searches in stops of suspicious
# persons, and "false positives" those in traffic stops. What a counting table is called does not
# bind its reader.
#
# Before a record is read, a plan says what an ε will buy.

audit = GroupAudit(
    epsilon=0.5,
    group_labels=list(stops.group_labels),
    classes=("traffic", "suspicious"),
    random_state=0,
)  # seeded, so that this page repeats itself: never do so with records of people
print(audit.plan(group_sizes=dict(stops.groups.value_counts())))

# %%
# The release, and who may be searched most often. A search is no favour: the *largest* rate is the
# worst place here. With a few hundred stops a group's interval is wide, and at ε = 0.5 that is
# chance more than noise.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    result = audit.run(kind, searched, stops.groups, kind="decisions")
print(f"epsilon = {result.privacy_.epsilon:.3g}")
columns = {
    "selection_rate": "all stops",
    "true_positive_rate": "suspicious person",
    "false_positive_rate": "traffic",
}
for metric, name in columns.items():
    rates = sorted(result.rates(metric), key=lambda rate: -rate.low)
    shown = ", ".join(f"{rate.group} {rate.low:.3f} to {rate.high:.3f}" for rate in rates[:3])
    print(f"{name}: {shown}")

# %%
# The kind of stop does not explain it: within both kinds the same two groups are searched most
# often. It explains some of the distance, and *why* it is there no table of counts can say: not who
# was stopped in the first place, nor what officers saw.

figure, axes = plt.subplots(3, 1, figsize=(7, 9), layout="constrained")
for ax, (metric, name) in zip(axes, columns.items(), strict=True):
    display = GroupMetricDisplay(
        sorted(result.rates(metric), key=lambda rate: -rate.estimate),
        answers=[""] * len(stops.group_labels),
        is_private=True,
        confidence=result.confidence,
    )
    display.plot(ax=ax, title=f"Fraction searched: {name}")
    ax.set(xlabel="", xlim=(0.0, 0.4))
plt.show()
