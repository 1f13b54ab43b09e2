"""Is a run the algorithm that the theory page states, and is its contract open?"""

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import (
    MGR,
    BestResponse,
    MixturePlan,
    MixtureSolver,
    Moments,
    PhasedERM,
    Solution,
)
from sklearn_dpwg.solvers.descent import mgr as mgr_mixture
from sklearn_dpwg.solvers.mixture import as_mixture_solver, mixture_solvers
from sklearn_dpwg.solvers.steps import CORRECTION
from tests.helpers.group_data import make_data, make_problem, make_risks
from tests.helpers.neighbours import random_data
from tests.helpers.plan_check import assert_releases_match
from tests.helpers.reference import Ball
from tests.helpers.replay import fixed_transcript, recorded
from tests.helpers.sources import seeded

BUDGET = Budget(1.0, 1e-6)
SIZES = (900, 150, 70)


# --- phased ERM is the reference ----------------------------------------------------------------


@pytest.mark.parametrize(
    "loss", [BinaryLogLoss(), MultinomialLogLoss(3), SquaredError(), Hinge()], ids=repr
)
def test_with_phases_it_is_phased_erm(loss):
    """The same plan, the same noise, the same output."""
    problem = make_problem(SIZES, loss=loss, n_features=4, radius=10.0)
    data = make_risks(loss, SIZES, 4, intercept=0.5)
    phased, rounds = PhasedERM(mu_groups=math.inf), BestResponse()
    one, other = (solver.plan(problem, BUDGET) for solver in (phased, rounds))
    assert one.releases == other.releases
    assert one.predicted_excess_if_worst == other.predicted_excess_if_worst
    sources = [recorded(seeded(0, one.releases)) for _ in range(2)]
    found = phased.run(one, data, sources[0]), rounds.run(other, data, sources[1])
    assert np.array_equal(found[0].weights, found[1].weights)
    for here, there in zip(*(source.asked for source in sources), strict=True):
        assert np.array_equal(here.value, there.value)
        assert np.array_equal(here.sensitivity, there.sensitivity)


def test_the_parameters_of_the_base_count():
    problem = make_problem(SIZES, n_features=4, radius=10.0)
    phased = PhasedERM(4, mu_groups=math.inf, risk_share=0.3, aim=0.1, centring=False)
    rounds = BestResponse(PhasedERM(aim=0.1, centring=False), n_rounds=4, risk_share=0.3)
    plans = [solver.plan(problem, BUDGET) for solver in (phased, rounds)]
    assert plans[0].predicted_excess == pytest.approx(plans[1].predicted_excess, rel=1e-12)
    assert [each.name for each in plans[1].releases] == ["phase weights", "group risks"]
    other = BestResponse(PhasedERM(centring=False), n_rounds=4, risk_share=0.3).plan(
        problem, BUDGET
    )
    assert other.predicted_excess != plans[1].predicted_excess


# --- the other bases ----------------------------------------------------------------------------


def test_rounds_of_steps_are_what_the_page_says():
    """In plain arithmetic, on fixed answers instead of noise."""
    problem = make_problem((30, 12), radius=2.0)
    data = make_data(problem, *random_data(problem, 0))
    base = MGR(n_steps=6, centring=False)
    solver = BestResponse(base, n_rounds=3, risk_share=0.2)
    plan = solver.plan(problem, BUDGET)
    source = fixed_transcript(3, {"group risks": 30.0})
    solution = solver.run(plan, data, source)

    schedule, steps = plan.schedule, plan.schedule.base.schedule
    assert steps.steps_a_call == 2
    assert steps.n_steps == 3 * steps.steps_a_call
    asked, log_mixture, weights = list(source.asked), np.log(problem.prior), np.zeros(3)
    answers, mixtures = [], []
    for index in range(3):
        sizes = np.array([30.0, 12.0])
        if index > 0:
            risks = asked.pop(0)
            assert risks.release.name == "group risks"
            variance = (risks.release.noise_multiplier * schedule.sums.loss_range / sizes) ** 2
            log_mixture = log_mixture + schedule.group_rate * risks.answer / sizes
            log_mixture = log_mixture - CORRECTION * schedule.group_rate**2 * variance / 2
        mixture = np.exp(log_mixture) / np.exp(log_mixture).sum()
        mixtures.append(mixture)
        ball = Ball.at_rest(steps, 3)
        for _ in range(steps.steps_a_call):
            step = asked.pop(0)
            assert step.release.name == "gradient"
            expected = mixture @ data.risks_and_gradients(weights)[1]
            assert step.value == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert step.sensitivity == pytest.approx(
                steps.gradient_diameter * (mixture / sizes).max(), rel=1e-12
            )
            ball = ball.pushed(steps, step.answer, float(step.noise_scale))
            weights = weights + ball.move
            weights = weights * min(1.0, 2.0 / np.linalg.norm(weights))
        answers.append(weights)
    assert asked == []
    assert schedule.base.averaged == 2
    assert solution.weights == pytest.approx(np.mean(answers[1:], axis=0))
    assert solution.group_weights == pytest.approx(np.mean(mixtures[1:], axis=0))


def test_moments_of_a_mixture_are_those_of_its_records():
    """Without noise and ridge the answer is the least squares of the mixture."""
    loss = SquaredError()
    problem = make_problem((400, 90), loss=loss, n_features=3, radius=20.0)
    data = make_risks(loss, (400, 90), 3, intercept=0.5)
    base = Moments(ridge=0.0)
    plan = BestResponse(base, n_rounds=1).plan(problem, BUDGET).schedule.base
    mixture = np.array([0.3, 0.7])
    silent = fixed_transcript(0, {})
    silent.answer_with = lambda release, value, sensitivity: value.copy()
    for risks in (None, np.array([0.5, 0.5])):
        found = base.answer(plan, mixture, np.full(4, 0.1), data, silent, call=0, risks=risks)
        gradient = mixture @ data.risks_and_gradients(found)[1]
        assert np.linalg.norm(gradient) < 1e-6
    (first, second) = silent.asked
    assert first.sensitivity == second.sensitivity
    exact = plan.schedule.sensitivity * (mixture / [400, 90]).max()
    assert first.sensitivity == pytest.approx(exact, rel=1e-6)
    assert first.sensitivity >= exact


def test_residuals_are_clipped_by_what_was_released():
    """To a few times their root mean square, around the centre, once that is small."""
    loss = SquaredError()
    problem = make_problem((4_000, 900), loss=loss, n_features=3, radius=20.0)
    data = make_risks(loss, (4_000, 900), 3, intercept=0.5, label_noise=0.1)
    base, seen = Moments(), []
    plan = BestResponse(base, n_rounds=4).plan(problem, Budget(8.0, 1e-6)).schedule.base

    def watch(real, weights, *, clip, **named):
        seen.append((weights.copy(), clip))
        return real(weights, clip=clip, **named)

    with pytest.MonkeyPatch.context() as patch:
        real = data.residual_moments
        patch.setattr(data, "residual_moments", lambda *a, **k: watch(real, *a, **k), raising=False)
        center, mixture = np.full(4, 0.1), np.array([0.5, 0.5])
        for risks in (None, np.array([0.001, 0.003]), np.array([0.3, 0.5])):
            source = fixed_transcript(0, {})
            base.answer(plan, mixture, center, data, source, call=1, risks=risks)
    assert [clip == 1.0 for _, clip in seen] == [True, False, True]
    assert np.array_equal(seen[1][0], center)
    assert not seen[0][0].any()
    assert not seen[2][0].any()
    assert seen[1][1] >= 2.0 * math.sqrt(2 * 0.002) * (1 - 1e-12)


# --- the contract -------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Still(MixtureSolver):
    """Answers with the centre, releasing one number a call."""

    asked_for: tuple = ()
    name = "still"

    def _plan(self, problem, budget):
        raise AssertionError("not asked for")

    def _run(self, plan, data, noise, start):
        raise AssertionError("not asked for")

    def numbers_of_calls(self, problem):
        return (1, 3)

    def plan_calls(self, problem, calls):
        bounds = (1.0 / calls.n_calls,) * problem.n_groups
        release = calls.release("nothing")
        return MixturePlan("still", problem, calls, release, "still", bounds, 1, 0.0)

    def answer(self, plan, group_weights, center, data, noise, *, call, risks=None):
        self.asked_for += ((call, group_weights, risks, data.group_sizes),)
        noise.gaussian(np.zeros(1), sensitivity=1.0, release=plan.release)
        return center


def test_any_solver_that_answers_for_mixtures_will_do():
    """The base is told the mixture, the released risks and the records of the round."""
    problem = make_problem((30, 12))
    data = make_data(problem, *random_data(problem, 0))
    base = Still()
    solver = BestResponse(base)
    plan = solver.plan(problem, BUDGET)
    assert plan.n_steps == 3
    noise = seeded(0, plan.releases)
    solution = solver.run(plan, data, noise)
    assert_releases_match(noise, plan)
    assert [call for call, *_ in base.asked_for] == [0, 1, 2]
    assert base.asked_for[0][2] is None
    assert all(risks.shape == (2,) for _, _, risks, _ in base.asked_for[1:])
    assert base.asked_for[0][1] == pytest.approx(problem.prior)
    assert solution.group_weights == pytest.approx(base.asked_for[2][1])
    assert {each[3] for each in base.asked_for} == {problem.group_sizes}
    assert not solution.weights.any()


def test_names_stand_for_the_bases():
    assert {"phased-erm", "mgr", "moments"} <= set(mixture_solvers())
    for name, kind in mixture_solvers().items():
        assert type(as_mixture_solver(name)) is kind
    assert BestResponse("mgr").plan(make_problem(SIZES), BUDGET).schedule.base.solver == "mgr"


def test_a_run_starts_where_it_is_told_to():
    problem = make_problem((40,), radius=3.0)
    data = make_data(problem, *random_data(problem, 0))
    solver = BestResponse(PhasedERM(mu_weights=1e4), n_rounds=1)
    plan = solver.plan(problem, BUDGET)
    silent = fixed_transcript(0, {})
    silent.answer_with = lambda release, value, sensitivity: value.copy()
    found = solver.run(plan, data, silent, start=Solution(np.array([30.0, 0.0, 0.0]), None, 0))
    assert found.weights == pytest.approx(np.array([3.0, 0.0, 0.0]), abs=1e-2)
    assert found.group_weights == pytest.approx([1.0])


@pytest.mark.parametrize("base", ["phased-erm", "mgr", "moments"])
@pytest.mark.parametrize("sizes", [(1,), (1, 1), (500,), (3, 700, 20)])
def test_tiny_groups_have_plans(base, sizes):
    problem = make_problem(sizes, loss=SquaredError())
    solver = BestResponse(base)
    plan = solver.plan(problem, BUDGET)
    data = make_data(problem, *random_data(problem, 0))
    noise = seeded(0, plan.releases)
    found = solver.run(plan, data, noise)
    assert_releases_match(noise, plan)
    assert np.linalg.norm(found.weights) <= problem.radius * (1 + 1e-12)
    assert found.group_weights.sum() == pytest.approx(1.0)
    assert "round(s)" in str(plan)
    if len(sizes) == 1:
        assert "group risks" not in {release.name for release in plan.releases}


@pytest.mark.parametrize("base", ["phased-erm", "mgr", "moments"])
def test_more_records_or_a_larger_budget_never_predict_worse(base):
    few, many = (make_problem(sizes, loss=SquaredError()) for sizes in (SIZES, (1800, 300, 140)))
    predicted = [
        BestResponse(base).plan(problem, Budget(epsilon, 1e-6)).predicted_excess
        for problem, epsilon in ((few, 0.5), (few, 1.0), (many, 1.0), (many, 4.0))
    ]
    assert sorted(predicted, reverse=True) == predicted


@pytest.mark.parametrize("base", ["phased-erm", "mgr", "moments"])
def test_the_bound_adds_what_both_players_owe(base):
    """The base's, all weight on a group, and multiplicative weights' with noisy risks."""
    problem = make_problem(SIZES, loss=SquaredError(), prior=(0.5, 0.3, 0.2), scaling=0.0)
    plan = BestResponse(base, n_rounds=8, risk_share=0.1).plan(problem, BUDGET)
    schedule = plan.schedule
    theta = schedule.group_rate * 8
    stds = schedule.risks_multiplier * schedule.sums.loss_range / np.array(SIZES)
    spread = 0.15 * problem.constants.zero_score
    regret = -np.log(problem.prior) / theta + theta * spread**2 / 8
    regret = regret + theta * (stds**2 + (stds**2).max()) / (4 * 8)
    regret = np.minimum(regret, problem.constants.zero_score)
    expected = np.array(schedule.base.bounds) + regret
    assert np.array(plan.predicted_excess_if_worst) == pytest.approx(expected, rel=1e-5)


WRONG = [
    ({"base": "oco"}, r"^base of BestResponse must be one of \['mgr', 'moments', 'phased-erm'"),
    (
        {"base": 3},
        r"^base of BestResponse must be one of .* or a solver that has plan_calls and answer, got",
    ),
    ({"n_rounds": 0}, r"^n_rounds of BestResponse must be a positive whole number, got 0"),
    ({"n_rounds": 10**6}, r"^n_rounds must be at most 128 where phases of PhasedERM answer"),
    ({"risk_share": 1.0}, r"^risk_share of BestResponse must be between 0 and 1, got 1.0"),
    ({"base": PhasedERM(3)}, r"^n_phases of PhasedERM must be left at None where it answers for"),
    ({"base": PhasedERM(mu_groups=1.0)}, r"^mu_groups of PhasedERM must be left at None or inf"),
    ({"base": PhasedERM(schedule="paper")}, r"^schedule of PhasedERM must be left at 'planned'"),
    ({"base": PhasedERM(aim=-1.0)}, r"^aim of PhasedERM must be positive"),
    ({"base": MGR(group_rate=0.1)}, r"^group_rate of MGR must be left at None"),
    ({"base": MGR(sampling_rate=0.5)}, r"^sampling_rate of MGR must be left at 1"),
    ({"base": MGR(n_steps=3), "n_rounds": 4}, r"^n_steps and max_passes of MGR must allow a step"),
    ({"base": Moments(5)}, r"^n_rounds of Moments must be left at 3"),
    ({"base": Moments()}, r"^solver 'moments' is for loss 'squared_error' alone"),
]


@pytest.mark.parametrize(("parameters", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        BestResponse(**parameters).plan(make_problem(SIZES), BUDGET)
    with pytest.raises(ValueError, match="needs a finite epsilon"):
        BestResponse().plan(make_problem(SIZES), Budget(math.inf, 1e-6))


def test_parameters_nest_and_survive_clones_and_pickles():
    solver = BestResponse(MGR(n_steps=40), n_rounds=4)
    for other in (clone(solver), pickle.loads(pickle.dumps(solver))):
        assert repr(other) == "BestResponse(base=MGR(n_steps=40), n_rounds=4)"
    model = DPWorstGroupClassifier(solver=solver).set_params(solver__base__n_steps=20)
    assert model.solver.base.n_steps == 20


@pytest.mark.parametrize("base", ["phased-erm", "mgr"])
def test_rounds_learn_for_the_worst_group(base):
    """Better than the average risk, which a single round of the prior's mixture minimises."""
    sizes = (4_000, 600)
    risks = make_risks(BinaryLogLoss(), sizes, 3, intercept=0.5, label_noise=0.3)
    problem = make_problem(sizes, n_features=3, radius=10.0)
    budget = Budget(8.0, 1e-6)
    largest = []
    for n_rounds in (1, 8):
        solver = BestResponse(base, n_rounds=n_rounds)
        plan = solver.plan(problem, budget)
        found = [solver.run(plan, risks, seeded(seed, plan.releases)) for seed in range(3)]
        largest.append(np.mean([risks.risks(each.weights).max() for each in found]))
    assert largest[1] < largest[0] - 0.02
    assert found[0].group_weights[1] > 0.2


def test_passes_are_near_what_the_plan_says(monkeypatch):
    risks = make_risks(BinaryLogLoss(), (9000, 4000), 8, intercept=0.5)
    problem = make_problem((9000, 4000), n_features=8, radius=20.0)
    for base in ("phased-erm", "mgr"):
        solver = BestResponse(base)
        plan = solver.plan(problem, BUDGET)
        before = risks.n_passes
        solver.run(plan, risks, seeded(0, plan.releases))
        expected = 20 * plan.n_steps if base == "phased-erm" else 150 + plan.n_steps
        assert risks.n_passes - before <= expected
    assert mgr_mixture.CALLS[-1] <= 150


# --- behind the estimators ----------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["best-response", BestResponse("mgr")], ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_take_it(solver, n_classes):
    """With unequal groups, and the group weights that follow from released risks."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, size=(900, 3))
    groups = np.repeat(["a", "b", "c"], [700, 150, 50])
    y = (rows[:, 0] * n_classes + n_classes / 2).astype(int)
    model = DPWorstGroupClassifier(8.0, 1e-6, solver=solver, data_norm=1.0, random_state=0)
    with pytest.warns(SeededNoiseWarning):
        model.fit(rows, y, groups=groups)
    assert model.plan_.solver == "best-response"
    assert model.group_weights_.sum() == pytest.approx(1.0)
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 3)
    assert model.privacy_.epsilon <= 8.0
    assert model.score(rows, y) > 1.0 / n_classes


@pytest.mark.parametrize("base", ["phased-erm", "mgr", "moments"])
def test_regressors_take_it(base):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, size=(2_000, 2))
    y = rows[:, 0] + 0.05 * rng.normal(size=2_000)
    model = DPWorstGroupRegressor(
        8.0,
        1e-6,
        solver=BestResponse(base),
        data_norm=1.0,
        target_bounds=(-1.0, 1.0),
        random_state=0,
    )
    with pytest.warns(SeededNoiseWarning):
        model.fit(rows, y, groups=np.repeat(["a", "b"], [1_700, 300]))
    assert model.score(rows, y) > 0.5


def test_persons_with_several_rows_have_a_plan():
    model = DPWorstGroupClassifier(1.0, 1e-6, solver=BestResponse("mgr"), data_norm=1.0)
    plan = model.plan(group_sizes=[900, 300], n_features=3, rows_per_person=2)
    assert plan.guarantee.epsilon <= 1.0
    assert plan.records_per_person == 2
