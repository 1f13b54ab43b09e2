"""Probabilities that were calibrated with differential privacy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.postprocessing.base import ScorePostprocessor
from sklearn_dpwg.postprocessing.histogram import likely_counts

# Records of the usual share that every bin of a group has besides its own, so that a few people
# are not taken for a law where noise is quiet. `benchmarks/thresholds.py usual` prints others.
USUAL = 3.0


def calibrated_shares(
    noisy: ArrayLike,
    edges: FloatArray,
    noise_std: float,
    per_group: bool,
    usual: float = USUAL,
) -> FloatArray:
    """Return for each group the share of positives in each bin, rising with the score."""
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups = len(cells)
    if not per_group:
        cells, noise_std = cells.sum(axis=0, keepdims=True), noise_std * np.sqrt(n_groups)
    likely = likely_counts(cells, edges, noise_std, usual=usual)
    in_bins = likely.sum(axis=1)
    claimed = (edges[:-1] + edges[1:]) / 2
    shares = np.where(in_bins > 0.0, likely[:, 1] / np.maximum(in_bins, 1e-300), claimed)
    rising = [
        isotonic_regression(of_group, sample_weight=weights + 1e-9, y_min=0.0, y_max=1.0)
        for of_group, weights in zip(shares, in_bins, strict=True)
    ]
    return np.repeat(rising, n_groups // len(rising), axis=0)


class DPCalibratedClassifier(ScorePostprocessor):
    """Calibrate a model's scores for each group, or for all, by one private histogram.

    How many records of each group and class have which scores is released once, with noise. The
    share of the second class in each bin, drawn to that of all groups where noise is loud or
    records are few and made to rise with the score, is the calibrated probability. The guarantee
    is for model and calibration together.

    Parameters
    ----------
    estimator : estimator
        A `DPWorstGroupClassifier` of two classes, or a pipeline that ends in one and whose other
        steps learn nothing from the records: it is fitted, and its ``epsilon`` and ``delta`` are
        set. Or any fitted classifier of two classes in scikit-learn's ``FrozenEstimator``, if it
        scores each row by that row alone.
    epsilon : float, default=1.0
        ε of what a fit releases: of model and histogram together, or of the histogram alone where
        the model is frozen. ``inf`` for none.
    delta : float, default=1e-6
        δ of the same. A histogram around a frozen model needs none.
    per_group : bool, default=True
        Whether each group has a calibration of its own, or all share one.
    group_labels : sequence, optional
        All group labels. By default they are found in the groups, and the set of labels that occur
        is public.
    group_by : column name or index, sequence of them, or callable, optional
        How to compute the groups from X, in `fit` and in prediction.
    classes : sequence, optional
        Both classes, public; those of the estimator, or found in y, by default.
    n_bins : int, default=12
        Number of bins of scores from 0 to 1, of equal width in log odds but for the outer two.
    score_edges : sequence of float, optional
        Public edges between the bins, rising, strictly between 0 and 1, in place of `n_bins`.
    histogram_share : float, default=0.2
        Share of the budget, as μ², that pays for the histogram; the rest pays for the model.
    held_out : bool, default=False
        For a frozen model: whether it learned from none of the records of this fit, by the
        caller's word. Then a record pays for the model or for the histogram, and not for both.
    random_state : int, RandomState or None, default=None
        None draws noise from the operating system's entropy. Anything else makes fits repeatable,
        that of the model too if it has none, and voids the guarantee for who knows it.

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_groups, n_bins)
        Calibrated probability of the second class in the middle of each bin, rising; in the order
        of ``group_labels_``.
    histogram_ : ndarray of shape (n_groups, 2, n_bins)
        The noisy counts by group, class and bin; the one release. They may be negative.
    score_edges_ : ndarray of shape (n_bins + 1,)
        Edges of the bins.
    estimator_ : estimator
        The fitted model.
    classes_ : ndarray of shape (2,)
        Classes.
    group_labels_ : ndarray of shape (n_groups,)
        Group labels.
    group_sizes_ : ndarray of shape (n_groups,)
        Public sizes of the groups, where a model of public groups was fitted here.
    plan_ : PostprocessingPlan
        What was released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee of model and calibration together.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X had them.

    See Also
    --------
    DPThresholdClassifier : Thresholds, from the same histogram.

    Notes
    -----
    Between the middles of two bins probabilities are interpolated, so that scores keep their order
    within a group; where noise makes neighbouring bins equal, scores between them become equal.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.postprocessing import DPCalibratedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(4000, 2))
    >>> groups = np.where(X[:, 1] > 0, "a", "b")
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPCalibratedClassifier(DPWorstGroupClassifier(data_norm=1.0), epsilon=4.0)
    >>> probabilities = model.fit(X, y, groups).predict_proba(X, groups)[:, 1]
    >>> bool(abs(probabilities.mean() - y.mean()) < 0.1)
    True
    """

    __metadata_request__predict_proba = {"groups": True}  # noqa: RUF012

    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        self.probabilities_ = calibrated_shares(noisy, edges, noise_std, bool(self.per_group))

    def predict_proba(self, X: Any, groups: Any = None) -> FloatArray:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each row, where groups are calibrated apart and `group_by` is not set.

        Returns
        -------
        ndarray of shape (n_records, 2)
            Probabilities, in the order of ``classes_``.
        """
        second = self._probability(*self._scored(X, groups))
        return np.column_stack([1.0 - second, second])

    def _is_chosen(self, scores: FloatArray, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        second = self._probability(scores, codes)
        return second > 1.0 - second

    def _probability(self, scores: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
        """Return the probability of each score, linear between the middles of bins."""
        middles = (self.score_edges_[:-1] + self.score_edges_[1:]) / 2
        found = np.empty(len(scores))
        for code, of_group in enumerate(self.probabilities_):
            members = codes == code
            found[members] = np.interp(scores[members], middles, of_group)
        return found
