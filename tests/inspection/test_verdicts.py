"""Verdicts over all pairs of groups: who is judged, which way is bad, and at which levels."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.inspection.contrasts import Counts, Margin, levels_of
from sklearn_dpwg.inspection.verdicts import CountedRates
from sklearn_dpwg.metrics.intervals import rate_interval, ratio_interval
from sklearn_dpwg.metrics.intervals.ratio import ratio_of_rates
from sklearn_dpwg.privacy import IntegerNoise
from tests.helpers.verdict_worlds import WORLDS, answers_in


def audit(sizes, rates, *, labels=None, epsilon=np.inf, **changes):
    """Return an audit of groups of which so large a part is selected, of whom nobody should be."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    chosen = (place < np.rint(np.multiply(sizes, rates))[groups]).astype(int)
    given = {"group_labels": range(labels or len(sizes)), "epsilon": epsilon, **changes}
    return GroupAudit(**given).run(np.zeros_like(chosen), chosen, groups)


def test_a_rare_group_that_is_selected_most_is_compared_with():
    found = audit([3000, 3000, 60], [0.3, 0.3, 0.9])
    assert found.verdict().answer == "fails"
    assert "2 of 90.0 %" in found.verdict().sentence
    assert found.verdict(min_share=0.02).answer == "passes"
    assert "as they have less than 2 % of the people: 2." in found.verdict(min_share=0.02).sentence
    assert found.verdict(leave_out=[2]).answer == "passes"
    assert "on request: 2." in found.verdict(leave_out=[2]).sentence


def test_of_a_harm_the_larger_rate_is_bad():
    found = audit([3000, 3000], [0.02, 0.10])
    assert found.verdict("false_positive_rate").sentence.startswith(
        "1 has a false positive rate (high is bad) of 10.0 %, 0 of 2.0 %: a ratio of 0.20 ["
    )
    by_group = [one.answer for one in found.group_verdicts("false_positive_rate")]
    assert by_group == ["passes", "fails"]
    assert [one.answer for one in found.group_verdicts("selection_rate")] == ["fails", "passes"]


@pytest.mark.parametrize("n_empty", [5, 20])
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_labels_that_nobody_has_veto_nothing(n_empty, epsilon):
    found = audit([9000] * 3, [0.4] * 3, labels=3 + n_empty, epsilon=epsilon).verdict()
    assert found.answer == "passes"
    assert "Not judged, as they have fewer than" in found.sentence


def test_a_group_that_fails_for_itself_makes_all_fail():
    found = audit([2000] * 8 + [40], [0.3] + [0.5] * 8)
    assert found.group_verdicts()[0].answer == found.verdict().answer == "fails"
    assert found.group_verdicts()[8].answer == "cannot tell"


def test_all_others_together_may_be_too_far_from_one():
    found = audit([60] * 14 + [2000], [0.34] * 14 + [0.5], epsilon=np.inf)
    assert found.verdict().answer == "fails"
    assert "all others together have a selection rate of 33.3 %" in found.verdict().sentence


def test_a_named_reference_is_what_all_are_compared_with():
    found = audit([2000, 2000, 2000], [0.4, 0.4, 0.7])
    assert found.verdict().answer == "fails"
    assert found.verdict(reference=0).answer == "passes"
    assert found.impact_ratios(reference=0)[2].estimate == pytest.approx(1.75)
    with pytest.raises(ValueError, match="reference must be a group that is not left out"):
        found.verdict(reference=0, leave_out=[0])
    with pytest.raises(ValueError, match="leave_out must be of the groups"):
        found.verdict(leave_out=["nobody"])


def test_all_who_are_compared_with_a_reference_share_the_error():
    found = audit([900] * 4, [0.5, 0.42, 0.5, 0.5])
    own, reference = (rate_interval(n, 900, confidence=1 - 0.05 / 3) for n in (378, 450))
    assert found.impact_ratios(reference=0)[1].high == ratio_of_rates(own, reference).high
    both = [rate_interval(n, 900) for n in (378, 450)]
    assert found.impact_ratios(reference=0)[1].low == ratio_of_rates(*both).low


def test_groups_together_have_the_noise_of_all_their_counts():
    noise = IntegerNoise("laplace", 2.0)
    cells = np.array([[[20, 5], [10, 9]], [[30, 8], [11, 7]], [[9, 9], [9, 9]]])
    together = CountedRates(cells, (1, 1), noise, None).pooled((0, 1))
    wanted = ratio_interval(29, 71, noise=noise, n_cells=(4, 4), confidence=0.9)
    assert together.interval("selection_rate", 0, 0.9) == wanted


def test_answers_agree_with_the_intervals_of_ratios():
    for rates in ([0.3, 0.5, 0.5, 0.45], [0.5, 0.5, 0.49, 0.5], [0.4, 0.5, 0.5, 0.5]):
        found = audit([900] * 4, rates, epsilon=1.0)
        for ratio, verdict in zip(found.impact_ratios(), found.group_verdicts(), strict=True):
            assert ratio.low <= ratio.estimate <= ratio.high <= 1.0
            by_limits = "passes" if ratio.low >= 0.8 else "fails" if ratio.high < 0.8 else None
            assert verdict.answer == (by_limits or "cannot tell")


@pytest.mark.parametrize(("n_groups", "size"), [(3, 30), (5, 300), (7, 2000)])
def test_no_rates_within_the_margin_are_worse_than_planned(n_groups, size):
    """Sums of errors over every choice of low groups, one by one, are within the error."""
    sizes = size * np.arange(1, n_groups + 1.0)
    rate, error, margin = 0.4, 0.025, Margin(0.8, 0.0)
    counts = Counts(rate * sizes, (1 - rate) * sizes, 0 * sizes, 0 * sizes)
    levels = levels_of(counts, margin, error)
    assert levels.pooled > error / 2 / n_groups / 2
    for high in (rate, 0.5, 0.6):
        for chosen in range(1, 2**n_groups - 1):
            low = np.array([bool(chosen >> place & 1) for place in range(n_groups)])
            rates = np.where(low, 0.8 * high, high)
            variances = rates * (1 - rates) / sizes
            others = ((sizes * rates).sum() - sizes * rates) / (sizes.sum() - sizes)
            noise = ((sizes**2 * variances).sum() - sizes**2 * variances) / (
                sizes.sum() - sizes
            ) ** 2
            against = (0.8 * others - rates) / np.sqrt(variances + 0.64 * noise)
            beside = (0.8 * rates - others) / np.sqrt(noise + 0.64 * variances)
            pairs = (0.8 * rates - rates[:, None]) / np.sqrt(variances[:, None] + 0.64 * variances)
            tests = ndtr(ndtri(levels.pair) + pairs)
            errors = ndtr(ndtri(levels.pooled) + against).sum() + tests.sum() - np.trace(tests)
            errors += ndtr(ndtri(levels.pooled) + beside).sum()
            assert errors <= 1.02 * error


@pytest.mark.parametrize("name", ["rare and selected most", "equal, 20 empty"])
def test_worlds_are_judged_as_they_are(name):
    assert WORLDS[name].is_kept(answers_in(WORLDS[name], 12))
