"""The cost of whatever a private model was fitted in."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from sklearn_dpwg.exceptions import OutsideGuaranteeWarning, UnsupportedMechanismError
from sklearn_dpwg.privacy._composition import composition_of_event
from sklearn_dpwg.privacy._events import event_of_composition
from sklearn_dpwg.privacy._joint import joint_compositions
from sklearn_dpwg.privacy.accounting import composition_epsilon
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee
from sklearn_dpwg.privacy.learning_steps import learning_steps


def privacy_of(fitted: Any, *, warn: bool = True) -> PrivacyGuarantee:
    """Return the guarantee of everything that was fitted inside an object.

    Parameters
    ----------
    fitted : estimator, or sequence of them
        A private estimator, or a pipeline, column transformer, search, bagging, calibration or
        threshold tuning with private estimators in it; for ``cross_validate``, its
        ``"estimator"`` list.
    warn : bool, default=True
        Warn of what learned from the records outside every guarantee.

    Returns
    -------
    PrivacyGuarantee
        All fits together at the δ of the model; ``outside`` names what is not covered.

    Raises
    ------
    ValueError
        If there is no private estimator inside.
    UnsupportedMechanismError
        If fits of folds, which are gone, may have had other releases than the one kept: those
        whose noise is not Gaussian. A `PrivacyLedger` around the search counts them.

    Warns
    -----
    OutsideGuaranteeWarning
        If something learned from the records without noise.

    Notes
    -----
    A search counts every candidate on every fold, and the refit. A candidate's fit on a fold has
    the noise of its own plan, whose total is the budget whatever the number of records. Fits count
    as if each had read all records. A record that bagging draws several times counts as several.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_dpwg import DPWorstGroupRegressor
    >>> from sklearn_dpwg.privacy import privacy_of
    >>> X, y = np.full((8000, 1), 0.5), np.full(8000, 0.2)
    >>> model = DPWorstGroupRegressor(group_by=lambda X: np.arange(len(X)) % 2)
    >>> search = GridSearchCV(model, {"epsilon": [0.5, 1.0]}, cv=3).fit(X, y)
    >>> round(privacy_of(search, warn=False).epsilon, 2)  # seven fits
    2.35
    """
    found = _Findings()
    _visit(fitted, found)
    if not found.guarantees:
        raise ValueError(f"fitted holds no private fit, got {type(fitted).__name__}.")
    outside = tuple(dict.fromkeys(found.outside))
    if outside and warn:
        warnings.warn(
            f"outside the guarantee, as they learn from the records without noise: "
            f"{'; '.join(outside)}.",
            OutsideGuaranteeWarning,
            stacklevel=2,
        )
    return replace(_total(found), outside=outside)


@dataclass
class _Findings:
    guarantees: list[PrivacyGuarantee] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)


def _total(found: _Findings) -> PrivacyGuarantee:
    last = found.guarantees[-1]
    if len(found.guarantees) == 1:
        return last
    public = tuple(dict.fromkeys(fact for one in found.guarantees for fact in one.public))
    seeded = any(one.seeded for one in found.guarantees)
    if not all(one.is_private for one in found.guarantees):
        return PrivacyGuarantee.non_private(last.delta, public=public)
    totals = joint_compositions(one.events for one in found.guarantees)
    events = tuple(map(event_of_composition, totals))
    epsilon = max(composition_epsilon(total, last.delta) for total in totals)
    return PrivacyGuarantee(epsilon, last.delta, last.relation, public, events, seeded)


def _visit(part: Any, found: _Findings) -> None:
    """Collect the guarantees of fits inside, those of the final model last."""
    name = type(part).__name__
    if isinstance(part, list | tuple):
        for one in part:
            _visit(one, found)
    elif hasattr(part, "privacy_"):
        found.guarantees.append(part.privacy_)
    elif hasattr(part, "steps"):  # a pipeline
        for _, step in part.steps:
            _visit(step, found)
    elif hasattr(part, "transformers_"):
        for _, step, _ in part.transformers_:
            _visit(step, found)
    elif hasattr(part, "transformer_list"):
        for _, step in part.transformer_list:
            _visit(step, found)
    elif hasattr(part, "cv_results_"):  # a search
        if not hasattr(part, "best_estimator_"):
            raise ValueError(f"fitted must have a best_estimator_: {name} has refit=False.")
        for parameters in part.cv_results_["params"]:
            candidate = clone(part.estimator).set_params(**clone(parameters, safe=False))
            found.guarantees += part.n_splits_ * list(_planned(candidate, part.best_estimator_))
        found.outside.append(f"{name}: the choice by scores of held-out records")
        _visit(part.best_estimator_, found)
    elif hasattr(part, "calibrated_classifiers_"):
        for calibrated in part.calibrated_classifiers_:
            _visit(calibrated.estimator, found)
        found.outside.append(f"{name}: the calibration")
    elif hasattr(part, "best_threshold_"):
        found.outside.append(f"{name}: the choice of the threshold")
        n_folds = _n_folds_of_threshold(part)
        found.guarantees += n_folds * list(_planned(clone(part.estimator), part.estimator_))
        _visit(part.estimator_, found)
    elif hasattr(part, "estimators_samples_"):  # bagging
        for one, samples in zip(part.estimators_, part.estimators_samples_, strict=True):
            inside = _Findings(outside=found.outside)
            _visit(one, inside)
            # a record drawn several times is several records, all of one owner
            times = int(np.bincount(samples).max())
            several = (guarantee.for_records(times) for guarantee in inside.guarantees)
            found.guarantees += [replace(guarantee, n_records=1) for guarantee in several]
    elif hasattr(part, "estimators_"):
        for one in list(part.estimators_):
            _visit(one, found)
        found.outside.append(f"{name}: whatever it learned beside its estimators")
    elif hasattr(part, "estimator_") or hasattr(part, "estimator"):
        found.outside.append(f"{name}: whatever it learned beside its estimator")
        _visit(getattr(part, "estimator_", getattr(part, "estimator", None)), found)
    else:
        found.outside += [f"{name}: all that it learned" for name in learning_steps(part)]


def _planned(candidate: Any, fitted: Any) -> Iterator[PrivacyGuarantee]:
    """Yield what each private step of a candidate costs, from the public facts of a fitted one."""
    if hasattr(candidate, "steps"):
        for (_, step), (_, fitted_step) in zip(candidate.steps, fitted.steps, strict=True):
            yield from _planned(step, fitted_step)
    elif hasattr(fitted, "privacy_"):
        if hasattr(candidate, "plan"):
            classes = {"classes": fitted.classes_} if hasattr(fitted, "classes_") else {}
            guarantee = candidate.plan(
                group_sizes=[int(size) for size in fitted.group_sizes_],
                n_features=fitted.n_features_in_,
                **classes,
            ).guarantee
        else:
            guarantee = candidate.planned_guarantee()
        if guarantee.is_private and not all(
            composition_of_event(event).is_gaussian for event in guarantee.events
        ):
            raise UnsupportedMechanismError(
                "the fits of folds are gone, and as their noise was not all Gaussian it cannot be "
                "known from the one fit that was kept: run the search inside a PrivacyLedger."
            )
        yield guarantee


def _n_folds_of_threshold(tuned: Any) -> int:
    from sklearn.model_selection import check_cv

    if tuned.cv == "prefit":
        return 0
    if isinstance(tuned.cv, float):
        return 1
    return int(check_cv(tuned.cv).get_n_splits())
