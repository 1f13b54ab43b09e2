"""Results of audits: rates, ratios, worst sets, verdicts, files."""

from __future__ import annotations

import json
import math
import pickle

import pytest

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import AuditResult
from sklearn_dpwg.inspection.audit_result import WorstGroups
from sklearn_dpwg.inspection.histogram import GroupRate
from sklearn_dpwg.metrics.intervals import Interval, rate_interval, ratio_interval
from sklearn_dpwg.privacy import IntegerNoise, PrivacyGuarantee, Release
from tests.helpers.audit_cases import audit_result

RELEASED = Release("counts", "discrete-laplace", 1.0, max_count=1)
GUARANTEE = PrivacyGuarantee.from_releases([RELEASED], 1e-6, relation="replace-one")
NOISE = IntegerNoise("laplace", 2.0)
COUNTS = (((260, 40), (30, 170)), ((380, 20), (60, 140)), ((40, 5), (4, 16)))


def result(counts=COUNTS, noise=NOISE, **changes) -> AuditResult:
    known = {
        "counts": counts,
        "noise": noise,
        "group_name": "place",
        "epsilon": 1.0,
        "privacy_": GUARANTEE,
    }
    return audit_result(
        changes.pop("group_labels", tuple("abc"[: len(counts)])), **(known | changes)
    )


@pytest.mark.parametrize(
    ("metric", "counts", "n_cells"),
    [
        ("selection_rate", (210, 290), (2, 2)),
        ("error_rate", (70, 430), (2, 2)),
        ("true_positive_rate", (170, 30), (1, 1)),
        ("false_positive_rate", (40, 260), (1, 1)),
        ("base_rate", (200, 300), (2, 2)),
        ("accuracy", (430, 70), (2, 2)),
        ("false_negative_rate", (30, 170), (1, 1)),
        ("true_negative_rate", (260, 40), (1, 1)),
        ("precision", (170, 40), (1, 1)),
    ],
)
def test_rates_are_intervals_of_the_counts(metric, counts, n_cells):
    expected = ratio_interval(*counts, noise=NOISE, n_cells=n_cells)
    assert metric in AuditResult.METRICS
    assert len(AuditResult.METRICS) == 9
    rate = result().rates(metric)[0]
    assert rate == GroupRate("a", metric, expected.estimate, expected.low, expected.high)
    assert rate.width == expected.width


def test_known_sizes_narrow_rates_of_all_records():
    known = result(sizes=(500, 600, 65))
    expected = rate_interval(210, 500, failures=290, noise=NOISE, n_cells=(2, 2))
    assert known.rates("selection_rate")[0].width == expected.width
    assert expected.width < rate_interval(210, 500, noise=NOISE, n_cells=2).width
    hidden = result()
    assert expected.width < hidden.rates("selection_rate")[0].width
    shown = known.rates("true_positive_rate")[0].width
    assert shown == hidden.rates("true_positive_rate")[0].width
    assert [size.width for size in known.group_sizes()] == [0.0] * 3


def test_bins_are_summed_with_their_noise():
    """Two bins above the threshold have the noise of two counts, and three below of three."""
    binned = (((200, 40, 20, 30, 10), (10, 10, 10, 70, 100)), *[((9, 9, 9, 9, 9),) * 2] * 2)
    actual = result(binned, score_edges=(0.1, 0.3, 0.5, 0.8))
    expected = ratio_interval(170, 30, noise=NOISE, n_cells=(2, 3))
    rate = actual.rates("true_positive_rate")[0]
    assert (rate.low, rate.high) == (expected.low, expected.high)
    shared = result(n_cells=4).rates("true_positive_rate")[0]
    assert shared.width == ratio_interval(170, 30, noise=NOISE, n_cells=(4, 4)).width


def of_decisions(**changes) -> AuditResult:
    return result(tuple((tuple(map(sum, zip(*one, strict=True))),) for one in COUNTS), **changes)


def test_decisions_alone_have_the_noise_of_half_as_many_counts():
    actual, whole = of_decisions(), result()
    known = ratio_interval(210, 290, noise=NOISE, n_cells=(1, 1))
    rate = actual.rates("selection_rate")[0]
    assert (rate.estimate, rate.low, rate.high) == (known.estimate, known.low, known.high)
    for one, n_noisy in ((actual, 2), (whole, 4)):
        numbers, probabilities = NOISE.law(n_noisy)
        size = one.group_sizes()[0]
        inside = (numbers >= size.low - 500) & (numbers <= size.high - 500)
        assert size.estimate == 500
        assert 0.95 <= probabilities[inside].sum() < 0.97
    for pair in zip(actual.verdict().groups, whole.verdict().groups, strict=True):
        one, two = (each.contrasts[0] for each in pair)
        assert one.width < two.width or one.estimate == two.estimate == 1.0
    assert actual.cells().tolist() == whole.cells().sum(axis=1, keepdims=True).tolist()


def test_decisions_alone_say_what_they_tell():
    actual = of_decisions()
    assert actual.METRICS == ("selection_rate",)
    assert actual.worst_groups().metric == "selection_rate"
    assert actual.table().index.unique("metric").tolist() == ["size", "selection_rate"]
    for ask in (actual.rates, actual.worst_groups, actual.verdict):
        with pytest.raises(ValueError, match="metric must be selection_rate"):
            ask("error_rate")
    assert AuditResult.from_json(actual.to_json()) == actual == pickle.loads(pickle.dumps(actual))


def test_worst_groups():
    actual = result().worst_groups("error_rate")
    rates = {rate.group: rate for rate in result().rates("error_rate")}
    assert actual.low <= rates["a"].estimate <= actual.high
    assert actual.gap.low <= actual.gap.high
    assert "a" in actual.groups
    assert "b" in result().worst_groups("selection_rate").groups
    gap = Interval(0.1, 0.05, 0.2, confidence=0.95)
    worst = str(WorstGroups("error_rate", ("b", ("c", 1)), 0.25, 0.375, gap))
    for part in ("error rate may be b or c & 1", "25.0 to 37.5", "5.0 to 20.0"):
        assert part in worst


@pytest.mark.parametrize("noise", [NOISE, None, IntegerNoise("gaussian", 6.1)])
def test_json_round_trip(noise):
    labels = (("x", 1), "<script>\x00‮😀", 3.5)
    changes = {
        "group_labels": labels,
        "sizes": (500, 600, 65),
        "model_privacy_": result().privacy_,
        "epsilon": math.inf if noise is None else 1.0,
    }
    one = result(noise=noise, **changes)
    again = AuditResult.from_json(one.to_json())
    assert again == one
    assert again.to_json() == one.to_json()
    assert str(again.verdict()) == str(one.verdict())


@pytest.mark.parametrize("noise", [NOISE, None])
def test_the_table_is_what_everything_else_says(noise):
    actual = result(noise=noise)
    table = actual.table()
    assert table.index.names == ["place", "metric"]
    assert len(table) == 3 * 10
    for metric in AuditResult.METRICS:
        for rate in actual.rates(metric):
            row = table.loc[(rate.group, metric)]
            shown = rate.estimate, rate.low, rate.high
            assert (row["estimate"], row["low"], row["high"]) == shown
            assert row["sampling"] + row["noise"] == pytest.approx(rate.width)
            assert (row["noise"] > 0.0) == (noise is not None)
            assert row["sampling"] > 0.0
    sizes = table.xs("size", level="metric")
    assert (sizes["sampling"] == 0.0).all()
    assert sizes["estimate"].tolist() == [500.0, 600.0, 65.0]


def test_epsilon_is_compared_with_what_was_released():
    described = json.loads(result().to_json())
    described["privacy_"]["epsilon"] = 0.1
    with pytest.raises(InputError, match="epsilon must be that of the events"):
        AuditResult.from_json(json.dumps(described))
    for epsilon in (0.001, -1.0, float("nan")):
        described = json.loads(result().to_json()) | {"epsilon": epsilon}
        with pytest.raises(InputError, match="epsilon must be at least what was spent"):
            AuditResult.from_json(json.dumps(described))
    for text in ("", "{}"):
        with pytest.raises(ValueError, match=r"text must be what AuditResult\.to_json wrote"):
            AuditResult.from_json(text)
    described = json.loads(result().to_json()) | {"counts": [[[1, 2]]]}
    with pytest.raises(InputError, match="counts must be of 3 groups"):
        AuditResult.from_json(json.dumps(described))
