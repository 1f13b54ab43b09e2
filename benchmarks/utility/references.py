"""What is possible without privacy, on the same splits: the end marks of `held_out`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from utility.tasks import Part, Task

# Of mean losses on unit rows: only directions that the records say nothing of feel it.
RIDGE = 1e-6


def average(task: Task, *_: Any) -> np.ndarray:
    """Return the weights of least average risk."""
    rows, targets = task.train.rows, task.train.targets
    strength = RIDGE * len(rows)
    if task.is_classification:
        model = LogisticRegression(
            C=1.0 / strength, fit_intercept=False, solver="newton-cholesky", max_iter=1000
        )
    else:
        model = Ridge(strength, fit_intercept=False)
    return np.ravel(model.fit(rows, targets).coef_)


def minimax(task: Task, *_: Any) -> np.ndarray:
    """Return the weights of least worst-group risk on the records, certified."""
    return np.array(task.optima["worst-group"]["weights"])


def boosting(task: Task, *_: Any, is_balanced: bool = False) -> Any:
    """Return the scores of boosted trees, which may count all groups alike."""
    train, sizes = task.train, task.group_sizes
    weights = (1.0 / np.maximum(sizes, 1))[train.codes] * len(train.codes) / np.count_nonzero(sizes)
    kind = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)[task.is_classification]
    model = kind(random_state=0, early_stopping=True)
    model.fit(train.rows, train.targets, sample_weight=weights if is_balanced else None)
    score = model.decision_function if task.is_classification else model.predict

    def scores(part: Part) -> np.ndarray:
        return score(part.rows)

    return scores


REFERENCES = {
    "average risk": average,
    "exact minimax": minimax,
    "boosted trees": boosting,
    "boosted trees, groups alike": partial(boosting, is_balanced=True),
}
