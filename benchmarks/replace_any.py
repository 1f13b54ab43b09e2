"""
What it costs to protect who is in which group
==============================================

Mean excess worst-group risk over the reference optimum at delta = 1e-5, of fits with public groups
and with neighbours="replace-any", 16 pairs with the same seed. The ratio is that of the means, its
interval 95 % of a bootstrap over the pairs. Solvers, data sets, epsilon=1, seeds=16 may be named:

    python benchmarks/replace_any.py [mgr] [phased-erm] [moments] [adult] [epsilon=1] [share]

"share" prints fits with other shares of the budget for the counts instead.
"""

from __future__ import annotations

import sys

import numpy as np
from common import excess_of_fits, load_dataset

from sklearn_dpwg.solvers import MGR

CLASSIFICATION = ("adult", "law-school", "compas")
REGRESSION = ("cps-hourly-earnings", "cps-weekly-wages")
BY_SOLVER = {"mgr": CLASSIFICATION, "phased-erm": CLASSIFICATION, "moments": REGRESSION}
SHARES = (0.01, 0.03, 0.1)
N_SEEDS, N_BOOTSTRAP = 16, 2000


def compared(name: str, solver: object, epsilon: float, n_seeds: int, **parameters: float) -> str:
    """Return a line about fits with public and with hidden groups."""
    data = load_dataset(name)
    labels = list(data.group_labels)
    hidden = {"neighbours": "replace-any", "group_labels": labels} | parameters
    fits = {"epsilon": epsilon, "solver": solver}
    public_excess = excess_of_fits(data, n_seeds, **fits)
    hidden_excess = excess_of_fits(data, n_seeds, **fits, **hidden)
    drawn = np.random.default_rng(0).integers(n_seeds, size=(N_BOOTSTRAP, n_seeds))
    ratios = hidden_excess[drawn].mean(axis=1) / public_excess[drawn].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    smallest = min(np.unique(data.groups, return_counts=True)[1])
    return (
        f"{name:<22}{smallest:>9,}{1e3 * public_excess.mean():>12.2f}"
        f"{1e3 * hidden_excess.mean():>12.2f}"
        f"{hidden_excess.mean() / public_excess.mean():>9.3f} [{low:.3f}, {high:.3f}]"
    )


if __name__ == "__main__":
    asked = sys.argv[1:]
    facts = dict(word.split("=") for word in asked if "=" in word)
    epsilon, n_seeds = float(facts.get("epsilon", 1.0)), int(facts.get("seeds", N_SEEDS))
    solvers = [word for word in asked if word in BY_SOLVER] or list(BY_SOLVER)
    shares = SHARES if "share" in asked else (0.03,)
    for solver in solvers:
        names = [name for name in BY_SOLVER[solver] if name in asked] or BY_SOLVER[solver]
        for share in shares:
            print(f"\n{solver}, epsilon = {epsilon:g}, share of the counts {share:g}; excess × 10³")
            print(f"{'':<22}{'smallest':>9}{'in group':>12}{'any':>12}{'ratio':>9}", flush=True)
            for name in names:
                # full passes, as in the other tables of MGR
                made = MGR(sampling_rate=1.0) if solver == "mgr" else solver
                print(compared(name, made, epsilon, n_seeds, count_share=share), flush=True)
