"""The exact solver promises nothing about privacy, releases nothing and says so."""

import math

import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import Exact

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
