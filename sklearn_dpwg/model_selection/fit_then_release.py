"""Fit, then release: the way that a private search, thresholds and calibration share.

A joint budget is planned from public facts, a private model is fitted inside of it, what it does to
the same records is released, and what is kept states the guarantee of all that. A search releases
the noisy score of each run's worst group, as below; thresholds and calibration a histogram.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from sklearn_dpwg._checks import FloatArray, open_unit, without_weights
from sklearn_dpwg.data.frames import PlainlyStored, places, same_rows
from sklearn_dpwg.data.groups import find_groups, without_groups
from sklearn_dpwg.estimators import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.estimators.private import unchanged_on_failure
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.ledger.costs import learning_steps
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.solvers.counts import release_sizes

Indices = NDArray[np.intp]
Scoring = Callable[[Any, Any, Any], Any]


class FitThenRelease(PlainlyStored, MetaEstimatorMixin, BaseEstimator):
    """Base of what fits a private model and releases more of its records; not for direct use."""

    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    _fitted_name: ClassVar[str]  # of the attribute that holds the fitted model

    estimator: Any
    group_by: Any

    @abstractmethod
    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        """Plan, fit, release and keep."""

    @without_weights
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit private models, release what the class says, and keep what is paid for.

        An error after the first release carries a note that the budget is spent.

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
            The fitted estimator.
        """
        with unchanged_on_failure(self):
            self._fit(X, y, groups)
        return self

    def _records(self, X: Any, y: Any, groups: Any, model: Any = None) -> tuple[Any, Any, Any]:
        """Return rows without the columns of groups, targets and groups, of the same records."""
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        return without_groups(X, self.group_by, model), y, find_groups(X, groups, self.group_by)

    def _private_step(self, estimator: Any) -> Any:
        """Return the private model at the end of a pipeline, or refuse what does not fit in here.

        What learns in front of it would be in no guarantee.
        """
        final, name = last_step(estimator), type(self).__name__
        if not isinstance(final, DPWorstGroupClassifier | DPWorstGroupRegressor):
            raise InputTypeError(
                f"estimator must be a private estimator of this package or a pipeline that ends "
                f"in one, got {type(final).__name__}; thresholds and calibration take a fitted "
                f"classifier in a FrozenEstimator too."
            )
        steps = estimator.steps[:-1] if final is not estimator else ()
        for outside in (each for _, step in steps for each in learning_steps(step)):
            raise InputError(
                f"estimator must be a pipeline whose steps learn nothing from the records but for "
                f"the last, got one with {outside}."
            )
        if final.group_by is not None:
            raise InputError(
                f"group_by of the estimator must be None: set that of {name}, got "
                f"{final.group_by!r}."
            )
        if final.overlap != "cells":
            raise InputError(
                f"overlap of the estimator must be 'cells' in {name}, which is about disjoint "
                f"groups, got {final.overlap!r}."
            )
        return final

    @property
    def _model(self) -> Any:
        """The fitted model, or the one to be fitted."""
        return getattr(self, self._fitted_name, self.estimator)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, without those that `group_by` names."""
        return int(getattr(self, self._fitted_name).n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of X, where it had names."""
        return np.asarray(getattr(self, self._fitted_name).feature_names_in_)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags


def last_step(estimator: Any) -> Any:
    """Return the model at the end of a pipeline, or what is none."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


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


# --- the release of a search: who is held out, and the worst group's score ------------------------

# Scores become multiples of this, so that their sums are exact.
GRID = 2.0**-20


def split(
    codes: Indices, labels: NDArray[np.object_] | None, test_size: Any, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Hold out a fraction of each group at random places; without labels, of all records."""
    fraction = open_unit(test_size, "test_size")
    parts = {"X": np.arange(len(codes))}
    if labels is not None:
        each = enumerate(labels)
        parts = {f"group {label!r}": np.flatnonzero(codes == code) for code, label in each}
    train, held_out = [], []
    for name, members in parts.items():
        shuffled, n_held_out = rng.permutation(members), math.ceil(fraction * len(members))
        if n_held_out == len(members):
            raise InputError(
                f"{name} must have records to fit on beside {n_held_out} held out, got "
                f"n_samples = {len(members)}."
            )
        held_out.append(shuffled[:n_held_out])
        train.append(shuffled[n_held_out:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(held_out))


def release_held_out_sizes(
    plan: Any, codes: Indices, n_groups: int, n_held_out: int, seed: int | None
) -> FloatArray:
    """Release the counts of hidden groups, and return the public fraction of each that is held out.

    It stands for sizes in all runs alike. A group with a count not above the floor may be empty,
    and has 0; one that has all records has no count.
    """
    release = plan.counts
    noise = NoiseSource(seed, [] if release is None else [release])
    counts = np.bincount(codes, minlength=n_groups).tolist()
    sizes = np.asarray(release_sizes(release, counts, noise), dtype=float)
    is_active = sizes > (0 if release is None else plan.count_floor)
    return np.where(is_active, sizes * (n_held_out / len(codes)), 0.0)


def worst_score(
    scores: FloatArray, codes: Indices, sizes: FloatArray | None = None
) -> tuple[float, float]:
    """Return the worst group's score, and how far one record moves it.

    Where groups are public a record moves its group's mean by at most one over the group's size.
    Where what was released stands for sizes, one that stays in its group moves one mean by one over
    the divisor, and one that leaves it two by half of that at most, as scores count from the middle
    of their range. The smallest mean moves by no more. Groups that may be empty are left out; where
    all may, all records are one.
    """
    middle = 0.0 if sizes is None else 0.5
    centred = np.rint(scores / GRID) - middle / GRID
    if sizes is None:
        divisors = np.bincount(codes).astype(np.float64)
        sums, n_rounded = np.bincount(codes, weights=centred), divisors.min()
    else:
        divisors, sums = np.array([float(len(scores))]), centred.sum(keepdims=True)
        n_rounded, is_active = divisors[0], sizes > 0.0
        if is_active.any():
            sums = np.bincount(codes, weights=centred, minlength=len(sizes))[is_active]
            divisors = sizes[is_active]
    worst = float((middle + sums / (divisors / GRID)).min())  # rounded once, of exact sums
    return worst, float((1.0 + n_rounded * 2.0**-50) / divisors.min())


def record_scores(scoring: Scoring | None, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Return one score in [0, 1] a record, of which more is better; NaN counts 0."""
    if scoring is not None:
        scores = np.asarray(scoring(estimator, X, y), dtype=np.float64)
    elif hasattr(last_step(estimator), "target_bounds"):
        low, high = (float(bound) for bound in last_step(estimator).target_bounds)
        inside = np.clip(y.astype(np.float64), low, high)
        errors = np.abs(np.clip(estimator.predict(X), low, high) - inside)
        scores = np.asarray(1.0 - errors / (high - low))
    else:
        known = estimator.classes_
        scores = (places(estimator.predict(X), known) == places(y, known)).astype(np.float64)
    if scores.shape != (len(y),):
        raise InputError(
            f"scoring must return one number a record, shape ({len(y)},), got shape {scores.shape}."
        )
    return np.clip(np.nan_to_num(scores, nan=0.0), 0.0, 1.0)


def noisy_score(
    scoring: Scoring | None,
    candidate: Any,
    multiplier: float,
    seed: int | None,
    held_out: tuple[Any, NDArray[Any], Indices],
    sizes: FloatArray | None = None,
) -> float:
    """Return the noisy score of the worst group held out; what was released stands for sizes."""
    X, y, codes = held_out
    release = Release("score", "laplace", multiplier, max_count=1)
    worst, sensitivity = worst_score(record_scores(scoring, candidate, X, y), codes, sizes)
    noise = NoiseSource(seed, [release])
    return float(noise.laplace(worst, sensitivity=sensitivity, release=release))
