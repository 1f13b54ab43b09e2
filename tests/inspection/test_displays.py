"""Displays draw what was released, and labels show what they are made of and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_dpwg.inspection import GroupMetricDisplay
from sklearn_dpwg.inspection.words import in_sentence, text_of, texts_of
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
    exact = GroupMetricDisplay.from_audit(audit_result(7, noise=None), ax=display.ax_)
    assert exact.ax_ is display.ax_
    assert exact.ax_.get_title(loc="left").endswith("not private")


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.filterwarnings("ignore:Matplotlib currently does not support:UserWarning")
def test_hostile_labels_are_drawn_as_text():
    display = GroupMetricDisplay.from_audit(audit_result(HOSTILE))
    display.figure_.canvas.draw()  # `$\frac{$` would raise here
    shown = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert len(set(shown)) == len(HOSTILE)
    assert r"$\frac{$" in shown
    assert max(map(len, shown)) < 30


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Black", "Black"),
        ("", "(empty)"),
        ("a\x00b", r"a\x00b"),
        (" a ", "\u2423a\u2423"),
        ("   ", "\u2423" * 3),
        ("a\u202eb", r"a\u202eb"),
        ("a\ud800", r"a\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\N{WOMAN}\u200d\N{MICROSCOPE}", "\N{WOMAN}\u200d\N{MICROSCOPE}"),
        (("White", ("x", 1)), "White & x & 1"),
    ],
)
def test_a_label_shows_all_its_characters(label, text):
    assert text_of(label) == text


def test_labels_that_differ_have_texts_that_differ():
    assert len(set(texts_of(HOSTILE))) == len(HOSTILE)
    assert texts_of([1, "1", "1 (2)", "1 (3)", True]) == ("1", "1 (4)", "1 (2)", "1 (3)", "True")


def test_a_name_in_a_sentence_does_not_turn_it_around():
    assert in_sentence("Black") == "Black"
    assert in_sentence("\u05d0\u05d1") == "\u2068\u05d0\u05d1\u2069"
    assert len(in_sentence("x" * 10_000)) < 60
