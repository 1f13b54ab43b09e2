"""What a good start saves, and what a bad one costs.

Some random rows are taken out and called public: the best worst-group model of them, in a ball of
radius 8, is found without privacy, and the private model learns from the others alone, beginning
with 0, with that fit, or with its opposite. Mean excess worst-group risk over the exact optimum of
the private rows, MGR, δ = 1e-5, with two standard errors, and in brackets what the start itself
has; `aim` is the distance from the start, as a share of the radius, that steps are planned for.

    python benchmarks/starts.py [adult] [law-school] [epsilon=1]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import asked, cell, excess_of_fits, facts_asked, make_estimator, unit_risks
from sklearn.utils import Bunch

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.solvers import MGR

DATA, EPSILONS, N_SEEDS = ("law-school", "adult"), (0.1, 1.0), 4
N_PUBLIC, AIMS = (3000, 300), (0.3, 0.1, 0.03)


def split(data: Any, n_public: int) -> tuple[Any, Any]:
    """Return some random rows, and the data set without them."""
    order = np.random.default_rng(0).permutation(len(data.target))

    def part(rows: np.ndarray) -> Bunch:
        taken = {name: np.asarray(data[name])[rows] for name in ("data", "target", "groups")}
        return Bunch(**{**data, **taken})

    return part(order[:n_public]), part(np.sort(order[n_public:]))


def excess_of_weights(data: Any, risks: Any, optimum: float, start: Any) -> float:
    """Return the excess of a start, inside the ball."""
    weights = np.append(start[0] * data.data_norm, start[1] / 0.35)
    weights *= min(1.0, 20.0 / max(1e-300, float(np.linalg.norm(weights))))
    weights[-1] *= 0.35
    return float(risks.risks(weights).max()) - optimum


def table(name: str, n_public: int, epsilons: list[float]) -> None:
    """Print what each start has."""
    public, private = split(load_dataset(name), n_public)
    risks = unit_risks(private)
    optimum = float(risks.risks(worst_group_optimum(risks, radius=20.0).weights).max())
    model = make_estimator(public, float("inf"), radius=8.0)
    model.fit(public.data, public.target, groups=public.groups)
    good = model.coef_, model.intercept_
    starts = {"0": None, "public fit": good, "its opposite": (-good[0], -good[1])}
    for epsilon in epsilons:
        print(f"\n{name}, epsilon = {epsilon:g}, {n_public:,} public rows; by aim: {AIMS}")
        for label, start in starts.items():
            own = start if start is not None else (0.0 * good[0], 0.0 * good[1])
            alone = f"({excess_of_weights(private, risks, optimum, own):.4f})"
            told = {"epsilon": epsilon, "start": start, "optimum": optimum}
            found = [excess_of_fits(private, N_SEEDS, solver=MGR(aim=aim), **told) for aim in AIMS]
            cells = (cell(values, errors=2.0) for values in found)
            print(f"  {label:<14}{alone:<10}", "   ".join(cells), flush=True)


if __name__ == "__main__":
    facts = facts_asked()
    for dataset in asked(DATA):
        for n_public in N_PUBLIC:
            table(dataset, n_public, [facts["epsilon"]] if facts else list(EPSILONS))
