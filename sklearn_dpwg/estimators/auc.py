"""Private ranking of two classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._checks import FloatArray, Rules, at_least_zero
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.estimators.auc_plan import CONSTANT, AUCPlan, guarantee_of, releases_within
from sklearn_dpwg.estimators.encode import (
    advice_on_missing_values,
    check_columns,
    check_targets,
    positive_whole,
)
from sklearn_dpwg.estimators.learn import NO_PROTECTION, linear_of, precisions, warn_of_row_norm
from sklearn_dpwg.estimators.spending import spending, unchanged_on_failure
from sklearn_dpwg.estimators.targets import ClassTargets, find_classes
from sklearn_dpwg.exceptions import NoProtectionWarning, warn
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.ledger import join_ledgers, with_ledgers
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum.minimax.auc import ClassMoments, auc_weights, covariances
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee
from sklearn_dpwg.privacy.release import check_delta

# Of scores along a unit vector of weights: where all rows of a class are one and the same.
LEAST_VARIANCE = 1e-9

RULES = Rules("DPAUCClassifier", ridge=at_least_zero())


class DPAUCClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier for the area under the ROC curve, with differential privacy.

    Releases the second moments of the rows of each of two classes, once, and computes from them the
    weights that rank best by the square surrogate of the area under the curve. Replacing one record
    by any other, **its class included**, changes the probability of any outcome by little. There
    are no groups.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε, positive. ``float("inf")`` gives the exact solution without privacy.
    delta : float, default=1e-6
        Privacy budget δ, between 0 and 1; should be far below one over the number of records.
    data_norm : float, optional
        Public bound on the norm of a row of X: longer rows are shortened to it. Must not be
        read off the data. Left open it is 1, and a fit warns.
    ridge : float, default=0.5
        What is added to the covariances, over the norm of the noise on them; at least 0.
    classes : sequence of two, optional
        Both classes; found in y by default, and public either way.
    random_state : int, RandomState or None, default=None
        None draws noise from a floating-point-safe sampler and the operating system's entropy.
        Anything else makes a fit repeatable, for tests, and voids its guarantee for whoever knows.
    rows_per_person : int, default=1
        Public number k of rows that no person has more of. ε and δ are then those of a person.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Classes; scores are high for the second.
    coef_ : ndarray of shape (1, n_features)
        Weights in the units of X; a private release.
    intercept_ : ndarray of shape (1,)
        Intercept; a private release.
    class_counts_ : ndarray of shape (2,)
        Number of records of each class as released, with noise.
    plan_ : AUCPlan
        What was released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee; ``print(model.privacy_)``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had them.

    See Also
    --------
    DPWorstGroupClassifier : Learns for the worst-off group.

    Notes
    -----
    With v a row of norm at most 1 and a constant s behind it, the sums of ``v v'`` of both classes
    together move by at most ``√2 (1 + s²)`` in Frobenius norm when a record is replaced, whether it
    keeps its class or not; the square of the constant counts the class. One Gaussian release
    therefore gives counts, means and covariances of both (docs/theory/auc.md). The weights are
    ``(Σ₊ + Σ₋ + ρI)⁻¹(m₊ - m₋)``. Their length and the intercept are those of normal scores of one
    variance, so that `predict` knows how frequent the classes are and `predict_proba` is a model,
    as good as that assumption; the area under the curve depends on neither.

    References
    ----------
    Gao, Jin, Zhu and Zhou (2013), One-Pass AUC Optimization: the area under the curve from moments.
    Kang, Liu, Li and Wang (2022) name it as an instance of private descent–ascent, which
    `minimax.AUCGame` is for comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from sklearn_dpwg import DPAUCClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(3000, 2))
    >>> y = X[:, 0] + 0.5 * rng.normal(size=3000) > 0.8
    >>> model = DPAUCClassifier(epsilon=1.0, data_norm=np.sqrt(2)).fit(X, y)
    >>> bool(roc_auc_score(y, model.decision_function(X)) > 0.8)
    True
    """

    _groupings: tuple[str, ...] = ()
    _start_costs: tuple[StartCost, ...] = ()  # it has no start

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        data_norm: float | None = None,
        ridge: float = 0.5,
        classes: Sequence[Any] | None = None,
        random_state: Any = None,
        rows_per_person: int = 1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.ridge = ridge
        self.classes = classes
        self.random_state = random_state
        self.rows_per_person = rows_per_person

    def fit(self, X: Any, y: ArrayLike, **refused: Any) -> Self:
        """Learn weights that rank the second class above the first, within the budget.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows. Longer ones are shortened to norm `data_norm`.
        y : array-like of shape (n_records,)
            Classes, which are private; only that there are these two is public.
        **refused : dict
            Nothing else is accepted; ``sample_weight`` is refused with a reason.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If any input or parameter is wrong; no budget is spent then.
        TypeError
            If ``sample_weight``, ``groups`` or another unknown argument is passed.

        Warns
        -----
        DataNormWarning
            If `data_norm` is left open.
        DeltaWarning
            If δ is not below one over the number of records.
        NoProtectionWarning
            If ε is finite and so large that it protects nobody.
        SeededNoiseWarning
            If `random_state` is set, so that the noise can be computed again.

        Notes
        -----
        A fit that fails leaves the estimator as it was. If noise had been released by then, the
        error carries a note that the budget is spent.
        """
        for name in refused:
            reasons = {
                "sample_weight": "a weight would let one record count for many",
                "groups": "it ranks all records alike; use DPWorstGroupClassifier",
            }
            raise TypeError(
                f"fit of DPAUCClassifier refuses {name}: "
                f"{reasons.get(name, 'fit takes X and y alone')}."
            )
        with unchanged_on_failure(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: ArrayLike) -> None:
        budget, rows_per_person = self._check_parameters()
        check_columns(X)
        check_targets(y, is_classifier=True)
        with advice_on_missing_values(X):
            rows, labels = validate_data(self, X, y, dtype=precisions(X), accept_sparse="csr")
        known = self._classes(np.asarray(labels))
        stated = known.tolist() if self.classes is None else self.classes
        encoded = ClassTargets(known, BinaryLogLoss(), stated).encode(np.asarray(labels))
        n_records, n_features = rows.shape
        plan = self._plan(budget, rows_per_person, n_records, n_features)
        if self.data_norm is None:
            warn_of_row_norm()
        if plan.releases:
            check_delta(budget.delta, n_records)
        if NO_PROTECTION < budget.epsilon < math.inf:
            warn(
                f"epsilon={budget.epsilon:g} is no protection: whoever knows all records but one "
                f"can tell that one from any other; values from 0.1 to 10 are usual.",
                NoProtectionWarning,
            )
        noise = NoiseSource(self.random_state if plan.releases else None, plan.releases)
        one_group = np.zeros(n_records, dtype=np.intp)
        self._fit_key = uuid4().hex
        with spending(noise, budget, plan, self, self._fit_key) as guarantee:
            records = RecordEncoder(1, self._row_norm).encode(rows, encoded, one_group)
            moments = ClassMoments.of(records, records.targets > 0.0, constant=CONSTANT)
            for release in plan.releases:
                moments = moments.released(noise, release)
            weights, intercept = _scores(moments, self.ridge)
        self.classes_ = known
        self.coef_ = weights[None] / self._row_norm
        self.intercept_ = np.array([intercept])
        self.class_counts_ = moments.counts
        self.plan_ = plan
        self.privacy_ = guarantee

    def plan(self, *, n_records: int, n_features: int) -> AUCPlan:
        """Preview a fit from public facts: release, noise, guarantee.

        Parameters
        ----------
        n_records : int
            Number of records.
        n_features : int
            Number of columns of X.

        Returns
        -------
        AUCPlan
            Exactly what ``fit`` would do for such data; print it.

        Raises
        ------
        ValueError
            If an argument or a parameter of the estimator is wrong.
        """
        budget, rows_per_person = self._check_parameters()
        return self._plan(
            budget,
            rows_per_person,
            positive_whole(n_records, "n_records"),
            positive_whole(n_features, "n_features"),
        )

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return what a fit will cost.

        Returns
        -------
        PrivacyGuarantee
            The ``privacy_`` of a fit, whatever the records.
        """
        budget, rows_per_person = self._check_parameters()
        return guarantee_of(releases_within(budget, rows_per_person), budget, rows_per_person)

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores ``X @ coef_.T + intercept_``; no row is shortened.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records,)
            Scores; positive where the second class is the likelier one.
        """
        check_is_fitted(self, "plan_")
        return np.asarray((linear_of(self, X, self.coef_) + self.intercept_)[:, 0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likelier class of each row.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records,)
            Classes.
        """
        index = (self.decision_function(X) > 0).astype(int)
        return np.asarray(self.classes_[index])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, by the model of normal scores.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records, 2)
            Probabilities, in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records, 2)
            Logarithms of probabilities, in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        return np.column_stack([log_expit(-scores), log_expit(scores)])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles; inside ledgers, with what lets a worker count to them."""
        return with_ledgers(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and charge fits to the ledgers that it names."""
        super().__setstate__(join_ledgers(state))

    @property
    def _row_norm(self) -> float:
        """Bound on the norm of a row: what is said, or else 1."""
        return 1.0 if self.data_norm is None else float(self.data_norm)

    def _check_parameters(self) -> tuple[Budget, int]:
        """Check what needs no records; return the budget and a person's number of rows."""
        RULES.check(self)
        value: Any = 1.0 if self.data_norm is None else self.data_norm
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not 1e-50 <= float(value) <= 1e50:
            raise ValueError(
                f"data_norm must be a positive finite number, got {value!r}; "
                f"allowed are 1e-50 to 1e50."
            )
        rows = positive_whole(self.rows_per_person, "rows_per_person")
        budget = Budget(self.epsilon, self.delta)
        return budget, rows

    def _classes(self, y: NDArray[Any]) -> NDArray[Any]:
        known = find_classes(y, self.classes)
        if len(known) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass: "
                f"classes must be two, got {len(known)}."
            )
        return known

    def _plan(
        self, budget: Budget, rows_per_person: int, n_records: int, n_features: int
    ) -> AUCPlan:
        releases = releases_within(budget, rows_per_person)
        return AUCPlan(n_records, n_features, budget, releases, rows_per_person)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        # with the few records of a common test, noise drowns the signal
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags


def _scores(moments: ClassMoments, ridge: float) -> tuple[FloatArray, float]:
    """Return weights and intercept for rows of norm 1, from released moments alone."""
    counts, (of_first, of_second) = moments.counts, moments.means
    size = moments.sums.shape[1]
    noise = moments.noise_std * math.sqrt(size) * float(np.linalg.norm(1.0 / counts))
    weights = auc_weights(moments, ridge=ridge * noise)
    intercept = math.log(counts[1] / counts[0])
    weights = weights / max(float(np.linalg.norm(weights)), 1e-300)
    apart = float(weights @ (of_second - of_first))
    if not apart > 0.0:
        return np.zeros_like(weights), intercept
    variances = np.einsum("i,cij,j->c", weights, covariances(moments), weights)
    variance = float(counts @ variances) / moments.n_records + ridge * noise / 2.0
    slope = apart / max(variance, LEAST_VARIANCE)
    middle = float(weights @ (of_first + of_second)) / 2.0
    return slope * weights, intercept - slope * middle
