"""Estimators and pipelines, as options ask for them."""

from __future__ import annotations

from typing import Any

from sklearn_dpwg.cli._answers import WrongInput
from sklearn_dpwg.cli._task import Task


def make_estimator(task: Task, **parameters: Any) -> Any:
    """Return an estimator: a regressor where the target has bounds; options not given are open."""
    from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor

    given = {name: value for name, value in parameters.items() if value is not None}
    if "prior" in given:
        given["prior"] = _prior(given["prior"])
    # rows of a schema have norm at most 1
    given |= {"data_norm": 1.0, "group_labels": task.group_labels}
    if task.target_bounds is not None:
        return DPWorstGroupRegressor(target_bounds=task.target_bounds, **given)
    return DPWorstGroupClassifier(classes=task.classes, **given)


def _prior(text: str) -> str | float:
    if text in ("proportional", "uniform"):
        return text
    try:
        return float(text)
    except ValueError:
        raise WrongInput(
            f"prior must be proportional, uniform, or a number between 0 and 1, got {text!r}."
        ) from None
