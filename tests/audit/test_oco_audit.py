"""Statistical attacks on what the online solver promises; `make audit` prints the verdicts.

A bad pair of neighbours differs in one record of a known place and role. Everything that a game
releases is kept; a likelihood ratio is fitted to a fifth of the runs, and its error rates on the
others are held against the promise.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.solvers import OCO, Solution
from sklearn_dpwg.solvers.learners import FTRL
from tests.helpers.cases.stream import OCO_FAULTS
from tests.helpers.group_data import make_problem
from tests.helpers.lower_bounds import (
    DELTA,
    audited_mu,
    error_bounds,
    quiet_source,
    say,
    verdict,
)

pytestmark = pytest.mark.audit

RADIUS = 20.0
EPSILON = 2.0
N_RUNS = 10_000
N_ROUNDS = 3


class Fixed(SampleOracle):
    """Hands out each group's records in a fixed order."""

    def __init__(self, rows, targets, sizes):
        self.rows, self.targets = rows, targets
        self.next = np.concatenate([[0], np.cumsum(sizes)])[:-1].tolist()

    def draw(self, group, size):
        start = self.next[group]
        self.next[group] += size
        return self.rows[start : start + size], self.targets[start : start + size]


class Kept:
    """A real source that keeps what it released."""

    def __init__(self, source):
        self.source, self.rng, self.kept = source, source.rng, []

    def laplace(self, value, *, sensitivity, release):
        noisy = self.source.laplace(value, sensitivity=sensitivity, release=release)
        self.kept.append(np.atleast_1d(noisy))
        return noisy

    def gaussian_rows(self, shape, *, release):
        rows, kept = self.source.gaussian_rows(shape, release=release), self.kept

        class Rows:
            seeded = False

            def add(self, row, sensitivity):
                noisy = rows.add(row, sensitivity)
                kept.append(noisy)
                return noisy

        return Rows()


def bad_pair(plan, role):
    """Return two oracles; they differ in the first record of group 0 that plays a role."""
    problem = plan.problem
    n = int(problem.n_records)
    rows, targets = np.tile([0.2, 0.98], (n, 1)), np.full(n, -1.0)
    own = problem.group_sizes[0] / N_ROUNDS
    n_weight = round(plan.schedule.weight_rates[0])
    where = 0 if role == "weights" else n_weight
    assert n_weight < own
    other, flipped = rows.copy(), targets.copy()
    if role == "weights":
        other[where] = 0.2, -0.98  # its gradient is mirrored across the weights
    else:
        rows[where], other[where] = (1.0, 0.0), (-1.0, 0.0)  # the largest loss and the least
    return (rows, targets), (other, flipped)


def transcripts(plan, releases, role, n_runs, seed):
    """Return what many games release, on both neighbours: a row a game."""
    start = Solution(np.array([RADIUS, 0.0]), np.array([1.0 - 1e-9, 1e-9]), 0)
    learner = FTRL(strength=1e9)
    found = []
    for rows, targets in bad_pair(plan, role):
        source = quiet_source(seed, list(releases) * (2 * n_runs))
        seed += 1
        runs = []
        for _ in range(n_runs):
            kept = Kept(source)
            played = OCO(learner).begin(plan, kept, start=start)
            played.advance(Fixed(rows, targets, plan.problem.group_sizes), plan.problem.group_sizes)
            runs.append(np.concatenate(kept.kept))
        shortest = min(map(len, runs))
        found.append(np.array([run[:shortest] for run in runs]))
    width = min(each.shape[1] for each in found)
    return found[0][:, :width], found[1][:, :width]


def likelihood(null, other, loss_column=None):
    """Return log-likelihood ratios, with what they need fitted to the first fifth of the runs.

    All columns are Gaussian but one, which is Laplace where the record moves a noisy loss.
    """
    n_first = len(null) // 5
    rest = [column for column in range(null.shape[1]) if column != loss_column]
    first = [each[:n_first][:, rest] for each in (null, other)]
    centred = np.vstack([each - each.mean(axis=0) for each in first])
    covariance = np.cov(centred.T) + 1e-12 * np.eye(len(rest))
    direction = np.linalg.solve(covariance, first[1].mean(axis=0) - first[0].mean(axis=0))
    scores = [each[:, rest] @ direction for each in (null, other)]
    if loss_column is not None:
        losses = [each[:, loss_column] for each in (null, other)]
        centres = [np.median(each[:n_first]) for each in losses]
        scale = np.mean(
            [np.abs(x[:n_first] - c).mean() for x, c in zip(losses, centres, strict=True)]
        )
        for score, loss in zip(scores, losses, strict=True):
            score += (np.abs(loss - centres[0]) - np.abs(loss - centres[1])) / scale
    return scores


def says_broken(name, scores, plan):
    """Compare error rates with the trade-off curve of the plan's guarantee."""
    alarms, misses = error_bounds(*scores)
    allowed = float(plan.guarantee.tradeoff(alarms))
    is_broken = misses < allowed
    say(
        f"{name}: false alarms <= {alarms:.3f}, misses <= {misses:.3f}, promised misses >= "
        f"{allowed:.3f}: {'BROKEN' if is_broken else 'holds'}"
    )
    return is_broken


def planned(play, noise="toeplitz"):
    problem = make_problem((N_ROUNDS * 4, 60), radius=RADIUS, scaling=0.0, prior=(0.5, 0.5))
    solver = OCO(
        FTRL(strength=1e9),
        play=play,
        noise=noise,
        n_rounds=N_ROUNDS,
        weight_share=0.5,
        batch_size=2 if play == "sampled" else None,
        group_rate=1e-9,
        loss_clip=math.inf,
    )
    plan = solver.plan(problem, Budget(EPSILON, DELTA))
    scaled = {"sampled": 2.0, "weighted": 2.0}[play]
    assert plan.schedule.weight_rates[0] == scaled
    return plan


def audited(play, role, noise="toeplitz", shrink=1.0, n_runs=N_RUNS):
    """Return the scores of an attack, and the plan that it attacks."""
    plan = planned(play, noise)
    faulty = plan
    if shrink != 1.0:
        fewer = tuple(release.scaled(shrink) for release in plan.releases)
        faulty = dataclasses.replace(plan, releases=fewer)
    runs = transcripts(faulty, faulty.releases, role, n_runs, seed=1)
    # the first row of the sums, then the first loss
    return likelihood(*runs, loss_column=2 if role == "groups" else None), plan


@pytest.mark.parametrize("play", ["weighted", "sampled"])
@pytest.mark.parametrize("noise", ["toeplitz", "tree", "independent"])
def test_a_record_of_the_weights(play, noise):
    scores, _ = audited(play, "weights", noise)
    claimed = gdp_mu(EPSILON, DELTA)
    mu = audited_mu(*scores)
    assert not verdict(f"{play} {noise}, weights", mu, claimed)
    assert mu > 0.6 * claimed  # so that the attack means something


@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_a_record_of_the_groups(play):
    scores, plan = audited(play, "groups")
    assert not says_broken(f"{play}, groups", scores, plan)


@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_planted_batch_that_is_not_divided(play, monkeypatch):
    OCO_FAULTS["batch not divided"](monkeypatch)
    scores, _ = audited(play, "weights", n_runs=N_RUNS // 2)
    assert verdict(f"planted: {play}, undivided", audited_mu(*scores), gdp_mu(EPSILON, DELTA))


@pytest.mark.parametrize("play", ["weighted", "sampled"])
@pytest.mark.parametrize("role", ["weights", "groups"])
def test_planted_half_of_the_noise(play, role):
    scores, plan = audited(play, role, shrink=0.5, n_runs=N_RUNS // 2)
    name = f"planted: {play}, {role}, half the noise"
    if role == "weights":
        assert verdict(name, audited_mu(*scores), gdp_mu(EPSILON, DELTA))
    else:
        assert says_broken(name, scores, plan)
