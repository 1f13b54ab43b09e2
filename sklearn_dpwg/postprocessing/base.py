"""The way of thresholds and calibration: a model, one histogram of its scores, a guarantee."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray, open_unit
from sklearn_dpwg.data.frames import in_memory, label_key, places, same_rows
from sklearn_dpwg.data.groups import (
    encode_groups,
    find_groups,
    grouping_names,
    labelled_sizes,
    without_groups,
)
from sklearn_dpwg.estimators.encode import check_found_groups, stated_rows
from sklearn_dpwg.estimators.private import unchanged_on_failure
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.audit_rows import group_name, plain_label, versions_now
from sklearn_dpwg.inspection.group_audit import nested
from sklearn_dpwg.ledger.costs import StartCost, holdings_of, own_costs
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.model_selection.fit_then_release import (
    FitThenRelease,
    fit_in_groups,
    last_step,
    learn_nothing,
)
from sklearn_dpwg.postprocessing.histogram import (
    N_BINS,
    PostprocessingPlan,
    checked_edges,
    count_scores,
    histogram_guarantee,
    noise_std,
    plan_release,
    release_counts,
)
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    joint_guarantee,
)
from sklearn_dpwg.privacy.guarantee import guarantee_of_events
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.solvers import Plan

Codes = NDArray[np.intp]
# Each record's group, the labels of groups, and whether a record is of the second class.
Known = tuple[Codes, NDArray[np.object_], NDArray[np.bool_]]

# What a guarantee says of a model that the caller says saw none of these records.
OTHER_RECORDS = "the frozen model, which by the caller's word learned from none of these records"
EACH_IN_ONE = (
    "which records the frozen model learned from and which were counted; by the caller's word none "
    "is among both"
)


def positive_scores(model: Any, X: Any) -> FloatArray:
    """Return scores in [0, 1] of the second class: probabilities, or the logistic of decisions."""
    in_memory(X=X)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(expit(np.asarray(model.decision_function(X), dtype=np.float64)))


def two_classes(model: Any) -> NDArray[Any]:
    """Return the classes of a model, of which there must be two."""
    classes = np.asarray(getattr(model, "classes_", ()))
    if classes.ndim != 1 or len(classes) != 2:
        raise InputError(
            f"Only binary classification is supported. The classes must be two, got {len(classes)}."
        )
    return classes


def positives(y: Any, classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which targets are the second class; others than the two are refused."""
    values = column_or_1d(y)
    at = places(values, classes)
    if (at < 0).any():
        row = int(np.argmin(at))
        raise InputError(
            f"y must hold the classes {classes.tolist()!r} alone, got "
            f"{values[row : row + 1].tolist()[0]!r} in row {row}."
        )
    return at == 1


def rows_of_person(estimator: Any) -> int | None:
    """Return how many rows of a person the estimator is for, None where nobody says it."""
    if not isinstance(estimator, FrozenEstimator):
        return stated_rows(last_step(estimator).rows_per_person)
    check_is_fitted(estimator)
    cost = holdings_of(estimator).guarantee
    is_stated = cost is not None and (cost.of_person or cost.records_per_person > 1)
    return cost.records_per_person if cost is not None and is_stated else None


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
            alone = replace(alone, public=(*alone.public, OTHER_RECORDS))
        else:
            learned = inside.outside or (f"{type(model.estimator).__name__}: all that it learned",)
            alone = replace(alone, outside=(*alone.outside, *learned))
        return alone, (own._replace(guarantee=alone),)
    together = joint_guarantee([inside.guarantee, alone], alone.delta)
    # what the model began with may have learned from these records
    if not held_out or not together.is_private or inside.began_with_others:
        return together, (*inside.costs, own)
    each = (one.under(together.relation) for one in (inside.guarantee, alone))
    events = tuple(event for one in each for event in one.events)
    apart = guarantee_of_events(events, together.delta, relation=together.relation)
    # a record is in one part, and a person may have one in each
    together = replace(together, epsilon=apart.epsilon, events=apart.events, of_person=False)
    together = replace(together, public=(*together.public, EACH_IN_ONE))
    return together, (own._replace(guarantee=together),)


# What both document alike, by the names of the parameters.
SHARED = {
    "estimator, epsilon, delta": """\
    estimator : estimator
        A `DPWorstGroupClassifier` of two classes, or a pipeline that ends in one and whose other
        steps learn nothing from the records: it is fitted, and its ``epsilon`` and ``delta`` are
        set. Or any fitted classifier of two classes in scikit-learn's ``FrozenEstimator``, if it
        scores each row by that row alone.
    epsilon, delta : float, default=1.0 and 1e-6
        ε and δ of what a fit releases: of model and histogram together, or of the histogram alone
        where the model is frozen, which needs no δ. ``epsilon=inf`` for no privacy.
""",
    "group_labels to random_state": """\
    group_labels : sequence, optional
        All group labels; found in the groups by default, and public either way.
    group_by : column name or index, sequence of them, or callable, optional
        How to find the groups in X, in `fit` and in prediction. Columns that it names are taken
        out before the model sees X, unless a frozen one was fitted to them.
    n_bins : int, default=12
        Number of bins of scores from 0 to 1, of equal width in log odds but for the outer two.
        More tell finer, and are noisier together.
    score_edges : sequence of float, optional
        Public edges between the bins, rising, strictly between 0 and 1, in place of `n_bins`.
    histogram_share : float, default=0.2
        Share of the budget, as μ², that pays for the histogram; the rest pays for the model.
    held_out : bool, default=False
        For a frozen model: whether it learned from none of the records of this fit, by the
        caller's word. Then a record pays for the model or for the histogram, and not for both.
    random_state : int, RandomState or None, default=None
        None draws noise from the operating system's entropy. Anything else makes fits repeatable,
        that of the model too if it has none, and voids the guarantee for who knows it.
""",
    "audit_ to n_features_in_": """\
    audit_ : AuditResult
        The one release, as an audit tells it: rates at each edge, calibration, AUC, a page.
    histogram_, score_edges_ : ndarray of shape (n_groups, 2, n_bins), and of (n_bins + 1,)
        The noisy counts by group, class and bin, which may be negative, and the edges of the bins.
    estimator_ : estimator
        The fitted model.
    classes_, group_labels_ : ndarray of shape (2,), and of (n_groups,)
        Classes, and group labels.
    group_sizes_ : ndarray of shape (n_groups,)
        Public sizes of the groups, where the model was fitted here.
    plan_ : PostprocessingPlan
        What `fit` released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee of model and histogram together.
    n_features_in_, feature_names_in_ : int, and ndarray of shape (n_features,)
        Number of columns of X, and their names, where it had them.
""",
}


class ScorePostprocessor(ClassifierMixin, FitThenRelease):
    """Base of what is made of a model and one noisy histogram of its scores; not for direct use."""

    __metadata_request__predict = __metadata_request__score = {"groups": True}  # noqa: RUF012

    _fitted_name = "estimator_"

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        per_group: bool = True,
        group_labels: Sequence[Any] | None = None,
        group_by: Any = None,
        n_bins: int = N_BINS,
        score_edges: Sequence[float] | None = None,
        histogram_share: float = 0.2,
        held_out: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.delta = delta
        self.per_group = per_group
        self.group_labels = group_labels
        self.group_by = group_by
        self.n_bins = n_bins
        self.score_edges = score_edges
        self.histogram_share = histogram_share
        self.held_out = held_out
        self.random_state = random_state

    @abstractmethod
    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        """Set what follows from the released histogram alone."""

    @abstractmethod
    def _is_chosen(self, scores: FloatArray, codes: Codes) -> NDArray[np.bool_]:
        """Return which rows are predicted to be of the second class."""

    def plan(
        self,
        *,
        group_sizes: Sequence[int] | Mapping[Any, int],
        n_features: int | None = None,
        classes: Sequence[Any] | None = None,
        group_labels: Sequence[Any] | None = None,
    ) -> PostprocessingPlan:
        """Preview a fit from public facts: noise on the counts, budget of the model, guarantee.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int
            Number of records in each group; of a frozen model only how many groups counts.
        n_features : int, optional
            Number of columns that reach the model; of a frozen one nothing depends on it.
        classes : sequence, optional
            Both classes; two by default.
        group_labels : sequence, optional
            Labels of `group_sizes`, where it is a sequence.

        Returns
        -------
        PostprocessingPlan
            What ``fit`` would do and cost; print it.

        Raises
        ------
        ValueError
            If an argument or a parameter is wrong.
        """
        self._check_parameters()
        if self._is_frozen:
            known = (group_labels, self.group_labels)
            _, sizes = labelled_sizes(group_sizes, *known, may_be_unnamed=True)
            return self._plan(None, len(sizes))
        facts: dict[str, Any] = {"group_sizes": group_sizes, "group_labels": group_labels}
        return self._plan(self._unfitted()[1], n_features=n_features, classes=classes, **facts)

    @property
    def _is_frozen(self) -> bool:
        """Whether the model is fitted already and stays as it is."""
        return isinstance(self.estimator, FrozenEstimator)

    def _plan(self, final: Any, n_groups: int = 0, **facts: Any) -> PostprocessingPlan:
        """Return the plan of a model and its histogram, and give the model its budget.

        Of a frozen one, for which None stands, the number of groups is all that counts.
        """
        budget, rows = Budget(self.epsilon, self.delta), rows_of_person(self.estimator)

        def planned(of_model: Budget) -> Plan:
            final.set_params(epsilon=of_model.epsilon, delta=of_model.delta)
            plan: Plan = final.plan(**facts)
            return plan

        known = None if final is None else planned
        model, release = plan_release(budget, self.histogram_share, rows, known)
        is_stated = final is not None or self.group_labels is not None
        guarantee = histogram_guarantee(release, self.delta, rows, labels_stated=is_stated)
        if model is not None:
            n_groups = model.problem.n_groups
            guarantee = joint_guarantee([model.guarantee, guarantee], self.delta)
            guarantee = replace(guarantee, requested_epsilon=self.epsilon)
        n_bins = len(checked_edges(self.score_edges, self.n_bins)) - 1
        return PostprocessingPlan(model, release, budget, n_groups, n_bins, guarantee)

    def _check_parameters(self) -> None:
        """Check what needs no records."""
        Budget(self.epsilon, self.delta)
        checked_edges(self.score_edges, self.n_bins)
        open_unit(self.histogram_share, "histogram_share")
        if self.held_out and not self._is_frozen:
            raise InputError(
                "held_out must be False where the model is fitted to the same records; fit it to "
                "others first and pass it in a FrozenEstimator, got True."
            )
        if self.held_out and (rows_of_person(self.estimator) or 1) > 1:
            raise InputError(
                "held_out must be False where a person has several rows, which may be in both "
                "parts, got True."
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

    def _check_private(self, X: Any, y: Any, groups: Any) -> tuple[Any, PostprocessingPlan, *Known]:
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

    def _check_frozen(self, X: Any, y: Any, groups: Any) -> tuple[Any, PostprocessingPlan, *Known]:
        """Check records against a fitted model, before their histogram is released."""
        check_is_fitted(self.estimator)
        n_records = len(positive_scores(self.estimator, X))  # what is wrong with X shows here
        is_positive = positives(y, two_classes(self.estimator))
        if len(is_positive) != n_records:
            raise InputError(
                f"y must hold one class a record, {n_records}, got {len(is_positive)}."
            )
        is_stated = self.group_labels is not None
        codes, labels = np.zeros(n_records, dtype=np.intp), np.array([0], dtype=object)
        if groups is not None:
            codes, labels = encode_groups(
                groups, n_records, self.group_labels, may_be_empty=is_stated, is_hidden=True
            )
            if not is_stated:
                check_found_groups(labels, n_records)
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
        stating, release = self if frozen else last_step(model), plan.release
        is_stated = stating.group_labels is not None or (frozen and groups is None)
        noise_std(release)  # refuses noise beyond use while nothing is spent
        seed, releases = (None, []) if release is None else (self.random_state, [release])
        noise, rows = NoiseSource(seed, releases), rows_of_person(self.estimator)
        stated = {"seeded": noise.seeded, "labels_stated": is_stated}
        alone = histogram_guarantee(release, self.delta, rows, **stated)
        if not frozen and last_step(model).neighbours != "replace-one":
            # as the model says, of which it is a part
            names, within = grouping_names(passed, self.group_by), Relation.REPLACE_ONE_WITHIN_GROUP
            alone = replace(alone, relation=within, groupings=names)
        own, spent = StartCost(uuid4().hex, type(self).__name__, alone), list[str]()
        self._forget()
        # reserved before the model is fitted, which is charged by itself: both fit in or neither
        with spending(alone, noise, own.what, self, key=own.key, also=spent):
            if frozen:
                of_model = holdings_of(model).guarantee
                guarantee, costs = with_frozen(own, model, held_out=self.held_out)
            else:
                final = fit_in_groups(model, X, y, groups)
                spent.append("model")
                # that of hidden groups is made once more, for their counts
                plan, of_model = replace(plan, model=final.plan_), final.privacy_
                guarantee = joint_guarantee([of_model, alone], self.delta)
                guarantee = replace(guarantee, groupings=alone.groupings)
                guarantee = replace(guarantee, requested_epsilon=self.epsilon)
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
                counts=nested(noisy),
                noise=None if release is None else noise_on_integers(release),
                sizes=None if sizes is None else tuple(int(size) for size in sizes),
                threshold=min(inner, key=lambda edge: abs(edge - 0.5)),
                score_edges=tuple(inner),
                confidence=0.95,
                privacy_=guarantee,
                model_privacy_=of_model,
                created=datetime.now(UTC).date().isoformat(),
                versions=versions_now(),
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
            The fitted estimator, whose cost is that of the audit: `privacy_of` counts it once.

        Raises
        ------
        ValueError
            If the audit has no outcomes, no bins or other classes, or the model is not frozen.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            if not self._is_frozen:
                raise InputError("estimator must be in a FrozenEstimator for fit_audit.")
            if not audit.has_outcomes or audit.score_edges is None or audit.n_cells > 1:
                raise InputError(
                    "audit must have outcomes and bins of the scores of one model, got another one."
                )
            own = two_classes(self.estimator)
            if [*map(label_key, audit.classes)] != [*map(label_key, own)]:
                raise InputError(
                    f"audit must have the classes of the model, {own.tolist()!r}, got "
                    f"{audit.classes!r}."
                )
            costs = audit._costs or (StartCost(uuid4().hex, "stated", audit.privacy_),)
            guarantee = audit.privacy_
            if audit.model_privacy_ is None:
                guarantee, costs = with_frozen(costs[-1], self.estimator, held_out=self.held_out)
            self._forget()
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
        self._n_records = audit.n_records or max(int(noisy.sum()), 1)
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
            raise InputError(
                f"groups must be given to predict, or group_by set, as {type(self).__name__} "
                f"treats each group by itself, got neither."
            )
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
        is_right = places(self.predict(X, groups), self.classes_) == places(y, self.classes_)
        return float(np.average(is_right, weights=sample_weight))

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of X, where it had names."""
        return np.asarray(self.estimator_.feature_names_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # few records drown in the noise
        return tags
