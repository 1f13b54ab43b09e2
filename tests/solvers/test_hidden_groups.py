"""Do solvers release what they say where a record's group is protected too?

Neighbours run on one and the same transcript: the values that `run` hands over for noise may differ
by at most what it states, and nothing else may differ. docs/theory/replace-any.md.
"""

import dataclasses

import numpy as np
import pytest

from sklearn_dpwg.data.problem import HiddenGroups, Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import AbsoluteError, BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, SumGrid
from sklearn_dpwg.solvers import MGR, Moments, PhasedERM
from sklearn_dpwg.solvers.descent import releases as mgr_releases
from sklearn_dpwg.solvers.descent.schedule import MGRSchedule
from sklearn_dpwg.solvers.rounds import schedule as schedule_module
from sklearn_dpwg.solvers.rounds.schedule import PhasedERMSchedule
from sklearn_dpwg.solvers.sums import SumSensitivity
from tests.helpers.hidden_cases import (
    LOSSES,
    Records,
    attack,
    batch_moves,
    hidden_case,
    hidden_problem,
)
from tests.helpers.planted import wrap
from tests.helpers.replay import Instead

ROUNDING = 1e-9
BUDGET = Budget(1.0, 1e-6)


def quick_and_audit(n_quick, n_seeds):
    """Try some neighbours in every run of the tests, and the others in an audit."""
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(range(n_quick), id="some"),
            pytest.param(range(n_quick, n_seeds), id="others", marks=pytest.mark.audit),
        ],
    )


NAMES = ("gradient", "group risks", "phase weights", "second moments")


def mgr_plans(n_plans, seed=0, **parameters):
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        is_centred = index % 3 == 0
        loss = LOSSES[index % (5 if is_centred else 7)]
        problem = hidden_problem(rng, loss, scaling=0.5 if is_centred else None)
        ceiling = None if index % 2 else problem.constants.zero_score * rng.choice([1.01, 2.0])
        solver = MGR(
            n_steps=int(rng.choice([3, 12])),
            risk_share=0.3,
            loss_ceiling=ceiling,
            centring=is_centred,
        ).set_params(**parameters)
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def phased_plans(n_plans, seed=0, **parameters):
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        problem = hidden_problem(rng, LOSSES[index % 7], n_groups=int(rng.integers(1, 4)))
        smooth = problem.row_norm**2
        swing = float(rng.choice([np.inf, problem.loss_range, problem.loss_range / 30]))
        solver = PhasedERM(
            int(rng.integers(1, 4)),
            mu_weights=float(rng.choice([1e-1, 1.0, 30.0])) * smooth,
            mu_groups=swing,
            risk_share=0.3,
            smoothing_width=1.0,
        ).set_params(**parameters)
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def moments_plans(n_plans, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n_plans):
        problem = hidden_problem(rng, SquaredError(float(rng.choice([0.3, 1.0, 7.0]))))
        solver = Moments(int(rng.integers(1, 4)), clip=float(rng.choice([0.1, 2.0])))
        yield solver.plan(problem, Budget(float(rng.choice([0.1, 1.0, 8.0])), 1e-6)), solver


def worst_distances(plans, seeds, *, until_caught=False):
    worst, n_leaks = {}, 0
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        found, leaks = attack(hidden_case(plan, solver, seed), seed, *NAMES)
        n_leaks += leaks
        for name, distance in found.items():
            worst[name] = max(worst.get(name, 0.0), distance)
        if until_caught and (n_leaks or max(worst.values()) > 1.0 + 1e-6):
            break
    return worst, n_leaks


@quick_and_audit(420, 1100)
def test_no_neighbour_moves_a_pass_by_more_than_its_sensitivity(seeds):
    worst, n_leaks = worst_distances(list(mgr_plans(84)), seeds)
    assert n_leaks == 0
    assert max(worst.values()) <= 1.0 + ROUNDING, worst
    assert min(worst.values()) > 0.8, worst  # the attack is strong enough to mean something


@quick_and_audit(350, 1000)
def test_no_neighbour_moves_a_phase_by_more_than_its_sensitivity(seeds):
    worst, n_leaks = worst_distances(list(phased_plans(70)), seeds)
    assert n_leaks == 0
    assert max(worst.values()) <= 1.0 + 1e-6, worst
    assert worst["phase weights"] > 0.9, worst
    assert worst["group risks"] > 0.6, worst


def test_no_neighbour_moves_planned_phases_by_more_than_their_sensitivity():
    plans = list(phased_plans(14, 1, mu_weights=None, mu_groups=None))
    worst, n_leaks = worst_distances(plans, range(84))
    assert n_leaks == 0
    assert max(worst.values()) <= 1.0 + 1e-6, worst


@quick_and_audit(300, 1100)
def test_no_neighbour_moves_moments_by_more_than_their_sensitivity(seeds):
    worst, n_leaks = worst_distances(list(moments_plans(60)), seeds)
    assert n_leaks == 0
    assert 0.8 < worst["second moments"] <= 1.0 + ROUNDING


@quick_and_audit(294, 1000)
def test_no_record_moves_a_batch_by_more_than_is_stated(seeds):
    rng, worst = np.random.default_rng(0), {}
    plans = []
    for index in range(42):
        problem = hidden_problem(rng, LOSSES[index % 7], n_groups=int(rng.integers(2, 5)))
        rate, share = float(rng.choice([0.1, 0.3, 0.9])), float(rng.choice([0.05, 0.5]))
        is_centred = index % 2 == 0 and problem.intercept_scaling > 0.0
        solver = MGR(n_steps=3, sampling_rate=rate, risk_share=share, centring=is_centred)
        plans.append((solver.plan(problem, Budget(0.5, 1e-5)), solver))
    for seed in seeds:
        plan, solver = plans[seed % len(plans)]
        for name, distance in batch_moves(hidden_case(plan, solver, seed), seed).items():
            worst[name] = max(worst.get(name, 0.0), distance)
    assert worst["absent"] == 0.0, worst  # the others are the same, wherever the record is not
    assert set(worst) == {"absent", "joined"}
    assert 0.9 < worst["joined"] <= 1.0 + ROUNDING, worst


# --- planted faults -----------------------------------------------------------------------------


def true_sizes_in_one_normaliser(patch):
    """The last group's gradients are divided by its true size, all noise is as it should be."""

    def true_sizes(real, plan, data, *others):
        def sums(*arguments, **facts):
            losses, gradients = data.sums(*arguments, **facts)
            gradients[-1] *= plan.problem.group_sizes[-1] / max(1, data.group_sizes[-1])
            return losses, gradients

        return real(plan, Instead(data, sums=sums), *others)

    wrap(patch, mgr_releases, "from_pass", true_sizes)


def uncentred_risks(patch):
    wrap(patch, MGRSchedule, "center_of", lambda real, schedule, ceiling: 0.0)


def a_centre_at_the_end(patch):
    wrap(patch, MGRSchedule, "center_of", lambda real, schedule, ceiling: schedule.lowest_loss or 0)


def half_of_what_two_groups_move(patch):
    def halved(real, *arguments, **facts):
        return dataclasses.replace(real(*arguments, **facts), loss_range=1e-3)

    wrap(patch, SumSensitivity, "of", halved)


def sizes_decide_the_order(patch):
    def by_size(real, data, *arguments, **facts):
        losses, gradients = real(data, *arguments, **facts)
        order = np.argsort(data.group_sizes, kind="stable")
        return losses[order], gradients[order]

    wrap(patch, GroupRisks, "sums", by_size)


def the_largest_group_pays(patch):
    honest = Problem.pair_diameter.fget
    patch.setattr(Problem, "pair_diameter", property(lambda problem: 0.4 * honest(problem)))


FAULTS = (
    true_sizes_in_one_normaliser,
    uncentred_risks,
    a_centre_at_the_end,
    half_of_what_two_groups_move,
    sizes_decide_the_order,
    the_largest_group_pays,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_passes_are_caught(fault, monkeypatch):
    fault(monkeypatch)
    plans = list(mgr_plans(21))
    worst, n_leaks = worst_distances(plans, range(400), until_caught=True)
    assert n_leaks or max(worst.values()) > 1.0 + 1e-6


def as_if_group_weights_stood_still(patch):
    wrap(
        patch,
        schedule_module,
        "hidden_group_sensitivities",
        lambda real, **facts: real(**facts | {"entropy_weight": np.inf}),
    )


def true_sizes_of_phases(patch):
    wrap(
        patch,
        GroupRisks,
        "over",
        lambda real, data, normalisers, *, loss_center: real(
            data, np.maximum(1, data.group_sizes), loss_center=loss_center
        ),
    )


def uncentred_risks_of_phases(patch):
    patch.setattr(PhasedERMSchedule, "center", 0.0)


PHASED_FAULTS = {
    as_if_group_weights_stood_still: {"mu_groups": 0.3},
    true_sizes_of_phases: {},
    uncentred_risks_of_phases: {"n_phases": 2},
}


@pytest.mark.parametrize("fault", PHASED_FAULTS)
def test_planted_faults_of_phases_are_caught(fault, monkeypatch):
    fault(monkeypatch)
    plans = list(phased_plans(28, 1, **PHASED_FAULTS[fault]))
    worst, n_leaks = worst_distances(plans, range(560), until_caught=True)
    assert n_leaks or max(worst.values()) > 1.0 + 1e-6


# --- sums ---------------------------------------------------------------------------------------


def sums_of_neighbours(read):
    """Return how far a record that changes its group moves sums on a coarse grid."""
    rng = np.random.default_rng(0)
    problem = Problem(
        BinaryLogLoss(), (500, 500), 2, 3.0, (0.5, 0.5), 0.5, HiddenGroups(1000, 0.03)
    )
    rows, targets = rng.standard_normal((1000, 2)), rng.choice([-1.0, 1.0], size=1000)
    codes = rng.integers(2, size=1000)
    others = codes.copy()
    others[3] = 1 - codes[3]
    pair = [Records(rows, targets, each).data(problem) for each in (codes, others)]
    return [read(data) for data in pair]


COARSE = SumGrid(loss_step=0.25, gradient_step=0.25)


def read_sums(data):
    return data.sums(np.array([0.3, -0.7, 0.2]), ceiling=9.0, grid=COARSE)[0]


def read_rows(data):
    return data.row_sum(grid=COARSE)


def read_moments(data):
    facts = {"clip": 1.0, "constant": 0.75, "length": 1.25, "step": 2.0**-8}
    regression = data.with_loss(SquaredError())
    return regression.residual_moments(
        np.array([0.3, -0.7, 0.2]), **facts, sum_step=4.0, block_size=8
    )


@pytest.mark.parametrize("read", [read_sums, read_rows, read_moments])
def test_a_record_that_changes_its_group_takes_along_what_it_adds(read):
    """No other record is rounded anew, on however coarse a grid: what one loses another gains."""
    one, other = sums_of_neighbours(read)
    if read is read_rows:
        assert np.array_equal(one, other)
    else:
        assert not np.array_equal(one, other)
        assert np.array_equal(one.sum(axis=0), other.sum(axis=0))


def test_rows_lie_alike_whatever_the_groups():
    """Sorted columns in Fortran order are not copied where groups are public."""
    rows = np.asfortranarray(np.random.default_rng(0).standard_normal((6, 2)))
    problem = Problem(BinaryLogLoss(), (3, 3), 2, 3.0, (0.5, 0.5), 0.5, HiddenGroups(6, 0.03))
    for codes in ([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]):
        records = Records(rows, np.ones(6), np.array(codes)).data(problem).records
        assert records.rows.flags.c_contiguous
        assert np.array_equal(records.rows, rows[records.places])


@pytest.mark.parametrize("loss", [BinaryLogLoss(), MultinomialLogLoss(3), AbsoluteError()])
def test_risks_are_sums_over_what_stands_for_sizes(loss):
    rng = np.random.default_rng(0)
    hidden = HiddenGroups(90, 0.03)
    problem = Problem(loss, (50, 20, 5), 2, 3.0, (0.6, 0.3, 0.1), 0.5, hidden)
    codes = np.repeat([0, 1, 2], [60, 29, 1])
    targets = rng.integers(2, size=90).astype(float)
    data = Records(rng.standard_normal((90, 2)), targets, rng.permutation(codes)).data(problem)
    weights, center = rng.standard_normal(problem.n_weights), 0.8
    risks, gradients = data.risks_and_gradients(weights)
    ratios = np.array([60, 29, 1]) / problem.group_sizes
    over = data.over(problem.group_sizes, loss_center=center)
    found, slopes = over.risks_and_gradients(weights)
    assert found == pytest.approx(center + ratios * (risks - center))
    assert over.risks(weights) == pytest.approx(found)
    assert slopes == pytest.approx(ratios[:, None] * gradients)
    mixture = np.array([0.2, 0.3, 0.5])
    if loss.smooth:
        hessian = data.hessian(weights, ratios * mixture)
        assert over.hessian(weights, mixture) == pytest.approx(hessian)
    alike = data.over(data.group_sizes, loss_center=center)
    assert alike.risks(weights) == pytest.approx(risks)
