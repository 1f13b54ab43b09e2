"""Thresholds and calibration by one private histogram of a model's scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray, open_unit, positive_finite, real_number
from sklearn_dpwg._repr import documented
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.postprocessing.base import SHARED, ScorePostprocessor
from sklearn_dpwg.postprocessing.histogram import (
    CONSTRAINTS,
    N_BINS,
    Selection,
    calibrated_shares,
    counted,
    least_errors,
    likely_counts,
    thresholds_of_share,
)


@documented(SHARED)
class DPCalibratedClassifier(ScorePostprocessor):
    """Calibrate a model's scores for each group, or for all, by one private histogram.

    The share of the second class in each bin of scores, drawn to that of all groups where noise is
    loud or records are few and made to rise with the score, is the calibrated probability. The
    guarantee is for model and calibration together.

    Parameters
    ----------
    <estimator, epsilon, delta>
    per_group : bool, default=True
        Whether each group has a calibration of its own, or all share one.
    <group_labels to random_state>

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_groups, n_bins)
        Calibrated probability of the second class in the middle of each bin, rising.
    <audit_ to n_features_in_>

    See Also
    --------
    DPThresholdClassifier : Thresholds, from the same histogram.

    Notes
    -----
    Between the middles of two bins probabilities are interpolated, so that scores keep their order
    within a group, or become equal where noise makes neighbouring bins so.

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
        second = np.empty(len(scores))
        for code, of_group in enumerate(self.probabilities_):
            members = codes == code
            second[members] = np.interp(scores[members], middles, of_group)
        return second


@documented(SHARED)
class DPThresholdClassifier(ScorePostprocessor):
    """Choose the threshold of each group, or one for all, by one private histogram of scores.

    Thresholds follow from noisy counts of the scores of each group and class alone. The guarantee
    is for model and thresholds together.

    Parameters
    ----------
    <estimator, epsilon, delta>
    constraint : {"worst_error", "selection_rate", "true_positive_rate"}, default="worst_error"
        What the thresholds are chosen for: the least error rate of the worst-off group; or the
        fewest errors of all records with equal shares of chosen records, or of chosen positives,
        in all groups. Chosen is who is predicted to be of the second class.
    per_group : bool, default=True
        Whether each group has a threshold of its own, or all share one. In some uses the law
        forbids different ones.
    max_gap : float, default=0.0
        By how much the rates may differ, as far as the histogram tells; it must be positive where
        all share one threshold, which makes rates equal by choosing everybody or nobody only.
    miss_cost : "balanced" or float, default="balanced"
        How many wrongly chosen records one counts as that should have been chosen and was not,
        wherever errors are counted. "balanced" is how many records there are of the first class
        for one of the second, by the histogram: both classes then count the same. With 1, errors
        are those of all records, and where few are positive nobody is chosen.
    share : float, optional
        Share of records to choose, between 0 and 1, such as what there is room for, in place of
        the one with the fewest errors: of each group with ``constraint="selection_rate"``, of all
        records with ``per_group=False``; with "true_positive_rate" the share of positives.
    <group_labels to random_state>

    Attributes
    ----------
    miss_cost_ : float
        What a miss counted as.
    thresholds_ : ndarray of shape (n_groups,)
        Least score of the second class; infinite where nobody is chosen.
    <audit_ to n_features_in_>

    See Also
    --------
    DPCalibratedClassifier : Calibrated probabilities, from the same histogram.

    Notes
    -----
    A record is in one cell of the histogram and moves two when it is replaced, whatever its group
    was and is (``docs/theory/thresholds.md``). Scores are the probabilities of the second class, or
    the logistic function of decision values. Thresholds of groups for which the noise is loud are
    close to those of all.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.postprocessing import DPThresholdClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(4000, 2))
    >>> groups = np.where(X[:, 1] + rng.normal(size=4000) > 0, "a", "b")
    >>> y = (X.sum(axis=1) > 0).astype(int)
    >>> model = DPWorstGroupClassifier(data_norm=1.0)
    >>> equal = DPThresholdClassifier(model, epsilon=4.0, constraint="selection_rate")
    >>> chosen = equal.fit(X, y, groups).predict(X, groups)
    >>> bool(abs(chosen[groups == "a"].mean() - chosen[groups == "b"].mean()) < 0.1)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        constraint: str = "worst_error",
        per_group: bool = True,
        max_gap: float = 0.0,
        miss_cost: Literal["balanced"] | float = "balanced",
        share: float | None = None,
        group_labels: Sequence[Any] | None = None,
        group_by: Any = None,
        n_bins: int = N_BINS,
        score_edges: Sequence[float] | None = None,
        histogram_share: float = 0.2,
        held_out: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            estimator,
            epsilon=epsilon,
            delta=delta,
            per_group=per_group,
            group_labels=group_labels,
            group_by=group_by,
            n_bins=n_bins,
            score_edges=score_edges,
            histogram_share=histogram_share,
            held_out=held_out,
            random_state=random_state,
        )
        self.constraint = constraint
        self.max_gap = max_gap
        self.miss_cost = miss_cost
        self.share = share

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.constraint not in CONSTRAINTS:
            raise InputError(f"constraint must be one of {CONSTRAINTS}, got {self.constraint!r}.")
        gap = real_number(self.max_gap, "max_gap")
        if not 0.0 <= gap <= 1.0:
            raise InputError(f"max_gap must be from 0 to 1, got {gap!r}.")
        if self.miss_cost != "balanced":
            positive_finite(self.miss_cost, "miss_cost")
        if self.share is not None:
            open_unit(self.share, "share")
            if self.constraint == "worst_error":
                raise InputError(
                    "share must be None with constraint='worst_error', which looks for the fewest "
                    f"errors; 'selection_rate' takes a share, got {self.share!r}."
                )
        elif self.constraint != "worst_error" and not self.per_group and gap == 0.0:
            raise InputError(
                "max_gap must be positive where all groups share one threshold, which makes their "
                "rates equal by choosing everybody or nobody only, got 0."
            )

    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        likely, per_group = likely_counts(noisy, edges, noise_std), bool(self.per_group)
        first, second = likely.sum(axis=(0, 2))
        balanced = self.miss_cost == "balanced"
        self.miss_cost_ = max(first, 1.0) / max(second, 1.0) if balanced else float(self.miss_cost)
        if self.share is None:
            self.thresholds_ = least_errors(
                self.constraint, likely, edges, per_group, float(self.max_gap), self.miss_cost_
            )
        else:
            of_likely = counted(self.constraint, likely)
            of_noisy = counted(self.constraint, noisy.astype(np.float64))
            share = float(self.share)
            self.thresholds_ = thresholds_of_share(of_likely, of_noisy, edges, per_group, share)

    def _is_chosen(self, scores: FloatArray, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        return np.asarray(scores >= self.thresholds_[codes])

    def selected(self) -> pd.DataFrame:
        """Return which share of the records is chosen, by half and by the thresholds.

        It follows from the released histogram and costs nothing more.

        Returns
        -------
        pandas.DataFrame
            A row for each group and one for "all". Columns: "records", how many there are, by the
            histogram where that is not public; "positive", the share of the second class; "at 0.5",
            the share with probabilities of at least one half; "chosen", the share that the
            thresholds choose; "low" and "high", limits of that share.

        Notes
        -----
        Shares are right in the mean: one of a small group may be below 0 or above 1, and means that
        the noise hides it. Where the size is noisy too they are quotients, NaN if no record seems
        to be there. With probability 0.95 the limits of a row hold the share of these very records.
        """
        check_is_fitted(self)
        noise, edges = self.audit_.noise, self.score_edges_
        likely = likely_counts(self.histogram_, edges, 0.0 if noise is None else noise.std)
        sizes = getattr(self, "group_sizes_", None)
        chosen = Selection(self.histogram_, likely, edges, sizes, self._n_records)
        table = np.column_stack(
            [
                chosen.records(),
                chosen.positive(),
                chosen.chosen(np.full(len(likely), 0.5)),
                chosen.chosen(self.thresholds_),
                chosen.limits(self.thresholds_, noise, bool(self.per_group)),
            ]
        )
        labels = pd.Index([*self.group_labels_, "all"], dtype=object, name="group")
        names = ["records", "positive", "at 0.5", "chosen", "low", "high"]
        return pd.DataFrame(table, labels, names).astype({"records": int})

    @available_if(lambda wrapper: hasattr(wrapper._model, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the model's own probabilities, which no threshold changes.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records, 2)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))
