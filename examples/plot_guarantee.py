"""
What a guarantee says
=====================

A pair (ε, δ) is one point of a curve. The same noise promises a smaller ε at a larger δ and the
other way round, and all of these promises hold at once. This page draws the whole curve for two
budgets, and then what it means for somebody who tests whether one record was in the data.

No record is read here: a guarantee follows from the plan.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier

DELTA = 1e-6
SIZES = [18_000, 1_300, 1_000]

guarantees = {
    epsilon: DPWorstGroupClassifier(epsilon, DELTA).plan(group_sizes=SIZES, n_features=4).guarantee
    for epsilon in (0.5, 1.0, 3.0)
}

# %%
# δ at every ε
# ------------
#
# The circles are the budgets that were asked for. Read the middle curve at ε = 0.5, say: the
# fit that was paid for with ε = 1 at δ = 10⁻⁶ also keeps ε = 0.5 at the δ of the curve.

epsilons = np.linspace(0.0, 4.0, 200)
figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for asked, guarantee in guarantees.items():
    (line,) = axes.plot(epsilons, guarantee.profile(epsilons), label=f"asked for ε = {asked:g}")
    axes.plot(asked, DELTA, "o", color=line.get_color(), fillstyle="none")
axes.set(xlabel="ε", ylabel="δ", yscale="log", ylim=(1e-12, 1), xlim=(0, 4))
axes.legend()
plt.show()

# %%
# What a test can find out
# ------------------------
#
# An attacker looks at everything that was released and decides which of two records was used. The
# curve is the least fraction of misses that any test can have, for each fraction of false alarms.
# On the dashed line the test is a coin that does not look at the release at all. The closer a curve
# is to it, the less there is to find out.

alphas = np.linspace(0.0, 1.0, 201)
figure, axes = plt.subplots(figsize=(5.0, 4.6), layout="constrained")
axes.plot(alphas, 1 - alphas, "k--", linewidth=1, label="guessing")
for asked, guarantee in guarantees.items():
    axes.plot(alphas, guarantee.tradeoff(alphas), label=f"asked for ε = {asked:g}")
axes.set(xlabel="false alarms", ylabel="misses, at least", xlim=(0, 1), ylim=(0, 1), aspect="equal")
axes.legend()
plt.show()

# %%
# The same in numbers, and for a person with five rows. Whoever has k rows is k times as visible in
# the scale of the noise, and more than k times in ε.

titles = ("asked for", "rows", "epsilon", "right at most", "found at 5% false alarms")
print("".join(f"{title:>{len(title) + 2}}" for title in titles))
for asked, guarantee in guarantees.items():
    for rows in (1, 5):
        person = guarantee.for_records(rows)
        right = (1 + float(person.profile(0.0))) / 2
        result = 1 - float(person.tradeoff(0.05))
        print(f"{asked:>11g}{rows:>6}{person.epsilon:>9.2f}{right:>15.1%}{result:>26.1%}")
