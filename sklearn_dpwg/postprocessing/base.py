"""Base of thresholds and calibration: fit a model, release a histogram of its scores, read it.

Only `release_counts` adds noise to counts of records. Everything else follows from public facts or
from the noisy counts, of shape (n_groups, 2, n_bins).
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sklearn_dpwg._checks import FloatArray, open_unit, whole_number
from sklearn_dpwg.data.frames import in_memory, label_key, places, same_rows
from sklearn_dpwg.data.groups import (
    encode_groups,
    find_groups,
    grouping_names,
    labelled_sizes,
    without_groups,
)
from sklearn_dpwg.data.problem import LABELS_THAT_OCCUR
from sklearn_dpwg.estimators.encode import check_found, stated_rows
from sklearn_dpwg.estimators.private import unchanged_on_failure
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.audit_rows import group_name, nested, plain_label
from sklearn_dpwg.ledger.costs import Holdings, StartCost, holdings_of, own_costs
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.model_selection.fit_then_release import (
    FitThenRelease,
    fit_in_groups,
    last_step,
    learn_nothing,
)
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    joint_guarantee,
)
from sklearn_dpwg.privacy.gaussian import gdp_epsilon
from sklearn_dpwg.privacy.guarantee import guarantee_of_events
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import Plan

Codes = NDArray[np.intp]
PUBLIC_FACTS = (
    "the number of records",
    "the group labels and the classes",
    "the edges of the bins of scores",
    "every parameter of the thresholds or the calibration",
)
# Default edges divide log odds from -4.8 to 4.8 evenly; the outer bins reach scores 0 and 1.
# `benchmarks/thresholds.py edges` compares them with bins of equal width.
LOG_ODDS = 4.8
N_BINS = 12


@dataclass(frozen=True)
class PostprocessingPlan:
    """What fitting thresholds or a calibration will release, from public facts alone; print it.

    ``model`` is None where it is fitted already, ``release`` without privacy; ``guarantee`` is what
    the fit costs, and a frozen model's own cost comes on top.
    """

    model: Plan | None
    release: Release | None
    budget: Budget
    n_groups: int
    n_bins: int
    guarantee: PrivacyGuarantee

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on the count of one cell."""
        return 0.0 if self.release is None else noise_on_integers(self.release).std

    def __str__(self) -> str:
        noise, model = "No noise is added.", ""
        # the size of a group is the sum of 2 n_bins noisy cells
        if self.release is not None:
            size_std = self.count_std * math.sqrt(2.0 * self.n_bins)
            small = float(f"{max(3.0 * size_std, 1.0):.2g}")
            noise = (
                f"Each count has {self.release.mechanism} noise of standard deviation "
                f"{self.count_std:.3g}, the size of a group {size_std:.3g}: thresholds of a "
                f"group of fewer than about {small:,.0f} records are mostly those of all."
            )
        budget = "This is the histogram alone; privacy_ adds what the frozen model cost."
        if self.model is not None:
            budget = f"The model is fitted with epsilon={rounded_up(self.model.budget.epsilon)}."
            model = f"\n\n{self.model._without_guarantee()}"
        return (
            f"One histogram of {self.n_groups} groups, 2 classes and {self.n_bins} bins of scores, "
            f"each record in one cell. {noise} {budget}{model}\n\n{self.guarantee}"
        )


def plan_release(
    budget: Budget, fraction: float, rows: int | None, plan_model: Callable[[Budget], Plan] | None
) -> tuple[Plan | None, Release | None]:
    """Divide a budget: return the plan of the model and the release of the histogram.

    `rows` is the number per person. A frozen model has no `plan_model`: the histogram gets all of ε
    and uses no δ. Else it gets `fraction` of μ², the model the rest. With Gaussian noise the costs
    add up exactly; with sampled batches the model's ε is lowered until both fit in the budget.
    """
    rows_per_person = rows or 1
    if budget.epsilon == math.inf:
        return (None if plan_model is None else plan_model(budget)), None
    if plan_model is None:
        scale = rows_per_person / budget.epsilon
        return None, Release("score histogram", "discrete-laplace", scale, max_count=1)
    mu = budget.mu * (1.0 - 1e-6)  # a reserve: noise on whole numbers is accounted as continuous
    scale = rows_per_person / (math.sqrt(fraction) * mu)
    release = Release("score histogram", "gaussian", scale, max_count=1)
    histogram_cost = histogram_guarantee(release, budget.delta, rows)
    epsilon, n_plans = gdp_epsilon(budget.delta, math.sqrt(1.0 - fraction) * mu), 0
    # twelve plans at most, each with a model ε lowered by the overshoot of the plan before
    while epsilon > 0.0 and n_plans < 12:
        model, n_plans = plan_model(Budget(epsilon, budget.delta)), n_plans + 1
        cost = joint_guarantee([model.guarantee, histogram_cost], budget.delta).epsilon
        if cost <= budget.epsilon:
            return model, release
        epsilon *= 0.999 * budget.epsilon / cost
    raise InputError(
        f"epsilon must be large enough for a model and a histogram at delta={budget.delta!r} and "
        f"histogram_fraction={fraction!r}, got {budget.epsilon!r}."
    )


def histogram_guarantee(
    release: Release | None,
    delta: float,
    rows_per_person: int | None,
    *,
    seeded: bool = False,
    labels_stated: bool = True,
) -> PrivacyGuarantee:
    """Return a person's guarantee for the histogram alone; `release` is None without privacy."""
    public = PUBLIC_FACTS if labels_stated else (*PUBLIC_FACTS, LABELS_THAT_OCCUR)
    terms: dict[str, Any] = {"public": public, "relation": Relation.REPLACE_ONE}
    if release is None:
        exact = PrivacyGuarantee.from_releases((), Budget(math.inf, delta), **terms)
        return exact.for_person(rows_per_person)
    guarantee = PrivacyGuarantee.from_releases([release], delta, seeded=seeded, **terms)
    return guarantee.for_person(rows_per_person)


def checked_edges(score_edges: ArrayLike | None, n_bins: int) -> FloatArray:
    """Return the n_bins + 1 public edges from 0 to 1: the stated ones, or even in log odds."""
    if score_edges is None:
        even_steps = np.linspace(-1.0, 1.0, whole_number(n_bins, "n_bins", least=2) + 1)
        return np.concatenate([[0.0], expit(LOG_ODDS * even_steps[1:-1]), [1.0]])
    edges = np.concatenate([[0.0], np.asarray(score_edges, dtype=np.float64).ravel(), [1.0]])
    if len(edges) < 3 or not (np.diff(edges) > 0.0).all():
        raise InputError(
            f"score_edges must hold rising numbers between 0 and 1, at least one: {score_edges!r}."
        )
    return edges


def count_scores(
    scores: FloatArray, positive: NDArray[np.bool_], codes: Codes, n_groups: int, edges: FloatArray
) -> NDArray[np.int64]:
    """Count records by group, class and bin of scores: shape (n_groups, 2, n_bins).

    Every record is in exactly one cell, which the noise relies on: a NaN score counts in the first
    bin, a score outside of the edges in the nearest.
    """
    n_bins = len(edges) - 1
    bins = np.searchsorted(edges, np.nan_to_num(scores, nan=0.0), side="right") - 1
    cells = (codes * 2 + positive) * n_bins + np.clip(bins, 0, n_bins - 1)
    counts = np.bincount(cells, minlength=n_groups * 2 * n_bins)
    return counts.reshape(n_groups, 2, n_bins).astype(np.int64)


def release_counts(
    counts: NDArray[np.int64], release: Release | None, noise: NoiseSource
) -> NDArray[np.int64]:
    """Return the counts plus whole-number noise, or unchanged if `release` is None.

    Each record is in one cell. To replace a record lowers one count by 1 and raises another by 1,
    which is what `NoiseSource.integers` assumes (docs/theory/thresholds.md, Lemma 1).
    """
    return counts if release is None else noise.integers(counts, release=release)


def positive_scores(model: Any, X: Any) -> FloatArray:
    """Return scores of the second class in [0, 1]: probabilities, or expit of decision values."""
    in_memory(X=X)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(expit(np.asarray(model.decision_function(X), dtype=np.float64)))


def two_classes(model: Any) -> NDArray[Any]:
    """Return the two classes of a fitted model; refuse a model with more or fewer."""
    classes = np.asarray(getattr(model, "classes_", ()))
    if classes.shape != (2,):
        raise InputError(f"Only binary classification is supported, got {len(classes)} classes.")
    return classes


def positives(y: Any, classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each target is the second class; refuse targets that are neither class."""
    values = column_or_1d(y)
    class_index = places(values, classes)  # -1 for a value that is no class
    for row in np.flatnonzero(class_index < 0):
        raise InputError(
            f"y must hold the classes {classes.tolist()!r} alone, got {values[row]!r} in row {row}."
        )
    return class_index == 1


def rows_of_person(estimator: Any) -> int | None:
    """Return the rows per person that the estimator's privacy is for; None if not stated."""
    if not isinstance(estimator, FrozenEstimator):
        return stated_rows(last_step(estimator).rows_per_person)
    check_is_fitted(estimator)
    cost = holdings_of(estimator).guarantee
    if cost is None or not (cost.of_person or cost.records_per_person > 1):
        return None
    return cost.records_per_person


def with_frozen(
    own: StartCost, model: Any, *, held_out: bool
) -> tuple[PrivacyGuarantee, tuple[StartCost, ...]]:
    """Return the joint guarantee of a frozen model and the histogram of its scores, and the costs.

    `own` is the cost of the histogram. On the same records both costs add up. If the records are
    `held_out`, by the caller's word, each is in one of two disjoint parts and pays for that only.
    """
    holdings, histogram = holdings_of(model), own.guarantee
    if holdings.guarantee is None:
        if held_out:
            fact = "the frozen model, which by the caller's word learned from none of these records"
            histogram = replace(histogram, public=(*histogram.public, fact))
        else:
            name = type(model.estimator).__name__
            learned = holdings.outside or (f"{name}: all that it learned",)
            histogram = replace(histogram, outside=(*histogram.outside, *learned))
        return histogram, (own._replace(guarantee=histogram),)
    together = joint_guarantee([holdings.guarantee, histogram], histogram.delta)
    # a model that the frozen one started from (`starts`) may have learned from these records
    if not held_out or not together.is_private or holdings.starts:
        return together, (*holdings.costs, own)
    guarantees = [part.under(together.relation) for part in (holdings.guarantee, histogram)]
    events = tuple(event for guarantee in guarantees for event in guarantee.events)
    disjoint = guarantee_of_events(events, together.delta, relation=together.relation)
    fact = (
        "which records the frozen model learned from and which were counted; by the caller's word "
        "none is among both"
    )
    # the unit is a record: a person may have one record in each part
    together = replace(together, epsilon=disjoint.epsilon, events=disjoint.events, of_person=False)
    together = replace(together, public=(*together.public, fact))
    return together, (own._replace(guarantee=together),)


def _audit_has_model(audit: AuditResult, holdings: Holdings) -> bool:
    """Return whether the model in an audit's cost is the model with these holdings."""
    if len(audit._costs) > 1:
        return {cost.key for cost in holdings.costs} <= {cost.key for cost in audit._costs}
    # an audit of other records, or from a file, has no keys of fits: compare the privacy events
    if holdings.guarantee is None or audit.model_privacy_ is None:
        return False
    return holdings.guarantee.events == audit.model_privacy_.events


@dataclass(eq=False, repr=False)
class ScorePostprocessor(ClassifierMixin, FitThenRelease):
    """Base of classifiers made of a model and a noisy histogram of its scores."""

    __metadata_request__predict = __metadata_request__score = {"groups": True}  # noqa: RUF012

    _fitted_name = "estimator_"

    estimator: Any
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    per_group: bool = True
    group_labels: Sequence[Any] | None = None
    group_by: Any = None
    n_bins: int = N_BINS
    score_edges: Sequence[float] | None = None
    histogram_fraction: float = 0.2
    held_out: bool = False
    random_state: Any = None

    @abstractmethod
    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        """Set the thresholds, or the calibration, from the noisy counts; no record is read."""

    @abstractmethod
    def _is_chosen(self, scores: FloatArray, codes: Codes) -> NDArray[np.bool_]:
        """Return whether each row, by its score and group code, is predicted the second class."""

    def plan(
        self, *, group_sizes: Any, group_labels: Any = None, **facts: Any
    ) -> PostprocessingPlan:
        """Preview a fit from public facts: noise on the counts, budget of the model, guarantee.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int
            Number of records in each group; of a frozen model only how many groups counts.
        group_labels : sequence, optional
            Labels of `group_sizes`, where it is a sequence.
        **facts : int or sequence
            ``n_features`` and ``classes`` of a model that is fitted here.

        Returns
        -------
        PostprocessingPlan
            What ``fit`` would do and cost; print it.
        """
        self._check_parameters()
        if self._is_frozen:
            labels = (group_labels, self.group_labels)
            _, sizes = labelled_sizes(group_sizes, *labels, may_be_unnamed=True)
            return self._plan(None, len(sizes))
        facts |= {"group_sizes": group_sizes, "group_labels": group_labels}
        _, private_step = self._model_to_fit()
        return self._plan(private_step, **facts)

    @property
    def _is_frozen(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator)

    def _plan(self, private_step: Any, n_groups: int = 0, **facts: Any) -> PostprocessingPlan:
        """Plan a model and its histogram, and set the model's share of the budget on its step.

        `private_step` is the unfitted last step of the model, and `facts` go to its ``plan``. For a
        frozen model it is None, and `n_groups` is the only fact.
        """
        budget, rows = Budget(self.epsilon, self.delta), rows_of_person(self.estimator)

        def plan_model(model_budget: Budget) -> Plan:
            private_step.set_params(epsilon=model_budget.epsilon, delta=model_budget.delta)
            plan: Plan = private_step.plan(**facts)
            return plan

        planner = None if private_step is None else plan_model
        model, release = plan_release(budget, self.histogram_fraction, rows, planner)
        is_stated = private_step is not None or self.group_labels is not None
        guarantee = histogram_guarantee(release, self.delta, rows, labels_stated=is_stated)
        if model is not None:
            n_groups = model.problem.n_groups
            guarantee = self._with_model(model.guarantee, guarantee)
        n_bins = len(checked_edges(self.score_edges, self.n_bins)) - 1
        return PostprocessingPlan(model, release, budget, n_groups, n_bins, guarantee)

    def _with_model(self, model: PrivacyGuarantee, histogram: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return the joint guarantee of a model and its histogram."""
        together = joint_guarantee([model, histogram], self.delta)
        return replace(together, requested_epsilon=self.epsilon)

    def _check_parameters(self) -> None:
        """Refuse wrong parameters; no record is needed."""
        Budget(self.epsilon, self.delta)
        checked_edges(self.score_edges, self.n_bins)
        open_unit(self.histogram_fraction, "histogram_fraction")
        if self.held_out and (not self._is_frozen or (rows_of_person(self.estimator) or 1) > 1):
            raise InputError(
                "held_out must be False where the model is fitted to the same records, or a person "
                "has several rows, which may be in both parts."
            )

    def _model_to_fit(self) -> tuple[Any, Any]:
        """Return an unfitted copy of `estimator`, and the private last step of that copy."""
        self._private_step(self.estimator)  # checks that the last step is private
        model = clone(self.estimator)
        private_step = last_step(model)
        if self.group_labels is not None:
            private_step.set_params(group_labels=self.group_labels)
        if self.random_state is not None and private_step.random_state is None:
            private_step.set_params(random_state=self.random_state)
        return model, private_step

    def _check_private(
        self, X: Any, y: Any, groups: Any
    ) -> tuple[Any, PostprocessingPlan, Codes, Any, Any]:
        """Check records before a fit; return model, plan, group codes, labels, is_positive."""
        model, private_step = self._model_to_fit()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the real fit repeats these warnings
            dry_run = learn_nothing(clone(model), X, y, groups)
        classes, labels = two_classes(dry_run), dry_run.group_labels_
        plan = self._plan(
            private_step,
            group_sizes=[int(size) for size in dry_run.group_sizes_],
            n_features=dry_run.n_features_in_,
            classes=classes.tolist() if private_step.classes is None else None,
            group_labels=list(labels),
        )
        is_positive = positives(y, classes)
        codes = np.zeros(len(is_positive), dtype=np.intp)
        if groups is not None:
            codes, _ = encode_groups(groups, len(codes), list(labels), may_be_empty=True)
        return model, plan, codes, labels, is_positive

    def _check_frozen(
        self, X: Any, y: Any, groups: Any
    ) -> tuple[Any, PostprocessingPlan, Codes, Any, Any]:
        """Check records for a frozen model, before the histogram; returns as `_check_private`."""
        check_is_fitted(self.estimator)
        scores = positive_scores(self.estimator, X)  # the model refuses a wrong X
        is_positive, n_records = positives(y, two_classes(self.estimator)), len(scores)
        check_consistent_length(scores, is_positive)
        is_stated = self.group_labels is not None
        codes, labels = np.zeros(n_records, dtype=np.intp), np.array([0], dtype=object)
        if groups is not None:
            codes, labels = encode_groups(
                groups, n_records, self.group_labels, may_be_empty=is_stated, is_hidden=True
            )
            if not is_stated:
                check_found(labels, n_records, "group_labels")
        elif is_stated:
            raise InputError("groups must be given where group_labels is set, got None.")
        if self.epsilon < np.inf:
            check_delta(self.delta, n_records)
        return self.estimator, self._plan(None, len(labels)), codes, labels, is_positive

    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        """Plan, fit the model unless it is frozen, release the histogram, and learn from it."""
        self._check_parameters()
        frozen, groups_argument = self._is_frozen, groups  # `_records` may change the groups
        X, y, groups = self._records(X, y, groups, self.estimator if frozen else None)
        check = self._check_frozen if frozen else self._check_private
        model, plan, codes, labels, is_positive = check(X, y, groups)
        release, private_step = plan.release, last_step(model)
        label_source = self if frozen else private_step
        is_stated = label_source.group_labels is not None or (frozen and groups is None)
        _ = plan.count_std  # raises if the noise is too large for use, before budget is spent
        seed, releases = (None, []) if release is None else (self.random_state, [release])
        noise, rows = NoiseSource(seed, releases), rows_of_person(self.estimator)
        terms = {"seeded": noise.seeded, "labels_stated": is_stated}
        histogram = histogram_guarantee(release, self.delta, rows, **terms)
        if not frozen and private_step.neighbours != "replace-one":
            # the histogram has the neighbours of the model that it is a part of
            names = grouping_names(groups_argument, self.group_by)
            within = Relation.REPLACE_ONE_WITHIN_GROUP
            histogram = replace(histogram, relation=within, groupings=names)
        own, spent = StartCost(uuid4().hex, type(self).__name__, histogram), list[str]()
        self._forget()
        # reserve the histogram's cost before the model is charged: the ledger takes both or neither
        with spending(histogram, noise, own.what, self, key=own.key, also=spent):
            if frozen:
                holdings = holdings_of(model)
                model_cost, self._start_costs = holdings.guarantee, holdings.starts
                guarantee, costs = with_frozen(own, model, held_out=self.held_out)
            else:
                private_step = fit_in_groups(model, X, y, groups)
                spent.append("model")
                # a fit with hidden groups plans again, from its noisy group sizes
                plan, model_cost = replace(plan, model=private_step.plan_), private_step.privacy_
                joint = self._with_model(model_cost, histogram)
                guarantee = replace(joint, groupings=histogram.groupings)
                costs = (*own_costs(private_step), own)
                self._start_costs = private_step._start_costs
                if private_step.count_std_ == 0.0:
                    self.group_sizes_ = private_step.group_sizes_
            scores, edges = positive_scores(model, X), checked_edges(self.score_edges, self.n_bins)
            counts = count_scores(scores, is_positive, codes, len(labels), edges)
            noisy = release_counts(counts, release, noise)
            sizes, inner_edges = getattr(self, "group_sizes_", None), edges[1:-1].tolist()
            first, second = two_classes(model)
            audit = AuditResult(
                group_labels=tuple(plain_label(label) for label in labels),
                group_name=group_name(groups_argument, self.group_by),
                classes=(plain_label(first), plain_label(second)),
                counts=nested(noisy.tolist()),
                noise=None if release is None else noise_on_integers(release),
                sizes=None if sizes is None else tuple(int(size) for size in sizes),
                threshold=min(inner_edges, key=lambda edge: abs(edge - 0.5)),
                score_edges=tuple(inner_edges),
                confidence=0.95,
                privacy_=guarantee,
                model_privacy_=model_cost,
                epsilon=float(self.epsilon),
                n_records=len(codes),
            )
            object.__setattr__(audit, "_costs", costs)
            self._learn_from_audit(audit, model, labels, guarantee, costs)
        self.plan_ = plan

    def fit_audit(self, audit: AuditResult) -> Self:
        """Learn from the histogram that was released already, at no further cost.

        Parameters
        ----------
        audit : AuditResult
            What `GroupAudit.run` released of the scores of the frozen ``estimator``, with outcomes
            and bins, or ``audit_`` of thresholds or a calibration of the same model.

        Returns
        -------
        self : object
            The fitted estimator, whose cost is that of the audit.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            if not self._is_frozen:
                raise InputError("estimator must be in a FrozenEstimator for fit_audit.")
            classes = two_classes(self.estimator).tolist()
            same_classes = [*map(label_key, audit.classes)] == [*map(label_key, classes)]
            has_bins = audit.has_outcomes and audit.score_edges and audit.n_cells == 1
            if not (has_bins and same_classes):
                raise InputError(
                    f"audit must have outcomes and bins of the scores of one model of the classes "
                    f"{classes!r}, got {audit.classes!r}."
                )
            costs = audit._costs or (StartCost(uuid4().hex, "stated", audit.privacy_),)
            guarantee, holdings = audit.privacy_, holdings_of(self.estimator)
            if audit.model_privacy_ is None:
                guarantee, costs = with_frozen(costs[-1], self.estimator, held_out=self.held_out)
            elif not _audit_has_model(audit, holdings):
                raise InputError("audit must be of the scores of estimator, got another model's.")
            self._forget()
            self._start_costs = holdings.starts
            # with None at the end NumPy makes a vector, even of labels that are tuples
            labels = np.array([*audit.group_labels, None], dtype=object)[:-1]
            self._learn_from_audit(audit, self.estimator, labels, guarantee, costs)
        return self

    def _forget(self) -> None:
        """Delete attributes of an earlier fit that not every fit sets."""
        for name in ("_start_costs", "group_sizes_", "plan_"):
            self.__dict__.pop(name, None)

    def _learn_from_audit(
        self,
        audit: AuditResult,
        model: Any,
        labels: NDArray[np.object_],
        guarantee: PrivacyGuarantee,
        costs: tuple[StartCost, ...],
    ) -> None:
        """Learn from a released histogram, and set the fitted attributes."""
        noisy = np.array(audit.counts, dtype=np.int64)
        edges = np.array([0.0, *(audit.score_edges or ()), 1.0])
        self._learn(noisy, edges, 0.0 if audit.noise is None else audit.noise.std)
        self.estimator_, self.classes_, self.group_labels_ = model, two_classes(model), labels
        self.audit_, self.histogram_, self.score_edges_ = audit, noisy, edges
        self.privacy_, self._costs = guarantee, costs
        self._needs_groups = bool(self.per_group) and len(labels) > 1

    def _scores_and_groups(self, X: Any, groups: Any) -> tuple[FloatArray, Codes]:
        """Return each row's score and group code; all codes are 0 if groups share one rule."""
        check_is_fitted(self)
        _, groups = same_rows(X=X, groups=groups)
        scores = positive_scores(self.estimator_, without_groups(X, self.group_by, self))
        if not self._needs_groups:
            return scores, np.zeros(len(scores), dtype=np.intp)
        groups = find_groups(X, groups, self.group_by)
        if groups is None:
            raise InputError("groups must be given to predict, or group_by set, got neither.")
        codes, _ = encode_groups(groups, len(scores), list(self.group_labels_), may_be_empty=True)
        return scores, codes

    def predict(self, X: Any, groups: Any = None) -> NDArray[Any]:
        """Return the class of each row: by its group's threshold, or its larger probability.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each row, where groups are treated apart and `group_by` is not set.

        Returns
        -------
        ndarray of shape (n_records,)
            Classes.
        """
        chosen = self._is_chosen(*self._scores_and_groups(X, groups))
        return np.asarray(self.classes_[chosen.astype(int)])

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy on rows, exactly: on private records it is no release."""
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        predicted = places(self.predict(X, groups), self.classes_)
        return float(np.average(predicted == places(y, self.classes_), weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # with few records the noise dominates
        return tags
