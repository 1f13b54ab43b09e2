"""Cost of whatever a private model was fitted in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    TunedThresholdClassifierCV,
    check_cv,
)
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from sklearn_dpwg.data.groups import grouping_names
from sklearn_dpwg.exceptions import InputError, OutsideGuaranteeWarning, UnsupportedMechanismError
from sklearn_dpwg.exceptions import warn as warn_caller
from sklearn_dpwg.ledger.file import total_epsilon
from sklearn_dpwg.ledger.folds import SPACES, candidates_of, folds_outside, list_outside
from sklearn_dpwg.privacy import PrivacyGuarantee, joint_guarantee
from sklearn_dpwg.privacy.accounting import is_gaussian

# Their fit looks at the number of columns alone.
_SHAPE_ONLY = (PolynomialFeatures, GaussianRandomProjection, SparseRandomProjection)
# They learn nothing where categories are stated; others, like TargetEncoder, do all the same.
_ENCODERS = (OneHotEncoder, OrdinalEncoder)


def learning_steps(step: Any) -> list[str]:
    """Return the class names of what may have learned from the records, or will, in a step.

    Functions, as of a ``FunctionTransformer``, are taken to treat every row by itself.
    """
    for name in ("steps", "transformers_", "transformers", "transformer_list"):
        if hasattr(step, name):
            inner = (part[1] for part in getattr(step, name))
            return [found for part in inner for found in learning_steps(part)]
    return [type(step).__name__] if _learns(step) else []


def _learns(step: Any) -> bool:
    if step is None or isinstance(step, str) or not getattr(step, "_learns_from_records", True):
        return False
    if isinstance(step, _SHAPE_ONLY):
        return False
    if isinstance(step, _ENCODERS) and isinstance(step.categories, list | tuple):
        # an encoder whose categories are stated, and which drops or unites none by their counts
        counted = ("min_frequency", "max_categories")
        return any(getattr(step, name, None) is not None for name in counted)
    tags = getattr(step, "__sklearn_tags__", None)
    return tags is None or bool(tags().requires_fit)


_BAGGING = (BaggingClassifier, BaggingRegressor)


class StartCost(NamedTuple):
    """What a private fit cost whose weights another fit began with."""

    key: str  # of the fit, under which ledgers know it
    what: str  # what was fitted, for the ledger's report
    guarantee: PrivacyGuarantee  # of that fit alone


def costs_of_start(start: Any) -> tuple[StartCost, ...]:
    """Return the private fits that a start holds: its own, and those that it began with itself."""
    if isinstance(start, type) or not hasattr(start, "privacy_"):
        return ()
    key = getattr(start, "_fit_key", None) or uuid4().hex
    own = StartCost(key, f"start: {type(start).__name__}", start.privacy_)
    return (*getattr(start, "_start_costs", ()), own)


def costs_in(parameters: Mapping[str, Any]) -> list[StartCost]:
    """Return the private fits of all starts among parameters, those in searches too, each once."""
    found: list[StartCost] = []
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if last == "start":
            found += costs_of_start(value)
        elif last in SPACES:
            found += [cost for pair in candidates_of(value) for cost in costs_in(dict([pair]))]
    return list({cost.key: cost for cost in found}.values())


def in_words(costs: tuple[StartCost, ...]) -> tuple[str, ...]:
    """Return what a guarantee says of the fits that it leaves out."""
    return tuple(
        f"the weights that the fit began with, which a private fit of epsilon = "
        f"{cost.guarantee.epsilon:.4g} at delta = {cost.guarantee.delta:.4g} learned: a record "
        "that was in both pays for both, and privacy_of states them together"
        for cost in costs
    )


def privacy_of(fitted: Any, *, warn: bool = True, cv: Any = None) -> PrivacyGuarantee:
    """Return the guarantee of everything that was fitted inside an object.

    Parameters
    ----------
    fitted : estimator, or sequence of them
        A private estimator, or a pipeline, column transformer, search, bagging, calibration or
        threshold tuning with private estimators in it, or such things in each other; for
        ``cross_validate``, its ``"estimator"`` list.
    warn : bool, default=True
        Warn of what learned from the records outside every guarantee.
    cv : int or cross-validation splitter, optional
        What chose the records of a list of models, as it was passed to ``cross_validate``. Where
        it is not said, several classifiers of a kind are named outside, as folds by label may have.

    Returns
    -------
    PrivacyGuarantee
        All fits together at the δ of the model; ``outside`` names what is not covered, with
        "not counted" where something else made fits of which only some can be seen.

    Raises
    ------
    ValueError
        If there is no private estimator inside.
    UnsupportedMechanismError
        If fits of folds, which are gone, may have had other releases than the one kept: those
        whose noise is not Gaussian, or inside something whose fits it does not know. A
        `PrivacyLedger` around the search counts them.

    Warns
    -----
    OutsideGuaranteeWarning
        If something learned from the records without noise.

    Notes
    -----
    Folds that labels decide, scikit-learn's for classifiers, are named in ``outside``: another
    label of one record moves others between fits, which no total covers; `PublicKFold` moves none.

    A search counts every candidate on every fold, and the refit. Fits count as if each had read all
    records; a record that bagging draws several times counts as several. A private model that a fit
    began with (`start`) counts once.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_dpwg import DPWorstGroupRegressor
    >>> from sklearn_dpwg.ledger import privacy_of
    >>> X, y = np.full((8000, 1), 0.5), np.full(8000, 0.2)
    >>> public = {"data_norm": 1.0, "target_bounds": (-1, 1)}
    >>> by_place = lambda X: np.arange(len(X)) % 2
    >>> model = DPWorstGroupRegressor(solver="mgr", group_by=by_place, **public)
    >>> search = GridSearchCV(model, {"radius": [1.0, 2.0]}, cv=3).fit(X, y)
    >>> round(privacy_of(search, warn=False).epsilon, 2)  # seven fits
    2.89
    """
    found = _Findings(outside=list_outside(fitted, cv))
    _visit(fitted, found)
    if not found.guarantees:
        raise InputError(f"fitted holds no private fit, got {type(fitted).__name__}.")
    outside = tuple(dict.fromkeys(found.outside))
    if outside and warn:
        warn_caller(
            f"outside the guarantee, as they learn from the records without noise: "
            f"{'; '.join(outside)}.",
            OutsideGuaranteeWarning,
        )
    before = [cost for key, cost in found.starts.items() if key not in found.keys]
    guarantees = _of_one_unit([*before, *found.guarantees])
    last = guarantees[-1]
    total = last if len(guarantees) == 1 else joint_guarantee(guarantees, last.delta)
    return replace(total, outside=outside)


def _of_one_unit(guarantees: list[PrivacyGuarantee]) -> list[PrivacyGuarantee]:
    """Return the guarantees of the person with the most rows, where some are of fewer rows."""
    most = max(one.records_per_person for one in guarantees)
    if any(most % one.records_per_person for one in guarantees):
        return guarantees  # which are refused together
    return [one.for_records(most // one.records_per_person) for one in guarantees]


@dataclass(frozen=True)
class PublicFacts:
    """What is known of a model before its fit, in place of a fitted one."""

    group_sizes_: list[int]
    n_features_in_: int
    classes: Sequence[Any] | None


@dataclass
class _Findings:
    guarantees: list[PrivacyGuarantee] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    starts: dict[str, PrivacyGuarantee] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def add_starts(self, costs: Iterable[StartCost]) -> None:
        self.starts |= {cost.key: cost.guarantee for cost in costs}


def _visit(part: Any, found: _Findings) -> None:
    """Collect the guarantees of fits inside, those of the final model last."""
    found.outside += folds_outside(part)
    if isinstance(part, list | tuple):
        for one in part:
            _visit(one, found)
    elif hasattr(part, "privacy_"):
        found.guarantees.append(part.privacy_)
        found.keys.add(getattr(part, "_fit_key", ""))
        found.add_starts(getattr(part, "_start_costs", ()))
        if hasattr(part, "best_estimator_"):  # a private search, of candidates with starts
            found.add_starts(_starts_of_search(part))
    elif _is_composite(part):
        for step in _steps(part).values():
            _visit(step, found)
    else:
        for attribute, visit in _META_ESTIMATORS.items():
            if hasattr(part, attribute):
                visit(part, found)
                return
        _visit_unknown(part, found)


def _visit_search(part: Any, found: _Findings) -> None:
    """Collect the fits of every candidate on every fold, and the refit."""
    name = type(part).__name__
    if not hasattr(part, "best_estimator_"):
        raise InputError(f"fitted must have a best_estimator_: {name} has refit=False.")
    found.add_starts(_starts_of_search(part))
    for parameters in part.cv_results_["params"]:
        candidate = candidate_of(part, parameters)
        found.guarantees += part.n_splits_ * planned_fits(candidate, part.best_estimator_)
    found.outside.append(f"{name}: the choice by scores of held-out records")
    _visit(part.best_estimator_, found)


def _starts_of_search(part: Any) -> list[StartCost]:
    """Return the private models that candidates of a search began with."""
    listed = getattr(part, "cv_results_", {}).get("params", [])
    kept = part.best_estimator_.get_params()
    return [cost for each in (part.get_params(), kept, *listed) for cost in costs_in(each)]


def _visit_calibration(part: Any, found: _Findings) -> None:
    """Collect the fits whose scores were calibrated."""
    kept = [calibrated.estimator for calibrated in part.calibrated_classifiers_]
    if not part.ensemble:  # the folds predicted and are gone
        found.guarantees += n_folds_of(part.cv) * planned_fits(part.estimator, kept[0])
    _visit(kept, found)
    found.outside.append(f"{type(part).__name__}: the calibration")


def _visit_threshold(part: Any, found: _Findings) -> None:
    """Collect the fits of the folds that chose a threshold, and the final one."""
    found.outside.append(f"{type(part).__name__}: the choice of the threshold")
    found.guarantees += n_folds_of(part.cv) * planned_fits(part.estimator, part.estimator_)
    _visit(part.estimator_, found)


def _visit_bagging(part: Any, found: _Findings) -> None:
    """Collect fits on samples, in which a record may stand several times."""
    for one, samples in zip(part.estimators_, part.estimators_samples_, strict=True):
        inside = _Findings(outside=found.outside, starts=found.starts, keys=found.keys)
        _visit(one, inside)
        # a record drawn several times is several records, all of one owner
        times = int(np.bincount(samples).max())
        several = (guarantee.for_records(times) for guarantee in inside.guarantees)
        found.guarantees += [
            replace(guarantee, records_per_person=of_fit.records_per_person)
            for guarantee, of_fit in zip(several, inside.guarantees, strict=True)
        ]


# What tells a fitted meta-estimator of scikit-learn, and how its fits are found.
_META_ESTIMATORS: dict[str, Callable[[Any, _Findings], None]] = {
    "cv_results_": _visit_search,
    "calibrated_classifiers_": _visit_calibration,
    "best_threshold_": _visit_threshold,
    "estimators_samples_": _visit_bagging,
}


def _visit_unknown(part: Any, found: _Findings) -> None:
    """Collect the private fits that can be seen, and say that there may be others."""
    name, n_before = type(part).__name__, len(found.guarantees)
    for one in _estimators(vars(part)) if hasattr(part, "__dict__") else ():
        inside = _Findings(starts=found.starts, keys=found.keys)
        _visit(one, inside)
        if inside.guarantees:
            found.guarantees += inside.guarantees
            found.outside += inside.outside
    if len(found.guarantees) > n_before or _holds_private(part):
        found.outside.append(f"not counted: what {name} fitted or learned beside what it kept")
    else:
        found.outside += [f"{step}: all that it learned" for step in learning_steps(part)]


def planned_fits(candidate: Any, fitted: Any) -> list[PrivacyGuarantee]:
    """Return what each private fit in a fit of a candidate costs, by facts of a fitted one."""
    kind = type(candidate)
    if candidate is None or isinstance(candidate, str | FrozenEstimator):
        return []
    if hasattr(candidate, "planned_guarantee"):  # which follows from the parameters alone
        return [candidate.planned_guarantee()]
    if hasattr(candidate, "plan"):
        return [_planned_model(candidate, fitted)]
    if _is_composite(candidate):
        places = _steps(fitted) if _is_composite(fitted) else {}
        facts = fitted if isinstance(fitted, PublicFacts) else None
        steps = _steps(candidate).items()
        return [one for name, step in steps for one in planned_fits(step, places.get(name, facts))]
    if not _holds_private(candidate):
        return []
    if kind is type(fitted):
        if isinstance(candidate, GridSearchCV):
            return _planned_grid(candidate, fitted.best_estimator_)
        if isinstance(candidate, CalibratedClassifierCV):
            n_fits = n_folds_of(candidate.cv) + (not candidate.ensemble)
            place = fitted.calibrated_classifiers_[0].estimator
        elif isinstance(candidate, TunedThresholdClassifierCV):
            n_fits, place = n_folds_of(candidate.cv) + 1, fitted.estimator_
        # how often a bootstrap drew a record in a fold is not known
        elif isinstance(candidate, _BAGGING) and not candidate.bootstrap:
            n_fits, place = candidate.n_estimators, fitted.estimators_[0]
        else:
            raise _unknown(kind)
        return n_fits * planned_fits(candidate.estimator, place)
    raise _unknown(kind)


def _planned_model(candidate: Any, fitted: Any) -> PrivacyGuarantee:
    kind = type(candidate)
    if not hasattr(fitted, "group_sizes_"):
        raise _unknown(kind)
    is_planned = isinstance(fitted, PublicFacts)  # of the very records that will be fitted
    classes = getattr(fitted, "classes" if is_planned else "classes_", None)
    is_free = classes is not None and is_classifier(candidate)
    plan = candidate.plan(
        group_sizes=[int(size) for size in fitted.group_sizes_],
        n_features=fitted.n_features_in_,
        **({"classes": classes} if is_free else {}),
    )
    named = grouping_names(None, getattr(candidate, "group_by", None))
    if is_planned:
        return replace(plan.guarantee, groupings=named)
    return replace(_gaussian(plan.guarantee, kind), groupings=named or fitted.privacy_.groupings)


def _planned_grid(candidate: GridSearchCV, fitted: Any) -> list[PrivacyGuarantee]:
    each = []
    for parameters in ParameterGrid(candidate.param_grid):
        one = candidate_of(candidate, parameters)
        each.append([_gaussian(cost, type(one)) for cost in planned_fits(one, fitted)])
    # which won is not known, and of Gaussian noise the dearest is the same one at every delta
    return n_folds_of(candidate.cv) * [cost for costs in each for cost in costs] + dearest(each)


def candidate_of(search: Any, parameters: Mapping[str, Any]) -> Any:
    """Return what a search fits with these parameters."""
    return clone(search.estimator).set_params(**clone(parameters, safe=False))


def dearest(fits: Iterable[list[PrivacyGuarantee]]) -> list[PrivacyGuarantee]:
    """Return the fits that cost most together."""
    return max(fits, key=lambda costs: total_epsilon(costs, 1e-6))


def _gaussian(guarantee: PrivacyGuarantee, kind: type) -> PrivacyGuarantee:
    """Return a guarantee that epsilon and delta alone fix, whatever was read, or refuse it."""
    if guarantee.is_private and not all(map(is_gaussian, guarantee.events)):
        raise _unknown(kind)
    return guarantee


def _unknown(kind: type) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(
        f"the fits that {kind.__name__} made on folds or inside are gone, and what they cost "
        f"cannot be known from what was kept: run the search inside a PrivacyLedger."
    )


def n_folds_of(cv: Any) -> int:
    """Return how many folds a splitter makes; 0 for a model that is fitted already."""
    if isinstance(cv, str):  # "prefit"
        return 0
    if isinstance(cv, float):
        return 1
    try:
        n_folds = int(check_cv(cv).get_n_splits())
    except (TypeError, ValueError):  # it follows from the records
        n_folds = 0
    if n_folds < 1:
        raise _unknown(type(cv))
    return n_folds


def _is_composite(part: Any) -> bool:
    return any(hasattr(part, name) for name in ("steps", "transformers", "transformer_list"))


def _steps(part: Any) -> dict[str, Any]:
    """Return what a pipeline, column transformer or union fits, by name."""
    if hasattr(part, "transformers_"):
        steps = part.transformers_
    elif hasattr(part, "transformers"):
        steps = [*part.transformers, ("remainder", part.remainder)]
    else:
        steps = part.steps if hasattr(part, "steps") else part.transformer_list
    return {step[0]: step[1] for step in steps}


def _holds_private(part: Any) -> bool:
    held = part.get_params() if hasattr(part, "get_params") else {}
    names = ("plan", "planned_guarantee", "privacy_")
    return any(hasattr(one, name) for one in [part, *_estimators(held)] for name in names)


def _estimators(value: Any) -> list[Any]:
    """Return the estimators in a collection, each once."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.ravel().tolist()
    if isinstance(value, list | tuple):
        found = {id(one): one for item in value for one in _estimators(item)}
        return list(found.values())
    return [value] if hasattr(value, "get_params") and not isinstance(value, type) else []
