"""Cost of whatever a private model was fitted in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from sklearn.base import clone, is_classifier
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
from sklearn_dpwg.ledger.folds import (
    SPACES,
    candidates_of,
    folds_groupings,
    folds_outside,
    list_outside,
)
from sklearn_dpwg.privacy import PrivacyGuarantee, joint_guarantee
from sklearn_dpwg.privacy.accounting import is_gaussian
from sklearn_dpwg.privacy.statement import rounded_up

# Their fit looks at the number of columns alone.
_SHAPE_ONLY = (PolynomialFeatures, GaussianRandomProjection, SparseRandomProjection)
# They learn nothing where categories are stated; others, like TargetEncoder, do all the same.
_ENCODERS = (OneHotEncoder, OrdinalEncoder)


def learning_steps(step: Any) -> list[str]:
    """Return the class names of what may have learned from the records, or will, in a step.

    Functions, as of a ``FunctionTransformer``, are taken to treat every row by itself.
    """
    if isinstance(step, FrozenEstimator):
        return learning_steps(step.estimator)
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


# Parameters that decide what a fit costs, and the share of a budget that most plans spend.
_COSTLY = ("epsilon", "delta", "rows_per_person")
# What a guarantee is for.
_UNIT = ("records_per_person", "of_person")
_SPENT_IN_FULL = 0.99


class StartCost(NamedTuple):
    """What one private fit cost, such as one whose weights another fit began with."""

    key: str  # of the fit, under which ledgers know it
    what: str  # what was fitted, for the ledger's report
    guarantee: PrivacyGuarantee  # of that fit alone


def own_costs(fitted: Any) -> tuple[StartCost, ...]:
    """Return the costs that ``privacy_`` of a fitted thing of ours states, each once."""
    held: tuple[StartCost, ...] = getattr(fitted, "_costs", ())
    if held:
        return held
    # one without a key may be counted twice, and is never taken for another
    key = getattr(fitted, "_fit_key", None) or uuid4().hex
    guarantee = replace(fitted.privacy_, outside=own_outside(fitted))
    return (StartCost(key, type(fitted).__name__, guarantee),)


def own_outside(fitted: Any) -> tuple[str, ...]:
    """Return what ``privacy_`` leaves outside, but for the starts, which are counted."""
    starts = in_words(getattr(fitted, "_start_costs", ()))
    return tuple(said for said in fitted.privacy_.outside if said not in starts)


def costs_of_start(start: Any) -> tuple[StartCost, ...]:
    """Return the private fits that a start holds: its own, and those that it began with itself."""
    if isinstance(start, type) or not hasattr(start, "privacy_"):
        return ()
    own = (cost._replace(what=f"start: {cost.what}") for cost in own_costs(start))
    return (*getattr(start, "_start_costs", ()), *own)


def costs_in(parameters: Mapping[str, Any]) -> list[StartCost]:
    """Return the private fits of all starts among parameters, those in searches too, each once."""
    found: list[StartCost] = []
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if last == "start":
            found += costs_of_start(value)
        elif last in SPACES:
            found += [cost for pair in candidates_of(value) for cost in costs_in(dict([pair]))]
    return list(_keep_dearest({}, found).values())


def _keep_dearest(known: dict[str, StartCost], costs: Iterable[StartCost]) -> dict[str, StartCost]:
    """Add fits, of those with one key the dearest, as a sample may hold a record twice."""
    for cost in costs:
        if cost.key not in known or known[cost.key].guarantee.epsilon <= cost.guarantee.epsilon:
            known[cost.key] = cost
    return known


def in_words(costs: tuple[StartCost, ...]) -> tuple[str, ...]:
    """Return what a guarantee says of the fits that it leaves out."""
    return tuple(
        f"the weights that the fit began with, which a private fit of epsilon = "
        f"{rounded_up(cost.guarantee.epsilon)} at delta = {cost.guarantee.delta:.4g} learned: a "
        "record that was in both pays for both, and privacy_of states them together"
        for cost in costs
    )


def privacy_of(fitted: Any, *, warn: bool = True, cv: Any = None) -> PrivacyGuarantee:
    """Return the guarantee of everything that was fitted inside an object.

    Parameters
    ----------
    fitted : estimator, or sequence of them
        A private estimator, or a pipeline, column transformer, search, bagging, calibration or
        threshold tuning with private estimators in it, the result of an audit, or such things in
        each other; for ``cross_validate``, its ``"estimator"`` list.
    warn : bool, default=True
        Warn of what learned from the records outside every guarantee.
    cv : int, cross-validation splitter or "prefit", optional
        What chose the records of a list of models, as it was passed to ``cross_validate``;
        "prefit" if no folds did. Where it is not said, several classifiers of a kind are named
        outside, as folds by label may have.

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

    A search counts every candidate on every fold, and the refit, by its parameters: ask before they
    are changed. Fits count as if each had read all
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
    found = holdings_of(fitted, cv)
    if found.guarantee is None:
        raise InputError(f"fitted holds no private fit, got {type(fitted).__name__}.")
    if found.outside and warn:
        warn_caller(
            f"outside the guarantee, as nothing here counts them or they learn from the records "
            f"without noise: {'; '.join(found.outside)}.",
            OutsideGuaranteeWarning,
        )
    return found.guarantee


class Holdings(NamedTuple):
    """What was found in something fitted."""

    costs: tuple[StartCost, ...]  # every private fit, once
    guarantee: PrivacyGuarantee | None  # of them all, with what is outside; None if there are none
    outside: tuple[str, ...]
    began_with_others: bool = False  # whether something private began with what another learned


def holdings_of(fitted: Any, cv: Any = None) -> Holdings:
    """Return the private fits in something fitted, and what learned from the records beside."""
    found = _Findings(outside=list_outside(fitted, cv), groupings=folds_groupings(None, cv))
    _visit(fitted, found)
    by_key = _keep_dearest(found.starts.copy(), found.costs.values())
    said = [*found.outside, *(text for cost in by_key.values() for text in cost.guarantee.outside)]
    outside = tuple(dict.fromkeys(said))
    if found.last is None:
        return Holdings((), None, outside)
    costs = tuple(by_key.values())
    if len(found.stated) == 1 and costs == found.stated[0][0]:
        total = found.stated[0][1]
    elif len(costs) == 1:
        total = costs[0].guarantee
    else:
        guarantees = _of_one_unit([cost.guarantee for cost in costs])
        total = joint_guarantee(guarantees, found.last.delta)
    most = max(found.rows_of_people, default=1)
    if most > total.records_per_person:
        outside += (
            f"all rows of a person, of which a schema allows {most} and {total.records_per_person} "
            f"is covered: say rows_per_person={most} to the estimator",
        )
    groupings = tuple(dict.fromkeys([*total.groupings, *found.groupings]))
    total = replace(total, outside=outside, groupings=groupings)
    return Holdings(costs, total, outside, bool(found.starts))


def _of_one_unit(guarantees: list[PrivacyGuarantee]) -> list[PrivacyGuarantee]:
    """Return the guarantees of the person with the most rows, where some are of fewer rows.

    Parts of one model see the same rows, so whoever has most of them by the word of one part has as
    many in the others.
    """
    most = max(one.records_per_person for one in guarantees)
    of_person = all(one.of_person for one in guarantees)
    if not of_person and any(most % one.records_per_person for one in guarantees):
        return guarantees  # which are refused together
    return [
        replace(one.for_records(-(-most // one.records_per_person)), of_person=one.of_person)
        for one in guarantees
    ]


@dataclass(frozen=True)
class PublicFacts:
    """What is known of a model before its fit, in place of a fitted one."""

    group_sizes_: list[int]
    n_features_in_: int
    classes: Sequence[Any] | None


@dataclass
class _Findings:
    costs: dict[str, StartCost] = field(default_factory=dict)  # by the keys of fits
    starts: dict[str, StartCost] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    # guarantees of our own estimators, each with the costs that it states
    stated: list[tuple[tuple[StartCost, ...], PrivacyGuarantee]] = field(default_factory=list)
    groupings: list[str] = field(default_factory=list)  # of folds
    rows_of_people: list[int] = field(default_factory=list)  # that schemas say somebody may have
    last: PrivacyGuarantee | None = None  # of what was found last, whose delta the total is at

    def add(self, costs: Iterable[StartCost]) -> None:
        _keep_dearest(self.costs, costs)

    def add_stated(self, part: Any) -> str:
        """Count what has a guarantee of its own, and return the key of its last fit."""
        costs = own_costs(part)
        self.add(costs)
        self.add_starts(getattr(part, "_start_costs", ()))
        self.outside += own_outside(part)
        self.stated.append((costs, part.privacy_))
        self.last = part.privacy_
        return costs[-1].key

    def add_starts(self, costs: Iterable[StartCost]) -> None:
        _keep_dearest(self.starts, costs)

    def add_planned(self, name: str, fits: Iterable[PrivacyGuarantee]) -> None:
        """Count fits that are gone, under the name of what made them."""
        self.add(StartCost(f"{name}/{i}", name, cost) for i, cost in enumerate(fits))


def _visit(part: Any, found: _Findings) -> str:
    """Collect the fits inside, those of the final model last; return a name that is theirs alone.

    It is made of the keys of the fits that were kept, and of what they are in.
    """
    if isinstance(part, FrozenEstimator):
        return _visit(part.estimator, found)
    found.outside += folds_outside(part)
    found.groupings += folds_groupings(part)
    if isinstance(part, list | tuple):
        return _joined(_visit(one, found) for one in part)
    if hasattr(part, "privacy_"):
        if hasattr(part, "best_estimator_"):  # a private search, of candidates with starts
            found.add_starts(_starts_of_search(part))
        return found.add_stated(part)
    if _is_composite(part):
        steps = _steps(part).values()
        found.rows_of_people += [
            step.rows_per_person for step in steps if getattr(step, "person", None) is not None
        ]
        return _joined(_visit(step, found) for step in steps)
    for attribute, visit in _META_ESTIMATORS.items():
        if hasattr(part, attribute):
            return visit(part, found)
    return _visit_unknown(part, found)


def _visit_search(part: Any, found: _Findings) -> str:
    """Collect the fits of every candidate on every fold, and the refit."""
    name = type(part).__name__
    if not hasattr(part, "best_estimator_"):
        raise InputError(f"fitted must have a best_estimator_: {name} has refit=False.")
    found.add_starts(_starts_of_search(part))
    fits = []
    for parameters in part.cv_results_["params"]:
        candidate = candidate_of(part, parameters)
        fits += part.n_splits_ * planned_fits(candidate, part.best_estimator_)
        _visit_unfitted(candidate, found)
    _check_unchanged(candidate_of(part, part.best_params_), part.best_estimator_, type(part))
    found.outside.append(f"{name}: the choice by scores of held-out records")
    name = f"{name}({_visit(part.best_estimator_, found)})"
    found.add_planned(name, fits)
    return name


def _visit_unfitted(candidate: Any, found: _Findings) -> None:
    """Collect what a candidate holds that is fitted already, and what learned in its fits."""
    if isinstance(candidate, FrozenEstimator):
        _visit(candidate, found)
    elif _is_composite(candidate):
        for step in _steps(candidate).values():
            _visit_unfitted(step, found)
    elif _holds_private(candidate):
        _visit_unfitted(getattr(candidate, "estimator", None), found)
    else:
        found.outside += [f"{step}: all that it learned" for step in learning_steps(candidate)]


def _starts_of_search(part: Any) -> list[StartCost]:
    """Return the private models that candidates of a search began with."""
    listed = getattr(part, "cv_results_", {}).get("params", [])
    kept = part.best_estimator_.get_params()
    return [cost for each in (part.get_params(), kept, *listed) for cost in costs_in(each)]


def _visit_calibration(part: Any, found: _Findings) -> str:
    """Collect the fits whose scores were calibrated."""
    kept = [calibrated.estimator for calibrated in part.calibrated_classifiers_]
    name = f"{type(part).__name__}({_visit(kept, found)})"
    if not part.ensemble:  # the folds predicted and are gone
        _check_unchanged(part.estimator, kept[0], type(part))
        found.add_planned(name, n_folds_of(part.cv) * planned_fits(part.estimator, kept[0]))
    found.outside.append(f"{type(part).__name__}: the calibration")
    return name


def _visit_threshold(part: Any, found: _Findings) -> str:
    """Collect the fits of the folds that chose a threshold, and the final one."""
    found.outside.append(f"{type(part).__name__}: the choice of the threshold")
    name = f"{type(part).__name__}({_visit(part.estimator_, found)})"
    _check_unchanged(part.estimator, part.estimator_, type(part))
    found.add_planned(name, n_folds_of(part.cv) * planned_fits(part.estimator, part.estimator_))
    return name


def _visit_bagging(part: Any, found: _Findings) -> str:
    """Collect fits on samples, in which a record may stand several times."""
    names = []
    for one, samples in zip(part.estimators_, part.estimators_samples_, strict=True):
        inside = _Findings({}, found.starts, found.outside, groupings=found.groupings)
        names.append(_visit(one, inside))
        # a record drawn several times is several records, all of one owner
        times = int(np.bincount(samples).max())
        for cost in inside.costs.values():
            several = cost.guarantee.for_records(times)
            unit = {name: getattr(cost.guarantee, name) for name in _UNIT}
            found.add([cost._replace(guarantee=replace(several, **unit))])
        found.last = inside.last or found.last
    return f"{type(part).__name__}({_joined(names)})"


# What tells a fitted meta-estimator of scikit-learn, and how its fits are found.
_META_ESTIMATORS: dict[str, Callable[[Any, _Findings], str]] = {
    "cv_results_": _visit_search,
    "calibrated_classifiers_": _visit_calibration,
    "best_threshold_": _visit_threshold,
    "estimators_samples_": _visit_bagging,
}


def _visit_unknown(part: Any, found: _Findings) -> str:
    """Collect the private fits that can be seen, and say that there may be others."""
    name, names = type(part).__name__, []
    for one in _estimators(vars(part)) if hasattr(part, "__dict__") else ():
        inside = _Findings(starts=found.starts, groupings=found.groupings)
        names.append(_visit(one, inside))
        if inside.last is not None:
            found.add(inside.costs.values())
            found.last = inside.last
        if inside.last is not None or isinstance(one, FrozenEstimator):
            found.outside += inside.outside
    if any(names) or _holds_private(part):
        found.outside.append(f"not counted: what {name} fitted or learned beside what it kept")
    else:
        found.outside += [f"{step}: all that it learned" for step in learning_steps(part)]
    return f"{name}({_joined(names)})" if any(names) else ""


def _joined(names: Iterable[str]) -> str:
    return ",".join(filter(None, names))


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
    # they load much that a fit does not need
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import BaggingClassifier, BaggingRegressor

    if kind is type(fitted):
        if isinstance(candidate, GridSearchCV):
            return _planned_grid(candidate, fitted.best_estimator_)
        if isinstance(candidate, CalibratedClassifierCV):
            n_fits = n_folds_of(candidate.cv) + (not candidate.ensemble)
            place = fitted.calibrated_classifiers_[0].estimator
        elif isinstance(candidate, TunedThresholdClassifierCV):
            n_fits, place = n_folds_of(candidate.cv) + 1, fitted.estimator_
        # how often a bootstrap drew a record in a fold is not known
        elif (
            isinstance(candidate, BaggingClassifier | BaggingRegressor) and not candidate.bootstrap
        ):
            n_fits, place = candidate.n_estimators, fitted.estimators_[0]
        else:
            raise _unknown(kind)
        return n_fits * planned_fits(candidate.estimator, place)
    raise _unknown(kind)


def _planned_model(candidate: Any, fitted: Any) -> PrivacyGuarantee:
    kind = type(candidate)
    # sizes of groups that overlap do not tell those of their cells
    if not hasattr(fitted, "group_sizes_") or getattr(candidate, "overlap", "cells") != "cells":
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
    asked = plan.guarantee.requested_epsilon
    # a paper's noise may cost less than the budget, how much less depends on the sizes of the fold
    if asked is not None and plan.guarantee.epsilon < _SPENT_IN_FULL * asked:
        raise _unknown(kind)
    return replace(_gaussian(plan.guarantee, kind), groupings=named or fitted.privacy_.groupings)


def _planned_grid(candidate: GridSearchCV, fitted: Any) -> list[PrivacyGuarantee]:
    each = []
    for parameters in ParameterGrid(candidate.param_grid):
        one = candidate_of(candidate, parameters)
        each.append([_gaussian(cost, type(one)) for cost in planned_fits(one, fitted)])
    # which won is not known, and of Gaussian noise the dearest is the same one at every delta
    return n_folds_of(candidate.cv) * [cost for costs in each for cost in costs] + dearest(each)


def _check_unchanged(template: Any, fitted: Any, kind: type) -> None:
    """Refuse a template that costs something else by now than when its folds were fitted."""
    now, then = template.get_params(), fitted.get_params()
    for name in now.keys() & then.keys():
        if name.rpartition("__")[2] in _COSTLY and now[name] != then[name]:
            raise UnsupportedMechanismError(
                f"{name} was changed since {kind.__name__} was fitted, so what its folds cost "
                f"cannot be known from it: run it inside a PrivacyLedger."
            )


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
