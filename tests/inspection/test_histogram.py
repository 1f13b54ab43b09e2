"""What bins of scores tell, beside the referees, and how often its intervals hold."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn import metrics as fairness
from sklearn import metrics
from sklearn.calibration import calibration_curve

from sklearn_dpwg.inspection import AuditResult, GroupAudit
from sklearn_dpwg.inspection.histogram import OF_SCORES, Histogram
from sklearn_dpwg.privacy import IntegerNoise

LABELS = ["a", "b"]
RNG = np.random.default_rng(0)
N = 3_000
GROUPS = RNG.choice(LABELS, N, p=(0.7, 0.3))
SCORES = RNG.beta(2.0, 3.0, N)
Y = (RNG.random(N) < SCORES ** np.where(GROUPS == "a", 1.0, 1.5)).astype(int)
FINE = np.round(np.linspace(0.002, 0.998, 499), 3).tolist()


@pytest.fixture(scope="module")
def exact() -> AuditResult:
    return GroupAudit(np.inf, group_labels=LABELS, score_edges=FINE).run(Y, SCORES, GROUPS)


REFEREES = {
    "selection_rate": fairness.selection_rate,
    "error_rate": metrics.zero_one_loss,
    "true_positive_rate": fairness.true_positive_rate,
    "false_positive_rate": fairness.false_positive_rate,
    "false_negative_rate": fairness.false_negative_rate,
    "true_negative_rate": fairness.true_negative_rate,
    "base_rate": lambda y, stated: np.mean(y),
    "accuracy": metrics.accuracy_score,
    "precision": metrics.precision_score,
}


@pytest.mark.parametrize("threshold", [0.5, 0.23, 0.7])
def test_rates_are_those_of_fairlearn_at_every_edge(exact, threshold):
    edge = min(FINE, key=lambda edge: abs(edge - threshold))
    table = exact.at(0.5).at(edge).table()
    frame = fairness.MetricFrame(
        metrics=REFEREES, y_true=Y, y_pred=(edge <= SCORES).astype(int), sensitive_features=GROUPS
    )
    for name in REFEREES:
        for group in LABELS:
            assert table.loc[(group, name), "estimate"] == pytest.approx(
                frame.by_group.loc[group, name]
            ), name


def test_scores_are_judged_as_scikit_learn_judges_them(exact):
    table = exact.table()["estimate"]
    for group in LABELS:
        y, scores = Y[group == GROUPS], SCORES[group == GROUPS]
        assert table[group, "auc"] == pytest.approx(metrics.roc_auc_score(y, scores), abs=2e-3)
        brier = metrics.brier_score_loss(y, scores)
        assert table[group, "squared_error"] == pytest.approx(brier, abs=2e-3)
        loss = metrics.log_loss(y, np.clip(scores, 0.01, 0.99))
        assert table[group, "log_loss"] == pytest.approx(loss, abs=5e-3)


def test_calibration_is_that_of_scikit_learn():
    edges = np.linspace(0.1, 0.9, 9).round(1).tolist()
    made = GroupAudit(np.inf, group_labels=LABELS, score_edges=edges).run(Y, SCORES, GROUPS)
    for group in LABELS:
        y, scores = Y[group == GROUPS], SCORES[group == GROUPS]
        fractions, _ = calibration_curve(y, scores, n_bins=10)
        known = [one for one in made.calibration(group) if not np.isnan(one.estimate)]
        assert [one.estimate for one in known] == pytest.approx(fractions)
        middles = (np.array([0, *edges]) + np.array([*edges, 1])) / 2
        counts = np.bincount((scores * 10).astype(int), minlength=10)
        distances = [
            abs(fraction - middle) for fraction, middle in zip(fractions, middles, strict=False)
        ]
        expected = np.average(distances, weights=counts[: len(fractions)])
        assert made.table().loc[(group, "calibration_error"), "estimate"] == pytest.approx(expected)
    with pytest.raises(ValueError, match="group must be one of"):
        made.calibration("z")
    alone = GroupAudit(np.inf, score_edges=[0.5]).run(Y, SCORES, GROUPS)
    with pytest.raises(ValueError, match="calibration needs outcomes and score_edges"):
        alone.calibration("a")
    with pytest.raises(ValueError, match="threshold must be one of the edges"):
        made.at(0.55)


def released(scores, positive, n_runs, epsilon, n=400):
    """Return the results of audits of fresh people, each a group of one audit."""
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(n_runs), n)
    drawn = rng.choice(len(scores), size=len(codes))
    y = (rng.random(len(codes)) < np.array(positive)[drawn]).astype(int)
    edges = np.linspace(0.1, 0.9, 9).round(1).tolist()
    made = GroupAudit(epsilon, group_labels=range(n_runs), score_edges=edges)
    return made.run(y, np.array(scores)[drawn], codes)


# scores in the middle of bins, and how often they come true: good, none, the best, and skewed ones
WORLDS = {
    "good": ([0.15, 0.35, 0.55, 0.75], [0.1, 0.3, 0.6, 0.8]),
    "calibrated": ([0.25, 0.45, 0.65], [0.25, 0.45, 0.65]),
    "perfect": ([0.05, 0.95], [0.0, 1.0]),
    "rare": ([0.05, 0.15], [0.02, 0.1]),
}


def truths(scores, positive):
    """Return what the metrics are of, for people who have each of the scores alike."""
    scores, positive = np.array(scores), np.array(positive)
    yes, no = positive / positive.sum(), (1 - positive) / (1 - positive).sum()
    order = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    return {
        "auc": yes @ order @ no,
        "calibration_error": np.mean(abs(scores - positive)),
        "squared_error": np.mean(positive * (1 - scores) ** 2 + (1 - positive) * scores**2),
        "log_loss": -np.mean(positive * np.log(scores) + (1 - positive) * np.log(1 - scores)),
    }


@pytest.mark.parametrize("epsilon", [np.inf, 1.0, 0.3])
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_of_what_bins_tell_cover(world, epsilon):
    result, n_runs = released(*WORLDS[world], 300, epsilon), 300
    for metric, truth in truths(*WORLDS[world]).items():
        missed = [not rate.low <= truth <= rate.high for rate in result.rates(metric)]
        # 5 % and three deviations of such a fraction
        assert np.mean(missed) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_runs), metric


@pytest.mark.parametrize(
    "noise", [None, IntegerNoise("laplace", 30.0), IntegerNoise("gaussian", 9)]
)
@pytest.mark.parametrize("n", [0, 3, 10**6])
def test_limits_are_in_order_whatever_noise_made_of_counts(noise, n):
    """And widen with the confidence."""
    rng = np.random.default_rng(n)
    edges = tuple(np.linspace(0.0, 1.0, 7).tolist())
    for _ in range(20):
        counts = rng.integers(-40 if noise else 0, 40, size=(1, 2, 6)) + n // 12
        counted = Histogram(counts, 3, noise, None, 1, edges)
        for metric in OF_SCORES:
            inner, outer = (counted.interval(metric, 0, level) for level in (0.9, 0.999))
            assert inner.low <= inner.high, metric
            # noise that leaves no value leaves all
            is_all = (inner.low, inner.high) == (0.0, 1.0)
            assert is_all or outer.low <= inner.low <= inner.high <= outer.high, metric
            assert np.isnan(inner.estimate) or inner.low <= inner.estimate <= inner.high
