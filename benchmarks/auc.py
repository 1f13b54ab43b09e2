"""The area under the curve: class moments against the log loss.

Area under the ROC curve on the records, delta = 1e-5. `choice` compares `DPAUCClassifier` and the
scores of `DPWorstGroupClassifier` of one group; `ridge` and `constant` vary what the first has by
default.

    python benchmarks/auc.py [choice] [ridge] [constant] [law-school] [adult] ...
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from common import DELTA, asked, cell, constants, ignore_warnings, run_tables
from sklearn.metrics import roc_auc_score

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.estimators import auc as auc_classifier

ignore_warnings()

# of moments there are more seeds, as a fit takes no time
N_SEEDS, N_FITS = 6, 30
DATA = ("law-school", "adult", "compas", "german-credit")
CHOSEN_CONSTANT = auc_classifier.CONSTANT


class Task:
    """Rows, classes, and the area under the curve of scores."""

    def __init__(self, name: str) -> None:
        data = load_dataset(name)
        self.X, self.y = np.asarray(data.data, dtype=float), np.asarray(data.target).astype(int)
        self.data_norm, n = data.data_norm, len(self.y)
        self.records = RecordEncoder(1, self.data_norm).encode(
            self.X, self.y.astype(float), np.zeros(n, dtype=int)
        )

    def area(self, weights: np.ndarray) -> float:
        """Return the area under the curve of weights for rows of norm 1."""
        scores = (self.records.rows.astype(float)) @ weights
        return float(roc_auc_score(self.records.targets > 0.5, scores))

    def of_model(self, model) -> list[float]:
        """Return the area of each seeded fit."""
        result = []
        for seed in range(N_FITS if isinstance(model, DPAUCClassifier) else N_SEEDS):
            model.set_params(random_state=seed).fit(self.X, self.y)
            result.append(self.area(model.coef_[0]))
        return result


def choice() -> None:
    """Print both beside the exact solution."""
    for name in asked(DATA):
        task = Task(name)
        exact = DPAUCClassifier(math.inf, data_norm=task.data_norm).fit(task.X, task.y)
        print(f"\n{name}: exact {task.area(exact.coef_[0]):.4f}", flush=True)
        for epsilon in (1.0, 4.0):
            moments = task.of_model(DPAUCClassifier(epsilon, DELTA, data_norm=task.data_norm))
            other = DPWorstGroupClassifier(epsilon, DELTA, solver="mgr", data_norm=task.data_norm)
            print(
                f"  ε = {epsilon:g}: class moments {cell(moments)}, "
                f"log loss {cell(task.of_model(other))}",
                flush=True,
            )


def varied(what: str, values: tuple[float, ...], default: float) -> None:
    """Print the area for other ridges or constants; a star marks the default."""
    for name in asked(DATA):
        task, cells = Task(name), []
        for value in values:
            model = DPAUCClassifier(1.0, DELTA, data_norm=task.data_norm)
            if what == "ridge":
                model.set_params(ridge=value)
            # both modules read it
            constant = value if what == "constant" else CHOSEN_CONSTANT
            with constants(auc_classifier, CONSTANT=constant):
                star = "*" if value == default else ""
                cells.append(f"{value:g}{star} {np.mean(task.of_model(model)):.4f}")
        print(f"{name:>15} {what}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    ridges, factors = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0), (0.25, 0.5, 0.75, 1.0)
    run_tables(
        {
            "choice": choice,
            "ridge": partial(varied, "ridge", ridges, DPAUCClassifier().ridge),
            "constant": partial(varied, "constant", factors, CHOSEN_CONSTANT),
        },
        also=DATA,
    )
