"""What bends are worth: held-out losses of default fits on lines and on public pieces of numbers.

`python benchmarks/shapes.py [choosing|checking] [ε …] [--splits N] [--tasks NAME …]` measures every
task of the half that has two numbers or more among its columns, on the splits of
`utility.held_out`, and prints the change.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from utility import held_out
from utility.held_out import table
from utility.ours import make_model
from utility.population import DEFINITIONS
from utility.tasks import Part, Task

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.preprocessing import Category, Date, Number, PublicSchema, shapes

FOLDER = held_out.FOLDER / "shapes"
OF_TASK = {each.name: each for each in DEFINITIONS}


def columns_of(name: str) -> dict[Any, Any]:
    """Return what is public of the columns of a task, or of a data set of the package, in order."""
    if name in OF_TASK:
        return dict(OF_TASK[name].columns)
    entry = load_dataset(name).entry
    levels = {key: Category(tuple(of), other=False) for key, of in entry.categories.items()}
    return {key: Number(-1, 1) for key in entry.numeric} | levels


def numbers_of(name: str) -> list[str]:
    """Return the columns of a task that may bend."""
    columns = columns_of(name)
    return [str(key) for key, column in columns.items() if isinstance(column, Number | Date)]


def bent_rows(task: Task, part: Part) -> np.ndarray:
    """Return the rows of a `PublicSchema` with ramps, from those of one with lines."""
    schema = PublicSchema(columns_of(task.name), shapes="linear")._schema()
    scale = schema.row_norm / task.public["data_norm"]
    first, result = 0, []
    for column in schema.blocks.values():
        block = part.X[:, first : first + column._width] * scale
        first += column._width
        if isinstance(column, shapes.Shaped) and isinstance(column.column, Number | Date):
            scaled = np.where(block[:, 1:].any(axis=1), np.nan, block[:, 0])
            _, block = replace(column, shape=shapes.shape_of("ramps"))._filled(scaled, "")
        result.append(block)
    return np.concatenate(result, axis=1) / schema.row_norm


def on_pieces(*, grouped: bool = True) -> held_out.Method:
    """Return the fit of a default estimator behind a schema whose numbers bend."""

    def fit(task: Task, epsilon: float, seed: int) -> Any:
        model = make_model(task, "auto", epsilon, seed)
        rows = bent_rows(task, task.train) * task.public["data_norm"]
        model.fit(rows, task.train.y, task.train.groups if grouped else None)
        weights = task.unit_weights(model)
        return lambda part: bent_rows(task, part) @ weights[:-1] + weights[-1]

    return fit


def relative(frame: pd.DataFrame, beside: str = "ours") -> str:
    """Return by how much squared errors change, in percent: median, ends, better and worse by 1."""
    frame = frame[frame.kind == "regression"]
    losses = frame.pivot_table(index="name", columns=["epsilon", "method"], values="loss")
    rows = []
    for epsilon in losses.columns.levels[0]:
        change = 100.0 * losses[epsilon].sub(losses[epsilon][beside], axis=0)
        change = change.div(losses[epsilon][beside], axis=0).drop(columns=beside).dropna()
        for method, own in change.items():
            ends = f"{own.min():+.1f} to {own.max():+.1f}"
            counts = f"{(own < -1.0).sum()} / {(own > 1.0).sum()}"
            facts = {"ε": f"{epsilon:g}", "method": method, "median": f"{own.median():+.1f}"}
            rows.append(facts | {"from best to worst": ends, "better / worse": counts})
    return table(rows)


def asked_of(about: str | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=str(about).partition("\n")[0])
    parser.add_argument("half", nargs="?", default="choosing", choices=["choosing", "checking"])
    parser.add_argument("epsilons", nargs="*", type=float, default=[1.0, 4.0, 8.0])
    parser.add_argument("--splits", type=int, default=held_out.N_SPLITS)
    parser.add_argument("--tasks", nargs="+")
    return parser.parse_args()


def names_asked(asked: argparse.Namespace) -> list[str]:
    """Return the tasks that are asked for and have two numbers or more."""
    names = [name for name in held_out.names_of_half(asked.half) if name in OF_TASK]
    return asked.tasks or [name for name in names if len(numbers_of(name)) >= 2]


def main() -> None:
    """Measure and print."""
    asked = asked_of(__doc__)
    held_out.METHODS["ramps"] = on_pieces()
    names, methods, n_splits = names_asked(asked), ["ours", "ramps"], asked.splits
    held_out.measure(names, methods, asked.epsilons, n_splits=n_splits, folder=FOLDER)
    frame = held_out.collect(FOLDER, methods=methods, names=names, n_splits=n_splits)
    frame = frame[frame.epsilon.isin(asked.epsilons)]
    print(held_out.report(frame, beside="ours", first="ramps"))
    if "regression" in set(frame.kind):
        print(f"\nSquared errors of the worst group, change in percent:\n\n{relative(frame)}")


if __name__ == "__main__":
    main()
