"""
Active group selection beside multiplicative weights, and its rates
===================================================================

Mean excess worst-group risk over the exact optimum, δ = 1e-5, with two standard errors, and what
AGS has more than MGR with rows as they are, seed by seed. Then the handicap θ. Then slopes in the
records of a group: where the choice of the group rules, for the paper's selection by the last risks
alone, and where the noise of the gradient does. "figure" draws these.

    python benchmarks/ags.py [data] [sharpness] [slopes] [figure]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import excess_of_fits, load_dataset, zero_excess

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import AbsoluteError, Huber
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import AGS, MGR, Solver

DATA = ("adult", "law-school", "compas", "german-credit")
EPSILONS, N_SEEDS = (1.0, 4.0), 6
PLAIN = "MGR, rows as they are"
METHODS: dict[str, Solver] = {
    "MGR": MGR(),
    PLAIN: MGR(centring=False),
    "AGS": AGS(),
    "AGS, 75 visits": AGS(visits=75),
    "AGS, the last risks": AGS(selection="latest"),
    "AGS, the paper's": AGS(schedule="paper"),
}
SHARPNESS = (10.0, 20.0, 40.0, np.inf)

SIZES = tuple(round(size) for size in np.geomspace(1e3, 1e5, 5))
BUDGET, N_RUNS = Budget(1.0, 1e-6), 12


def cell(values: np.ndarray, sign: str = "") -> str:
    """Return a mean and two standard errors."""
    error = 2.0 * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{sign}.4f} ± {error:.4f}"


def data() -> None:
    """Print the table of data sets."""
    for epsilon in EPSILONS:
        print(f"\nepsilon = {epsilon:g}; in brackets what predicting nothing has")
        for name in DATA:
            loaded = load_dataset(name)
            found = {
                method: excess_of_fits(loaded, N_SEEDS, epsilon=epsilon, solver=solver)
                for method, solver in METHODS.items()
            }
            print(f"  {name} ({zero_excess(loaded):.3f})")
            for method, values in found.items():
                more = values - found[PLAIN]
                beside = "" if "MGR" in method else f"   {cell(more, '+')} more"
                print(f"    {method:<24}{cell(values)}{beside}")


def sharpness() -> None:
    """Print the table of handicaps."""
    print("\nAGS, excess by sharpness")
    for epsilon in EPSILONS:
        for name in DATA:
            loaded = load_dataset(name)
            cells = []
            for theta in SHARPNESS:
                values = excess_of_fits(
                    loaded, N_SEEDS, epsilon=epsilon, solver=AGS(sharpness=theta)
                )
                cells.append(f"{theta:g}: {cell(values)}")
            print(f"  epsilon = {epsilon:g}, {name:<14}", "   ".join(cells))


class Repeated:
    """Groups of n equal records each, summed without reading them n times."""

    def __init__(self, problem: Problem, rows: np.ndarray, targets: np.ndarray) -> None:
        self.loss, self.group_sizes = problem.loss, problem.group_sizes
        self.n_weights, self.intercept_scaling = problem.n_weights, problem.intercept_scaling
        self._rows, self._targets = rows, targets

    def risks_and_gradients(self, weights: np.ndarray, ceiling: float) -> Any:
        """Return each group's risk and its gradient."""
        values, slopes = self.loss.value_and_derivative(self._rows @ weights, self._targets)
        return np.minimum(values, ceiling), slopes[:, None] * self._rows

    def sums(self, weights: np.ndarray, *, ceiling: float, grid: Any) -> Any:
        """Return the sums over the records of each group."""
        risks, gradients = self.risks_and_gradients(weights, ceiling)
        sizes = np.array(self.group_sizes)
        return sizes * risks, sizes[:, None] * gradients


def choice_world(size: int) -> Any:
    """Return one group with a faint slope and seven with a steep one against it.

    Their risks 1 - w/10 and 1/2 + 9w/10 meet at w = 1/2, where the faint group has to be taken nine
    times of ten: noise that takes another moves the weight by what the risks differ then.
    """
    problem = Problem(AbsoluteError(), (size,) * 8, 1, 1.0, (0.125,) * 8, 0.0)
    rows, targets = np.full((8, 1), 0.9), np.full(8, -0.5)
    rows[0], targets[0] = 0.1, 1.0
    return Repeated(problem, rows, targets), problem, 0.95


def gradient_world(size: int) -> Any:
    """Return one group of two that is always the worst, with a linear loss of 16 weights."""
    problem = Problem(Huber(0.5), (size, size), 16, 0.5, (0.5, 0.5), 0.0)
    rows = np.zeros((2, 16))
    rows[0, 0] = 60.0 / size  # about as faint as the noise, where excess is the largest
    optimum = 0.5 * (1.0 - 0.5 * rows[0, 0]) - 0.125
    return Repeated(problem, rows, np.array([1.0, 0.0])), problem, optimum


SWEEPS = {
    "the choice rules, the last risks": (
        choice_world,
        AGS(selection="latest", max_passes=100_000),
        -0.5,
    ),
    "the choice rules, the paper's": (
        choice_world,
        AGS(schedule="paper", max_passes=100_000),
        -0.5,
    ),
    "the gradient's noise rules": (gradient_world, AGS(), -1.0),
}


def measured(world: Any, solver: Solver) -> np.ndarray:
    """Return the median excess at each size."""
    medians = []
    for size in SIZES:
        records, problem, optimum = world(size)
        plan = solver.plan(problem, BUDGET)
        excess = []
        for seed in range(N_RUNS):
            weights = solver.run(plan, records, NoiseSource(seed, plan.releases)).weights
            excess.append(records.risks_and_gradients(weights, np.inf)[0].max() - optimum)
        medians.append(np.median(excess))
    return np.array(medians)


def slopes(figure: bool) -> None:
    """Print the slopes in the number of records of a group, and draw them."""
    print(f"\nmedian excess of {N_RUNS} runs, records of a group: {SIZES}")
    drawn = {}
    for title, (world, solver, theory) in SWEEPS.items():
        drawn[title] = found = measured(world, solver)
        slope = np.polyfit(np.log(SIZES), np.log(found), 1)[0]
        cells = "  ".join(f"{value:.2g}" for value in found)
        print(f"  {title:<34}{cells}   slope {slope:+.2f}, theory {theory:+.1f}")
    if figure:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        for title, found in drawn.items():
            axes.loglog(SIZES, found, "o-", label=title)
        axes.set(xlabel="records of a group", ylabel="excess worst-group risk")
        axes.legend(fontsize=8)
        path = Path("docs/figures/ags_slopes.png")
        plt.savefig(path, dpi=80)
        print(f"drew {path}")


if __name__ == "__main__":
    asked = set(sys.argv[1:]) or {"data", "sharpness", "slopes"}
    if "data" in asked:
        data()
    if "sharpness" in asked:
        sharpness()
    if asked & {"slopes", "figure"}:
        slopes("figure" in asked)
