"""Who is in which fit of several on folds, and whether public facts alone decide that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from sklearn import model_selection as known
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator

from sklearn_dpwg.exceptions import InputError

# A subclass may split by anything, so these are told by their very type.
_BY_POSITION = (
    *(known.KFold, known.RepeatedKFold, known.ShuffleSplit),
    *(known.LeaveOneOut, known.LeavePOut, known.TimeSeriesSplit),
)
_BY_LABEL = (
    *(known.StratifiedKFold, known.RepeatedStratifiedKFold),
    *(known.StratifiedShuffleSplit, known.StratifiedGroupKFold),
)
# Parameters of searches that list candidates.
SPACES = ("param_grid", "param_distributions")
_MOVES = (
    "one replaced record can move others, which the total of fits on folds does not allow for "
    "(model_selection.PublicKFold lets none move)"
)
# What the total of a ledger with several fits says, as it sees each fit alone.
SEVERAL_FITS = f"who is in which fit, where labels or other private values decide: {_MOVES}"


def folds_outside(part: Any) -> list[str]:
    """Say of every splitter in an estimator, or listed for candidates, what no total covers."""
    found = []
    for owner in _held(part):
        splitters = list(_splitters(owner))
        fitted = list(_held(owner, frozen=False)) if splitters else []
        if any(map(_is_private, fitted)):
            found += [_of_splitter(cv, type(owner).__name__, owner, fitted) for cv in splitters]
    return [said for said in dict.fromkeys(found) if said]


def folds_groupings(part: Any, cv: Any = None) -> list[str]:
    """Return in words by which public facts the folds in an estimator, or of a list, are dealt."""
    found = _groupings_of(cv)
    for owner in _held(part):
        if any(map(_is_private, _held(owner, frozen=False))):
            found += [said for each in _splitters(owner) for said in _groupings_of(each)]
    return found


def _groupings_of(cv: Any) -> list[str]:
    named = vars(type(cv)).get("_groupings")
    return [] if named is None else list(named(cv))


def list_outside(fitted: Any, cv: Any) -> list[str]:
    """Say of a list of models on folds of one splitter what no total covers; None is not told."""
    models = _listed(fitted) if isinstance(fitted, list | tuple) else []
    # one fit may be there several times, as copies of it
    models = list({getattr(one, "_fit_key", None) or id(one): one for one in models}.values())
    found = []
    for kind in dict.fromkeys(map(type, models)):
        alike = [one for one in models if type(one) is kind]
        held = list(_held(alike))
        if len(alike) < 2 or not any(map(_is_private, held)):
            continue
        name = f"{len(alike)} fits of {kind.__name__}"
        if cv is not None:
            found.append(_of_splitter(cv, name, alike[0], held))
        elif is_classifier(alike[0]):
            found.append(
                f"{name}: who is in which, if folds by label chose, as those of scikit-learn for "
                f"classifiers do unless cv= says otherwise: {_MOVES}"
            )
    return [said for said in found if said]


def _of_splitter(cv: Any, name: str, owner: Any, fitted: list[Any]) -> str | None:
    """Say what decides who is in which fold, or None where public facts alone do."""
    # a number of folds is of stratified ones where scikit-learn sees a classifier
    stratified = is_classifier(owner) or is_classifier(getattr(owner, "estimator", owner))
    said = [getattr(one, "neighbours", None) for one in fitted]
    hidden = "replace-any" in [*said, *_listed_values(owner, "neighbours")]
    kind, own = type(cv).__name__, vars(type(cv)).get("_follows_groups")
    if isinstance(cv, str) and cv != "prefit":
        raise InputError(f'cv must be a splitter, a number of folds or "prefit", got {cv!r}.')
    if isinstance(cv, str) or type(cv) in _BY_POSITION:
        return None
    decided = None
    if cv is None or isinstance(cv, Real):
        decided = f"which labels decide (cv={cv!r} of a classifier)" if stratified else None
    elif isinstance(cv, _BY_LABEL):
        decided = f"which labels decide ({kind})"
    elif own is None:
        decided = f"unless all that {kind} goes by is public, which is not known here"
    elif hidden and own(cv):
        decided = f"which groups decide ({kind}), and those are hidden"
    return decided and f"{name}: who is in which fold, {decided}: {_MOVES}"


def _is_private(estimator: Any) -> bool:
    return any(hasattr(estimator, name) for name in ("plan", "planned_guarantee", "privacy_"))


def _held(value: Any, *, frozen: bool = True) -> Iterator[Any]:
    """Yield the estimators in something, itself first; those fitted before only where asked for."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _held(one, frozen=frozen)
    elif hasattr(value, "get_params") and not isinstance(value, type):
        if isinstance(value, FrozenEstimator) and not frozen:
            return
        yield value
        for name, inner in value.get_params(deep=False).items():
            if name in SPACES:
                inner = [listed for _, listed in candidates_of(inner)]
            yield from _held(inner, frozen=frozen)


def _splitters(owner: Any) -> Iterator[Any]:
    """Yield what splits the records of an estimator, by itself or in one of its candidates."""
    for name, value in owner.get_params(deep=False).items():
        if name == "cv":
            yield value
    yield from _listed_values(owner, "cv")


def _listed_values(owner: Any, wanted: str) -> Iterator[Any]:
    """Yield what a search lists for a parameter of whatever it holds."""
    spaces = owner.get_params(deep=False) if hasattr(owner, "get_params") else {}
    for space in filter(None, map(spaces.get, SPACES)):
        listed = candidates_of(space)
        yield from (one for path, one in listed if path.rpartition("__")[2] == wanted)


def candidates_of(spaces: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that a search lists, each with its parameter; what is drawn is not known."""
    for space in [spaces] if isinstance(spaces, Mapping) else spaces:
        for name, values in space.items():
            if not hasattr(values, "rvs"):
                yield from ((name, one) for one in values)


def _listed(fitted: Any) -> list[Any]:
    is_list = isinstance(fitted, list | tuple)
    return [one for part in fitted for one in _listed(part)] if is_list else [fitted]
