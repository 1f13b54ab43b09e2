"""Changes between two audits, and chances of verdicts from guesses alone."""

import json
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest

from sklearn_dpwg.inspection import AuditResult, GroupAudit
from sklearn_dpwg.inspection.changes import change_between
from sklearn_dpwg.metrics.intervals import difference_interval, rate_interval
from tests.helpers.audit_cases import audit_result


def errors_in(counts, **changes):
    """Return an audit of groups of 500 negative records with so many false positives."""
    counts = tuple(((500 - n, n), (500, 0)) for n in counts)
    return audit_result("abc"[: len(counts)], noise=None, counts=counts, **changes)


def at(n, confidence):
    return rate_interval(n, 500, confidence=confidence)


def test_a_group_has_changed_by_the_difference_of_its_rates():
    before, after = errors_in([100, 60, 40]), errors_in([50, 60, 45])
    found = after.change_since(before, "false_positive_rate")
    known = difference_interval(rate_interval(50, 500), rate_interval(100, 500))
    assert (found.groups[0].low, found.groups[0].high) == (known.low, known.high)
    assert found.answer == "improved"
    assert found.worst.estimate == pytest.approx(60 / 500 - 100 / 500)
    assert found.worst.low < -0.08 < found.worst.high < 0.0
    assert found.sentence.endswith("points: it improved. Assumed: other people, and other noise.")
    assert json.loads(json.dumps(asdict(found)))["answer"] == "improved"
    worse = before.change_since(after, "false_positive_rate")
    assert worse.answer == "got worse"
    assert "percentage points: it got worse. Assumed" in worse.sentence
    again = errors_in([100, 60, 40])
    assert again.change_since(before, "false_positive_rate").answer == "cannot tell"


def test_of_a_benefit_the_lowest_rate_is_the_worst():
    before, after = errors_in([200, 160, 40]), errors_in([200, 160, 120])
    found = after.change_since(before, "true_negative_rate")
    harm = after.change_since(before, "false_positive_rate")
    assert (found.worst.low, found.worst.high) == pytest.approx((-harm.worst.high, -harm.worst.low))
    assert after.change_since(before, "selection_rate").answer == "improved"


def test_another_group_may_be_the_worst_one():
    """What one group gains and another loses is no change of the worst."""
    found = errors_in([40, 100]).change_since(errors_in([100, 40]), "false_positive_rate")
    assert found.groups[0].high < 0.0 < found.groups[1].low
    assert found.answer == "cannot tell"
    assert found.worst.low < 0.0 < found.worst.high


def test_limits_of_the_worst_group_are_those_of_the_proof():
    rates = [
        {g: partial(at, n) for g, n in zip("ab", pair, strict=True)}
        for pair in ((100, 90), (60, 70))
    ]
    found = change_between(*rates, "error_rate", 0.95, same_people=False).worst
    table = [
        [difference_interval(a(0.975), b(0.975)) for b in rates[0].values()]
        for a in rates[1].values()
    ]
    assert found.high == max(min(one.high for one in row) for row in table)
    assert found.low == min(max(one.low for one in column) for column in zip(*table, strict=True))


def test_nothing_is_assumed_of_the_same_people():
    before, after = errors_in([100, 60, 40]), errors_in([50, 60, 45])
    found = after.change_since(before, "false_positive_rate", same_people=True)
    own = [rate_interval(n, 500, confidence=0.975) for n in (50, 100)]
    assert found.groups[0].high == own[0].high - own[1].low
    assert "the same people" in found.sentence


def test_audits_that_do_not_match_are_refused():
    before = errors_in([100, 60, 40])
    with pytest.raises(ValueError, match="before must be of the groups"):
        errors_in([100, 60]).change_since(before)
    with pytest.raises(ValueError, match="before must be of the groups"):
        errors_in([100, 60, 40], classes=("yes", "no")).change_since(before)
    with pytest.raises(ValueError, match="leave_out must leave a group"):
        errors_in([100, 60, 40]).change_since(before, leave_out=["a", "b", "c"])
    noisy = audit_result(2)
    for one, other in ((before, before), (noisy, AuditResult.from_json(noisy.to_json()))):
        with pytest.raises(ValueError, match="before must be another audit than the later one"):
            one.change_since(other)
    with pytest.raises(TypeError, match="before must be an AuditResult, got str"):
        before.change_since("x")


@pytest.mark.parametrize(("ratio", "changes"), [(0.6, {}), (1.0, {"within": 0.13}), (1.0, {})])
def test_planned_chances_are_those_of_audits(ratio, changes):
    audit = GroupAudit(epsilon=np.inf, group_labels=["a", "b"])
    planned = audit.plan_verdict(group_sizes=[300, 300], rate=0.4, ratio=ratio, **changes)
    rng, answers = np.random.default_rng(5), []
    for _ in range(100):
        hits = rng.binomial(300, [0.4 * ratio, 0.4])
        counts = tuple(((300 - n, n), (0, 0)) for n in hits.tolist())
        result = audit_result("ab", noise=None, counts=counts)
        answers.append(result.verdict(**changes).answer)
    assert planned.passes == pytest.approx(answers.count("passes") / 100, abs=0.12)
    assert planned.fails == pytest.approx(answers.count("fails") / 100, abs=0.12)
    assert planned.wanted == ("fails" if ratio < 0.8 else "passes")


@pytest.mark.parametrize(
    ("metric", "asked", "reference"),
    [
        ("selection_rate", {}, "a"),  # the smaller one, which others are held against
        ("selection_rate", {}, "b"),
        ("false_positive_rate", {}, "a"),
        ("selection_rate", {"within": 0.15}, "a"),
        ("selection_rate", {}, None),
    ],
)
def test_planned_chances_with_a_reference_and_without_a_group_are_those_of_audits(
    metric, asked, reference
):
    audit = GroupAudit(epsilon=np.inf, group_labels=list("abcd"))
    which = {"leave_out": ["d"], "reference": reference, **asked}
    sizes, rng, answers = [300, 310, 310, 100], np.random.default_rng(5), []
    planned = audit.plan_verdict(metric, group_sizes=sizes, rate=0.3, ratio=0.62, **which)
    for _ in range(100):
        hits = rng.binomial(sizes, [0.186, 0.3, 0.3, 0.9]).tolist()
        counts = tuple(((n - hit, hit), (0, 0)) for n, hit in zip(sizes, hits, strict=True))
        result = audit_result("abcd", noise=None, counts=counts)
        answers.append(result.verdict(metric, **which).answer)
    assert planned.passes == pytest.approx(answers.count("passes") / 100, abs=0.12)
    assert planned.fails == pytest.approx(answers.count("fails") / 100, abs=0.12)
    # of a benefit nobody is behind a reference that has least, of a harm one that has most
    is_behind = (reference == "a") == (metric == "false_positive_rate")
    assert planned.wanted == ("fails" if (is_behind and not asked) or not reference else "passes")
    with pytest.raises(ValueError, match="reference must be a group that is not left out, got 'd'"):
        audit.plan_verdict(group_sizes=sizes, leave_out=["d"], reference="d")


@pytest.mark.parametrize("sizes", ["hidden", "public"])
def test_groups_that_an_audit_would_not_judge_are_left_out_of_its_plan(sizes):
    audit = GroupAudit(1.0, group_labels=["a", "b", "c"], sizes=sizes)
    rng, given = np.random.default_rng(0), {}
    for n, is_judged in ((5, False), (400, True)):
        groups = np.repeat(["a", "b", "c"], [2000, 1500, n])
        decisions = (rng.uniform(size=len(groups)) < 0.5).astype(int)
        verdict = audit.run(None, decisions, groups).verdict()
        assert ("Not judged, as they have fewer than" in verdict.sentence) != is_judged
        asked = {"rate": 0.5, "outcomes": False}
        given[n] = audit.plan_verdict(group_sizes=[2000, 1500, n], **asked)
        assert ("(c left out, as too few to judge)" in str(given[n])) != is_judged
    without = audit.plan_verdict(group_sizes=[2000, 1500, 400], leave_out=["c"], **asked)
    assert given[5].passes == without.passes > 0.99
    # of whom only a part counts nobody says how large a group is, and somebody has to be compared
    rare = audit.plan_verdict("true_positive_rate", group_sizes=[2000, 1500, 5], rate=0.5)
    assert "left out" not in str(rare)
    assert "left out" not in str(audit.plan_verdict(group_sizes=[2000, 5, 5], rate=0.5))
    named = audit.plan_verdict(group_sizes=[2000, 1500, 5], rate=0.5, reference="c")
    assert "left out" not in str(named)


def test_groups_of_two_columns_are_left_out_of_a_plan_by_their_pair():
    labels = [(one, two) for one in "ab" for two in "xy"]
    found = []
    for each in (labels, ["/".join(label) for label in labels]):
        which = {"leave_out": each[:1], "reference": each[3], "group_sizes": [100, 90, 80, 70]}
        found.append(GroupAudit(group_labels=each).plan_verdict(**which))
    assert (found[0].passes, found[0].fails) == (found[1].passes, found[1].fails)


def test_what_a_plan_says_is_enough_is_enough():
    guess = {"rate": 0.4, "ratio": 0.6}
    audit = GroupAudit(epsilon=0.2, group_labels=list("abcd"))
    planned = audit.plan_verdict(group_sizes=[200] * 4, **guess)
    assert planned.fails < 0.5
    assert planned.times_the_people > 1.0
    nearly = str(replace(planned, times_the_people=1.034))
    assert "takes 1.03 times the people" in nearly
    n = round(planned.times_the_people * 200)
    assert audit.plan_verdict(group_sizes=[n] * 4, **guess).fails == pytest.approx(0.8, abs=0.03)
    more = (
        GroupAudit(epsilon=planned.epsilon, group_labels=list("abcd")) if planned.epsilon else None
    )
    if more is not None:
        again = more.plan_verdict(group_sizes=[200] * 4, **guess)
        assert again.fails == pytest.approx(0.8, abs=0.05)
    assert str(planned) == str(audit.plan_verdict(group_sizes=[200] * 4, **guess))


def test_a_plan_says_what_is_guessed_and_of_decisions_alone_has_half_the_noise():
    audit = GroupAudit(epsilon=0.05, group_labels=["a", "b", "c"])
    asked = {"group_sizes": [1900, 1900, 900], "ratio": 0.6}
    planned = [audit.plan_verdict(**asked, outcomes=outcomes) for outcomes in (True, False)]
    assert planned[1].times_the_people < 0.9 * planned[0].times_the_people
    assert str(planned[0]).startswith(
        "If the selection rate is 0.3 in all groups but c, and 0.18 there: passes "
    )
    both = audit.plan_verdict("equalized_odds", group_sizes=[900] * 3)
    said = "If the true positive rate and false positive rate are 0.3 in every group: passes "
    assert str(both).startswith(said)


def test_a_plan_of_equalized_odds_has_the_chances_of_both_rates():
    audit = GroupAudit(epsilon=np.inf, group_labels=["a", "b"])
    asked = {"group_sizes": [400, 400], "within": 0.1, "rate": 0.3}
    one, both = (audit.plan_verdict(m, **asked) for m in ("true_positive_rate", "equalized_odds"))
    assert both.passes == pytest.approx(one.passes**2)
    rng, answers = np.random.default_rng(1), []
    for _ in range(100):
        true, false = rng.binomial(400, [0.3, 0.3], (2, 2)).tolist()
        counts = tuple(((400 - f, f), (400 - t, t)) for t, f in zip(true, false, strict=True))
        result = audit_result("ab", noise=None, counts=counts)
        answers.append(result.verdict("equalized_odds", within=0.1).answer)
    assert both.passes == pytest.approx(answers.count("passes") / 100, abs=0.12)
    apart = audit.plan_verdict("equalized_odds", **asked | {"ratio": 0.4, "rate": 0.4})
    alone = audit.plan_verdict("true_positive_rate", **asked | {"ratio": 0.4, "rate": 0.4})
    assert alone.fails**2 < apart.fails <= 1.0 - (1.0 - alone.fails) ** 2


def test_a_plan_of_a_border_is_out_of_reach_and_none_needs_a_guess():
    audit = GroupAudit(epsilon=1.0, group_labels=["a", "b"])
    planned = audit.plan_verdict(group_sizes=[200, 200], ratio=0.8)
    assert planned.times_the_people is None
    assert "is out of reach" in str(planned)
    for wrong in ({"metric": ["error_rate"]}, {"metric": "error_rate", "outcomes": False}):
        with pytest.raises(ValueError, match="metric must be one of selection_rate"):
            audit.plan_verdict(group_sizes=[200, 200], **wrong)
    for wrong in ({"rate": 1.5}, {"metric": "auc"}, {"ratio": 4.0}, {"power": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            audit.plan_verdict(group_sizes=[200, 200], **wrong)
