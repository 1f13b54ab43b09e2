"""Typical excess: the model behind `solver="auto"`, and how far it is off.

Fits the logarithm of the mean excess of each solver's default fits to public facts by least squares
over the choosing half of the population, one slope for all solvers but that of ε, and prints the
coefficients, its errors, and how `auto` compares with the better of the solvers, on each half. It
reads what these keep:

    make bench BENCH="--population choosing"
    make bench BENCH="--population checking"
    python benchmarks/typical_excess.py
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from utility.frame import collect
from utility.population import DEFINITIONS, load_by_name
from utility.store import FOLDER, POPULATION_EPSILONS

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers.auto import COEFFICIENTS, features

DELTA, RIDGE, SEEDS = 1e-5, 5.0, 16
KINDS = {"classification": ("binary_log", 1e-3), "regression": ("squared_error", 1e-4)}


class Cells(NamedTuple):
    """Cells of one kind and half, in which all solvers of the model were measured."""

    sources: np.ndarray
    facts: np.ndarray  # of shape (n_cells, n_features)
    log_excess: np.ndarray  # of shape (n_cells, n_solvers)

    def where(self, kept: np.ndarray) -> Cells:
        """Return some of the cells."""
        return Cells(*(each[kept] for each in self))


def read(kind: str, half: str) -> Cells:
    """Return what is kept of one kind and half."""
    kernel, floor = KINDS[kind]
    solvers = tuple(COEFFICIENTS[kernel])
    sources, facts, found = [], [], []
    for each in DEFINITIONS:
        if each.half != half or (each.kind == "classification") != (kind == "classification"):
            continue
        cells = collect([each.name], POPULATION_EPSILONS, SEEDS)
        known = {
            epsilon: cell
            for (_, epsilon), cell in cells.items()
            if all(solver in cell for solver in solvers)
        }
        if not known:
            continue
        task = load_by_name(each.name, FOLDER / "optima")
        for epsilon, cell in known.items():
            loss = BinaryLogLoss() if kind == "classification" else SquaredError()
            sizes = tuple(task.group_sizes.tolist())
            prior = tuple(1.0 / len(sizes) for _ in sizes)
            problem = Problem(loss, sizes, task.train.X.shape[1], task.radius, prior)
            sources.append(each.source)
            facts.append(features(problem, Budget(epsilon, DELTA)))
            means = [float(np.mean(cell[solver]["train_excess"])) for solver in solvers]
            found.append([math.log(max(mean, floor)) for mean in means])
    return Cells(*map(np.array, (sources, facts, found)))


def fitted(cells: Cells) -> np.ndarray:
    """Return the coefficients, of shape (n_solvers, n_features)."""
    n_cells, n_solvers = cells.log_excess.shape
    means = cells.facts.mean(axis=0)
    means[0] = 0.0
    shared, of_epsilon = (cells.facts - means)[:, 1:-1], (cells.facts - means)[:, -1:]
    # after the shared slopes each solver has a constant and a slope of its own
    own = np.hstack([np.ones((n_cells, 1)), of_epsilon])
    design = np.hstack([np.tile(shared, (n_solvers, 1)), np.kron(np.eye(n_solvers), own)])
    penalties = np.diag([RIDGE] * shared.shape[1] + [0.0, RIDGE] * n_solvers)
    wanted = cells.log_excess.T.ravel()
    solved = np.linalg.solve(design.T @ design + penalties, design.T @ wanted)
    found = []
    for constant, slope in solved[shared.shape[1] :].reshape(n_solvers, 2):
        together = np.concatenate([[0.0], solved[: shared.shape[1]], [slope]])
        together[0] = constant - together @ means
        found.append(together)
    return np.array(found)


def show(said: str, predicted: np.ndarray, cells: Cells) -> None:
    """Print errors, and what choosing by the prediction costs beside the better solver."""
    places = np.arange(len(predicted))
    chosen = predicted.argmin(axis=1)
    got = cells.log_excess[places, chosen]
    off = np.exp(np.quantile(np.abs(predicted[places, chosen] - got), (0.5, 0.9)))
    worse = got - cells.log_excess.min(axis=1)
    alone = np.exp((cells.log_excess - cells.log_excess.min(axis=1)[:, None]).mean(axis=0))
    print(
        f"  {said:<38} {len(predicted):>4} cells; off by a factor of {off[0]:.2f} in half, "
        f"{off[1]:.2f} in nine tenths; {math.exp(worse.mean()):.3f} of the better solver "
        f"(each alone {', '.join(f'{each:.3f}' for each in alone)}), "
        f"at most 1.2 times in {np.mean(worse <= math.log(1.2)):.0%}"
    )


def main() -> None:
    """Print both kinds."""
    for kind, (kernel, _) in KINDS.items():
        choosing, checking = read(kind, "choosing"), read(kind, "checking")
        print(f"{kind}: solvers {', '.join(COEFFICIENTS[kernel])}")
        in_code = np.array(list(COEFFICIENTS[kernel].values()))
        if len(choosing.facts):
            print(f"  fitted now: {np.round(fitted(choosing), 3).tolist()}")
            left_out = np.zeros_like(choosing.log_excess)
            for source in set(choosing.sources):
                own = choosing.sources == source
                left_out[own] = choosing.facts[own] @ fitted(choosing.where(~own)).T
            show("choosing half, each source left out", left_out, choosing)
        print(f"  in the code: {in_code.tolist()}")
        for half, cells in (("choosing", choosing), ("checking", checking)):
            if len(cells.facts):
                show(f"{half} half, as in the code", cells.facts @ in_code.T, cells)


if __name__ == "__main__":
    main()
