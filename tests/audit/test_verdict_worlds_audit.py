"""Worlds whose verdict is known, with planted faults; `make audit` prints the shares."""

import sys

import pytest

from sklearn_dpwg.inspection import comparisons
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.contrasts import Levels
from tests.helpers.verdict_worlds import WORLDS, answers_in

pytestmark = pytest.mark.audit


@pytest.mark.parametrize("name", WORLDS)
def test_verdicts_are_as_seldom_wrong_as_they_say(name):
    counts = answers_in(WORLDS[name], WORLDS[name].n_audits)
    sys.stdout.write(f"\n  {name}: {dict(counts)}")
    assert WORLDS[name].is_kept(counts)


def largest_estimate(self, metric, at_least, plain=AuditResult._comparison, **which):
    """Compare with the group of 2 % or more whose estimate is the largest."""
    sizes = self._counted.group_sizes()
    rates = [rate.estimate for rate in self.rates(metric)]
    known = [place for place, size in enumerate(sizes) if size >= 0.02 * sum(sizes)]
    best = max(known, key=lambda place: rates[place])
    return plain(self, metric, at_least, **which | {"reference": self.group_labels[best]})


FAULTS = {
    "reference of the largest estimate": (
        "rare and selected most",
        (AuditResult, "_comparison", largest_estimate),
    ),
    "error not shared": (
        "40 at the border",
        (comparisons, "levels_of", lambda counts, margin, error: Levels(0.0, error)),
    ),
    "an empty group counted": (
        "equal, 20 empty",
        (AuditResult, "_left_out", lambda self, named, share: {}),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault, monkeypatch):
    name, place = FAULTS[fault]
    monkeypatch.setattr(*place)
    counts = answers_in(WORLDS[name], 60)
    sys.stdout.write(f"\n  {fault}: {dict(counts)}")
    assert not WORLDS[name].is_kept(counts)
