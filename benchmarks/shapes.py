"""What bends are worth: held-out losses of default fits on lines and on public pieces of numbers.

`python benchmarks/shapes.py [choosing|checking] [ε …]` measures every task of the half that has two
numbers or more among its columns, on the splits of `utility.held_out`, and prints the change.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from utility import held_out
from utility.ours import make_model
from utility.population import DEFINITIONS
from utility.tasks import Part, Task

from sklearn_dpwg.preprocessing import Date, Number, PublicSchema, PublicShapes

FOLDER = held_out.FOLDER / "shapes"
OF_TASK = {each.name: each for each in DEFINITIONS}


def numbers_of(name: str) -> list[str]:
    """Return the columns of a task that may bend."""
    columns = OF_TASK[name].columns
    return [str(key) for key, column in columns.items() if isinstance(column, Number | Date)]


def on_pieces(kind: str, *, grouped: bool = True, **parameters: Any) -> held_out.Method:
    """Return the fit of a default estimator behind `PublicShapes`."""

    def fit(task: Task, epsilon: float, seed: int) -> Any:
        schema = PublicSchema(dict(OF_TASK[task.name].columns), shapes="linear")._schema()
        numbers = numbers_of(task.name)
        shapes = PublicShapes(
            dict.fromkeys(numbers, (-1.0, 1.0)),
            kind=kind,
            rest_norm=max(np.sqrt(len(schema.columns) - len(numbers)), 1e-3),
        )

        def rows_of(part: Part) -> np.ndarray:
            unscaled = part.X * schema.row_norm
            frame = pd.DataFrame(unscaled, columns=list(schema.feature_names))
            found: np.ndarray = shapes.fit_transform(frame)
            return found

        model = make_model(task, "auto", epsilon, seed).set_params(**parameters)
        model.fit(rows_of(task.train), task.train.y, task.train.groups if grouped else None)
        weights = task.unit_weights(model)
        return lambda part: rows_of(part) @ weights[:-1] + weights[-1]

    return fit


def main(half: str = "choosing", *budgets: str) -> None:
    """Measure and print."""
    held_out.METHODS["multi-ramps"] = on_pieces("multi-ramps")
    held_out.METHODS["ramps"] = on_pieces("ramps")
    held_out.METHODS["multi-ramps, group-blind"] = on_pieces("multi-ramps", grouped=False)
    names = [name for name in held_out.names_of_half(half) if len(numbers_of(name)) >= 2]
    methods = ["ours", "multi-ramps", "ramps"]
    epsilons = [float(each) for each in budgets] or [1.0, 4.0, 8.0]
    held_out.measure(names, methods, epsilons, folder=FOLDER)
    frame = held_out.collect(FOLDER, methods=methods, names=names)
    print(held_out.report(frame, beside="ours"))


if __name__ == "__main__":
    main(*sys.argv[1:])
