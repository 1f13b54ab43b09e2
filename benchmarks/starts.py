"""
What a good start saves, and what a bad one costs
=================================================

Some random rows are taken out and called public: the best worst-group model of them, in a ball of
radius 8, is found without privacy, and the private model learns from the others alone, beginning
with 0, with that fit, or with its opposite. Mean excess worst-group risk over the exact optimum of
the private rows, MGR, δ = 1e-5, with two standard errors, and in brackets what the start itself
has; `aim` is the distance from the start, as a share of the radius, that steps are planned for.

    python benchmarks/starts.py [adult] [law-school] [epsilon=1]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from common import load_dataset, make_estimator, unit_risks, worst_risk
from sklearn.utils import Bunch

from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.solvers import MGR

DATA, EPSILONS, N_SEEDS = ("law-school", "adult"), (0.1, 1.0), 4
N_PUBLIC, AIMS = (3000, 300), (0.3, 0.1, 0.03)


def split(data: Any, n_public: int) -> tuple[Any, Any]:
    """Return some random rows, and the data set without them."""
    order = np.random.default_rng(0).permutation(len(data.target))
    parts = []
    for rows in (order[:n_public], np.sort(order[n_public:])):
        taken = {name: np.asarray(data[name])[rows] for name in ("data", "target", "groups")}
        parts.append(Bunch(**{**data, **taken}))
    return parts[0], parts[1]


def public_start(public: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercept of the public rows' own best model."""
    model = make_estimator(public, float("inf"), radius=8.0)
    model.fit(public.data, public.target, groups=public.groups)
    return model.coef_, model.intercept_


def excess(data: Any, risks: Any, optimum: float, epsilon: float, **parameters: Any) -> np.ndarray:
    """Return the excess of seeded fits."""
    found = []
    for seed in range(N_SEEDS):
        model = make_estimator(data, epsilon, random_state=seed, **parameters)
        model.fit(data.data, data.target, groups=data.groups)
        found.append(worst_risk(model, risks, data) - optimum)
    return np.array(found)


def excess_of_weights(data: Any, risks: Any, optimum: float, start: Any) -> float:
    """Return the excess of a start, inside the ball."""
    weights = np.append(start[0] * data.data_norm, start[1] / 0.35)
    weights *= min(1.0, 20.0 / max(1e-300, float(np.linalg.norm(weights))))
    weights[-1] *= 0.35
    return float(risks.risks(weights).max()) - optimum


def table(name: str, epsilons: tuple[float, ...]) -> None:
    """Print what each start has."""
    for n_public in N_PUBLIC:
        public, private = split(load_dataset(name), n_public)
        risks = unit_risks(private)
        optimum = float(risks.risks(worst_group_optimum(risks, radius=20.0).weights).max())
        good = public_start(public)
        starts = {"0": None, "public fit": good, "its opposite": (-good[0], -good[1])}
        for epsilon in epsilons:
            print(f"\n{name}, epsilon = {epsilon:g}, {n_public:,} public rows; by aim: {AIMS}")
            for label, start in starts.items():
                cells = []
                for aim in AIMS:
                    solver = MGR(aim=aim)
                    values = excess(private, risks, optimum, epsilon, solver=solver, start=start)
                    error = 2.0 * values.std(ddof=1) / np.sqrt(N_SEEDS)
                    cells.append(f"{values.mean():.4f} ± {error:.4f}")
                own = start if start is not None else (0.0 * good[0], 0.0 * good[1])
                alone = f"({excess_of_weights(private, risks, optimum, own):.4f})"
                print(f"  {label:<14}{alone:<10}", "   ".join(cells), flush=True)


if __name__ == "__main__":
    asked = sys.argv[1:]
    given = tuple(float(word[8:]) for word in asked if word.startswith("epsilon="))
    for dataset in [name for name in DATA if name in asked] or DATA:
        table(dataset, given or EPSILONS)
