"""Are risks of new people estimated as they are, and weights on groups only where groups gain?"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR, Exact
from sklearn_dpwg.solvers.descent.group_weights import FIRST_STEPS, GainOfGroups
from sklearn_dpwg.solvers.people import RIDGES, PeopleRule
from sklearn_dpwg.solvers.steps import variance_between
from tests.helpers.group_data import make_data, make_problem, make_risks
from tests.helpers.sources import seeded

NO_PRIVACY = Budget(math.inf, 1e-6)


def solved(problem, risks, schedule="people"):
    solver = Exact(1e-8, schedule=schedule)
    return solver.run(solver.plan(problem, NO_PRIVACY), risks, NoiseSource(None, ()))


def shifted(sizes, shifts, seed=0):
    """Return records of two classes, of groups whose classes follow slopes of their own."""
    problem = make_problem(sizes, n_features=2, scaling=1.0, radius=20.0)
    rng, codes = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    angle = rng.uniform(0.0, 2.0 * np.pi, len(codes))
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    scores = 3.0 * rows[:, 0] + np.asarray(shifts)[codes] * rows[:, 1]
    targets = np.where(rng.random(len(codes)) < expit(scores), 1.0, -1.0)
    return problem, make_data(problem, rows, targets)


# --- without privacy ---------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3), SquaredError(1.0)])
def test_no_correction_is_the_game_on_the_records(loss):
    problem = Problem(loss, (40, 25), 3, 4.0, (0.6, 0.4), 1.0, optimism_correction=0.0)
    risks = make_risks(loss, (40, 25))
    found, exact = (solved(problem, risks, each) for each in ("people", "planned"))
    np.testing.assert_array_equal(found.weights, exact.weights)
    assert found.group_gain is None
    of_people = solved(replace(problem, optimism_correction=1.0), risks)
    assert of_people.group_gain[0] >= 0.0
    assert risks.risks(of_people.weights).max() >= risks.risks(exact.weights).max() - 1e-6


def test_a_loss_with_kinks_has_no_curvature_to_estimate_by():
    problem = Problem(Hinge(), (40, 25), 3, 4.0, (0.6, 0.4), 1.0)
    risks = make_risks(BinaryLogLoss(), (40, 25)).with_loss(Hinge())
    assert solved(problem, risks).group_gain is None


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3)])
def test_the_optimism_is_what_leaving_records_out_shows(loss):
    """Risks among new people are those of records that a fit has not seen, to first order."""
    sizes = (60, 30)
    problem = Problem(loss, sizes, 2, 50.0, (2 / 3, 1 / 3), 1.0)
    risks = make_risks(loss, sizes, n_features=2)
    rule = PeopleRule(risks, problem)
    mixture = np.array([0.7, 0.3])
    fit = rule._fits(mixture)[RIDGES.index(1.0)]
    records = risks.records
    left_out = np.zeros(2)
    for group, size in enumerate(sizes):
        first = records.starts[group]
        for place in range(first, first + size):
            value = _loss_left_out(loss, records, place, group, mixture, sizes, fit.weights)
            left_out[group] += value / size
    np.testing.assert_allclose(fit.risks, left_out, rtol=0.02)


def _loss_left_out(loss, records, place, group, mixture, sizes, start):
    """Return the loss of a record under the ridge fit to all others, by Newton's method."""
    rows = np.column_stack([records.rows * records.row_scale[:, None], np.ones(len(records.rows))])
    weights, k = start.copy(), loss.n_outputs
    of_rows = np.repeat(mixture / np.asarray(sizes), sizes)
    of_rows[place] = 0.0
    ridge = float(mixture**2 @ (1.0 / np.asarray(sizes)))
    for _ in range(8):
        scores = rows @ weights.reshape(k, -1).T
        scores = scores[:, 0] if k == 1 else scores
        _, slopes = loss.value_and_derivative(scores, records.targets)
        slopes = slopes.reshape(len(rows), k) * of_rows[:, None]
        gradient = (slopes.T @ rows).ravel() + ridge * weights
        curvature = loss.curvature(scores, records.targets).reshape(len(rows), k, k)
        curvature = curvature * of_rows[:, None, None]
        hessian = np.einsum("nab,ni,nj->aibj", curvature, rows, rows).reshape(2 * [len(weights)])
        weights = weights - np.linalg.solve(hessian + ridge * np.eye(len(weights)), gradient)
    score = rows[place : place + 1] @ weights.reshape(k, -1).T
    score = score[:, 0] if k == 1 else score
    return float(loss.value_and_derivative(score, records.targets[place : place + 1])[0][0])


def test_weights_go_to_groups_that_gain_and_nowhere_else():
    """One table has a group with a slope of its own; in the other a small group is like all."""
    differ = solved(*shifted((4000, 1000), (0.0, 6.0)))
    assert differ.group_weights[1] > 0.3  # of a fifth of the records
    assert differ.group_gain[0] > 4.0 * differ.group_gain[1] > 0.0
    alike = solved(*shifted((4000, 60), (0.0, 0.0)))
    assert alike.group_weights[1] < 0.1
    assert alike.group_gain[0] < 0.01


def test_the_variance_between_is_paule_and_mandels():
    variances = np.array([0.01, 0.04, 0.09, 0.02])
    means = np.array([0.1, 0.9, 0.4, -0.3])
    between = variance_between(means, variances)
    shares = 1.0 / (between + variances)
    centre = shares @ means / shares.sum()
    assert shares @ (means - centre) ** 2 == pytest.approx(3.0)
    assert variance_between(np.array([0.1, 0.12, 0.09, 0.1]), variances) == 0.0
    assert variance_between(means, np.full(4, 1e-9)) == pytest.approx(np.var(means, ddof=1))


# --- private runs ------------------------------------------------------------------------------


def gain_of(sizes, risks, *, correction=1.0, std=1e-4, n_steps=FIRST_STEPS + 5):
    problem = replace(make_problem(sizes, scaling=1.0), optimism_correction=correction)
    gain = GainOfGroups(problem)
    for _ in range(n_steps):
        gain.push(np.array(risks), np.full(len(risks), std**2))
    return gain


def test_the_share_of_the_game_is_what_a_group_gains_over_what_its_weight_costs():
    loud = gain_of((5000, 1000), (0.45, 0.62))
    assert 0.5 < loud.share < 1.0
    assert gain_of((5000, 1000), (0.45, 0.47)).share < loud.share
    assert gain_of((5000, 60), (0.45, 0.62)).share < loud.share
    assert gain_of((50_000, 10_000), (0.45, 0.62)).share > loud.share
    assert gain_of((5000, 1000), (0.45, 0.62), std=0.6).share < 0.1  # it may be noise
    assert gain_of((5000, 1000), (0.45, 0.62), correction=0.0).share == 1.0
    assert gain_of((5000, 1000), (0.5, 0.5), correction=0.0).share == 1.0
    assert gain_of((5000, 1000), (0.5, 0.5)).share == 0.0


def test_the_largest_gain_counts_as_playing_makes_risks_alike():
    gain = gain_of((5000, 1000), (0.45, 0.62))
    seen = gain.share
    for _ in range(200):
        gain.push(np.array([0.5, 0.5]), np.full(2, 1e-8))
    assert gain.share == seen


def test_a_run_mixes_the_game_with_the_shares_of_the_records():
    """With nothing to gain a private run is the group-blind one; its gain is released with it."""
    problem, data = shifted((4000, 400), (0.0, 0.0))
    for solver in (MGR(), MGR(sampling_rate=0.5, n_steps=60)):
        plan = solver.plan(problem, Budget(8.0, 1e-6))
        found = solver.run(plan, data, seeded(0, plan.releases))
        assert found.group_weights == pytest.approx(problem.prior, abs=0.1)
        assert 0.0 <= found.group_gain[0] < 0.02
