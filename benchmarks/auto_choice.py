"""What do the rules of `solver="auto"` cost beside the better of the solvers?

For each kind of task: the geometric mean, over tasks and seeds, of each solver's excess worst-group
risk on the training records over that of the better one, by what the rule goes by (μ for two
classes; μ times the size of a typical group over d√d for numbers), and that of the rule's choice.

    python benchmarks/auto_choice.py [--half choosing] [--kind regression] [--seeds 3]
        [--epsilon 0.25 1 4 8 1e4]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from common import DELTA, ignore_warnings
from utility.held_out import names_of_half
from utility.ours import make_model, warm_up
from utility.population import kind_of, load_by_name
from utility.store import FOLDER

from sklearn_dpwg.privacy import Budget

KINDS = {
    "classification": (("mgr", "phased-erm"), (0.1, 0.19, 0.4, 1.0, 2.0), 1e-4),
    "regression": (("mgr", "moments"), (1.0, 10.0, 50.0, 150.0, 500.0, 2000.0), 1e-5),
}


class Cell(NamedTuple):
    """A task at an ε: where it stands, who was chosen, and the mean log excess of each solver."""

    place: float
    chosen: str
    log_excess: dict[str, float]


def cells(kind: str, half: str, epsilons: list[float], n_seeds: int) -> Iterator[Cell]:
    """Fit every solver to every task of a kind and half."""
    solvers, _, floor = KINDS[kind]
    for name in names_of_half(half):
        if kind_of(name) != kind:
            continue
        task = load_by_name(name, FOLDER / "optima")
        warm_up(task.kind)
        roots, n_columns = np.sqrt(task.group_sizes), task.train.X.shape[1] + 1
        size = roots.sum() / (1.0 / roots).sum()
        for epsilon in epsilons:
            mu = Budget(epsilon, DELTA).mu
            place = mu if kind == "classification" else mu * size / n_columns**1.5
            found, chosen = {}, ""
            for solver in (*solvers, "auto"):
                excesses = []
                for seed in range(1 if solver == "auto" else n_seeds):
                    model = make_model(task, solver, epsilon, seed)
                    model.fit(task.train.X, task.train.y, groups=task.train.groups)
                    weights = task.unit_weights(model)[:, None]
                    excesses.append(max(float(task.train_excess(weights)[0]), floor))
                if solver == "auto":
                    chosen = model.plan_.solver
                else:
                    found[solver] = float(np.mean(np.log(excesses)))
            yield Cell(place, chosen, found)


def show(kind: str, found: list[Cell]) -> None:
    """Print a line for each range of what the rule goes by, and one for all."""
    solvers, edges, _ = KINDS[kind]
    print(
        f"{kind}: {'from':>10} {'cells':>6}"
        + "".join(f"{name:>12}" for name in solvers)
        + "   rule"
    )
    ranges = zip((0.0, *edges), (*edges, np.inf), strict=True)
    for low, high in (*ranges, (0.0, np.inf)):
        own = [cell for cell in found if low <= cell.place < high]
        if not own:
            continue
        best = np.array([min(cell.log_excess.values()) for cell in own])
        each = {name: np.array([cell.log_excess[name] for cell in own]) - best for name in solvers}
        rule = np.array([cell.log_excess[cell.chosen] for cell in own]) - best
        title = "all" if (low, high) == (0.0, np.inf) else f"{low:g}"
        ratios = "".join(f"{np.exp(values.mean()):>12.2f}" for values in each.values())
        print(f"{'':<{len(kind) + 1}} {title:>10} {len(own):>6}{ratios}{np.exp(rule.mean()):>7.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", default="choosing", choices=("choosing", "checking"))
    parser.add_argument("--kind", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--epsilon", nargs="*", type=float, default=[0.25, 1.0, 4.0, 8.0, 1e4])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    for kind in asked.kind:
        with warnings.catch_warnings():
            ignore_warnings()
            show(kind, list(cells(kind, asked.half, asked.epsilon, asked.seeds)))


if __name__ == "__main__":
    main()
