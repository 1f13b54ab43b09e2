"""Overlapping groups: the plain mathematics of cells, and solvers against direct ones."""

import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from sklearn_dpwg.data.problem import Cells, Problem
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import (
    AGS,
    GDA,
    MGR,
    Exact,
    PhasedERM,
)
from sklearn_dpwg.solvers.descent import release_full_pass
from sklearn_dpwg.solvers.steps import influence
from tests.helpers.convex_programs import risk_expressions
from tests.helpers.group_data import make_problem, make_risks, naive
from tests.helpers.sources import seeded

# Two attributes of two and three values, of which one combination is not there, and a cell that is
# in no group.
SIZES = (40, 30, 25, 8, 60, 12)
CELLS = Cells(SIZES, ((0, 1, 2), (3, 4), (0, 3), (1, 4), (2,)))
# Three attributes of two values each: the cells of every value.
BITS = [(np.arange(8) >> bit) % 2 == value for bit in range(3) for value in range(2)]
NONE = NoiseSource(None, ())


def problem_of(loss, cells=CELLS, **facts):
    prior = (1.0 / len(cells.groups),) * len(cells.groups)
    return Problem(loss, cells.group_sizes, 3, 4.0, prior, 1.0, cells=cells, **facts)


def test_cells_say_what_groups_are_made_of():
    assert CELLS.group_sizes == (95, 68, 48, 90, 25)
    assert CELLS.most_groups == 2
    assert not CELLS.are_groups
    assert Cells((3, 4), ((0,), (1,))).are_groups
    problem = problem_of(BinaryLogLoss())
    assert problem.n_records == sum(SIZES)
    assert problem.group_moves == pytest.approx(math.sqrt(2.0), rel=1e-9)
    weights = np.array([0.4, 0.1, 0.2, 0.3, 0.0])
    by_hand = max(0.4 / 95 + 0.2 / 48, 0.4 / 95 + 0.3 / 90, 0.4 / 95, 0.1 / 68 + 0.2 / 48)
    assert by_hand <= influence(problem, weights) <= by_hand * (1.0 + 1e-9)


def test_sums_of_cells_are_released_where_they_tell_more():
    attributes = Cells((50,) * 8, tuple(tuple(map(int, np.flatnonzero(each))) for each in BITS))
    both = replace(attributes, groups=(*attributes.groups, *((cell,) for cell in range(8))))
    assert (attributes.most_groups, attributes.are_quieter) == (3, False)
    assert (both.most_groups, both.are_quieter) == (4, True)
    many = 2_001
    every = tuple((cell,) for cell in range(many))
    assert not Cells((50,) * many, (tuple(range(many)), *every)).are_quieter
    assert Cells((50,) * (many - 1), (tuple(range(many - 1)), *every[:-1])).are_quieter
    problem = problem_of(BinaryLogLoss(), attributes)
    assert problem.loss_noise == problem.loss_moves == pytest.approx(math.sqrt(3.0))
    problem = problem_of(BinaryLogLoss(), both)
    assert problem.loss_moves == 1.0
    np.testing.assert_allclose(problem.loss_noise, [2.0] * 6 + [1.0] * 8)


@pytest.mark.parametrize("by_cells", [False, True])
def test_released_risks_are_those_of_groups_with_the_noise_that_is_stated(by_cells):
    groups = tuple(tuple(map(int, np.flatnonzero(each))) for each in BITS)
    cells = Cells((50,) * 8, (*groups, *(((0,), (7,)) if by_cells else ())))
    assert cells.are_quieter == by_cells
    n_steps = 400
    plan = MGR(n_steps=n_steps, centring=False, risk_fraction=0.5, loss_clip=1.0).plan(
        problem_of(BinaryLogLoss(), cells), Budget(8.0, 1e-6)
    )
    risks = make_risks(BinaryLogLoss(), cells.sizes).overlapping(cells)
    weights, mixture = np.zeros(risks.n_weights), np.array(plan.problem.prior)
    noise = seeded(3, plan.releases)
    result = [release_full_pass(plan, risks, weights, mixture, noise, 1.0) for _ in range(n_steps)]
    released = np.array([one.risks for one in result])
    stds = np.sqrt(result[0].risk_variances)
    np.testing.assert_allclose(released.std(axis=0), stds, rtol=0.15)
    exact = risks.risks(weights)
    assert (np.abs(released.mean(axis=0) - exact) < 5.0 * stds / math.sqrt(n_steps)).all()


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3), SquaredError(1.0)])
def test_risks_are_those_of_all_records_of_a_group(loss):
    cells = make_risks(loss, SIZES)
    risks = cells.overlapping(CELLS)
    weights = np.random.default_rng(0).normal(size=cells.n_weights)
    values, gradients, hessians = naive(cells, weights)
    fractions = CELLS.membership.toarray() * SIZES
    fractions = fractions / fractions.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(risks.risks(weights), fractions @ values, rtol=1e-12)
    result = risks.risks_and_gradients(weights)
    np.testing.assert_allclose(result[0], fractions @ values, rtol=1e-12)
    np.testing.assert_allclose(result[1], fractions @ gradients, atol=1e-12)
    mixture = np.array([0.1, 0.2, 0.3, 0.4, 0.0])
    expected = np.tensordot(mixture @ fractions, hessians, 1)
    np.testing.assert_allclose(risks.hessian(weights, mixture), expected, atol=1e-12)


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3), Hinge()])
def test_exact_is_a_direct_convex_solution(loss):
    problem = problem_of(loss)
    made_for = BinaryLogLoss() if isinstance(loss, Hinge) else loss
    risks = make_risks(made_for, SIZES).with_loss(loss)
    solver = Exact(tolerance=1e-8)
    plan = solver.plan(problem, Budget(math.inf, 1e-6))
    solution = solver.run(plan, risks, NONE)
    weights = cp.Variable((loss.n_outputs, risks.n_columns))
    fractions = CELLS.membership.toarray() * SIZES / np.array(CELLS.group_sizes)[:, None]
    of_groups = fractions @ cp.hstack(risk_expressions(risks, weights))
    direct = cp.Problem(cp.Minimize(cp.max(of_groups)), [cp.norm(weights, "fro") <= problem.radius])
    direct.solve(solver=cp.CLARABEL)

    result = risks.overlapping(CELLS).risks(solution.weights)
    assert np.max(result) == pytest.approx(direct.value, abs=1e-7)
    assert solution.group_weights.sum() == pytest.approx(1.0)


def test_groups_that_happen_to_be_disjoint_are_the_same_fit():
    plain = make_problem((40, 30, 25), n_features=3, scaling=1.0)
    cells = Cells((40, 30, 25), ((0,), (1,), (2,)))
    risks = make_risks(BinaryLogLoss(), (40, 30, 25))
    for solver in (MGR(n_steps=5), GDA(n_steps=5), MGR(n_steps=5, centring=False)):
        result = []
        for problem in (plain, replace(plain, cells=cells)):
            plan = solver.plan(problem, Budget(1.0, 1e-6))
            result.append(solver.run(plan, risks, seeded(3, plan.releases)))
        np.testing.assert_allclose(result[0].weights, result[1].weights, rtol=1e-9)
        np.testing.assert_allclose(result[0].group_weights, result[1].group_weights, rtol=1e-9)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (MGR(schedule="paper"), "schedule of MGR must be 'planned'"),
        (AGS(schedule="paper"), "schedule of AGS must be 'planned'"),
        (PhasedERM(schedule="paper"), "schedule of PhasedERM must be 'planned'"),
        (GDA(schedule="paper"), "schedule of GDA must be 'planned'"),
    ],
)
def test_what_is_not_proved_of_a_solver_is_refused(solver, message):
    with pytest.raises(ValueError, match=message):
        solver.plan(problem_of(BinaryLogLoss()), Budget(1.0, 1e-6))
