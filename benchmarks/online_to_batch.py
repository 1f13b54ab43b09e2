"""
Online-to-batch: the average risk of a stream, and its slopes
=============================================================

`python benchmarks/online_to_batch.py` prints all, a name after it one table: `average`, `defaults`,
`slopes`, `rounds`, `distance`. `figure` draws the slopes to docs/figures/online_to_batch.png.

- defaults: the average table for other values of the parameters.
- average: excess *average* risk over the exact optimum on the training records of Adult and law
  school, epsilon = 1, delta = 1e-5, three seeds, mean and standard error, beside DP-FTRL (`OCO`
  with one group) and MGR; and the excess worst-group risk of the same weights.
- slopes: population excess against records K and the standard deviation sigma_G of a gradient, the
  median of seeds and the worst of a family of means, beside the exponent of the theorem. The loss
  is linear in the ball, as in `benchmarks/rates.py`: gradients of norm 1/2 with probability
  sigma_G^2 and 0 else.
- rounds: excess against rounds without noise on equal batches: what the learner leaves.
- distance: excess against the distance from the start to the best weights without noise, for a
  loss with a steep valley.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from common import DELTA, load_dataset, unit_risks

from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import BinaryLogLoss, Huber
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR, OCO, OnlineToBatch, Solution, Solver
from sklearn_dpwg.solvers.stream.learners import FTRL, OptimisticFTRL, ParameterFree

N_WEIGHTS, RADIUS, N_SEEDS = 16, 0.5, 7
SIGNALS = (0.003, 0.006, 0.012, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "online_to_batch.png"


# --- real data -----------------------------------------------------------------------------------


def average() -> None:
    """Print the excess average risk beside other solvers."""
    columns: dict[str, Solver] = {
        "optimistic": OnlineToBatch(),
        "ftrl": OnlineToBatch("ftrl"),
        "parameter-free": OnlineToBatch("parameter-free", n_rounds=10_000),
        "paper": OnlineToBatch(schedule="paper"),
        "oco (DP-FTRL)": OCO(),
        "mgr": MGR(),
    }
    table(columns)


def defaults() -> None:
    """Print the excess average risk for other values of the parameters, one at a time."""
    trials: list[dict[str, object]] = [
        *({"aim": value} for value in (0.2, 0.3, 0.6)),
        *({"power": value} for value in (0.5, 2.0, 3.0)),
        *({"max_rounds": value} for value in (30, 1024)),
        *({"noise": value} for value in ("honaker", "tree", "independent")),
    ]
    table({str(each): OnlineToBatch(**each) for each in trials})


def table(columns: dict[str, Solver]) -> None:
    """Print the excess average risk of fits to all records as one group."""
    print("excess average risk (and worst-group risk), epsilon = 1, three seeds\n")
    print(f"{'':<12}" + "".join(f"{name:>27}" for name in columns) + f"{'nothing':>20}")
    for name in ("adult", "law-school"):
        data = load_dataset(name)
        grouped = unit_risks(data)
        signs, codes = 2.0 * data.target - 1.0, np.zeros(len(data.target), dtype=int)
        records = RecordEncoder(1, data.data_norm).encode(data.data, signs, codes)
        risks = GroupRisks(records, BinaryLogLoss(), 1.0)
        best = float(risks.risks(worst_group_optimum(risks, radius=20.0).weights)[0])

        def excess(weights: np.ndarray, of: tuple = (risks, grouped, best, data)) -> list[float]:
            one, several, least, bunch = of
            worst = several.risks(weights).max() - bunch.entry.reference_optimum
            return [float(one.risks(weights)[0]) - least, float(worst)]

        problem = Problem(BinaryLogLoss(), risks.group_sizes, risks.n_columns - 1, 20.0, (1.0,))
        cells = []
        for solver in columns.values():
            plan = solver.plan(problem, Budget(1.0, DELTA))
            runs = [solver.run(plan, risks, NoiseSource(seed, plan.releases)) for seed in range(3)]
            found = np.array([excess(run.weights) for run in runs])
            error = found[:, 0].std(ddof=1) / np.sqrt(len(found))
            cells.append(f"{found[:, 0].mean():.4f} ± {error:.4f} ({found[:, 1].mean():.4f})")
        nothing = excess(np.zeros(risks.n_weights))
        print(
            f"{name:<12}"
            + "".join(f"{text:>27}" for text in cells)
            + f"{nothing[0]:>11.4f} ({nothing[1]:.4f})",
            flush=True,
        )


# --- slopes --------------------------------------------------------------------------------------


class SignOracle(SampleOracle):
    """Sign vectors over √d with a mean, each with a probability, else rows of zeros."""

    def __init__(self, mean: np.ndarray, share: float, rng: np.random.Generator) -> None:
        self.mean, self.share, self.rng = mean, share, rng

    def draw(self, group: object, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and the target 1, at which Huber's loss is linear in the ball."""
        root = np.sqrt(len(self.mean))
        positive = 0.5 * (1.0 + self.mean / self.share * root)
        rows = (2.0 * (self.rng.random((size, len(self.mean))) < positive) - 1.0) / root
        rows *= self.rng.random((size, 1)) < self.share
        return rows, np.ones(size)


def hard_excess(solver: Solver, n_records: int, epsilon: float, sigma: float = 1.0) -> float:
    """Return the largest median excess over the family of means."""
    problem = Problem(Huber(0.5), (n_records,), N_WEIGHTS, RADIUS, (1.0,), 0.0)
    plan = solver.plan(problem, Budget(epsilon, DELTA))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], N_WEIGHTS) / np.sqrt(N_WEIGHTS)
    medians = []
    for signal in SIGNALS:
        if signal > sigma**2:
            continue
        mean, found = signal * signs, []
        for seed in range(N_SEEDS):
            oracle = SignOracle(mean, sigma**2, np.random.default_rng([seed, 1]))
            weights = solver.run(plan, oracle, NoiseSource(seed, plan.releases)).weights
            found.append(0.5 * (RADIUS * signal - float(weights @ mean)))
        medians.append(float(np.median(found)))
    return max(medians)


Sweep = tuple[str, Sequence[float], Callable[[float], float], float, str]
RECORDS = tuple(round(k) for k in np.geomspace(1_000, 100_000, 5))
DRAWS = tuple(round(k) for k in np.geomspace(300, 3_000, 4))
SIGMAS = (0.1, 0.2, 0.4, 0.8)


def sweeps() -> list[Sweep]:
    """Return title, values, excess at a value, exponent and axis of each sweep."""
    planned, plain = OnlineToBatch(), OnlineToBatch("ftrl")
    paper = OnlineToBatch(schedule="paper")
    return [
        ("noise rules, ε = 0.1", RECORDS, lambda k: hard_excess(planned, int(k), 0.1), -1.0, "K"),
        (
            "sampling rules, ε = 1000",
            RECORDS,
            lambda k: hard_excess(planned, int(k), 1e3),
            -0.5,
            "K",
        ),
        ("paper, T = K, ε = 1", DRAWS, lambda k: hard_excess(paper, int(k), 1.0), -1.0, "T"),
        ("paper, T = K, ε = 1000", DRAWS, lambda k: hard_excess(paper, int(k), 1e3), -0.5, "T"),
        (
            "K = 20,000, ε = 1000",
            SIGMAS,
            lambda s: hard_excess(planned, 20_000, 1e3, s),
            1.0,
            "σ_G",
        ),
        ("the same, FTRL", SIGMAS, lambda s: hard_excess(plain, 20_000, 1e3, s), 1.0, "σ_G"),
    ]


def fitted(values: Sequence[float], excess: np.ndarray) -> float:
    """Return the slope of the logarithms."""
    return float(np.polyfit(np.log(np.asarray(values, dtype=float)), np.log(excess), 1)[0])


def slopes(*, draw: bool = False) -> None:
    """Print, or draw, excess against records, draws and the spread of gradients."""
    print("\nlargest median excess over means, 16 weights; slope (theory)")
    drawn = []
    for title, values, at, exponent, axis in sweeps():
        excess = np.array([at(value) for value in values])
        points = "  ".join(
            f"{value:g}: {each:.2g}" for value, each in zip(values, excess, strict=True)
        )
        found = fitted(values, excess)
        print(f"{axis}, {title}: {points}; {found:.2f} ({exponent:g})", flush=True)
        drawn.append((title, values, excess, exponent, axis, found))
    if draw:
        import matplotlib.pyplot as plt
        from matplotlib.ticker import NullFormatter

        figure, axes = plt.subplots(1, len(drawn), figsize=(3.2 * len(drawn), 3), sharey=True)
        for panel, (title, values, excess, exponent, axis, found) in zip(axes, drawn, strict=True):
            x = np.asarray(values, dtype=float)
            panel.loglog(x, excess, "o-", label=f"slope {found:.2f}")
            panel.loglog(x, excess[-1] * (x / x[-1]) ** exponent, "--", label=f"{exponent:g}")
            panel.set(title=title, xlabel=axis)
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.legend()
        figure.supylabel("excess risk")
        figure.tight_layout()
        figure.savefig(FIGURE, dpi=100)


# --- without noise -------------------------------------------------------------------------------


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
    solver: Solver, loss: object, rows: np.ndarray, targets: np.ndarray, n_rounds: int, start: float
) -> np.ndarray:
    """Return what rounds on one and the same batch lead to, from a start on the first axis."""
    problem = Problem(loss, (n_rounds * len(rows),), rows.shape[1], 1.0, (1.0,), 0.0)
    plan = solver.plan(problem, Budget(1e3, DELTA))
    first = np.zeros(rows.shape[1])
    first[0] = start
    oracle = OneRecord(rows, targets)
    return solver.run(plan, oracle, Silent(), start=Solution(first, None, 0)).weights


def rounds() -> None:
    """Print excess against rounds, for the curvature that is worst for each number of rounds."""
    print("\nexcess against rounds without noise, worst curvature; slope (theory: at most -2)")
    counts = (10, 20, 40, 80, 160)
    for kind in (FTRL, OptimisticFTRL):
        worst = []
        for count in counts:
            # ½ (c w - c)² with curvature c² from the start 0: what is left of ½ c²
            found = []
            for scale in np.geomspace(1e-3, 1.0, 60):
                solver = OnlineToBatch(kind(strength=2.0), n_rounds=count)
                rows, targets = np.array([[scale]]), np.array([scale])
                weights = silent_weights(solver, Huber(0.999), rows, targets, count, 0.0)
                found.append(0.5 * scale**2 * float((weights[0] - 1.0) ** 2))
            worst.append(max(found))
        points = "  ".join(f"{n}: {e:.2g}" for n, e in zip(counts, worst, strict=True))
        print(f"{kind.__name__}: {points}; {fitted(counts, np.array(worst)):.2f} (-2)", flush=True)


def distance() -> None:
    """Print excess against the distance from the start to the best weights."""
    count, width = 20_000, 0.05
    print(f"\nexcess by distance from the start without noise, {count:,} rounds; slope (theory)")
    distances = (0.1, 0.2, 0.4, 0.8)
    learners = {
        "parameter-free": ParameterFree(strength=width * count * 1.5, wealth=1e-3),
        "ftrl, strength for a distance of 1": FTRL(strength=width * count**1.5),
    }
    for name, learner in learners.items():
        found = []
        for away in distances:
            solver = OnlineToBatch(learner, n_rounds=count, noise="independent")
            rows, targets = np.array([[1.0]]), np.array([0.0])
            weights = silent_weights(solver, Huber(width), rows, targets, count, away)
            value, _ = Huber(width).value_and_derivative(weights[:1], targets)
            found.append(float(value[0]))
        points = "  ".join(f"{d:g}: {e:.2g}" for d, e in zip(distances, found, strict=True))
        theory = "1 to 2" if name == "parameter-free" else "no claim"
        print(f"{name}: {points}; {fitted(distances, np.array(found)):.2f} ({theory})", flush=True)


def main(names: list[str]) -> None:
    """Print the tables of these names, or all."""
    tables = {
        "average": average,
        "defaults": defaults,
        "slopes": slopes,
        "rounds": rounds,
        "distance": distance,
    }
    if names == ["figure"]:
        slopes(draw=True)
        return
    for name in names or list(tables):
        tables[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
