"""Plans and runs on centred rows; docs/theory/centring.md."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, Huber, Loss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import MGR, PhasedERM
from sklearn_dpwg.solvers.centring import (
    BEFORE,
    CENTRE,
    CONSTANT,
    SPREAD,
    Centring,
    GradientClip,
    centred_problem,
    release_centre,
)
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.replay import silent

BUDGET = Budget(1.0, 1e-6)


def problem_of(**facts) -> Problem:
    return make_problem((400, 90), **{"loss": BinaryLogLoss(), "n_features": 4, **facts})


@pytest.mark.parametrize("solver", [MGR(), PhasedERM()], ids=repr)
def test_both_releases_take_their_fractions_of_the_budget(solver):
    plan = solver.plan(problem_of(radius=30.0), BUDGET)
    of_rows, of_squares = plan.releases[:2]
    assert (of_rows.name, of_squares.name) == (CENTRE, SPREAD)
    assert plan.guarantee.epsilon == pytest.approx(1.0, rel=1e-4)
    for release, fraction in ((of_rows, BEFORE[CENTRE]), (of_squares, BEFORE[SPREAD])):
        assert release.max_count == 1
        spent = 1.0 / release.noise_multiplier**2
        assert spent == pytest.approx(fraction * BUDGET.mu**2, rel=1e-4)
    assert "released mean row" in str(plan)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, True),
        ({"loss": MultinomialLogLoss(3)}, True),
        ({"scaling": 0.0}, False),
        ({"loss": SquaredError()}, True),
        ({"loss": Huber(0.3)}, False),
    ],
    ids=str,
)
def test_some_losses_with_an_intercept_are_centred(facts, expected):
    problem = problem_of(**facts)
    assert (MGR().plan(problem, BUDGET).schedule.centring is not None) == expected
    assert not MGR(centring=False).plan(problem, BUDGET).schedule.centring
    assert not MGR(step_size=0.1).plan(problem, BUDGET).schedule.centring
    assert not MGR(schedule="paper").plan(problem, BUDGET).schedule.centring


class WithoutEnds(BinaryLogLoss):
    """A loss that says nothing of where it is how steep."""

    ends = Loss.ends


@pytest.mark.parametrize("solver", [MGR(centring=True), PhasedERM(centring=True)], ids=repr)
@pytest.mark.parametrize(
    ("facts", "word"),
    [({"scaling": 0.0}, "intercept"), ({"loss": WithoutEnds()}, "ends")],
    ids=["no intercept", "no ends"],
)
def test_what_cannot_be_centred_is_refused(solver, facts, word):
    with pytest.raises(ValueError, match=f"centring.*{word}"):
        solver.plan(problem_of(**facts), BUDGET)


def test_the_centre_is_the_mean_and_rows_are_scaled_by_their_spread():
    rng = np.random.default_rng(0)
    problem = problem_of()
    rows = rng.normal(size=(490, 4)) * 0.05 + 0.4
    data = make_data(problem, rows, np.ones(490))
    plan = MGR(whitening=False).plan(problem, Budget(50.0, 1e-6))
    result = release_centre(plan, plan.schedule.centring, data, silent())
    rows = data.records.rows.astype(float)
    shift = result.center / rows.mean(axis=0)  # shrunk by one factor
    assert np.ptp(shift) < 1e-6
    assert 0.5 < shift[0] < 1.0
    square = np.mean(np.sum((result.whitening * (rows - result.center)) ** 2, axis=1))
    assert square == pytest.approx(1.0, rel=1e-4)
    assert result.clip == pytest.approx(0.9 * math.hypot(1.0, CONSTANT))


@pytest.mark.parametrize("loss", [BinaryLogLoss(), BinaryLogLoss(0.85), SquaredError()], ids=repr)
def test_no_limited_loss_curves_more_than_is_stated(loss: Loss):
    """Gradients of one record at random weights, long rows against the centre."""
    rng = np.random.default_rng(0)
    stated = replace(centred_problem(problem_of(loss=loss), GradientClip(0.9)), stretch=3.0)
    steepest = 0.0
    for _ in range(120):
        row = rng.normal(size=(1, 4))
        data = make_data(make_problem((1,), loss=loss, n_features=4), 9.0 * row, np.ones(1))
        centring = Centring(-row[0] / np.linalg.norm(row), stated.lipschitz, np.full(4, 3.0))
        risks = centring.view(data)
        one = rng.normal(size=5) * 10.0 ** rng.uniform(-1, 1)
        other = one + 1e-3 * rng.normal(size=5)
        (_, first), (_, second) = risks.risks_and_gradients(one), risks.risks_and_gradients(other)
        steepest = max(steepest, np.linalg.norm(first - second) / np.linalg.norm(one - other))
    assert 0.2 * stated.smoothness < steepest <= stated.smoothness * (1.0 + 1e-9)
