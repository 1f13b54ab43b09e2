"""Folds inside a fitted object: whether public facts alone decide which records are in which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn import model_selection as splitters
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import PrivacyGuarantee

# Splitters by position. A subclass may split by anything, so the exact type is compared.
_BY_POSITION = (
    *(splitters.KFold, splitters.RepeatedKFold, splitters.ShuffleSplit),
    *(splitters.LeaveOneOut, splitters.LeavePOut, splitters.TimeSeriesSplit),
)
_BY_LABEL = (
    *(splitters.StratifiedKFold, splitters.RepeatedStratifiedKFold),
    *(splitters.StratifiedShuffleSplit, splitters.StratifiedGroupKFold),
)
# Parameters of searches that list candidates.
SPACES = ("param_grid", "param_distributions")
_MOVES = (
    "one replaced record can move others, which the total of fits on folds does not allow for "
    "(model_selection.PublicKFold lets none move)"
)
# What the total of a ledger with several fits says, as it sees each fit alone.
SEVERAL_FITS = f"who is in which fit, where labels or other private values decide: {_MOVES}"


def folds_inside(part: Any) -> tuple[list[str], list[str]]:
    """Describe the folds in an estimator that private values may decide; name others' facts."""
    splitters = list(_folds_in(part))
    texts = [text for owner, cv in splitters for text in _outside(cv, type(owner).__name__, owner)]
    return list(dict.fromkeys(texts)), [name for _, cv in splitters for name in groupings_of(cv)]


def groupings_of(cv: Any) -> list[str]:
    """Return the names of the public facts that decide the folds of a splitter."""
    named = vars(type(cv)).get("_grouping_names")
    return [] if named is None else list(named(cv))


def list_outside(fitted: Any, cv: Any) -> list[str]:
    """Describe the folds of a list of models where private values may decide who is in which."""
    models = estimators(fitted) if isinstance(fitted, list | tuple) else []
    # one fit may be there several times, as copies of it
    models = list({getattr(one, "_fit_key", None) or id(one): one for one in models}.values())
    outside = []
    for kind in dict.fromkeys(map(type, models)):
        alike = [one for one in models if type(one) is kind]
        if len(alike) > 1 and holds_private(alike):
            name = f"{len(alike)} fits of {kind.__name__}"
            outside += _outside(cv, name, alike[0])
    return outside


def is_private(estimator: Any) -> bool:
    """Return whether an estimator has a guarantee of this package, or will have one."""
    if isinstance(getattr(estimator, "privacy_", None), PrivacyGuarantee):
        return True
    names = ("plan", "planned_guarantee")
    return is_ours(estimator) and any(hasattr(estimator, name) for name in names)


def is_ours(value: Any) -> bool:
    """Return whether a value is of a class of this package, or of one that is derived from it."""
    return any(kind.__module__.startswith("sklearn_dpwg.") for kind in type(value).__mro__)


def holds_private(value: Any) -> bool:
    """Return whether an object, or any estimator inside it, is private."""
    return any(map(is_private, estimators_inside(value)))


def estimators(value: Any) -> list[Any]:
    """Return the estimators in a collection, each once."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.ravel().tolist()
    if isinstance(value, list | tuple):
        return list({id(one): one for item in value for one in estimators(item)}.values())
    return [value] if hasattr(value, "get_params") and not isinstance(value, type) else []


def estimators_inside(value: Any, *, frozen: bool = True) -> Iterator[Any]:
    """Yield the estimators inside an object, itself first; those fitted before only if `frozen`."""
    for one in estimators(value):
        if frozen or type(one) is not FrozenEstimator:
            yield one
            for name, inner in one.get_params(deep=False).items():
                listed = [each for _, each in candidates_of(inner)] if name in SPACES else inner
                yield from estimators_inside(listed, frozen=frozen)


def candidates_of(spaces: Any) -> Iterator[tuple[str, Any]]:
    """Yield each parameter with each value that a search lists, not those that it draws."""
    for space in [spaces] if isinstance(spaces, Mapping) else spaces or ():
        for name, values in space.items():
            if not hasattr(values, "rvs"):
                yield from ((name, one) for one in values)


def _folds_in(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield pairs (owner, splitter) of the splitters whose owner fits a private estimator."""
    for owner in estimators_inside(part):
        if any(map(is_private, estimators_inside(owner, frozen=False))):
            own = owner.get_params(deep=False)
            if "cv" in own:
                yield owner, own["cv"]
            # those that a search lists for its parts
            pairs = [pair for space in SPACES for pair in candidates_of(own.get(space))]
            yield from ((owner, cv) for path, cv in pairs if path.rpartition("__")[2] == "cv")


def _outside(cv: Any, name: str, owner: Any) -> list[str]:
    decided = _decided(cv, owner)
    return [f"{name}: who is in which fold, {decided}: {_MOVES}"] if decided else []


def _decided(cv: Any, owner: Any) -> str | None:
    """Describe what decides who is in which fold, None where public facts alone do."""
    if isinstance(cv, str):
        if cv != "prefit":
            raise InputError(f'cv must be a splitter, a number of folds or "prefit", got {cv!r}.')
        return None
    if cv is None or isinstance(cv, Real):  # stratified where scikit-learn sees a classifier
        by_label = is_classifier(owner) or is_classifier(getattr(owner, "estimator", owner))
        return f"which labels decide (cv={cv!r} of a classifier)" if by_label else None
    if type(cv) in _BY_POSITION or "_grouping_names" in vars(type(cv)):
        return None
    kind = type(cv).__name__
    if isinstance(cv, _BY_LABEL):
        return f"which labels decide ({kind})"
    return f"unless all that {kind} goes by is public, which is not known here"
