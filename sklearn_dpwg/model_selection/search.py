"""Hyper-parameter search whose choice is private too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterSampler
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import without_weights
from sklearn_dpwg.data.frames import PlainlyStored, in_memory, same_rows
from sklearn_dpwg.data.groups import (
    GroupBy,
    encode_groups,
    find_groups,
    grouping_names,
    take_rows,
    without_groups,
)
from sklearn_dpwg.data.problem import equal_sizes
from sklearn_dpwg.estimators.encode import stated_rows
from sklearn_dpwg.estimators.learn import warn_of_row_norm
from sklearn_dpwg.exceptions import InputError, SeededNoiseWarning
from sklearn_dpwg.ledger.costs import in_words
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.model_selection.search_plan import (
    Indices,
    Runs,
    Scoring,
    SearchPlan,
    check_relation,
    check_releases,
    count_runs,
    final_step,
    fit_in_groups,
    known_candidates,
    last_step,
    learn_nothing,
    noisy_score,
    plan_search,
    record_scores,
    release_held_out_sizes,
    share_of_counts,
    split,
    starts_of,
    switch_off_output,
)
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee


def _has(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), name)

    return check


def _of_best(name: str, returned: str, shape: str) -> Any:
    """Return a method of the search that is the best model's, if that has it."""

    def method(self: Any, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return np.asarray(getattr(self.best_estimator_, name)(self._features(X)))

    method.__name__, method.__qualname__ = name, f"DPSearchCV.{name}"
    method.__doc__ = f"""Return the best model's {returned}.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape {shape}
            The {returned}.
        """
    return available_if(_has(name))(method)


class DPSearchCV(PlainlyStored, MetaEstimatorMixin, BaseEstimator):
    """Search for hyper-parameters so that the winner *and its choosing* are private together.

    A random number of runs is made. Each draws a candidate, fits it on most of the records and
    scores it, with noise, on the rest. Only the best run is released: its model, its parameters,
    its noisy score. The number of runs and all other results stay inside.

    Parameters
    ----------
    estimator : estimator
        A private estimator of this package, or a pipeline that ends in one and whose other steps
        learn nothing from the records. Its ``epsilon`` and ``delta`` are set by the search.
    param_distributions : dict, or sequence of dicts
        Lists, or distributions with ``rvs``, by parameter, as for ``RandomizedSearchCV``.
    epsilon : float, default=1.0
        ε of everything together.
    delta : float, default=1e-6
        δ of everything together.
    n_iter : float, default=5
        Mean number of runs. More find better candidates, and cost each run some of its budget.
    distribution : {"geometric", "logarithmic"}, default="geometric"
        How the number of runs varies. The logarithmic one costs less and is one more often.
    scoring : {"accuracy", "absolute_error"} or callable, optional
        Score of a record in [0, 1]; accuracy for a classifier, else one minus the absolute error
        over the width of ``target_bounds``. A callable ``scoring(estimator, X, y)`` returns one
        number a record, clipped to [0, 1]. It is tried first, on a model that learned nothing, so
        that a wrong one costs nothing. What it fits itself is not paid for by the search, and a
        `PrivacyLedger` charges it.
    test_size : float, default=0.2
        Share of each group, or where groups are hidden of all records, that is held out for scores.
    group_by : column name, column index, sequence of them, or callable, optional
        Finds the groups in X; else they are passed to ``fit``.
    random_state : int, RandomState or Generator, optional
        A seed makes the search repeatable and voids the guarantee for whoever knows it.

    Attributes
    ----------
    best_estimator_ : estimator
        The released model; it was fitted on the records that were not held out.
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its worst-group score with noise.
    plan_ : SearchPlan
        How the budget was divided.
    privacy_ : PrivacyGuarantee
        What the whole search costs.

    See Also
    --------
    sklearn_dpwg.ledger.PrivacyLedger : Counts what an ordinary search costs, without the choice.

    Notes
    -----
    A record is either fitted on or held out, at random, so a run is as private as the worse of
    its two parts, and each has the whole budget of a run. The best of a random number of runs is
    accounted for by Theorem 2 of Papernot and Steinke, "Hyperparameter Tuning with Renyi
    Differential Privacy" (2022), through dp_accounting's ``RepeatAndSelectDpEvent``. Candidates
    whose releases are not all Gaussian are refused.

    Where the estimator protects groups, as by default, the search does too: it holds out places
    among all records, and divides scores by counts that it releases once, for the estimator's share
    of its budget, 3 %. A group that may be empty by its count is not scored.

    With ``rows_per_person`` of the estimator the whole search is stated for a person, and more rows
    of each take more noise in fits and scores alike. A person's rows may be in both parts, so that
    scores are kinder than those of new people would be.

    The time that the search takes tells how many runs there were, which is outside the guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.model_selection import DPSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 2))
    >>> y, groups = X[:, 0] > 0, np.where(X[:, 1] > 0.2, "a", "b")
    >>> model = DPWorstGroupClassifier(data_norm=1.0)
    >>> search = DPSearchCV(model, {"radius": [0.5, 5.0]}, epsilon=2.0)
    >>> bool(search.fit(X, y, groups).best_score_ > 0.7)
    True
    >>> search.privacy_.epsilon <= 2.0
    True
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_iter: float = 5,
        distribution: str = "geometric",
        scoring: Scoring | None = None,
        test_size: float = 0.2,
        group_by: GroupBy | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.distribution = distribution
        self.scoring = scoring
        self.test_size = test_size
        self.group_by = group_by
        self.random_state = random_state

    def plan(self) -> SearchPlan:
        """Preview how the budget is divided, which follows from the parameters alone.

        Returns
        -------
        SearchPlan
            Print it.
        """
        return plan_search(
            Budget(self.epsilon, self.delta),
            mean_runs=self.n_iter,
            distribution=self.distribution,
            count_share=share_of_counts(self.estimator),
            labels_are_stated=getattr(last_step(self.estimator), "group_labels", None) is not None,
            rows_per_person=stated_rows(
                getattr(last_step(self.estimator), "rows_per_person", None)
            ),
        )

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return the guarantee that ``fit`` will give, without reading a record.

        Returns
        -------
        PrivacyGuarantee
            For ``epsilon`` and ``delta``, whatever the candidates.
        """
        return self.plan().guarantee

    @without_weights
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Search, and keep the best run alone.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            Targets.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each record, protected or public as `neighbours` of the estimator says;
            cells of several columns are intersected.

        Returns
        -------
        self : object
            The search.

        Raises
        ------
        ValueError
            If any input or parameter is wrong; no budget is spent then.
        TypeError
            If the estimator is no private one, or `scoring` takes other arguments.
        UnsupportedMechanismError
            If a candidate's releases are not all Gaussian.
        BudgetExceededError
            If a `PrivacyLedger` has less left.

        Notes
        -----
        Before the first run one is gone through with a model that learned nothing. An error after
        that carries a note that the budget is spent.
        """
        plan, scoring = self.plan(), self._scoring()
        # of all candidates: which are drawn is secret, and the choice knows those that lost
        starts = starts_of(self)
        known = self._known_candidates()
        X, y, groups = self._records(X, y, groups)
        # what is wrong with the records shows here, in the words that a fit of one has for it
        tried = self._in_budget(known[0], plan)
        form = learn_nothing(tried, X, y, groups)
        X, y = indexable(X, np.ravel(np.asarray(y)))
        codes, labels = self._codes(groups, form, len(y), hides_groups=plan.hides_groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)  # said once everything is checked
            source = NoiseSource(self.random_state)
        of_each = None if plan.hides_groups else labels
        train, held_out = split(codes, of_each, self.test_size, source.rng)
        facts = self._facts(plan, codes[train], labels, form)
        self._check_candidates(known, plan, facts)
        if source.seeded:
            NoiseSource(0)  # for its warning
        fitted_on = (take_rows(X, train), y[train], labels[codes[train]])
        scored_on = (take_rows(X, held_out), y[held_out], codes[held_out])
        names = () if plan.hides_groups else grouping_names(groups, self.group_by)
        guarantee = replace(plan.guarantee, seeded=source.seeded, groupings=names)
        runs, name, key = Runs(), type(self).__name__, uuid4().hex
        with (
            spending(guarantee, runs, name, plan.guarantee, key=key, whose="search", before=starts),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # their number would tell that of the runs
            with config_context(enable_metadata_routing=False):
                record_scores(scoring, tried, *scored_on[:2])
            # who knew the candidates in order would know that there were runs up to the winner's
            coins, released = source.secret_rng("runs of a search"), None
            if plan.hides_groups:
                own = int(coins.integers(2**32)) if source.seeded else None
                runs.draws.append(plan.counts)
                released = release_held_out_sizes(plan, codes, len(labels), len(held_out), own)
            for _ in range(count_runs(plan, coins)):
                seed = int(coins.integers(2**32))
                (parameters,) = ParameterSampler(
                    self.param_distributions, 1, random_state=int(coins.integers(2**32))
                )
                candidate = self._candidate(parameters, plan, facts)
                runs.draws.append(parameters)
                last_step(candidate).set_params(random_state=seed if source.seeded else None)
                # the search pays for this fit, and for nothing else that is fitted on the way
                last_step(candidate)._is_paid = True
                fit_in_groups(candidate, *fitted_on)
                check_releases(last_step(candidate).plan_.guarantee, parameters)
                own = seed + 1 if source.seeded else None
                score = noisy_score(scoring, candidate, plan, own, *scored_on, released)
                if score > runs.best[0]:
                    runs.best = (score, parameters, candidate)
        best, self.plan_ = runs.best, plan
        self.best_score_, self.best_params_, self.best_estimator_ = best
        # the model was chosen too, so what its one fit cost is not what it cost
        guarantee = replace(guarantee, outside=in_words(starts))  # a ledger counts them
        for kept in (last_step(self.best_estimator_), self):
            kept.privacy_, kept._start_costs, kept._fit_key = guarantee, starts, key
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator that is searched."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        return tags

    @property
    def cv_results_(self) -> NoReturn:
        """Not available: raises AttributeError, as only the winner is paid for."""
        raise AttributeError(
            "DPSearchCV has no cv_results_: the budget pays for the best run alone, best_params_, "
            "best_score_ and best_estimator_; not even the number of runs is released."
        )

    def _features(self, X: Any) -> Any:
        """Return rows without the columns that say the groups."""
        in_memory(X=X)
        return without_groups(X, self.group_by, self)

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the model."""
        return np.asarray(self.best_estimator_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, without those that `group_by` names."""
        check_is_fitted(self)
        return int(self.best_estimator_.n_features_in_)

    predict = _of_best("predict", "predictions", "(n_records,)")
    predict_proba = _of_best("predict_proba", "probabilities", "(n_records, n_classes)")
    decision_function = _of_best("decision_function", "decisions", "(n_records,) or more")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the best model's own score, without noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        y : array-like of shape (n_records,)
            Targets.
        sample_weight : array-like of shape (n_records,), optional
            Weights of the records.

        Returns
        -------
        float
            Accuracy of a classifier, R² of a regressor.
        """
        check_is_fitted(self)
        rows = self._features(X)
        return float(self.best_estimator_.score(rows, y, sample_weight=sample_weight))

    def _scoring(self) -> Scoring:
        """Return what scores a record, or refuse what is none."""
        check_reached = getattr(self.scoring, "check_reached", None)
        if check_reached is not None:
            check_reached(self.estimator)
        if self.scoring is None:
            return "accuracy" if is_classifier(self.estimator) else "absolute_error"
        if not callable(self.scoring) and self.scoring not in ("accuracy", "absolute_error"):
            raise InputError(
                f'scoring must be "accuracy", "absolute_error" or a callable, got {self.scoring!r}.'
            )
        return self.scoring

    def _records(self, X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
        """Return rows without the columns of groups, targets and groups, of the same records."""
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        if final_step(self.estimator).group_by is not None:
            raise InputError(
                "group_by of the estimator must be None, as the search needs the groups too: set "
                "group_by of DPSearchCV."
            )
        return without_groups(X, self.group_by), y, find_groups(X, groups, self.group_by)

    def _codes(
        self, groups: Any, form: Any, n_records: int, *, hides_groups: bool
    ) -> tuple[Indices, NDArray[np.object_]]:
        """Return each record's index into the labels, and these; without groups all are one."""
        if groups is None:
            return np.zeros(n_records, dtype=np.intp), form.group_labels_
        stated = final_step(self.estimator).group_labels
        return encode_groups(groups, n_records, stated, may_be_empty=hides_groups)

    def _facts(
        self, plan: SearchPlan, codes: Indices, labels: NDArray[Any], form: Any
    ) -> dict[str, Any]:
        """Return the public facts of the records fitted on, of hidden groups equal sizes."""
        sizes = list(equal_sizes(len(codes), len(labels)))
        facts: dict[str, Any] = {
            "labels": labels.tolist(),
            "group_sizes": sizes if plan.hides_groups else np.bincount(codes).tolist(),
            "n_features": form.n_features_in_,
        }
        if is_classifier(self.estimator):
            facts["classes"] = form.classes_.tolist()
        return facts

    def _known_candidates(self) -> list[dict[str, Any]]:
        """Return all candidates that can be listed, or one."""
        known = known_candidates(self.param_distributions)
        # any one tells whether a run can go through
        return known or list(ParameterSampler(self.param_distributions, 1, random_state=0))

    def _check_candidates(
        self, known: list[dict[str, Any]], plan: SearchPlan, facts: Mapping[str, Any]
    ) -> None:
        """Refuse a candidate, or warn of one, before the first run."""
        candidates = [self._candidate(parameters, plan, facts) for parameters in known]
        if any(final_step(candidate).data_norm is None for candidate in candidates):
            warn_of_row_norm()

    def _in_budget(self, parameters: Mapping[str, Any], plan: SearchPlan) -> Any:
        """Return an unfitted candidate with the budget of a run, or refuse it by name."""
        candidate = clone(self.estimator).set_params(**clone(dict(parameters), safe=False))
        final = final_step(candidate)
        if {"epsilon", "delta"} & {name.rpartition("__")[2] for name in parameters}:
            raise InputError(
                f"param_distributions must leave epsilon and delta to the search, got "
                f"{dict(parameters)!r}."
            )
        check_relation(final, plan, parameters)
        final.set_params(epsilon=plan.run_epsilon, delta=plan.run_delta)
        switch_off_output(candidate)
        return candidate

    def _candidate(
        self, parameters: Mapping[str, Any], plan: SearchPlan, facts: Mapping[str, Any]
    ) -> Any:
        """Return an unfitted candidate that knows all classes, and pays for Gaussian releases."""
        candidate, known = self._in_budget(parameters, plan), dict(facts)
        final = final_step(candidate)
        classes, labels = known.pop("classes", None), known.pop("labels")
        if classes is not None and final.classes is None:
            # all classes are public; which of them a run is fitted on is not
            final.set_params(classes=classes)
        if plan.hides_groups and final.group_labels is None:  # the same for labels
            final.set_params(group_labels=labels)
        check_releases(final.plan(**known).guarantee, parameters)
        return candidate
