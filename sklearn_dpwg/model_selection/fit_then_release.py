"""Base of private searches, thresholds and calibration: fit a private model, then release more.

One budget pays for both: the model, and a statistic of its predictions for the same records. For a
search that is the noisy score of the worst group, below; for the others a histogram.
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
        """Return X without the columns of groups, y, and the groups, all of one length."""
        _, y, groups = same_rows(X=X, y=y, groups=groups)
        return without_groups(X, self.group_by, model), y, find_groups(X, groups, self.group_by)

    def _private_step(self, estimator: Any) -> Any:
        """Return the private model, the last step of a pipeline; refuse steps that learn before it.

        No guarantee would cover what earlier steps learn.
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
    """Return the last step of a pipeline, or an estimator that is no pipeline as it is."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def learn_nothing(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Set the fitted attributes with weights of 0, to raise errors for free; return the model."""
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
    """Return positions to fit on, and to hold out: a random fraction of each labelled group."""
    fraction = open_unit(test_size, "test_size")
    parts = {"X": np.arange(len(codes))}
    if labels is not None:
        pairs = enumerate(labels)
        parts = {f"group {label!r}": np.flatnonzero(codes == code) for code, label in pairs}
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
    """Return noisy numbers of held-out records of each hidden group, (n_groups,).

    These are the released counts times the fraction held out; every run divides by them. A count up
    to the floor, of a group that may be empty, becomes 0. One group alone needs no count.
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
    """Return the smallest mean score of a group, and its sensitivity to one replaced record.

    Scores are in [0, 1], so a record moves the mean of a public group by at most 1 / group size.
    Hidden groups have released `sizes`, and scores count from 1/2: a record that stays moves one
    mean by 1 / size, one that changes its group two means by half of that. Groups of size 0 are
    left out; if all have size 0, all records are one group.
    """
    middle = 0.0 if sizes is None else 0.5
    centred = np.rint(scores / GRID) - middle / GRID
    if sizes is None:
        divisors = np.bincount(codes).astype(np.float64)
        # the sensitivity grows by 2^-50 for each record, for rounding
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
    """Return the score of each record, (n_records,), in [0, 1]; more is better, NaN counts 0."""
    if scoring is not None:
        scores = np.asarray(scoring(estimator, X, y), dtype=np.float64)
    elif hasattr(last_step(estimator), "target_bounds"):
        low, high = (float(bound) for bound in last_step(estimator).target_bounds)
        clipped = np.clip(y.astype(np.float64), low, high)
        errors = np.abs(np.clip(estimator.predict(X), low, high) - clipped)
        scores = np.asarray(1.0 - errors / (high - low))
    else:
        classes = estimator.classes_
        is_right = places(estimator.predict(X), classes) == places(y, classes)
        scores = is_right.astype(np.float64)
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
    """Return the worst group's score with Laplace noise of `multiplier` times its sensitivity."""
    X, y, codes = held_out
    release = Release("score", "laplace", multiplier, max_count=1)
    worst, sensitivity = worst_score(record_scores(scoring, candidate, X, y), codes, sizes)
    noise = NoiseSource(seed, [release])
    return float(noise.laplace(worst, sensitivity=sensitivity, release=release))
