"""Held-out losses of fits for the cells of several attributes, for the attributes, and for both.

    python benchmarks/several_attributes.py              # on a quiet core half an hour
    python benchmarks/several_attributes.py adult spam-mail    # some of them

Seven of the package's data sets, the first 14 tasks of the choosing half whose groups are crossed
attributes, and the census; others of these tasks can be named. Half of the records are fitted, the
other half measured, on eight splits, four of the census. A measure is the loss of the worst value
of any attribute, of the worst cell, or of the worst of these together, among groups of `LEAST`
records or more; a group's loss is averaged over splits first, and the worst group is taken then.
Each setting stands beside the best of the other two on the measure that it asks for: *least* where
no other loses less, *within* where the difference is at most twice its standard error over splits,
each setting at its own worst group.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from utility.held_out import difference
from utility.population import DEFINITIONS, load_definition

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.groups import members_of_groups
from sklearn_dpwg.datasets import load_dataset

# Attributes beside the groups, whose labels are split at commas: columns, or bands of an age.
MORE = {
    "adult": ["age"],
    "compas": ["sex", "age"],
    "law-school": ["sex"],
    "cps-hourly-earnings": ["age"],
    "cps-weekly-wages": [],
    "health-insurance": ["gender", "region"],
    "minneapolis-stops": ["gender"],
    "census-income-kdd": ["sex", "age"],
}
BANDS = (-0.7, -0.3)  # of an age that is mapped to [-1, 1]
CROSSED = {
    each.name: each
    for each in DEFINITIONS
    if each.half == "choosing" and len(each.groups) > 1 and not each.merged
}
TASKS = list(CROSSED)[:14]  # in the order of their files
EPSILONS, OVERLAPS, LEAST = (1.0, 4.0), ("cells", "attributes", "both"), 100
N_SPLITS, OF_LARGE, LARGE = 8, 4, 100_000  # of tables with so many records
VERDICTS = ("least", "within", "clearly worse")


class Table(NamedTuple):
    """Records, the attributes of each, and what is public."""

    X: Any
    y: np.ndarray
    groups: pd.DataFrame
    public: dict[str, Any]


def data_set(name: str) -> Table:
    """Return one of the package's data sets."""
    loaded = load_dataset(name)
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
    public: dict[str, Any] = {"data_norm": loaded.data_norm}
    if "target_bounds" in loaded:
        public["target_bounds"] = tuple(loaded.target_bounds)
    return Table(loaded.data, np.asarray(loaded.target), found, public)


def task(name: str) -> Table:
    """Return a task of the choosing half."""
    definition = CROSSED[name]
    loaded = load_definition(definition)
    cells = list(itertools.product(*(each.names for each in definition.groups)))
    of_label = dict(zip(map(", ".join, cells), cells, strict=True))
    X, y, labels = (
        np.concatenate([getattr(part, each) for part in (loaded.train, loaded.test)])
        for each in ("X", "y", "groups")
    )
    groups = pd.DataFrame([of_label[each] for each in labels])
    return Table(
        X, y, groups.set_axis([g.column for g in definition.groups], axis=1), loaded.public
    )


def losses(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Return the loss of each record: log loss, or half a squared error over the half width."""
    if hasattr(model, "classes_"):
        return -np.log(np.maximum(model.predict_proba(X)[np.arange(len(y)), y], 1e-12))
    low, high = model.target_bounds
    return 0.5 * ((model.predict(X) - y) / (high - low) * 2.0) ** 2


def members(groups: pd.DataFrame) -> dict[str, list[np.ndarray]]:
    """Return the records of the groups that each setting is about, of those that are measured."""
    found = {each: members_of_groups(groups, len(groups), each)[1] for each in OVERLAPS[:2]}
    found = {name: [m for m in each if len(m) >= LEAST] for name, each in found.items()}
    return found | {"both": [*found["attributes"], *found["cells"]]}


def measured(
    table: Table, epsilon: float, of_groups: dict[str, list[np.ndarray]]
) -> dict[str, dict[str, np.ndarray]]:
    """Return mean losses, a row a split and a column a group, by measure and setting."""
    kind = DPWorstGroupRegressor if "target_bounds" in table.public else DPWorstGroupClassifier
    public = table.public | {"neighbours": "replace-one-within-group"}
    found: dict[str, dict[str, list[list[float]]]] = {
        measure: {setting: [] for setting in OVERLAPS} for measure in OVERLAPS
    }
    for seed in range(OF_LARGE if len(table.y) >= LARGE else N_SPLITS):
        fitted = np.random.default_rng(seed).random(len(table.y)) < 0.5
        for setting in OVERLAPS:
            model = kind(epsilon, overlap=setting, random_state=seed, **public)
            model.fit(table.X[fitted], table.y[fitted], groups=table.groups[fitted])
            lost = np.full(len(table.y), np.nan)
            lost[~fitted] = losses(model, table.X[~fitted], table.y[~fitted])
            for measure, groups in of_groups.items():
                found[measure][setting].append([float(np.nanmean(lost[each])) for each in groups])
    return {
        measure: {setting: np.array(rows) for setting, rows in each.items()}
        for measure, each in found.items()
    }


def rows_of(name: str) -> Iterator[tuple[str, ...]]:
    """Yield a row an ε and measure: the losses of the settings, and how the asked one did."""
    table = data_set(name) if name in MORE else task(name)
    of_groups = members(table.groups)
    if len(of_groups["cells"]) < 2:
        return
    digits = 5 if "target_bounds" in table.public else 4
    for epsilon in EPSILONS:
        for measure, found in measured(table, epsilon, of_groups).items():
            worst = {setting: each.mean(axis=0).max() for setting, each in found.items()}
            best = min((each for each in OVERLAPS if each != measure), key=worst.__getitem__)
            gap = difference(found[measure], found[best])
            verdict = VERDICTS[(gap.value > 0) + (gap.value > max(0.0, 2.0 * gap.error))]
            lost = (f"{each:.{digits}f}" for each in worst.values())
            about = (name, str(len(table.y)), str(len(of_groups["cells"])), f"{epsilon:g}", measure)
            yield *about, *lost, f"{gap.value:+.{digits}f} ± {gap.error:.{digits}f}", verdict


def main() -> None:
    """Print a row a data set, ε and measure, and how often a setting wins its own."""
    print_tables(sys.argv[1:] or [*list(MORE)[:-1], *TASKS, *list(MORE)[-1:]])


def print_tables(names: list[str]) -> None:
    """Print the rows of these data sets, how often each verdict is given, and shares of all."""
    titles = "data set, records, cells, ε, measure, fit for cells, for attributes, for both"
    print("|", titles.replace(", ", " | "), "| asked for less the best other | verdict |")
    print("|" + "---|" * 10)
    counts: dict[tuple[str, str], Counter[str]] = {}
    for name in names:
        for row in rows_of(name):
            print("|", " | ".join(row), "|", flush=True)
            counts.setdefault((row[4], row[3]), Counter())[row[-1]] += 1
    print("\n| measure | ε |", " | ".join(VERDICTS), "|\n|" + "---|" * 5)
    for (measure, epsilon), found in sorted(counts.items()):
        print("|", " | ".join([measure, epsilon, *(str(found[each]) for each in VERDICTS)]), "|")
    for measure in OVERLAPS:
        found = sum((each for (of, _), each in counts.items() if of == measure), Counter())
        shares = (f"{found[each]} ({found[each] / found.total():.0%})" for each in VERDICTS)
        print("|", " | ".join([measure, "both", *shares]), "|")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
