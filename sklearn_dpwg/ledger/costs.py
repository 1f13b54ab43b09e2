"""Joint privacy cost of all private fits inside a fitted object, such as a search or pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from sklearn_dpwg import exceptions
from sklearn_dpwg.data.groups import grouping_names
from sklearn_dpwg.exceptions import InputError, UnsupportedMechanismError
from sklearn_dpwg.ledger import folds
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate, joint_guarantee
from sklearn_dpwg.privacy.accounting.calibration import is_gaussian
from sklearn_dpwg.privacy.release import Relation
from sklearn_dpwg.privacy.statement import cost_of

# Transformers that learn nothing but the number of columns.
_SHAPE_ONLY = (PolynomialFeatures, GaussianRandomProjection, SparseRandomProjection)
# Transformers that learn nothing if categories are stated and none is merged by its frequency.
_ENCODERS = (OneHotEncoder, OrdinalEncoder)
# Parameters that decide what a fit costs.
_COSTLY = ("epsilon", "delta", "rows_per_person")
_ALL = "all that it learned"
_NOT_COUNTED = "not counted: what "


class StartCost(NamedTuple):
    """Cost of one private fit, such as the fit whose weights are the start of another."""

    key: str  # of the fit, as in ledgers: equal keys are one fit
    what: str  # class name of the fitted object
    guarantee: PrivacyGuarantee  # of that fit alone


class Holdings(NamedTuple):
    """All private fits inside a fitted object, and what no guarantee covers."""

    costs: tuple[StartCost, ...]  # every private fit, once
    guarantee: PrivacyGuarantee | None  # of all fits together; None if there are none
    outside: tuple[str, ...]  # texts: what learned from the records without a guarantee
    starts: tuple[StartCost, ...] = ()  # those of `costs` whose weights another fit began with


def privacy_of(fitted: Any, *, warn: bool = True, cv: Any = None) -> PrivacyGuarantee:
    """Return the guarantee of everything that was fitted inside an object.

    Parameters
    ----------
    fitted : estimator, or sequence of them
        A private estimator or the result of an audit, or a pipeline, search, bagging, calibration
        or threshold tuning around them; for ``cross_validate``, its ``"estimator"`` list.
    warn : bool, default=True
        Warn of what learned from the records outside every guarantee.
    cv : int, cross-validation splitter or "prefit", optional
        What chose the records of a list of models, as it was passed to ``cross_validate``;
        "prefit" if no folds did. By default several classifiers of a kind are named outside.

    Returns
    -------
    PrivacyGuarantee
        All fits together at the δ of the model; ``outside`` names what is not covered, folds that
        labels decide too.

    Raises
    ------
    ValueError
        If there is no private estimator inside.
    UnsupportedMechanismError
        If what fits on folds or inside cost cannot be known from what was kept, as of stacking; a
        `PrivacyLedger` can.

    Notes
    -----
    A search counts every candidate on every fold, and the refit, by its parameters: ask before they
    are changed. Fits count as if each had read all records, and a record that bagging draws several
    times as several. A private model that a fit began with (`start`) counts once.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPAUCClassifier
    >>> from sklearn_dpwg.ledger import privacy_of
    >>> X, y = np.full((4000, 1), 0.5), np.arange(4000) % 2
    >>> models = [DPAUCClassifier(1.0, data_norm=1.0).fit(X, y) for _ in range(2)]
    >>> round(privacy_of(models, cv="prefit").epsilon, 2)  # two fits of epsilon 1
    1.45
    """
    inside = holdings_of(fitted, cv)
    if inside.guarantee is None:
        raise InputError(f"fitted holds no private fit, got {type(fitted).__name__}.")
    for text in inside.outside:
        if text.startswith(_NOT_COUNTED):
            raise UnsupportedMechanismError(
                f"fitted must hold fits that can be counted, but {text}: run it inside a "
                f"PrivacyLedger."
            )
    if inside.outside and warn:
        exceptions.warn(
            f"outside the guarantee, as no noise or no count covers them: "
            f"{'; '.join(inside.outside)}.",
            exceptions.NoProtectionWarning,
        )
    return inside.guarantee


def holdings_of(fitted: Any, cv: Any = None) -> Holdings:
    """Return all private fits inside a fitted object; `cv` made the folds of a list of models."""
    inside = _visit(fitted)
    costs = tuple(_keep_dearest(dict(inside.starts), inside.costs.values()).values())
    outside_fits = [text for cost in costs for text in cost.guarantee.outside]
    outside = [*folds.list_outside(fitted, cv), *inside.outside, *outside_fits]
    if inside.final_guarantee is None:
        return Holdings(costs=(), guarantee=None, outside=tuple(dict.fromkeys(outside)))
    total = _total(costs, inside, inside.final_guarantee.delta)
    n_rows, covered = inside.rows_of_person, total.records_per_person
    if n_rows > covered:
        outside.append(f"rows of a person beyond {covered}, of which a schema allows {n_rows}")
    groupings = dict.fromkeys([*total.groupings, *folds.groupings_of(cv), *inside.groupings])
    total = replace(total, outside=tuple(dict.fromkeys(outside)), groupings=tuple(groupings))
    return Holdings(costs, total, total.outside, tuple(inside.starts.values()))


def _total(costs: tuple[StartCost, ...], inside: _Inside, delta: float) -> PrivacyGuarantee:
    """Return the joint guarantee of all costs at δ; one that a part states already, if any."""
    for part_costs, stated_guarantee in inside.stated:
        if part_costs == costs and stated_guarantee.delta == delta:
            return stated_guarantee
    each = [cost.guarantee for cost in costs]
    # all parts see the same rows, so each guarantee is scaled to the largest rows per person
    max_rows = max(one.records_per_person for one in each)
    divides_all = not any(max_rows % one.records_per_person for one in each)
    if divides_all or all(one.of_person for one in each):
        n_times = [-(-max_rows // one.records_per_person) for one in each]  # rounded up
        scaled = [one.for_records(n) for one, n in zip(each, n_times, strict=True)]
        each = [
            replace(new, of_person=old.of_person) for new, old in zip(scaled, each, strict=True)
        ]
    return joint_guarantee(each, delta)


def own_costs(fitted: Any) -> tuple[StartCost, ...]:
    """Return the costs that ``privacy_`` of an estimator of this package adds up, each once."""
    costs: tuple[StartCost, ...] = getattr(fitted, "_costs", ())
    if costs:
        return costs
    # a fit without a key gets a new one: it may count twice, but never replaces another fit
    key = getattr(fitted, "_fit_key", None) or uuid4().hex
    guarantee = replace(fitted.privacy_, outside=_outside_without_starts(fitted))
    return (StartCost(key, type(fitted).__name__, guarantee),)


def _outside_without_starts(fitted: Any) -> tuple[str, ...]:
    """Return the ``outside`` of ``privacy_`` without the texts of starts, which are counted."""
    start_texts = describe(getattr(fitted, "_start_costs", ()))
    return tuple(text for text in fitted.privacy_.outside if text not in start_texts)


def costs_of_start(start: Any) -> tuple[StartCost, ...]:
    """Return the costs of a private model used as `start`, and of the starts of its own fit."""
    if isinstance(start, type) or not hasattr(start, "privacy_"):
        return ()
    own = (cost._replace(what=f"start: {cost.what}") for cost in own_costs(start))
    return (*getattr(start, "_start_costs", ()), *own)


def _keep_dearest(known: dict[str, StartCost], costs: Iterable[StartCost]) -> dict[str, StartCost]:
    """Add costs to `known`, by key; of two with the same key keep that of the larger ε."""
    for cost in costs:
        if cost.key not in known or known[cost.key].guarantee.epsilon <= cost.guarantee.epsilon:
            known[cost.key] = cost
    return known


def describe(costs: tuple[StartCost, ...]) -> tuple[str, ...]:
    """Return one text for ``outside`` of a guarantee for each start that it leaves out."""
    return tuple(
        f"the weights that the fit began with, which a private fit of "
        f"{cost_of(cost.guarantee)} learned: a record that was in both pays for both, and "
        "privacy_of states them together"
        for cost in costs
    )


def learning_steps(step: Any) -> list[str]:
    """Return the class names of transformers in a step that learn from the records.

    Functions, as of a ``FunctionTransformer``, are taken to treat every row by itself.
    """
    if type(step) is FrozenEstimator:
        return learning_steps(step.estimator)
    steps = _steps(step)
    if steps is not None:
        return [name for part in steps.values() for name in learning_steps(part)]
    return [type(step).__name__] if _learns(step) else []


def _learns(step: Any) -> bool:
    if step is None or isinstance(step, (str, *_SHAPE_ONLY)):
        return False
    if isinstance(step, _ENCODERS) and isinstance(step.categories, list | tuple):
        counted = ("min_frequency", "max_categories")
        return any(getattr(step, name, None) is not None for name in counted)
    if folds.is_ours(step) and not getattr(step, "_learns_from_records", True):
        return False
    tags = getattr(step, "__sklearn_tags__", None)
    return tags is None or bool(tags().requires_fit)


@dataclass
class _Inside:
    """Collects the fits inside a fitted object, part by part."""

    outside: list[str] = field(default_factory=list)  # texts of what no guarantee covers
    groupings: list[str] = field(default_factory=list)  # public facts by which folds are dealt
    costs: dict[str, StartCost] = field(default_factory=dict)  # by the keys of fits
    starts: dict[str, StartCost] = field(default_factory=dict)  # by the keys of fits
    stated: list[Any] = field(default_factory=list)  # pairs: costs of a part, its guarantee
    rows_of_person: int = 1  # largest rows_per_person of a schema inside
    final_guarantee: PrivacyGuarantee | None = None  # of the final model; its δ is the total's

    def add(self, other: _Inside) -> None:
        """Add the fits inside another part."""
        _keep_dearest(self.costs, other.costs.values())
        _keep_dearest(self.starts, other.starts.values())
        self.outside += other.outside
        self.groupings += other.groupings
        self.stated += other.stated
        self.rows_of_person = max(self.rows_of_person, other.rows_of_person)
        self.final_guarantee = other.final_guarantee or self.final_guarantee

    def add_gone(self, part: Any, fits: list[PrivacyGuarantee]) -> None:
        """Add fits on folds whose models were not kept; keys follow from those that were kept."""
        name, kept_keys = type(part).__name__, ",".join(self.costs) or uuid4().hex
        # fit times tell searches apart whose winners hold the same earlier fits
        times = getattr(part, "cv_results_", {}).get("mean_fit_time")
        key = uuid5(NAMESPACE_OID, f"{name}({kept_keys}, {times!r})").hex
        gone = [StartCost(f"{key}/{i}", name, cost) for i, cost in enumerate(fits)]
        _keep_dearest(self.costs, gone)
        self.final_guarantee = self.final_guarantee or next(iter(fits), None)


def _visit(part: Any) -> _Inside:
    """Return all fits inside a part of a fitted object, those of its final model last."""
    if type(part) is FrozenEstimator:
        return _visit(part.estimator)
    inside = _Inside(*folds.folds_inside(part))
    steps = _steps(part)
    if isinstance(part, list | tuple):
        for one in part:
            inside.add(_visit(one))
    elif folds.is_ours(part) and isinstance(getattr(part, "privacy_", None), PrivacyGuarantee):
        costs = own_costs(part)
        _keep_dearest(inside.costs, costs)
        _keep_dearest(inside.starts, getattr(part, "_start_costs", ()))
        inside.outside += _outside_without_starts(part)
        inside.stated, inside.final_guarantee = [(costs, part.privacy_)], part.privacy_
    elif steps is not None:
        for step in steps.values():
            inside.add(_visit(step))
            if getattr(step, "person", None) is not None:
                inside.rows_of_person = max(inside.rows_of_person, step.rows_per_person)
    elif _is_a(part, *_SEARCHES) and hasattr(part, "cv_results_"):
        _visit_search(part, inside)
    elif _fits_copies(part):
        _visit_copies(part, inside)
    elif _is_a(part, *_KEEP_ALL) and hasattr(part, "estimators_"):
        inside.add(_visit(part.estimators_))
    elif _is_a(part, "TransformedTargetRegressor") and hasattr(part, "regressor_"):
        inside.add(_visit([part.transformer_, part.regressor_]))
    else:
        _visit_unknown(part, inside)
    return inside


def _visit_search(part: Any, inside: _Inside) -> None:
    """Collect the fits of every candidate on every fold, and the refit."""
    name, listed = type(part).__name__, part.cv_results_["params"]
    if not hasattr(part, "best_estimator_"):
        raise InputError(f"fitted must have a best_estimator_: {name} has refit=False.")
    best, gone = part.best_estimator_, []
    _check_unchanged(_candidate(part, part.best_params_), best, name)
    for parameters in listed:
        candidate = _candidate(part, parameters)
        gone += part.n_splits_ * planned_fits(candidate, best)
        for one in folds.estimators_inside(candidate):
            if type(one) is FrozenEstimator:
                inside.add(_visit(one))
            elif not folds.holds_private(one):
                inside.outside += [f"{step}: {_ALL}" for step in learning_steps(one)]
    inside.outside.append(f"{name}: the choice by scores of held-out records")
    inside.add(_visit(best))
    inside.add_gone(part, gone)


# Meta-estimators that fit copies of their ``estimator``, and what they learn without noise.
_LEARNED = {
    "CalibratedClassifierCV": "the calibration",
    "TunedThresholdClassifierCV": "the choice of the threshold",
    "BaggingClassifier": "",
    "BaggingRegressor": "",
}
# Meta-estimators that keep every model that they fit; each has read all records.
_KEEP_ALL = (
    *("VotingClassifier", "VotingRegressor", "OneVsRestClassifier"),
    *("MultiOutputClassifier", "MultiOutputRegressor"),
)
# Searches whose ``cv_results_`` list every candidate that they fitted.
_SEARCHES = (
    *("GridSearchCV", "RandomizedSearchCV"),
    *("HalvingGridSearchCV", "HalvingRandomSearchCV"),
)


def _fits_copies(part: Any) -> bool:
    """Return whether something fitted holds fits of copies of its ``estimator``."""
    return _is_a(part, *_LEARNED) and hasattr(part, "n_features_in_")


def _kept(part: Any) -> list[Any]:
    """Return the models of a fitted meta-estimator of copies."""
    if _is_a(part, "CalibratedClassifierCV"):
        return [one.estimator for one in part.calibrated_classifiers_]
    return [part.estimator_] if _is_a(part, "TunedThresholdClassifierCV") else part.estimators_


def _n_gone(part: Any) -> int:
    """Return the number of fits on folds that a meta-estimator of copies made and did not keep."""
    keeps_all = hasattr(part, "n_estimators") or getattr(part, "ensemble", False)
    return 0 if keeps_all else n_folds_of(part.cv)


def _is_a(value: Any, *names: str) -> bool:
    """Return whether a value is of a named class of scikit-learn; a subclass may fit more."""
    kind = type(value)
    return kind.__name__ in names and kind.__module__.startswith("sklearn.")


def _visit_copies(part: Any, inside: _Inside) -> None:
    """Add the fits of copies of an ``estimator``: those kept, and those on folds that are gone."""
    name, kept, n_gone = type(part).__name__, _kept(part), _n_gone(part)
    samples = getattr(part, "estimators_samples_", [[0]] * len(kept))
    for one, sample in zip(kept, samples, strict=True):
        within, times = _visit(one), int(np.bincount(sample).max())
        if times > 1:  # a record that is drawn several times is several records of one owner
            within.stated = []
            for key, cost in within.costs.items():
                own, several = cost.guarantee, cost.guarantee.for_records(times)
                unit = own.records_per_person, own.of_person
                several = replace(several, records_per_person=unit[0], of_person=unit[1])
                within.costs[key] = cost._replace(guarantee=several)
        inside.add(within)
    if _LEARNED[name]:
        inside.outside.append(f"{name}: {_LEARNED[name]}")
    if n_gone:
        _check_unchanged(part.estimator, kept[0], name)
        inside.add_gone(part, n_gone * planned_fits(part.estimator, kept[0]))


def _visit_unknown(part: Any, inside: _Inside) -> None:
    """Add the private fits among the attributes of an unknown part; others may be uncounted."""
    for one in folds.estimators(getattr(part, "__dict__", {})):
        within = _visit(one)
        if within.final_guarantee is not None:
            inside.add(within)
        elif type(one) is FrozenEstimator:
            inside.outside += within.outside
    if inside.final_guarantee is not None or folds.holds_private(part):
        kind = type(part).__name__
        inside.outside.append(f"{_NOT_COUNTED}{kind} fitted or learned beside what it kept")
    else:
        inside.outside += [f"{step}: {_ALL}" for step in learning_steps(part)]


def planned_fits(candidate: Any, fitted: Any) -> list[PrivacyGuarantee]:
    """Return the guarantees of the fits in one fit of `candidate`, at the sizes of `fitted`."""
    if type(candidate) is FrozenEstimator or not folds.holds_private(candidate):
        return []
    is_private = folds.is_private(candidate)
    # a planned guarantee follows from the parameters alone
    if is_private and hasattr(candidate, "planned_guarantee"):
        return [candidate.planned_guarantee()]
    if is_private and hasattr(candidate, "plan"):
        return [_planned_model(candidate, fitted)]
    steps, places = _steps(candidate), _steps(fitted) or {}
    if steps is not None:
        return [fit for name, one in steps.items() for fit in planned_fits(one, places.get(name))]
    # how often a bootstrap draws a record in a fold is not known
    is_drawn = getattr(candidate, "bootstrap", False)
    if not _fits_copies(fitted) or is_drawn or type(candidate) is not type(fitted):
        raise _unknown(type(candidate))
    if hasattr(candidate, "n_estimators"):
        n_fits = candidate.n_estimators
    else:
        n_fits = n_folds_of(candidate.cv) + (not getattr(candidate, "ensemble", False))
    return n_fits * planned_fits(candidate.estimator, _kept(fitted)[0])


def _planned_model(candidate: Any, fitted: Any) -> PrivacyGuarantee:
    # sizes of groups that overlap do not tell those of their cells
    if not hasattr(fitted, "group_sizes_") or getattr(candidate, "overlap", "cells") != "cells":
        raise _unknown(type(candidate))
    has_classes = getattr(fitted, "classes_", None) is not None and is_classifier(candidate)
    guarantee = candidate.plan(
        group_sizes=[int(size) for size in fitted.group_sizes_],
        n_features=fitted.n_features_in_,
        **({"classes": fitted.classes_} if has_classes else {}),
    ).guarantee
    if guarantee.relation == Relation.REPLACE_ONE_WITHIN_GROUP:
        groupings = grouping_names(None, getattr(candidate, "group_by", None))
        guarantee = replace(guarantee, groupings=groupings or fitted.privacy_.groupings)
    if not guarantee.is_private:
        return guarantee
    # what a fold cost followed from its own sizes, and was at most what its budget allows
    budget = Budget(guarantee.requested_epsilon or guarantee.epsilon, guarantee.delta)
    events = dict.fromkeys(_costliest_event(each, budget) for each in guarantee.events)
    if None in events:
        raise _unknown(type(candidate))
    return replace(guarantee, events=tuple(events), epsilon=budget.epsilon)


def _costliest_event(event: Any, budget: Budget) -> Any:
    """Return the Gaussian or Laplace event of a whole budget; None for any other event."""
    from dp_accounting import dp_event

    if is_gaussian(event):
        return dp_event.GaussianDpEvent(1.0 / budget.mu)
    if not isinstance(event, dp_event.LaplaceDpEvent):
        return None
    (release,) = calibrate([Release("losses", "laplace", 1.0, 1)], budget)
    return dp_event.LaplaceDpEvent(release.noise_multiplier)


def _candidate(search: Any, parameters: Mapping[str, Any]) -> Any:
    """Return a clone of a search's estimator with these parameters."""
    return clone(search.estimator).set_params(**clone(parameters, safe=False))


def _check_unchanged(template: Any, fitted: Any, kind: str) -> None:
    """Refuse a template whose ε, δ or rows_per_person were changed after the fit."""
    now, then = template.get_params(), fitted.get_params()
    for name in now.keys() & then.keys():
        if name.rpartition("__")[2] in _COSTLY and now[name] != then[name]:
            raise UnsupportedMechanismError(
                f"{name} was changed since {kind} was fitted, so what its folds cost cannot be "
                f"known from it: run it inside a PrivacyLedger."
            )


def _unknown(kind: type) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(
        f"the fits that {kind.__name__} made on folds or inside are gone, and what they cost "
        f"cannot be known from what was kept: run the search inside a PrivacyLedger."
    )


def n_folds_of(cv: Any) -> int:
    """Return the number of folds of a splitter, or raise if it depends on the records."""
    if isinstance(cv, str | float):  # "prefit" has no fold; a fraction holds out one part
        return int(isinstance(cv, float))
    try:
        n_folds = int(check_cv(cv).get_n_splits())
    except (TypeError, ValueError):  # the number follows from the records
        n_folds = 0
    if n_folds < 1:
        raise _unknown(type(cv))
    return n_folds


def _steps(part: Any) -> dict[str, Any] | None:
    """Return the steps of a pipeline, column transformer or union by name; None for others."""
    if type(part) in (Pipeline, FeatureUnion):
        return dict(part.steps if type(part) is Pipeline else part.transformer_list)
    if type(part) is not ColumnTransformer:
        return None
    unfitted = [*part.transformers, ("remainder", part.remainder, None)]
    return {name: step for name, step, _ in getattr(part, "transformers_", unfitted)}
