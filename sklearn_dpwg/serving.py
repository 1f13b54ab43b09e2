"""Types that a skops file of a fitted model may hold.

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

# Modules and packages with classes that may be stored.
_PACKAGES = (
    *("data.problem", "estimators.auc", "estimators.worst_group"),
    *("inspection.group_audit", "inspection.audit_result", "inspection.report"),
    *("inspection.shape_display", "inspection.verdicts", "losses", "metrics.intervals"),
    *("model_selection.search", "postprocessing.base", "postprocessing.classifiers"),
    "preprocessing",
    *("privacy.guarantee", "privacy.noise.integer_noise", "privacy.release"),
    *("privacy.sensitivity", "solvers"),
)
# Types of other libraries, and of the ledger, that their attributes have: plain values.
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

    classes = _classes_of(dp_event)
    for name in _PACKAGES:
        package = import_module(f"sklearn_dpwg.{name}")
        below = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}.")
        for module in (package, *(import_module(info.name) for info in below)):
            classes += [kind for kind in _classes_of(module) if _may_be_stored(kind)]
    return (*_PARTS, *sorted({f"{kind.__module__}.{kind.__qualname__}" for kind in classes}))


def _classes_of(module: ModuleType) -> list[Any]:
    """Return the classes that a module defines, without those that it imports."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return [kind for kind in classes if kind.__module__ == module.__name__]


def _may_be_stored(kind: Any) -> bool:
    """Return whether a class is concrete, and an estimator, a loss or a frozen dataclass."""
    if inspect.isabstract(kind):
        return False
    settings = getattr(kind, "__dataclass_params__", None)
    is_frozen = settings is not None and settings.frozen
    return is_frozen or issubclass(kind, BaseEstimator | Loss | Relation | AuditReport)
