"""Steps that thresholds and calibration share: a model, one histogram, a guarantee."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import open_unit
from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.estimators.inputs import check_found_groups
from sklearn_dpwg.estimators.spending import unchanged_on_failure
from sklearn_dpwg.groups import encode_groups, find_groups, grouping_names, ordered_sizes
from sklearn_dpwg.ledger.charge import charge, join_ledgers, note_of_spending, with_ledgers
from sklearn_dpwg.postprocessing.budget_split import lone_release, split_budget
from sklearn_dpwg.postprocessing.histogram_release import (
    histogram_guarantee,
    noise_std,
    release_counts,
)
from sklearn_dpwg.postprocessing.postprocessing_plan import PostprocessingPlan
from sklearn_dpwg.postprocessing.score_counts import checked_edges, count_scores
from sklearn_dpwg.postprocessing.wrapped_model import (
    check_held_out,
    fit_private,
    form_of_fit,
    is_frozen,
    positive_scores,
    positives,
    private_step,
    rows_of_person,
    two_classes,
    with_frozen,
)
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    check_delta,
    joint_guarantee,
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


class ScorePostprocessor(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of what is made of a model and one noisy histogram of its scores; not for direct use."""

    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__predict = {"groups": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    estimator: Any
    epsilon: float
    delta: float
    per_group: bool
    group_labels: Any
    group_by: Any
    classes: Any
    n_bins: int
    score_edges: Any
    histogram_share: float
    held_out: bool
    random_state: Any

    @abstractmethod
    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        """Set what follows from the released histogram alone."""

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

    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        edges = self._check_parameters()
        refuse_lazy(X=X, y=y, groups=groups)
        found = find_groups(X, groups, self.group_by)
        frozen = is_frozen(self.estimator)
        known = self._check_frozen(X, y, found) if frozen else self._check_private(X, y, found)
        release, rows = known.plan.release, rows_of_person(self.estimator)
        std = noise_std(release)  # refuses noise beyond use while nothing is spent
        for of_model_before in ("_start_costs", "_fit_key", "group_sizes_"):
            self.__dict__.pop(of_model_before, None)
        noise = NoiseSource(
            None if release is None else self.random_state, [] if release is None else [release]
        )
        alone = histogram_guarantee(
            release,
            self.delta,
            rows,
            seeded=noise.seeded,
            labels_stated=frozen and (self.group_labels is not None or found is None),
        )
        alone = replace(alone, groupings=grouping_names(groups, self.group_by))
        spent: list[str] = []
        # reserved before the model is fitted, which is charged by itself: both fit in or neither
        with (
            note_of_spending(lambda: spent or noise.draws, self),
            charge(alone, noise, type(self).__name__),
        ):
            if frozen:
                guarantee = with_frozen(alone, known.model, held_out=self.held_out)
            else:
                guarantee = self._fit_model(known, X, y, found, alone, spent)
            scores = positive_scores(known.model, X)
            counts = count_scores(scores, known.is_positive, known.codes, len(known.labels), edges)
            noisy = release_counts(counts, release, noise)
            self._learn(noisy, edges, std)
        self.estimator_ = known.model
        self.classes_ = known.classes
        self.group_labels_ = known.labels
        self.histogram_, self.score_edges_ = noisy, edges
        self.plan_, self.privacy_ = known.plan, guarantee
        self._needs_groups = bool(self.per_group) and len(known.labels) > 1

    def _fit_model(
        self,
        known: _Checked,
        X: Any,
        y: Any,
        groups: Any,
        alone: PrivacyGuarantee,
        spent: list[str],
    ) -> PrivacyGuarantee:
        """Fit the model, and return what it and the histogram promise together."""
        model = known.model
        if self.group_by is not None and not hasattr(model, "steps"):
            model.set_params(group_by=self.group_by)  # so that its guarantee names the groups
            groups = None
        final = fit_private(model, X, y, groups)
        spent.append("model")
        self._start_costs, self._fit_key = final._start_costs, final._fit_key
        if hasattr(final, "group_sizes_"):
            self.group_sizes_ = final.group_sizes_
        together = joint_guarantee([final.privacy_, alone], self.delta)
        together = replace(together, groupings=alone.groupings)
        return replace(together, requested_epsilon=self.epsilon)

    def _check_parameters(self) -> FloatArray:
        """Check what needs no records, and return the edges of the bins."""
        Budget(self.epsilon, self.delta)
        if not isinstance(self.per_group, bool | np.bool_):
            raise ValueError(f"per_group must be True or False, got {self.per_group!r}.")
        open_unit(self.histogram_share, "histogram_share")
        check_held_out(self.held_out, self.estimator)
        return checked_edges(self.score_edges, self.n_bins)

    def _unfitted(self) -> tuple[Any, Any]:
        """Return a copy of the model to be fitted, and its private step."""
        private_step(self.estimator)
        model = clone(self.estimator)
        final = model.steps[-1][1] if hasattr(model, "steps") else model
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
        form = form_of_fit(model, X, y, groups)
        classes, labels = two_classes(form), form.group_labels_
        plan = self._plan_with(
            final,
            group_sizes=[int(size) for size in form.group_sizes_],
            n_features=form.n_features_in_,
            classes=classes.tolist() if final.classes is None else None,
            group_labels=list(labels),
        )
        n_records = int(np.sum(form.group_sizes_))
        codes = np.zeros(n_records, dtype=np.intp)
        if groups is not None:
            codes, _ = encode_groups(groups, n_records, list(labels))
        return _Checked(model, plan, codes, labels, classes, positives(y, classes, n_records))

    def _check_frozen(self, X: Any, y: Any, groups: Any) -> _Checked:
        """Check records against a fitted model, before their histogram is released."""
        model = self.estimator
        check_is_fitted(model)
        classes = two_classes(model)
        if self.classes is not None and list(self.classes) != classes.tolist():
            raise ValueError(
                f"classes must be those of the frozen model, {classes.tolist()!r}, got "
                f"{self.classes!r}."
            )
        n_records = len(positive_scores(model, X))  # what is wrong with X shows here
        is_positive = positives(y, classes, n_records)
        if groups is None:
            if self.group_labels is not None:
                raise ValueError("groups must be given where group_labels is set, got None.")
            codes, labels = np.zeros(n_records, dtype=np.intp), np.array([0], dtype=object)
        else:
            is_stated = self.group_labels is not None
            codes, labels = encode_groups(
                groups, n_records, self.group_labels, may_be_empty=is_stated, are_secret=is_stated
            )
            if self.group_labels is None:
                check_found_groups(labels, n_records)
        if self.epsilon < np.inf:
            check_delta(self.delta, n_records)
        plan = self._plan_around_frozen(len(labels))
        return _Checked(model, plan, codes, labels, classes, is_positive)

    def plan(
        self,
        *,
        group_sizes: Sequence[int] | Mapping[Any, int],
        n_features: int,
        classes: Sequence[Any] | None = None,
        group_labels: Sequence[Any] | None = None,
    ) -> PostprocessingPlan:
        """Preview a fit from public facts: noise on the counts, budget of the model, guarantee.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int
            Number of records in each group; of a frozen model only how many groups counts.
        n_features : int
            Number of columns that reach the model.
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
            sizes = ordered_sizes(group_sizes, group_labels, self.group_labels)
            return self._plan_around_frozen(len(sizes))
        _, final = self._unfitted()
        facts = {"group_sizes": group_sizes, "n_features": n_features, "classes": classes}
        return self._plan_with(final, **facts, group_labels=group_labels)

    def _plan_with(self, final: Any, **facts: Any) -> PostprocessingPlan:
        """Return the plan of a model and its histogram, and give the model its budget."""
        budget = Budget(self.epsilon, self.delta)
        rows = int(final.rows_per_person)

        def planned(of_model: Budget) -> PrivacyGuarantee:
            final.set_params(epsilon=of_model.epsilon, delta=of_model.delta)
            return final.plan(**facts).guarantee

        of_model, release = split_budget(budget, self.histogram_share, rows, planned)
        final.set_params(epsilon=of_model.epsilon, delta=of_model.delta)
        model = final.plan(**facts)
        alone = histogram_guarantee(release, self.delta, rows)
        together = joint_guarantee([model.guarantee, alone], self.delta)
        return PostprocessingPlan(
            model,
            release,
            budget,
            model.problem.n_groups,
            len(checked_edges(self.score_edges, self.n_bins)) - 1,
            replace(together, requested_epsilon=self.epsilon),
        )

    def _plan_around_frozen(self, n_groups: int) -> PostprocessingPlan:
        budget = Budget(self.epsilon, self.delta)
        rows = rows_of_person(self.estimator)
        release = lone_release(budget, rows)
        n_bins = len(checked_edges(self.score_edges, self.n_bins)) - 1
        guarantee = histogram_guarantee(
            release, self.delta, rows, labels_stated=self.group_labels is not None
        )
        return PostprocessingPlan(None, release, budget, n_groups, n_bins, guarantee)

    def _codes_of(self, X: Any, groups: Any, n_records: int) -> NDArray[np.intp]:
        """Return each row's group, the first where all are treated alike."""
        if not self._needs_groups:
            return np.zeros(n_records, dtype=np.intp)
        groups = find_groups(X, groups, self.group_by)
        if groups is None:
            raise ValueError(
                f"groups must be given to predict, or group_by set, as {type(self).__name__} "
                f"treats each group by itself, got neither."
            )
        codes, _ = encode_groups(groups, n_records, list(self.group_labels_), may_be_empty=True)
        return codes

    @abstractmethod
    def predict(self, X: Any, groups: Any = None) -> NDArray[Any]:
        """Return the class of each row."""

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the accuracy on rows, exactly: on private records it is no release.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            Targets.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each row, where groups are treated apart and `group_by` is not set.

        Returns
        -------
        float
            Share of rows whose class is right.
        """
        refuse_lazy(X=X, y=y, groups=groups)
        return float(np.mean(self.predict(X, groups) == np.asarray(y)))

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

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles; inside ledgers, with what lets a worker count to them."""
        return with_ledgers(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and charge fits to the ledgers that it names."""
        super().__setstate__(join_ledgers(state))
