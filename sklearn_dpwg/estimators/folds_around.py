"""Folds of scikit-learn's searches and cross-validation, held against what scorers want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import FrameType
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from sklearn_dpwg._lazy_data import is_dask
from sklearn_dpwg.groups import are_decided_by, find_groups

# Whatever they draw, each record is scored in exactly one fold (of each repetition).
_PARTITIONS = (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold)
_REPEATED = (RepeatedKFold, RepeatedStratifiedKFold)


def check_scorers(scoring: Any, estimator: Any) -> None:
    """Refuse a scorer of groups that none can reach."""
    for scorer in _group_scorers(scoring):
        scorer.check_reached(estimator)


def check_folds_of_search(search: Any, model: Any, known: Mapping[str, Any]) -> None:
    """Refuse a search whose folds lack a group to score; it is at the start of its ``fit``."""
    _check_secret_groups(search.cv, model, known)
    scorers = _group_scorers(search.scoring)
    if not scorers or hasattr(search.cv, "__next__"):  # folds that can be looked at only once
        return
    cv = check_cv(search.cv, known.get("y"), classifier=is_classifier(search.estimator))
    _check_folds(scorers, search.estimator, model, cv, known)


def check_folds_around(frame: FrameType, model: Any) -> None:
    """Refuse the folds of ``cross_validate`` and its like, which is about to fit on the first."""
    first, around = frame.f_locals.get("test"), frame.f_back
    if first is None:
        return
    while around is not None and not (
        {"cv", "scoring", "estimator", "X"} <= around.f_locals.keys()
        and around.f_globals.get("__name__", "").startswith("sklearn.model_selection")
    ):
        around = around.f_back
    if around is None:
        return
    known = around.f_locals
    _refuse_lazy_frames(known)
    _check_secret_groups(known["cv"], model, known)
    scorers = _group_scorers(known["scoring"])
    if not scorers:
        return
    check_scorers(known["scoring"], known["estimator"])
    cv = check_cv(known["cv"], known.get("y"), classifier=is_classifier(known["estimator"]))
    _check_folds(scorers, known["estimator"], model, cv, known, first=first)


def _refuse_lazy_frames(known: Mapping[str, Any]) -> None:
    """Refuse frames of dask, of which scikit-learn cannot take the rows of a fold."""
    for name in ("X", "y"):
        value = known.get(name)
        if is_dask(value) and hasattr(value, "to_dask_array"):
            raise TypeError(
                f"{name} must be an array of dask where folds are made of it, got a "
                f"{type(value).__name__}: pass {name}.to_dask_array(lengths=True)."
            )


def _check_secret_groups(cv: Any, model: Any, known: Mapping[str, Any]) -> None:
    """Refuse folds that follow from groups which a model protects.

    A record's group would decide which others a fold's model is fitted on. Where the model finds
    groups in X, those that a splitter is given may be others, such as persons.
    """
    if model.neighbours != "replace-any":
        return
    splitter = getattr(known.get("routed_params"), "splitter", None)
    given = getattr(splitter, "split", {})
    is_given = "groups" in given
    if is_given and model.group_by is not None:
        estimator = known.get("estimator", getattr(known.get("self"), "estimator", model))
        is_given = given["groups"] is not None and _gets_same_rows(estimator, model)
        if is_given:
            own = find_groups(known["X"], None, model.group_by)
            is_given = are_decided_by(given["groups"], own)
    if is_given or getattr(cv, "stratifies_groups", False):
        raise ValueError(
            "cv must not follow from the groups with neighbours='replace-any', which protects "
            "them: one record's group would decide which others a model is fitted on; got "
            f"{type(cv).__name__}, use KFold."
        )


def _group_scorers(scoring: Any) -> list[Any]:
    scorers = scoring.values() if isinstance(scoring, dict) else [scoring]
    return [scorer for scorer in scorers if hasattr(scorer, "check_folds")]


def _check_folds(
    scorers: list[Any],
    estimator: Any,
    model: Any,
    cv: Any,
    known: Mapping[str, Any],
    *,
    first: Any = None,
) -> None:
    """Hand the folds to each scorer, with the groups that it will get.

    Where the first one is given, they are looked at only if theirs is the same, and so once. Folds
    of the process's generator are counted, not drawn: groups smaller than that lack in one anyhow.
    """
    is_drawn_anew = _is_drawn_anew(cv)
    n_folds = _n_disjoint(cv)
    if is_drawn_anew and n_folds is None:
        return
    X, y = known["X"], known.get("y")
    splitter = getattr(known.get("routed_params"), "splitter", None)

    def split() -> Iterator[Any]:
        folds: Iterator[Any] = deepcopy(cv).split(X, y, **getattr(splitter, "split", {}))
        return folds

    is_other = first is not None and not is_drawn_anew
    if is_other and not np.array_equal(next(split())[1], first):
        return
    groups = (known.get("params") or {}).get("groups")
    if groups is None or not get_config()["enable_metadata_routing"]:  # the splitter alone has them
        groups = find_groups(X, None, model.group_by) if _gets_same_rows(estimator, model) else None
    for scorer in scorers:
        if is_drawn_anew:
            scorer.check_sizes(X, groups, n_folds)
        else:
            scorer.check_folds(X, groups, split())


def _n_disjoint(cv: Any) -> int | None:
    """Return how many folds share out the records, or None where folds may share some of them."""
    if type(cv) in _REPEATED:
        return int(cv.cvargs["n_splits"])
    return int(cv.n_splits) if type(cv) in _PARTITIONS else None


def _gets_same_rows(estimator: Any, model: Any) -> bool:
    """Return whether a model inside an estimator is fitted on rows with the columns of X."""
    if estimator is model:
        return True
    parameters = estimator.get_params(deep=True)
    path = next((name for name, value in parameters.items() if value is model), "nowhere")
    return set(path.split("__")) <= {"estimator", "regressor"}


def _is_drawn_anew(cv: Any) -> bool:
    """Return whether folds come from the generator of the process, which looking would move on."""
    return getattr(cv, "random_state", 0) is None and getattr(cv, "shuffle", True)
