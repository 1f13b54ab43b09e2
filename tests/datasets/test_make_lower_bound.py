"""The lower-bound instance: what its notes prove holds on the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sklearn_dpwg.datasets import make_lower_bound


def _risks(made, coef, loss):
    margins = made.data @ coef
    if loss == "hinge":
        losses = np.maximum(0, 1 - (2 * made.target - 1) * margins)
    else:
        residuals = np.abs(made.target - margins)
        losses = {"absolute_error": residuals, "squared_error": residuals**2 / 2}[loss]
    return np.array([losses[made.groups == label].mean() for label in made.group_labels])


def _point_in_ball(made, rng):
    direction = rng.normal(size=made.coef.size)
    return direction / np.linalg.norm(direction) * made.radius * rng.random() ** 0.2


@pytest.fixture(params=["regression", "classification"])
def made(request):
    return make_lower_bound(
        task=request.param, n_groups=3, group_sizes=[60, 30, 40], n_features=6, random_state=4
    )


def test_rows_are_unit_and_sizes_as_asked(made):
    np.testing.assert_allclose(np.linalg.norm(made.data, axis=1), made.data_norm)
    assert [int((made.groups == label).sum()) for label in made.group_labels] == [60, 30, 40]
    assert made.group_weights.tolist() == [1, 0, 0]
    if "classes" in made:
        assert set(np.unique(made.target)) == set(made.classes)
    else:
        assert (made.target.min(), made.target.max()) == made.target_bounds


def test_optimum_is_attained_by_the_first_group(made):
    risks = _risks(made, made.coef, made.loss)
    assert risks[0] == pytest.approx(made.optimum, abs=1e-12)
    assert risks.max() == pytest.approx(made.optimum, abs=1e-12)
    assert np.linalg.norm(made.coef) == pytest.approx(made.radius)


@settings(max_examples=50, deadline=None)
@given(
    task=st.sampled_from(["regression", "classification"]),
    n_records=st.integers(40, 200),
    n_features=st.integers(2, 20),
    radius=st.floats(0.05, 1.0),
    epsilon=st.floats(0.3, 10),
    seed=st.integers(0, 2**32 - 1),
)
def test_worst_group_excess_is_at_least_that_of_the_first_group(
    task, n_records, n_features, radius, epsilon, seed
):
    made = make_lower_bound(
        task=task,
        group_sizes=n_records,
        n_features=n_features,
        radius=radius,
        epsilon=epsilon,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    assert _risks(made, made.coef, made.loss).max() == pytest.approx(made.optimum, abs=1e-9)
    for _ in range(10):
        risks = _risks(made, _point_in_ball(made, rng), made.loss)
        assert risks[0] >= made.optimum - 1e-9
        assert risks.max() >= made.optimum - 1e-9


@pytest.mark.parametrize("loss", ["absolute_error", "squared_error"])
@pytest.mark.parametrize("radius", [0.5, 7.0])
def test_regression_first_group_is_worst_everywhere(loss, radius):
    made = make_lower_bound(radius=radius, group_sizes=50, n_groups=4, random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        risks = _risks(made, _point_in_ball(made, rng), loss)
        assert risks[0] >= risks[1:].max()


def test_regression_loss_is_linear_on_the_ball():
    made = make_lower_bound(radius=3.0, random_state=0)
    rng = np.random.default_rng(0)
    first, second = (_point_in_ball(made, rng) for _ in range(2))
    risks = [_risks(made, w, "absolute_error")[0] for w in (first, second, (first + second) / 2)]
    assert risks[2] == pytest.approx((risks[0] + risks[1]) / 2, abs=1e-12)


def test_no_solver_beats_the_optimum(made):
    hard = made.groups == made.group_labels[0]

    def risk(w):
        inside = w * min(1.0, made.radius / np.linalg.norm(w))
        return _risks(made, inside, made.loss)[0]

    rng = np.random.default_rng(0)
    for _ in range(5):
        found = minimize(risk, _point_in_ball(made, rng), method="BFGS")
        assert found.fun >= made.optimum - 1e-9
    assert hard.sum() == 60


def test_informative_rows_set_the_rate():
    made = make_lower_bound(
        n_features=100, group_sizes=1000, epsilon=0.5, radius=2.0, random_state=0
    )
    assert made.rate == pytest.approx(2.0 * 20 / 1000)
    hard = made.data[made.groups == made.group_labels[0]]
    assert np.linalg.norm(hard.mean(axis=0)) <= 20 / 1000 + 1e-12
    assert make_lower_bound(group_sizes=10, epsilon=1e-6, random_state=0).rate == 1.0


def test_public_coordinate_gives_nearly_nothing_away():
    problem = {"task": "classification", "n_features": 101, "group_sizes": 1000, "n_groups": 3}
    made = make_lower_bound(**problem, random_state=0)
    np.testing.assert_array_equal(made.data, make_lower_bound(**problem, random_state=0).data)
    share = (10 / 1000) ** 2
    first = np.abs(made.data[made.groups == made.group_labels[0], 0])
    np.testing.assert_allclose(first, share / (1 - share))
    assert np.abs(made.data[made.groups == made.group_labels[1], 0]).min() == 1
    # all groups are equal at zero
    np.testing.assert_allclose(_risks(made, 0 * made.coef, "hinge"), 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"task": "ranking"}, "task='ranking' must be 'regression' or 'classification'"),
        ({"task": "classification", "radius": 2}, "radius=2 must be .* above 0 and at most 1"),
        ({"task": "classification", "n_features": 1}, "n_features=1 must be .* at least 2"),
        (
            {"task": "classification", "group_sizes": 7, "n_features": 17},
            "group_sizes has 7 records in the first group, .* needs at least 10:",
        ),
        ({"epsilon": 0}, "epsilon=0 must be a finite number above 0"),
        ({"n_groups": 3, "group_sizes": [5, 5]}, "group_sizes has 2 entries"),
    ],
)
def test_wrong_parameters(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_lower_bound(**wrong)
