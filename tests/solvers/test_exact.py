"""The exact solver promises nothing about privacy, releases nothing and says so."""

import math

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import Exact
from tests.helpers.convex_programs import regularised
from tests.helpers.group_data import make_risks

PROBLEM = Problem(BinaryLogLoss(), (20, 10), 3, 4.0, (0.5, 0.5), 1.0)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e300])
def test_finite_epsilon_is_refused_with_a_sentence(epsilon):
    with pytest.raises(
        ValueError, match=r"^solver 'exact' .* needs epsilon=inf, got .*\.$"
    ) as error:
        Exact().plan(PROBLEM, Budget(epsilon, 1e-6))
    assert repr(epsilon) in str(error.value)


def test_plan_has_no_releases_and_no_privacy():
    plan = Exact(tolerance=1e-7).plan(PROBLEM, Budget(math.inf, 1e-6))
    assert plan.releases == ()
    assert plan.guarantee.epsilon == math.inf
    assert not plan.guarantee.is_private
    assert plan.predicted_excess == 1e-7
    assert plan.predicted_excess_if_worst == (1e-7, 1e-7)
    preview = str(plan)
    assert "none: the exact solution, without any privacy" in preview
    assert "duality gap of 1e-07" in preview


@pytest.mark.parametrize("sizes", [(20, 10), (30,), (200, 50, 90)])
def test_the_papers_is_the_regularised_saddle_point(sizes):
    """The remark after Lemma 4, against a solver of another kind; at least one group is enough."""
    loss, p, n = BinaryLogLoss(), len(sizes), min(sizes)
    problem = Problem(loss, sizes, 3, 4.0, (1.0 / p,) * p, 1.0)
    risks, solver = make_risks(loss, sizes), Exact(1e-9, schedule="paper")
    plan = solver.plan(problem, Budget(math.inf, 1e-6))
    big, diameter, k = max(problem.lipschitz, problem.loss_range), 8.0, p * n
    mu_weights = big / diameter * math.sqrt(p / k) * math.sqrt(math.log(k / p) * math.log(k))
    mu_groups = math.inf
    if p > 1:
        mu_groups = big * math.sqrt(p * math.log(k / p) * math.log(k) / (k * math.log(p)))
    assert plan.schedule.mu_weights == pytest.approx(mu_weights)
    assert plan.schedule.mu_groups == pytest.approx(mu_groups)
    found = solver.run(plan, risks, NoiseSource(None, ()))
    expected = regularised(
        risks,
        radius=4.0,
        prior=np.full(p, 1.0 / p),
        mu_weights=mu_weights,
        mu_groups=min(mu_groups, 1e6),
        center=np.zeros(4),
    )
    assert found.weights == pytest.approx(expected.weights, abs=2e-3)
    # the two regularisers cost the largest risk no more than is predicted
    least = worst_group_optimum(make_risks(loss, sizes), radius=4.0, tolerance=1e-9)
    excess = risks.risks(found.weights).max() - risks.risks(least.weights).max()
    assert -1e-8 <= excess <= plan.predicted_excess
