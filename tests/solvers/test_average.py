"""Do the shares of iterates serve the worst group, from released numbers alone?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import AGS, MGR, PhasedERM, steps
from sklearn_dpwg.solvers.descent import group_weights
from sklearn_dpwg.solvers.descent.group_weights import N_BLOCKS, BestAverage
from sklearn_dpwg.solvers.steps import least_worst_shares
from tests.helpers.contract import moves_on_a_transcript
from tests.helpers.group_data import make_problem
from tests.helpers.neighbours import neighbours

N_ITERATES = 4 * N_BLOCKS
QUIET = Budget(1e5, 1e-5)


@given(st.integers(2, 9), st.integers(1, 5), st.floats(0.0, 0.3), st.integers(0, 10**6))
def test_no_other_shares_are_better(n_blocks, n_groups, price, seed):
    rng = np.random.default_rng(seed)
    risks, usual = rng.random((n_blocks, n_groups)), rng.dirichlet(np.ones(n_blocks))
    found = least_worst_shares(risks, price, usual)
    found = usual if found is None else found
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)

    def cost(shares):
        return (shares @ risks).max() + price * np.abs(shares - usual).sum()

    others = [usual, *rng.dirichlet(np.full(n_blocks, 0.3), 200)]
    others += [0.9 * found + 0.1 * other for other in others]
    assert cost(found) <= min(map(cost, others)) + 1e-7


def filled(variance=0.0, ceilings=(1.0,), n_iterates=N_ITERATES, cost=0.0):
    """Return what a run in which two groups take turns has averaged; the first half is worse."""
    average = BestAverage(n_iterates, 1, np.array([0.0, cost]))
    for t in range(n_iterates):
        x = 1.0 if t < n_iterates / 2 else 0.4
        risks, mixture = np.array([x**2, (x - 0.5) ** 2]), np.array([0.5, 0.5])
        average.push(np.array([x]), mixture)
        feedback = risks, np.full(2, variance), ceilings[t % len(ceilings)]
        average.hear(np.array([x]), mixture, *feedback)
    return average


def test_late_iterates_count_where_they_are_clearly_better():
    average = filled()
    shares = average.shares()
    learned, mixture = average.mean_with(shares)
    np.testing.assert_allclose(learned, 0.4)
    np.testing.assert_allclose(mixture, 0.5)
    risks, _, weighted = average.risks_with(shares)
    np.testing.assert_allclose(risks, [0.16, 0.01])
    assert weighted == pytest.approx(0.085)
    assert average.total / N_ITERATES == pytest.approx(0.7)


@pytest.mark.parametrize(
    "facts", [{"variance": 10.0}, {"ceilings": (1.0, 2.0)}, {"n_iterates": N_ITERATES - 1}]
)
def test_shares_are_equal_where_nothing_is_clear(facts):
    assert filled(**facts).shares() is None


def test_weight_pays_what_the_group_player_pays():
    """A group whose weight costs more than its risk is not the worst one."""
    rng = np.random.default_rng(0)
    shares = []
    for cost in (0.0, 5.0):
        average = BestAverage(N_ITERATES, 1, np.array([0.0, cost]))
        for t in range(N_ITERATES):
            risks = np.array([0.1 + 0.1 * (t < N_ITERATES / 2), 0.5 * (t >= N_ITERATES / 2)])
            average.push(np.zeros(1), np.array([1.0, 0.0]))
            average.hear(rng.random(1), np.array([1.0, 0.0]), risks, np.zeros(2), 1.0)
        shares.append(average.shares()[N_BLOCKS // 2 :].sum())
    assert shares[0] < 0.5
    assert shares[1] == pytest.approx(1.0)


SOLVERS = (
    MGR(n_steps=150, centring=False, risk_share=0.3),
    AGS(n_steps=150, risk_share=0.3),
    PhasedERM(2, centring=False),
)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda each: each.name)
def test_a_record_moves_no_more_than_is_paid_and_no_share(solver, monkeypatch):
    """Neighbours on one transcript have one output, in runs whose shares it decides."""
    decided = []

    def watched(risks, price, usual=None):
        decided.append(least_worst_shares(risks, 0.0, usual))
        return decided[-1]

    monkeypatch.setattr(group_weights, "least_worst_shares", watched)
    monkeypatch.setattr(steps, "least_worst_shares", watched)
    problem = make_problem((30, 70), loss=BinaryLogLoss(), n_features=2, radius=3.0)
    plan = solver.plan(problem, QUIET)
    for seed in range(8):
        moves = moves_on_a_transcript(plan, solver, neighbours(problem, seed), seed)
        assert max(moves.values()) <= 1.0 + 1e-6
    assert any(shares is not None for shares in decided)


def test_where_noise_is_quiet_the_last_answer_is_judged_too():
    problem = make_problem((30, 70), loss=BinaryLogLoss(), n_features=2, radius=3.0)
    counts = [
        PhasedERM(3).plan(problem, budget).releases[-1].max_count
        for budget in (Budget(1, 1e-6), QUIET)
    ]
    assert counts == [2, 3]
