"""What switches and constants of the default solver are worth among people no model has seen.

    python benchmarks/ablation.py                                       # all switches, an hour
    python benchmarks/ablation.py --splits 2 --epsilon 1 4 whitening shrinkage+momentum
    python benchmarks/ablation.py --kind regression MGR.initial_distance=0.6 estimator.radius=4

Every row is the default without a switch, or with another value: mean change of the held-out
worst-group loss on the choosing half, its standard error over tasks, and tasks that are clearly
better and worse. A switch whose rows are within one standard error of nothing goes.
"""

from __future__ import annotations

import argparse
import ast
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
from utility import held_out
from utility.held_out import Method, compare, table
from utility.store import FOLDER

from sklearn_dpwg.solvers import MGR, centring, descent, mgr
from sklearn_dpwg.solvers.solver import BY_LOSS

MODULES = (
    "losses.classification",
    "solvers.batches",
    "solvers.descent",
    "solvers.mgr",
    "solvers.centring",
    "solvers.solver",
    "solvers.steps",
)


def of_loss(**values: Any) -> Callable[[], Any]:
    """Return what gives every loss other constants."""
    return lambda: patch.dict(
        BY_LOSS, {name: replace(each, **values) for name, each in BY_LOSS.items()}
    )


def constant(module: Any, name: str, value: Any) -> Callable[[], Any]:
    """Return what gives a constant another value."""
    return lambda: patch.object(module, name, value)


# What takes each switch out: parameters of MGR, or what is patched while it fits.
SWITCHES: dict[str, dict[str, Any] | Callable[[], Any]] = {
    "bold steps": constant(descent, "BOLDNESS", 1.0),
    "momentum": constant(descent, "LONGEST_MEMORY", 0.0),
    "centring": {"centring": False},
    "whitening": {"whitening": False},
    "shrinkage": of_loss(shrinks=False),
    "rates that follow risks": constant(mgr, "ASSUMED_STEPS", 1e9),
    "fraction of the game": of_loss(directions=1e6),
    "largest lead": constant(mgr, "MAX_LEAD", math.inf),
    "scale of rows": constant(centring, "SHORTEST", 1.0),
    "clip by the level": of_loss(clip_of_level=math.inf),
    "fewer passes": {"max_passes": 40},
    "more passes": {"max_passes": 150},
}


def change_of(text: str) -> tuple[str, Any]:
    """Return what a switch, or ``where.name=value``, changes: parameters or a patch."""
    if text in SWITCHES:
        change = SWITCHES[text]
        return ("patch", change) if callable(change) else ("MGR", change)
    name, _, value = text.partition("=")
    where, _, name = name.rpartition(".")
    values = {name: ast.literal_eval(value)}
    if where in ("MGR", "estimator"):
        return where, values
    if where == "loss":
        return "patch", of_loss(**values)
    (result,) = (each for each in MODULES if each.endswith(where))
    return "patch", constant(import_module(f"sklearn_dpwg.{result}"), name, values[name])


def changed(text: str) -> Method:
    """Return the fit of the default with some changes, joined by +."""
    changes = [change_of(each) for each in text.split("+")]
    of_solver, parameters = (
        {name: value for where, each in changes if where == kind for name, value in each.items()}
        for kind in ("MGR", "estimator")
    )

    def fit(task: Any, epsilon: float, seed: int) -> np.ndarray:
        solver = {"solver": MGR(**of_solver)} if of_solver else {}
        with ExitStack() as stack:
            for where, each in changes:
                if where == "patch":
                    stack.enter_context(each())
            return held_out.estimator(**solver, **parameters)(task, epsilon, seed)

    return fit


def main() -> None:
    """Measure, and print a table a kind of task."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("changes", nargs="*", help="switches or values; + joins several")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0, 8.0, 1e4])
    parser.add_argument("--splits", type=int, default=held_out.N_SPLITS)
    parser.add_argument("--kind", choices=["classification", "regression"])
    asked = parser.parse_args()
    methods = {each: changed(each) for each in asked.changes or SWITCHES}
    held_out.METHODS |= methods
    every = held_out.names_of_half("choosing")
    names = [each for each in every if asked.kind in (None, held_out.kind_of(each))]
    where = {"folder": FOLDER / "ablation", "n_splits": asked.splits}
    held_out.measure(names, ["ours", *methods], asked.epsilon, **where)
    frame = held_out.collect(methods=["ours", *methods], names=names, **where)
    for kind, cells in frame.groupby("kind"):
        rows = []
        for method in methods:
            row = {f"{kind}, {cells.name.nunique()} tasks": method}
            for epsilon in asked.epsilon:
                result = compare(cells, (method, epsilon), ("ours", epsilon))
                mean, error = result.value.mean(), result.value.std() / len(result) ** 0.5
                better, worse = ((result.verdict == sign).sum() for sign in (-1, 1))
                row[f"ε = {epsilon:g}"] = f"{mean:+.4f} ± {error:.4f}; {better} / {worse}"
            rows.append(row)
        print(table(rows), end="\n\n")


if __name__ == "__main__":
    main()
