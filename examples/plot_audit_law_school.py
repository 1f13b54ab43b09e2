"""
Law school: would one threshold do?
===================================

A law school offers help to students who might fail the bar examination. A private model says how
likely that is, from what is known at admission, and help goes to whoever has a risk of at least
20 %. Do those who will fail have the same chance of help, whatever their race? And if they do not,
is it better to have a threshold for each group?
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay
from sklearn_dpwg.postprocessing import DPThresholdClassifier

students = load_dataset("law-school")
labels = list(students.group_labels)
failed = 1 - students.target
X, X_held_out, y, y_held_out, groups, groups_held_out = train_test_split(
    students.data, failed, students.groups, test_size=0.5, random_state=0, stratify=students.groups
)

# %%
# Thresholds with which the same fraction of those who fail is offered help in each group. One
# budget pays for the model and for one noisy histogram of its scores, and thresholds follow from
# that. To miss somebody is thought seven times as bad as to help somebody who would have passed;
# failing is rare, so the public edges of the bins are narrow where scores are low.

own = DPThresholdClassifier(
    DPWorstGroupClassifier(data_norm=students.data_norm),
    epsilon=2.0,
    constraint="true_positive_rate",
    miss_cost=7.0,
    group_labels=labels,
    score_edges=[0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6],
    random_state=0,
)  # seeded, so that this page repeats itself: never do so with records of people
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    warnings.simplefilter("ignore", WeakPlanWarning)  # a small group "Other", judged below
    own.fit(X, y, groups)
print(f"model and thresholds: epsilon = {own.privacy_.epsilon:.3g}")

# %%
# All that was released beside the model: how many students of each group have which scores, with
# noise. Lines are the thresholds.

figure, axes = plt.subplots(1, 5, figsize=(10, 2.8), layout="constrained")
edges = own.score_edges_
for ax, label, counts, threshold in zip(
    axes, own.group_labels_, own.histogram_, own.thresholds_, strict=True
):
    density = counts / (edges[1:] - edges[:-1]) / max(counts.sum(), 1)
    ax.stairs(density[0], edges, fill=True, color="C0", alpha=0.4, label="passed")
    ax.stairs(density[1], edges, color="C1", linewidth=2, label="failed")
    ax.axvline(0.2, color="black", linestyle=":", label="one for all")
    ax.axvline(threshold, color="black", label="its own")
    ax.set(title=f"{label}: {threshold:.2f}", xlim=(0, 0.7), xlabel="risk", yticks=[])
axes[-1].legend(fontsize="small", frameon=False)
plt.show()

# %%
# An audit each of both ways of deciding, of students whom neither model nor thresholds ever saw.

offers = {
    "one threshold": (own.predict_proba(X_held_out)[:, 1] >= 0.2).astype(int),
    "a threshold for each group": own.predict(X_held_out, groups_held_out),
}
audit = GroupAudit(epsilon=1.0, group_labels=labels, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    results = {
        name: audit.run(y_held_out, offered, groups_held_out, kind="decisions")
        for name, offered in offers.items()
    }

figure, axes = plt.subplots(2, 1, figsize=(7, 5.6), layout="constrained", sharex=True)
for ax, (name, result) in zip(axes, results.items(), strict=True):
    GroupMetricDisplay.from_audit(
        result, "true_positive_rate", ax=ax, title=f"Offered help, of those who fail: {name}"
    )
    ax.set_xlabel("")
    gap = result.worst_groups("true_positive_rate").gap
    print(f"{name}: gap {gap.estimate:.0%}, at least {gap.low:.0%} and at most {gap.high:.0%}")
plt.show()

# %%
# With one threshold nearly all Black students who fail are offered help, and little more than half
# of the white ones: grades and tests of Black students were lower, so the model gives them higher
# risks. Thresholds of their own make chances more equal by taking help away from those who had
# most of it; hardly anybody gains. What it costs follows from the same counts:

for name, result in results.items():
    cells = result.cells().sum(axis=0)  # true outcome by offer
    cost = (7 * cells[1, 0] + cells[0, 1]) / cells.sum()
    print(f"{name}: {cells[:, 1].sum() / cells.sum():.0%} are helped, cost {cost:.2f} a student")

# %%
# So here one threshold would do, unless the law or the school wants equal chances as such, and then
# the law has something to say about thresholds by race, too. The small group "Other", some 30 of
# whom fail, had its threshold mostly from all others, and no audit can tell how it fares.
