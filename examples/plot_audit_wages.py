"""
Wages: who is paid less than a model expects?
=============================================

A model of hourly earnings that knows age and education says what is usual. By construction half of
all people earn less than its median. Is it half of the women, too? The records are full-time
workers of the Current Population Survey; a regression becomes a yes or a no by asking who is below.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import SeededNoiseWarning, UngroupedWarning
from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay

survey = load_dataset("cps-hourly-earnings", as_frame=True)
labels = list(survey.group_labels)
X, X_held_out, y, y_held_out, _, groups = train_test_split(
    survey.data, survey.target, survey.groups, test_size=0.5, random_state=0
)

# %%
# Gender and region are not columns of the model, and it learns without groups: it is to say what is
# usual for all, not to treat anybody well. The absolute error is least at the median.

usual = DPWorstGroupRegressor(
    epsilon=1.0,
    delta=1e-6,
    loss="absolute_error",
    data_norm=survey.data_norm,
    target_bounds=survey.target_bounds,
    random_state=0,
)  # seeded, so that this page repeats itself: never do so with records of people
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    warnings.simplefilter("ignore", UngroupedWarning)  # what is usual among all is wanted
    usual.fit(X, y)
print(f"the model: epsilon = {usual.privacy_.epsilon:.3g}")

# %%
# The audit is of the other half of the people. Its outcome is whether somebody earns at least what
# is usual, its "decision" whether they have a degree, 16 years of education. One release of
# counts, in eight groups, tells for whom earning as usual is rare (the base rate), and how rare
# among people with a degree (the precision of a degree as a sign of it).

outcome = np.where(y_held_out < usual.predict(X_held_out), "less", "usual or more")
degree = np.where(X_held_out["education"] < 0.6, "less", "usual or more")  # 0.6 is 16 years
audit = GroupAudit(
    epsilon=1.0, group_labels=labels, classes=("less", "usual or more"), random_state=0
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    result = audit.run(outcome, degree, groups, kind="decisions")
print(f"the audit: epsilon = {result.privacy_.epsilon:.3g}\n")
for metric, whom in (("base_rate", "all people"), ("precision", "people with a degree")):
    worst = result.worst_groups(metric)
    print(f"of {whom}, may earn as usual least often: {'; '.join(map(str, worst.groups))}")
    print(f"  between {worst.low:.1%} and {worst.high:.1%} of the worst-off group do")

# %%
# Not half of the women: about four in ten, in every region, and six in ten of the men.

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
GroupMetricDisplay.from_audit(
    result, "base_rate", ax=ax, title="Earns at least what is usual for age and education"
)
ax.set_xlabel("fraction of the group, 95 % intervals (noise and chance)")
plt.show()

# %%
# Does a degree close the gap? Each group without regard to education, and those with a degree.

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for shift, metric, name in ((-0.15, "base_rate", "all"), (0.15, "precision", "with a degree")):
    color, marker = ("C0", "o") if shift < 0 else ("C1", "s")
    for place, rate in enumerate(result.rates(metric)):
        ax.plot([rate.low, rate.high], [place + shift] * 2, color=color, linewidth=2)
        label = None if place else name
        ax.plot(rate.estimate, place + shift, marker, color=color, label=label)
ax.axvline(0.5, color="black", linewidth=1, linestyle=":")
ax.set_yticks(range(len(labels)), labels)
ax.invert_yaxis()
ax.set(xlabel="fraction that earns at least what is usual, 95 % intervals (noise and chance)")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
plt.show()

# %%
# It narrows it, and does not close it. The model compares people of one age and education, so this
# is no effect of schooling; all work full time. Why it is so – occupations, careers with a pause,
# discrimination – no table of five columns can tell. A model that sets wages by what is usual, or
# says what a fair offer is, would repeat it.
