"""Classification by thresholds that were chosen with differential privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_dpwg._checks import FloatArray, open_unit, positive_finite, real_number
from sklearn_dpwg._repr import documented
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.postprocessing.base import SHARED_PARAMETERS, ScorePostprocessor
from sklearn_dpwg.postprocessing.histogram import (
    N_BINS,
    from_edge_on,
    likely_counts,
    log_falling,
)
from sklearn_dpwg.postprocessing.selection import Selection

# Rates that thresholds are sought for; finer ones differ by less than the noise.
_RATES = np.linspace(0.0, 1.0, 401)
# A score that nobody has, so that a threshold there chooses nobody.
NOBODY = np.inf


def worst_error(
    counts: FloatArray, edges: FloatArray, per_group: bool, max_gap: float, miss_cost: float
) -> FloatArray:
    """Return the thresholds at which the largest error rate of a group is least."""
    errors = _errors(counts, miss_cost) / counts.sum(axis=(1, 2))[:, None]
    candidates = np.append(edges[:-1], NOBODY)
    if per_group:
        return np.asarray(candidates[errors.argmin(axis=1)])
    return np.full(len(counts), candidates[errors.max(axis=0).argmin()])


def _errors(counts: FloatArray, miss_cost: float) -> FloatArray:
    """Return the errors of each group with a threshold at each edge; the last chooses nobody."""
    chosen = from_edge_on(counts)
    missed = chosen[:, 1, :1] - chosen[:, 1]
    return np.asarray(chosen[:, 0] + miss_cost * missed)


def _equalised(
    constraint: str,
    counts: FloatArray,
    edges: FloatArray,
    per_group: bool,
    max_gap: float,
    miss_cost: float,
) -> FloatArray:
    """Return thresholds with few errors whose rates of what is counted differ by at most a gap."""
    errors = _errors(counts, miss_cost)
    chosen = from_edge_on(COUNTED[constraint](counts))
    rates = chosen / np.maximum(chosen[:, :1], np.finfo(float).tiny)
    if not per_group:
        is_near = np.ptp(rates, axis=0) <= max_gap
        total = np.where(is_near, errors.sum(axis=0), np.inf)
        return np.full(len(errors), np.append(edges[:-1], NOBODY)[total.argmin()])
    places = np.stack([_places_of(of_group) for of_group in rates])
    costs = np.stack(
        [
            np.interp(at, np.arange(len(edges)), of_group)
            for at, of_group in zip(places, errors, strict=True)
        ]
    )
    width = int(max_gap * (len(_RATES) - 1) + 1e-9)
    windows = np.lib.stride_tricks.sliding_window_view(costs, width + 1, axis=1)
    start = int(windows.min(axis=2).sum(axis=0).argmin())
    best = start + windows[:, start].argmin(axis=1)
    at = places[np.arange(len(errors)), best]
    found = np.interp(at, np.arange(len(edges)), edges)
    return np.where(best == 0, NOBODY, found)


def thresholds_of_share(
    likely: FloatArray, noisy: FloatArray, edges: FloatArray, per_group: bool, share: float
) -> FloatArray:
    """Return the thresholds that choose a share of what is counted, of each group or of all.

    Those of groups follow from likely counts, which never are below 0, so that a sparse bin has too
    many on average and too few are chosen. For all together the noise is low enough to take sums of
    noisy counts instead, which are right in the mean, made to fall from edge to edge.
    """
    if per_group:
        falling = log_falling(likely)
    else:
        sums = from_edge_on(noisy.sum(axis=0))
        falling = np.log(np.maximum(isotonic_regression(sums, increasing=False), 0.5))[None]
    wanted = falling[:, 0] + np.log(share)
    found = [
        np.interp(at, of_group[::-1], edges[::-1])
        for at, of_group in zip(wanted, falling, strict=True)
    ]
    return np.repeat(found, len(likely) // len(found))


def _places_of(rates: FloatArray) -> FloatArray:
    """Return the places, in bins, at which a falling curve of rates takes each of the rates."""
    return np.interp(_RATES, rates[::-1], np.arange(len(rates), dtype=np.float64)[::-1])


# whose shares are to be equal, or to be stated
COUNTED: dict[str, Callable[[FloatArray], FloatArray]] = {
    "selection_rate": lambda counts: np.asarray(counts.sum(axis=1)),
    "true_positive_rate": lambda counts: counts[:, 1],
}
Rule = Callable[[FloatArray, FloatArray, bool, float, float], FloatArray]
# thresholds by counts, edges, per_group, max_gap and miss_cost
RULES: dict[str, Rule] = {
    "selection_rate": partial(_equalised, "selection_rate"),
    "true_positive_rate": partial(_equalised, "true_positive_rate"),
    "worst_error": worst_error,
}


def _has_probabilities(wrapper: DPThresholdClassifier) -> bool:
    return hasattr(getattr(wrapper, "estimator_", wrapper.estimator), "predict_proba")


@documented(SHARED_PARAMETERS)
class DPThresholdClassifier(ScorePostprocessor):
    """Choose the threshold of each group, or one for all, by one private histogram of scores.

    A model gives scores. How many records of each group and class have which scores is released
    once, with noise; thresholds follow from that alone. The guarantee is for model and thresholds
    together.

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
    <group_labels, group_by, classes>
    n_bins : int, default=12
        Number of bins of scores from 0 to 1, of equal width in log odds but for the outer two.
        More tell finer, and are noisier together.
    <score_edges, histogram_share, held_out, random_state>

    Attributes
    ----------
    miss_cost_ : float
        What a miss counted as.
    thresholds_ : ndarray of shape (n_groups,)
        Least score of the second class, in the order of ``group_labels_``; infinite where nobody
        is chosen.
    <histogram_ to plan_>
    privacy_ : PrivacyGuarantee
        The guarantee of model and thresholds together.
    <n_features_in_, feature_names_in_>

    See Also
    --------
    DPCalibratedClassifier : Calibrated probabilities, from the same histogram.

    Notes
    -----
    A record is in one cell of the histogram and moves two when it is replaced, whatever its group
    was and is (``docs/theory/thresholds.md``). Scores are the probabilities of the second class, or
    the logistic function of decision values where a model has no probabilities.

    Where the noise is loud for a group, its scores are taken to lie as those of all groups do and
    to mean what they say, so that thresholds of small groups are close to those of all.

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
        classes: Sequence[Any] | None = None,
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
            classes=classes,
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

    def _check_parameters(self) -> FloatArray:
        if self.constraint not in RULES:
            raise InputError(f"constraint must be one of {sorted(RULES)}, got {self.constraint!r}.")
        gap = real_number(self.max_gap, "max_gap")
        if not 0.0 <= gap <= 1.0:
            raise InputError(f"max_gap must be from 0 to 1, got {gap!r}.")
        if isinstance(self.miss_cost, str) and self.miss_cost != "balanced":
            raise InputError(
                f"miss_cost must be 'balanced' or a positive number, got {self.miss_cost!r}."
            )
        if self.miss_cost != "balanced":
            positive_finite(self.miss_cost, "miss_cost")
        if self.share is not None:
            open_unit(self.share, "share")
            if self.constraint == "worst_error":
                raise InputError(
                    "share must be None with constraint='worst_error', which looks for the fewest "
                    f"errors; 'selection_rate' takes a share, got {self.share!r}."
                )
        edges = super()._check_parameters()
        looks_for_one = self.constraint != "worst_error" and self.share is None
        if looks_for_one and not self.per_group and gap == 0.0:
            raise InputError(
                "max_gap must be positive where all groups share one threshold, which makes their "
                "rates equal by choosing everybody or nobody only, got 0."
            )
        return edges

    def _learn(self, noisy: NDArray[np.int64], edges: FloatArray, noise_std: float) -> None:
        likely, per_group = likely_counts(noisy, edges, noise_std), bool(self.per_group)
        first, second = likely.sum(axis=(0, 2))
        balanced = self.miss_cost == "balanced"
        self.miss_cost_ = max(first, 1.0) / max(second, 1.0) if balanced else float(self.miss_cost)
        if self.share is None:
            how = edges, per_group, float(self.max_gap), self.miss_cost_
            self.thresholds_ = RULES[self.constraint](likely, *how)
        else:
            count, share = COUNTED[self.constraint], float(self.share)
            counted = count(likely), count(np.asarray(noisy, dtype=np.float64))
            self.thresholds_ = thresholds_of_share(*counted, edges, per_group, share)

    def _is_chosen(self, scores: FloatArray, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        return np.asarray(scores >= self.thresholds_[codes])

    def selected(self) -> pd.DataFrame:
        """Return which share of the records is chosen, by half and by the thresholds.

        It follows from the released histogram, noise included, and costs nothing more.

        Returns
        -------
        pandas.DataFrame
            A row for each group and one for "all". Columns: "records", how many there are, by the
            histogram where their number is not public; "positive", the share of the second
            class; "at 0.5", the share that the model alone chooses, with probabilities of at least
            one half; "chosen", the share that the thresholds choose; "low" and "high", limits of
            that share.

        Notes
        -----
        Shares come from the noisy counts as they are, which are right in the mean: one of a small
        group may be below 0 or above 1, and means that the noise hides it. Where the size is noisy
        too, a share is a quotient of two such counts, NaN if no record seems to be there.

        With probability 0.95 the limits of a row hold the share of these very records, by the law
        of the noise, for thresholds that were chosen by the same counts. Of a bin that a threshold
        divides they take none and all, and the share what the histogram makes likely.
        """
        check_is_fitted(self)
        likely = likely_counts(self.histogram_, self.score_edges_, self.audit_._counted.std)
        sizes = getattr(self, "group_sizes_", None)
        found = Selection(self.histogram_, likely, self.score_edges_, sizes, self._n_records)
        table = np.column_stack(
            [
                found.records(),
                found.positive(),
                found.chosen(np.full(len(likely), 0.5)),
                found.chosen(self.thresholds_),
                found.limits(self.thresholds_, self.audit_.noise, bool(self.per_group)),
            ]
        )
        labels = pd.Index([*self.group_labels_, "all"], dtype=object, name="group")
        names = ["records", "positive", "at 0.5", "chosen", "low", "high"]
        return pd.DataFrame(table, labels, names).astype({"records": int})

    @available_if(_has_probabilities)
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
