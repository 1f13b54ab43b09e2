"""
Health insurance: whom does an offer of help miss?
==================================================

Who has no health insurance is to be called and helped. A model says who might be without; whoever
it gives a risk of at least 20 % is on the list. Of the people who are in fact uninsured, how many
are called, in each ethnic group? And does a risk of 20 % mean the same for everybody? The records
are working-age adults of the Medical Expenditure Panel Survey of 1996.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay

survey = load_dataset("health-insurance")
labels = list(survey.group_labels)
status = np.where(survey.target == 1, "insured", "uninsured")
X, X_held_out, y, y_held_out, groups, groups_held_out = train_test_split(
    survey.data, status, survey.groups, test_size=0.5, random_state=0, stratify=survey.groups
)

model = DPWorstGroupClassifier(
    epsilon=2.0, delta=1e-6, data_norm=survey.data_norm, group_labels=labels, random_state=0
)  # seeded, so that this page repeats itself: never do so with records of people
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    warnings.simplefilter("ignore", WeakPlanWarning)  # a small group "Other", judged below
    model.fit(X, y, groups=groups)
risk = model.predict_proba(X_held_out)[:, list(model.classes_).index("uninsured")]
print(f"the model: epsilon = {model.privacy_.epsilon:.3g}")

# %%
# The list, audited on people whom the model never saw. Besides yes and no, the audit counts scores
# in bins, whose edges are fixed in advance; the threshold is one of them.

audit = GroupAudit(
    epsilon=2.0,
    group_labels=labels,
    classes=("insured", "uninsured"),
    threshold=0.2,
    score_edges=[0.1, 0.2, 0.3, 0.4],
    random_state=0,
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    result = audit.run(y_held_out, risk, groups_held_out)
print(f"the audit: epsilon = {result.privacy_.epsilon:.3g}\n")
worst = result.worst_groups("true_positive_rate")
print(f"may be missed most: {'; '.join(map(str, worst.groups))}")
print(f"reached of the group that is missed most: {worst.low:.0%} to {worst.high:.0%}")

figure, axes = plt.subplots(2, 1, figsize=(7, 4.6), layout="constrained")
for ax, metric, title in (
    (axes[0], "selection_rate", "Is called, of everybody"),
    (axes[1], "true_positive_rate", "Is called, of those without insurance"),
):
    GroupMetricDisplay.from_audit(result, metric, ax=ax, title=title)
    ax.set_xlabel("")
plt.show()

# %%
# The small third group is called about as often as the others, and yet it may be that more than
# half of its uninsured people are missed. Whether it or African-Americans are missed most nobody
# can tell from so few people, and the audit does not pretend to.
#
# Why? For each group and bin of scores, the fraction without insurance. Where a score means what it
# says, the interval meets the box.

edges = [0.0, *result.score_edges, 1.0]
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, label in zip(axes, result.group_labels, strict=True):
    for low, high, fraction in zip(edges[:-1], edges[1:], result.calibration(label), strict=True):
        box = ax.fill_between([low, high], low, high, color="0.85")
        middle = (low + high) / 2
        (line,) = ax.plot([middle] * 2, [fraction.low, fraction.high], "C0", linewidth=2)
        ax.plot(middle, fraction.estimate, "C0o")
    ax.set(title=label, xlabel="risk by the model", xlim=(0, 1), ylim=(0, 1))
box.set_label("what it says")
line.set_label("95 % interval")
axes[0].set_ylabel("fraction without insurance")
axes[-1].legend(loc="upper left", frameon=False)
plt.show()

# %%
# Of the third group many more are uninsured than a risk of 10 to 20 % says: just those whom a
# threshold of 20 % leaves out. A model cannot know from age, work and family what is particular
# about a group that it has few records of. ``DPCalibratedClassifier`` could give each group
# a calibration of its own, and with so few records it would stay close to that of all.
