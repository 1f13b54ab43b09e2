"""What an audit lets out: neighbours, draws, and the law of what is released."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sklearn_dpwg.inspection import GroupAudit, group_audit
from sklearn_dpwg.privacy import NoiseSource

LABELS = ["a", "b", "c", "nobody"]


def random_table(rng: np.random.Generator, n: int) -> tuple:
    """Return records whose groups may be empty or hold one."""
    fractions = rng.dirichlet(np.full(3, 0.3))
    groups = np.array(LABELS[:3], dtype=object)[rng.choice(3, n, p=fractions)]
    return rng.integers(0, 2, n), np.round(rng.random(n), 2), groups


AUDITS = {
    "counts": {},
    "bins": {"score_edges": (0.2, 0.5, 0.9)},
    "public sizes": {"sizes": "public"},
    "no outcomes": {},
}


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")
@pytest.mark.parametrize("name", AUDITS)
def test_neighbours_move_what_is_paid_for(name, monkeypatch):
    """A record that changes anything, its group too, moves two counts by one each at most."""
    handed, sources = [], []

    class Watched(NoiseSource):
        """Adds no noise and remembers what it was handed."""

        def integers(self, counts, *, release):
            self._paid.spend(release, release.mechanism, np.shape(counts))
            handed.append(np.array(counts))
            sources.append(self)
            return np.asarray(counts)

    monkeypatch.setattr(group_audit, "NoiseSource", Watched)
    rng, farthest = np.random.default_rng(17), 0
    audit, outcomes = GroupAudit(1.0, group_labels=LABELS, **AUDITS[name]), name != "no outcomes"
    plan = audit.plan(outcomes=outcomes)
    shape = (4, 1 + outcomes, 4 if name == "bins" else 2)
    for _ in range(60):
        y, scores, groups = random_table(rng, int(rng.integers(1, 12)))
        for _ in range(2):
            result = audit.run(y if outcomes else None, scores, groups)
            # what is drawn, and stated, is what was planned
            assert [draw.release for draw in sources[-1].draws] == [plan.release]
            assert [draw.shape for draw in sources[-1].draws] == [shape]
            assert result.privacy_.events == plan.guarantee.events
            assert result.privacy_.relation == plan.guarantee.relation
            place = rng.integers(len(scores))
            scores[place], y[place] = rng.choice([0.0, 1.0, rng.random()]), rng.integers(0, 2)
            if audit.sizes == "hidden":
                groups[place] = rng.choice(np.array(LABELS, dtype=object))
        moved = np.abs(handed[-2] - handed[-1])
        assert moved.max() <= 1
        assert moved.sum() <= 2
        farthest = max(farthest, int(moved.sum()))
    assert farthest == 2


@pytest.mark.parametrize("outcomes", [True, False])
def test_a_result_holds_the_noise_of_its_plan(outcomes):
    """Everything that a run returns, against what it returns without privacy."""
    y, groups = np.tile([0, 1], 500), np.repeat(np.arange(500), 2)
    noisy, exact = (
        GroupAudit(epsilon, group_labels=range(500), score_edges=[0.5]).run(
            y if outcomes else None, np.full(1000, 0.3), groups
        )
        for epsilon in (1.0, math.inf)
    )
    assert noisy.noise == GroupAudit(1.0, group_labels=range(500)).plan(outcomes=outcomes).noise
    apart = np.array(noisy.counts) - np.array(exact.counts)
    # five deviations to either side, for noise of heavy tails
    assert 0.75 < apart.std() / noisy.noise.std < 1.25
    assert (apart != 0).mean() > 0.5


def deviations_above(epsilon: float, first: np.ndarray, second: np.ndarray) -> float:
    """Return by how many deviations a frequency is above e^epsilon times the other, at most."""
    n, lows, slack = len(first), np.unique(np.concatenate([first, second])), math.exp(epsilon)
    p, q = (1.0 - np.searchsorted(np.sort(each), lows) / n for each in (first, second))
    one, other = np.stack([p, q, 1 - p, 1 - q]), np.stack([q, p, 1 - q, 1 - p])
    variance = one * (1 - one) + slack**2 * other * (1 - other)
    return float(((one - slack * other) / (np.sqrt(variance / n) + 3.0 / n)).max())


# The first record is one of "a" that is selected, or one of "b" that is not.
NEIGHBOURS = (
    (np.array([1, 1, 0]), np.array([0.9, 0.2, 0.4]), np.array(["a", "b", "b"], dtype=object)),
    (np.array([0, 1, 0]), np.array([0.1, 0.2, 0.4]), np.array(["b", "b", "b"], dtype=object)),
)


def released(
    epsilon: float, factor: float = 1.0, *, exact_size: bool = False, outcomes: bool = True
) -> list[np.ndarray]:
    """Return on both neighbours, of many audits, the smaller of what speaks for the first.

    The events "at least so much" of it have the largest ratio that there is.
    """
    audit = GroupAudit(epsilon, group_labels=LABELS)
    facts, n = audit._facts("scores"), 150_000
    release = facts.release.scaled(factor)
    actual = []
    for seed, table in enumerate(NEIGHBOURS):
        _, exact, _ = audit._count(facts, table[0] if outcomes else None, *table[1:])
        cells = np.tile([exact[0, -1, 1], exact[1, 0, 0]], (n, 1))
        noisy = NoiseSource(seed, [release]).integers(cells, release=release)
        size = float(exact[0].sum()) if exact_size else 0.0
        # of the second there are as many of "b" that are not selected
        most = 2 if outcomes else 3
        actual.append(np.minimum(noisy[:, 0], most - noisy[:, 1]) + 1e6 * size)
    return actual


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("epsilon", "outcomes"), [(0.1, True), (1.0, True), (1.0, False)])
def test_released_law(epsilon, outcomes):
    """Frequencies on two neighbours keep epsilon, and would not keep less: nothing is wasted."""
    first, second = released(epsilon, outcomes=outcomes)
    assert deviations_above(epsilon, first, second) < 4.5
    assert deviations_above(0.7 * epsilon, first, second) > 4.5


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("epsilon", "outcomes"), [(0.1, True), (1.0, True), (1.0, False)])
@pytest.mark.parametrize("fault", [{"factor": 0.7}, {"exact_size": True}])
def test_a_planted_fault_is_seen(epsilon, outcomes, fault):
    """A wrong scale, and a size that is exact."""
    assert deviations_above(epsilon, *released(epsilon, outcomes=outcomes, **fault)) > 4.5
