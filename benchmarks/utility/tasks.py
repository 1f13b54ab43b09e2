"""Tasks: a data set's fixed train and test parts, and scores of weights on them.

Weights live on *unit rows*: features over `data_norm`, then a column of ones if there is an
intercept. The loss is the logistic loss, or half the squared error with targets mapped to [-1, 1].
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_expit
from sklearn.utils import Bunch

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import (
    dataset_names,
    load_dataset,
    make_worst_group_classification,
)
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.optimum import worst_group_optimum

# Where there is no test part, every fifth row of a fixed permutation is the test part.
SPLIT_SEED, TEST_FRACTION = 0, 0.2
# Of reference optima, which no data set's reaches, and of the peers' balls.
REFERENCE_RADIUS, PEER_RADIUS = 200.0, 20.0

# Sizes and shapes of the synthetic tasks; the seed is that of their population.
MADE_SIZES, MADE_SEED = (24_000, 12_000, 6_000, 3_000), 0

BLOCK_ELEMENTS = 2_000_000


@dataclass
class Part:
    """Records of one part."""

    # Unit rows with the column of ones, targets -1 and 1 or in [-1, 1], and places of groups.
    rows: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    # The same as users have them.
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    def take(self, which: np.ndarray) -> Part:
        """Return some of the records."""
        return Part(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass
class Task:
    """A data set split once and for all."""

    name: str
    kind: str
    train: Part
    test: Part
    group_labels: tuple[str, ...]
    # Parameters of the estimators that are facts of the data and not tuned.
    public: dict[str, Any]
    # Exact excess risk of weights of shape (d, k), where the population is known.
    excess_of: Callable[[np.ndarray], np.ndarray] | None = None
    radius: float = PEER_RADIUS  # of the ball that peers keep to
    cache: Path | None = field(default=None, repr=False)

    @property
    def half_range(self) -> tuple[float, float]:
        """Middle and half the width of the targets' range; 0 and 1 for classes."""
        return half_range(self.public.get("target_bounds"))

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return self.kind == "classification"

    @property
    def fit_intercept(self) -> bool:
        """Whether models have an intercept."""
        return bool(self.public.get("fit_intercept", True))

    @property
    def group_sizes(self) -> np.ndarray:
        """Training records of each group."""
        return np.bincount(self.train.codes, minlength=len(self.group_labels))

    def unit_weights(self, model: Any) -> np.ndarray:
        """Return a fitted estimator's weights on unit rows."""
        middle, half = self.half_range
        coef = np.ravel(model.coef_) * self.public["data_norm"] / half
        if not self.fit_intercept:
            return coef
        return np.append(coef, (float(np.ravel(model.intercept_)[0]) - middle) / half)

    def losses_by_group(self, part: Part, weights: np.ndarray) -> np.ndarray:
        """Return mean losses of shape (n_groups, k) for weights of shape (d, k)."""
        losses = np.zeros((len(self.group_labels), weights.shape[1]))
        step = max(1, BLOCK_ELEMENTS // weights.shape[1])
        for first in range(0, len(part.targets), step):
            block = slice(first, first + step)
            scores, targets = part.rows[block] @ weights, part.targets[block, None]
            each = 0.5 * (scores - targets) ** 2
            if self.is_classification:
                each = -log_expit(targets * scores)
            for group in np.unique(part.codes[block]):
                losses[group] += each[part.codes[block] == group].sum(axis=0)
        sizes = np.bincount(part.codes, minlength=len(self.group_labels))[:, None]
        with np.errstate(invalid="ignore"):  # a group may be missing from a test part
            return losses / sizes

    def train_excess(self, weights: np.ndarray) -> np.ndarray:
        """Return the excess worst-group loss over the reference optimum."""
        if self.excess_of is not None:
            return self.excess_of(weights)
        losses = self.losses_by_group(self.train, weights)
        return losses.max(axis=0) - self.optima["worst-group"]["value"]

    @cached_property
    def optima(self) -> dict[str, dict[str, Any]]:
        """Non-private optima of the train part: worst-group and average risk, certified."""
        path = None if self.cache is None else self.cache / f"{self.name}.json"
        if path is not None and path.exists():
            return json.loads(path.read_text())
        loss = BinaryLogLoss() if self.is_classification else SquaredError()
        result = {}
        for name, codes, n_groups in (
            ("worst-group", self.train.codes, len(self.group_labels)),
            ("average", np.zeros_like(self.train.codes), 1),
        ):
            d = self.train.rows.shape[1] - self.fit_intercept
            records = RecordEncoder(n_groups, 1.0).encode(
                self.train.rows[:, :d], self.train.targets, codes
            )
            risks = GroupRisks(records, loss, float(self.fit_intercept))
            optimum = worst_group_optimum(risks, radius=REFERENCE_RADIUS)
            result[name] = {
                "value": float(risks.risks(optimum.weights).max()),
                "gap": optimum.gap,
                "weights": optimum.weights.tolist(),
            }
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result))
        return result


MADE = ("made-classification",)
REGRESSIONS = ("cps-hourly-earnings", "cps-weekly-wages")


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, the census last, as it takes as long as the others."""
    names = [name for name in dataset_names() if name != "census-income-kdd"]
    return (*MADE, *names, "census-income-kdd")


def load_task(name: str, *, cache: Path | None = None) -> Task:
    """Load a task by name."""
    return _made_task(name, cache) if name in MADE else _data_task(name, cache)


def split(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the fixed train and test parts, from the number of rows alone."""
    order = np.random.default_rng(SPLIT_SEED).permutation(n_rows)
    n_test = round(TEST_FRACTION * n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def half_range(bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return the middle and half the width of a range; 0 and 1 for classes, which have none."""
    low, high = (-1.0, 1.0) if bounds is None else bounds
    return (low + high) / 2.0, (high - low) / 2.0


def make_part(
    X: Any,
    y: np.ndarray,
    groups: np.ndarray,
    labels: Sequence[Any],
    bounds: tuple[float, float] | None = None,
    *,
    data_norm: float = 1.0,
    fit_intercept: bool = True,
) -> Part:
    """Return records of classes 0 and 1, or of numbers that are clipped to bounds."""
    rows = X / data_norm
    if fit_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    middle, half = half_range(bounds)
    targets = 2.0 * y - 1.0 if bounds is None else np.clip((y - middle) / half, -1.0, 1.0)
    return Part(rows, targets, np.searchsorted(np.asarray(labels), groups), X, y, groups)


def _part(data: Any, **more: Any) -> Part:
    """Return what a loader returns."""
    bounds = None if "classes" in data else data.target_bounds
    labels = data.group_labels
    facts = {"data_norm": data.data_norm, **more}
    return make_part(data.data, data.target, data.groups, labels, bounds, **facts)


def _data_task(name: str, cache: Path | None) -> Task:
    data = load_dataset(name)
    if "test" in data.entry.files:
        train, test = (_part(load_dataset(name, subset=subset)) for subset in ("train", "test"))
    else:
        train, test = map(_part(data).take, split(len(data.target)))
    public: dict[str, Any] = {"data_norm": data.data_norm}
    if data.entry.task == "regression":
        public["target_bounds"] = tuple(data.target_bounds)
    labels = tuple(map(str, data.group_labels))
    return Task(name, data.entry.task, train, test, labels, public, cache=cache)


def _made_task(name: str, cache: Path | None) -> Task:
    """Make a task whose population and optimum are known: excess is that of the population."""
    made = make_worst_group_classification(
        n_features=8, n_easy=1, group_sizes=MADE_SIZES, random_state=MADE_SEED
    )
    X, y, groups = made.population.sample(MADE_SIZES, random_state=MADE_SEED + 1)
    test = Bunch(**{**made, "data": X, "target": y, "groups": groups})
    public = {"data_norm": 1.0, "fit_intercept": False, "radius": made.radius}

    def excess_of(weights: np.ndarray) -> np.ndarray:
        return np.array([made.population.excess_risk(column) for column in weights.T])

    parts = (_part(each, data_norm=1.0, fit_intercept=False) for each in (made, test))
    labels = tuple(map(str, made.group_labels))
    return Task(name, "classification", *parts, labels, public, excess_of, made.radius, cache)
