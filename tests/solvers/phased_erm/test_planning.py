"""Is the bound that plans minimise a bound, and do plans minimise it?"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.losses import AbsoluteError, BinaryLogLoss, Hinge, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import PhasedERM
from sklearn_dpwg.solvers.rounds import STRENGTHS, DescentBound
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import CORRECTION, risk_spread
from tests.helpers.group_data import make_problem

BUDGET = Budget(1.0, 1e-5)


# --- the bound for the weights -----------------------------------------------------------------


def exact_excess(eigenvalues, target, strengths, stds, averaged):
    """Return the expected excess of averaged noisy proximal steps on a quadratic, by matrices."""
    n_phases, d = len(strengths), len(eigenvalues)
    hessian = np.diag(eigenvalues)
    # coordinates of (start - target, noise of each phase) in each iterate
    state = np.zeros((d, 1 + n_phases, d))
    state[:, 0, :] = np.eye(d)
    average = np.zeros_like(state)
    for t, strength in enumerate(strengths):
        step = strength * np.linalg.inv(hessian + strength * np.eye(d))
        state = np.einsum("ij,jkl->ikl", step, state)
        state[:, 1 + t, :] = np.eye(d)
        if t >= n_phases - averaged:
            average += state / averaged
    bias = average[:, 0, :] @ -target
    noise = sum(
        std**2 * np.trace(average[:, 1 + t].T @ hessian @ average[:, 1 + t])
        for t, std in enumerate(stds)
    )
    return 0.5 * bias @ hessian @ bias + 0.5 * noise


@st.composite
def descents(draw):
    n_phases = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d = int(rng.integers(1, 6))
    eigenvalues = 10.0 ** rng.uniform(-4, 1, size=d) * (rng.random(d) < 0.8)
    target = rng.standard_normal(d)
    ratios = 10.0 ** rng.uniform(-0.5, 2, size=n_phases)
    ratios[-1] = 1.0
    bound = DescentBound(
        initial_distance=float(np.linalg.norm(target)) * float(rng.choice([1.0, 2.0])),
        lipschitz=1e9,  # so that the quadratic part counts
        trace=max(float(eigenvalues.sum()), 1e-4) * float(rng.choice([1.0, 3.0])),
        n_weights=d,
        strength_ratios=tuple(ratios),
        n_averaged=int(rng.integers(1, n_phases + 1)),
    )
    return bound, eigenvalues, target, 10.0 ** rng.uniform(-3, 1)


@given(descents())
def test_no_quadratic_exceeds_the_bound(descent):
    bound, eigenvalues, target, std = descent
    bounds = bound.at_strengths(np.full_like(STRENGTHS, std))
    for index in range(0, len(STRENGTHS), 6):
        strengths = STRENGTHS[index] * np.array(bound.strength_ratios)
        stds = std / np.array(bound.strength_ratios)
        result = exact_excess(eigenvalues, target, strengths, stds, bound.n_averaged)
        assert result <= bounds[index] * (1 + 1e-9)


@pytest.mark.parametrize("loss", [AbsoluteError(), Hinge(), BinaryLogLoss(), SquaredError()])
def test_noise_on_one_release_costs_at_most_the_bound(loss):
    """The excess from noise alone, on records, against the smaller of the two noise bounds."""
    problem = make_problem((50,), loss=loss, radius=2.0)
    solved = problem
    if not loss.smooth:
        solved = dataclasses.replace(problem, loss=loss.smoothed(0.1))
    bound = DescentBound(1e-9, solved.lipschitz, solved.smoothness, 3, (1.0,), 1)
    rng = np.random.default_rng(0)
    scores, targets = rng.uniform(-2, 2, 50), rng.choice([-1.0, 1.0], 50)
    # squared errors are Lipschitz on the ball only, which more noise would leave
    for std in (0.01, 0.1, 1.0) if isinstance(loss, SquaredError) else (0.01, 0.1, 1.0, 10.0):
        # a score moves by a normal variable whose deviation is at most that of the weights times
        # the row norm; the strength of the grid is of no account with a single release
        moved = scores + std * problem.row_norm * rng.standard_normal((20_000, 1))
        rise = (loss.value(moved, targets) - loss.value(scores, targets)).mean()
        allowed = bound.at_strengths(np.full_like(STRENGTHS, std)).min()
        slack = 0.1 * problem.constants.lipschitz if not loss.smooth else 0.0
        assert rise <= 1.02 * allowed + slack


# --- the bound for the groups, and the whole ---------------------------------------------------


def test_the_whole_bound_is_the_one_written_down():
    problem = make_problem((300, 900), radius=5.0)
    plan = PhasedERM(4, risk_fraction=0.2, averaging=0.5).plan(problem, BUDGET)
    schedule, mu = plan.schedule, BUDGET.mu
    c = by_loss(problem.loss).loss_clip * math.log(2.0) - problem.constants.infimum
    assert schedule.sums.loss_range == pytest.approx(c)
    noise_of_risks = math.sqrt(3 / 0.2) / mu * c / np.array([300, 900])
    spread = risk_spread(problem) ** 2 / 4
    quadratic = spread + (noise_of_risks**2 + noise_of_risks.max() ** 2) / 16
    prior = np.array(problem.prior)
    theta = math.sqrt(-prior @ np.log(prior) / (spread + (noise_of_risks**2).mean() / 8))
    assert schedule.group_rate == pytest.approx(theta / 4)
    expected = -np.log(prior) / theta + theta * quadratic
    z = math.sqrt(4 / 0.8) / mu
    for group, size in enumerate(problem.group_sizes):
        # a hundredth for the solver, and no weights are farther apart than the ball is wide
        alone = 1.01 * problem.gradient_diameter / (size * STRENGTHS)
        stds = z * np.minimum(alone, 10.0)
        weights_part = schedule.bound.at_strengths(stds).min()
        assert plan.predicted_excess_if_worst[group] == pytest.approx(
            weights_part + expected[group], rel=1e-6
        )
    assert plan.predicted_excess == pytest.approx(prior @ plan.predicted_excess_if_worst)
    assert schedule.correction == pytest.approx(
        CORRECTION * (schedule.group_rate * noise_of_risks) ** 2 / 2, rel=1e-5
    )


# --- the paper ---------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [2.0, 0.2])  # either term of η is the smaller one
def test_paper_schedule_is_the_papers(epsilon):
    problem = make_problem((1000, 4000), radius=5.0, n_features=4)
    plan = PhasedERM(schedule="paper").plan(problem, Budget(epsilon, 1e-6))
    schedule, n, d, p = plan.schedule, 1000, 5, 2
    assert schedule.n_phases == 9  # floor(log2(1000))
    assert schedule.solved.group_sizes == (111, 111)
    assert schedule.solved.prior == (0.5, 0.5)
    big = max(problem.lipschitz, problem.loss_range)
    log_delta = math.log(1e6)
    eta = (10.0 / big) * min(
        epsilon / math.sqrt(72 * d * math.log2(n) * log_delta),
        math.sqrt(p) / (math.log(2000) ** 0.75 * math.sqrt(2000)),
    )
    for t in range(9):
        eta_t = eta * 2.0 ** -(t + 1)
        phase = schedule.phase(t, np.array([0.5, 0.5]))
        assert phase.mu_weights == pytest.approx(1 / (eta_t * 111))
        assert phase.mu_groups == pytest.approx(1 / (eta * n))
        std = 6 * big * math.sqrt(2 * math.log2(n) * log_delta * eta * eta_t) / epsilon
        assert plan.releases[t].noise_multiplier * phase.sensitivity == pytest.approx(std)
    assert plan.guarantee.epsilon < epsilon / 10  # exact accounting of noise meant for epsilon
    assert schedule.n_averaged == 1


def theorem_of_the_paper(problem, plan):
    """Lemma 4 as printed, once a phase, and L times the length of the last noise."""
    n, p, d = plan.schedule.solved.group_sizes[0], problem.n_groups, problem.n_weights
    L, B = problem.lipschitz, problem.loss_range
    moved, total = problem.diameter, 0.0
    for t, release in enumerate(plan.releases):
        phase = plan.schedule.phase(t, np.full(p, 1 / p))
        w, groups = phase.mu_weights, phase.mu_groups
        stability = (L**2 / (n * w) + L * B / (n * np.sqrt(w * groups))) * np.log(n) * np.log(n * p)
        total += w * moved**2 + stability + B * np.sqrt(np.log(p * n)) / np.sqrt(n)
        total += groups * np.log(p) if p > 1 else 0.0
        moved = np.sqrt(d) * release.noise_multiplier * phase.sensitivity
    return total + L * moved


# at the last, with more than the paper's noise
@pytest.mark.parametrize(("sizes", "epsilon"), [((2000,), 0.5), ((300,) * 5, 1e5)])
def test_paper_plans_predict_what_lemma_4_prints(sizes, epsilon):
    problem = make_problem(sizes, radius=5.0, n_features=4)
    plan = PhasedERM(schedule="paper").plan(problem, Budget(epsilon, 1e-6))
    assert plan.predicted_excess == pytest.approx(theorem_of_the_paper(problem, plan), rel=1e-12)
