"""Private ranking of two classes, from one release of the moments of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.validation import validate_data

from sklearn_dpwg._checks import FloatArray, Rules, at_least_zero, whole_number, without_weights
from sklearn_dpwg.data.frames import same_rows
from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.data.risks.record_block import MOMENT_SPLIT
from sklearn_dpwg.data.whole_numbers import add_split
from sklearn_dpwg.estimators.encode import (
    PRECISIONS,
    ClassTargets,
    check_targets,
    errors_by_column,
    find_classes,
)
from sklearn_dpwg.estimators.private import (
    LinearClassifier,
    PrivateEstimator,
    unchanged_on_failure,
    warn_of_row_norm,
)
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity

PUBLIC_FACTS = (
    "the number of records, all of which are one group, and the two classes, not who is in which",
    "the number and names of the features",
    "data_norm and every other parameter of the estimator",
)

# Last entry of a record's vector. From a half to 1 it makes no difference on four data sets, and
# below that counts are loud (benchmarks/auc.py constant).
CONSTANT = 0.75

# Floor of the variance of scores along unit weights, for classes whose rows are all equal.
MIN_VARIANCE = 1e-9

# Records whose outer products are added exactly before the sum is split, and up to which the
# rounding of sums, once, is less than a thousandth of what a record moves.
BLOCK_SIZE, MAX_RECORDS = 2**13, 2**38

RULES = Rules("DPAUCClassifier", ridge=at_least_zero())


@dataclass(frozen=True)
class AUCPlan:
    """What a fit of `DPAUCClassifier` will release, from public facts alone; print it."""

    n_records: int  # numbers of records and of columns
    n_features: int
    budget: Budget
    releases: tuple[Release, ...]  # the moments of both classes, once; nothing where ε is infinite
    rows_per_person: int | None = None  # most rows of one person, where somebody says so

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What the release costs."""
        budget, rows = self.budget, self.rows_per_person
        stated = budget.delta if self.releases else budget
        cost = PrivacyGuarantee.from_releases(self.releases, stated, public=PUBLIC_FACTS)
        return replace(cost.for_person(rows), requested_epsilon=budget.epsilon)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on an entry of the diagonal of the sums."""
        if not self.releases:
            return 0.0
        sensitivity = class_moment_sensitivity(self.n_records, self.n_features, CONSTANT)
        return self.releases[0].noise_multiplier * sensitivity

    def __str__(self) -> str:
        """Return a preview for people: release, noise, guarantee."""
        released = [
            f"  {each.name}: {each.max_count:,} x {each.mechanism}, noise multiplier "
            f"{each.noise_multiplier:.4g}"
            for each in self.releases
        ] or ["  none: the exact solution, without any privacy"]
        of_mean = self.noise_std / (math.sqrt(2.0) * CONSTANT * max(self.n_records / 2.0, 1.0))
        lines = [
            f"Plan of DPAUCClassifier: {self.n_records:,} records, {self.n_features:,} columns",
            "\nReleases (noise in units of what one record can change, fixed beforehand):",
            *released,
            f"\nPredicted:\n  noise of norm {of_mean * math.sqrt(self.n_features):.3g} on the mean "
            f"row of a class that has half of the records, where rows have norm at most 1",
            f"\n{self.guarantee}",
        ]
        return "\n".join(lines)


@dataclass(eq=False, repr=False)
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

    Notes
    -----
    The sums of ``v v'`` of both classes, with v a row and a constant behind it, are one Gaussian
    release, which gives counts, means and covariances of both (docs/theory/auc.md). The weights are
    ``(Σ₊ + Σ₋ + ρI)⁻¹(m₊ - m₋)``; their length and the intercept are those of normal scores of one
    variance, as good as that assumption, on which the area under the curve does not depend.

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

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    data_norm: float | None = None
    ridge: float = 0.5
    classes: Sequence[Any] | None = None
    random_state: Any = None
    rows_per_person: int | None = None

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
        """
        with unchanged_on_failure(self):
            self._plan(1, 1)  # what is wrong without records shows first
            X, y = same_rows(X=X, y=y)
            y = check_targets(y, is_classifier=True)
            with errors_by_column(X):
                rows, labels = validate_data(self, X, y, dtype=PRECISIONS, accept_sparse="csr")
            if len(known := find_classes(labels, self.classes)) > 2:
                raise InputError(
                    f"Only binary classification is supported. The type of the target is "
                    f"multiclass: classes must be two, got {len(known)}."
                )
            encoded = ClassTargets(known, BinaryLogLoss()).encode(labels)
            plan = self._plan(*rows.shape)
            if self.data_norm is None:
                warn_of_row_norm()
            if plan.releases:
                self._warn_of_budget(plan.budget, plan.n_records)
            noise = NoiseSource(self.random_state if plan.releases else None, plan.releases)
            one_group = np.zeros(plan.n_records, dtype=np.intp)
            with self._spending(noise, plan.budget, plan.guarantee) as guarantee:
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
        return self

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
        """
        n_records = whole_number(n_records, "n_records", least=1)
        return self._plan(n_records, whole_number(n_features, "n_features", least=1))

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return what a fit will cost.

        Returns
        -------
        PrivacyGuarantee
            The ``privacy_`` of a fit, whatever the records.
        """
        return self._plan(1, 1).guarantee

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

    def _plan(self, n_records: int, n_features: int) -> AUCPlan:
        RULES.check(self)
        budget, rows = self._check_common(), self.rows_per_person
        releases: tuple[Release, ...] = ()
        if budget.epsilon < math.inf:  # a person's k rows move the sums k times as far
            (of_row,) = calibrate([Release("class moments", "gaussian", 1.0, max_count=1)], budget)
            releases = (of_row.scaled(float(rows or 1)),)
        return AUCPlan(n_records, n_features, budget, releases, rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _scores(moments: ClassMoments, ridge: float) -> tuple[FloatArray, float]:
    """Return weights, (n_features,), and intercept, for rows of norm 1, from released moments."""
    counts, (of_first, of_second) = moments.counts, moments.means
    size = moments.sums.shape[1]
    noise = moments.noise_std * math.sqrt(size) * float(np.linalg.norm(1.0 / counts))
    weights = auc_weights(moments, ridge=ridge * noise)
    intercept = math.log(counts[1] / counts[0])
    weights = weights / max(float(np.linalg.norm(weights)), 1e-300)
    apart = float(weights @ (of_second - of_first))
    if not apart > 0.0:
        return np.zeros_like(weights), intercept
    variances = np.einsum("i,cij,j->c", weights, moments.covariances, weights)
    variance = float(counts @ variances) / moments.n_records + ridge * noise / 2.0
    slope = apart / max(variance, MIN_VARIANCE)
    middle = float(weights @ (of_first + of_second)) / 2.0
    return slope * weights, intercept - slope * middle


# Second moments of the rows of two classes, exact or released, and what ranks best by them.


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Sums of ``v v'`` over the records of each of two classes, with ``v = (x, constant)``."""

    # of the first class and of the second; symmetric; (2, n_features + 1, n_features + 1)
    sums: FloatArray
    constant: float  # last entry of v
    n_records: int  # records of both classes together, a public number
    # standard deviation of the noise on an entry of the diagonal; off it, it is less by √2
    noise_std: float = 0.0

    @classmethod
    def of(cls, records: GroupedRecords, is_second: NDArray[np.bool_], *, constant: float) -> Self:
        """Return the exact moments of records, whose rows are whole numbers.

        The sums are exact whatever the order of the records, so no label decides how another
        record is rounded.
        """
        n_records, n_features = records.rows.shape
        sums = np.zeros((2, 2, n_features + 1, n_features + 1))
        for first in range(0, n_records, BLOCK_SIZE):
            block = slice(first, min(first + BLOCK_SIZE, n_records))
            vectors = np.full((block.stop - first, n_features + 1), constant)
            rows: Any = records.rows[block]
            vectors[:, :-1] = rows.toarray() if hasattr(rows, "toarray") else rows
            for of_class, chosen in enumerate((~is_second[block], is_second[block])):
                add_split(sums[:, of_class], vectors[chosen].T @ vectors[chosen], MOMENT_SPLIT)
        return cls(sums.sum(axis=0), constant, n_records)

    def released(self, noise: NoiseSource, release: Release) -> ClassMoments:
        """Return noisy sums of both classes, from one Gaussian release of their upper triangles.

        Entries off the diagonal count twice in the Frobenius norm, so they are scaled by √2.
        """
        n_columns = self.sums.shape[1]
        rows, columns = np.triu_indices(n_columns)
        scales = np.where(rows == columns, 1.0, math.sqrt(2.0))
        sensitivity = class_moment_sensitivity(self.n_records, n_columns - 1, self.constant)
        noisy = noise.gaussian(
            self.sums[:, rows, columns] * scales, sensitivity=sensitivity, release=release
        )
        sums = np.empty_like(self.sums)
        sums[:, rows, columns] = sums[:, columns, rows] = noisy / scales
        return ClassMoments(
            sums, self.constant, self.n_records, release.noise_multiplier * sensitivity
        )

    @property
    def counts(self) -> FloatArray:
        """Number of records of each class, at least 1, with the public total as their sum."""
        noisy_counts = self.sums[:, -1, -1] / self.constant**2
        # mean of two estimates: the second count, and the total without the first count
        n_second = (noisy_counts[1] + self.n_records - noisy_counts[0]) / 2.0
        least = min(1.0, self.n_records / 2.0)
        n_second = float(np.clip(n_second, least, self.n_records - least))
        return np.array([self.n_records - n_second, n_second])

    @property
    def means(self) -> FloatArray:
        """Mean row of each class, in the unit ball."""
        means = self.sums[:, :-1, -1] / (self.constant * self.counts[:, None])
        return np.asarray(means / np.maximum(1.0, np.linalg.norm(means, axis=1))[:, None])

    @property
    def covariances(self) -> FloatArray:
        """Covariance of each class, (2, n_features, n_features), negative eigenvalues set to 0."""
        of_means = self.means[:, :, None] * self.means[:, None, :]
        values, vectors = np.linalg.eigh(
            self.sums[:, :-1, :-1] / self.counts[:, None, None] - of_means
        )
        positive = np.maximum(values, 0.0)[:, None, :]
        return np.asarray((vectors * positive) @ vectors.transpose(0, 2, 1))


def class_moment_sensitivity(n_records: int, n_features: int, constant: float) -> float:
    """Return how far replacing one record, its class included, moves both sums together.

    Where the record keeps its class, one sum moves by ``v v' - u u'``; where it changes it, one by
    ``v v'`` and the other by ``u u'``: the Frobenius norms are
    ``√(‖v‖⁴ + ‖u‖⁴ - 2<u, v>²)`` and ``√(‖v‖⁴ + ‖u‖⁴)``, both at most ``√2 (1 + constant²)``. The
    rest pays for rounding: of the sums, and of the products with √2 before noise is added.
    """
    if n_records > MAX_RECORDS:
        raise InputError(
            f"X must have at most {MAX_RECORDS:,} records, as the moments of {n_records:,} "
            "cannot be added up exactly."
        )
    square = 1.0 + constant**2
    n_entries = (n_features + 1) * (n_features + 2)
    return moment_sensitivity(math.sqrt(square)) + (
        math.sqrt(n_entries) * n_records * square * 2.0**-49
    )


def auc_weights(moments: ClassMoments, *, ridge: float = 0.0) -> FloatArray:
    """Return the direction that ranks best by the square surrogate, ``(Σ₊ + Σ₋ + ρI)⁻¹ δ``.

    Σ are covariances, ρ is `ridge` and δ the difference of the mean rows. The minimiser of
    ``E (1 - w'(x₊ - x₋))²`` is ``(Σ₊ + Σ₋ + δδ')⁻¹ δ``, which by Sherman and Morrison's formula has
    the same direction.
    """
    covariance = moments.covariances.sum(axis=0)
    delta = moments.means[1] - moments.means[0]
    values, vectors = np.linalg.eigh(covariance)
    least = max(ridge, len(delta) * 2.0**-52 * float(values[-1]), 1e-12)
    return np.asarray(vectors @ ((vectors.T @ delta) / (np.maximum(values, 0.0) + least)))
