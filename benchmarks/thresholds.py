"""Private thresholds on real data: what they reach, beside fairlearn's without privacy.

    python benchmarks/thresholds.py            gaps and errors reached, for the guide
    python benchmarks/thresholds.py n_bins     other numbers of bins
    python benchmarks/thresholds.py edges      bins of equal width in scores instead of log odds
    python benchmarks/thresholds.py rare       which fraction is chosen where one in twenty is
    positive python benchmarks/thresholds.py fraction   other fractions of the budget python
    benchmarks/thresholds.py trust      other weights of noise against what is usual python
    benchmarks/thresholds.py usual      calibration of small groups, made by a law

Models and thresholds learn from seven tenths of the records; rates and errors are those of the
others. The defaults were chosen on the first four data sets and checked on the last two.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from common import DELTA, PUBLIC, make_estimator
from fairlearn.postprocessing import ThresholdOptimizer
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.postprocessing.base import checked_edges, count_scores
from sklearn_dpwg.postprocessing.classifiers import (
    CONSTRAINTS,
    calibrated_fractions,
    least_errors,
    likely_counts,
)

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
        """Return rows, targets and groups of a part."""
        return self.data.data[part], self.data.target[part], self.data.groups[part]


@cache
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


# What a fit reaches with a constraint: a gap or worst error, and the error of all.
Reached = Callable[[str], list[float]]


def of_private(
    split: Halves, epsilon: float, seed: int, trust: float | None = None, **parameters: Any
) -> Reached:
    """Return what a model's released histogram reaches, read with another trust if there is one."""
    model = DPThresholdClassifier(
        make_estimator(split.data), epsilon=epsilon, delta=DELTA, random_state=seed, **parameters
    )
    return partial(of_histogram, model.fit(*split.taken(split.learn)), split, trust)


def of_histogram(
    model: DPThresholdClassifier, split: Halves, trust: float | None, constraint: str
) -> list[float]:
    """Return what a constraint reaches with the histogram that a model has released."""
    facts = {} if trust is None else {"trust": trust}
    likely = likely_counts(model.histogram_, model.score_edges_, model.plan_.count_std, **facts)
    model.thresholds_ = least_errors(constraint, likely, model.score_edges_, True, 0.0, 1.0)
    X, y, groups = split.taken(split.measure)
    return reached(constraint, y, groups, model.predict(X, groups))


@cache
def untouched(name: str, epsilon: float, seed: int) -> Any:
    """Return a model without thresholds of its own."""
    split = halves(name)
    X, y, groups = split.taken(split.learn)
    return make_estimator(split.data, epsilon, random_state=seed).fit(X, y, groups=groups)


def of_model(split: Halves, epsilon: float, seed: int) -> Reached:
    """Return what a model reaches as it is."""
    model = untouched(split.data.entry.name, epsilon, seed)
    X, y, groups = split.taken(split.measure)
    return lambda constraint: reached(constraint, y, groups, model.predict(X))


def of_fairlearn(split: Halves, epsilon: float, seed: int) -> Reached:
    """Return what fairlearn reaches with exact counts; its thresholds are drawn at random."""
    model = untouched(split.data.entry.name, epsilon, seed)
    X, y, groups = split.taken(split.learn)

    def of_constraint(constraint: str) -> list[float]:
        if constraint == "worst_error":
            exact = DPThresholdClassifier(FrozenEstimator(model), epsilon=np.inf, n_bins=100)
            return of_histogram(exact.fit(X, y, groups), split, None, constraint)
        optimizer = ThresholdOptimizer(
            estimator=model,
            constraints=FAIRLEARN[constraint],
            objective="accuracy_score",
            prefit=True,
            predict_method="predict_proba",
        )
        optimizer.fit(X, y, sensitive_features=groups)
        rows, targets, sensitive = split.taken(split.measure)
        chosen = optimizer.predict(rows, sensitive_features=sensitive, random_state=0)
        return reached(constraint, targets, sensitive, np.asarray(chosen))

    return of_constraint


def measured(
    names: tuple[str, ...], n_seeds: int, variants: Mapping[Any, Callable[..., Reached]]
) -> pd.DataFrame:
    """Return what variants reach, a row for each data set, ε, variant, seed and constraint."""
    rows = []
    for name in names:
        for epsilon in (1.0, 4.0):
            for label, fit in variants.items():
                for seed in range(n_seeds):
                    result = fit(halves(name), epsilon, seed)
                    rows += [(name, epsilon, label, each, *result(each)) for each in CONSTRAINTS]
            print(f"measured: {name}, epsilon = {epsilon:g}", flush=True)
    return pd.DataFrame(rows, columns=["data", "epsilon", "value", "constraint", "gap", "error"])


def calibrated(n_seeds: int) -> pd.DataFrame:
    """Return log losses of a small group beside two of 20,000, by records of the usual fraction.

    Scores are right for the large groups, and for the small one so many logits too low.
    """
    edges, rng = checked_edges(None, 10), np.random.default_rng(0)
    middles, rows = (edges[:-1] + edges[1:]) / 2, []

    def drawn(n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
        scores = rng.beta(1.5, 2.5, n)
        return scores, rng.random(n) < expit(logit(scores) + shift)

    for shift, n in product((0.0, 0.5, 1.0, 1.5), (40, 400, 4_000)):
        for _ in range(n_seeds):
            scores, y = map(np.concatenate, zip(drawn(40_000, 0.0), drawn(n, shift), strict=True))
            codes = np.repeat([0, 1, 2], [20_000, 20_000, n])
            counts = count_scores(scores, y, codes, 3, edges)
            scores, y = drawn(4_000, shift)
            for epsilon, usual in product((1.0, 8.0, np.inf), (0.0, 1.0, 3.0, 10.0)):
                noisy = counts + np.rint(rng.laplace(0.0, 2.0 / epsilon, counts.shape))
                std = 2.0 * math.sqrt(2.0) / epsilon
                fractions = calibrated_fractions(noisy, edges, std, True, usual)[2]
                loss = log_loss(y, np.interp(scores, middles, fractions).clip(1e-6, 1.0 - 1e-6))
                rows.append((shift, n, epsilon, usual, loss))
    return pd.DataFrame(rows, columns=["logits off", "records", "epsilon", "usual", "log loss"])


def rare(n_seeds: int) -> pd.DataFrame:
    """Return what is chosen of 20,000 patients, one in twenty of whom died, and found of those."""
    rows = []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-0.5, 0.5, size=(40_000, 4))
        groups = rng.choice(["north", "south"], p=[0.8, 0.2], size=len(X))
        score = 3.0 * X[:, 0] + np.where(groups == "south", 2.0, 1.0) * X[:, 1] - 3.2
        y = rng.uniform(size=len(X)) < expit(score)
        learn, new = np.arange(20_000), np.arange(20_000, 40_000)
        model = DPWorstGroupClassifier(data_norm=1.0, **PUBLIC)
        asked = {"model": None, "default": {}, "miss_cost=1": {"miss_cost": 1.0}}
        asked["fraction=0.1"] = {"constraint": "selection_rate", "fraction": 0.1}
        for name, facts in asked.items():
            if facts is None:
                chosen = clone(model).fit(X[learn], y[learn], groups=groups[learn]).predict(X[new])
            else:
                ours = DPThresholdClassifier(model, **facts).fit(X[learn], y[learn], groups[learn])
                chosen = ours.predict(X[new], groups[new])
            for label in ("north", "south"):
                of_group = groups[new] == label
                result = chosen[of_group & y[new]].mean()
                rows.append((name, label, y[new][of_group].mean(), chosen[of_group].mean(), result))
    table = pd.DataFrame(rows, columns=["way", "group", "positive", "chosen", "of positives"])
    return table.groupby(["way", "group"], sort=False).mean()


WAYS = {"model": of_model, "private": of_private, "exact": of_fairlearn}
SWEEPS = {
    "n_bins": {n: partial(of_private, n_bins=n) for n in (5, 8, 10, 16, 20, 40)},
    "edges": {
        "log odds": of_private,
        "equal": partial(of_private, score_edges=np.linspace(0.0, 1.0, 11)[1:-1]),
    },
    "fraction": {s: partial(of_private, histogram_fraction=s) for s in (0.05, 0.1, 0.2, 0.3, 0.5)},
    "trust": {t: partial(of_private, trust=t) for t in (0.5, 1.0, 2.0, 3.0, 5.0)},
}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="?", default="table", choices=["table", "usual", "rare", *SWEEPS]
    )
    parser.add_argument("--data", nargs="+", help="names of the data sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="sweep on the data sets that check")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.what == "table":
        table = measured(tuple(asked.data or (*CHOSEN_ON, *CHECKED_ON)), asked.seeds, WAYS)
        shown = table.pivot_table(["gap", "error"], ["data", "constraint", "epsilon"], "value")
    elif asked.what == "rare":
        print(rare(asked.seeds).round(3).to_string())
        return
    elif asked.what == "usual":
        index = ["epsilon", "records", "logits off"]
        shown = calibrated(asked.seeds).pivot_table("log loss", index, "usual")
        print(shown.round(3).to_string())
        return
    else:
        names = tuple(asked.data or (CHECKED_ON if asked.check else CHOSEN_ON))
        table = measured(names, asked.seeds, SWEEPS[asked.what])
        table = pd.concat([table, table.assign(data="mean")])
        shown = table.pivot_table(["gap", "error"], ["data", "epsilon", "value"], "constraint")
    shown = shown.swaplevel(axis=1).sort_index(axis=1, ascending=[True, False])
    print(shown.round(3).to_string())


if __name__ == "__main__":
    main()
