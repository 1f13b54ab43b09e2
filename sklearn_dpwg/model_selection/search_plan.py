"""Division of a private search's budget, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn import config_context
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.frames import places
from sklearn_dpwg.data.problem import HiddenGroups
from sklearn_dpwg.estimators import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.estimators.encode import stated_rows
from sklearn_dpwg.exceptions import (
    InputError,
    InputTypeError,
    UnsupportedMechanismError,
)
from sklearn_dpwg.ledger.costs import StartCost, costs_in, learning_steps
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
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers.counts import COUNT_SHARE, COUNTS, release_sizes, std_of_count

if TYPE_CHECKING:
    from dp_accounting import DpEvent


Indices = NDArray[np.intp]
Scoring = Literal["accuracy", "absolute_error"] | Callable[[Any, Any, Any], Any]

SHAPES = {"geometric": 1.0, "logarithmic": 0.0}
_MOST_CANDIDATES = 1000  # that are all checked before the first run

PUBLIC_FACTS = (
    "which group each record is in, and the group sizes",
    "the parameters of the search and of its estimator, the candidates included",
)


@dataclass(frozen=True)
class SearchPlan:
    """What every run of a search may spend.

    Parameters
    ----------
    mean_runs : float
        Mean of the number of runs.
    shape : float
        Shape of its truncated negative binomial distribution: 1 geometric, 0 logarithmic.
    run_epsilon, run_delta : float
        Budget of the fit in each run.
    score_multiplier : float
        Scale of the Laplace noise on a score over what one held-out record can move it.
    guarantee : PrivacyGuarantee
        The whole search: its events are for who is fitted on and who is held out, and of a person
        with k rows for each number of these that is fitted on.
    hides_groups : bool, default=False
        Whether the group of a record is protected.
    counts : Release, optional
        The counts of hidden groups among all records, released once before the first run; None
        where groups are public or there is one.
    """

    mean_runs: float
    shape: float
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
        """Count up to which a hidden group may be empty, and is not scored."""
        return HiddenGroups(1, self.count_std).floor

    def __str__(self) -> str:
        """Return a preview for people."""
        number = "number of them"
        if self.hides_groups:
            number = "noisy count times the share held out"
        return (
            f"Search of {self.mean_runs:g} runs in the mean, of which the best is released.\n"
            f"Each run fits with epsilon={rounded_up(self.run_epsilon)} at delta="
            f"{rounded_up(self.run_delta)}, scores held-out records with Laplace noise of scale "
            f"{self.score_multiplier:.4g} over the smallest group's {number}.\n"
            f"{self._of_hidden_groups()}\n{self.guarantee}"
        )

    def _of_hidden_groups(self) -> str:
        if not self.hides_groups:
            return ""
        held_out = "Who is held out follows from places among all records, not from groups.\n"
        if self.counts is None:
            return held_out
        return (
            f"Counts of the groups are released once before the first run, with noise of standard "
            f"deviation {self.count_std:.3g}; a group not above {self.count_floor:,} may be empty, "
            f"and is not scored.\n{held_out}"
        )


@lru_cache(maxsize=64)  # a search plans before its fit, in it, and on every fold of another
def plan_search(
    budget: Budget,
    *,
    mean_runs: float,
    distribution: str,
    count_share: float | None = None,
    labels_are_stated: bool = True,
    rows_per_person: int | None = None,
) -> SearchPlan:
    """Return the largest budget of a run with which the whole search keeps its own.

    Where groups are hidden, a share of μ² goes to their counts, which all records pay for: 0 where
    there is one group, None where groups are public.

    Of a person's k rows some are fitted on and the others held out, which of them being no function
    of what they hold. With a rows of k in a fit of μ, that costs the person aμ/k, and the others
    move each score by at most k − a times what a record moves it. So there are k + 1 cases, all of
    which keep the budget.
    """
    from dp_accounting import dp_event

    if distribution not in SHAPES:
        raise InputError(f"distribution must be one of {sorted(SHAPES)}, got {distribution!r}.")
    if not 1.0 <= float(mean_runs) <= 1e6:
        raise InputError(f"n_iter must be a number from 1 to 1e6, got {mean_runs!r}.")
    if budget.epsilon == math.inf:
        raise InputError("epsilon must be finite: without privacy use RandomizedSearchCV.")
    mean, shape = float(mean_runs), SHAPES[distribution]
    k, counts = rows_per_person or 1, None
    if count_share:
        counts = Release(COUNTS, "gaussian", k / (math.sqrt(count_share) * budget.mu), 1)

    def best_of(run: DpEvent) -> DpEvent:
        best = dp_event.RepeatAndSelectDpEvent(run, mean, shape)
        if counts is None:
            return best
        of_person = dp_event.GaussianDpEvent(counts.noise_multiplier / k)
        return dp_event.ComposedDpEvent([of_person, best])

    def event(mu: float, rate: float, n_fitted: int) -> DpEvent:
        of_fit = dp_event.GaussianDpEvent(k / (n_fitted * mu)) if n_fitted else None
        of_score = dp_event.LaplaceDpEvent(k / ((k - n_fitted) * rate)) if n_fitted < k else None
        paid = [one for one in (of_fit, of_score) if one is not None]
        return best_of(paid[0] if len(paid) == 1 else dp_event.ComposedDpEvent(paid))

    mu = _largest(lambda mu: event(mu, 1.0, k), budget, start=budget.mu)
    rate = _largest(lambda rate: event(1.0, rate, 0), budget, start=budget.epsilon)
    # divided rows cost less wherever we looked; a plan where they do not is refused below
    events = [event(mu, rate, a) for a in range(k, -1, -1)]
    hides_groups = count_share is not None
    *public, _ = HiddenGroups(1, labels_are_stated=labels_are_stated).public_facts
    guarantee = PrivacyGuarantee.from_events(
        events,
        budget,
        public=(*public, PUBLIC_FACTS[1]) if hides_groups else PUBLIC_FACTS,
        relation=Relation.REPLACE_ONE if hides_groups else Relation.REPLACE_ONE_WITHIN_GROUP,
    ).for_person(None if rows_per_person is None else 1)
    guarantee = replace(guarantee, records_per_person=k)  # whose events are a person's
    # a fit calibrates noise to (ε, δ): the one whose μ this is, rounded down
    run_epsilon = gdp_epsilon(budget.delta, mu) * (1.0 - 1e-9)
    return SearchPlan(
        mean, shape, run_epsilon, budget.delta, k / rate, guarantee, hides_groups, counts
    )


def _largest(event: Callable[[float], DpEvent], budget: Budget, *, start: float) -> float:
    """Return the largest ratio of signal to noise whose selection keeps the budget."""

    def excess(log_size: float) -> float:
        return epsilon_of(event(math.exp(log_size)), budget.delta) - budget.epsilon

    high = math.log(start)
    if excess(high) <= 0.0:
        return start
    low = high
    while excess(low) > 0.0:
        low -= 1.0
        if low < high - 30.0:
            raise InputError(
                f"epsilon={budget.epsilon!r} is too small for so many runs: lower n_iter."
            )
    root = brentq(excess, low, high, xtol=1e-7)
    size = math.exp(root - 1e-6)
    while epsilon_of(event(size), budget.delta) > budget.epsilon:
        size *= 1.0 - 1e-4
    return size


def count_runs(plan: SearchPlan, rng: np.random.Generator) -> int:
    """Draw the number of runs, at least 1, which must stay secret."""
    if plan.mean_runs == 1.0:
        return 1
    if plan.shape == 1.0:
        return int(rng.geometric(1.0 / plan.mean_runs))

    def mean_of(success: float) -> float:  # of the logarithmic distribution
        return -(1.0 - success) / (success * math.log(success))

    success = brentq(lambda g: mean_of(g) - plan.mean_runs, 1e-12, 1.0 - 1e-12)
    return int(rng.logseries(1.0 - success))


# --- who is held out, and the worst group's score -------------------------------------------------

# Scores become multiples of this, so that their sums are exact.
GRID = 2.0**-20


@dataclass(frozen=True)
class HeldOutSizes:
    """What stands for the numbers of held-out records in hidden groups, for all runs alike."""

    n_held_out: int
    divisors: FloatArray
    is_heard: NDArray[np.bool_]


def share_of_counts(estimator: Any) -> float | None:
    """Return the share of the budget that counts take, None where groups are public."""
    final = last_step(estimator)
    if getattr(final, "neighbours", None) != "replace-one":
        return None
    return 0.0 if final.group_labels is not None and len(final.group_labels) == 1 else COUNT_SHARE


def check_relation(final: Any, plan: SearchPlan, parameters: Mapping[str, Any]) -> None:
    """Refuse a candidate that protects something else than the search does."""
    if (final.neighbours == "replace-one") != plan.hides_groups:
        raise InputError(
            f"param_distributions must leave neighbours to the estimator, as the search protects "
            f"what it says, got {dict(parameters)!r}."
        )
    said = plan.guarantee.records_per_person if plan.guarantee.of_person else None
    if stated_rows(final.rows_per_person) != said:
        raise InputError(
            f"param_distributions must leave rows_per_person to the estimator, as the search "
            f"protects a person of so many rows, got {dict(parameters)!r}."
        )
    if final.overlap != "cells":
        raise InputError(
            "overlap of the estimator must be 'cells' in DPSearchCV, whose score is that of "
            f"disjoint groups, got {final.overlap!r}."
        )
    names = {name.rpartition("__")[2] for name in parameters}
    if plan.hides_groups and "group_labels" in names:
        raise InputError(
            f"param_distributions must leave group_labels to the estimator with "
            f"neighbours='replace-one', got {dict(parameters)!r}."
        )


def release_held_out_sizes(
    plan: SearchPlan, codes: Indices, n_groups: int, n_held_out: int, seed: int | None
) -> HeldOutSizes:
    """Release the counts of the groups among all records, and return their public share."""
    noise = NoiseSource(seed, [] if plan.counts is None else [plan.counts])
    counts = np.bincount(codes, minlength=n_groups).tolist()
    sizes = np.asarray(release_sizes(plan.counts, counts, noise), dtype=float)
    is_heard = sizes > (0 if plan.counts is None else plan.count_floor)
    return HeldOutSizes(n_held_out, sizes * (n_held_out / len(codes)), is_heard)


def worst_over_sizes(scores: FloatArray, codes: Indices) -> tuple[float, float]:
    """Return the worst group's score where groups are public, and how far a record moves it.

    A record moves its group's mean by at most one over the group's number of records, and the
    smallest of the means by no more.
    """
    sizes = np.bincount(codes)
    sums = np.bincount(codes, weights=np.rint(scores / GRID))
    worst = float((sums / (sizes / GRID)).min())  # rounded once, of exact sums
    return worst, float((1.0 + sizes.min() * 2.0**-50) / sizes.min())


def worst_over_counts(
    scores: FloatArray, codes: Indices, sizes: HeldOutSizes
) -> tuple[float, float]:
    """Return the worst group's score over what stands for sizes, and how far a record moves it.

    A record that stays in its group moves one mean by one over the divisor, and one that leaves it
    two by half of that at most, as scores count from the middle of their range; the smallest mean
    moves by no more. Groups that may be empty are left out; where all may, all records are one.
    """
    centred = np.rint(scores / GRID) - 0.5 / GRID
    if sizes.is_heard.any():
        sums = np.bincount(codes, weights=centred, minlength=len(sizes.divisors))[sizes.is_heard]
        divisors = sizes.divisors[sizes.is_heard]
    else:
        sums, divisors = centred.sum(keepdims=True), np.array([float(sizes.n_held_out)])
    worst = float((0.5 + sums / (divisors / GRID)).min())
    of_rounding = sizes.n_held_out * 2.0**-50
    return worst, float((1.0 + of_rounding) / divisors.min())


# --- candidates and their scores ------------------------------------------------------------------


def starts_of(search: Any) -> tuple[StartCost, ...]:
    """Return the private fits that candidates of a private search begin with; refuse drawn ones."""
    spaces = search.param_distributions
    for space in [spaces] if isinstance(spaces, Mapping) else spaces:
        for name, values in space.items():
            if name.rpartition("__")[2] == "start" and hasattr(values, "rvs"):
                raise InputError(
                    f"param_distributions must list the values of {name}, so that what they cost "
                    f"is known before, got {values!r}."
                )
    return tuple(costs_in(search.get_params()))


def check_releases(guarantee: PrivacyGuarantee, parameters: Mapping[str, Any]) -> None:
    """Refuse a candidate by name if its fit is not one Gaussian release of the run's budget."""
    if not all(is_gaussian(event) for event in guarantee.events):
        raise UnsupportedMechanismError(
            f"the candidate {dict(parameters)!r} has releases that are not all Gaussian, which a "
            f"private selection cannot account for tightly: leave it out."
        )


def record_scores(scoring: Scoring, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Return one score in [0, 1] a record, of which more is better; NaN counts 0."""
    if scoring == "accuracy":
        known = estimator.classes_
        return np.asarray(places(estimator.predict(X), known) == places(y, known), dtype=float)
    if scoring == "absolute_error":
        low, high = (float(bound) for bound in last_step(estimator).target_bounds)
        inside = np.clip(y.astype(np.float64), low, high)
        errors = np.abs(np.clip(estimator.predict(X), low, high) - inside)
        scores = np.asarray(1.0 - errors / (high - low))
    else:
        assert callable(scoring)
        scores = np.asarray(scoring(estimator, X, y), dtype=np.float64)
    if scores.shape != (len(y),):
        raise InputError(
            f"scoring must return one number a record, shape ({len(y)},), got shape "
            f"{scores.shape}: the search itself takes the mean of each group, and the worst."
        )
    return np.clip(np.nan_to_num(scores, nan=0.0), 0.0, 1.0)


def learn_nothing(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Give a model its form, so that what is wrong shows for free, and return its last step."""
    final = last_step(model)
    if final is not model and len(model.steps) > 1:
        X = model[:-1].fit_transform(X, y)
    final._learn_nothing(X, y, groups)
    return final


def fit_in_groups(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Fit a private model, or a pipeline that ends in one, and return that step."""
    if not isinstance(model, Pipeline):
        return model.fit(X, y, groups=groups)
    with config_context(enable_metadata_routing=False):
        model.fit(X, y, **{f"{model.steps[-1][0]}__groups": groups})
    return last_step(model)


@dataclass
class Runs:
    """The best run so far, and what was released, for the ledger alone."""

    draws: list[object] = field(default_factory=list)
    best: tuple[float, dict[str, Any], Any] = (-math.inf, {}, None)  # score, parameters, model


def noisy_score(
    scoring: Scoring,
    candidate: Any,
    plan: SearchPlan,
    seed: int | None,
    X: Any,
    y: NDArray[Any],
    codes: Indices,
    released: HeldOutSizes | None = None,
) -> float:
    """Return the noisy score of the worst group held out; what was released stands for sizes."""
    release = Release("score", "laplace", plan.score_multiplier, max_count=1)
    scores = record_scores(scoring, candidate, X, y)
    if released is None:
        worst, sensitivity = worst_over_sizes(scores, codes)
    else:
        worst, sensitivity = worst_over_counts(scores, codes, released)
    noise = NoiseSource(seed, [release])
    return float(noise.laplace(worst, sensitivity=sensitivity, release=release))


def last_step(estimator: Any) -> Any:
    """Return the model at the end of a pipeline, or what is none."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def final_step(estimator: Any) -> Any:
    """Return the private model at the end, and refuse what learns in front of it."""
    final = last_step(estimator)
    if final is not estimator:
        outside = [name for _, step in estimator.steps[:-1] for name in learning_steps(step)]
        if outside:
            raise InputError(
                f"estimator must be a pipeline whose steps learn nothing from the records but for "
                f"the last, got one with {outside[0]}."
            )
    if not isinstance(final, DPWorstGroupClassifier | DPWorstGroupRegressor):
        raise InputTypeError(
            f"estimator must be a private estimator of this package or a pipeline that ends in "
            f"one, got {type(final).__name__}."
        )
    return final


def switch_off_output(candidate: Any) -> None:
    """Switch off what a candidate prints and calls: how many runs there are is secret."""
    parameters = candidate.get_params()
    for each in (candidate, *parameters.values()):
        if hasattr(each, "set_callbacks"):
            each.set_callbacks()
    for name in parameters:
        if name.rpartition("__")[2] == "verbose":
            candidate.set_params(**{name: False})


def split(
    codes: Indices, labels: NDArray[np.object_] | None, test_size: Any, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Hold out a share of each group at random places; without labels of all, whatever is there."""
    is_number = isinstance(test_size, float | np.floating)
    if not is_number or not 0.0 < test_size < 1.0:
        raise InputError(f"test_size must be a share above 0 and below 1, got {test_size!r}.")
    if labels is None:
        parts = {"X": np.arange(len(codes))}
    else:
        found = enumerate(labels)
        parts = {f"group {label!r}": np.flatnonzero(codes == code) for code, label in found}
    train, held_out = [], []
    for name, members in parts.items():
        places, n_held_out = rng.permutation(members), math.ceil(test_size * len(members))
        if n_held_out == len(members):
            raise InputError(
                f"{name} must have records to fit on beside {n_held_out} held out, got "
                f"n_samples = {len(members)}."
            )
        held_out.append(places[:n_held_out])
        train.append(places[n_held_out:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(held_out))


def known_candidates(distributions: Any) -> list[dict[str, Any]]:
    """Return all candidates where they can be listed, to refuse one before anything is spent."""
    spaces = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    if any(hasattr(values, "rvs") for space in spaces for values in space.values()):
        return []
    grid = ParameterGrid(distributions)
    return list(grid) if len(grid) <= _MOST_CANDIDATES else []
