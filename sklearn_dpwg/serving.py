"""Where fitted models serve: the types that a file of skops may hold.

skops loads a file without running code that it brings along, and asks which types it may make. A
fitted model of this package, and what stands around it – its schema, plan and guarantee, thresholds
and calibration, a search, an audit – is made of those that `trusted_types` names. Guarantees and
audits have ``to_json``, and `to_sklearn` of a fitted model gives what converters to ONNX take.
"""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from sklearn.base import BaseEstimator

from sklearn_dpwg.inspection import AuditReport
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy import Relation

__all__ = ["trusted_types"]

# Where classes are that a person may keep.
_PACKAGES = (
    *("data.problem", "estimators.auc", "estimators.worst_group"),
    *("inspection.group_audit", "inspection.audit_result", "inspection.report"),
    *("inspection.shape_display", "inspection.verdicts", "losses", "metrics.intervals"),
    *("model_selection.search", "postprocessing.base", "postprocessing.classifiers"),
    "preprocessing",
    *("privacy.guarantee", "privacy.noise.integer_noise", "privacy.release"),
    *("privacy.sensitivity", "solvers"),
)
# What they are made of beside each other: values alone.
_PARTS = (
    *(f"datetime.{name}" for name in ("date", "datetime", "timedelta", "timezone")),
    *("pandas.Interval", "pandas._libs.interval.Interval"),  # labels that pandas.cut makes
    "sklearn_dpwg.ledger.costs.StartCost",
)


@cache
def trusted_types() -> tuple[str, ...]:
    """Return the types that a file of a model may hold, for ``skops.io.load(path, trusted=...)``.

    Returns
    -------
    tuple of str
        Names of the classes of this package that are made for being kept, of dates and times, and
        of the events of dp_accounting. skops trusts numbers, arrays and estimators of scikit-learn
        by itself.

    Notes
    -----
    Making one runs no code of the file, and a file is as true as who wrote it. A `PrivacyLedger` is
    not among them, nor is a source of noise.

    Examples
    --------
    >>> from skops import io
    >>> from sklearn_dpwg.preprocessing import Number, PublicSchema
    >>> from sklearn_dpwg.serving import trusted_types
    >>> written = io.dumps(PublicSchema({"age": Number(0, 100)}))
    >>> io.loads(written, trusted=list(trusted_types())).columns["age"].high
    100
    """
    from dp_accounting import dp_event

    kept = _classes_of(dp_event)
    for name in _PACKAGES:
        package = import_module(f"sklearn_dpwg.{name}")
        below = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}.")
        for module in (package, *(import_module(each.name) for each in below)):
            kept += [each for each in _classes_of(module) if _may_be_kept(each)]
    return (*_PARTS, *sorted({f"{each.__module__}.{each.__qualname__}" for each in kept}))


def _classes_of(module: ModuleType) -> list[Any]:
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    return [each for each in classes if each.__module__ == module.__name__]


def _may_be_kept(kind: Any) -> bool:
    """Return whether a class is an estimator, a loss, or a frozen record of values."""
    if inspect.isabstract(kind):
        return False
    settings = getattr(kind, "__dataclass_params__", None)
    is_frozen = settings is not None and settings.frozen
    return is_frozen or issubclass(kind, BaseEstimator | Loss | Relation | AuditReport)
