"""What released numbers alone decide: calibration, thresholds, and effects that only rise."""

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

# How far noise is trusted less than its size says: what is drawn to the usual is weighed as if by
# so many times the records that noise may feign. `benchmarks/thresholds.py trust` prints others.
TRUST = 3.0
# Records of the usual fraction that every bin of a group has besides its own in a calibration, so
# that a few people are not taken for a law. `benchmarks/thresholds.py usual` prints others.
USUAL = 3.0
# A score that nobody has, so that a threshold there chooses nobody.
NOBODY = np.inf
# Rates that thresholds are sought for; finer ones differ by less than the noise.
_RATES = np.linspace(0.0, 1.0, 401)


# What both document alike, by the names of the parameters.
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
        first, second = likely.sum(axis=(0, 2))
        balanced = self.miss_cost == "balanced"
        self.miss_cost_ = max(first, 1.0) / max(second, 1.0) if balanced else float(self.miss_cost)
        if self.fraction is None:
            rule = self.constraint, likely, edges, per_group, float(self.max_gap)
            self.thresholds_ = least_errors(*rule, self.miss_cost_)
        else:
            of_likely = counted(self.constraint, likely)
            of_noisy = counted(self.constraint, noisy.astype(np.float64))
            known = of_likely, of_noisy, edges, per_group
            self.thresholds_ = thresholds_of_fraction(*known, float(self.fraction))

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
        edges, last = self.score_edges_, len(self.score_edges_) - 1
        # at each of the edges they would miss with the probability of an error over their number,
        # so that they hold at whichever one is chosen by the same counts
        confidence = 1.0 - 0.05 / max(last - 1, 1)

        one_half = 0.5 / max(float(self.histogram_.sum()), 1.0)

        @cache
        def rates(place: int) -> list[tuple[float, float, float]]:
            if place in (0, last):  # everybody is chosen, or nobody can be
                return [(float(place == 0),) * 3] * len(self.group_labels_)
            at = self.audit_.at(edges[place])
            listed = at.rates("selection_rate", confidence=confidence, of="records")
            return [(one.estimate, one.low, one.high) for one in listed]

        rows = []
        for group, threshold in enumerate(self.thresholds_):
            above = below = min(int(np.searchsorted(edges, threshold)), last)
            # where it lies says whether it divides a bin, however few there seem to be above it
            if above > 0 and (threshold < edges[above] or threshold == edges[last]):
                below -= 1
            lower, upper = rates(below)[group], rates(above)[group]
            logs = np.log(np.maximum([lower[0], upper[0]], one_half))
            chosen = np.exp(np.interp(threshold, edges[[below, above]], logs))
            rows.append((chosen if below < above else upper[0], upper[1], lower[2]))
        labels = pd.Index(list(self.group_labels_), dtype=object, name="group")
        return pd.DataFrame(rows, labels, ["chosen", "low", "high"])

    @available_if(lambda wrapper: hasattr(wrapper._model, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the model's own probabilities, which no threshold changes."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))


# --- what noisy counts stand for ------------------------------------------------------------------


def likely_counts(
    noisy: ArrayLike,
    edges: FloatArray,
    noise_std: float,
    trust: float = TRUST,
    usual: float = 0.0,
) -> FloatArray:
    """Return counts of at least 0 that noisy ones may stand for, quieter than they are.

    Where noise is loud, how the scores of a group lie is drawn to how all lie, and which fraction
    of a bin is positive to that of all groups, which is drawn to what the scores say themselves.
    The former fraction has the weight of at least ``usual`` records, however quiet the noise is.
    """
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups, _, n_bins = cells.shape
    pooled, claimed = cells.sum(axis=0), (edges[:-1] + edges[1:]) / 2
    in_bins = on_simplex(cells.sum(axis=1))
    of_all = on_simplex(pooled.sum(axis=0)[None])[0]
    of_all = of_all / of_all.sum() if of_all.any() else np.diff(edges)
    # noise on the sum of half of a group's cells; where nobody is, one record stands for all
    added = trust * noise_std * np.sqrt(n_bins) + (in_bins.sum(axis=1, keepdims=True) == 0.0)
    loud = trust * noise_std
    overall = _fraction(pooled[1], pooled.sum(axis=0), claimed, loud * np.sqrt(n_groups))
    fractions = _fraction(cells[:, 1], in_bins, overall, max(loud, usual))
    in_bins = in_bins + added * of_all
    return np.stack([in_bins * (1.0 - fractions), in_bins * fractions], axis=1)


def _fraction(
    positives: FloatArray, totals: FloatArray, usual: FloatArray, added: float
) -> FloatArray:
    """Return fractions of positives, with so many usual records added to every bin."""
    totals, added = np.maximum(totals, 0.0), max(added, 1e-9)
    return np.asarray((np.clip(positives, 0.0, totals) + added * usual) / (totals + added))


def on_simplex(cells: FloatArray) -> FloatArray:
    """Return the nearest rows that are not negative and have the same sums, or none below 0."""
    totals = np.maximum(cells.sum(axis=1, keepdims=True), 0.0)
    falling = -np.sort(-cells, axis=1)
    ranks = np.arange(1, cells.shape[1] + 1)
    levels = (np.cumsum(falling, axis=1) - totals) / ranks
    n_kept = np.maximum((falling > levels).sum(axis=1), 1)
    level = np.take_along_axis(levels, n_kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(cells - level, 0.0))


def from_edge_on(counts: FloatArray) -> FloatArray:
    """Return sums over the bins at and above each edge."""
    falling = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([falling, np.zeros((*counts.shape[:-1], 1))], axis=-1)


# --- calibration and thresholds -------------------------------------------------------------------


def calibrated_fractions(
    noisy: ArrayLike,
    edges: FloatArray,
    noise_std: float,
    per_group: bool,
    usual: float = USUAL,
) -> FloatArray:
    """Return for each group the fraction of positives in each bin, rising with the score."""
    cells = np.asarray(noisy, dtype=np.float64)
    n_groups = len(cells)
    if not per_group:
        cells, noise_std = cells.sum(axis=0, keepdims=True), noise_std * np.sqrt(n_groups)
    likely = likely_counts(cells, edges, noise_std, usual=usual)
    in_bins = likely.sum(axis=1)
    claimed = (edges[:-1] + edges[1:]) / 2
    fractions = np.where(in_bins > 0.0, likely[:, 1] / np.maximum(in_bins, 1e-300), claimed)
    rising = [
        isotonic_regression(of_group, sample_weight=weights + 1e-9, y_min=0.0, y_max=1.0)
        for of_group, weights in zip(fractions, in_bins, strict=True)
    ]
    return np.repeat(rising, n_groups // len(rising), axis=0)


# What thresholds are chosen for: one for the worst group, and whose rates are to be equal.
CONSTRAINTS = ("selection_rate", "true_positive_rate", "worst_error")


def least_errors(
    constraint: str,
    counts: FloatArray,
    edges: FloatArray,
    per_group: bool,
    max_gap: float,
    miss_cost: float,
) -> FloatArray:
    """Return thresholds with few errors: of the worst group, or of all with rates that are near.

    Counts are of shape (n_groups, 2, n_bins), the positive class last. Errors are those at each
    edge; the last chooses nobody.
    """
    chosen, candidates = from_edge_on(counts), np.append(edges[:-1], NOBODY)
    errors = chosen[:, 0] + miss_cost * (chosen[:, 1, :1] - chosen[:, 1])
    if constraint == "worst_error":
        of_group = errors / counts.sum(axis=(1, 2))[:, None]
        if per_group:
            return np.asarray(candidates[of_group.argmin(axis=1)])
        return np.full(len(counts), candidates[of_group.max(axis=0).argmin()])
    chosen = from_edge_on(counted(constraint, counts))
    rates = chosen / np.maximum(chosen[:, :1], np.finfo(float).tiny)
    if not per_group:
        is_near = np.ptp(rates, axis=0) <= max_gap
        total = np.where(is_near, errors.sum(axis=0), np.inf)
        return np.full(len(errors), candidates[total.argmin()])
    # where, in bins, a falling curve of rates takes each of the rates, and the errors there
    numbers = np.arange(len(edges), dtype=np.float64)
    places = np.stack([np.interp(_RATES, each[::-1], numbers[::-1]) for each in rates])
    costs = np.stack(
        [np.interp(at, numbers, each) for at, each in zip(places, errors, strict=True)]
    )
    # each group takes the cheapest rate in a window as wide as the gap
    width = int(max_gap * (len(_RATES) - 1) + 1e-9)
    windows = np.lib.stride_tricks.sliding_window_view(costs, width + 1, axis=1)
    start = int(windows.min(axis=2).sum(axis=0).argmin())
    best = start + windows[:, start].argmin(axis=1)
    at = places[np.arange(len(errors)), best]
    return np.where(best == 0, NOBODY, np.interp(at, numbers, edges))


def counted(constraint: str, counts: FloatArray) -> FloatArray:
    """Return counts by bin of those whose fractions are to be equal, or to be stated."""
    return counts[:, 1] if constraint == "true_positive_rate" else np.asarray(counts.sum(axis=1))


def thresholds_of_fraction(
    likely: FloatArray, noisy: FloatArray, edges: FloatArray, per_group: bool, fraction: float
) -> FloatArray:
    """Return the thresholds that choose a fraction of what is counted, of each group or of all.

    Those of groups follow from likely counts, which never are below 0, so that a sparse bin has too
    many on average and too few are chosen. For all together the noise is low enough to take sums of
    noisy counts instead, which are right in the mean, made to fall from edge to edge. Logarithms
    are taken to be linear within a bin: scores are denser at its lower end where few are left.
    """
    above = from_edge_on(likely if per_group else noisy.sum(axis=0, keepdims=True))
    if not per_group:
        above = isotonic_regression(above[0], increasing=False)[None]
    falling = np.log(np.maximum(above, 0.5))
    thresholds = [
        np.interp(of_group[0] + np.log(fraction), of_group[::-1], edges[::-1])
        for of_group in falling
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
    bent = deepcopy(model)
    inner, schema = parts_of(bent, schema)
    weights = np.array(np.atleast_2d(inner.coef_), dtype=np.float64)
    if len(weights) > 1:
        raise InputError(f"model must have one score, got {len(weights)}: one a class.")
    columns = {one.name: one for one in schema._seen()}
    pairs = {name for one in columns.values() for name in one.of}
    known = [name for name, one in columns.items() if one.has_order and name not in pairs]
    for name, sign in effects.items():
        if name not in known or sign not in (1, -1):
            raise InputError(
                f"effects must be 1 or -1 of numbers, dates or orders without interactions, which "
                f"are {known!r}, got {sign!r} of {name!r}."
            )
        # the nearest weights for which no step falls are w + Aᵀν for the best ν at least 0
        one = columns[name]
        steps = sign * np.diff(one.rows[: one.n_known], axis=0)
        steps = np.unique(steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)
        moved, _ = nnls(steps.T, -weights[0, one.columns])
        weights[0, one.columns] += steps.T @ moved
    inner.coef_ = weights.reshape(np.shape(inner.coef_))
    return bent
