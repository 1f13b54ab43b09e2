"""Private worst-group classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import documented
from sklearn_dpwg.estimators.base import SHARED_PARAMETERS, DPWorstGroupEstimator
from sklearn_dpwg.estimators.elsewhere import LinearClassifier, ScoredByBlock, by_block
from sklearn_dpwg.estimators.encode import ClassTargets, find_classes
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.losses.registry import LOSSES, make_loss
from sklearn_dpwg.solvers import Solver

# Value of the constant column behind rows of norm 1. Smaller means less noise on all weights and a
# slower intercept.
INTERCEPT_SCALING = 0.35


def _known(loss: Any) -> list[Any]:
    """Return the losses, or classes of losses, that a parameter may stand for."""
    return [loss] if isinstance(loss, Loss) else [each for each in LOSSES if each.name == loss]


def _has_probabilities(estimator: DPWorstGroupClassifier) -> bool:
    # a fitted model keeps the loss that it was fitted with
    loss = estimator.plan_.problem.loss if hasattr(estimator, "plan_") else estimator.loss
    if not any(hasattr(each, "probabilities") for each in _known(loss)):
        name = loss.name if isinstance(loss, Loss) else loss
        raise AttributeError(
            f"loss {name!r} gives scores but no probabilities: use loss='log_loss' for "
            f"predict_proba, or decision_function."
        )
    return True


# scikit-learn's decorator has no types, and what it is put on would lose its own
Probabilities = Callable[[Any, Any], FloatArray]
_if_probable: Callable[[Probabilities], Probabilities] = available_if(_has_probabilities)


@documented(SHARED_PARAMETERS)
class DPWorstGroupClassifier(ScoredByBlock, LinearClassifier, DPWorstGroupEstimator):
    """Linear classifier for the worst-off group, with differential privacy.

    Minimises the largest mean loss of any group, over weights in a ball, such that replacing one
    record by another of the same group changes the probability of any outcome by little: the
    model is (ε, δ)-differentially private. Group membership is public.

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
    <data_norm, fit_intercept, prior>
    classes : sequence, optional
        All classes; found in y by default, and public either way. They may be more than y holds.
    <group_labels to start>
    <neighbours, optimism_correction>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights in the units of X; a private release.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; a private release.
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
    DPWorstGroupRegressor : The same for numeric targets.

    Notes
    -----
    `predict` takes the class with the largest probability, as scikit-learn does: where one record
    in twenty is positive, hardly any is chosen. A threshold that is public costs nothing, as in
    scikit-learn's ``FixedThresholdClassifier(FrozenEstimator(model), threshold=0.05)``;
    `postprocessing.DPThresholdClassifier` pays for one that fits the records, or chooses a stated
    share, and says which share is chosen before and after. There is no ``class_weight``: a record
    that counts twenty times needs twenty times the noise, and moving the threshold needs none.

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

    _intercept_scaling = INTERCEPT_SCALING

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        solver: str | Solver = "auto",
        loss: str | Loss = "log_loss",
        radius: float | None = None,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        prior: Any = "proportional",
        classes: Sequence[Any] | None = None,
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
        self.radius = radius
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.classes = classes
        self.group_labels = group_labels
        self.group_by = group_by
        self.overlap = overlap
        self.random_state = random_state
        self.verbose = verbose
        self.rows_per_person = rows_per_person
        self.start = start
        self.neighbours = neighbours
        self.optimism_correction = optimism_correction

    decision_function = by_block(LinearClassifier.decision_function)
    predict = by_block(LinearClassifier.predict)

    @_if_probable
    @by_block
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, with a loss that knows it."""
        scores = self.decision_function(X)
        loss: Any = self.plan_.problem.loss
        with np.errstate(all="ignore"):  # scores that overflow are told by the probabilities alone
            return np.asarray(loss.probabilities(scores))

    predict_log_proba = available_if(_has_probabilities)(
        by_block(LinearClassifier.predict_log_proba)
    )

    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> ClassTargets:
        known = find_classes(y, classes if self.classes is None else self.classes)
        loss = make_loss(self.loss, kind="classifier", n_classes=len(known))
        return ClassTargets(known, loss, known.tolist() if self.classes is None else self.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # with the few records of a common test, noise drowns the signal
        tags.classifier_tags.multi_class = "multiclass" in [each.task for each in _known(self.loss)]
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags
