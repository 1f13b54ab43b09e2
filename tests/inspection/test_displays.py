"""Displays draw what was released, and say so."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from sklearn_dpwg.inspection import GroupMetricDisplay
from tests.helpers.audit_cases import HOSTILE, audit_result


def texts(axes) -> list[str]:
    """Return everything that is written in axes."""
    return [text.get_text() for text in axes.findobj(lambda one: hasattr(one, "get_text"))]


def markers(axes) -> set[str]:
    return {line.get_marker() for line in axes.lines} - {"None", None}


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


@pytest.mark.parametrize("noise", [True, False])
def test_what_is_not_private_says_so_on_the_axes_that_are_given(noise):
    from matplotlib import pyplot

    _, axes = pyplot.subplots()
    result = audit_result(2) if noise else audit_result(2, noise=None)
    display = GroupMetricDisplay.from_audit(result, ax=axes)
    assert display.ax_ is axes
    assert len(pyplot.get_fignums()) == 1
    assert axes.get_title(loc="left").endswith("not private") == (not noise)


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.filterwarnings("ignore:Matplotlib currently does not support:UserWarning")
def test_hostile_labels_are_drawn_as_text():
    display = GroupMetricDisplay.from_audit(audit_result(HOSTILE))
    display.figure_.canvas.draw()  # `$\frac{$` would raise here
    shown = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert len(set(shown)) == len(HOSTILE)
    assert r"$\frac{$" in shown
    assert max(map(len, shown)) < 30


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    imported = builtins.__import__

    def without(name, *others, **named):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return imported(name, *others, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    advice = r"^GroupMetricDisplay\.plot needs matplotlib, .*pip install 'sklearn-dpwg\[plot\]'\.$"
    with pytest.raises(ImportError, match=advice):
        GroupMetricDisplay.from_audit(audit_result(2))
