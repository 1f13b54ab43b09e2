"""What a plan says of new people: against worlds, and no false alarm."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.problem import HiddenGroups, Problem
from sklearn_dpwg.datasets import dataset_names, load_dataset
from sklearn_dpwg.exceptions import WeakPlanWarning
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers.new_people import FEWEST_TO_TELL, new_people


def people_of(sizes, loss=None, epsilon=1.0):
    loss = BinaryLogLoss() if loss is None else loss
    prior = tuple(np.array(sizes) / sum(sizes))
    return new_people(Problem(loss, tuple(sizes), 3, 4.0, prior), Budget(epsilon, 1e-6))


def test_standard_errors_are_those_of_a_world():
    """Means of held-out losses of a fitted model scatter as said, to within half."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, (40_000, 2))
    y = rng.random(len(rows)) < 1.0 / (1.0 + np.exp(-5.0 * rows[:, 0] - 1.0))
    codes = np.arange(len(rows)) % 2
    model = DPWorstGroupClassifier(math.inf, data_norm=1.0).fit(rows[:2000], y[:2000], codes[:2000])
    chances = model.predict_proba(rows)[np.arange(len(y)), y.astype(int)]
    losses = -np.log(chances[codes == 0])
    means = losses[: len(losses) // 100 * 100].reshape(-1, 100).mean(axis=1)
    said = people_of([100, 5000], epsilon=math.inf).sampling_std[0]
    assert said / 1.5 < means.std() < 1.5 * said


def test_noise_falls_with_records_and_budget_and_sampling_with_records_alone():
    few, many = people_of([400, 9000]), people_of([100, 9000])
    assert many.sampling_std[0] == pytest.approx(2.0 * few.sampling_std[0])
    assert many.noise_std[0] == pytest.approx(4.0 * few.noise_std[0])
    rich = people_of([400, 9000], epsilon=8.0)
    assert np.array_equal(rich.sampling_std, few.sampling_std)
    assert np.all(rich.noise_std < 0.3 * few.noise_std)
    assert not people_of([400, 9000], epsilon=math.inf).noise_std.any()


def test_people_with_several_rows_are_fewer_and_louder():
    sizes, loss = (400, 9000), BinaryLogLoss()
    problem = Problem(loss, sizes, 3, 4.0, (0.1, 0.9))
    one, four = (new_people(problem, Budget(1.0, 1e-6), k) for k in (1, 4))
    assert four.noise_std == pytest.approx(4.0 * one.noise_std)
    assert four.sampling_std == pytest.approx(2.0 * one.sampling_std)
    plan = DPWorstGroupClassifier(1.0, 1e-6, rows_per_person=4).plan(
        group_sizes=sizes, n_features=3
    )
    assert plan.for_new_people.sampling_std == pytest.approx(four.sampling_std)
    few = Problem(loss, (140, 9000), 3, 4.0, (0.1, 0.9))  # of perhaps 35 people
    assert [new_people(few, Budget(1.0, 1e-6), k).untold for k in (1, 4)] == [(), (0,)]


def test_a_group_that_is_not_heard_is_as_small_as_it_was_counted():
    hidden = HiddenGroups(100_000, 0.03, 30.0)
    problem = Problem(BinaryLogLoss(), (99_910, 90), 3, 4.0, (0.5, 0.5), 1.0, hidden)
    assert not problem.is_heard[1]
    found = new_people(problem, Budget(1.0, 1e-6))
    assert found.noise_std[1] > 100.0 * found.noise_std[0]


def test_the_gain_is_a_spread_where_it_was_measured_and_nothing_elsewhere():
    for loss, epsilon in (
        (BinaryLogLoss(), 1.0),
        (SquaredError(), 20.0),
        (BinaryLogLoss(), math.inf),
    ):
        low, middle, high = people_of([400, 900], loss, epsilon).gain
        assert low < middle < high
    for people in (
        people_of([400, 900], epsilon=0.1), people_of([400]), people_of([400, 900], Hinge()),
    ):  # fmt: skip
        assert people.gain is None
        assert "knows no groups" not in str(people)
    at = [people_of([400, 900], epsilon=epsilon).gain for epsilon in (1.0, 2.0, 4.0)]
    assert at[1] == pytest.approx(np.mean([at[0], at[2]], axis=0))


def test_groups_too_small_to_tell_are_named_at_any_epsilon_and_no_others():
    sizes = [9000, FEWEST_TO_TELL - 1, FEWEST_TO_TELL, 300, 400, 500, 600]
    for epsilon in (1.0, math.inf):
        people = people_of(sizes, epsilon=epsilon)
        assert people.untold == (1,)
        assert str(people).count("may be too small") == 1
        assert "less in 2 larger group(s)" in str(people)
        assert str(pickle.loads(pickle.dumps(people))) == str(people)
    assert people_of([20]).untold == ()


@pytest.mark.parametrize("kind", [DPWorstGroupClassifier, DPWorstGroupRegressor])
def test_a_fit_warns_of_them_where_nothing_else_is_wrong(kind):
    rng = np.random.default_rng(0)
    rows, codes = rng.uniform(-0.5, 0.5, (2000, 2)), np.r_[np.zeros(1980), np.ones(20)]
    y = rows[:, 0] > 0 if kind is DPWorstGroupClassifier else rows[:, 0]
    model = kind(math.inf, data_norm=1.0)
    with pytest.warns(
        WeakPlanWarning, match=r"^group\(s\) 1\.0 \(20 record\(s\)\): of fewer .* may be chance"
    ) as told:
        model.fit(rows, y, groups=codes)
    assert len(told) == 1
    assert "may be too small to be told from chance" in str(model.plan_)
    model.fit(rows, y, groups=np.arange(2000) % 5)  # a warning would be an error


def test_no_data_set_of_the_package_has_such_groups():
    names = [name for name in dataset_names() if name != "census-income-kdd"]
    assert len(names) > 5
    for name in names:
        sizes = np.unique(np.asarray(load_dataset(name).groups).astype(str), return_counts=True)[1]
        assert people_of(sizes.tolist(), epsilon=math.inf).untold == ()
