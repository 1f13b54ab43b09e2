"""
How the excess falls with records and epsilon
=============================================

Where noise is what limits a private fit, theory says that the excess risk of the worst group falls
like 1/K with the records and like 1/ε with the budget; where the sample is the limit, like 1/√K.
Here is a population whose best worst-group risk is known exactly, so the excess can be computed and
need not be estimated. ``benchmarks/rates.py`` measures the same with up to a million records, 64
groups and 256 weights; ``benchmarks/rates.md`` has its slopes.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import make_worst_group_classification
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning

# weak plans and seeded noise are what this page is about
warnings.simplefilter("ignore", WeakPlanWarning)
warnings.simplefilter("ignore", SeededNoiseWarning)

RADIUS, N_GROUPS, N_FEATURES, N_SEEDS = 8.0, 4, 8, 3
population = make_worst_group_classification(
    n_groups=N_GROUPS, n_features=N_FEATURES, radius=RADIUS, group_sizes=2, random_state=0
).population

nothing = population.excess_risk(np.zeros(N_FEATURES))

X, y, groups = population.sample(8_000 // N_GROUPS, random_state=0)
model = DPWorstGroupClassifier(epsilon=1.0, radius=RADIUS, fit_intercept=False, data_norm=1.0)
result = population.excess_risk(model.fit(X, y, groups=groups).coef_)
print(f"8,000 records, epsilon = 1: excess {result:.4f}; predicting nothing: {nothing:.4f}")

# %%
# Two sweeps, two solvers; the dashed lines have the slopes that theory names. To the right the
# curves leave them: there noise is no longer the largest part of the excess.


def excess(solver, n_records, epsilon):
    """Return the mean excess worst-group risk in the population over a few samples."""
    result = []
    for seed in range(N_SEEDS):
        X, y, groups = population.sample(n_records // N_GROUPS, random_state=seed)
        model = DPWorstGroupClassifier(
            epsilon,
            1e-6,
            solver=solver,
            radius=RADIUS,
            fit_intercept=False,
            random_state=seed,
            data_norm=1.0,
        )
        result.append(population.excess_risk(model.fit(X, y, groups=groups).coef_))
    return np.mean(result)


records = np.array([500, 1_000, 2_000, 4_000, 8_000, 16_000])
epsilons = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0])

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4.0), layout="constrained", sharey=True)
for solver in ("phased-erm", "mgr"):
    by_records = np.array([excess(solver, n, 1.0) for n in records])
    by_epsilon = np.array([excess(solver, 8_000, epsilon) for epsilon in epsilons])
    (line,) = left.loglog(records, by_records, "o-", label=solver)
    right.loglog(epsilons, by_epsilon, "o-", color=line.get_color(), label=solver)
    print(f"{solver}, epsilon = 1, records 500 to 16,000: {by_records.round(4)}")
    print(f"{solver}, 8,000 records, epsilon 0.1 to 5:      {by_epsilon.round(4)}")
for axes, values, fraction, label in ((left, records, 0.8, "records"), (right, epsilons, 0.5, "ε")):
    axes.plot(values, fraction * nothing * values[0] / values, "k--", linewidth=1, label="slope −1")
    axes.axhline(nothing, color="grey", linestyle=":", label="predicting nothing")
    axes.set(xlabel=label)
roots = 0.15 * nothing * np.sqrt(records[0] / records)
left.plot(records, roots, "k-.", linewidth=1, label="slope −1/2")
left.set(ylabel="excess worst-group risk", ylim=(nothing / 200, 2 * nothing))
left.legend(fontsize="small")
plt.show()
