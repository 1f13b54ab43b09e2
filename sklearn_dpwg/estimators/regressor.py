"""Private worst-group regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import documented
from sklearn_dpwg.estimators.base import SHARED_PARAMETERS, DPWorstGroupEstimator
from sklearn_dpwg.estimators.elsewhere import ScoredByBlock, by_block
from sklearn_dpwg.estimators.encode import BoundedTargets, numeric_targets, refuse_classes
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.losses.registry import make_loss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import Solver

# Value of the constant column behind rows of norm 1, as for classes.
INTERCEPT_SCALING = 0.5


@documented(SHARED_PARAMETERS)
class DPWorstGroupRegressor(ScoredByBlock, RegressorMixin, DPWorstGroupEstimator):
    """Linear regression for the worst-off group, with differential privacy.

    Minimises the largest mean loss of any group, over weights in a ball, such that replacing one
    record by another of the same group changes the probability of any outcome by little: the
    model is (ε, δ)-differentially private. Group membership is public.

    Parameters
    ----------
    <epsilon, delta>
    solver : str or Solver, default="auto"
        "auto", which chooses "mgr" or, for the squared error, "moments" by public facts; one of
        these, "phased-erm", "oco", "exact", or, for comparison, "ags", "gda",
        "online-to-batch"; or an instance such as ``MGR(n_steps=100)``, whose parameters nest as
        ``solver__n_steps``.
    loss : str or Loss, default="squared_error"
        Loss of one record, in units of the mapped targets: "squared_error" (half of it), "huber"
        (linear from 0.25 on), "absolute_error", "quantile" (the median); or an instance such as
        ``Quantile(level=0.9)`` or ``Huber(threshold=0.1)`` of `sklearn_dpwg.losses`, whose
        parameters nest as ``loss__level``. MGR takes shorter steps with the last two names, which
        are not smooth, and gets less far: "huber" had the smaller absolute error too.
    target_bounds : tuple of float, optional
        Public bounds on y, as ``(0, 150_000)`` of a yearly wage: targets outside are moved to the
        nearer bound. For training they are mapped to [-1, 1], and losses are those of the mapped
        targets. Must be said at a finite `epsilon`, and not read off the data. Left open without
        privacy, they are the range of y.
    radius : float, optional
        Radius of the ball of weights, for rows of norm at most 1 and mapped targets. Planned: 200,
        which binds nowhere that data can tell; 12 for what a paper scales its noise or steps by,
        and 2,000 without privacy.
    <data_norm, fit_intercept, prior>
    <group_labels to start>
    <neighbours, optimism_correction>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights in the units of X and y; a private release.
    intercept_ : float
        Intercept in the units of y; a private release.
    group_labels_ : ndarray of shape (n_groups,)
        Group labels.
    group_sizes_ : ndarray of shape (n_groups,)
        Noisy counts of the groups, a private release, brought to the number of records; with
        ``neighbours="replace-one-within-group"`` their public sizes.
    count_std_ : float
        Standard deviation of the noise on a count of `group_sizes_`; 0 where they are public.
    <group_weights_ to feature_names_in_>

    See Also
    --------
    DPWorstGroupClassifier : The same for classes.

    References
    ----------
    X. Zhou and R. Bassily (2024), Differentially Private Worst-group Risk Minimization, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> groups = rng.choice(["a", "b"], size=5000)
    >>> y = X[:, 0] + np.where(groups == "a", 0.3, -0.3) * X[:, 1]
    >>> model = DPWorstGroupRegressor(data_norm=np.sqrt(2), target_bounds=(-1.3, 1.3))
    >>> model = model.fit(X, y, groups=groups)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    _intercept_scaling = INTERCEPT_SCALING

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        solver: str | Solver = "auto",
        loss: str | Loss = "squared_error",
        target_bounds: tuple[float, float] | None = None,
        radius: float | None = None,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        prior: Any = "proportional",
        group_labels: Sequence[Any] | None = None,
        group_by: Any = None,
        overlap: Literal["cells", "attributes", "both", "membership"] = "cells",
        random_state: Any = None,
        verbose: int = 0,
        rows_per_person: int | None = None,
        start: Any = None,
        neighbours: Literal["replace-one", "replace-one-within-group"] = "replace-one",
        optimism_correction: float = 1.0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.loss = loss
        self.target_bounds = target_bounds
        self.radius = radius
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.group_labels = group_labels
        self.group_by = group_by
        self.overlap = overlap
        self.random_state = random_state
        self.verbose = verbose
        self.rows_per_person = rows_per_person
        self.start = start
        self.neighbours = neighbours
        self.optimism_correction = optimism_correction

    @by_block
    def predict(self, X: Any) -> FloatArray:
        """Return predictions ``X @ coef_ + intercept_``; no row is shortened.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features), or Source
            Rows. Of a collection of dask the answer is one, computed when asked for.

        Returns
        -------
        ndarray of shape (n_records,)
            Predictions in the units of y.
        """
        check_is_fitted(self, "plan_")
        return self._linear(X, self.coef_[None, :])[:, 0] + self.intercept_

    def _check_parameters(self) -> Budget:
        if self.target_bounds is None:
            budget = super()._check_parameters()
            if budget.epsilon != math.inf:
                raise InputError(
                    "target_bounds must be said at a finite epsilon, as (low, high), a public "
                    "range of y such as target_bounds=(0, 150_000) for yearly wages, got None."
                )
            return budget
        try:
            low, high = (float(bound) for bound in self.target_bounds)
        except (TypeError, ValueError):
            low = high = math.nan
        if not (-math.inf < low < high < math.inf and high / 2.0 - low / 2.0 > 0.0):
            raise InputError(
                f"target_bounds must be two finite numbers, the lower one first, got "
                f"{self.target_bounds!r}."
            )
        return super()._check_parameters()

    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> BoundedTargets:
        refuse_classes(classes)
        bounds = _range(y) if self.target_bounds is None else self.target_bounds
        low, high = (float(bound) for bound in bounds)
        return BoundedTargets(low, high, make_loss(self.loss, kind="regressor"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # with the few records of a common test, noise drowns the signal
        tags.regressor_tags.poor_score = self.epsilon != float("inf")
        return tags


def _range(y: NDArray[Any] | None) -> tuple[float, float]:
    """Return bounds that move no target, for a fit without privacy alone."""
    if y is None:  # a plan without releases is the same whatever the bounds
        return -1.0, 1.0
    numbers = numeric_targets(y)
    low, high = float(numbers.min()), float(numbers.max())
    if high / 2.0 - low / 2.0 > 0.0:
        return low, high
    room = max(1.0, abs(low) / 2.0)
    return low - room, high + room
