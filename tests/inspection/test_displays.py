"""Displays draw what was released, and say so."""

from __future__ import annotations

import builtins
import math
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.inspection import (
    GroupMetricDisplay,
    GroupWeightsDisplay,
    PrivacyProfileDisplay,
    PrivacyUtilityDisplay,
    UtilityPoint,
)
from sklearn_dpwg.inspection.drawing import spread
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.solvers import MGR
from tests.helpers.audit_cases import (
    GUARANTEE,
    HOSTILE,
    MODEL_GUARANTEE,
    audit_result,
    labels_of,
)


def texts(axes) -> list[str]:
    """Return everything that is written in axes."""
    return [text.get_text() for text in axes.findobj(lambda one: hasattr(one, "get_text"))]


def markers(axes) -> set[str]:
    return {line.get_marker() for line in axes.lines} - {"None", None}


# --- a metric of every group -------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["error_rate", "selection_rate"])
@pytest.mark.parametrize("n_groups", [2, 7])
def test_groups_are_sorted_and_those_that_may_be_worst_are_named(n_groups, metric):
    """Where small is bad the smallest is on top."""
    result = audit_result(n_groups)
    display = GroupMetricDisplay.from_audit(result, metric)
    rates = {str(rate.group): rate.estimate for rate in result.rates(metric)}
    shown = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert shown == sorted(rates, key=rates.get, reverse=metric == "error_rate")
    worst = result.worst_groups(metric).groups
    assert texts(display.ax_).count("may be worst") == len(worst)
    assert {"o", "D"} >= markers(display.ax_) >= {"D"}
    assert display.figure_ is display.ax_.figure


def test_dots_and_bars_are_the_estimates_and_limits():
    result = audit_result(7)
    display = GroupMetricDisplay.from_audit(result)
    rates = [display.rates[place] for place in display.order]
    bars = sorted(
        (segment[0][1], segment[0][0], segment[1][0])
        for collection in display.ax_.collections
        for segment in collection.get_segments()
    )
    np.testing.assert_allclose(bars, [(row, r.low, r.high) for row, r in enumerate(rates)])
    dots = {
        y: x
        for line in display.ax_.lines
        if line.get_linestyle() == "None"
        for x, y in zip(*line.get_data(), strict=True)
    }
    np.testing.assert_allclose([dots[row] for row in range(7)], [r.estimate for r in rates])


def test_ratios_are_answered_in_shapes_and_words():
    result = audit_result(7)
    display = GroupMetricDisplay.from_audit(result, "selection_rate", ratio=True, at_least=0.75)
    answers = [verdict.answer for verdict in result.group_verdicts("selection_rate", 0.75)]
    assert len(set(answers)) > 1
    for answer in set(answers):
        assert texts(display.ax_).count(answer) == answers.count(answer)
    assert len(markers(display.ax_)) == len(set(answers))
    assert "0.75" in texts(display.ax_)  # the line that they are held against
    assert display.reference == 0.75


@pytest.mark.parametrize("noise", [True, False])
def test_what_is_not_private_says_so_on_the_axes_that_are_given(noise):
    from matplotlib import pyplot

    _, axes = pyplot.subplots()
    result = audit_result(2) if noise else audit_result(2, noise=None)
    display = GroupMetricDisplay.from_audit(result, ax=axes)
    assert display.ax_ is axes
    assert len(pyplot.get_fignums()) == 1
    assert axes.get_title(loc="left").endswith("not private") == (not noise)
    assert PrivacyProfileDisplay.from_audit(result).guarantee == result.privacy_


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.filterwarnings("ignore:Matplotlib currently does not support:UserWarning")
def test_hostile_labels_are_drawn_as_text():
    display = GroupMetricDisplay.from_audit(audit_result(HOSTILE))
    display.figure_.canvas.draw()  # `$\frac{$` would raise here
    shown = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert len(set(shown)) == len(HOSTILE)
    assert r"$\frac{$" in shown
    assert max(map(len, shown)) < 30


def test_forty_groups_do_not_write_over_each_other():
    display = GroupMetricDisplay.from_audit(audit_result(40))
    display.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in display.ax_.get_yticklabels()]
    edges = sorted((box.y0, box.y1) for box in boxes)
    assert all(low[1] <= high[0] for low, high in pairwise(edges))
    assert display.figure_.get_window_extent().x0 <= min(box.x0 for box in boxes)


class Scores:
    """A classifier whose score is its first column."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


def test_predictions_are_audited_without_privacy_unless_it_is_asked_for():
    rng = np.random.default_rng(0)
    scores, groups = rng.random(3000), np.repeat(["a", "b"], [2000, 1000])
    y = np.where(rng.random(3000) < scores, "yes", "no")
    from_predictions = partial(GroupMetricDisplay.from_predictions, y, scores, groups=groups)
    shown = from_predictions()
    wrong = (scores >= 0.5) != (y == "yes")
    for rate in shown.rates:
        assert rate.estimate == pytest.approx(wrong[groups == rate.group].mean())
    assert shown.ax_.get_title(loc="left").endswith("not private")
    fitted = GroupMetricDisplay.from_estimator(Scores(), scores[:, None], y, groups=groups)
    assert list(fitted.rates) == list(shown.rates)
    stated = {"group_labels": ["a", "b"], "epsilon": 1.0}
    private = from_predictions(classes=("no", "yes"), **stated)
    assert "not private" not in private.ax_.get_title(loc="left")
    assert list(private.rates) != list(shown.rates)
    with pytest.raises(ValueError, match="classes must be declared where epsilon is finite"):
        from_predictions(**stated)
    with pytest.raises(ValueError, match="y_true must hold two classes"):
        GroupMetricDisplay.from_predictions(y[:1], scores[:1], groups=groups[:1])


# --- worst group against ε ---------------------------------------------------------------------


def points(n_series: int) -> list[UtilityPoint]:
    return [
        UtilityPoint(f"model {number}", epsilon, 0.4 + number / 100, 0.3, 0.5)
        for number in range(n_series)
        for epsilon in (0.1, 1.0, math.inf)
    ]


@pytest.mark.parametrize(("n_series", "n_named"), [(2, 2), (7, 7), (40, 6)])
def test_the_best_models_have_names_and_none_is_left_out(n_series, n_named):
    display = PrivacyUtilityDisplay(points(n_series)).plot()
    named = [text for text in texts(display.ax_) if text.startswith("model ")]
    assert sorted(named) == sorted(f"model {number}" for number in range(n_named))
    curves = [line for line in display.ax_.lines if len(line.get_xdata()) == 3]
    assert len(curves) == n_series
    assert ("34 others" in display.ax_.get_xlabel()) == (n_series == 40)
    assert "none (∞)" in texts(display.ax_)


def test_audits_stand_at_the_epsilon_of_their_models():
    private = audit_result(3, model_privacy_=MODEL_GUARANTEE)
    other = audit_result(3, seed=1)
    display = PrivacyUtilityDisplay.from_audit({"a": private, "b": other}, epsilons={"b": 2.0})
    assert [round(point.epsilon, 3) for point in display.points] == [0.981, 2.0]
    worst = private.worst_groups("error_rate")
    assert (display.points[0].low, display.points[0].high) == (worst.low, worst.high)
    assert worst.low <= display.points[0].value <= worst.high
    with pytest.raises(ValueError, match="epsilons must state the ε of model 'b'"):
        PrivacyUtilityDisplay.from_audit({"a": private, "b": other})


def test_searches_stand_at_their_epsilon():
    class Search:
        best_score_ = 0.7
        privacy_ = GUARANTEE

    display = PrivacyUtilityDisplay.from_search({"search": Search()})
    (point,) = display.points
    assert (point.epsilon, point.value) == (GUARANTEE.epsilon, 0.7)


# --- what an attacker gains --------------------------------------------------------------------


def test_the_tradeoff_is_that_of_the_guarantee():
    display = PrivacyProfileDisplay(MODEL_GUARANTEE).plot()
    expected = 1 - MODEL_GUARANTEE.tradeoff(display.false_alarms_)
    np.testing.assert_allclose(display.detections_, expected)
    caught = math.ceil(1000 * (1 - float(MODEL_GUARANTEE.tradeoff(0.05)))) / 10
    assert f"5 % false alarms: {caught:g} % detected" in texts(display.ax_)
    with pytest.raises(ValueError, match="kind must be"):
        display.plot(kind="roc")


@pytest.mark.parametrize("guarantee", [GUARANTEE, MODEL_GUARANTEE])
def test_the_profile_goes_through_the_stated_point(guarantee):
    display = PrivacyProfileDisplay(guarantee).plot(kind="profile")
    at = int(np.argmin(abs(display.epsilons_ - guarantee.epsilon)))
    assert display.epsilons_[at] == pytest.approx(guarantee.epsilon)
    assert display.deltas_[at] <= guarantee.delta * 1.001
    np.testing.assert_allclose(display.deltas_, guarantee.profile(display.epsilons_), atol=1e-15)


@pytest.mark.parametrize("kind", ["tradeoff", "profile"])
def test_no_privacy_is_drawn_as_none(kind):
    display = PrivacyProfileDisplay(PrivacyGuarantee.non_private(1e-6)).plot(kind=kind)
    assert display.ax_.get_title(loc="left").startswith("No privacy")


# --- weights of groups -------------------------------------------------------------------------


@pytest.mark.parametrize("n_groups", [2, 7, 40])
def test_bars_are_the_weights_from_the_largest_down(n_groups):
    weights = np.random.default_rng(0).dirichlet(np.ones(n_groups))
    shares = np.full(n_groups, 1 / n_groups)
    display = GroupWeightsDisplay(weights, group_labels=labels_of(n_groups), shares=shares).plot()
    widths = [patch.get_width() for patch in display.ax_.patches]
    np.testing.assert_allclose(widths, np.sort(weights)[::-1])
    assert len(set(texts(display.ax_)) & {"share of the records", "weight"}) == 2


@pytest.mark.parametrize(("n_groups", "n_named"), [(2, 2), (7, 7), (40, 6)])
def test_paths_name_the_groups_that_weigh_most(n_groups, n_named):
    weights = np.random.default_rng(0).dirichlet(np.ones(n_groups), 4)
    labels = [f"group {number}" for number in range(n_groups)]
    display = GroupWeightsDisplay(weights, group_labels=labels, points=[0.1, 0.5, 1, 4]).plot()
    named = {text for text in texts(display.ax_) if text.startswith("group ")}
    most = np.argsort(-weights.max(axis=0))[:n_named]
    assert named == {labels[place] for place in most}
    assert len(display.ax_.lines) == n_groups


def test_weights_come_from_fitted_models():
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, (4000, 2)), np.repeat(["a", "b"], [3000, 1000])
    model = DPWorstGroupClassifier(4.0, data_norm=1.0, solver=MGR(n_steps=5))
    model.fit(X, X[:, 0] > 0, groups)
    display = GroupWeightsDisplay.from_estimator(model)
    np.testing.assert_allclose(display.weights, model.group_weights_)
    np.testing.assert_allclose(display.shares, [0.75, 0.25])
    profile = PrivacyProfileDisplay.from_estimator(model)
    assert profile.guarantee.epsilon == pytest.approx(4.0, rel=1e-3)


def test_a_path_is_in_the_order_of_its_points():
    models = {
        epsilon: SimpleNamespace(group_labels_=["a", "b"], group_weights_=[weight, 1 - weight])
        for epsilon, weight in ((4.0, 0.9), (1.0, 0.6))
    }
    path = GroupWeightsDisplay.from_estimator(models)
    assert path.points == [1.0, 4.0]
    np.testing.assert_allclose(path.weights, [[0.6, 0.4], [0.9, 0.1]])
    models[2.0] = SimpleNamespace(group_labels_=["a", "c"], group_weights_=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"models of the same groups, got others at 2\.0"):
        GroupWeightsDisplay.from_estimator(models)
    with pytest.raises(ValueError, match=r"weights must have one entry a group, 3, got shape \(2,"):
        GroupWeightsDisplay([0.5, 0.5], group_labels=["a", "b", "c"]).plot()


# --- shared ------------------------------------------------------------------------------------


def test_names_are_spread_apart_but_stay_in_order():
    rng = np.random.default_rng(0)
    for n_places in (1, 5, 16):
        places = rng.uniform(0, 1, n_places)
        found = spread(places, 0.06, 0.0, 1.0)
        assert np.argsort(found).tolist() == np.argsort(places).tolist()
        assert (np.diff(np.sort(found)) >= 0.06 - 1e-9).all()
        assert found.min() >= -1e-9
        assert found.max() <= 1.0 + 1e-9
    np.testing.assert_allclose(spread([0.2, 0.8], 0.1, 0, 1), [0.2, 0.8])


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    imported = builtins.__import__

    def without(name, *others, **named):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return imported(name, *others, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    said = r"^GroupWeightsDisplay\.plot needs matplotlib, .*pip install 'sklearn-dpwg\[plot\]'\.$"
    with pytest.raises(ImportError, match=said):
        GroupWeightsDisplay([1.0], group_labels=["a"]).plot()


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
def test_audits_of_several_models_keep_their_epsilon_together():
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, (2000, 2)), np.repeat(["a", "b"], 1000)
    y = (X[:, 0] > 0).astype(int)
    made = DPWorstGroupClassifier(4.0, data_norm=1.0, solver=MGR(n_steps=5)).fit(X, y, groups)
    both = {"one": [made, made], "other": made}
    with PrivacyLedger(1.0, 1e-6) as book:
        PrivacyUtilityDisplay.from_estimator(
            both, X, y, groups=groups, group_labels=["a", "b"], epsilon=1.0
        )
    assert len(book.rows) == 3
