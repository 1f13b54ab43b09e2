"""
Best response: slopes, and how many rounds
==========================================

*slopes*: excess population risk against records K and ε on the hard family of
``benchmarks/rates.py``, with phases and with gradient steps as the base, beside the theorem's sum
a √(p/K) + b p√d/(Kε) with the same two constants for every sweep. *classification*: excess on the
training records (ε = 1 and 4, δ = 1e-5) of both bases. *rounds*: the same for numbers of rounds
with gradient steps, and *regression* for noisy moments. Means of the seeds, with standard errors.
*figure* draws what *slopes* measured.

    python benchmarks/best_response.py [slopes] [classification] [rounds] [regression] [figure]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import rates
from common import excess_of_fits, load_dataset, zero_excess
from rates import SWEEPS, Point, hard_worlds, measured_theorems, report

from sklearn_dpwg.solvers import MGR, BestResponse, Moments, PhasedERM
from sklearn_dpwg.solvers.descent import mgr as mixture
from sklearn_dpwg.solvers.solver import Solver

N_SEEDS = 5
BASES: dict[str, Solver] = {"phases": BestResponse(), "steps": BestResponse(MGR())}
ROWS = ("adult", "law-school", "compas")
TARGETS = ("cps-hourly-earnings", "cps-weekly-wages")
SWEPT = (0, 2, 3)  # of `SWEEPS`: K where noise rules, K where sampling rules, and ε


def slopes() -> None:
    """Print excess and slopes on the hard family."""
    rates.SOLVERS, rates.N_SEEDS = BASES, N_SEEDS
    theorems = measured_theorems(hard_worlds)
    for index in SWEPT:
        report(SWEEPS[index], hard_worlds, theorems)


def cell(data, solver: Solver, epsilon: float) -> str:
    """Return the mean excess of fits with its standard error."""
    found = excess_of_fits(data, N_SEEDS, epsilon=epsilon, solver=solver)
    return f"{found.mean():.4f} ± {found.std(ddof=1) / np.sqrt(N_SEEDS):.4f}"


def table(title: str, names: tuple[str, ...], solvers: dict[str, Solver]) -> None:
    """Print the excess of solvers on data sets at two budgets."""
    print(f"\n{title}, excess on the training records, {N_SEEDS} seeds")
    heads = "".join(f"{name:>22}" for name in [*solvers, "predict nothing"])
    print(f"{'data set':<22}{'ε':>4}{heads}")
    for name in names:
        data = load_dataset(name)
        for epsilon in (1.0, 4.0):
            cells = "".join(f"{cell(data, each, epsilon):>22}" for each in solvers.values())
            print(f"{name:<22}{epsilon:4g}{cells}{zero_excess(data):22.4f}", flush=True)


def classification() -> None:
    """Print the two bases for the log loss."""
    table("log loss", ROWS, {"phases": BestResponse(), "steps": BestResponse(MGR())})


def rounds() -> None:
    """Print numbers of rounds of gradient steps, also such as plans do not choose."""
    numbers = [*mixture.CALLS[2:], 16]
    solvers = {f"{n} rounds": BestResponse(MGR(), n_rounds=n) for n in numbers}
    table("rounds of gradient steps", ROWS[:2], solvers | {"MGR": MGR()})


def regression() -> None:
    """Print the bases for the squared error, beside the solvers that they come from."""
    solvers = {
        "moments": BestResponse(Moments()),
        "phases": BestResponse(),
        "steps": BestResponse(MGR()),
        "Moments": Moments(),
        "PhasedERM": PhasedERM(),
    }
    table("squared error", TARGETS, solvers)


def figure(path: str = "best_response.png") -> None:
    """Draw the K sweeps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rates.N_SEEDS = N_SEEDS
    axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")[1]
    for axis, index in zip(axes, SWEPT[:2], strict=True):
        sweep = SWEEPS[index]
        for name, solver in BASES.items():
            points = [sweep.at(value) for value in sweep.values]
            excess = [worst_mean(point, solver) for point in points]
            axis.loglog(sweep.values, excess, "o-", label=f"base: {name}")
        reference = excess[0] * (np.array(sweep.values) / sweep.values[0]) ** sweep.exponent
        axis.loglog(sweep.values, reference, "k:", label=f"slope {sweep.exponent:g}")
        axis.set(title=sweep.title, xlabel="records K")
        axis.legend()
    axes[0].set_ylabel("excess population risk")
    plt.savefig(path)
    print(f"drawn: {Path(path).resolve().name}")


def worst_mean(point: Point, solver: Solver) -> float:
    """Return the largest mean excess over the family."""
    return max(rates.excess_of_runs(world, point, solver).mean() for world in hard_worlds(point))


if __name__ == "__main__":
    every = {each.__name__: each for each in (slopes, classification, rounds, regression, figure)}
    for word in sys.argv[1:] or ["slopes", "classification", "rounds", "regression"]:
        every[word]()
