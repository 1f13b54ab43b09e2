"""Private thresholds on real data: what they reach, beside fairlearn's without privacy.

    python benchmarks/thresholds.py            gaps and errors reached, for the guide
    python benchmarks/thresholds.py n_bins     other numbers of bins
    python benchmarks/thresholds.py share      other shares of the budget
    python benchmarks/thresholds.py trust      other weights of noise against what is usual

Models and thresholds learn from seven tenths of the records; rates and errors are those of the
others. The defaults were chosen on the first four data sets and checked on the last two.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from common import DELTA, load_dataset, make_estimator
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.frozen import FrozenEstimator

from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.postprocessing.histogram import likely_counts
from sklearn_dpwg.postprocessing.thresholds import RULES

CHOSEN_ON = ("adult", "law-school", "compas", "german-credit")
CHECKED_ON = ("health-insurance", "minneapolis-stops")
FAIRLEARN = {
    "selection_rate": "demographic_parity",
    "true_positive_rate": "true_positive_rate_parity",
}


class Halves(NamedTuple):
    """The records of a data set, those to learn from and those to measure on."""

    data: Any
    learn: np.ndarray
    measure: np.ndarray

    def taken(self, part: np.ndarray) -> tuple[Any, Any, Any]:
        return self.data.data[part], self.data.target[part], self.data.groups[part]


def halves(name: str) -> Halves:
    """Return a data set and the two parts of its records, at random."""
    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(len(data.target))
    n_learn = int(0.7 * len(order))
    return Halves(data, order[:n_learn], order[n_learn:])


def reached(constraint: str, y: np.ndarray, groups: np.ndarray, chosen: np.ndarray) -> list[float]:
    """Return the gap, or the worst group's error, and the error of all records."""
    labels = np.unique(groups)
    wrong = chosen != y
    if constraint == "worst_error":
        return [max(wrong[groups == label].mean() for label in labels), wrong.mean()]
    counted = y == 1 if constraint == "true_positive_rate" else np.ones(len(y), dtype=bool)
    rates = [chosen[counted & (groups == label)].mean() for label in labels]
    return [float(np.ptp(rates)), wrong.mean()]


def fitted(split: Halves, epsilon: float, seed: int, **parameters: Any) -> DPThresholdClassifier:
    """Return a model and its histogram, whose thresholds are those of the default constraint."""
    model = DPThresholdClassifier(
        make_estimator(split.data), epsilon=epsilon, delta=DELTA, random_state=seed, **parameters
    )
    return model.fit(*split.taken(split.learn))


def of_constraint(model: DPThresholdClassifier, constraint: str, split: Halves) -> list[float]:
    """Return what a constraint reaches with the histogram that a model has released."""
    likely = likely_counts(model.histogram_, model.score_edges_, model.plan_.count_std)
    model.thresholds_ = RULES[constraint](likely, model.score_edges_, True, 0.0, 1.0)
    X, y, groups = split.taken(split.measure)
    return reached(constraint, y, groups, model.predict(X, groups))


def of_fairlearn(model: Any, constraint: str, split: Halves) -> list[float]:
    """Return what fairlearn reaches with exact counts; its thresholds are drawn at random."""
    if constraint == "worst_error":
        exact = DPThresholdClassifier(FrozenEstimator(model), epsilon=np.inf, n_bins=100)
        exact.fit(*split.taken(split.learn))
        return of_constraint(exact, constraint, split)
    X, y, groups = split.taken(split.learn)
    optimizer = ThresholdOptimizer(
        estimator=model,
        constraints=FAIRLEARN[constraint],
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    optimizer.fit(X, y, sensitive_features=groups)
    X, y, groups = split.taken(split.measure)
    chosen = optimizer.predict(X, sensitive_features=groups, random_state=0)
    return reached(constraint, y, groups, np.asarray(chosen))


def compare(n_seeds: int) -> pd.DataFrame:
    """Return, for each data set, constraint and epsilon, what three ways reach."""
    rows = []
    for name in (*CHOSEN_ON, *CHECKED_ON):
        split = halves(name)
        X, y, groups = split.taken(split.measure)
        for epsilon in (1.0, 4.0):
            found: dict[str, list[Any]] = {constraint: [] for constraint in RULES}
            for seed in range(n_seeds):
                untouched = make_estimator(split.data, epsilon, random_state=seed)
                untouched.fit(*split.taken(split.learn))
                private = fitted(split, epsilon, seed)
                for constraint, of_it in found.items():
                    of_it.append(
                        [
                            *reached(constraint, y, groups, untouched.predict(X)),
                            *of_constraint(private, constraint, split),
                            *of_fairlearn(untouched, constraint, split),
                        ]
                    )
            for constraint, of_it in found.items():
                rows.append([name, constraint, epsilon, *np.mean(of_it, axis=0)])
                print(*rows[-1][:3], np.round(rows[-1][3:], 3), flush=True)
    columns = [
        f"{way} {what}" for way in ("model", "private", "exact") for what in ("gap", "error")
    ]
    return pd.DataFrame(rows, columns=["data", "constraint", "epsilon", *columns])


def sweep(
    n_seeds: int, values: list[Any], fit: Callable[..., Any], names: tuple[str, ...]
) -> pd.DataFrame:
    """Return the gap or worst error, and the error of all, of each value, per constraint."""
    rows = []
    for name in names:
        split = halves(name)
        for epsilon in (1.0, 4.0):
            for value in values:
                found = {constraint: [] for constraint in RULES}  # type: ignore[var-annotated]
                for seed in range(n_seeds):
                    model = fit(split, epsilon, seed, value)
                    for constraint, of_it in found.items():
                        of_it.append(of_constraint(model, constraint, split))
                means = [np.mean(of_it, axis=0) for of_it in found.values()]
                rows.append([name, epsilon, value, *np.concatenate(means)])
    columns = [f"{constraint} {what}" for constraint in RULES for what in ("gap", "error")]
    table = pd.DataFrame(rows, columns=["data", "epsilon", "value", *columns])
    means = table.groupby(["epsilon", "value"])[columns].mean().reset_index()
    means.insert(0, "data", "mean")
    return pd.concat([table, means])


def with_trust(split: Halves, epsilon: float, seed: int, trust: float) -> DPThresholdClassifier:
    """Return a fitted model whose released histogram is read with another weight."""
    likely_counts.__defaults__ = (trust,)
    return fitted(split, epsilon, seed)


SWEEPS: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "n_bins": ([5, 8, 10, 16, 20, 40], lambda *one: fitted(*one[:3], n_bins=one[3])),
    "share": ([0.05, 0.1, 0.2, 0.3, 0.5], lambda *one: fitted(*one[:3], histogram_share=one[3])),
    "trust": ([0.5, 1.0, 2.0, 3.0, 5.0], with_trust),
}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="table", choices=["table", *SWEEPS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="sweep on the data sets that check")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "table":
        table = compare(arguments.seeds)
    else:
        values, fit = SWEEPS[arguments.what]
        names = CHECKED_ON if arguments.check else CHOSEN_ON
        table = sweep(arguments.seeds, values, fit, names)
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
