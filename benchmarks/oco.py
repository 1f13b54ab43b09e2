"""
The online solver on fresh records: excess, time, slopes
========================================================

`python benchmarks/oco.py` prints all, `python benchmarks/oco.py excess` (or `speed`, `slopes`,
`groups`, `crossover`, `defaults`) one table.

- excess: epsilon = 1, delta = 1e-5, five seeds, on the training records of four data sets, mean and
  standard error, beside MGR, phased ERM and predicting nothing; seconds of an unseeded fit, and as
  planned.
- speed: 200,000 rounds of one record a player, 50 weights, 10 groups, seeded; with the profile.
- slopes: population excess against records on synthetic groups with known optimum, beside the
  exponent -1/2 of Corollary 8; over the points below half of what predicting nothing costs.
- groups: population excess against groups at 40,000 given records, beside MGR and phased ERM.
- crossover: population excess against groups for 64,000 draws from sample oracles, on the hard
  family of `benchmarks/rates.py`: phased ERM draws as many of every group, the game as the group
  weights say. The paper predicts that the game is better for p between about K/d and K.
- defaults: the excess table's first column for other values of the parameters.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from dataclasses import replace

import numpy as np
from common import DELTA, EPSILON, excess_of_fits, load_dataset, make_estimator, zero_excess
from rates_worlds import HardWorld

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import make_worst_group_classification
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR, OCO, FreshSolver, PhasedERM

DATA_SETS = ("adult", "law-school", "minneapolis-stops", "census-income-kdd")
N_SEEDS = 5


def cell(values: np.ndarray) -> str:
    """Return a mean with its standard error."""
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def excess() -> None:
    """Print the excess of the solvers, and what an unseeded fit takes."""
    columns = {
        "oco": OCO(),
        "oco, sampled": OCO(play="sampled"),
        "oco, paper": OCO(schedule="paper", noise="toeplitz"),
        "mgr": MGR(),
        "phased-erm": PhasedERM(),
    }
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g}, {N_SEEDS} seeds: excess worst-group risk\n")
    titles = "".join(f"{name:>18}" for name in columns)
    print(f"{'':<20}{'records':>9}{titles}{'nothing':>9}{'rounds':>8}{'seconds':>9}{'planned':>9}")
    for name in DATA_SETS:
        data = load_dataset(name)
        cells = [cell(excess_of_fits(data, N_SEEDS, solver=solver)) for solver in columns.values()]
        for _ in range(2):  # the first imports the secure sampler
            start = time.perf_counter()
            model = make_estimator(data, solver=OCO())
            model.fit(data.data, data.target, groups=data.groups)
            seconds = time.perf_counter() - start
        print(
            f"{name:<20}{len(data.target):>9,}"
            + "".join(f"{text:>18}" for text in cells)
            + f"{zero_excess(data):>9.4f}{model.n_iter_:>8}{seconds:>9.2f}"
            f"{model.plan_.predicted_seconds:>9.2f}",
            flush=True,
        )


def speed() -> None:
    """Print what 200,000 rounds of single records take, and where the time goes."""
    rng = np.random.default_rng(0)
    n_records, n_weights, n_groups, n_rounds = 480_000, 50, 10, 200_000
    X = rng.normal(size=(n_records, n_weights)) / np.sqrt(n_weights)
    groups, y = rng.integers(0, n_groups, n_records), (X[:, 0] > 0).astype(int)
    solver = OCO(play="sampled", n_rounds=n_rounds, batch_size=1, weight_share=0.5, group_rate=1e-9)
    model = DPWorstGroupClassifier(
        solver=solver, random_state=0, fit_intercept=False, data_norm=1.0
    )
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y, groups=groups)
    print(
        f"{model.n_iter_:,} rounds, {n_weights} weights, {n_groups} groups, seeded: "
        f"{time.perf_counter() - start:.1f} s, {time.process_time() - cpu:.1f} s of processor; "
        f"with secure noise planned {model.plan_.predicted_seconds:.0f} s\n"
    )
    profile = cProfile.Profile()
    profile.runcall(model.fit, X, y, groups=groups)
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


def population_excess(solver, population, sizes, *, epsilon=1.0, n_seeds=4) -> np.ndarray:
    """Return exact excess population risks of fits on samples."""
    found = []
    for seed in range(n_seeds):
        X, y, groups = population.sample(sizes, random_state=seed)
        model = DPWorstGroupClassifier(
            epsilon,
            1e-6,
            solver=solver,
            radius=population.radius,
            fit_intercept=False,
            random_state=seed,
            data_norm=1.0,
        )
        found.append(population.excess_risk(model.fit(X, y, groups=groups).coef_))
    return np.array(found)


def slopes() -> None:
    """Print excess against records, and the slopes of its logarithm."""
    made = make_worst_group_classification(
        n_groups=4, n_features=5, radius=5.0, group_sizes=2, random_state=0
    )
    records = [8_000 * 4**k for k in range(5)]
    nothing = made.population.excess_risk(np.zeros(5))
    print(
        "\nexcess population risk, 4 groups, 5 weights, epsilon = 1, and its slope (-1/2 proved); "
        f"predicting nothing: {nothing:.4f}"
    )
    print(f"{'':<16}" + "".join(f"{n:>11,}" for n in records) + f"{'slope':>8}")
    solvers = {
        "oco": OCO(max_rounds=1024),
        "oco, sampled": OCO(play="sampled", max_rounds=1024),
        "oco, paper": OCO(schedule="paper", noise="toeplitz"),
    }
    for name, solver in solvers.items():
        means = np.array(
            [population_excess(solver, made.population, n // 4).mean() for n in records]
        )
        counted = means < nothing / 2
        slope = np.polyfit(np.log(records)[counted], np.log(means[counted]), 1)[0]
        shown = "".join(f"{mean:>11.4f}" for mean in means)
        print(f"{name:<16}{shown}{slope:>8.2f}", flush=True)


def groups() -> None:
    """Print excess against the number of groups at a fixed number of records."""
    counts, n_records = (2, 8, 32, 128), 40_000
    solvers = {
        "oco": OCO(),
        "oco, sampled": OCO(play="sampled"),
        "phased-erm": PhasedERM(),
        "mgr": MGR(),
    }
    print(f"\nexcess population risk, {n_records:,} records, 5 weights, epsilon = 1, by groups")
    print(f"{'':<16}" + "".join(f"{p:>11}" for p in counts))
    for name, solver in solvers.items():
        means = []
        for p in counts:
            made = make_worst_group_classification(
                n_groups=p, n_features=5, radius=5.0, group_sizes=2, random_state=0
            )
            means.append(population_excess(solver, made.population, n_records // p).mean())
        print(f"{name:<16}" + "".join(f"{mean:>11.4f}" for mean in means), flush=True)


class HardOracle:
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


def hard_excess(solver, p: int, d: int, n_draws: int, n_seeds: int) -> float:
    """Return the mean excess on the worst member of the hard family."""
    found = []
    for signal in (1.0, 0.25, 0.0625):
        of_signal = []
        for seed in range(n_seeds):
            world = HardWorld(p, d, signal=signal, seed=seed)
            rng, problem = np.random.default_rng([seed, 1]), world.problem(n_draws // p)
            data = world.draw(n_draws // p, rng)
            if isinstance(solver, FreshSolver):
                problem = replace(problem, group_sizes=(np.inf,) * p)
                data = HardOracle(world, rng)
            plan = solver.plan(problem, Budget(1.0, 1e-6))
            solution = solver.run(plan, data, NoiseSource(seed, plan.releases))
            of_signal.append(world.excess(solution.weights))
        found.append(np.mean(of_signal))
    return max(found)


def crossover() -> None:
    """Print excess against the number of groups where records are drawn from oracles."""
    n_draws, counts = 64_000, (4, 8, 16, 32, 64, 128, 256)
    # single records are slow, and what is to be seen there needs fewer seeds
    rows = (
        ("phased-erm", PhasedERM(), 8),
        ("oco", OCO(play="sampled", n_rounds=1000, batch_size=32, weight_share=0.5), 8),
        ("phased-erm, paper", PhasedERM(schedule="paper"), 8),
        ("oco, paper", OCO(schedule="paper", noise="toeplitz", n_rounds=n_draws // 2), 2),
    )
    for d in (16, 64, 256):
        print(
            f"\nexcess population risk, {n_draws:,} draws, {d} weights, epsilon = 1, by groups; "
            f"predicting nothing: 0.2500; K/d = {n_draws // d:,}"
        )
        print(f"{'':<20}" + "".join(f"{p:>9}" for p in counts))
        for name, solver, n_seeds in rows:
            means = [hard_excess(solver, p, d, n_draws, n_seeds) for p in counts]
            print(f"{name:<20}" + "".join(f"{mean:>9.4f}" for mean in means), flush=True)


def defaults() -> None:
    """Print the excess for other values of the parameters, one at a time."""
    trials = [
        {},
        *({"aim": value} for value in (0.2, 0.3, 0.6)),
        *({"averaging": value} for value in (0.0, 1.0, 4.0)),
        *({"max_rounds": value} for value in (64, 128, 1024)),
        *({"noise": value} for value in ("honaker", "tree", "independent")),
        {"learner": "gradient-descent"},
    ]
    print(f"{'':<30}" + "".join(f"{name:>20}" for name in DATA_SETS))
    for parameters in trials:
        cells = [
            cell(excess_of_fits(load_dataset(name), N_SEEDS, solver=OCO(**parameters)))
            for name in DATA_SETS
        ]
        print(f"{parameters!s:<30}" + "".join(f"{text:>20}" for text in cells), flush=True)


if __name__ == "__main__":
    tables = {
        "excess": excess,
        "speed": speed,
        "slopes": slopes,
        "groups": groups,
        "crossover": crossover,
        "defaults": defaults,
    }
    for wanted in sys.argv[1:] or tables:
        tables[wanted]()
