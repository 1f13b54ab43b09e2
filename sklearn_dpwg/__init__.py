"""Differentially private learning for the worst-off group, in scikit-learn's manner.

`DPWorstGroupClassifier` and `DPWorstGroupRegressor` learn a linear model whose worst-off group
does as well as it can, under an (ε, δ) guarantee that ``privacy_`` states in words and numbers;
`DPAUCClassifier` ranks two classes, without groups. Everything they do is planned from public facts
first; ``plan`` shows it before a record is read.
"""

from typing import TYPE_CHECKING, Any

from sklearn_dpwg._version import __version__ as __version__

if TYPE_CHECKING:
    from sklearn_dpwg.estimators import (
        DPAUCClassifier,
        DPWorstGroupClassifier,
        DPWorstGroupRegressor,
    )

__all__ = ["DPAUCClassifier", "DPWorstGroupClassifier", "DPWorstGroupRegressor"]


def __getattr__(name: str) -> Any:
    # scikit-learn alone takes a second to import, so the estimators load on first use
    if name in __all__:
        from sklearn_dpwg import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
