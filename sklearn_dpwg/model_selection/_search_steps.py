"""Steps of a private search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.estimators import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.ledger.learning_steps import learning_steps
from sklearn_dpwg.ledger.starts import StartCost, costs_in
from sklearn_dpwg.model_selection._hidden_groups import (
    HeldOutSizes,
    worst_over_counts,
    worst_over_sizes,
)
from sklearn_dpwg.model_selection.search_plan import SearchPlan
from sklearn_dpwg.privacy import NoiseSource, PrivacyGuarantee, Release, is_gaussian

Indices = NDArray[np.intp]
Scoring = Literal["accuracy", "absolute_error"] | Callable[[Any, Any, Any], Any]

_MOST_CANDIDATES = 1000


def check_unit(rows_per_person: int) -> None:
    """Refuse to search for persons with several rows."""
    if rows_per_person > 1:
        raise UnsupportedMechanismError(
            f"rows_per_person must be 1 in a private search, whose guarantee for several rows of a "
            f"person is unknown, got {rows_per_person}: search on one row of each person, as "
            f"preprocessing.bound_rows_per_person(..., k=1) keeps."
        )


def check_units(estimator: Any, distributions: Any) -> None:
    """Refuse a search that can be told to be for persons with several rows, before its fit."""
    final, name = estimator, "rows_per_person"
    if hasattr(estimator, "steps"):
        step, final = estimator.steps[-1]
        name = f"{step}__{name}"
    own = getattr(final, "rows_per_person", 1)
    spaces = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    for space in spaces:
        values = space.get(name, [own])
        for rows in [] if hasattr(values, "rvs") else values:
            if isinstance(rows, int | np.integer):  # whatever else it is, the fit says
                check_unit(int(rows))


def starts_of(search: Any) -> tuple[StartCost, ...]:
    """Return the private fits that candidates of a private search begin with; refuse drawn ones."""
    spaces = search.param_distributions
    for space in [spaces] if isinstance(spaces, Mapping) else spaces:
        for name, values in space.items():
            if name.rpartition("__")[2] == "start" and hasattr(values, "rvs"):
                raise ValueError(
                    f"param_distributions must list the values of {name}, so that what they cost "
                    f"is known before, got {values!r}."
                )
    return tuple(costs_in(search.get_params()))


def check_releases(guarantee: PrivacyGuarantee, parameters: Mapping[str, Any]) -> None:
    """Refuse a candidate by name if its fit is not one Gaussian release of the run's budget."""
    check_unit(guarantee.records_per_person)
    if not all(is_gaussian(event) for event in guarantee.events):
        raise UnsupportedMechanismError(
            f"the candidate {dict(parameters)!r} has releases that are not all Gaussian, which a "
            f"private selection cannot account for tightly: leave it out."
        )


def record_scores(scoring: Scoring, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Return one score in [0, 1] a record, of which more is better; NaN counts 0."""
    if scoring == "accuracy":
        return np.asarray(estimator.predict(X) == y, dtype=np.float64)
    if scoring == "absolute_error":
        model = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        low, high = (float(bound) for bound in model.target_bounds)
        errors = np.abs(np.clip(estimator.predict(X), low, high) - np.clip(y, low, high))
        scores = np.asarray(1.0 - errors / (high - low))
    else:
        assert callable(scoring)
        scores = np.asarray(scoring(estimator, X, y), dtype=np.float64)
    if scores.shape != (len(y),):
        raise ValueError(
            f"scoring must return one number a record, shape ({len(y)},), got shape "
            f"{scores.shape}: the search itself takes the mean of each group, and the worst."
        )
    return np.clip(np.nan_to_num(scores, nan=0.0), 0.0, 1.0)


def rehearse(
    scoring: Scoring,
    candidate: Any,
    fitted_on: tuple[Any, NDArray[Any], NDArray[np.object_]],
    scored_on: tuple[Any, NDArray[Any], Indices],
) -> None:
    """Go through a run with a model that learned nothing, so that what is wrong shows for free.

    Nothing is released but an error, which like every one about the input is outside the guarantee.
    """
    X, y, groups = fitted_on
    final = final_step(candidate)
    if final is not candidate and len(candidate.steps) > 1:
        X = candidate[:-1].fit_transform(X, y)
    final._learn_nothing(X, y, groups)
    record_scores(scoring, candidate, scored_on[0], scored_on[1])


class Runs:
    """The best run so far, and what was released, for the ledger alone."""

    def __init__(self) -> None:
        self.draws: list[object] = []
        self._best: tuple[float, dict[str, Any], Any] | None = None

    def keep(self, score: float, parameters: dict[str, Any], candidate: Any) -> None:
        """Keep a run if it is the best."""
        if self._best is None or score > self._best[0]:
            self._best = (score, parameters, candidate)

    @property
    def best(self) -> tuple[float, dict[str, Any], Any]:
        """Score, parameters and model of the best run."""
        assert self._best is not None
        return self._best


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
    """Return the score of the worst group of held-out records, with noise.

    A record moves its group's mean by at most one over the group's number of records, and the
    smallest of the means by no more. Where groups are hidden, what was released stands for numbers.
    """
    release = Release("score", "laplace", plan.score_multiplier, max_count=1)
    scores = record_scores(scoring, candidate, X, y)
    if released is None:
        worst, sensitivity = worst_over_sizes(scores, codes)
    else:
        worst, sensitivity = worst_over_counts(scores, codes, released)
    noise = NoiseSource(seed, [release])
    return float(noise.laplace(worst, sensitivity=sensitivity, release=release))


def final_step(estimator: Any) -> Any:
    """Return the private model at the end, and refuse what learns in front of it."""
    final = estimator
    if hasattr(estimator, "steps"):
        final = estimator.steps[-1][1]
        outside = [name for _, step in estimator.steps[:-1] for name in learning_steps(step)]
        if outside:
            raise ValueError(
                f"estimator must be a pipeline whose steps learn nothing from the records but for "
                f"the last, got one with {outside[0]}."
            )
    if not isinstance(final, DPWorstGroupClassifier | DPWorstGroupRegressor):
        raise TypeError(
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


def check_share(test_size: Any) -> None:
    """Refuse what is no share to hold out."""
    is_number = isinstance(test_size, float | np.floating)
    if not is_number or not 0.0 < test_size < 1.0:
        raise ValueError(f"test_size must be a share above 0 and below 1, got {test_size!r}.")


def split(
    codes: Indices, labels: NDArray[np.object_], test_size: Any, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Hold out a share of each group, at random positions."""
    train, held_out = [], []
    for code, label in enumerate(labels):
        members = rng.permutation(np.flatnonzero(codes == code))
        n_held_out = math.ceil(test_size * len(members))
        if n_held_out == len(members):
            raise ValueError(
                f"group {label!r} has {len(members)} record(s), too few to hold out {n_held_out}."
            )
        held_out.append(members[:n_held_out])
        train.append(members[n_held_out:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(held_out))


def known_candidates(distributions: Any) -> list[dict[str, Any]]:
    """Return all candidates where they can be listed, to refuse one before anything is spent."""
    spaces = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    if any(hasattr(values, "rvs") for space in spaces for values in space.values()):
        return []
    grid = ParameterGrid(distributions)
    return list(grid) if len(grid) <= _MOST_CANDIDATES else []
