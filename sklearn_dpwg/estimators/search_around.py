"""Searches and cross-validation of scikit-learn, looked through before their first fit.

They begin by cloning their estimator, and that is where a private model learns of them.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
from joblib.externals.loky.backend.reduction import dumps
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, RandomizedSearchCV

from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.estimators.folds_around import (
    check_folds_around,
    check_folds_of_search,
    check_scorers,
)
from sklearn_dpwg.exceptions import BudgetExceededError, UnsupportedMechanismError
from sklearn_dpwg.groups import encode_groups, find_groups
from sklearn_dpwg.ledger.charge import active_ledgers
from sklearn_dpwg.ledger.planned_search import candidates_of, check_room, fits_of_search
from sklearn_dpwg.problem import equal_sizes

_MOST_CANDIDATES = 1000


def check_search_around(model: Any) -> None:
    """Refuse what can be told of the search that is about to fit clones of this very model.

    That is: parameters of candidates, a scorer that no groups reach, a fold without a group that a
    scorer wants, a `group_by` that does not go to other processes, and in a ledger a search that it
    cannot pay for. All of it is public, but for folds that follow labels; errors about these, like
    all about the input, are outside the guarantee.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "sklearn.base":
        frame = frame.f_back
    if frame is None:
        return
    if frame.f_code.co_name == "<genexpr>":
        check_folds_around(frame, model)
    if frame.f_code.co_name != "fit":
        return
    search: Any = frame.f_locals.get("self")
    # clones of clones, as for each fold, are not looked at again
    if not _is_search(search) or not _holds(search.estimator, model):
        return
    refuse_lazy(X=frame.f_locals.get("X"), y=frame.f_locals.get("y"))
    check_scorers(search.scoring, search.estimator)
    check_folds_of_search(search, model, frame.f_locals)
    _check_jobs(search, model)
    for candidate in _listed_candidates(search):
        for part in [candidate, *candidate.get_params(deep=True).values()]:
            if isinstance(part, type(model)):
                part._check_parameters()
    ledgers = active_ledgers()
    if ledgers and isinstance(search, GridSearchCV | RandomizedSearchCV):
        _check_ledgers(ledgers, search, model, frame.f_locals)


def _is_search(thing: Any) -> bool:
    """Return whether it is a search of scikit-learn, whose common class is not public."""
    has_candidates = hasattr(thing, "param_grid") or hasattr(thing, "param_distributions")
    return has_candidates and all(hasattr(thing, name) for name in ("cv", "scoring", "n_jobs"))


def _holds(estimator: Any, model: Any) -> bool:
    return estimator is model or any(
        part is model for part in estimator.get_params(deep=True).values()
    )


def _check_jobs(search: Any, model: Any) -> None:
    if search.n_jobs in (None, 1) or not callable(model.group_by):
        return
    try:
        dumps(model.group_by)
    except Exception as error:
        raise ValueError(
            f"group_by must be a function that can be pickled where n_jobs={search.n_jobs!r} "
            f"sends it to other processes, got {model.group_by!r}, with which pickle fails."
        ) from error


def _listed_candidates(search: Any) -> list[Any]:
    """Return all candidates of a grid, with their parameters set."""
    grid = getattr(search, "param_grid", None)
    if grid is None or len(ParameterGrid(grid)) > _MOST_CANDIDATES:
        return []
    return [
        clone(search.estimator).set_params(**clone(parameters, safe=False))
        for parameters in ParameterGrid(grid)
    ]


def _check_ledgers(ledgers: list[Any], search: Any, model: Any, known: dict[str, Any]) -> None:
    if _budget_is_drawn(search) or len(candidates_of(search)) > _MOST_CANDIDATES:
        return
    X: Any = known.get("X")
    y = known.get("y")
    classes = np.unique(np.asarray(y)).tolist() if is_classifier(model) else None
    n_features = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else 1
    sizes = _group_sizes(search, model, X, len(np.asarray(y)), known.get("params") or {})
    try:
        fits, _ = fits_of_search(search, sizes, n_features, classes)
    except UnsupportedMechanismError:
        return  # what else is fitted inside shows when it is fitted
    for ledger in ledgers:
        reason = check_room(search, fits, ledger.rows(), *ledger.budget())
        if reason is not None:
            raise BudgetExceededError(reason)


def _budget_is_drawn(search: Any) -> bool:
    """Return whether what a fit costs is drawn with the candidates, and so not known yet."""
    spaces = getattr(search, "param_distributions", [])
    names = {name for space in ([spaces] if isinstance(spaces, dict) else spaces) for name in space}
    last = {name.rpartition("__")[2] for name in names}
    return bool(last & {"epsilon", "delta"}) and not isinstance(search.random_state, int)


def _group_sizes(
    search: Any, model: Any, X: Any, n_records: int, passed: dict[str, Any]
) -> list[int]:
    """Return the sizes of the groups where they are at hand and public, or else equal ones."""
    if model.neighbours == "replace-any":
        return list(equal_sizes(n_records, len(model.group_labels or (0,))))
    groups = next((v for name, v in passed.items() if name.rpartition("__")[2] == "groups"), None)
    if groups is None and search.estimator is model:
        groups = find_groups(X, None, model.group_by)
    if groups is None:
        n_groups = len(model.group_labels) if model.group_labels is not None else 1
        return [max(1, n_records // n_groups)] * n_groups
    codes, _ = encode_groups(groups, n_records, model.group_labels)
    return np.bincount(codes).tolist()
