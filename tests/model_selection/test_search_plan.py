"""Division of a private search's budget, and the number of its runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import RdpAccountant

from sklearn_dpwg.model_selection.search import count_runs, plan_search
from sklearn_dpwg.privacy import Budget

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("SeededNoiseWarning", "WeakPlanWarning", "NoProtectionWarning")
]


@pytest.mark.parametrize(
    ("epsilon", "mean", "fraction"),
    [(0.3, 2.0, None), (4.0, 20.0, None), (1.0, 1.0, None), (1.0, 4.0, 0.2), (1.0, 1.0, 0.03)],
)
def test_a_plan_that_anyone_can_compute_again(epsilon, mean, fraction):
    budget = Budget(epsilon, 1e-6)
    plan = plan_search(budget, mean_runs=mean, count_fraction=fraction)
    before = []
    assert (plan.counts is None) is (fraction is None)
    if fraction is not None:
        assert plan.count_std == pytest.approx(math.sqrt(2.0 / fraction) / budget.mu)
        before = [dp_event.GaussianDpEvent(1.0 / (math.sqrt(fraction) * budget.mu))]
    assert plan.hides_groups is (fraction is not None)
    mu = Budget(plan.run_epsilon, plan.run_delta).mu
    runs = [dp_event.GaussianDpEvent(1 / mu), dp_event.LaplaceDpEvent(plan.score_multiplier)]
    at_large_delta = []
    for run in runs:
        accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
        accountant.compose(dp_event.ComposedDpEvent(before))
        total = accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, 1.0))
        # dp_accounting's default orders are fewer
        assert 0.99 * epsilon < total.get_epsilon(1e-6) < 1.05 * epsilon
        at_large_delta.append(total.get_epsilon(1e-3))
    # where noise on scores costs more than noise in fits
    assert plan.guarantee.epsilon_at(1e-3) == pytest.approx(max(at_large_delta), rel=0.05)
    assert plan.guarantee.epsilon <= epsilon
    assert plan.run_epsilon < epsilon


@pytest.mark.parametrize(("k", "fraction"), [(3, None), (2, 0.2)])
def test_every_division_of_a_persons_rows_keeps_the_budget(k, fraction):
    """Of k rows a are fitted on, each at a k-th of μ, and k − a move a score."""
    budget = Budget(1.0, 1e-6)
    known = {"mean_runs": 4.0, "count_fraction": fraction}
    plan = plan_search(budget, rows_per_person=k, **known)
    mu, costs = Budget(plan.run_epsilon, plan.run_delta).mu, []
    for a in range(k + 1):
        run = [dp_event.GaussianDpEvent(k / (a * mu))] if a else []
        run += [dp_event.LaplaceDpEvent(plan.score_multiplier / (k - a))] if a < k else []
        accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
        if fraction is not None:  # all k rows are counted, wherever they go
            accountant.compose(dp_event.GaussianDpEvent(plan.counts.noise_multiplier / k))
        best = dp_event.RepeatAndSelectDpEvent(dp_event.ComposedDpEvent(run), 4.0, 1.0)
        costs.append(accountant.compose(best).get_epsilon(1e-6))
    assert max(costs) < 1.05  # dp_accounting's default orders are fewer
    assert len(plan.guarantee.events) == k + 1
    assert 0.99 < plan.guarantee.epsilon <= 1.0
    of_row = plan_search(budget, **known)
    # divided rows cost no more than those that are all fitted on, or all held out
    assert plan.score_multiplier == pytest.approx(k * of_row.score_multiplier, rel=1e-3)
    assert plan.run_epsilon == pytest.approx(of_row.run_epsilon, rel=1e-3)
    if fraction is not None:
        assert plan.count_std == pytest.approx(k * of_row.count_std, rel=1e-9)


@pytest.mark.parametrize("mean", [1.0, 1.5, 6.0])
def test_number_of_runs(mean):
    plan = SimpleNamespace(mean_runs=mean)
    rng = np.random.default_rng(1)
    counts = np.array([count_runs(plan, rng) for _ in range(4000)])
    assert counts.min() == 1
    assert counts.mean() == pytest.approx(mean, abs=5 * counts.std() / math.sqrt(4000) + 1e-9)
    # the truncated negative binomial of Papernot and Steinke, Definition 1, with η = 1
    assert np.mean(counts == 1) == pytest.approx(1.0 / mean, abs=0.04)
