"""Thresholds and calibration as estimators: scikit-learn's checks, routing, copies, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.postprocessing.classifiers import calibrated_fractions
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP

BOTH = [DPThresholdClassifier, DPCalibratedClassifier]

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),
]

QUICK = DPWorstGroupClassifier(data_norm=1.0, solver=MGR(n_steps=5))
# at a small ε a fit on a few records plans again and again, for its warning
CHECKS = parametrize_with_checks(
    [
        DPThresholdClassifier(QUICK, epsilon=100.0),
        DPCalibratedClassifier(DPWorstGroupClassifier(data_norm=1.0), epsilon=math.inf),
    ],
)


# as a list, since scikit-learn 1.6 hands over a generator, which pytest 9 deprecates
@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)


# --- groups ---------------------------------------------------------------------------------------


def by_column(X):
    return np.array(list("abc"))[np.rint(3 * np.asarray(X)[:, 1]).astype(int)]


@pytest.mark.parametrize("kind", BOTH)
def test_prediction_needs_the_groups(kind, frozen, records):
    X, y, groups = records
    model = kind(frozen, random_state=0).fit(X, y, groups)
    with pytest.raises(ValueError, match="groups must be given"):
        model.predict(X)
    with pytest.raises(ValueError, match="alone, got "):
        model.predict(X, np.full(len(y), "z"))
    order = np.argsort(groups)
    assert np.array_equal(model.predict(X[order], groups[order]), model.predict(X, groups)[order])
    by_X = clone(model).set_params(group_by=by_column).fit(X, y)
    assert np.array_equal(by_X.predict(X), model.predict(X, groups))


def test_one_for_all_needs_no_groups(frozen, records):
    X, y, groups = records
    model = DPThresholdClassifier(frozen, per_group=False, random_state=0).fit(X, y, groups)
    assert np.array_equal(model.predict(X), model.predict(X, groups))
    assert DPThresholdClassifier(frozen, random_state=0).fit(X, y).predict(X).shape == y.shape


def test_each_row_has_the_threshold_of_its_group(frozen, records):
    X, y, groups = records
    model = DPThresholdClassifier(frozen, constraint="selection_rate", random_state=0)
    model.fit(X, y, groups)
    assert len(set(model.thresholds_)) == 3
    for label, threshold in zip(model.group_labels_, model.thresholds_, strict=True):
        members = groups == label
        chosen = model.predict(X[members], groups[members])
        assert np.array_equal(chosen == 1, X[members, 0] >= threshold)
    assert np.array_equal(model.predict_proba(X)[:, 1], X[:, 0])
    assert model.score(X, y, groups) == np.mean(model.predict(X, groups) == y)


def few_positives(seed=0):
    """Return scores that are right, one in twenty of which is positive and none above one half."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(list("abc"), size=20_000)
    scores = np.clip(rng.beta(2.0, 38.0, size=20_000) + 0.01 * (groups == "a"), 0.0, 0.45)
    return np.column_stack([scores, scores]), (rng.random(20_000) < scores).astype(int), groups


@pytest.mark.parametrize(
    ("asked", "per_group"),
    [
        ({}, False),
        ({"constraint": "selection_rate"}, True),
        ({"constraint": "true_positive_rate"}, True),
    ],
)
def test_few_positives_do_not_choose_nobody(asked, per_group, frozen):
    X, y, groups = few_positives()
    gap = {} if per_group else {"max_gap": 0.2}
    model = DPThresholdClassifier(frozen, per_group=per_group, random_state=0, **asked, **gap)
    chosen = model.fit(X, y, groups).predict(X, groups)
    assert model.miss_cost_ == pytest.approx((y == 0).sum() / y.sum(), rel=0.1)
    assert 0.05 < chosen.mean() < 0.9
    assert chosen[y == 1].mean() > chosen[y == 0].mean() + 0.1
    if not asked:
        nobody = model.set_params(miss_cost=1.0).fit(X, y, groups)
        assert nobody.predict(X, groups).mean() < 0.01


def test_it_says_what_it_selects(frozen):
    X, y, groups = few_positives()
    asked = {"constraint": "selection_rate", "fraction": 0.2, "random_state": 0}
    for epsilon in (math.inf, 1.0):
        model = DPThresholdClassifier(frozen, epsilon=epsilon, **asked).fit(X, y, groups)
        table, chosen = model.selected(), model.predict(X, groups)
        assert list(table.index) == ["a", "b", "c"]
        for label in table.index:
            fraction = chosen[groups == label].mean()
            assert table.loc[label, "chosen"] == pytest.approx(fraction, abs=0.02)
            assert table.loc[label, "low"] <= fraction <= table.loc[label, "high"]
    model.thresholds_ = np.array([0.0, np.inf, 1.0])
    everybody, nobody, highest = model.selected().to_numpy()
    assert everybody.tolist() == [1.0] * 3
    assert nobody.tolist() == [0.0] * 3
    # however few the counts say are above the last edge, some may have the highest score
    assert highest[1] == 0.0 < highest[2]


SMALL = (40, 300, 4000)
BY_FRACTION = {"constraint": "selection_rate", "fraction": 0.1, "epsilon": 4.0}
FEW = {"constraint": "selection_rate", "fraction": 0.001, "per_group": False}


@pytest.mark.parametrize(
    ("sizes", "known", "asked"),
    [
        (SMALL, True, {"score_edges": [0.02, 0.05, 0.1, 0.3]}),
        (SMALL, False, {"score_edges": [0.02, 0.05, 0.1, 0.3]}),
        # thresholds inside of bins
        (SMALL, True, BY_FRACTION),
        (SMALL, True, BY_FRACTION | {"per_group": False}),
        # hardly anybody is chosen
        ((5000, 200), False, FEW | {"epsilon": 0.3}),
        ((5000, 200), False, FEW | {"epsilon": 3.0}),
    ],
)
def test_limits_of_what_is_chosen_hold(sizes, known, asked, frozen):
    rng = np.random.default_rng(0)
    groups = np.repeat(list("abc")[: len(sizes)], sizes)
    scores = np.clip(rng.beta(2.0, 38.0, size=len(groups)), 0.0, 0.9)
    X, y = np.column_stack([scores, scores]), (rng.random(len(groups)) < scores).astype(int)
    hold = []
    for seed in range(30):
        model = DPThresholdClassifier(frozen, random_state=seed, **asked).fit(X, y, groups)
        if known:  # as where the model is fitted with them
            model.audit_ = replace(model.audit_, sizes=sizes)
        table, chosen = model.selected(), model.predict(X, groups)
        true = np.array([chosen[groups == label].mean() for label in table.index])
        hold.append((table["low"] - 1e-12 <= true) & (true <= table["high"] + 1e-12))
    assert np.mean(hold, axis=0).min() >= 0.95


# --- calibration ----------------------------------------------------------------------------------


def test_calibration_rises_and_is_closer(frozen, records):
    X, y, groups = records
    model = DPCalibratedClassifier(frozen, epsilon=4.0, random_state=0).fit(X, y, groups)
    assert (np.diff(model.probabilities_, axis=1) >= 0.0).all()
    calibrated = model.predict_proba(X, groups)[:, 1]
    for label in "abc":
        members = groups == label
        assert (np.diff(calibrated[members][np.argsort(X[members, 0])]) >= 0.0).all()
        before = calibration_error(y[members], X[members, 0])
        assert calibration_error(y[members], calibrated[members]) < max(0.5 * before, 0.03)


def calibration_error(y, probabilities):
    """Return the mean distance between probabilities and fractions, over tenths of the records."""
    parts = np.array_split(np.argsort(probabilities), 10)
    return np.mean([abs(y[part].mean() - probabilities[part].mean()) for part in parts])


def test_calibration_of_exact_counts_is_the_fraction_in_each_bin():
    counts = np.array([[[9, 5, 1], [1, 5, 9]], [[20, 10, 0], [0, 10, 20]]])
    edges = np.array([0.0, 0.3, 0.6, 1.0])
    apart = calibrated_fractions(counts, edges, 0.0, True, usual=0.0)
    assert np.allclose(apart, [[0.1, 0.5, 0.9], [0.0, 0.5, 1.0]], atol=1e-6)
    # three records besides, of which one in thirty is positive in the first bin
    drawn = calibrated_fractions(counts, edges, 0.0, True)[:, 0]
    assert np.allclose(drawn, [1.1 / 13, 0.1 / 23], atol=1e-6)
    together = calibrated_fractions(counts, edges, 0.0, False)
    assert np.allclose(together, [[1 / 30, 0.5, 29 / 30]] * 2, atol=1e-6)


def test_calibration_that_falls_is_pooled():
    counts = np.array([[[1, 9, 5], [9, 1, 5]]])
    result = calibrated_fractions(counts, np.array([0.0, 0.3, 0.6, 1.0]), 0.0, True)
    assert np.allclose(result, 0.5, atol=1e-6)


# --- inside of scikit-learn -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_groups_are_routed(kind, frozen, records):
    X, y, groups = records
    with config_context(enable_metadata_routing=True):
        scores = cross_validate(kind(frozen), X, y, params={"groups": groups}, cv=3)
        steps = make_pipeline(PolynomialFeatures(1, include_bias=False), kind(frozen))
        assert steps.fit(X, y, groups=groups).predict(X, groups=groups).shape == y.shape
    assert scores["test_score"].min() > 0.5


def test_pipeline_whose_steps_learn_nothing(records):
    X, y, groups = records
    names = pd.DataFrame(X, columns=["score", "place"])
    steps = make_pipeline(PolynomialFeatures(2), DPWorstGroupClassifier(data_norm=3.0))
    model = DPThresholdClassifier(steps, epsilon=2.0, random_state=0).fit(names, y, groups)
    assert model.privacy_.epsilon == pytest.approx(2.0, rel=1e-3)
    assert model.feature_names_in_.tolist() == ["score", "place"]
    assert model.predict(names, groups).shape == y.shape
    with pytest.raises(ValueError, match="got one with StandardScaler"):
        DPThresholdClassifier(make_pipeline(StandardScaler(), QUICK)).fit(X, y, groups)


# --- plans ----------------------------------------------------------------------------------------


def test_plan_is_what_a_fit_does(private, records):
    model = DPThresholdClassifier(private.set_params(**WITHIN_GROUP), epsilon=2.0, random_state=0)
    sizes = dict(zip(*np.unique(records.groups, return_counts=True), strict=True))
    planned = model.plan(group_sizes=sizes, n_features=2)
    assert planned == model.fit(*records).plan_
    assert planned.count_std == noise_on_integers(planned.release).std
    assert f"{planned.count_std:.3g}" in str(planned)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"held_out": True}, "held_out must be False where the model is fitted to the same"),
        ({"group_labels": ["a", "b"]}, "alone, got "),
        ({"estimator": clone(QUICK).set_params(classes=[0, 1, 2])}, "Only binary classification"),
        ({"estimator": FrozenEstimator(QUICK)}, "is not fitted yet"),
    ],
)
@pytest.mark.parametrize("kind", BOTH)
def test_wrong_parameters(kind, parameters, sentence, records):
    model = kind(**({"estimator": QUICK, "epsilon": 50.0, "random_state": 0} | parameters))
    with (
        PrivacyLedger(epsilon=100.0, delta=1e-6) as ledger,
        pytest.raises((ValueError, TypeError), match=sentence),
    ):
        model.fit(*records)
    assert list(ledger.rows) == []


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"constraint": "parity"}, "constraint must be one of"),
        ({"max_gap": 1.5}, "max_gap must be from 0 to 1"),
        ({"miss_cost": 0.0}, "miss_cost must be positive"),
        ({"fraction": 0.1}, "fraction must be None"),
        (
            {"constraint": "selection_rate", "fraction": 1.0},
            "fraction must be strictly between 0 and 1",
        ),
        ({"constraint": "selection_rate", "per_group": False}, "max_gap must be positive"),
    ],
)
def test_wrong_thresholds(parameters, sentence, frozen, records):
    with pytest.raises((ValueError, TypeError), match=sentence):
        DPThresholdClassifier(frozen, **parameters).fit(*records)


def test_groups_without_records_and_no_groups(frozen, private, records):
    X, y, groups = records
    labels = ["a", "b", "c", "nobody"]
    model = DPThresholdClassifier(frozen, group_labels=labels, random_state=0).fit(X, y, groups)
    assert model.thresholds_.shape == (4,)
    public, several = (
        clone(private).set_params(**each) for each in (WITHIN_GROUP, {"rows_per_person": 2})
    )
    of_several = FrozenEstimator(several.fit(X, y, groups))
    for wrong, rows, message in (
        (DPThresholdClassifier(public, group_labels=labels), groups, "'nobody', a group without"),
        (DPThresholdClassifier(frozen, group_labels=labels), None, "groups must be given"),
        (DPThresholdClassifier(private, group_labels=labels), None, "groups must be given"),
        (DPThresholdClassifier(of_several, held_out=True), groups, "held_out must be False"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong.fit(X, y, rows)
