"""Fit DP-EBMs; run in an environment of its own. A line of JSON a fit, answered by "done"."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor


def fit(
    asked: str, made: str, epsilon: float, delta: float, seed: int, is_classification: bool
) -> None:
    """Fit one, and write its scores of both parts: log odds, or numbers in [-1, 1]."""
    given = np.load(asked)
    nominal = given["is_nominal"]
    kinds = ["nominal" if each else "continuous" for each in nominal]
    # a code as text, as a category that is a number has an order
    train, test = (
        np.array(
            [
                [str(int(v)) if is_code else v for v in column]
                for column, is_code in zip(given[name].T, nominal, strict=True)
            ],
            dtype=object,
        ).T
        for name in ("train", "test")
    )
    how = {
        "feature_types": kinds,
        "privacy_bounds": np.tile([-1.0, 1.0], (len(kinds), 1)),
        "epsilon": epsilon,
        "delta": delta,
        "random_state": seed,
        "n_jobs": 1,
    }
    if is_classification:
        model = DPExplainableBoostingClassifier(**how).fit(train, given["targets"] > 0)
        scores = {"train": model.decision_function(train), "test": model.decision_function(test)}
    else:
        ends = {"privacy_target_min": -1.0, "privacy_target_max": 1.0}
        model = DPExplainableBoostingRegressor(**how, **ends).fit(train, given["targets"])
        scores = {"train": model.predict(train), "test": model.predict(test)}
    np.savez(made, **scores)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        fit(*json.loads(line))
        sys.stdout.write("done\n")
        sys.stdout.flush()
