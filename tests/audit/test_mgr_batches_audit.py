"""Statistical attacks on steps from Poisson batches; `make audit` prints the verdicts.

The guarantee says that for every test between two neighbours and every ε the power is at most
e^ε times the false alarms plus δ(ε). Each attack chooses its threshold and its ε on a fifth of the
runs and bounds both rates on the others (Clopper-Pearson), so a right implementation is convicted
once in a thousand; planted faults are.
"""

import math
import sys
import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.privacy.noise.poisson import PoissonSample
from sklearn_dpwg.solvers import MGR, Solution
from tests.helpers.cases.descent import BATCH_FAULTS, with_batches
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.replay import recorded

pytestmark = pytest.mark.audit

WRONG = 1e-3
N_RUNS = 15_000
EPSILONS = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 3.0])
N_STEPS, RATE = 2, 0.4
BUDGET = Budget(4.0, 1e-3)


def planned(loss=None, radius=1e-3, **parameters):
    """Return a plan that stays where it starts, with the canary alone in its group."""
    problem = make_problem(
        (1, 2), loss=loss or SquaredError(), n_features=1, radius=radius, scaling=0.0
    )
    options = {
        "sampling_rate": RATE, "risk_share": 0.3, "step_size": 1e-12, "loss_clip": math.inf,
        **parameters,
    }  # fmt: skip
    solver = MGR(n_steps=N_STEPS, **options)
    plan = solver.plan(problem, BUDGET)
    return solver, replace(plan, schedule=replace(plan.schedule, adapts=False))


def scores(solver, plan, targets, seed, source_class=NoiseSource):
    """Return a statistic of many runs: the sum over the steps of the gradient in units of noise."""
    data = make_data(plan.problem, [[1.0], [0.0], [0.0]], targets)
    start = Solution(np.zeros(1), np.array([1.0 - 1e-9, 1e-9]), 0)
    found = np.empty(N_RUNS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = source_class(seed, list(plan.releases) * N_RUNS)
    for run in range(N_RUNS):
        recorder = recorded(source)
        solver.run(plan, data, recorder, start=start)
        found[run] = -sum(asked.answer[0] / asked.noise_scale[0] for asked in recorder.asked)
    return found


def upper(count, n):
    return 1.0 if count >= n else float(stats.beta.ppf(1 - WRONG / 2, count + 1, n - count))


def lower(count, n):
    return 0.0 if count <= 0 else float(stats.beta.ppf(WRONG / 2, count, n - count + 1))


def audited_excess(null, other, plan):
    """Return the largest lower bound on power - e^ε alarms - δ(ε), at a choice made beforehand."""
    deltas = plan.guarantee.profile(EPSILONS)
    n_first = len(null) // 5
    best = (-np.inf, 0.0, 1.0, 0)
    for sign in (1.0, -1.0):
        a, b = sign * null[:n_first], sign * other[:n_first]
        for threshold in np.quantile(np.concatenate([a, b]), np.linspace(0.01, 0.99, 99)):
            power, false = (b > threshold).mean(), (a > threshold).mean()
            # less what the bounds on the other runs will take away
            doubts = 3.3 * np.sqrt(np.array([power * (1 - power), false * (1 - false)]) / len(null))
            shown = power - doubts[0] - np.exp(EPSILONS) * (false + doubts[1])
            gains = shown / deltas
            index = int(np.argmax(gains))
            best = max(best, (float(gains[index]), float(threshold), sign, index))
    _, threshold, sign, index = best
    rest = len(null) - n_first
    alarms = int((sign * null[n_first:] > threshold).sum())
    hits = int((sign * other[n_first:] > threshold).sum())
    power, false = lower(hits, rest), upper(alarms, rest)
    return power - math.exp(EPSILONS[index]) * false, float(deltas[index]), float(EPSILONS[index])


def verdict(name, null, other, plan):
    shown, claimed, epsilon = audited_excess(null, other, plan)
    sys.stdout.write(
        f"\n  {name}: audited delta({epsilon:g}) >= {max(shown, 0.0):.4f}, claimed {claimed:.4f}: "
        f"{'BROKEN' if shown > claimed else 'holds'}"
    )
    return shown > claimed, max(shown, 0.0) / claimed


PAIR = ([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0])


def test_steps_on_batches_keep_the_claim():
    solver, plan = planned(risk_share=0.01)
    runs = [scores(solver, plan, targets, seed) for seed, targets in enumerate(PAIR)]
    broken, share = verdict("antipodal gradients in batches", *runs, plan)
    assert not broken
    assert share > 0.6  # the attack comes near


def test_a_replacement_by_nothing_keeps_the_claim():
    solver, plan = planned(risk_share=0.01)
    runs = [
        scores(solver, plan, targets, seed)
        for seed, targets in enumerate([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    ]
    assert not verdict("a gradient against none in batches", *runs, plan)[0]


class Either(NamedTuple):
    """Who is in one of two samples."""

    first: PoissonSample
    second: PoissonSample
    by_place: bool = False

    def positions(self, *of_group):
        return np.union1d(self.first.positions(*of_group), self.second.positions(*of_group))


class Doubled(NoiseSource):
    """Samples at twice the rate that is accounted for."""

    def poisson_sample(self, release, *, by_place=False):
        return Either(*(super(Doubled, self).poisson_sample(release) for _ in range(2)))


def test_a_sampler_at_another_rate_is_caught():
    solver, plan = planned(risk_share=0.01)
    runs = [scores(solver, plan, targets, seed, Doubled) for seed, targets in enumerate(PAIR)]
    assert verdict("planted: sampled twice", *runs, plan)[0]


def test_noise_for_whole_groups_is_caught(monkeypatch):
    solver, plan = planned(risk_share=0.01)
    BATCH_FAULTS["noise for n_i, not for q n_i"](monkeypatch)
    runs = [scores(solver, plan, targets, seed) for seed, targets in enumerate(PAIR)]
    assert verdict("planted: noise for whole groups", *runs, plan)[0]


def test_half_the_norm_is_caught():
    solver, plan = planned(risk_share=0.01)
    half = with_batches(plan, gradient_norm=plan.problem.lipschitz / 2)
    runs = [scores(solver, half, targets, seed) for seed, targets in enumerate(PAIR)]
    assert verdict("planted: L in place of 2L", *runs, plan)[0]
