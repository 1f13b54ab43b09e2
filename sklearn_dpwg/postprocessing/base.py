"""Steps that thresholds and calibration share: a model, one histogram, a guarantee."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray, open_unit, without_weights
from sklearn_dpwg.data.frames import (
    PlainlyStored,
    in_memory,
    label_key,
    places,
    plain_list,
    same_rows,
)
from sklearn_dpwg.data.groups import (
    encode_groups,
    find_groups,
    grouping_names,
    labelled_sizes,
    without_groups,
)
from sklearn_dpwg.estimators import DPWorstGroupClassifier
from sklearn_dpwg.estimators.encode import check_found_groups, stated_rows
from sklearn_dpwg.estimators.learn import unchanged_on_failure
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.audit_rows import group_name, plain_label, versions_now
from sklearn_dpwg.inspection.group_audit import nested
from sklearn_dpwg.ledger.costs import StartCost, holdings_of, own_costs
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.model_selection.search_plan import (
    final_step,
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
    lone_release,
    noise_std,
    release_counts,
    split_budget,
)
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    joint_guarantee,
)
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.solvers import Plan

# What a guarantee says of a model that the caller says saw none of these records.
OTHER_RECORDS = "the frozen model, which by the caller's word learned from none of these records"

EACH_IN_ONE = (
    "which records the frozen model learned from and which were counted; by the caller's word none "
    "is among both"
)


def is_frozen(estimator: Any) -> bool:
    """Return whether an estimator is fitted already and stays as it is."""
    return isinstance(estimator, FrozenEstimator)


def private_step(estimator: Any) -> Any:
    """Return the private classifier to be fitted, or refuse what is none."""
    try:
        final = final_step(estimator)
    except TypeError:
        final = None
    if not isinstance(final, DPWorstGroupClassifier):
        raise InputTypeError(
            f"estimator must be a DPWorstGroupClassifier, a pipeline that ends in one, or a "
            f"fitted classifier in a FrozenEstimator, got {type(estimator).__name__}."
        )
    if final.group_by is not None:
        raise InputError(
            "group_by of the estimator must be None, as thresholds and calibration need the "
            "groups too: set their own group_by."
        )
    return final


def positive_scores(model: Any, X: Any) -> FloatArray:
    """Return scores in [0, 1] of the second class: probabilities, or the logistic of decisions."""
    in_memory(X=X)
    names = [name for name in ("predict_proba", "decision_function") if hasattr(model, name)]
    if not names:
        raise InputTypeError(
            f"estimator must have predict_proba or decision_function, got {type(model).__name__}."
        )
    scores = np.asarray(getattr(model, names[0])(X), dtype=np.float64)
    return scores[:, 1] if names[0] == "predict_proba" else np.asarray(expit(scores))


def two_classes(model: Any) -> NDArray[Any]:
    """Return the classes of a fitted model, of which there must be two."""
    classes = np.asarray(model.classes_)
    if classes.ndim != 1 or len(classes) != 2:
        raise InputError(
            f"Only binary classification is supported. The classes must be two, got {len(classes)}."
        )
    return classes


def positives(y: Any, classes: NDArray[Any], n_records: int) -> NDArray[np.bool_]:
    """Return which targets are the second class; others than the two are refused."""
    values = column_or_1d(y)
    if len(values) != n_records:
        raise InputError(f"y must hold one class a record, {n_records}, got {len(values)}.")
    at = places(values, classes)
    if (at < 0).any():
        row = int(np.argmin(at))
        raise InputError(
            f"y must hold the classes {classes.tolist()!r} alone, got "
            f"{values[row : row + 1].tolist()[0]!r} in row {row}."
        )
    return at == 1


def guarantee_of_frozen(model: Any) -> PrivacyGuarantee | None:
    """Return what a frozen model cost, None where nothing in it is private."""
    check_is_fitted(model)
    return holdings_of(model).guarantee


def rows_of_person(estimator: Any) -> int | None:
    """Return how many rows of a person the estimator is for, None where nobody says it."""
    if is_frozen(estimator):
        cost = guarantee_of_frozen(estimator)
        is_said = cost is not None and (cost.of_person or cost.records_per_person > 1)
        return cost.records_per_person if cost is not None and is_said else None
    return stated_rows(private_step(estimator).rows_per_person)


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
    apart = PrivacyGuarantee.from_events(events, together.delta, relation=together.relation)
    # a record is in one part, and a person may have one in each
    together = replace(together, epsilon=apart.epsilon, events=apart.events, of_person=False)
    together = replace(together, public=(*together.public, EACH_IN_ONE))
    return together, (own._replace(guarantee=together),)


def check_held_out(held_out: Any, estimator: Any) -> None:
    """Refuse records called others where the model is fitted to them, or persons have several."""
    if not isinstance(held_out, bool | np.bool_):
        raise InputError(f"held_out must be True or False, got {held_out!r}.")
    if held_out and not is_frozen(estimator):
        raise InputError(
            "held_out must be False where the model is fitted to the same records; fit it to "
            "others first and pass it in a FrozenEstimator, got True."
        )
    if held_out and (rows_of_person(estimator) or 1) > 1:
        raise InputError(
            "held_out must be False where a person has several rows, which may be in both parts, "
            "got True."
        )


@dataclass(frozen=True)
class _Checked:
    """What is known before anything is spent."""

    model: Any
    plan: PostprocessingPlan
    codes: NDArray[np.intp]
    labels: NDArray[np.object_]
    classes: NDArray[Any]
    is_positive: NDArray[np.bool_]
    labels_stated: bool


# What both document alike, by the names of the parameters.
SHARED_PARAMETERS = {
    "estimator, epsilon, delta": """\
    estimator : estimator
        A `DPWorstGroupClassifier` of two classes, or a pipeline that ends in one and whose other
        steps learn nothing from the records: it is fitted, and its ``epsilon`` and ``delta`` are
        set. Or any fitted classifier of two classes in scikit-learn's ``FrozenEstimator``, if it
        scores each row by that row alone.
    epsilon : float, default=1.0
        ε of what a fit releases: of model and histogram together, or of the histogram alone where
        the model is frozen. ``inf`` for none.
    delta : float, default=1e-6
        δ of the same. A histogram around a frozen model needs none.
""",
    "group_labels, group_by, classes": """\
    group_labels : sequence, optional
        All group labels; found in the groups by default, and public either way.
    group_by : column name or index, sequence of them, or callable, optional
        How to find the groups in X, in `fit` and in prediction. Columns that it names are taken
        out before the model sees X, unless a frozen one was fitted to them.
    classes : sequence, optional
        Both classes, public; those of the estimator, or found in y, by default.
""",
    "score_edges, histogram_share, held_out, random_state": """\
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
    "histogram_ to plan_": """\
    audit_ : AuditResult
        The one release, as an audit tells it: rates at each edge, calibration, AUC, a page.
    histogram_ : ndarray of shape (n_groups, 2, n_bins)
        The noisy counts by group, class and bin; the one release. They may be negative.
    score_edges_ : ndarray of shape (n_bins + 1,)
        Edges of the bins.
    estimator_ : estimator
        The fitted model.
    classes_ : ndarray of shape (2,)
        Classes.
    group_labels_ : ndarray of shape (n_groups,)
        Group labels.
    group_sizes_ : ndarray of shape (n_groups,)
        Public sizes of the groups, where the model was fitted here.
    plan_ : PostprocessingPlan
        What `fit` released, with how much noise.
""",
    "n_features_in_, feature_names_in_": """\
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X had them.
""",
}


class ScorePostprocessor(PlainlyStored, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of what is made of a model and one noisy histogram of its scores; not for direct use."""

    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__predict = {"groups": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        per_group: bool = True,
        group_labels: Sequence[Any] | None = None,
        group_by: Any = None,
        classes: Sequence[Any] | None = None,
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
        self.classes = classes
        self.n_bins = n_bins
        self.score_edges = score_edges
        self.histogram_share = histogram_share
        self.held_out = held_out
        self.random_state = random_state

    @abstractmethod
    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        """Set what follows from the released histogram alone."""

    @abstractmethod
    def _is_chosen(self, scores: FloatArray, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which rows are predicted to be of the second class."""

    @without_weights
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the model, unless it is frozen, and learn from one noisy histogram of its scores.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            Targets of two classes.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each record; cells of several columns are intersected.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an input or a parameter is wrong; no budget is spent then.
        TypeError
            If the estimator is neither private nor frozen.
        BudgetExceededError
            If a `PrivacyLedger` has less left; neither model nor histogram is charged then.

        Notes
        -----
        A fit that fails leaves the estimator as it was. An error after the first release carries a
        note that the budget is spent.
        """
        with unchanged_on_failure(self):
            self._fit(X, y, groups)
        return self

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
            if not is_frozen(self.estimator):
                raise InputError("estimator must be in a FrozenEstimator for fit_audit.")
            classes = two_classes(self.estimator)
            if not audit.has_outcomes or audit.score_edges is None or audit.n_cells > 1:
                raise InputError(
                    "audit must have outcomes and bins of the scores of one model, got another one."
                )
            if [*map(label_key, audit.classes)] != [*map(label_key, classes)]:
                raise InputError(
                    f"classes of the audit must be those of the model, {classes.tolist()!r}, got "
                    f"{audit.classes!r}."
                )
            costs = audit._costs or (StartCost(uuid4().hex, "stated", audit.privacy_),)
            guarantee, own = audit.privacy_, costs[-1]
            if audit.model_privacy_ is None:
                guarantee, costs = with_frozen(own, self.estimator, held_out=self.held_out)
            edges = np.array([0.0, *audit.score_edges, 1.0])
            noisy = np.array(audit.counts, dtype=np.int64)
            for of_fit in ("_start_costs", "group_sizes_", "plan_"):
                self.__dict__.pop(of_fit, None)
            self._learn(noisy, edges, audit._counted.std)
            self.estimator_, self.classes_ = self.estimator, classes
            self.group_labels_ = np.array([*audit.group_labels, None], dtype=object)[:-1]
            self.histogram_, self.score_edges_ = noisy, edges
            self.privacy_, self._costs, self.audit_ = guarantee, costs, audit
            self._n_records = audit.n_records or max(int(noisy.sum()), 1)
            self._needs_groups = bool(self.per_group) and len(audit.group_labels) > 1
        return self

    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        edges = self._check_parameters()
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        found = find_groups(X, groups, self.group_by)
        frozen = is_frozen(self.estimator)
        features = without_groups(X, self.group_by, self.estimator if frozen else None)
        check = self._check_frozen if frozen else self._check_private
        known = check(features, y, found)
        release, rows = known.plan.release, rows_of_person(self.estimator)
        std = noise_std(release)  # refuses noise beyond use while nothing is spent
        for of_model_before in ("_start_costs", "_costs", "group_sizes_"):
            self.__dict__.pop(of_model_before, None)
        noise = NoiseSource(
            None if release is None else self.random_state, [] if release is None else [release]
        )
        alone = histogram_guarantee(
            release,
            self.delta,
            rows,
            seeded=noise.seeded,
            labels_stated=known.labels_stated,
        )
        if not frozen and last_step(known.model).neighbours != "replace-one":
            within = Relation.REPLACE_ONE_WITHIN_GROUP  # as the model says, of which it is a part
            names = grouping_names(groups, self.group_by)
            alone = replace(alone, relation=within, groupings=names)
        spent: list[str] = []
        own = StartCost(uuid4().hex, type(self).__name__, alone)
        # reserved before the model is fitted, which is charged by itself: both fit in or neither
        with spending(alone, noise, own.what, self, key=own.key, also=spent):
            plan = known.plan
            if frozen:
                guarantee, costs = with_frozen(own, known.model, held_out=self.held_out)
            else:
                guarantee, costs = self._fit_model(known, X, y, found, own, spent)
                # that of hidden groups is made once more, for their counts
                plan = replace(plan, model=last_step(known.model).plan_)
            scores = positive_scores(known.model, features)
            counts = count_scores(scores, known.is_positive, known.codes, len(known.labels), edges)
            noisy = release_counts(counts, release, noise)
            self._learn(noisy, edges, std)
        self.estimator_ = known.model
        self.classes_ = known.classes
        self.group_labels_ = known.labels
        self.histogram_, self.score_edges_ = noisy, edges
        self.plan_, self.privacy_, self._costs = plan, guarantee, costs
        self._n_records = len(scores)
        self.audit_ = self._as_audit(groups, release)
        self._needs_groups = bool(self.per_group) and len(known.labels) > 1

    def _as_audit(self, groups: Any, release: Release | None) -> AuditResult:
        """Return the histogram as an audit tells it; its threshold is the edge nearest to 0.5."""
        inner = self.score_edges_[1:-1].tolist()
        sizes = getattr(self, "group_sizes_", None)
        model = holdings_of(self.estimator_).guarantee if is_frozen(self.estimator_) else None
        if not is_frozen(self.estimator):
            model = last_step(self.estimator_).privacy_
        found = AuditResult(
            group_labels=tuple(plain_label(label) for label in self.group_labels_),
            group_name=group_name(groups, self.group_by),
            classes=(plain_label(self.classes_[0]), plain_label(self.classes_[1])),
            counts=nested(self.histogram_),
            noise=None if release is None else noise_on_integers(release),
            sizes=None if sizes is None else tuple(int(size) for size in sizes),
            threshold=min(inner, key=lambda edge: abs(edge - 0.5)),
            score_edges=tuple(inner),
            confidence=0.95,
            privacy_=self.privacy_,
            model_privacy_=model,
            created=datetime.now(UTC).date().isoformat(),
            versions=versions_now(),
            epsilon=float(self.epsilon),
            n_records=self._n_records,
        )
        object.__setattr__(found, "_costs", self._costs)
        return found

    def _fit_model(
        self,
        known: _Checked,
        X: Any,
        y: Any,
        groups: Any,
        own: StartCost,
        spent: list[str],
    ) -> tuple[PrivacyGuarantee, tuple[StartCost, ...]]:
        """Fit the model, and return what it and the histogram promise together, and their costs."""
        model = known.model
        if self.group_by is not None and not hasattr(model, "steps"):
            model.set_params(group_by=self.group_by)  # so that its guarantee names the groups
            groups = None
        else:
            X = without_groups(X, self.group_by)
        final = fit_in_groups(model, X, y, groups)
        spent.append("model")
        self._start_costs = final._start_costs
        if final.count_std_ == 0.0:
            self.group_sizes_ = final.group_sizes_
        together = joint_guarantee([final.privacy_, own.guarantee], self.delta)
        together = replace(together, groupings=own.guarantee.groupings)
        costs = (*own_costs(final), own)
        return replace(together, requested_epsilon=self.epsilon), costs

    def _check_parameters(self) -> FloatArray:
        """Check what needs no records, and return the edges of the bins."""
        Budget(self.epsilon, self.delta)
        if not isinstance(self.per_group, bool | np.bool_):
            raise InputError(f"per_group must be True or False, got {self.per_group!r}.")
        open_unit(self.histogram_share, "histogram_share")
        check_held_out(self.held_out, self.estimator)
        return checked_edges(self.score_edges, self.n_bins)

    def _unfitted(self) -> tuple[Any, Any]:
        """Return a copy of the model to be fitted, and its private step."""
        private_step(self.estimator)
        model = clone(self.estimator)
        final = last_step(model)
        if getattr(final, "overlap", "cells") != "cells":
            raise InputError(
                f"overlap of the estimator must be 'cells' in {type(self).__name__}, which is "
                f"about disjoint groups, got {final.overlap!r}: wrap a fitted one in "
                "FrozenEstimator."
            )
        if self.group_labels is not None:
            final.set_params(group_labels=self.group_labels)
        if self.classes is not None:
            final.set_params(classes=self.classes)
        if self.random_state is not None and final.random_state is None:
            final.set_params(random_state=self.random_state)
        return model, final

    def _check_private(self, X: Any, y: Any, groups: Any) -> _Checked:
        """Go through a fit that learns nothing, so that what is wrong shows for free."""
        model, final = self._unfitted()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit says it again
            form = learn_nothing(clone(model), X, y, groups)
        classes, labels = two_classes(form), form.group_labels_
        plan = self._plan_with(
            final,
            group_sizes=[int(size) for size in form.group_sizes_],
            n_features=form.n_features_in_,
            classes=classes.tolist() if final.classes is None else None,
            group_labels=list(labels),
        )
        n_records = len(column_or_1d(y))
        codes = np.zeros(n_records, dtype=np.intp)
        if groups is not None:
            codes, _ = encode_groups(groups, n_records, list(labels), may_be_empty=True)
        is_positive, is_stated = positives(y, classes, n_records), final.group_labels is not None
        return _Checked(model, plan, codes, labels, classes, is_positive, is_stated)

    def _check_frozen(self, X: Any, y: Any, groups: Any) -> _Checked:
        """Check records against a fitted model, before their histogram is released."""
        model = self.estimator
        check_is_fitted(model)
        classes = two_classes(model)
        stated = None if self.classes is None else [*map(label_key, plain_list(self.classes))]
        if stated not in (None, [*map(label_key, classes)]):
            raise InputError(
                f"classes must be those of the frozen model, {classes.tolist()!r}, got "
                f"{self.classes!r}."
            )
        n_records = len(positive_scores(model, X))  # what is wrong with X shows here
        is_positive = positives(y, classes, n_records)
        if groups is None:
            if self.group_labels is not None:
                raise InputError("groups must be given where group_labels is set, got None.")
            codes, labels = np.zeros(n_records, dtype=np.intp), np.array([0], dtype=object)
        else:
            is_stated = self.group_labels is not None
            codes, labels = encode_groups(
                groups, n_records, self.group_labels, may_be_empty=is_stated, is_hidden=True
            )
            if self.group_labels is None:
                check_found_groups(labels, n_records)
        if self.epsilon < np.inf:
            check_delta(self.delta, n_records)
        plan = self._plan_around_frozen(len(labels))
        is_stated = self.group_labels is not None or groups is None
        return _Checked(model, plan, codes, labels, classes, is_positive, is_stated)

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
        if is_frozen(self.estimator):
            known = (group_labels, self.group_labels)
            _, sizes = labelled_sizes(group_sizes, *known, may_be_unnamed=True)
            return self._plan_around_frozen(len(sizes))
        if n_features is None:
            raise InputError(
                "n_features must be said of a model that is fitted here, got None; a frozen one "
                "needs none."
            )
        _, final = self._unfitted()
        facts = {"group_sizes": group_sizes, "n_features": n_features, "classes": classes}
        return self._plan_with(final, **facts, group_labels=group_labels)

    def _plan_with(self, final: Any, **facts: Any) -> PostprocessingPlan:
        """Return the plan of a model and its histogram, and give the model its budget."""
        budget = Budget(self.epsilon, self.delta)
        rows = stated_rows(final.rows_per_person)

        def planned(of_model: Budget) -> Plan:
            final.set_params(epsilon=of_model.epsilon, delta=of_model.delta)
            plan: Plan = final.plan(**facts)
            return plan

        model, release = split_budget(budget, self.histogram_share, rows, planned)
        alone = histogram_guarantee(release, self.delta, rows)
        together = joint_guarantee([model.guarantee, alone], self.delta)
        together = replace(together, requested_epsilon=self.epsilon)
        n_bins = len(checked_edges(self.score_edges, self.n_bins)) - 1
        n_groups = model.problem.n_groups
        return PostprocessingPlan(model, release, budget, n_groups, n_bins, together)

    def _plan_around_frozen(self, n_groups: int) -> PostprocessingPlan:
        budget = Budget(self.epsilon, self.delta)
        rows = rows_of_person(self.estimator)
        release = lone_release(budget, rows)
        n_bins = len(checked_edges(self.score_edges, self.n_bins)) - 1
        is_stated = self.group_labels is not None
        guarantee = histogram_guarantee(release, self.delta, rows, labels_stated=is_stated)
        return PostprocessingPlan(None, release, budget, n_groups, n_bins, guarantee)

    def _scored(self, X: Any, groups: Any) -> tuple[FloatArray, NDArray[np.intp]]:
        """Return each row's score and its group, the first where all are treated alike."""
        check_is_fitted(self)
        _, groups = same_rows(X=X, groups=groups)
        scores = positive_scores(self.estimator_, without_groups(X, self.group_by, self))
        n_records = len(scores)
        if not self._needs_groups:
            return scores, np.zeros(n_records, dtype=np.intp)
        groups = find_groups(X, groups, self.group_by)
        if groups is None:
            raise InputError(
                f"groups must be given to predict, or group_by set, as {type(self).__name__} "
                f"treats each group by itself, got neither."
            )
        codes, _ = encode_groups(groups, n_records, list(self.group_labels_), may_be_empty=True)
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
        """Return the accuracy on rows, exactly: on private records it is no release.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            Targets.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each row, where groups are treated apart and `group_by` is not set.
        sample_weight : array-like of shape (n_records,), optional
            Weights of the rows.

        Returns
        -------
        float
            Share of rows whose class is right.
        """
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        is_right = places(self.predict(X, groups), self.classes_) == places(y, self.classes_)
        return float(np.average(is_right, weights=sample_weight))

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        check_is_fitted(self)
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of X, where it had names."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.feature_names_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # few records drown in the noise
        return tags
