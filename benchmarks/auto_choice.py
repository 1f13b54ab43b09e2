"""Does `solver="auto"` choose well for people whom a model has not seen?

For each loss and ε: held-out worst-group loss of two solvers, its mean over tasks, the mean ratio,
and on how many tasks the second is clearly better or worse (repeated splits, as in
`utility.held_out`). "thirds" is the log loss of three classes, the thirds of a regression's
targets. For the squared error, also by what the rule goes by, μ times the size of a typical group
over d√d.

    python benchmarks/auto_choice.py [--half choosing] [--loss log_loss hinge] [--splits 4]
        [--epsilon 0.25 0.5 1 4] [--most 20000]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from common import DELTA, PUBLIC, ignore_warnings
from utility.held_out import difference, names_of_half, splits
from utility.ours import warm_up
from utility.population import kind_of, load_by_name
from utility.tasks import Part, Task

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.losses import Huber
from sklearn_dpwg.privacy import Budget

# What "auto" chooses, and beside what.
SOLVERS = {
    "log_loss": ("mgr", "phased-erm"),
    "hinge": ("mgr", "phased-erm"),
    "thirds": ("mgr", "phased-erm"),
    "squared_error": ("mgr", "moments"),
    "absolute_error": ("mgr", "phased-erm"),
    "huber": ("mgr", "phased-erm"),
}
OF_CLASSES = "log_loss", "hinge"
HUBER = Huber().threshold
EDGES = 1.0, 10.0, 50.0, 150.0, 500.0, 2000.0


class Cell(NamedTuple):
    """A task at an ε: what the rule goes by, and the losses of both; (n_splits, n_groups) each."""

    name: str
    epsilon: float
    place: float
    losses: tuple[np.ndarray, np.ndarray]


def thirds(values: np.ndarray, task: Task) -> np.ndarray:
    """Return classes of targets, cut where thirds of the training part's would be."""
    return np.digitize(values, np.quantile(task.train.y, (1 / 3, 2 / 3)))


def fit(task: Task, loss: str, solver: str, epsilon: float, seed: int) -> Any:
    """Return a fitted estimator."""
    public = task.public | PUBLIC | {"solver": solver, "random_state": seed}
    y = task.train.y
    if loss == "thirds":
        public.pop("target_bounds", None)
        y = thirds(y, task)
    if loss == "thirds" or task.is_classification:
        model: Any = DPWorstGroupClassifier(epsilon, DELTA, **public)
    else:
        model = DPWorstGroupRegressor(epsilon, DELTA, **public)
    model.set_params(loss="log_loss" if loss == "thirds" else loss)
    return model.fit(task.train.X, y, groups=task.train.groups)


def losses_of(task: Task, part: Part, loss: str, model: Any) -> np.ndarray:
    """Return the mean loss of each group of a part, residuals in widths of the target's bounds."""
    if loss == "thirds":
        codes, fractions = thirds(part.y, task), model.predict_proba(part.X)
        each = -np.log(np.maximum(fractions[np.arange(len(codes)), codes], 1e-300))
    elif loss == "log_loss":
        each = np.logaddexp(0.0, -part.targets * model.decision_function(part.X))
    elif loss == "hinge":
        each = np.maximum(0.0, 1.0 - part.targets * model.decision_function(part.X))
    else:
        low, high = task.public["target_bounds"]
        residuals = 2.0 * np.abs(model.predict(part.X) - part.y) / (high - low)
        each = residuals if loss == "absolute_error" else residuals**2 / 2.0
        if loss == "huber":
            linear = HUBER * (residuals - HUBER / 2.0)
            each = np.where(residuals > HUBER, linear, each)
    n_groups = len(task.group_labels)
    return np.bincount(part.codes, each, n_groups) / np.bincount(part.codes, minlength=n_groups)


def cells(loss: str, asked: argparse.Namespace) -> Iterator[Cell]:
    """Fit both solvers to every split of every task of a half."""
    kind = "classification" if loss in OF_CLASSES else "regression"
    for name in names_of_half(asked.half):
        if kind_of(name) != kind:
            continue
        task = load_by_name(name)
        if len(task.train.codes) > asked.most:
            continue
        warm_up(task.kind)
        roots, n_columns = np.sqrt(task.group_sizes), task.train.X.shape[1] + 1
        size = roots.sum() / (1.0 / roots).sum()
        for epsilon in asked.epsilon:
            result: tuple[list[np.ndarray], ...] = ([], [])
            for seed, split in enumerate(splits(task, asked.splits)):
                for of_solver, solver in zip(result, SOLVERS[loss], strict=True):
                    model = fit(split, loss, solver, epsilon, seed)
                    of_solver.append(losses_of(split, split.test, loss, model))
            place = Budget(epsilon, DELTA).mu * size / n_columns**1.5
            yield Cell(name, epsilon, place, (np.array(result[0]), np.array(result[1])))


def line(title: str, kind: str, result: list[Cell]) -> str:
    """Return what is found of some cells."""
    worst = np.array([[each.mean(axis=0).max() for each in cell.losses] for cell in result])
    verdicts = [difference(*reversed(cell.losses)).verdict(kind) for cell in result]
    ratio = float(np.exp(np.log(worst[:, 1] / worst[:, 0]).mean()))
    return (
        f"{title:<16}{len(result):>6}{worst[:, 0].mean():>11.4f}{worst[:, 1].mean():>11.4f}"
        f"{ratio:>8.3f}{verdicts.count(-1):>8}{verdicts.count(1):>7}"
    )


def show(loss: str, result: list[Cell]) -> None:
    """Print a line for each ε and, where a rule goes by it, for each range of the place."""
    kind = "classification" if loss in OF_CLASSES or loss == "thirds" else "regression"
    first, second = SOLVERS[loss]
    print(f"{loss:<16}{'tasks':>6}{first:>11}{second:>11}{'ratio':>8}{'better':>8}{'worse':>7}")
    for epsilon in dict.fromkeys(cell.epsilon for cell in result):
        own = [cell for cell in result if cell.epsilon == epsilon]
        print(line(f"ε = {epsilon:g}", kind, own), flush=True)
    if loss != "squared_error":
        return
    for low, high in zip((0.0, *EDGES), (*EDGES, np.inf), strict=True):
        own = [cell for cell in result if low <= cell.place < high]
        if own:
            print(line(f"from {low:g}", kind, own), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", default="choosing", choices=("choosing", "checking"))
    parser.add_argument("--loss", nargs="*", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--epsilon", nargs="*", type=float, default=[0.25, 0.5, 1.0, 4.0])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--most", type=int, default=20_000, help="records of a task")
    asked = parser.parse_args()
    print(f"held-out worst-group loss, {asked.half} half, {asked.splits} splits, δ = {DELTA:g}")
    for loss in asked.loss:
        show(loss, list(cells(loss, asked)))


if __name__ == "__main__":
    ignore_warnings()
    main()
