"""Held-out losses of fits for the cells of several attributes, for the attributes, and for both.

    python benchmarks/several_attributes.py            # all data sets, about ten minutes
    python benchmarks/several_attributes.py adult      # some of them

Half of the records are fitted, the other half measured: the mean loss of the worst value of any
attribute, of the worst cell of 100 held-out records or more, and of all. Means of five seeds, each
with a split of its own, and standard errors of the difference from fits for cells.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.groups import members_of_groups
from sklearn_dpwg.datasets import load_dataset

# Attributes beside the groups, whose labels are split at commas: columns, or bands of an age.
MORE = {
    "adult": ["age"],
    "compas": ["sex", "age"],
    "cps-hourly-earnings": ["age"],
    "cps-weekly-wages": [],
    "health-insurance": ["gender", "region"],
    "law-school": ["sex"],
    "minneapolis-stops": ["gender"],
}
BANDS = (-0.7, -0.3)  # of an age that is mapped to [-1, 1]
EPSILONS, OVERLAPS, N_SEEDS, LEAST = (1.0, 4.0), ("cells", "attributes", "both"), 5, 100


def attributes(name: str, loaded: Any) -> pd.DataFrame:
    """Return the attributes of the records of a data set."""
    parts = [label.split(", ") for label in loaded.groups]
    found = pd.DataFrame(parts, columns=[f"group {place}" for place in range(len(parts[0]))])
    for column in MORE[name]:
        if column == "age":
            age = loaded.data[:, loaded.feature_names.index("age")]
            found[column] = np.digitize(age, BANDS)
            continue
        names = [each for each in loaded.feature_names if each.startswith(f"{column}=")]
        places = [loaded.feature_names.index(each) for each in names]
        found[column] = loaded.data[:, places].argmax(axis=1)
    return found


def losses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of each record: log loss, or half a squared error over the half width."""
    if hasattr(model, "classes_"):
        return -np.log(np.maximum(model.predict_proba(X)[np.arange(len(y)), y], 1e-12))
    low, high = model.target_bounds
    return 0.5 * ((model.predict(X) - y) / (high - low) * 2.0) ** 2


def worst(found: np.ndarray, groups: pd.DataFrame, overlap: str, least: int = 1) -> float:
    """Return the largest mean loss of a group."""
    _, members = members_of_groups(groups, len(found), overlap)
    return max(float(found[each].mean()) for each in members if len(each) >= least)


def measured(name: str, epsilon: float) -> dict[str, np.ndarray]:
    """Return three numbers a seed, by what groups were."""
    loaded = load_dataset(name)
    groups, y = attributes(name, loaded), np.asarray(loaded.target)
    known: dict[str, Any] = {"epsilon": epsilon, "data_norm": loaded.data_norm}
    kind: Any = DPWorstGroupClassifier
    if "target_bounds" in loaded:
        kind, known["target_bounds"] = DPWorstGroupRegressor, loaded.target_bounds
    found: dict[str, list[Any]] = {overlap: [] for overlap in OVERLAPS}
    for seed in range(N_SEEDS):
        fitted = np.random.default_rng(seed).random(len(y)) < 0.5
        held_out = groups[~fitted].reset_index(drop=True)
        for overlap, rows in found.items():
            model = kind(overlap=overlap, random_state=seed, **known)
            model.fit(loaded.data[fitted], y[fitted], groups=groups[fitted])
            lost = losses(model, loaded.data[~fitted], y[~fitted])
            of_values = worst(lost, held_out, "attributes")
            rows.append([of_values, worst(lost, held_out, "cells", LEAST), lost.mean()])
    return {overlap: np.array(rows) for overlap, rows in found.items()}


def main() -> None:
    """Print a row a data set and ε."""
    print("| data set | cells | ε | groups | worst value | worst cell | all |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MORE:
        n_cells = len(attributes(name, load_dataset(name)).value_counts())
        for epsilon in EPSILONS:
            found = measured(name, epsilon)
            for overlap, rows in found.items():
                apart = (rows - found["cells"]).std(axis=0, ddof=1) / N_SEEDS**0.5
                said = [f"{mean:.4f}" for mean in rows.mean(axis=0)]
                if overlap != "cells":
                    said = [f"{one} ± {error:.4f}" for one, error in zip(said, apart, strict=True)]
                line = [name, n_cells, f"{epsilon:g}", overlap, *said]
                print(f"| {' | '.join(map(str, line))} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
