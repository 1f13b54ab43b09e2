"""Verdicts over all pairs of groups: who is judged, which way is bad, and at which levels."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.inspection.verdicts import Counts, Levels, Margin, levels_of
from sklearn_dpwg.metrics.intervals import rate_interval
from sklearn_dpwg.metrics.intervals.ratio import difference_of_rates, limits_of, ratio_of_rates
from tests.helpers.audit_cases import audit_result
from tests.helpers.verdict_worlds import WORLDS, answers_in


def audit(sizes, rates, *, labels=None, epsilon=np.inf, **changes):
    """Return an audit of groups of which so large a part is selected, of whom nobody should be."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    chosen = (place < np.rint(np.multiply(sizes, rates))[groups]).astype(int)
    given = {"group_labels": range(labels or len(sizes)), "epsilon": epsilon, **changes}
    return GroupAudit(**given).run(np.zeros_like(chosen), chosen, groups, kind="decisions")


def test_a_rare_group_that_is_selected_most_is_compared_with():
    actual = audit([3000, 3000, 60], [0.3, 0.3, 0.9])
    assert actual.verdict().answer == "fails"
    assert "2 of 90.0 %" in actual.verdict().sentence
    for out, why in (
        ({"min_fraction": 0.02}, "2 % of the people"),
        ({"leave_out": [2]}, "request"),
    ):
        assert actual.verdict(**out).answer == "passes"
        assert f"{why}: 2." in actual.verdict(**out).sentence


def test_of_a_harm_the_larger_rate_is_bad():
    actual = audit([3000, 3000], [0.02, 0.10])
    assert (
        "of 10.0 %, 0 of 2.0 %: a ratio of 0.20 [" in actual.verdict("false_positive_rate").sentence
    )
    by_group = [one.answer for one in actual.verdict("false_positive_rate").groups]
    assert by_group == ["passes", "fails"]
    assert [one.answer for one in actual.verdict("selection_rate").groups] == ["fails", "passes"]


def test_all_others_together_may_be_too_far_from_one():
    actual = audit([60] * 14 + [2000], [0.34] * 14 + [0.5], epsilon=np.inf)
    assert actual.verdict().answer == "fails"
    assert "all others together have a selection rate of 33.3 %" in actual.verdict().sentence


def test_all_who_are_compared_with_a_reference_fraction_the_error():
    actual = audit([900] * 4, [0.5, 0.42, 0.5, 0.5])

    def contrast(of, n_contrasts):
        level = 1.0 - 0.05 / n_contrasts
        own, other = (limits_of([rate_interval(n, 900, confidence=level)]) for n in (378, 450))
        return of(own, other)

    ratio = actual.verdict(reference=0).groups[1].contrasts[0]
    assert ratio.high == contrast(ratio_of_rates, 3)[2]
    assert ratio.low == contrast(ratio_of_rates, 1)[1]
    # by a difference either may be the lower one, which is twice as many
    gap = actual.verdict(within=0.1, reference=0).groups[1].contrasts[0]
    assert gap.low == -contrast(difference_of_rates, 6)[2]
    assert gap.high == -contrast(difference_of_rates, 1)[1]


@pytest.mark.parametrize("best", [0, 1])
def test_by_a_difference_and_in_equalized_odds_a_reference_may_be_on_either_side(best):
    """Whichever of two groups is the reference, they are as far apart."""
    rates, which = [0.98, 0.47], {"reference": best}
    apart, near = odds(rates, [0.2, 0.2]), odds([0.7, 0.7], [0.2, 0.2])
    for asked in ({"within": 0.1}, {"at_least": 0.8}):
        failed = apart.verdict("equalized_odds", **asked, **which)
        assert failed.answer == "fails"
        assert [one.answer for one in failed.groups][best] == "reference"
        assert [one.answer for one in failed.groups][1 - best] == "fails"
        assert near.verdict("equalized_odds", **asked, **which).answer == "passes"
    for metric, answer, gap in (
        ("true_positive_rate", "fails", 0.51),
        ("false_positive_rate", "passes", 0.0),
    ):
        verdict = apart.verdict(metric, within=0.1, **which)
        contrast = verdict.groups[1 - best].contrasts[0]
        assert verdict.answer == answer
        assert contrast.estimate == pytest.approx(gap)
        assert 0.0 <= contrast.low <= contrast.estimate
    harm = odds([0.5, 0.5], [0.1, 0.6]).verdict("false_positive_rate", within=0.1, **which)
    assert harm.answer == "fails"
    one_way = [apart.verdict("true_positive_rate", reference=one).answer for one in (0, 1)]
    assert one_way == ["fails", "passes"]


RATIO, CLOSE = Margin(0.8, 0.0), Margin(0.99, 0.0)
GAP, SMALL_GAP = Margin(1.0, 0.1, is_ratio=False), Margin(1.0, 0.005, is_ratio=False)


def errors_of(levels, low, high, sizes, margin):
    """Return the sum of errors of all contrasts where some groups are at the low end."""
    rates = np.where(low, margin.factor * high - margin.gap, high)
    variances, rest, square = rates * (1 - rates) / sizes, sizes.sum() - sizes, margin.factor**2
    others = ((sizes * rates).sum() - sizes * rates) / rest
    noise = ((sizes**2 * variances).sum() - sizes**2 * variances) / rest**2

    def errors(level, p, q, v, w):
        beyond = margin.factor * q - margin.gap - p
        return ndtr(ndtri(level) + beyond / np.sqrt(v + square * w))

    columns = rates[:, None], rates, variances[:, None], variances
    pairs = errors(levels.pair, *columns)
    actual = pairs.sum() - np.trace(pairs)
    if levels.pooled:
        actual += errors(levels.pooled, rates, others, variances, noise).sum()
        actual += errors(levels.pooled, others, rates, noise, variances).sum()
    return actual


@pytest.mark.parametrize(
    ("n_groups", "size", "margin"),
    [(2, 50, SMALL_GAP), (3, 30, RATIO), (5, 300, GAP), (5, 300, CLOSE), (7, 2000, RATIO)],
)
def test_no_rates_within_the_margin_are_worse_than_planned(n_groups, size, margin):
    """Sums of errors over every choice of low groups, one by one, are within the error."""
    for sizes in (size * np.arange(1, n_groups + 1.0), np.full(n_groups, float(size))):
        rate, error = 0.4, 0.025
        counts = Counts(rate * sizes, (1 - rate) * sizes, 0 * sizes, 0 * sizes)
        levels, worst = levels_of(counts, margin, error), 0.0
        # by a difference the rates are not far from that of all groups together
        tops = (rate, 0.5, 0.6) if margin.is_ratio else (rate, rate + margin.gap)
        for high in tops:
            for chosen in range(2**n_groups):
                low = np.array([bool(chosen >> place & 1) for place in range(n_groups)])
                worst = max(worst, errors_of(levels, low, high, sizes, margin))
        assert 0.3 * error < worst <= 1.02 * error


def test_two_groups_may_both_be_at_the_border():
    """Of nearly equal rates either group may seem to be too far below: the two share the error."""
    sizes = np.full(2, 50.0)
    counts = Counts(0.4 * sizes, 0.6 * sizes, 0 * sizes, 0 * sizes)
    alone = Levels(0.0, 0.025)
    assert errors_of(alone, np.array([True, False]), 0.4, sizes, SMALL_GAP) > 1.5 * 0.025
    assert levels_of(counts, SMALL_GAP, 0.025).pair < 0.0145


def test_differences_are_judged_as_ratios_are():
    actual = audit([3000] * 3, [0.30, 0.40, 0.50])
    failed, passed = actual.verdict(within=0.05), actual.verdict(within=0.3)
    assert [one.answer for one in failed.groups] == ["fails", "fails", "passes"]
    assert "2 of 50.0 %: a difference of 20.0 [" in failed.sentence
    assert failed.answer == "fails"
    assert passed.answer == "passes"
    assert actual.verdict(within=0.2).answer == "cannot tell"
    harm = [one.answer for one in actual.verdict("false_positive_rate", within=0.05).groups]
    assert harm == ["passes", "fails", "fails"]
    gaps = [one.contrasts[0] for one in failed.groups]
    assert [gap.estimate for gap in gaps] == pytest.approx([0.2, 0.1, 0.0])
    assert gaps[0].low > 0.05
    for wrong in ({"at_least": 0.8, "within": 0.1}, {"within": 0.0}):
        with pytest.raises(ValueError, match="within must be"):
            actual.verdict(**wrong)


def odds(true_positives, false_positives, n=1000):
    """Return an audit of groups of n positive and n negative records each."""
    counts = [
        ((n - round(f * n), round(f * n)), (n - round(t * n), round(t * n)))
        for t, f in zip(true_positives, false_positives, strict=True)
    ]
    return audit_result(range(len(counts)), noise=None, counts=tuple(counts))


def test_equalized_odds_passes_with_both_rates_and_names_the_one_that_decides():
    actual = odds([0.7, 0.7], [0.2, 0.2]).verdict("equalized_odds", within=0.1)
    assert actual.answer == "passes"
    actual = odds([0.7, 0.7], [0.2, 0.4]).verdict("equalized_odds", within=0.1)
    assert actual.answer == "fails"
    assert "false positive rate of 20.0 %, 1 of 40.0 %" in actual.sentence
    assert odds([0.7, 0.7], [0.2, 0.22]).verdict("equalized_odds").answer == "cannot tell"
    by_group = odds([0.7, 0.3], [0.2, 0.2]).verdict("equalized_odds", within=0.1).groups
    assert [one.answer for one in by_group] == ["fails", "fails"]  # neither is the better one
    with pytest.raises(ValueError, match="metric must be one of selection_rate"):
        odds([0.7], [0.2]).verdict([])


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_only_judged_groups_may_be_worst(epsilon):
    """A label that nobody has, and one that is left out, are none of which nobody can tell."""
    actual = audit([3000, 3000, 60], [0.3, 0.4, 0.9], labels=5, epsilon=epsilon)
    assert 2 in actual.worst_groups("error_rate").groups
    assert not {3, 4} & set(actual.worst_groups("selection_rate").groups)
    for which in ({"leave_out": [2]}, {"min_fraction": 0.05}):
        assert actual.worst_groups("error_rate", **which).groups == (1,)
        assert actual.worst_groups("selection_rate", **which).groups == (0,)
    narrow, wide = (actual.worst_groups("error_rate", of=of) for of in ("records", "process"))
    assert narrow.high - narrow.low < wide.high - wide.low
    nobody = audit([5, 5], [0.0, 1.0]).worst_groups("error_rate")
    assert (nobody.groups, nobody.low, nobody.high) == ((), 0.0, 1.0)
    assert audit([5, 5], [0.0, 1.0]).verdict().answer == "cannot tell"


def test_records_that_are_everybody_are_uncertain_by_noise_alone():
    actual = audit([1000, 1000], [0.40, 0.49], epsilon=1.0)
    assert actual.verdict(at_least=0.8).answer == "cannot tell"
    verdict = actual.verdict(at_least=0.77, of="records")
    assert verdict.answer == "passes"
    assert actual.verdict(at_least=0.9, of="records").answer == "fails"
    widths = [actual.rates("selection_rate", of=of)[0].width for of in ("records", "process")]
    assert widths[0] < 0.5 * widths[1]
    exact = audit([300, 300], [0.40, 0.49])
    assert exact.rates("selection_rate", of="records")[0].width == 0.0
    with pytest.raises(ValueError, match="of must be 'process' or 'records'"):
        actual.rates(of="sample")


def test_of_records_of_whom_surely_nobody_is_selected_the_ratio_is_0():
    """Noise takes the count below what there may be, or there is none."""
    noisy = audit_result(("a", "b"), counts=(((200, 200),), ((400, -9),)))
    for actual in (noisy, audit([40, 40], [1.0, 0.0])):
        assert actual.rates("selection_rate", of="records")[1].high == 0.0
        assert actual.verdict(of="records").answer == "fails"
        assert actual.verdict(of="records").groups[1].contrasts[0].high == 0.0


@pytest.mark.parametrize("name", ["rare and selected most", "equal, 20 empty"])
def test_worlds_are_judged_as_they_are(name):
    assert WORLDS[name].is_kept(answers_in(WORLDS[name], 6))
