"""Calibration and thresholds from a released histogram, and monotone effects of a model."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from sklearn.isotonic import isotonic_regression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray, open_unit, positive_finite, real_number
from sklearn_dpwg._repr import documented
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.postprocessing.base import ScorePostprocessor
from sklearn_dpwg.preprocessing.shapes import parts_of

# Weight of the prior in shrinkage, in standard deviations of the noise: noisy counts are drawn to
# those of all groups as if by so many records. `benchmarks/thresholds.py trust` compares others.
TRUST = 3.0
# Least prior weight of a bin in a calibration, in records of the overall fraction, so that a few
# people do not decide a probability. `benchmarks/thresholds.py usual` compares others.
USUAL = 3.0
# A threshold above every score: it chooses nobody.
NOBODY = np.inf
# Grid of common rates that thresholds are searched on; a finer one differs by less than the noise.
_RATES = np.linspace(0.0, 1.0, 401)


# Shared parts of the two docstrings, by the names of the first and the last parameter.
SHARED = {
    "estimator, epsilon, delta": """\
    estimator : estimator
        A `DPWorstGroupClassifier` of two classes, or a pipeline that ends in one and whose other
        steps learn nothing from the records: it is fitted, and its ``epsilon`` and ``delta`` are
        set. Or any fitted classifier of two classes in scikit-learn's ``FrozenEstimator``, if it
        scores each row by that row alone.
    epsilon, delta : float, default=1.0 and 1e-6
        ε and δ of what a fit releases: of model and histogram together, or of the histogram alone
        where the model is frozen, which needs no δ. ``epsilon=inf`` for no privacy.
""",
    "group_labels to random_state": """\
    group_labels : sequence, optional
        All group labels; found in the groups by default, and public either way.
    group_by : column name or index, sequence of them, or callable, optional
        How to find the groups in X, in `fit` and in prediction. Columns that it names are taken
        out before the model sees X, unless a frozen one was fitted to them.
    n_bins : int, default=12
        Number of bins of scores, even in log odds; more tell finer, and are noisier together.
    score_edges : sequence of float, optional
        Public edges between the bins, rising, strictly between 0 and 1, in place of `n_bins`.
    histogram_fraction : float, default=0.2
        Fraction of the budget, as μ², that pays for the histogram; the rest pays for the model.
    held_out : bool, default=False
        For a frozen model: whether it learned from none of the records of this fit, by the
        caller's word. Then a record pays for the model or for the histogram, and not for both.
    random_state : int, RandomState or None, default=None
        A seed, the model's too if it has none, makes fits repeatable and voids the guarantee for
        whoever knows it.
""",
    "audit_ to n_features_in_": """\
    audit_ : AuditResult
        The one release, as an audit tells it: rates at each edge, calibration, AUC, a page.
    histogram_, score_edges_ : ndarray of shape (n_groups, 2, n_bins), and of (n_bins + 1,)
        The noisy counts by group, class and bin, which may be negative, and the edges of the bins.
    estimator_ : estimator
        The fitted model.
    classes_, group_labels_ : ndarray of shape (2,), and of (n_groups,)
        Classes, and group labels.
    group_sizes_ : ndarray of shape (n_groups,)
        Public sizes of the groups, where the model was fitted here.
    plan_ : PostprocessingPlan
        What `fit` released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee of model and histogram together.
    n_features_in_, feature_names_in_ : int, and ndarray of shape (n_features,)
        Number of columns of X, and their names, where it had them.
""",
}


@documented(SHARED)
class DPCalibratedClassifier(ScorePostprocessor):
    """Calibrate a model's scores for each group, or for all, by one private histogram.

    The fraction of the second class in each bin of scores, drawn to that of all groups where noise
    is loud or records are few and made to rise with the score, is the calibrated probability,
    between whose bins probabilities are interpolated. The guarantee is for model and calibration
    together.

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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.postprocessing import DPCalibratedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(4000, 2))
    >>> y, groups = (X[:, 0] > 0).astype(int), np.where(X[:, 1] > 0, "a", "b")
    >>> model = DPCalibratedClassifier(DPWorstGroupClassifier(data_norm=1.0), epsilon=4.0)
    >>> probabilities = model.fit(X, y, groups).predict_proba(X, groups)[:, 1]
    >>> bool(abs(probabilities.mean() - y.mean()) < 0.1)
    True
    """

    __metadata_request__predict_proba = {"groups": True}  # noqa: RUF012

    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        self.probabilities_ = calibrated_fractions(noisy, edges, noise_std, bool(self.per_group))

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
        positive = self._probability(*self._scores_and_groups(X, groups))
        return np.column_stack([1.0 - positive, positive])

    def _is_chosen(self, scores: FloatArray, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        positive = self._probability(scores, codes)
        return positive > 1.0 - positive

    def _probability(self, scores: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
        """Return each row's calibrated probability, interpolated between the middles of bins."""
        middles = (self.score_edges_[:-1] + self.score_edges_[1:]) / 2
        positive = np.empty(len(scores))
        for code, group_probabilities in enumerate(self.probabilities_):
            members = codes == code
            positive[members] = np.interp(scores[members], middles, group_probabilities)
        return positive


@documented(SHARED)
@dataclass(eq=False, repr=False, kw_only=True)
class DPThresholdClassifier(ScorePostprocessor):
    """Choose the threshold of each group, or one for all, by one private histogram of scores.

    Thresholds follow from noisy counts of the scores of each group and class alone, and are close
    to those of all where the noise is loud. The guarantee is for model and thresholds together.

    Parameters
    ----------
    <estimator, epsilon, delta>
    per_group : bool, default=True
        Whether each group has a threshold of its own, or all share one. In some uses the law
        forbids different ones.
    <group_labels to random_state>
    constraint : {"worst_error", "selection_rate", "true_positive_rate"}, default="worst_error"
        What the thresholds are chosen for: the least error rate of the worst-off group; or the
        fewest errors of all records with equal fractions of chosen records, or of chosen positives,
        in all groups. Chosen is who is predicted to be of the second class.
    max_gap : float, default=0.0
        By how much the rates may differ, as far as the histogram tells; it must be positive where
        all share one threshold, which makes rates equal by choosing everybody or nobody only.
    miss_cost : "balanced" or float, default="balanced"
        How many wrongly chosen records count as one that should have been chosen and was not.
        "balanced" is how many there are of the first class for one of the second, by the
        histogram. With 1, nobody is chosen where few are positive.
    fraction : float, optional
        Fraction of records to choose, such as what there is room for, in place of the one with the
        fewest errors: of each group with ``constraint="selection_rate"``, of all records with
        ``per_group=False``; with "true_positive_rate" the fraction of positives.

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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.postprocessing import DPThresholdClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(4000, 2))
    >>> groups = np.where(X[:, 1] + rng.normal(size=4000) > 0, "a", "b")
    >>> model = DPWorstGroupClassifier(data_norm=1.0)
    >>> equal = DPThresholdClassifier(model, epsilon=4.0, constraint="selection_rate")
    >>> y = (X.sum(axis=1) > 0).astype(int)
    >>> chosen = equal.fit(X, y, groups).predict(X, groups)
    >>> bool(abs(chosen[groups == "a"].mean() - chosen[groups == "b"].mean()) < 0.1)
    True
    """

    constraint: str = "worst_error"
    max_gap: float = 0.0
    miss_cost: Literal["balanced"] | float = "balanced"
    fraction: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.constraint not in CONSTRAINTS:
            raise InputError(f"constraint must be one of {CONSTRAINTS}, got {self.constraint!r}.")
        gap = real_number(self.max_gap, "max_gap")
        if not 0.0 <= gap <= 1.0:
            raise InputError(f"max_gap must be from 0 to 1, got {gap!r}.")
        if self.miss_cost != "balanced":
            positive_finite(self.miss_cost, "miss_cost")
        if self.fraction is not None:
            open_unit(self.fraction, "fraction")
            if self.constraint == "worst_error":
                raise InputError(
                    "fraction must be None with constraint='worst_error', which seeks the fewest "
                    f"errors; 'selection_rate' takes a fraction, got {self.fraction!r}."
                )
        elif self.constraint != "worst_error" and not self.per_group and gap == 0.0:
            raise InputError(
                "max_gap must be positive where all groups share one threshold, which makes their "
                "rates equal by choosing everybody or nobody only, got 0."
            )

    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        likely, per_group = likely_counts(noisy, edges, noise_std), bool(self.per_group)
        if self.miss_cost == "balanced":
            n_negative, n_positive = likely.sum(axis=(0, 2))
            self.miss_cost_ = max(n_negative, 1.0) / max(n_positive, 1.0)
        else:
            self.miss_cost_ = float(self.miss_cost)
        if self.fraction is None:
            self.thresholds_ = least_errors(
                self.constraint, likely, edges, per_group, float(self.max_gap), self.miss_cost_
            )
        else:
            noisy_counts = counted(self.constraint, noisy.astype(np.float64))
            likely, share = counted(self.constraint, likely), float(self.fraction)
            self.thresholds_ = thresholds_of_fraction(likely, noisy_counts, edges, per_group, share)

    def _is_chosen(self, scores: FloatArray, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        return np.asarray(scores >= self.thresholds_[codes])

    def selected(self) -> pd.DataFrame:
        """Return the fraction of each group that the thresholds choose, as ``audit_`` tells it.

        Returns
        -------
        pandas.DataFrame
            A row for each group. With probability 0.95 "low" and "high" hold the fraction of these
            very records; "chosen" is the estimate, whose logarithm is linear within a bin.
        """
        check_is_fitted(self)
        edges, last_edge = self.score_edges_, len(self.score_edges_) - 1
        # the same counts choose the edge, so the intervals hold at all inner edges at once: an
        # error probability of 0.05 is divided among them
        confidence = 1.0 - 0.05 / max(last_edge - 1, 1)

        half_record = 0.5 / max(float(self.histogram_.sum()), 1.0)  # keeps logarithms finite

        @cache
        def rates(edge: int) -> list[tuple[float, float, float]]:  # estimate, low, high by group
            if edge in (0, last_edge):  # everybody is chosen, or nobody
                return [(float(edge == 0),) * 3] * len(self.group_labels_)
            audit = self.audit_.at(edges[edge])
            intervals = audit.rates("selection_rate", confidence=confidence, of="records")
            return [(rate.estimate, rate.low, rate.high) for rate in intervals]

        rows = []
        for group, threshold in enumerate(self.thresholds_):
            above = below = min(int(np.searchsorted(edges, threshold)), last_edge)
            # a threshold inside a bin has that bin's two edges around it
            if above > 0 and (threshold < edges[above] or threshold == edges[last_edge]):
                below -= 1
            lower_edge, upper_edge = rates(below)[group], rates(above)[group]
            logs = np.log(np.maximum([lower_edge[0], upper_edge[0]], half_record))
            chosen = np.exp(np.interp(threshold, edges[[below, above]], logs))
            estimate = chosen if below < above else upper_edge[0]
            rows.append((estimate, upper_edge[1], lower_edge[2]))
        labels = pd.Index(list(self.group_labels_), dtype=object, name="group")
        return pd.DataFrame(rows, labels, ["chosen", "low", "high"])

    @available_if(lambda wrapper: hasattr(wrapper._model, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the model's own probabilities, which no threshold changes."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))


# --- estimates of counts from noisy counts --------------------------------------------------------


def likely_counts(
    noisy: ArrayLike, edges: FloatArray, noise_std: float, trust: float = TRUST, usual: float = 0.0
) -> FloatArray:
    """Estimate counts of at least 0, of shape (n_groups, 2, n_bins), by shrinking noisy ones.

    A group's distribution over bins is drawn to that of all groups; its fraction of positives in a
    bin to that of all groups, and this to the middle score of the bin. The prior counts as `trust`
    times the noise in records; a group's fractions are drawn by at least `usual` records.
    """
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups, _, n_bins = cells.shape
    pooled, middles = cells.sum(axis=0), (edges[:-1] + edges[1:]) / 2
    bin_totals = on_simplex(cells.sum(axis=1))
    distribution = on_simplex(pooled.sum(axis=0)[None])[0]  # of all groups over the bins
    distribution = distribution / distribution.sum() if distribution.any() else np.diff(edges)
    prior_records = trust * noise_std
    # √n_bins: noise on the sum of half of a group's cells; an empty group gets one record
    is_empty = bin_totals.sum(axis=1, keepdims=True) == 0.0
    added = prior_records * np.sqrt(n_bins) + is_empty
    pooled_prior = prior_records * np.sqrt(n_groups)
    overall = _fraction(pooled[1], pooled.sum(axis=0), prior=middles, weight=pooled_prior)
    fractions = _fraction(cells[:, 1], bin_totals, prior=overall, weight=max(prior_records, usual))
    bin_totals = bin_totals + added * distribution
    return np.stack([bin_totals * (1.0 - fractions), bin_totals * fractions], axis=1)


def _fraction(
    positives: FloatArray, totals: FloatArray, *, prior: FloatArray, weight: float
) -> FloatArray:
    """Return each bin's fraction of positives, after `weight` records of the prior fraction."""
    totals, weight = np.maximum(totals, 0.0), max(weight, 1e-9)  # an empty bin has the prior's
    return np.asarray((np.clip(positives, 0.0, totals) + weight * prior) / (totals + weight))


def on_simplex(cells: FloatArray) -> FloatArray:
    """Project each row to the nearest non-negative row of the same sum (0 if that is negative)."""
    totals = np.maximum(cells.sum(axis=1, keepdims=True), 0.0)
    falling = -np.sort(-cells, axis=1)
    ranks = np.arange(1, cells.shape[1] + 1)
    levels = (np.cumsum(falling, axis=1) - totals) / ranks
    n_kept = np.maximum((falling > levels).sum(axis=1), 1)
    level = np.take_along_axis(levels, n_kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(cells - level, 0.0))


def from_edge_on(counts: FloatArray) -> FloatArray:
    """Return the counts above each edge: (..., n_bins) becomes (..., n_bins + 1), the last is 0."""
    tail_sums = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([tail_sums, np.zeros((*counts.shape[:-1], 1))], axis=-1)


# --- calibration and thresholds -------------------------------------------------------------------


def calibrated_fractions(
    noisy: ArrayLike, edges: FloatArray, noise_std: float, per_group: bool, usual: float = USUAL
) -> FloatArray:
    """Return calibrated fractions of positives, (n_groups, n_bins), rising with the score."""
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups = len(cells)
    if not per_group:
        cells, noise_std = cells.sum(axis=0, keepdims=True), noise_std * np.sqrt(n_groups)
    likely = likely_counts(cells, edges, noise_std, usual=usual)
    bin_totals = likely.sum(axis=1)
    middles = (edges[:-1] + edges[1:]) / 2  # stand in for the fraction of an empty bin
    fractions = np.where(bin_totals > 0.0, likely[:, 1] / np.maximum(bin_totals, 1e-300), middles)
    rising = [
        isotonic_regression(group_fractions, sample_weight=weights + 1e-9, y_min=0.0, y_max=1.0)
        for group_fractions, weights in zip(fractions, bin_totals, strict=True)
    ]
    return np.repeat(rising, n_groups // len(rising), axis=0)


# Goals of thresholds: equal rates, among all or among positives, or the worst group's error.
CONSTRAINTS = ("selection_rate", "true_positive_rate", "worst_error")


def least_errors(
    constraint: str,
    counts: FloatArray,
    edges: FloatArray,
    per_group: bool,
    max_gap: float,
    miss_cost: float,
) -> FloatArray:
    """Return each group's threshold with the fewest errors under a constraint.

    "worst_error" minimises the largest error rate of a group. Else the errors of all records are
    minimised with rates of the groups that differ by at most `max_gap`. Counts are of shape
    (n_groups, 2, n_bins), the positive class second; a miss counts as `miss_cost` errors.
    """
    # candidate thresholds are the edges; the last one chooses nobody
    chosen, candidates = from_edge_on(counts), np.append(edges[:-1], NOBODY)
    errors = chosen[:, 0] + miss_cost * (chosen[:, 1, :1] - chosen[:, 1])
    if constraint == "worst_error":
        error_rates = errors / counts.sum(axis=(1, 2))[:, None]
        if per_group:
            return np.asarray(candidates[error_rates.argmin(axis=1)])
        return np.full(len(counts), candidates[error_rates.max(axis=0).argmin()])
    chosen = from_edge_on(counted(constraint, counts))
    rates = chosen / np.maximum(chosen[:, :1], np.finfo(float).tiny)
    if not per_group:
        is_near = np.ptp(rates, axis=0) <= max_gap
        total = np.where(is_near, errors.sum(axis=0), np.inf)
        return np.full(len(errors), candidates[total.argmin()])
    # the fractional edge index at which each group has each rate of the grid, and its errors there
    indices = np.arange(len(edges), dtype=np.float64)
    positions = np.stack([np.interp(_RATES, curve[::-1], indices[::-1]) for curve in rates])
    costs = np.stack(
        [np.interp(at, indices, curve) for at, curve in zip(positions, errors, strict=True)]
    )
    # in the best window of rates, as wide as the gap, each group takes its cheapest rate
    width = int(max_gap * (len(_RATES) - 1) + 1e-9)
    windows = np.lib.stride_tricks.sliding_window_view(costs, width + 1, axis=1)
    start = int(windows.min(axis=2).sum(axis=0).argmin())
    best = start + windows[:, start].argmin(axis=1)
    best_positions = positions[np.arange(len(errors)), best]
    return np.where(best == 0, NOBODY, np.interp(best_positions, indices, edges))


def counted(constraint: str, counts: FloatArray) -> FloatArray:
    """Return counts by bin of the records that a rate is a fraction of: positives, or all."""
    return counts[:, 1] if constraint == "true_positive_rate" else np.asarray(counts.sum(axis=1))


def thresholds_of_fraction(
    likely: FloatArray, noisy: FloatArray, edges: FloatArray, per_group: bool, fraction: float
) -> FloatArray:
    """Return each group's threshold above which a fraction of the counted records lies.

    `likely` and `noisy` are counts of shape (n_groups, n_bins). Thresholds per group use likely
    counts, which are at least 0 and so too large on average in sparse bins. One for all groups
    uses sums of noisy counts, which are unbiased and quiet enough, made to fall from edge to edge.
    Within a bin the logarithm of the count above is linear, as scores thin out towards 1.
    """
    above = from_edge_on(likely if per_group else noisy.sum(axis=0, keepdims=True))
    if not per_group:
        above = isotonic_regression(above[0], increasing=False)[None]
    log_counts = np.log(np.maximum(above, 0.5))  # half a record where none is left
    thresholds = [
        np.interp(logs[0] + np.log(fraction), logs[::-1], edges[::-1]) for logs in log_counts
    ]
    return np.repeat(thresholds, len(likely) // len(thresholds))


# --- effects that only rise -----------------------------------------------------------------------


def monotone(model: Any, effects: Mapping[str, int], schema: Any = None) -> Any:
    """Return a copy of a model in which some effects only rise or only fall.

    Parameters
    ----------
    model : pipeline or estimator
        A fitted pipeline of a `PublicSchema` or `PublicShapes` and a linear model with one score.
    effects : mapping from column name to 1 or -1
        1 for a number, date or order whose effect may only rise, -1 for one that may only fall.
    schema : transformer, optional
        What stands in front of the model, where that is no pipeline.

    Returns
    -------
    pipeline or estimator
        A copy with other weights; what it cost is what the model cost.

    Notes
    -----
    The weights of a column move to the nearest ones, in norm, with that sign on every piece: a
    projection onto a cone, made of released weights alone. Where the truth is monotone it brings no
    column's weights farther from those of the truth.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.inspection import shape_functions
    >>> from sklearn_dpwg.postprocessing import monotone
    >>> from sklearn_dpwg.preprocessing import PublicShapes
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.uniform(0, 10, (2000, 1)), rng.choice(["a", "b"], 2000)
    >>> y = X[:, 0] + 3.0 * rng.normal(size=2000) > 5.0
    >>> model = make_pipeline(PublicShapes((0, 10)), DPWorstGroupClassifier(0.3, data_norm=1.0))
    >>> model = model.fit(X, y, dpworstgroupclassifier__groups=groups)
    >>> rising = monotone(model, {"x0": 1})
    >>> bool((np.diff(shape_functions(rising)[0].effects) > -1e-9).all())
    True
    """
    monotone_model = deepcopy(model)
    estimator, schema = parts_of(monotone_model, schema)
    weights = np.array(np.atleast_2d(estimator.coef_), dtype=np.float64)
    if len(weights) > 1:
        raise InputError(f"model must have one score, got {len(weights)}: one a class.")
    columns = {column.name: column for column in schema._shown_columns()}
    pairs = {name for column in columns.values() for name in column.of}
    allowed = [name for name, column in columns.items() if column.has_order and name not in pairs]
    for name, sign in effects.items():
        if name not in allowed or sign not in (1, -1):
            raise InputError(
                f"effects must be 1 or -1 of numbers, dates or orders without interactions, which "
                f"are {allowed!r}, got {sign!r} of {name!r}."
            )
        # with A the steps between values as rows, the nearest weights with A w ≥ 0 are w + Aᵀν,
        # where ν ≥ 0 minimises ‖w + Aᵀν‖
        column = columns[name]
        steps = sign * np.diff(column.rows[: column.n_known], axis=0)
        steps = np.unique(steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)
        multipliers, _ = nnls(steps.T, -weights[0, column.columns])
        weights[0, column.columns] += steps.T @ multipliers
    estimator.coef_ = weights.reshape(np.shape(estimator.coef_))
    return monotone_model
