"""What each switch of the default solver is worth among people whom no model has seen.

    python benchmarks/ablation.py                                   # all switches, hours
    python benchmarks/ablation.py --splits 2 --epsilon 1 4 whitening shrinkage

Every row is the default without one switch: mean change of the held-out worst-group loss on the
choosing half, its standard error over tasks, and tasks that are clearly better and worse without.
A switch whose rows are within one standard error of nothing goes, but where a kind of table says
otherwise in defaults.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from utility import held_out
from utility.held_out import Method, compare, table
from utility.store import FOLDER

from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent import group_weights, rule
from sklearn_dpwg.solvers.solver import BY_KERNEL

Patch = tuple[ModuleType, str, Any]


def of_loss(**values: Any) -> Callable[[], Any]:
    """Return what gives every loss other constants."""
    return lambda: patch.dict(
        BY_KERNEL, {name: replace(each, **values) for name, each in BY_KERNEL.items()}
    )


def constant(module: ModuleType, name: str, value: Any) -> Callable[[], Any]:
    """Return what gives a constant another value."""
    return lambda: patch.object(module, name, value)


# What takes each switch out: parameters of MGR, or what is patched while it fits.
SWITCHES: dict[str, dict[str, Any] | Callable[[], Any]] = {
    "bold steps": constant(rule, "BOLDNESS", 1.0),
    "momentum": constant(rule, "LONGEST_MEMORY", 0.0),
    "centring": {"centring": False},
    "whitening": {"whitening": False},
    "shrinkage": of_loss(shrinks=False),
    "correction for noise": constant(group_weights, "CORRECTION", 0.0),
    "rates that follow risks": constant(group_weights, "REMEMBERED", 1.0),
    "share of the game": constant(group_weights, "DIRECTIONS", 1e6),
    "least share for risks": constant(rule, "LEAST_SHARE", 0.0),
    "ceiling by the level": of_loss(ceiling_of_level=math.inf),
    "fewer passes": {"max_passes": 40},
    "more passes": {"max_passes": 150},
}


@contextmanager
def taken_out(switches: list[str]) -> Iterator[dict[str, Any]]:
    """Yield parameters of MGR without some switches, while their constants are patched."""
    with ExitStack() as stack:
        parameters: dict[str, Any] = {}
        for name in switches:
            change = SWITCHES[name]
            if callable(change):
                stack.enter_context(change())
            else:
                parameters |= change
        yield parameters


def without(*switches: str) -> Method:
    """Return the fit of the default without some switches."""

    def fit(task: Any, epsilon: float, seed: int) -> np.ndarray:
        with taken_out(list(switches)) as parameters:
            solver = {"solver": MGR(**parameters)} if parameters else {}
            return held_out.estimator(**solver)(task, epsilon, seed)

    return fit


def main() -> None:
    """Measure, and print a table a kind of task."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("switches", nargs="*", default=[], help="by name; + joins several")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0, 8.0, 1e4])
    parser.add_argument("--splits", type=int, default=held_out.N_SPLITS)
    parser.add_argument("--kind", choices=["classification", "regression"])
    asked = parser.parse_args()
    switches = asked.switches or list(SWITCHES)
    methods = {f"without {each}": without(*each.split("+")) for each in switches}
    held_out.METHODS |= methods
    names = [
        name
        for name in held_out.names_of_half("choosing")
        if asked.kind in (None, held_out.kind_of(name))
    ]
    where = {"folder": FOLDER / "ablation", "n_splits": asked.splits}
    held_out.measure(names, ["ours", *methods], asked.epsilon, **where)
    frame = held_out.collect(methods=["ours", *methods], names=names, **where)
    for kind, cells in frame.groupby("kind"):
        rows = []
        for method in methods:
            row = {f"{kind}, {cells.name.nunique()} tasks": method}
            for epsilon in asked.epsilon:
                found = compare(cells, (method, epsilon), ("ours", epsilon))
                mean, error = found.value.mean(), found.value.std() / len(found) ** 0.5
                better, worse = ((found.verdict == sign).sum() for sign in (-1, 1))
                row[f"ε = {epsilon:g}"] = f"{mean:+.4f} ± {error:.4f}; {better} / {worse}"
            rows.append(row)
        print(table(rows), end="\n\n")


if __name__ == "__main__":
    main()
