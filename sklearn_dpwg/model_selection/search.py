"""Hyper-parameter search whose choice is private too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from operator import itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg.data.frames import in_memory, plain_list
from sklearn_dpwg.data.groups import (
    GroupBy,
    encode_groups,
    grouping_names,
    take_rows,
    without_groups,
)
from sklearn_dpwg.data.problem import HiddenGroups, equal_sizes
from sklearn_dpwg.estimators.encode import stated_rows
from sklearn_dpwg.estimators.private import warn_of_row_norm
from sklearn_dpwg.exceptions import InputError, UnsupportedMechanismError
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.model_selection.fit_then_release import (
    FitThenRelease,
    Scoring,
    fit_in_groups,
    last_step,
    learn_nothing,
    noisy_score,
    record_scores,
    release_held_out_sizes,
    split,
)
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    epsilon_of,
)
from sklearn_dpwg.privacy.accounting.calibration import is_gaussian
from sklearn_dpwg.privacy.gaussian import gdp_epsilon
from sklearn_dpwg.privacy.guarantee import guarantee_of_events
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers.counts import COUNT_FRACTION, COUNTS, std_of_count

if TYPE_CHECKING:
    from dp_accounting import DpEvent

PUBLIC_FACTS = (
    "which group each record is in, and the group sizes",
    "the parameters of the search and of its estimator, the candidates included",
)
_MAX_CANDIDATES = 1000  # that are all checked before the first run


@dataclass(frozen=True)
class SearchPlan:
    """Division of a search's budget among its runs, from public facts alone; print it.

    ``score_multiplier`` is the scale of the Laplace noise on a score over its sensitivity. The
    guarantee has one event for each number, 0 to k, of a person's k rows that is fitted on. The
    ``counts`` of hidden groups are released once, before the first run.
    """

    mean_runs: float
    run_epsilon: float
    run_delta: float
    score_multiplier: float
    guarantee: PrivacyGuarantee
    hides_groups: bool = False
    counts: Release | None = None

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count of a hidden group; 0 without one."""
        return std_of_count(self.counts)

    @property
    def count_floor(self) -> int:
        """Largest noisy count at which a hidden group may be empty, and is not scored."""
        return HiddenGroups(1, self.count_std).floor

    def __str__(self) -> str:
        of_groups, number = "", "number of them"
        if self.hides_groups:
            number = "noisy count times the fraction held out"
            of_groups = "Who is held out follows from places among all records, not from groups.\n"
        if self.counts is not None:
            of_groups = (
                f"Counts of the groups are released once before the first run, with noise of "
                f"standard deviation {self.count_std:.3g}; a group not above "
                f"{self.count_floor:,} may be empty, and is not scored.\n{of_groups}"
            )
        return (
            f"Search of {self.mean_runs:g} runs in the mean, of which the best is released.\n"
            f"Each run fits with epsilon={rounded_up(self.run_epsilon)} at delta="
            f"{rounded_up(self.run_delta)}, scores held-out records with Laplace noise of scale "
            f"{self.score_multiplier:.4g} over the smallest group's {number}.\n"
            f"{of_groups}\n{self.guarantee}"
        )


@lru_cache(maxsize=64)  # a search plans before its fit, in it, and on every fold of another
def plan_search(
    budget: Budget,
    *,
    mean_runs: float,
    count_fraction: float | None = None,
    labels_are_stated: bool = True,
    rows_per_person: int | None = None,
) -> SearchPlan:
    """Return the plan with the largest budget of a run at which the whole search keeps `budget`.

    `count_fraction` of μ² goes to the counts of hidden groups: 0 for a single group, None where
    groups are public.

    Random places, not values, decide which of a person's k rows are fitted on. If a of them are,
    a fit of μ costs the person aμ/k, and the k − a others move each score by at most k − a times
    the sensitivity to one record. All k + 1 cases must keep the budget.
    """
    from dp_accounting import dp_event

    if not 1.0 <= float(mean_runs) <= 1e6:
        raise InputError(f"n_iter must be a number from 1 to 1e6, got {mean_runs!r}.")
    if budget.epsilon == math.inf:
        raise InputError("epsilon must be finite: without privacy use RandomizedSearchCV.")
    k, counts = rows_per_person or 1, None
    if count_fraction:
        counts = Release(COUNTS, "gaussian", k / (math.sqrt(count_fraction) * budget.mu), 1)

    def event(mu: float, rate: float, n_fitted: int) -> DpEvent:
        # cost of the search for a person with n_fitted of k rows fitted on, the others held out;
        # rate = 1 / scale of the noise on a score, in units of what k rows move it
        run_events = []
        if n_fitted:
            run_events.append(dp_event.GaussianDpEvent(k / (n_fitted * mu)))
        if n_fitted < k:
            run_events.append(dp_event.LaplaceDpEvent(k / ((k - n_fitted) * rate)))
        run = run_events[0] if len(run_events) == 1 else dp_event.ComposedDpEvent(run_events)
        best_run = dp_event.RepeatAndSelectDpEvent(run, float(mean_runs), 1.0)
        if counts is None:
            return best_run
        count_event = dp_event.GaussianDpEvent(counts.noise_multiplier / k)
        return dp_event.ComposedDpEvent([count_event, best_run])

    mu = _largest(lambda mu: event(mu, 1.0, n_fitted=k), budget, start=budget.mu)
    rate = _largest(lambda rate: event(1.0, rate, n_fitted=0), budget, start=budget.epsilon)
    # mixed cases, 0 < a < k, usually cost less; guarantee_of_events refuses the plan otherwise
    events = [event(mu, rate, a) for a in range(k, -1, -1)]
    hides_groups = count_fraction is not None
    *public, _ = HiddenGroups(1, labels_are_stated=labels_are_stated).public_facts
    guarantee = guarantee_of_events(
        events,
        budget,
        public=(*public, PUBLIC_FACTS[1]) if hides_groups else PUBLIC_FACTS,
        relation=Relation.REPLACE_ONE if hides_groups else Relation.REPLACE_ONE_WITHIN_GROUP,
    ).for_person(None if rows_per_person is None else 1)
    guarantee = replace(guarantee, records_per_person=k)  # whose events are a person's
    # a fit calibrates noise to (ε, δ): the one whose μ this is, rounded down
    run_epsilon = gdp_epsilon(budget.delta, mu) * (1.0 - 1e-9)
    paid = run_epsilon, budget.delta, k / rate, guarantee
    return SearchPlan(float(mean_runs), *paid, hides_groups, counts)


def _largest(event: Callable[[float], DpEvent], budget: Budget, *, start: float) -> float:
    """Return the largest ratio of signal to noise, up to `start`, whose event keeps the budget."""

    def excess(log_size: float) -> float:
        return epsilon_of(event(math.exp(log_size)), budget.delta) - budget.epsilon

    low = high = math.log(start)
    if excess(high) <= 0.0:
        return start
    while excess(low) > 0.0:
        low -= 1.0
        if low < high - 30.0:
            raise InputError(
                f"epsilon={budget.epsilon!r} is too small for so many runs: lower n_iter."
            )
    size = math.exp(brentq(excess, low, high, xtol=1e-7) - 1e-6)
    while epsilon_of(event(size), budget.delta) > budget.epsilon:
        size *= 1.0 - 1e-4
    return size


def count_runs(plan: SearchPlan, rng: np.random.Generator) -> int:
    """Draw the geometric number of runs, at least 1, which must stay secret."""
    return int(rng.geometric(1.0 / plan.mean_runs))


def known_candidates(distributions: Any) -> list[dict[str, Any]]:
    """Return all candidates to check before a search, or a drawn one if they cannot be listed."""
    spaces = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    drawn = any(hasattr(each, "rvs") for space in spaces for each in space.values())
    if not drawn and 0 < len(grid := ParameterGrid(distributions)) <= _MAX_CANDIDATES:
        return list(grid)
    return list(ParameterSampler(distributions, 1, random_state=0))


def check_releases(guarantee: PrivacyGuarantee, parameters: Mapping[str, Any]) -> None:
    """Refuse a candidate whose fit has releases that are not Gaussian."""
    if not all(is_gaussian(event) for event in guarantee.events):
        raise UnsupportedMechanismError(
            f"the candidate {dict(parameters)!r} has releases that are not all Gaussian, which a "
            f"private selection cannot account for tightly: leave it out."
        )


def _protected(final: Any) -> dict[str, Any]:
    """Return the parameters of a private model that say what a search protects."""
    labels = None if final.group_labels is None else plain_list(final.group_labels)
    rows = stated_rows(final.rows_per_person)
    return {"neighbours": final.neighbours, "rows_per_person": rows, "group_labels": labels}


def _of_best(name: str, returned: str, shape: str) -> Any:
    """Return a method of the search that calls the method `name` of the best model."""

    def method(self: Any, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return np.asarray(getattr(self.best_estimator_, name)(self._features(X)))

    method.__name__, method.__qualname__ = name, f"DPSearchCV.{name}"
    method.__doc__ = f"Return the best model's {returned} for rows, of shape {shape}."
    return available_if(lambda search: hasattr(search._model, name))(method)


@dataclass(eq=False, repr=False)
class DPSearchCV(FitThenRelease):
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
    epsilon, delta : float
        ε and δ of everything together.
    n_iter : float, default=5
        Mean of the geometric number of runs. More find better candidates, and cost each run some
        of its budget.
    scoring : callable, optional
        ``scoring(estimator, X, y)`` returns one number a record, clipped to [0, 1]; by default
        whether a class is right, or one minus the absolute error over the width of
        ``target_bounds``. It is tried first, on a model that learned nothing. What it fits itself
        is not paid for by the search, and a `PrivacyLedger` charges it.
    test_size : float, default=0.2
        Fraction of each group, or of all records where groups are hidden, held out for scores.
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
    A record is either fitted on or held out, at random, so a run is as private as the worse of its
    two parts, and each has the whole budget of a run. The best of a random number of runs is
    accounted for by Theorem 2 of Papernot and Steinke, "Hyperparameter Tuning with Renyi
    Differential Privacy" (2022), through dp_accounting's ``RepeatAndSelectDpEvent``. Candidates
    whose releases are not all Gaussian are refused.

    Where the estimator protects groups, as by default, the search holds out places among all
    records, and divides scores by counts that it releases once (`docs/theory/replace-one.md`). A
    person's rows may be in both parts, so that scores are kinder than those of new people. The time
    that a search takes tells how many runs there were, which is outside the guarantee.

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

    _fitted_name = "best_estimator_"

    estimator: Any
    param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    n_iter: float = 5
    scoring: Scoring | None = None
    test_size: float = 0.2
    group_by: GroupBy | None = None
    random_state: Any = None

    def plan(self) -> SearchPlan:
        """Preview how the budget is divided, which follows from the parameters alone.

        Returns
        -------
        SearchPlan
            Print it.
        """
        if self.scoring is not None and not callable(self.scoring):
            raise InputError(f"scoring must be None or a callable, got {self.scoring!r}.")
        final = self._private_step(self.estimator)
        labels, fraction = final.group_labels, None
        if final.neighbours == "replace-one":
            fraction = 0.0 if labels is not None and len(labels) == 1 else COUNT_FRACTION
        return plan_search(
            Budget(self.epsilon, self.delta),
            mean_runs=self.n_iter,
            count_fraction=fraction,
            labels_are_stated=labels is not None,
            rows_per_person=stated_rows(final.rows_per_person),
        )

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return that of ``plan()``, which ``fit`` will give whatever the candidates.

        Returns
        -------
        PrivacyGuarantee
            The guarantee.
        """
        return self.plan().guarantee

    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        """Check all inputs with a model of weights 0, run the search, and keep the best run."""
        plan = self.plan()
        hides_groups, known = plan.hides_groups, known_candidates(self.param_distributions)
        X, y, groups = self._records(X, y, groups)
        # errors in the records are raised here, as a fit of one candidate raises them
        tried = self._in_budget(known[0], plan)
        form = learn_nothing(tried, X, y, groups)
        X, y = indexable(X, np.ravel(np.asarray(y)))
        codes, labels = np.zeros(len(y), dtype=np.intp), form.group_labels_
        if groups is not None:
            stated = last_step(self.estimator).group_labels
            codes, labels = encode_groups(groups, len(y), stated, may_be_empty=hides_groups)
        source = NoiseSource(self.random_state)
        train, held_out = split(codes, None if hides_groups else labels, self.test_size, source.rng)
        # of the records fitted on, of hidden groups equal sizes
        sizes = equal_sizes(len(train), len(labels)) if hides_groups else np.bincount(codes[train])
        facts = {"group_sizes": list(map(int, sizes)), "n_features": form.n_features_in_}
        public = plan, facts, form
        checked = [self._candidate(parameters, *public) for parameters in known]
        if any(last_step(candidate).data_norm is None for candidate in checked):
            warn_of_row_norm()
        fitted_on = (take_rows(X, train), y[train], labels[codes[train]])
        scored_on = (take_rows(X, held_out), y[held_out], codes[held_out])
        names = () if hides_groups else grouping_names(groups, self.group_by)
        guarantee = replace(plan.guarantee, seeded=source.seeded, groupings=names)
        # what was released, for the ledger alone
        runs, name, key = SimpleNamespace(draws=[]), type(self).__name__, uuid4().hex
        best: tuple[float, Any, Any] = (-math.inf, {}, None)
        with (
            spending(guarantee, runs, name, plan.guarantee, key=key, whose="search"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # their number would tell that of the runs
            with config_context(enable_metadata_routing=False):
                record_scores(self.scoring, tried, *scored_on[:2])
            # who knew the candidates in order would know that there were runs up to the winner's
            coins, released = source.secret_rng("runs of a search"), None
            if hides_groups:
                own = int(coins.integers(2**32)) if source.seeded else None
                runs.draws.append(plan.counts)
                released = release_held_out_sizes(plan, codes, len(labels), len(held_out), own)
            for _ in range(count_runs(plan, coins)):
                seed, drawn = int(coins.integers(2**32)), int(coins.integers(2**32))
                (parameters,) = ParameterSampler(self.param_distributions, 1, random_state=drawn)
                candidate = self._candidate(parameters, *public)
                runs.draws.append(parameters)
                final = last_step(candidate)
                final.set_params(random_state=seed if source.seeded else None)
                # the search pays for this fit, and for nothing else that is fitted on the way
                final._is_paid = True
                fit_in_groups(candidate, *fitted_on)
                check_releases(final.plan_.guarantee, parameters)
                own = seed + 1 if source.seeded else None
                how = self.scoring, candidate, plan.score_multiplier, own
                run = noisy_score(*how, scored_on, released), parameters, candidate
                best = max(best, run, key=itemgetter(0))
        self.plan_ = plan
        self.best_score_, self.best_params_, self.best_estimator_ = best
        # the model was chosen too, so what its one fit cost is not what it cost
        for kept in (last_step(self.best_estimator_), self):
            kept.privacy_, kept._fit_key = guarantee, key

    def _in_budget(self, parameters: Mapping[str, Any], plan: SearchPlan) -> Any:
        """Return an unfitted candidate with the budget of a run; refuse parameters of privacy."""
        candidate = clone(self.estimator).set_params(**clone(dict(parameters), safe=False))
        final, given = self._private_step(candidate), _protected(last_step(self.estimator))
        changed = [name for name, value in _protected(final).items() if value != given[name]]
        set_names = {name.rpartition("__")[2] for name in parameters}
        if changed := [*sorted({"epsilon", "delta"} & set_names), *changed]:
            raise InputError(
                f"param_distributions must leave {' and '.join(changed)} to the search and its "
                f"estimator, which say what is protected, got {dict(parameters)!r}."
            )
        final.set_params(epsilon=plan.run_epsilon, delta=plan.run_delta)
        # what a candidate prints and calls would tell how many runs there are, which is secret
        for each in (candidate, *candidate.get_params().values()):
            if hasattr(each, "set_callbacks"):
                each.set_callbacks()
        loud = [name for name in candidate.get_params() if name.rpartition("__")[2] == "verbose"]
        return candidate.set_params(**dict.fromkeys(loud, False))

    def _candidate(
        self, parameters: Mapping[str, Any], plan: SearchPlan, facts: Mapping[str, Any], form: Any
    ) -> Any:
        """Return an unfitted candidate that knows all classes, and pays for Gaussian releases."""
        candidate = self._in_budget(parameters, plan)
        final = last_step(candidate)
        # all classes and labels are public; which of them a run is fitted on is not
        if is_classifier(final) and final.classes is None:
            final.set_params(classes=list(form.classes_))
        if plan.hides_groups and final.group_labels is None:
            final.set_params(group_labels=list(form.group_labels_))
        check_releases(final.plan(**facts).guarantee, parameters)
        return candidate

    def _features(self, X: Any) -> Any:
        """Return rows without the columns that say the groups."""
        in_memory(X=X)
        return without_groups(X, self.group_by, self)

    predict = _of_best("predict", "predictions", "(n_records,)")
    predict_proba = _of_best("predict_proba", "probabilities", "(n_records, n_classes)")
    decision_function = _of_best("decision_function", "decisions", "(n_records,) or more")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, R² of a regressor, without noise.

        Parameters
        ----------
        X, y, sample_weight : array-like
            Rows, targets, and weights of the records.

        Returns
        -------
        float
            The best model's own score.
        """
        check_is_fitted(self)
        rows = self._features(X)
        return float(self.best_estimator_.score(rows, y, sample_weight=sample_weight))

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the model."""
        return np.asarray(self.best_estimator_.classes_)
