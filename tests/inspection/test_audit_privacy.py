"""What an audit lets out: neighbours, draws, and the law of what is released."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sklearn_dpwg.inspection import GroupAudit, group_audit
from sklearn_dpwg.privacy import NoiseSource, Relation

LABELS = ["a", "b", "c", "nobody"]


class Watched(NoiseSource):
    """Adds no noise and remembers what it was handed."""

    def integers(self, counts, *, release, sensitivity=None):
        self._paid.spend(release, release.mechanism, np.shape(counts))
        WATCHED.append((release, sensitivity, np.array(counts)))
        return np.asarray(counts)


WATCHED: list[tuple] = []


@pytest.fixture
def watched(monkeypatch):
    """Let audits hand their values to a source that remembers them."""
    monkeypatch.setattr(group_audit, "NoiseSource", Watched)


def handed(audit: GroupAudit, table: tuple) -> list[tuple]:
    """Return what an audit of a table hands to the noise."""
    WATCHED.clear()
    audit.run(*table)
    return list(WATCHED)


def random_table(rng: np.random.Generator, n: int) -> tuple:
    """Return records whose groups may be empty or hold one."""
    shares = rng.dirichlet(np.full(3, 0.3))
    groups = np.array(LABELS[:3], dtype=object)[rng.choice(3, n, p=shares)]
    return rng.integers(0, 2, n), np.round(rng.random(n), 2), groups


def with_another_record(rng: np.random.Generator, table: tuple, *, group: bool) -> tuple:
    """Return the table with one record replaced by any other, of any group."""
    y, scores, groups = (None if column is None else column.copy() for column in table)
    place = rng.integers(len(scores))
    scores[place] = rng.choice([0.0, 1.0, rng.random()])
    if y is not None:
        y[place] = rng.integers(0, 2)
    if group:
        groups[place] = rng.choice(np.array(LABELS, dtype=object))
    return y, scores, groups


AUDITS = {
    "counts": {},
    "bins": {"score_edges": (0.2, 0.5, 0.9)},
    "public sizes": {"sizes": "public"},
    "decisions": {},
}


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")
@pytest.mark.parametrize("name", AUDITS)
def test_neighbours_move_what_is_paid_for(name, watched):
    """A record that changes anything, its group too, moves two counts by one each at most."""
    rng = np.random.default_rng(17)
    audit = GroupAudit(1.0, group_labels=LABELS, **AUDITS[name])
    shape, farthest = (4, 1 if name == "decisions" else 2, 4 if name == "bins" else 2), 0
    for _ in range(210):
        table = random_table(rng, int(rng.integers(1, 12)))
        if name == "decisions":
            table = (None, *table[1:])
        other = with_another_record(rng, table, group=audit.sizes == "hidden")
        ((release, _, before),), ((paid, _, after),) = (
            handed(audit, one) for one in (table, other)
        )
        assert release == paid == audit.plan().release
        moved = np.abs(before - after)
        assert before.shape == shape
        assert before.sum() == len(table[1])  # a record is in one cell
        assert moved.max() <= 1
        assert moved.sum() <= 2
        farthest = max(farthest, int(moved.sum()))
    assert farthest == 2


@pytest.mark.parametrize("outcomes", [True, False])
def test_draws_are_those_of_the_plan(outcomes, monkeypatch):
    made = []

    class Remembered(NoiseSource):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(group_audit, "NoiseSource", Remembered)
    audit = GroupAudit(1.0, group_labels=LABELS)
    y, scores, groups = random_table(np.random.default_rng(0), 50)
    result = audit.run(y if outcomes else None, scores, groups)
    (source,) = made
    plan = audit.plan(outcomes=outcomes)
    assert [draw.release for draw in source.draws] == [plan.release]
    assert [draw.shape for draw in source.draws] == [(4, 2 if outcomes else 1, 2)]
    assert result.privacy_.events == plan.guarantee.events
    assert result.privacy_.relation == Relation.REPLACE_ONE


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
    most, n = -math.inf, len(first)
    for low in np.unique(np.concatenate([first, second])):
        p, q = (first >= low).mean(), (second >= low).mean()
        for one, other in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
            slack = math.exp(epsilon)
            variance = one * (1 - one) + slack**2 * other * (1 - other)
            most = max(most, (one - slack * other) / (math.sqrt(variance / n) + 3.0 / n))
    return most


# The first record is one of "a" that is selected, or one of "b" that is not.
NEIGHBOURS = (
    (np.array([1, 1, 0]), np.array([0.9, 0.2, 0.4]), np.array(["a", "b", "b"], dtype=object)),
    (np.array([0, 1, 0]), np.array([0.1, 0.2, 0.4]), np.array(["b", "b", "b"], dtype=object)),
)


def released(
    epsilon: float, factor: float = 1.0, *, told: bool = False, outcomes: bool = True
) -> list[np.ndarray]:
    """Return on both neighbours, of many audits, the smaller of what speaks for the first.

    The events "at least so much" of it have the largest ratio that there is.
    """
    audit = GroupAudit(epsilon, group_labels=LABELS)
    facts, n = audit._facts("scores"), 150_000
    release = facts.release.scaled(factor)
    found = []
    for seed, table in enumerate(NEIGHBOURS):
        _, exact, _ = audit._count(facts, table[0] if outcomes else None, *table[1:])
        cells = np.tile([exact[0, -1, 1], exact[1, 0, 0]], (n, 1))
        noisy = NoiseSource(seed, [release]).integers(cells, release=release)
        size = float(exact[0].sum()) if told else 0.0
        # of the second there are as many of "b" that are not selected
        most = 2 if outcomes else 3
        found.append(np.minimum(noisy[:, 0], most - noisy[:, 1]) + 1e6 * size)
    return found


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("epsilon", "outcomes"), [(0.1, True), (1.0, True), (1.0, False)])
def test_released_law(epsilon, outcomes):
    """Frequencies on two neighbours keep epsilon, and would not keep less: nothing is wasted."""
    first, second = released(epsilon, outcomes=outcomes)
    assert deviations_above(epsilon, first, second) < 4.5
    assert deviations_above(0.7 * epsilon, first, second) > 4.5


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("epsilon", "outcomes"), [(0.1, True), (1.0, True), (1.0, False)])
@pytest.mark.parametrize("fault", [{"factor": 0.7}, {"told": True}])
def test_a_planted_fault_is_seen(epsilon, outcomes, fault):
    """A wrong scale, and a size told exactly."""
    assert deviations_above(epsilon, *released(epsilon, outcomes=outcomes, **fault)) > 4.5
