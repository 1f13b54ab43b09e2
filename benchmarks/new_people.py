"""New people at epsilon = inf, and what a plan says of them beforehand: five commands.

    python benchmarks/new_people.py price    # held-out worst-group loss by price of sampling,
                                             # at other budgets with --epsilon 4 8 1e4
    python benchmarks/new_people.py ridge    # and by the ridge that goes with it
    python benchmarks/new_people.py spread   # what losses of a group's held-out records differ by
    python benchmarks/new_people.py large    # where groups are large: a made world, new people of
                                             # it, by price of sampling and budget
    python benchmarks/new_people.py gain     # over a private model without groups, and what of it
                                             # public facts explain

The choosing half of the population of `utility`; fits are kept and not made again. `gain` reads
what ``python -m utility.held_out --half choosing --epsilon 1 4 8`` keeps, or ``--folder``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import log_expit
from utility import held_out
from utility.ours import make_model
from utility.population import kind_of, load_by_name
from utility.tasks import Task
from utility.worlds import normal_rows

import sklearn_dpwg.solvers.exact as exact
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers.new_people import EPSILONS

KINDS = {"classification": np.log(2.0), "regression": 0.5}
PRICES, RIDGES = (0.0, 0.25, 0.5, 1.0, 2.0), (0.0, 0.006, 0.02, 0.06)


def names_of(kind: str) -> list[str]:
    """Return the tasks of a kind in the choosing half."""
    return [name for name in held_out.names_of_half("choosing") if kind_of(name) == kind]


def vary(
    values: tuple[float, ...],
    name: str,
    fit_with: Callable[[float], held_out.Method],
    epsilons: list[float],
) -> None:
    """Print held-out losses by one value."""
    methods = {f"{name} {value:g}": fit_with(value) for value in values}
    held_out.METHODS.update(methods)
    for kind in KINDS:
        measured = {"names": names_of(kind), "methods": list(methods)}
        held_out.measure(**measured, epsilons=epsilons)
        print(held_out.report(held_out.collect(**measured), next(iter(methods))))


def with_price(price: float) -> held_out.Method:
    """Return fits with a price of sampling."""
    return held_out.estimator(sampling_price=price)


def with_ridge(ridge: float) -> held_out.Method:
    """Return fits with another ridge at the planned price."""

    def fit(task: Task, epsilon: float, seed: int) -> held_out.Model:
        usual, exact.RIDGE = exact.RIDGE, ridge
        try:
            return held_out.estimator()(task, epsilon, seed)
        finally:
            exact.RIDGE = usual

    return fit


def spread() -> None:
    """Print the standard deviation of held-out losses within groups, median over tasks."""
    for kind, nothing in KINDS.items():
        found = []
        for name in names_of(kind):
            task = load_by_name(name)
            scores = task.test.rows @ held_out.estimator()(task, np.inf, 0)
            targets = task.test.targets
            losses = 0.5 * (scores - targets) ** 2
            if task.is_classification:
                losses = -log_expit(targets * scores)
            each = pd.Series(losses).groupby(task.test.codes).agg(["std", "size"])
            found.append(each["std"][each["size"] >= 20].median() / nothing)
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
        print(f"{kind}: {middle:.3f} of predicting nothing, {low:.3f} to {high:.3f} in the middle")


def large() -> None:
    """Print the loss of the worst group of new people, by what sampling costs groups of 8,000."""
    task, people = normal_rows(125_000), normal_rows(1_250_000).test
    print("mean loss of the worst group; prices: as planned, 1/√n at any size, none")
    for epsilon in (4.0, 8.0):
        for seed in range(2):
            found = []
            for price in ({}, {"sampling_price": 1.0}, {"sampling_price": 0.0}):
                model = make_model(task, "auto", epsilon, seed, **price)
                model.fit(task.train.X, task.train.y, groups=task.train.groups)
                found.append(held_out.losses_of(task, people, task.unit_weights(model)).max())
            print(f"ε = {epsilon:g}  " + "  ".join(f"{loss:.5f}" for loss in found), flush=True)


def gain(folder: Path) -> None:
    """Print quartiles of the gain, and the share of its variance that public facts explain."""
    for kind, nothing in KINDS.items():
        names = names_of(kind)
        frame = held_out.collect(folder, methods=["ours", "group-blind"], names=names)
        losses = frame.pivot(index=["name", "source"], columns=["method", "epsilon"], values="loss")
        for epsilon in EPSILONS:
            pair = losses[[("ours", epsilon), ("group-blind", epsilon)]].dropna()
            gains = (pair["group-blind"] - pair["ours"])[epsilon] / nothing
            facts = np.array([facts_of(name, epsilon) for name, _ in pair.index])
            explained = left_out(facts, gains.to_numpy(), pair.index.get_level_values("source"))
            quartiles = ", ".join(f"{each:.3f}" for each in np.quantile(gains, [0.25, 0.5, 0.75]))
            print(
                f"{kind}, epsilon = {epsilon:g}: quartiles {quartiles} of predicting nothing "
                f"({len(gains)} tasks); facts explain {explained:.0%} on sources left out"
            )


def facts_of(name: str, epsilon: float) -> list[float]:
    """Return three terms: the smallest group with its noise, the number of groups, columns."""
    task = load_by_name(name)
    smallest = np.bincount(task.train.codes, minlength=len(task.group_labels)).min()
    mu = Budget(epsilon, 1e-5).mu
    columns = np.log(task.train.rows.shape[1])
    return [1.0, np.log(max(smallest, 1) * mu), np.log(len(task.group_labels)), columns]


def left_out(facts: np.ndarray, gains: np.ndarray, sources: pd.Index) -> float:
    """Return 1 less the squared errors over those of the mean, each source predicted by others."""
    errors, of_mean = 0.0, 0.0
    for source in set(sources):
        own = np.asarray(sources == source)
        slopes, *_ = np.linalg.lstsq(facts[~own], gains[~own])
        errors += float(((gains[own] - facts[own] @ slopes) ** 2).sum())
        of_mean += float(((gains[own] - gains[~own].mean()) ** 2).sum())
    return 1.0 - errors / of_mean


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["price", "ridge", "spread", "large", "gain"])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[np.inf], help="of prices")
    parser.add_argument("--folder", type=Path, default=held_out.HELD_OUT)
    asked = parser.parse_args()
    if asked.what == "price":
        vary(PRICES, "price", with_price, asked.epsilon)
    elif asked.what == "ridge":
        vary(RIDGES, "ridge", with_ridge, [np.inf])
    elif asked.what in ("spread", "large"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            {"spread": spread, "large": large}[asked.what]()
    else:
        gain(asked.folder)


if __name__ == "__main__":
    main()
