"""
The online solver on fresh records: excess, time, slopes
========================================================

`python benchmarks/oco.py` prints all, `python benchmarks/oco.py excess` (or `speed`, `slopes`,
`groups`, `defaults`) one table.

- excess: epsilon = 1, delta = 1e-5, five seeds, on the training records of four data sets, mean and
  standard error, beside MGR and predicting nothing; seconds of an unseeded fit, and as planned.
- speed: 200,000 rounds of one record a player, 50 weights, 10 groups, seeded; with the profile.
- slopes: population excess against records on synthetic groups with known optimum, beside the
  exponent -1/2 of Corollary 8.
- groups: population excess against groups at 40,000 records, beside MGR and phased ERM.
- defaults: the excess table's first column for other values of the parameters.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time

import numpy as np
from common import DELTA, EPSILON, excess_of_fits, load_dataset, make_estimator, zero_excess

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import make_worst_group_classification
from sklearn_dpwg.solvers import MGR, OCO, PhasedERM

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
        "oco, paper": OCO(schedule="paper"),
        "mgr": MGR(),
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
    model = DPWorstGroupClassifier(solver=solver, random_state=0, fit_intercept=False)
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
        )
        found.append(population.excess_risk(model.fit(X, y, groups=groups).coef_))
    return np.array(found)


def slopes() -> None:
    """Print excess against records, and the slopes of its logarithm."""
    made = make_worst_group_classification(
        n_groups=4, n_features=5, radius=5.0, group_sizes=2, random_state=0
    )
    records = [2_000 * 4**k for k in range(5)]
    print("excess population risk, 4 groups, 5 weights, epsilon = 1 (slope against K; -1/2 proved)")
    print(f"{'':<16}" + "".join(f"{n:>11,}" for n in records) + f"{'slope':>8}")
    solvers = {
        "oco": OCO(max_rounds=1024),
        "oco, sampled": OCO(play="sampled", max_rounds=1024),
        "oco, paper": OCO(schedule="paper"),
    }
    for name, solver in solvers.items():
        means = [population_excess(solver, made.population, n // 4).mean() for n in records]
        slope = np.polyfit(np.log(records), np.log(means), 1)[0]
        print(f"{name:<16}" + "".join(f"{mean:>11.4f}" for mean in means) + f"{slope:>8.2f}")


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
        "defaults": defaults,
    }
    for wanted in sys.argv[1:] or tables:
        tables[wanted]()
