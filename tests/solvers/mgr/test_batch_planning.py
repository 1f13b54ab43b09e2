"""Choice between full passes and Poisson batches."""

import math

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, Hinge
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.accounting import predict_multiplier
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent.planning import (
    CLEAR_ADVANTAGE,
    GRADIENT_SPREAD,
    PASSES_BEFORE_BATCHES,
    choose_sampling,
    make_batches,
    most_passes,
    options,
    planned_rates,
    resolve_rates,
    seconds_of,
)
from sklearn_dpwg.solvers.descent.rule import HedgeRule
from sklearn_dpwg.solvers.solver import by_loss, signal
from sklearn_dpwg.solvers.steps import CORRECTION, risk_spread
from tests.helpers.group_data import make_problem

BUDGET = Budget(1.0, 1e-6)


def large(sizes=(100_000,) * 10, n_features=50, loss=None):
    prior = np.array(sizes) / sum(sizes)
    return Problem(loss or BinaryLogLoss(), tuple(sizes), n_features, 20.0, tuple(prior), 0.5)


def share_of(problem, rates):
    return float(np.dot(rates, problem.group_sizes)) / problem.n_records


# --- the choice --------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(900, 100), (25_000, 2_900, 1_000, 2_700), (500,)])
def test_small_data_are_read_in_full(sizes):
    problem = large(sizes, n_features=40)
    sampling = choose_sampling(problem, BUDGET, MGR())
    assert sampling.is_full
    assert sampling.n_steps == most_passes(problem, MGR(), signal(problem, BUDGET))


def test_passes_grow_with_what_steps_would_hide_and_batches_are_for_little_time():
    cases = ((2_000, 1.0, 150), (20_000, 1.0, 230), (2_000, 1e6, 1_000), (10**7, 1.0, 60))
    for size, epsilon, passes in cases:
        problem = large((size,) * 3, n_features=10)
        sampling = choose_sampling(problem, Budget(epsilon, 1e-6), MGR())
        assert (sampling.is_full, sampling.n_steps) == (True, passes)
    problem, full = large(), (1.0,) * 10
    enough = seconds_of(problem, full, PASSES_BEFORE_BATCHES)
    assert choose_sampling(problem, BUDGET, MGR(max_seconds=1.001 * enough)).is_full
    assert not choose_sampling(problem, BUDGET, MGR(max_seconds=0.9 * enough)).is_full
    assert choose_sampling(problem, BUDGET, MGR(max_passes=7)).n_steps == 7


def test_large_data_are_read_in_batches_where_time_is_short_and_that_is_clearly_better():
    problem, limit = large(), 2.0
    solver = MGR(max_seconds=limit)
    sampling = choose_sampling(problem, BUDGET, solver)
    assert not sampling.is_full
    assert sampling.remark.startswith("chosen: Poisson batches (bound ")
    assert " over full passes (bound " in sampling.remark
    # within the passes and the seconds of full passes
    passes = most_passes(problem, solver, signal(problem, BUDGET))
    assert sampling.n_steps * share_of(problem, sampling.rates) <= passes * (1 + 1e-9)
    assert seconds_of(problem, sampling.rates, sampling.n_steps) <= limit * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("in_passes", [5.0, 35.0])
@pytest.mark.parametrize("n_records", [30_000, 300_000, 3_000_000])
def test_the_choice_is_the_least_bound_within_the_limits(epsilon, in_passes, n_records):
    problem = large((n_records * 3 // 4, n_records // 4), n_features=20)
    limit = seconds_of(problem, (1.0, 1.0), 1) * in_passes
    budget, solver = Budget(epsilon, 1e-6), MGR(max_seconds=limit)
    passes = most_passes(problem, solver, signal(problem, budget))
    found = [
        (bound, sampling)
        for bound, sampling in options(problem, budget, solver, limit)
        if sampling.n_steps
    ]
    for _, sampling in found:
        assert seconds_of(problem, sampling.rates, sampling.n_steps) <= limit * (1 + 1e-9)
        # one step more would break a limit, or that of the accountant
        more = sampling.n_steps + 1
        assert (
            seconds_of(problem, sampling.rates, more) > limit
            or more * share_of(problem, sampling.rates) > passes
            or more > 50_000
        )
    chosen = choose_sampling(problem, budget, solver)
    passes = min((bound for bound, sampling in found if sampling.is_full), default=math.inf)
    batches = min((bound for bound, sampling in found if not sampling.is_full), default=math.inf)
    assert chosen.is_full == (batches >= CLEAR_ADVANTAGE * passes)
    best = passes if chosen.is_full else batches
    assert any(
        bound == best and sampling == chosen._replace(remark="") for bound, sampling in found
    )


def test_the_predicted_bound_is_that_of_the_plan():
    """The choice rests on a predicted multiplier, the plan on a calibrated one."""
    problem = large((1_500_000, 1_500_000), n_features=30)
    solver = MGR(max_seconds=3.0)
    sampling, plan = choose_sampling(problem, BUDGET, solver), solver.plan(problem, BUDGET)
    assert plan.schedule.batches.rates == sampling.rates
    assert plan.n_steps == sampling.n_steps
    shown = float(sampling.remark.split("(bound ")[1].split()[0])
    assert plan.predicted_excess == pytest.approx(shown, rel=0.05)
    assert plan.schedule.remark == sampling.remark
    assert sampling.remark in str(plan)
    assert plan.guarantee.epsilon <= 1.0


def test_a_default_plan_on_small_data_needs_no_privacy_loss_distribution(monkeypatch):
    """The choice is made in closed form, so where passes win it costs next to nothing."""
    monkeypatch.setattr("sklearn_dpwg.privacy.accounting.calibration._search", None)
    MGR().plan(make_problem((4000, 900)), BUDGET)


@pytest.mark.parametrize(
    "solver",
    [
        MGR(n_steps=30),
        MGR(sampling_rate=1.0),
        MGR(schedule="paper", max_passes=20),
    ],
    ids=repr,
)
def test_what_is_set_is_not_chosen(solver):
    plan = solver.plan(large(), BUDGET)
    assert plan.schedule.batches is None
    assert "chosen" not in str(plan)


def test_beyond_what_the_accountant_resolves_no_batches_are_planned():
    assert choose_sampling(large(), Budget(50.0, 1e-6), MGR()).is_full
    assert choose_sampling(large(), Budget(1.0, 1e-16), MGR()).is_full


def test_fewer_seconds_never_predict_better():
    problem = large((60_000, 30_000, 210_000))
    best = []
    for seconds in (0.6, 1.0, 2.0, 8.0, 100.0):
        found = options(problem, BUDGET, MGR(), seconds)
        best.append(min(bound for bound, sampling in found if sampling.n_steps))
    assert best == sorted(best, reverse=True)


def test_steps_that_were_asked_for_are_taken_on_batches_where_passes_are_too_slow():
    problem = large()
    quick = choose_sampling(problem, BUDGET, MGR(n_steps=150, max_seconds=4.0))
    assert not quick.is_full
    assert quick.n_steps == 150
    assert choose_sampling(problem, BUDGET, MGR(n_steps=150, max_seconds=1e3)).is_full


# --- rates and batches -------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(10_000, 10_000), (100_000, 1_000, 10), (50,)])
@pytest.mark.parametrize("share", [0.5, 0.03, 1e-3])
def test_planned_rates_are_powers_of_two_and_near_the_best_for_their_size(sizes, share):
    problem = large(sizes)
    rates = np.array(planned_rates(problem, share))
    assert (np.log2(rates) % 1 == 0).all()
    assert (rates <= 1.0).all()
    expected = rates * sizes
    if (rates < 1.0).all():
        assert share * sum(sizes) <= expected.sum() <= 2 * share * sum(sizes)
        rng = np.random.default_rng(0)
        prior = np.array(problem.prior)
        for _ in range(50):
            other = rng.dirichlet(np.ones(len(sizes))) * expected.sum()
            # each is within a factor of two of the proportion that is best
            assert prior @ (1 / expected) <= 1.2 * prior @ (1 / np.maximum(other, 1e-9))


@pytest.mark.parametrize("rate", [0.3, (0.3, 1.0, 0.01)])
def test_batches_state_what_the_theory_says(rate):
    problem = make_problem((300, 40, 5000))
    rates = resolve_rates(rate, 3)
    rule = HedgeRule.of(problem, MGR(), 60)
    multipliers = {one: 7.0 + one for one in rates}
    batches = make_batches(rule, rates, multipliers, 0.2)
    for group, size in enumerate(problem.group_sizes):
        one = rates[group]
        bound = 2 * problem.lipschitz if one < 1 else problem.gradient_diameter
        expected = (7.0 + one) * bound / (one * size) / math.sqrt(0.8)
        assert batches.gradient_stds[group] == pytest.approx(expected)
        b = rule.feedback_range
        expected = (7.0 + one) * b / (one * size) / math.sqrt(0.2)
        assert batches.risk_stds[group] == pytest.approx(expected)
        coins = (GRADIENT_SPREAD * problem.lipschitz) ** 2 * (1 - one) / (one * size)
        assert batches.sampling_variances[group] == pytest.approx(coins)
        assert batches.parts[group] == sorted(set(rates), reverse=True).index(one)
    low = problem.constants.infimum
    assert batches.center == pytest.approx((low + rule.ceiling) / 2)
    noise = rule.noise_of_batches(batches)
    d = problem.n_weights
    gradient = (d * batches.gradient_stds**2 + batches.sampling_variances) / 60
    np.testing.assert_allclose(noise.gradient, gradient)
    b = rule.feedback_range
    coins = b**2 / 4 * (1 - np.array(rates)) / (np.array(rates) * problem.group_sizes)
    np.testing.assert_allclose(noise.risk, (batches.risk_stds**2 + coins) / 60)
    # and the bound is that of section 6 with these variances
    theta = rule.sharpness(noise)
    longest = 60 * rule.longest_step / (1 - rule.max_momentum)
    for group, prior in enumerate(problem.prior):
        of_coordinate = math.sqrt(noise.gradient[group] / problem.n_weights)
        total = min(by_loss(problem.loss).step_share * rule.aim / of_coordinate, longest)
        descent = rule.aim**2 / (2 * total) + total * noise.gradient[group] / 2
        hedge = -math.log(prior) / theta + theta * risk_spread(problem) ** 2 / 60
        hedge += theta * (noise.risk[group] + noise.risk.max()) / 4
        assert rule.bound(noise)[group] == pytest.approx(descent + hedge, rel=1e-6)


@pytest.mark.parametrize("group_rate", [0.05, 3.0])
@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_coins_alone_do_not_raise_an_expected_weight(group_rate, rate):
    """log E exp(ηS) for losses at both ends of their range, exactly, against the correction."""
    problem = make_problem((50, 7))
    rule = HedgeRule.of(problem, MGR(), 60)
    batches = make_batches(rule, (rate, 1.0), {rate: 1.0, 1.0: 1.0}, 0.2)
    bound = batches.log_mean_exp_of_coins(group_rate)
    assert bound[1] == 0.0
    b = rule.feedback_range
    for n_high in (0, 20, 50):
        signs = np.repeat([1.0, -1.0], [n_high, 50 - n_high])
        x = group_rate * signs * (b / 2) / (rate * 50)
        exact = np.log1p(rate * np.expm1(x)) - rate * x
        assert exact.sum() <= bound[0] * (1 + 1e-12)


def test_plans_on_batches_keep_the_budget_and_correct_for_noise_and_coins():
    problem = make_problem((300, 40, 5000), loss=Hinge())
    plan = MGR(n_steps=30, sampling_rate=(0.2, 1.0, 0.05), group_rate=0.3).plan(problem, BUDGET)
    schedule, batches = plan.schedule, plan.schedule.batches
    eta = schedule.group_rate
    expected = batches.log_mean_exp_of_coins(eta) + (eta * batches.risk_stds) ** 2 / 2
    np.testing.assert_allclose(schedule.noise_correction, CORRECTION * expected)
    assert plan.guarantee.epsilon <= 1.0
    assert plan.predicted_excess == pytest.approx(
        np.array(problem.prior) @ plan.predicted_excess_if_worst
    )
    assert 0.0 <= plan.predicted_seconds - seconds_of(problem, batches.rates, 30) < 0.2


@pytest.mark.parametrize("rate", [0.01, 0.2])
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_the_predicted_multiplier_is_close_where_plans_are_made(rate, epsilon):
    from sklearn_dpwg.privacy import Release, calibrate

    budget = Budget(epsilon, 1e-6)
    release = Release("g", "gaussian", 1.0, 2000, sampling_rate=rate)
    calibrated = calibrate([release], budget)[0].noise_multiplier
    assert predict_multiplier(2000, rate, budget) == pytest.approx(calibrated, rel=0.02)


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rate", [0.0, -0.1, 1.1, math.nan, math.inf, True, "0.1", "full", {"a": 0.1}, (0.1, 0.2, 0.3),
             (0.1, None), (0.1, "x"), (0.1, 0.0), ()],
    ids=repr,
)  # fmt: skip
def test_wrong_rates_are_refused(rate):
    with pytest.raises(ValueError, match="sampling_rate of MGR must be above 0, at most 1"):
        MGR(sampling_rate=rate).plan(make_problem((40, 90)), BUDGET)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (MGR(schedule="paper", sampling_rate=0.1), "must be None with schedule='paper'"),
        (MGR(schedule="paper", max_seconds=1.0), "must be None with schedule='paper'"),
        (MGR(max_seconds=1e-5), r"allow for 1 step\(s\), predicted to take"),
        (MGR(n_steps=10**6, max_seconds=1.0), r"allow for 1,000,000 step\(s\)"),
        (MGR(sampling_rate=0.1, max_seconds=0.01), r"allow for 1 step\(s\)"),
        (MGR(sampling_rate=0.1, loss_ceiling=-1.0), "loss_ceiling of MGR must be above"),
        (MGR(n_steps=3, sampling_rate=1e-9), "Samples this rare would keep delta"),
    ],
    ids=repr,
)
def test_what_cannot_be_is_refused_by_name(solver, message):
    with pytest.raises(ValueError, match=message):
        solver.plan(make_problem((40, 90)), BUDGET)
