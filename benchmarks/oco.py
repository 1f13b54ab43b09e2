"""Solvers on fresh records: slopes, numbers of groups, defaults.

`python benchmarks/oco.py` prints all, `python benchmarks/oco.py slopes` (or `groups`, `crossover`,
`defaults`) one table: on real data epsilon = 1, delta = 1e-5, five seeds, mean and standard
error; else the population excess where the optimum is known. `papers.py` has the paper's schedule
beside the plan on real data.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from common import excess_table, run_tables, sweep, weights_of_runs
from rates_worlds import HardWorld

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.datasets import make_worst_group_classification
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, OCO, PhasedERM

DATA_SETS = ("adult", "law-school", "minneapolis-stops", "census-income-kdd")
N_SEEDS = 5
PAPER = OCO(schedule="paper", noise="toeplitz")
FACTS = {"fit_intercept": False, "data_norm": 1.0, "neighbours": "replace-one-within-group"}


def population_excess(solver: Any, n_groups: int, n_records: int) -> float:
    """Return the mean excess population risk of fits on samples, at epsilon = 1."""
    population = make_worst_group_classification(
        n_groups=n_groups, n_features=5, radius=5.0, group_sizes=2, random_state=0
    ).population
    result = []
    for seed in range(4):
        X, y, groups = population.sample(n_records // n_groups, random_state=seed)
        facts = {"solver": solver, "radius": population.radius, "random_state": seed}
        model = DPWorstGroupClassifier(1.0, 1e-6, **facts, **FACTS)
        result.append(population.excess_risk(model.fit(X, y, groups=groups).coef_))
    return float(np.mean(result))


def slopes() -> None:
    """Print excess against records, beside the exponent -1/2 of Corollary 8.

    The slope is over the points below half of what predicting nothing costs.
    """
    made = make_worst_group_classification(
        n_groups=4, n_features=5, radius=5.0, group_sizes=2, random_state=0
    )
    nothing = made.population.excess_risk(np.zeros(5))
    solvers = {
        "oco": OCO(max_rounds=1024),
        "oco, sampled": OCO(play="sampled", max_rounds=1024),
    }
    sweep(
        "excess population risk by records, 4 groups, 5 weights, epsilon = 1; predicting nothing: "
        f"{nothing:.4f}",
        [8_000 * 4**k for k in range(5)],
        {name: (partial(population_excess, solver, 4), -0.5) for name, solver in solvers.items()},
        enough=nothing / 2,
    )


def groups() -> None:
    """Print excess against the number of groups at a fixed number of records."""
    solvers = {
        "oco, weighted": OCO(play="weighted"),
        "oco, sampled": OCO(play="sampled"),
        "phased-erm": PhasedERM(),
        "mgr": MGR(),
    }
    curves = {
        name: (partial(population_excess, solver, n_records=40_000), "–")
        for name, solver in solvers.items()
    }
    title = "excess population risk by groups, 40,000 records, 5 weights, epsilon = 1"
    sweep(title, (2, 8, 32, 128), curves)


class HardOracle(SampleOracle):
    """Draws single records of a `HardWorld`."""

    def __init__(self, world: HardWorld, rng: np.random.Generator) -> None:
        self.world, self.rng = world, rng

    def draw(self, group: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return sign vectors for the hard group, zeros for the others."""
        d = self.world.n_features
        if group > 0:
            return np.zeros((size, d)), np.zeros(size)
        positive = self.rng.random((size, d)) < 0.5 + 0.5 * self.world.mean * np.sqrt(d)
        return np.where(positive, 1.0, -1.0) / np.sqrt(d), np.ones(size)


def hard_excess(solver: Any, p: int, *, d: int, n_draws: int, n_seeds: int) -> float:
    """Return the mean excess on the worst member of the hard family."""

    def excess_of(signal: float, seed: int) -> float:
        world = HardWorld(p, d, signal=signal, seed=seed)
        oracle = HardOracle(world, np.random.default_rng([seed, 1]))
        problem = replace(world.problem(n_draws // p), fresh_calls=1)
        if isinstance(solver, OCO):
            problem = replace(problem, group_sizes=(np.inf,) * p)
        (weights,) = weights_of_runs(solver, problem, oracle, [seed], Budget(1.0, 1e-6))
        return world.excess(weights)

    return max(
        float(np.mean([excess_of(signal, seed) for seed in range(n_seeds)]))
        for signal in (1.0, 0.25, 0.0625)
    )


def crossover() -> None:
    """Print excess against the number of groups where records are drawn from oracles.

    Phased ERM draws as many of every group, the game as the group weights say. The paper predicts
    that the game is better for p between about K/d and K.
    """
    n_draws = 64_000
    # single records are slow, and what is to be seen there needs fewer seeds
    solvers = {
        "phased-erm": (PhasedERM(), 8),
        "oco": (OCO(play="sampled", n_rounds=1000, batch_size=32, weight_fraction=0.5), 8),
        "phased-erm, paper": (PhasedERM(schedule="paper"), 8),
        "oco, paper": (replace(PAPER, n_rounds=n_draws // 2), 2),
    }
    for d in (16, 64, 256):
        facts = {"d": d, "n_draws": n_draws}
        sweep(
            f"excess population risk by groups, {n_draws:,} draws, {d} weights, epsilon = 1; "
            f"predicting nothing: 0.2500; K/d = {n_draws // d:,}",
            (4, 8, 16, 32, 64, 128, 256),
            {
                name: (partial(hard_excess, solver, n_seeds=n_seeds, **facts), "–")
                for name, (solver, n_seeds) in solvers.items()
            },
        )


def defaults() -> None:
    """Print the excess for other values of the parameters, one at a time."""
    trials: list[dict[str, Any]] = [
        {},
        *({"initial_distance": value} for value in (0.2, 0.3, 0.6)),
        *({"averaging": value} for value in (0.0, 1.0, 4.0)),
        *({"max_rounds": value} for value in (64, 128, 1024)),
        *({"noise": value} for value in ("tree", "independent")),
    ]
    variants = {str(each): {"solver": OCO(**each)} for each in trials}
    excess_table("excess worst-group risk", variants, DATA_SETS, N_SEEDS)


if __name__ == "__main__":
    run_tables({e.__name__: e for e in (slopes, groups, crossover, defaults)})
