"""Private worst-group regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.estimators.base import DPWorstGroupEstimator
from sklearn_dpwg.estimators.elsewhere import ScoredByBlock, by_block
from sklearn_dpwg.estimators.encode import BoundedTargets, numeric_targets, refuse_classes
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss, make_loss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import Solver

# Value of the constant column behind rows of norm 1, as for classes.
INTERCEPT_SCALING = 0.5


class DPWorstGroupRegressor(ScoredByBlock, RegressorMixin, DPWorstGroupEstimator):
    """Linear regression for the worst-off group, with differential privacy.

    Minimises the largest mean loss of any group, over weights in a ball, such that replacing one
    record by another of the same group changes the probability of any outcome by little: the
    model is (ε, δ)-differentially private. Group membership is public.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε, positive. ``float("inf")`` gives the exact solution without privacy.
    delta : float, default=1e-6
        Privacy budget δ, between 0 and 1; should be far below one over the number of records.
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
    radius : float, default=12.0
        Radius of the ball of weights, for rows of norm at most 1 and mapped targets.
    data_norm : float, optional
        Public bound on the norm of a row of X: longer rows are shortened to it. Must not be
        read off the data. Left open it is 1, and a fit warns; where rows are scaled to that, say
        ``data_norm=1.0``.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    prior : {"proportional", "uniform"}, float or array-like, default="proportional"
        Public weights of the groups before any record is read: group proportions, equal weights,
        a mixture with a share of equal weights, or weights in the order of `group_labels_`.
        Proportional weights need the least noise.
    group_labels : sequence, optional
        All group labels. By default they are found in the groups, and the set of labels that occur
        is public. Setting them catches missing, misspelt and wrong groups, or takes these for the
        group "other" where that is one of them.
    group_by : column name or index, sequence of them, or callable, optional
        How to compute the groups from X where they cannot be passed to ``fit``: by name where X
        has column names, by index where it has none, or by a function of X, which must decide
        each row by that row alone.
    overlap : {"cells", "attributes", "both", "membership"}, default="cells"
        What several columns of groups mean: their intersections; each value of each column, as
        group ``(column, value)``, so that a record is in one group a column; these and the
        intersections of 36 records or more; or columns of True and False, each the members of a
        group, where a record may be in any number of groups. All solvers but "oco" and
        "online-to-batch" know groups that overlap, with ``neighbours="replace-one-within-group"``.
    random_state : int, RandomState or None, default=None
        None draws noise from a floating-point-safe sampler and the operating system's entropy.
        Anything else makes a fit repeatable, for tests: its guarantee is void for whoever knows
        it, holds the estimator, or sees two fits that share it (clones, folds, refits).
    verbose : int, default=0
        Anything but 0 prints the planned steps, and how many of them are done, while a fit runs.
        scikit-learn's callbacks do it in a notebook: ``set_callbacks(ProgressBar())``, from 1.9.
    rows_per_person : int, optional
        Public number k of rows that no person has more of, in all groups together, as
        `preprocessing.bound_rows_per_person` sees to. ε and δ are then those of a person: k rows at
        once, by group privacy of the exact profile. Left open, they are those of one row.
    start : estimator or pair of array-like, optional
        Weights to begin with in place of 0: a fitted linear model with ``coef_`` and
        ``intercept_``, or both as a pair, in the units of X and y; those outside the ball are
        projected to it. They must be public or released: a private model of this package is counted
        with this fit by `privacy_of` and by ledgers, the rest is the caller's word. `aim` of a
        solver is the distance from them. In a grid wrap models in ``FrozenEstimator``.
    neighbours : {"replace-one", "replace-one-within-group"}, default="replace-one"
        What the guarantee is for: one record replaced by any other, which protects who is in which
        group too: all that is learned of the groups' sizes are noisy counts, and "auto", "mgr",
        "moments" and "phased-erm" can learn. Or by another of its group, where who is in which
        group is public, and every solver can.
    sampling_price : float, optional
        How much the learner mistrusts small groups, whose records may differ from the people whom
        a model will meet: group weights λ pay so many nats times ``√(Σ λ_i²/n_i)``, in proportion
        for other losses. 0 is the game on the records themselves. Left open, it is planned: at
        most 1, and falling as 1/n from a thousand records of a group on. Not every solver knows it;
        one that does not refuses other numbers than 0.

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
    group_weights_ : ndarray of shape (n_groups,)
        Weights that the learner gave the groups; a private release, which not every solver makes.
    n_iter_ : int
        Steps taken; planned from public facts.
    plan_ : Plan
        What was released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee; ``print(model.privacy_)``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had them.

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
        radius: float = 12.0,
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
        sampling_price: float | None = None,
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
        self.sampling_price = sampling_price

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
