"""What it costs to protect who is in which group.

Mean excess worst-group risk over the reference optimum at delta = 1e-5, of fits with public groups
and with neighbours="replace-one", 16 pairs with the same seed. The ratio is that of the means, its
interval 95 % of a bootstrap over the pairs. Solvers, data sets, epsilon=1, seeds=16 may be named:

    python benchmarks/replace_one.py [mgr] [phased-erm] [moments] [adult] [epsilon=1] [fraction]

"fraction" prints fits with other fractions of the budget for the counts; `small_groups.py` what the
worst group loses among new people.
"""

from __future__ import annotations

import numpy as np
from common import asked, constants, excess_of_fits, facts_asked, public_facts, row

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.estimators import planning
from sklearn_dpwg.solvers import MGR

CLASSIFICATION = ("adult", "law-school", "compas")
REGRESSION = ("cps-hourly-earnings", "cps-weekly-wages")
STREAM = ("oco", "online-to-batch")
BY_SOLVER = dict.fromkeys(["mgr", "phased-erm", *STREAM], CLASSIFICATION) | {"moments": REGRESSION}
FRACTIONS = (0.01, 0.03, 0.1)
N_SEEDS, N_BOOTSTRAP = 16, 2000


def compare(name: str, solver: object, epsilon: float, n_seeds: int, fraction: float) -> None:
    """Print a line about fits with public and with hidden groups."""
    data = load_dataset(name)
    settings = {"epsilon": epsilon, "solver": solver}
    public = excess_of_fits(data, n_seeds, **settings)
    with constants(planning, COUNT_FRACTION=fraction):
        private = excess_of_fits(data, n_seeds, **settings, neighbours="replace-one")
    drawn = np.random.default_rng(0).integers(n_seeds, size=(N_BOOTSTRAP, n_seeds))
    ratios = private[drawn].mean(axis=1) / public[drawn].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    means = [f"{1e3 * each.mean():.2f}" for each in (public, private)]
    ratio = f"{private.mean() / public.mean():.3f} [{low:.3f}, {high:.3f}]"
    row(name, (f"{min(public_facts(data)['group_sizes']):,}", *means, ratio))


if __name__ == "__main__":
    facts = facts_asked()
    epsilon, n_seeds = facts.get("epsilon", 1.0), int(facts.get("seeds", N_SEEDS))
    fractions = (
        FRACTIONS if "fraction" in asked(["fraction", "default"], extra=["fraction"]) else (0.03,)
    )
    for solver in asked(BY_SOLVER):
        # full passes, as in the other tables of MGR
        made = MGR(sampling_rate=1.0) if solver == "mgr" else solver
        for fraction in fractions:
            print(f"\n{solver}, ε = {epsilon:g}, fraction of the counts {fraction:g}; excess × 10³")
            row("", ("smallest", "in group", "any", "ratio"))
            for name in asked(BY_SOLVER[solver]):
                compare(name, made, epsilon, n_seeds, fraction)
