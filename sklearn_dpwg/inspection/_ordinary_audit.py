"""Audits that displays run themselves, without privacy unless they are asked for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sklearn_dpwg.groups import find_groups
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.group_audit import GroupAudit


def audit_predictions(
    y_true: Any, y_pred: Any, groups: Any, parameters: Mapping[str, Any]
) -> AuditResult:
    """Return an audit of predictions; ε is infinite if nothing else is said."""
    truth = np.asarray(y_true)
    if "classes" not in parameters:
        if parameters.get("epsilon", math.inf) < math.inf:
            raise ValueError(
                "classes must be declared where epsilon is finite, as classes that are found in "
                "y_true would be released without noise, got none."
            )
        found = np.unique(truth).tolist()
        if len(found) != 2:
            raise ValueError(f"y_true must hold two classes, or say classes=, got {len(found)}.")
        parameters = {"classes": tuple(found), **parameters}
    return GroupAudit(**{"epsilon": math.inf, **parameters}).run(truth, y_pred, groups)


def audit_estimator(
    estimator: Any, X: Any, y: Any, groups: Any, parameters: Mapping[str, Any]
) -> AuditResult:
    """Return an audit of a fitted classifier of two classes."""
    classes = tuple(np.asarray(estimator.classes_).tolist())
    if len(classes) != 2:
        raise ValueError(f"estimator must know two classes, got {len(classes)}.")
    if groups is None:
        groups = find_groups(X, None, getattr(estimator, "group_by", None))
    if hasattr(estimator, "predict_proba"):
        predicted = np.asarray(estimator.predict_proba(X))[:, 1]
    else:
        predicted = estimator.predict(X)
    return audit_predictions(y, predicted, groups, {"classes": classes, **parameters})
