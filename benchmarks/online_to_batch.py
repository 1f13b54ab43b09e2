"""Online-to-batch: the average risk of a stream, and its slopes.

`python benchmarks/online_to_batch.py` prints all, a name after it one table: `average`, `defaults`,
`slopes`, `distance`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from common import DELTA, cell, risks_of, row, run_tables, sweep, unit_risks, weights_of_runs

from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.losses import BinaryLogLoss, Huber
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, OCO, OnlineToBatch, Solution, Solver
from sklearn_dpwg.solvers.learners import FTRL, ParameterFree

N_WEIGHTS, RADIUS, N_SEEDS = 16, 0.5, 7
SIGNALS = (0.003, 0.006, 0.012, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)


def average() -> None:
    """Print the excess average risk beside other solvers."""
    table(
        {
            "optimistic": OnlineToBatch(),
            "ftrl": OnlineToBatch("ftrl"),
            "parameter-free": OnlineToBatch("parameter-free", n_rounds=10_000),
            "oco (DP-FTRL)": OCO(),
            "mgr": MGR(),
        }
    )


def defaults() -> None:
    """Print the excess average risk for other values of the parameters, one at a time."""
    trials: list[dict[str, Any]] = [
        *({"initial_distance": value} for value in (0.2, 0.3, 0.6)),
        *({"power": value} for value in (0.5, 2.0, 3.0)),
        *({"max_rounds": value} for value in (30, 1024)),
        *({"noise": value} for value in ("tree", "independent")),
    ]
    table({str(each): OnlineToBatch(**each) for each in trials})


def table(solvers: dict[str, Solver]) -> None:
    """Print the excess average risk of fits to all records as one group.

    It is over the exact optimum on the training records, delta = 1e-5, mean and standard error; in
    brackets the excess worst-group risk of the same weights.
    """
    print("excess average risk (and worst-group risk), epsilon = 1, three seeds\n")
    for name in ("adult", "law-school"):
        data = load_dataset(name)
        grouped, codes = unit_risks(data), np.zeros(len(data.target), dtype=int)
        signs = 2.0 * data.target - 1.0
        risks = risks_of(data.data, signs, codes, BinaryLogLoss(), data_norm=data.data_norm)
        best = float(risks.risks(worst_group_optimum(risks, radius=20.0).weights)[0])
        problem = Problem(BinaryLogLoss(), risks.group_sizes, risks.n_columns - 1, 20.0, (1.0,))
        row(name, (), first=0)
        runs = {
            label: weights_of_runs(solver, problem, risks, range(3), Budget(1.0, DELTA))
            for label, solver in solvers.items()
        }
        for label, result in (runs | {"nothing": [np.zeros(risks.n_weights)] * 2}).items():
            excess = [float(risks.risks(weights)[0]) - best for weights in result]
            worst = np.mean([grouped.risks(weights).max() for weights in result])
            worst -= data.entry.reference_optimum
            row(f"  {label}", [f"{cell(excess)} ({worst:.4f})"], first=28, width=27)


class SignOracle(SampleOracle):
    """Sign vectors over √d with a mean, each with a probability, else rows of zeros."""

    def __init__(self, mean: np.ndarray, fraction: float, rng: np.random.Generator) -> None:
        self.mean, self.fraction, self.rng = mean, fraction, rng

    def draw(self, group: object, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and the target 1, at which Huber's loss is linear in the ball."""
        root = np.sqrt(len(self.mean))
        positive = 0.5 * (1.0 + self.mean / self.fraction * root)
        rows = (2.0 * (self.rng.random((size, len(self.mean))) < positive) - 1.0) / root
        rows *= self.rng.random((size, 1)) < self.fraction
        return rows, np.ones(size)


def hard_excess(solver: Solver, epsilon: float, n_records: float, sigma: float = 1.0) -> float:
    """Return the largest median excess over the family of means."""
    problem = Problem(Huber(0.5), (int(n_records),), N_WEIGHTS, RADIUS, (1.0,), 0.0)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], N_WEIGHTS) / np.sqrt(N_WEIGHTS)
    medians = []
    for signal in [each for each in SIGNALS if each <= sigma**2]:
        mean = signal * signs
        runs = weights_of_runs(
            solver,
            problem,
            lambda seed, mean=mean: SignOracle(mean, sigma**2, np.random.default_rng([seed, 1])),
            range(N_SEEDS),
            Budget(epsilon, DELTA),
        )
        excess = [0.5 * (RADIUS * signal - float(weights @ mean)) for weights in runs]
        medians.append(float(np.median(excess)))
    return max(medians)


def slopes() -> None:
    """Print excess against records and the spread of gradients.

    The loss is linear in the ball, as in `benchmarks/rates.py`: gradients of norm 1/2 with
    probability sigma_G^2 and 0 else.
    """
    planned = OnlineToBatch()
    title = "largest median excess over means, 16 weights, by"
    sweep(
        f"{title} records K",
        [round(k) for k in np.geomspace(1_000, 100_000, 5)],
        {
            "noise rules, ε = 0.1": (partial(hard_excess, planned, 0.1), -1.0),
            "sampling rules, ε = 1000": (partial(hard_excess, planned, 1e3), -0.5),
        },
    )
    sweep(
        f"{title} σ_G, K = 20,000, ε = 1000",
        (0.1, 0.2, 0.4, 0.8),
        {
            name: (partial(hard_excess, solver, 1e3, 20_000), 1.0)
            for name, solver in (("optimistic", planned), ("FTRL", OnlineToBatch("ftrl")))
        },
    )


class Silent:
    """A source that adds nothing: what the learner leaves, and no private run."""

    seeded = False
    rng = np.random.default_rng(0)

    def gaussian_rows(self, shape: tuple[int, int], *, release: object) -> Silent:
        """Return itself."""
        return self

    def add(self, row: np.ndarray, sensitivity: float) -> np.ndarray:
        """Return the row."""
        return row.copy()


class OneRecord(SampleOracle):
    """One record again and again."""

    def __init__(self, rows: np.ndarray, targets: np.ndarray) -> None:
        self.rows, self.targets = rows, targets

    def draw(self, group: object, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all of it."""
        return self.rows, self.targets


def silent_weights(
    solver: Solver, loss: Any, rows: np.ndarray, targets: np.ndarray, n_rounds: int, start: float
) -> np.ndarray:
    """Return what rounds on one and the same batch lead to, from a start on the first axis."""
    problem = Problem(loss, (n_rounds * len(rows),), rows.shape[1], 1.0, (1.0,), 0.0)
    plan = solver.plan(problem, Budget(1e3, DELTA))
    first = np.zeros(rows.shape[1])
    first[0] = start
    oracle = OneRecord(rows, targets)
    return solver.run(plan, oracle, Silent(), start=Solution(first, None, 0)).weights


def distance() -> None:
    """Print excess against the distance from the start to the best weights."""
    count, width = 20_000, 0.05

    def excess(learner: Any, away: float) -> float:
        solver = OnlineToBatch(learner, n_rounds=count, noise="independent")
        rows, targets = np.array([[1.0]]), np.array([0.0])
        weights = silent_weights(solver, Huber(width), rows, targets, count, away)
        return float(Huber(width).value_and_derivative(weights[:1], targets)[0][0])

    free = ParameterFree(strength=width * count * 1.5, wealth=1e-3)
    sweep(
        f"excess by distance from the start without noise, {count:,} rounds",
        (0.1, 0.2, 0.4, 0.8),
        {
            "parameter-free": (partial(excess, free), "1 to 2"),
            "ftrl, for a distance of 1": (
                partial(excess, FTRL(strength=width * count**1.5)),
                "no claim",
            ),
        },
    )


if __name__ == "__main__":
    run_tables({each.__name__: each for each in (average, defaults, slopes, distance)})
