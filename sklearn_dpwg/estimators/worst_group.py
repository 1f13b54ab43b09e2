"""The public worst-group estimators: their parameters, targets and predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import documented
from sklearn_dpwg.estimators.encode import (
    BoundedTargets,
    ClassTargets,
    find_classes,
    numeric_targets,
    refuse_classes,
)
from sklearn_dpwg.estimators.private import LinearClassifier, ScoredByBlock, by_block, only_if
from sklearn_dpwg.estimators.stream import StreamingEstimator
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.losses.registry import make_loss
from sklearn_dpwg.privacy import Budget

# Value of the constant column behind rows of norm 1. Smaller means less noise on all weights and a
# slower intercept.
INTERCEPT_SCALING, INTERCEPT_SCALING_OF_NUMBERS = 0.35, 0.5

# What both estimators document alike, by the names of the parameters.
_SHARED = {
    "the task": """\
    Minimises the largest mean loss of any group, over weights in a ball, such that replacing one
    record, as `neighbours` says, changes the probability of any outcome by little: the model is
    (ε, δ)-differentially private.
""",
    "epsilon, delta": """\
    epsilon : float, default=1.0
        Privacy budget ε, positive. ``float("inf")`` gives the exact solution without privacy.
    delta : float, default=1e-6
        Privacy budget δ, between 0 and 1; should be far below one over the number of records.
""",
    "data_norm to neighbours": """\
    data_norm : float, optional
        Public bound on the norm of a row of X: longer rows are shortened to it. Must not be
        read off the data. Left open it is 1, and a fit warns; where rows are scaled to that, say
        ``data_norm=1.0``.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    prior : {"proportional", "uniform"}, float or array-like, default="proportional"
        Public weights of the groups before any record is read: group proportions, equal weights,
        a mixture with a fraction of equal weights, or weights in the order of `group_labels_`.
        Proportional weights need the least noise.
    group_labels : sequence, optional
        All group labels. By default they are found in the groups, and the set of labels that occur,
        as they are written, is public. Setting them catches missing, misspelt and wrong groups, or
        takes these for the group "other" where that is one of them.
    group_by : column name or index, sequence of them, or callable, optional
        How to find the groups in the X that reaches the model: columns, by name where X has names
        and else by index, which are taken out of X before anything is learned, and may be there or
        not in prediction (give a column twice to learn from it too); or a function of X, which
        must decide each row by that row alone and takes nothing out.
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
    rows_per_person : int, optional
        Public number k of rows that no person has more of, in all groups together, as
        `preprocessing.bound_rows_per_person` sees to. ε and δ are then those of a person: k rows at
        once, by group privacy of the exact profile. Left open, they are those of one row.
    neighbours : {"replace-one", "replace-one-within-group"}, default="replace-one"
        What the guarantee is for: one record replaced by any other, which protects who is in which
        group too: all that is learned of the groups' sizes are noisy counts, and "auto", "mgr",
        "moments", "oco", "online-to-batch" and "phased-erm" can learn. Or by another of its group,
        where who is in which group is public, and every solver can.
""",
    "group_labels_ to feature_names_in_": """\
    group_labels_ : ndarray of shape (n_groups,)
        Group labels.
    group_sizes_ : ndarray of shape (n_groups,)
        Noisy counts of the groups, a private release, brought to the number of records; with
        ``neighbours="replace-one-within-group"`` their public sizes.
    count_std_ : float
        Standard deviation of the noise on a count of `group_sizes_`; 0 where they are public.
    group_weights_ : ndarray of shape (n_groups,)
        Weights that the learner gave the groups; a private release, which not every solver makes.
    group_gain_ : float or None
        How much weighting groups gains for the worst-off group among new people, in units of the
        loss, as the released numbers tell; None where the solver has no such number.
    group_gain_std_ : float or None
        Standard error of that.
    n_iter_ : int
        Steps taken; planned from public facts.
    plan_ : Plan
        What was released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee; ``print(model.privacy_)``.
    n_features_in_ : int
        Number of features, without columns that `group_by` names.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these features, where X had names.
""",
}


def _has_probabilities(estimator: DPWorstGroupClassifier) -> bool:
    # a fitted model keeps the loss that it was fitted with
    loss = estimator.plan_.problem.loss if hasattr(estimator, "plan_") else estimator.loss
    if loss != "log_loss" and not hasattr(loss, "probabilities"):
        raise AttributeError(
            f"loss {getattr(loss, 'name', loss)!r} gives scores but no probabilities: use "
            "loss='log_loss' for predict_proba, or decision_function."
        )
    return True


@documented(_SHARED)
@dataclass(eq=False, repr=False, kw_only=True)
class DPWorstGroupClassifier(ScoredByBlock, LinearClassifier, StreamingEstimator):
    """Linear classifier for the worst-off group, with differential privacy.

    <the task>

    Parameters
    ----------
    <epsilon, delta>
    solver : str or Solver, default="auto"
        "auto", which chooses "mgr"; "mgr", "phased-erm", "oco", "exact", or, for comparison, "ags",
        "gda", "online-to-batch"; or an instance such as ``MGR(n_steps=100)``,
        whose parameters nest as ``solver__n_steps``.
    loss : str or Loss, default="log_loss"
        Loss of one record: "log_loss" for two or more classes; "hinge", "smoothed_hinge" or
        "squared_hinge" for two; or an instance such as ``SmoothedHinge(width=0.1)`` of
        `sklearn_dpwg.losses`, whose parameters nest as ``loss__width``.
        Probabilities come with the log loss only.
    radius : float, optional
        Radius of the ball of weights, for rows of norm at most 1. Planned: 1,000, which binds
        nowhere that data can tell; 60 for what a paper scales its noise or steps by, and 10,000
        without privacy.
    <data_norm to neighbours>
    classes : sequence, optional
        All classes; found in y by default, and public either way. They may be more than y holds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights in the units of X; a private release.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; a private release.
    <group_labels_ to feature_names_in_>

    Notes
    -----
    `predict` takes the class with the largest probability, as scikit-learn does: where one record
    in twenty is positive, hardly any is chosen. There is no ``class_weight``: a record that counts
    twenty times needs twenty times the noise, and a threshold that is public needs none, as in
    scikit-learn's ``FixedThresholdClassifier(FrozenEstimator(model), threshold=0.05)``;
    `postprocessing.DPThresholdClassifier` pays for one that fits the records.

    References
    ----------
    X. Zhou and R. Bassily (2024), Differentially Private Worst-group Risk Minimization, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> groups = rng.choice(["a", "b"], size=2000)
    >>> y = X[:, 0] + np.where(groups == "a", 0.3, -0.3) * X[:, 1] > 0
    >>> model = DPWorstGroupClassifier(epsilon=1.0, data_norm=np.sqrt(2))
    >>> model = model.fit(X, y, groups=groups)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    loss: str | Loss = "log_loss"
    classes: Sequence[Any] | None = None

    _intercept_scaling = INTERCEPT_SCALING
    _is_classifier = True

    decision_function = by_block(LinearClassifier.decision_function)
    predict = by_block(LinearClassifier.predict)

    @only_if(_has_probabilities)
    @by_block
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, with a loss that knows it."""
        scores = self.decision_function(X)
        loss: Any = self.plan_.problem.loss
        with np.errstate(all="ignore"):  # scores that overflow are told by the probabilities alone
            return np.asarray(loss.probabilities(scores))

    predict_log_proba = only_if(_has_probabilities)(by_block(LinearClassifier.predict_log_proba))

    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> ClassTargets:
        known = find_classes(y, classes if self.classes is None else self.classes)
        return ClassTargets(known, make_loss(self.loss, kind="classifier", n_classes=len(known)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_of_many = getattr(self.loss, "task", "") == "multiclass"
        tags.classifier_tags.multi_class = self.loss == "log_loss" or is_of_many
        return tags


@documented(_SHARED)
@dataclass(eq=False, repr=False, kw_only=True)
class DPWorstGroupRegressor(ScoredByBlock, RegressorMixin, StreamingEstimator):
    """Linear regression for the worst-off group, with differential privacy.

    <the task>

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
    radius : float, optional
        Radius of the ball of weights, for rows of norm at most 1 and mapped targets. Planned: 200,
        which binds nowhere that data can tell; 12 for what a paper scales its noise or steps by,
        and 2,000 without privacy.
    <data_norm to neighbours>
    target_bounds : tuple of float, optional
        Public bounds on y, as ``(0, 150_000)`` of a yearly wage: targets outside are moved to the
        nearer bound. For training they are mapped to [-1, 1], and losses are those of the mapped
        targets. Must be said at a finite `epsilon`, and not read off the data. Left open without
        privacy, they are the range of y.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights in the units of X and y; a private release.
    intercept_ : float
        Intercept in the units of y; a private release.
    <group_labels_ to feature_names_in_>

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

    loss: str | Loss = "squared_error"
    target_bounds: tuple[float, float] | None = None

    _intercept_scaling = INTERCEPT_SCALING_OF_NUMBERS
    _is_classifier = False

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
        budget = super()._check_parameters()
        if self.target_bounds is None:
            if budget.epsilon == math.inf:
                return budget
            raise InputError(
                "target_bounds must be said at a finite epsilon, as (low, high), a public "
                "range of y such as target_bounds=(0, 150_000) for yearly wages, got None."
            )
        try:
            low, high = map(float, self.target_bounds)
        except (TypeError, ValueError):
            low = high = math.nan
        if not (-math.inf < low < high < math.inf and high / 2.0 - low / 2.0 > 0.0):
            raise InputError(
                f"target_bounds must be two finite numbers, the lower one first, got "
                f"{self.target_bounds!r}."
            )
        return budget

    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> BoundedTargets:
        refuse_classes(classes)
        bounds = _range(y) if self.target_bounds is None else self.target_bounds
        low, high = map(float, bounds)
        return BoundedTargets(low, high, make_loss(self.loss, kind="regressor"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # with the few records of a common test, noise drowns the signal
        tags.regressor_tags.poor_score = self.epsilon != float("inf")
        return tags


def _range(y: Any) -> tuple[float, float]:
    """Return smallest and largest y, widened if equal: bounds for a fit without privacy."""
    numbers = numeric_targets(y)
    low, high = float(numbers.min()), float(numbers.max())
    if high / 2.0 - low / 2.0 > 0.0:
        return low, high
    margin = max(1.0, abs(low) / 2.0)
    return low - margin, high + margin
