"""Do learned weights shrink where the worst-off group gained less, and not for noise alone?"""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SmoothedHinge, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent.group_weights import Shrinkage
from sklearn_dpwg.solvers.solver import Solution
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.sources import seeded

LOG_2 = math.log(2.0)
SIZES = (3000, 1500, 200)


def kept(risks, *, group_weights, variance=0.0, n_steps=10):
    shrinkage = Shrinkage(LOG_2, len(risks))
    for _ in range(n_steps):
        shrinkage.push(np.array(risks), np.full(len(risks), variance), np.array(group_weights))
    return shrinkage.kept


@pytest.mark.parametrize("drops", [(0.3, 0.3), (0.3, 0.1), (0.3, 0.45), (0.3, 0.0), (0.3, -0.1)])
def test_the_share_is_where_the_worst_parabola_is_least(drops):
    of_mean = drops[0]  # all weight is on the first group
    risks = [LOG_2 - drop for drop in drops]
    found = kept(risks, group_weights=(1.0, 0.0))
    alphas = np.linspace(0.5, 1.0, 5001)
    curvature = 2.0 * of_mean
    parabolas = [-(drop + curvature / 2) * alphas + curvature * alphas**2 / 2 for drop in drops]
    worst = parabolas[int(np.argmin(drops))]
    assert found == pytest.approx(alphas[worst.argmin()], abs=1e-3)


def test_groups_that_gain_alike_keep_all():
    assert kept([0.4, 0.4, 0.4], group_weights=(0.2, 0.3, 0.5)) == pytest.approx(1.0)


def test_a_model_that_gains_nothing_keeps_half():
    assert kept([0.7, 0.8], group_weights=(0.5, 0.5)) == 0.5


def test_without_a_step_all_is_kept():
    assert Shrinkage(LOG_2, 3).kept == 1.0


def test_one_group_keeps_all():
    assert kept([0.4], group_weights=(1.0,)) == 1.0


def test_noise_alone_takes_little():
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        shrinkage = Shrinkage(LOG_2, 4)
        for _ in range(100):
            noise = 0.2 * rng.standard_normal(4)
            shrinkage.push(0.5 + noise, np.full(4, 0.04), np.full(4, 0.25))
        found.append(shrinkage.kept)
    # noise of a mean risk is a tenth of the drop, and the least of four is a deviation too low
    assert 0.96 < np.mean(found) <= 1.0


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3)], ids=repr)
def test_log_losses_shrink_and_their_plans_say_so(loss):
    problem = make_problem(SIZES, loss=loss, radius=20.0, scaling=1.0)
    plan = MGR(n_steps=20).plan(problem, Budget(1.0, 1e-6))
    assert plan.schedule.shrinks
    assert "taken back" in str(plan.schedule)


@pytest.mark.parametrize(
    ("loss", "parameters"),
    [
        (SquaredError(), {}),
        (SmoothedHinge(), {}),
        (BinaryLogLoss(), {"group_rate": 0.1}),
        (BinaryLogLoss(), {"schedule": "paper"}),
    ],
)
def test_nothing_else_does(loss, parameters):
    problem = make_problem(SIZES, loss=loss, radius=20.0, scaling=1.0)
    plan = MGR(**({} if "schedule" in parameters else {"n_steps": 20}) | parameters).plan(
        problem, Budget(1.0, 1e-6)
    )
    assert not plan.schedule.shrinks
    assert "taken back" not in str(plan.schedule)


def test_a_start_is_not_shrunk_away(monkeypatch):
    problem = make_problem(SIZES, loss=BinaryLogLoss(), radius=20.0, scaling=1.0)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((sum(SIZES), problem.n_weights - 1))
    data = make_data(problem, rows, rng.integers(2, size=len(rows)))
    plan = MGR(n_steps=20).plan(problem, Budget(1.0, 1e-6))
    start = Solution(np.zeros(problem.n_weights), np.full(3, 1 / 3), 0)
    runs = []
    for share in (1.0, 0.5):
        monkeypatch.setattr(Shrinkage, "kept", property(lambda _, share=share: share))
        runs.append(
            [
                MGR(n_steps=20).run(plan, data, seeded(0, plan.releases), start=given).weights
                for given in (None, start)
            ]
        )
    (all_kept, of_start), (half_kept, again) = runs
    np.testing.assert_allclose(half_kept, 0.5 * all_kept)
    np.testing.assert_array_equal(of_start, again)
