"""Private ranking of two classes, from one release of the moments of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit
from sklearn.utils.validation import validate_data

from sklearn_dpwg._checks import FloatArray, Rules, at_least_zero, without_weights
from sklearn_dpwg.data.frames import same_rows
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.estimators.class_moments import (
    ClassMoments,
    auc_weights,
    class_moment_sensitivity,
    covariances,
)
from sklearn_dpwg.estimators.elsewhere import LinearClassifier
from sklearn_dpwg.estimators.encode import (
    PRECISIONS,
    ClassTargets,
    advice_on_missing_values,
    check_columns,
    check_targets,
    find_classes,
    positive_whole,
    stated_rows,
)
from sklearn_dpwg.estimators.learn import PrivateEstimator, unchanged_on_failure
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate

PUBLIC_FACTS = (
    "the number of records, all of which are one group, and the two classes, not who is in which",
    "the number and names of the features",
    "data_norm and every other parameter of the estimator",
)

# Last entry of a record's vector. From a half to 1 it makes no difference on four data sets, and
# below that counts are loud (benchmarks/auc.py constant).
CONSTANT = 0.75

# Of scores along a unit vector of weights: where all rows of a class are one and the same.
LEAST_VARIANCE = 1e-9

RULES = Rules("DPAUCClassifier", ridge=at_least_zero())


@dataclass(frozen=True)
class AUCPlan:
    """What a fit of `DPAUCClassifier` will release, from public facts alone; print it."""

    n_records: int  # numbers of records and of columns
    n_features: int
    budget: Budget
    releases: tuple[Release, ...]  # the moments of both classes, once; nothing where ε is infinite
    records_per_person: int  # rows of one person, whom the budget is for
    of_person: bool = False  # whether somebody says so, and a person is the unit

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What the release costs."""
        rows, said = self.records_per_person, 1 if self.of_person else None
        if not self.releases:
            found = PrivacyGuarantee.non_private(self.budget.delta, public=PUBLIC_FACTS)
            return found.for_records(rows).for_person(said)
        of_row = PrivacyGuarantee.from_releases(
            self.releases, self.budget.delta, public=PUBLIC_FACTS
        )
        found = of_row.for_records(rows).for_person(said)
        return replace(found, requested_epsilon=self.budget.epsilon)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on an entry of the diagonal of the sums."""
        if not self.releases:
            return 0.0
        sensitivity = class_moment_sensitivity(self.n_records, self.n_features, CONSTANT)
        return self.releases[0].noise_multiplier * sensitivity

    @property
    def mean_noise(self) -> float:
        """Norm of the noise on the mean row of a class that has half of the records."""
        of_entry = self.noise_std / (math.sqrt(2.0) * CONSTANT * max(self.n_records / 2.0, 1.0))
        return of_entry * math.sqrt(self.n_features)

    def __str__(self) -> str:
        """Return a preview for people: release, noise, guarantee."""
        lines = [
            f"Plan of DPAUCClassifier: {self.n_records:,} records, {self.n_features:,} columns",
            "",
            "Releases (noise in units of what one record can change, fixed beforehand):",
        ]
        lines += [
            f"  {each.name}: {each.max_count:,} x {each.mechanism}, noise multiplier "
            f"{each.noise_multiplier:.4g}"
            for each in self.releases
        ] or ["  none: the exact solution, without any privacy"]
        lines += [
            "",
            "Predicted:",
            f"  noise of norm {self.mean_noise:.3g} on the mean row of a class that has half of "
            f"the records, where rows have norm at most 1",
            "",
            str(self.guarantee),
        ]
        return "\n".join(lines)


class DPAUCClassifier(LinearClassifier, PrivateEstimator):
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
    rows_per_person : int, optional
        Public number k of rows that no person has more of. ε and δ are then those of a person. Left
        open, they are those of one row.

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
    Kang, Liu, Li and Wang (2022) name it as an instance of private descent–ascent.

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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        data_norm: float | None = None,
        ridge: float = 0.5,
        classes: Sequence[Any] | None = None,
        random_state: Any = None,
        rows_per_person: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.ridge = ridge
        self.classes = classes
        self.random_state = random_state
        self.rows_per_person = rows_per_person

    @without_weights
    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn weights that rank the second class above the first, within the budget.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows. Longer ones are shortened to norm `data_norm`.
        y : array-like of shape (n_records,)
            Classes, which are private; only that there are these two is public.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If any input or parameter is wrong; no budget is spent then.
        TypeError
            If a weight is passed.

        Warns
        -----
        UserWarning
            Of an ε or δ that protects nobody, a `data_norm` left open, or noise from a seed.

        Notes
        -----
        A fit that fails leaves the estimator as it was. If noise had been released by then, the
        error carries a note that the budget is spent.
        """
        with unchanged_on_failure(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: ArrayLike) -> None:
        budget = self._check_parameters()
        X, y = same_rows(X=X, y=y)
        check_columns(X)
        with advice_on_missing_values(X):
            rows, labels = validate_data(
                self, X, check_targets(y, is_classifier=True), dtype=PRECISIONS, accept_sparse="csr"
            )
        known = find_classes(labels, self.classes)
        if len(known) > 2:
            raise InputError(
                f"Only binary classification is supported. The type of the target is multiclass: "
                f"classes must be two, got {len(known)}."
            )
        stated = known.tolist() if self.classes is None else self.classes
        encoded = ClassTargets(known, BinaryLogLoss(), stated).encode(labels)
        plan = self._plan(budget, *rows.shape)
        self._begin_fit()
        if plan.releases:
            self._warn_about_budget(budget, plan.n_records)
        noise = NoiseSource(self.random_state if plan.releases else None, plan.releases)
        one_group = np.zeros(plan.n_records, dtype=np.intp)
        with self._spending(noise, budget, plan.guarantee) as guarantee:
            records = RecordEncoder(1, float(self._row_norm)).encode(rows, encoded, one_group)
            moments = ClassMoments.of(records, records.targets > 0.0, constant=CONSTANT)
            for release in plan.releases:
                moments = moments.released(noise, release)
            weights, intercept = _scores(moments, self.ridge)
        self.classes_ = known
        self.coef_ = weights[None] / float(self._row_norm)
        self.intercept_ = np.array([intercept])
        self.class_counts_ = moments.counts
        self.plan_ = plan
        self.privacy_ = guarantee
        self._n_records = plan.n_records

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
        budget = self._check_parameters()
        n_records = positive_whole(n_records, "n_records")
        return self._plan(budget, n_records, positive_whole(n_features, "n_features"))

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return what a fit will cost.

        Returns
        -------
        PrivacyGuarantee
            The ``privacy_`` of a fit, whatever the records.
        """
        return self._plan(self._check_parameters(), 1, 1).guarantee

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
        """Return the logarithm of the probability of each class."""
        scores = self.decision_function(X)
        return np.column_stack([log_expit(-scores), log_expit(scores)])

    def _check_parameters(self) -> Budget:
        """Check what needs no records, before any budget is spent."""
        RULES.check(self)
        self._check_sizes("data_norm")
        stated_rows(self.rows_per_person)
        return Budget(self.epsilon, self.delta)

    def _plan(self, budget: Budget, n_records: int, n_features: int) -> AUCPlan:
        rows = stated_rows(self.rows_per_person)
        releases: tuple[Release, ...] = ()
        if budget.epsilon < math.inf:  # a person's k rows move the sums k times as far
            (of_row,) = calibrate([Release("class moments", "gaussian", 1.0, max_count=1)], budget)
            releases = (of_row.scaled(float(rows or 1)),)
        return AUCPlan(n_records, n_features, budget, releases, rows or 1, rows is not None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
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
