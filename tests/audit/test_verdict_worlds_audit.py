"""Worlds whose verdict is known, with planted faults; `make audit` prints the fractions."""

import sys
from collections import Counter

import numpy as np
import pytest

from sklearn_dpwg.inspection import audit_result as audit_result_module
from sklearn_dpwg.inspection import verdicts
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.verdicts import Levels
from sklearn_dpwg.metrics.intervals import rate
from sklearn_dpwg.metrics.intervals.rate import Survival
from tests.helpers.audit_cases import audit_result
from tests.helpers.verdict_worlds import WORLDS, answers_in

pytestmark = pytest.mark.audit


@pytest.mark.parametrize("name", WORLDS)
def test_verdicts_are_as_seldom_wrong_as_they_say(name):
    counts = answers_in(WORLDS[name], WORLDS[name].n_audits)
    sys.stdout.write(f"\n  {name}: {dict(counts)}")
    assert WORLDS[name].is_kept(counts)


def largest_estimate(**facts):
    """Compare with the group of 2 % or more whose estimate is the largest."""
    counts = facts["counts"]
    rates = np.where(counts.sizes >= 0.02 * counts.sizes.sum(), counts.rates, -1.0)
    return verdicts.Comparison(**facts | {"reference": int(rates.argmax())})


def one_way(**facts):
    return verdicts.Comparison(**facts | {"both_ways": False})


FAULTS = {
    "reference of the largest estimate": (
        "rare and selected most",
        (audit_result_module, "Comparison", largest_estimate),
    ),
    "noise of everybody ignored": (
        "everybody, ratio .8",
        (rate, "survival_of", lambda noise, cells, weights: Survival(np.ones(1))),
    ),
    "two groups do not share": (
        "small differences of two",
        (verdicts, "levels_of", lambda counts, margin, error: Levels(0.0, error)),
    ),
    "the two sides of a reference do not share": (
        "small differences from a reference",
        (verdicts.Comparison, "_levels", Levels(0.0, 0.025)),
    ),
    "below a reference alone": (
        "above a reference",
        (audit_result_module, "Comparison", one_way),
    ),
    "error not shared": (
        "40 at the border",
        (verdicts, "levels_of", lambda counts, margin, error: Levels(0.0, error)),
    ),
    "an empty group counted": (
        "equal, 20 empty",
        (AuditResult, "_left_out", lambda self, named, fraction: {}),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault, monkeypatch):
    name, place = FAULTS[fault]
    monkeypatch.setattr(*place)
    counts = answers_in(WORLDS[name], 1200 if "two" in fault else 60)
    sys.stdout.write(f"\n  {fault}: {dict(counts)}")
    assert not WORLDS[name].is_kept(counts)


# Two metrics: counts are drawn, without noise, and told as an audit tells them.


def counted(cells):
    """Return an audit of counts of shape (n_groups, 2, 2) without noise."""
    counts = tuple(tuple(map(tuple, table)) for table in cells.tolist())
    return audit_result(range(len(counts)), noise=None, counts=counts)


def fractions(tell, n_audits):
    """Return the fraction of each answer, and by how much chance may raise it."""
    rng = np.random.default_rng(0)
    result = Counter(tell(rng) for _ in range(n_audits))
    sys.stdout.write(f"\n  {dict(result)}")
    known = Counter({answer: n / n_audits for answer, n in result.items()})
    return known, 3.0 * np.sqrt(0.025 * 0.975 / n_audits)


def odds_at_the_border(rng):
    """Tell equalized odds of two groups that are at the border by both rates."""
    true, false = rng.binomial(400, [0.6, 0.7]), rng.binomial(400, [0.3, 0.2])
    cells = np.array([[400 - false, false], [400 - true, true]]).transpose(2, 0, 1)
    return counted(cells).verdict("equalized_odds", within=0.1).answer


def odds_beyond_the_border(rng):
    """Tell equalized odds where only one rate is at the border, and barely."""
    true, false = rng.binomial(2000, [0.6, 0.7]), rng.binomial(2000, [0.2, 0.2])
    cells = np.array([[2000 - false, false], [2000 - true, true]]).transpose(2, 0, 1)
    return counted(cells).verdict("equalized_odds", within=0.1).answer


def test_equalized_odds_err_as_seldom_as_they_say():
    result, slack = fractions(odds_at_the_border, 1000)
    assert result["fails"] <= 0.025 + slack
    result, slack = fractions(odds_beyond_the_border, 600)
    assert result["passes"] <= 0.025 + slack


def test_metrics_that_do_not_fraction_the_error_are_seen(monkeypatch):
    monkeypatch.setattr(
        audit_result_module,
        "Comparison",
        lambda **facts: verdicts.Comparison(**facts | {"n_joint": 1}),
    )
    result, slack = fractions(odds_at_the_border, 1500)
    assert result["fails"] > 0.025 + slack
