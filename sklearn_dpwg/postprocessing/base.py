"""The way of thresholds and calibration: a model, one histogram of its scores, a guarantee.

`release_counts` alone hands records to noise; everything else follows from public facts or from the
noisy counts, of shape (n_groups, 2, n_bins).
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
# Log odds to which bins reach; `benchmarks/thresholds.py edges` prints bins of equal width.
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
    """Return the plan of the model and the release of the histogram, which keep the total.

    Around a frozen model, of which there is no plan, the histogram has all of ε, and δ is not used.
    Else it gets its fraction of μ². That adds up where the model's noise is Gaussian, too; where
    its batches are sampled, its budget is lowered until both together keep the total.
    """
    k = rows or 1
    if budget.epsilon == math.inf:
        return (None if plan_model is None else plan_model(budget)), None
    if plan_model is None:
        scale = k / budget.epsilon
        return None, Release("score histogram", "discrete-laplace", scale, max_count=1)
    mu = budget.mu * (1.0 - 1e-6)  # for noise on whole numbers that counts as continuous
    release = Release("score histogram", "gaussian", k / (math.sqrt(fraction) * mu), max_count=1)
    of_histogram = histogram_guarantee(release, budget.delta, rows)
    epsilon, n_plans = gdp_epsilon(budget.delta, math.sqrt(1.0 - fraction) * mu), 0
    while epsilon > 0.0 and n_plans < 12:
        model, n_plans = plan_model(Budget(epsilon, budget.delta)), n_plans + 1
        cost = joint_guarantee([model.guarantee, of_histogram], budget.delta).epsilon
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
    """Return what a histogram costs by itself a person with so many rows."""
    public = PUBLIC_FACTS if labels_stated else (*PUBLIC_FACTS, LABELS_THAT_OCCUR)
    stated: dict[str, Any] = {"public": public, "relation": Relation.REPLACE_ONE}
    if release is None:
        exact = PrivacyGuarantee.from_releases((), Budget(math.inf, delta), **stated)
        return exact.for_person(rows_per_person)
    guarantee = PrivacyGuarantee.from_releases([release], delta, seeded=seeded, **stated)
    return guarantee.for_person(rows_per_person)


def checked_edges(score_edges: ArrayLike | None, n_bins: int) -> FloatArray:
    """Return the public edges of the bins of scores, from 0 to 1."""
    if score_edges is None:
        places = np.linspace(-1.0, 1.0, whole_number(n_bins, "n_bins", least=2) + 1)
        return np.concatenate([[0.0], expit(LOG_ODDS * places[1:-1]), [1.0]])
    edges = np.concatenate([[0.0], np.asarray(score_edges, dtype=np.float64).ravel(), [1.0]])
    if len(edges) < 3 or not (np.diff(edges) > 0.0).all():
        raise InputError(
            f"score_edges must hold rising numbers between 0 and 1, at least one: {score_edges!r}."
        )
    return edges


def count_scores(
    scores: FloatArray, positive: NDArray[np.bool_], codes: Codes, n_groups: int, edges: FloatArray
) -> NDArray[np.int64]:
    """Return how many records of each group and class have a score in each bin.

    A record is in one cell, whatever its score is: a NaN, too, which counts in the first bin.
    """
    n_bins = len(edges) - 1
    inside = np.searchsorted(edges, np.nan_to_num(scores, nan=0.0), side="right") - 1
    cells = (codes * 2 + positive) * n_bins + np.clip(inside, 0, n_bins - 1)
    counts = np.bincount(cells, minlength=n_groups * 2 * n_bins)
    return counts.reshape(n_groups, 2, n_bins).astype(np.int64)


def release_counts(
    counts: NDArray[np.int64], release: Release | None, noise: NoiseSource
) -> NDArray[np.int64]:
    """Return counts with the noise of a release, as whole numbers; without one as they are.

    A record is in one cell. Replaced, its group too, it leaves one and enters another, which is
    what `NoiseSource.integers` takes counts to be (docs/theory/thresholds.md, Lemma 1).
    """
    return counts if release is None else noise.integers(counts, release=release)


def positive_scores(model: Any, X: Any) -> FloatArray:
    """Return scores in [0, 1] of the second class: probabilities, or the logistic of decisions."""
    in_memory(X=X)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(expit(np.asarray(model.decision_function(X), dtype=np.float64)))


def two_classes(model: Any) -> NDArray[Any]:
    """Return the classes of a model, of which there must be two."""
    classes = np.asarray(getattr(model, "classes_", ()))
    if classes.shape != (2,):
        raise InputError(f"Only binary classification is supported, got {len(classes)} classes.")
    return classes


def positives(y: Any, classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which targets are the second class; others than the two are refused."""
    values = column_or_1d(y)
    at = places(values, classes)
    for row in np.flatnonzero(at < 0):
        raise InputError(
            f"y must hold the classes {classes.tolist()!r} alone, got {values[row]!r} in row {row}."
        )
    return at == 1


def rows_of_person(estimator: Any) -> int | None:
    """Return how many rows of a person the estimator is for, None where nobody says it."""
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
    """Return what a frozen model and the histogram of its scores promise together, and their costs.

    On the same records both are paid for; where the caller says that the records are others, each
    record is in one of two disjoint parts and pays for one.
    """
    inside, alone = holdings_of(model), own.guarantee
    if inside.guarantee is None:
        if held_out:
            word = "the frozen model, which by the caller's word learned from none of these records"
            alone = replace(alone, public=(*alone.public, word))
        else:
            learned = inside.outside or (f"{type(model.estimator).__name__}: all that it learned",)
            alone = replace(alone, outside=(*alone.outside, *learned))
        return alone, (own._replace(guarantee=alone),)
    together = joint_guarantee([inside.guarantee, alone], alone.delta)
    # what the model began with may have learned from these records
    if not held_out or not together.is_private or inside.starts:
        return together, (*inside.costs, own)
    each = (one.under(together.relation) for one in (inside.guarantee, alone))
    events = tuple(event for one in each for event in one.events)
    apart = guarantee_of_events(events, together.delta, relation=together.relation)
    word = (
        "which records the frozen model learned from and which were counted; by the caller's word "
        "none is among both"
    )
    # a record is in one part, and a person may have one in each
    together = replace(together, epsilon=apart.epsilon, events=apart.events, of_person=False)
    together = replace(together, public=(*together.public, word))
    return together, (own._replace(guarantee=together),)


def _is_of(audit: AuditResult, inside: Holdings) -> bool:
    """Whether an audit that counts a model counts the one that holds these private fits."""
    if len(audit._costs) > 1:
        return {cost.key for cost in inside.costs} <= {cost.key for cost in audit._costs}
    # of other records, or read from a file, where fits have no keys
    known = (inside.guarantee, audit.model_privacy_)
    return None not in known and len({one.events for one in known if one is not None}) == 1


@dataclass(eq=False, repr=False)
class ScorePostprocessor(ClassifierMixin, FitThenRelease):
    """Base of what is made of a model and one noisy histogram of its scores; not for direct use."""

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
        """Set what follows from the released histogram alone."""

    @abstractmethod
    def _is_chosen(self, scores: FloatArray, codes: Codes) -> NDArray[np.bool_]:
        """Return which rows are predicted to be of the second class."""

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
            known = (group_labels, self.group_labels)
            _, sizes = labelled_sizes(group_sizes, *known, may_be_unnamed=True)
            return self._plan(None, len(sizes))
        facts |= {"group_sizes": group_sizes, "group_labels": group_labels}
        return self._plan(self._unfitted()[1], **facts)

    @property
    def _is_frozen(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator)

    def _plan(self, final: Any, n_groups: int = 0, **facts: Any) -> PostprocessingPlan:
        """Return the plan of a model and its histogram, and give the model its budget.

        Of a frozen one, for which None stands, the number of groups is all that counts.
        """
        budget, rows = Budget(self.epsilon, self.delta), rows_of_person(self.estimator)

        def plan_model(of_model: Budget) -> Plan:
            final.set_params(epsilon=of_model.epsilon, delta=of_model.delta)
            plan: Plan = final.plan(**facts)
            return plan

        private = None if final is None else plan_model
        model, release = plan_release(budget, self.histogram_fraction, rows, private)
        is_stated = final is not None or self.group_labels is not None
        guarantee = histogram_guarantee(release, self.delta, rows, labels_stated=is_stated)
        if model is not None:
            n_groups = model.problem.n_groups
            guarantee = self._with_model(model.guarantee, guarantee)
        n_bins = len(checked_edges(self.score_edges, self.n_bins)) - 1
        return PostprocessingPlan(model, release, budget, n_groups, n_bins, guarantee)

    def _with_model(self, model: PrivacyGuarantee, histogram: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return what a model and its histogram promise together."""
        together = joint_guarantee([model, histogram], self.delta)
        return replace(together, requested_epsilon=self.epsilon)

    def _check_parameters(self) -> None:
        """Check what needs no records."""
        Budget(self.epsilon, self.delta)
        checked_edges(self.score_edges, self.n_bins)
        open_unit(self.histogram_fraction, "histogram_fraction")
        if self.held_out and (not self._is_frozen or (rows_of_person(self.estimator) or 1) > 1):
            raise InputError(
                "held_out must be False where the model is fitted to the same records, or a person "
                "has several rows, which may be in both parts."
            )

    def _unfitted(self) -> tuple[Any, Any]:
        """Return a copy of the model to be fitted, and its private step."""
        self._private_step(self.estimator)
        model = clone(self.estimator)
        final = last_step(model)
        if self.group_labels is not None:
            final.set_params(group_labels=self.group_labels)
        if self.random_state is not None and final.random_state is None:
            final.set_params(random_state=self.random_state)
        return model, final

    def _check_private(
        self, X: Any, y: Any, groups: Any
    ) -> tuple[Any, PostprocessingPlan, Codes, Any, Any]:
        """Go through a fit that learns nothing, so that what is wrong shows for free."""
        model, final = self._unfitted()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit says it again
            form = learn_nothing(clone(model), X, y, groups)
        classes, labels = two_classes(form), form.group_labels_
        plan = self._plan(
            final,
            group_sizes=[int(size) for size in form.group_sizes_],
            n_features=form.n_features_in_,
            classes=classes.tolist() if final.classes is None else None,
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
        """Check records against a fitted model, before their histogram is released."""
        check_is_fitted(self.estimator)
        scores = positive_scores(self.estimator, X)  # what is wrong with X shows here
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
        """Plan both, fit the model unless it is frozen, release the histogram, learn from it."""
        self._check_parameters()
        frozen, passed = self._is_frozen, groups
        X, y, groups = self._records(X, y, groups, self.estimator if frozen else None)
        checked = (self._check_frozen if frozen else self._check_private)(X, y, groups)
        model, plan, codes, labels, is_positive = checked
        release, final = plan.release, last_step(model)
        known = self if frozen else final
        is_stated = known.group_labels is not None or (frozen and groups is None)
        _ = plan.count_std  # refuses noise beyond use while nothing is spent
        seed, releases = (None, []) if release is None else (self.random_state, [release])
        noise, rows = NoiseSource(seed, releases), rows_of_person(self.estimator)
        stated = {"seeded": noise.seeded, "labels_stated": is_stated}
        alone = histogram_guarantee(release, self.delta, rows, **stated)
        if not frozen and final.neighbours != "replace-one":
            # as the model says, of which it is a part
            names, within = grouping_names(passed, self.group_by), Relation.REPLACE_ONE_WITHIN_GROUP
            alone = replace(alone, relation=within, groupings=names)
        own, spent = StartCost(uuid4().hex, type(self).__name__, alone), list[str]()
        self._forget()
        # reserved before the model is fitted, which is charged by itself: both fit in or neither
        with spending(alone, noise, own.what, self, key=own.key, also=spent):
            if frozen:
                inside = holdings_of(model)
                of_model, self._start_costs = inside.guarantee, inside.starts
                guarantee, costs = with_frozen(own, model, held_out=self.held_out)
            else:
                final = fit_in_groups(model, X, y, groups)
                spent.append("model")
                # that of hidden groups is made once more, for their counts
                plan, of_model = replace(plan, model=final.plan_), final.privacy_
                guarantee = replace(self._with_model(of_model, alone), groupings=alone.groupings)
                costs, self._start_costs = (*own_costs(final), own), final._start_costs
                if final.count_std_ == 0.0:
                    self.group_sizes_ = final.group_sizes_
            scores, edges = positive_scores(model, X), checked_edges(self.score_edges, self.n_bins)
            counts = count_scores(scores, is_positive, codes, len(labels), edges)
            noisy = release_counts(counts, release, noise)
            sizes, inner = getattr(self, "group_sizes_", None), edges[1:-1].tolist()
            first, second = two_classes(model)
            audit = AuditResult(
                group_labels=tuple(plain_label(label) for label in labels),
                group_name=group_name(passed, self.group_by),
                classes=(plain_label(first), plain_label(second)),
                counts=nested(noisy.tolist()),
                noise=None if release is None else noise_on_integers(release),
                sizes=None if sizes is None else tuple(int(size) for size in sizes),
                threshold=min(inner, key=lambda edge: abs(edge - 0.5)),
                score_edges=tuple(inner),
                confidence=0.95,
                privacy_=guarantee,
                model_privacy_=of_model,
                epsilon=float(self.epsilon),
                n_records=len(codes),
            )
            object.__setattr__(audit, "_costs", costs)
            self._read(audit, model, labels, guarantee, costs)
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
            is_like = [*map(label_key, audit.classes)] == [*map(label_key, classes)]
            if not (audit.has_outcomes and audit.score_edges and audit.n_cells == 1 and is_like):
                raise InputError(
                    f"audit must have outcomes and bins of the scores of one model of the classes "
                    f"{classes!r}, got {audit.classes!r}."
                )
            costs = audit._costs or (StartCost(uuid4().hex, "stated", audit.privacy_),)
            guarantee, inside = audit.privacy_, holdings_of(self.estimator)
            if audit.model_privacy_ is None:
                guarantee, costs = with_frozen(costs[-1], self.estimator, held_out=self.held_out)
            elif not _is_of(audit, inside):
                raise InputError("audit must be of the scores of estimator, got another model's.")
            self._forget()
            self._start_costs = inside.starts
            labels = np.array([*audit.group_labels, None], dtype=object)[:-1]  # tuples, too
            self._read(audit, self.estimator, labels, guarantee, costs)
        return self

    def _forget(self) -> None:
        """Forget what only some fits leave behind."""
        for name in ("_start_costs", "group_sizes_", "plan_"):
            self.__dict__.pop(name, None)

    def _read(
        self,
        audit: AuditResult,
        model: Any,
        labels: NDArray[np.object_],
        guarantee: PrivacyGuarantee,
        costs: tuple[StartCost, ...],
    ) -> None:
        """Learn from a released histogram, and keep it with what predictions need."""
        noisy = np.array(audit.counts, dtype=np.int64)
        edges = np.array([0.0, *(audit.score_edges or ()), 1.0])
        self._learn(noisy, edges, 0.0 if audit.noise is None else audit.noise.std)
        self.estimator_, self.classes_, self.group_labels_ = model, two_classes(model), labels
        self.audit_, self.histogram_, self.score_edges_ = audit, noisy, edges
        self.privacy_, self._costs = guarantee, costs
        self._needs_groups = bool(self.per_group) and len(labels) > 1

    def _scored(self, X: Any, groups: Any) -> tuple[FloatArray, Codes]:
        """Return each row's score and its group, the first where all are treated alike."""
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
        chosen = self._is_chosen(*self._scored(X, groups))
        return np.asarray(self.classes_[chosen.astype(int)])

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy on rows, exactly: on private records it is no release."""
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        chosen, right = (places(each, self.classes_) for each in (self.predict(X, groups), y))
        return float(np.average(chosen == right, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # few records drown in the noise
        return tags
