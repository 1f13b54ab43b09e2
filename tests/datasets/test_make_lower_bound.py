"""The lower-bound instance: what its notes prove holds on the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sklearn_dpwg.datasets import make_lower_bound


def _risks(made, coef):
    losses = np.abs(made.target - made.data @ coef)
    return np.array([losses[made.groups == label].mean() for label in made.group_labels])


def _point_in_ball(made, rng):
    direction = rng.normal(size=made.coef.size)
    return direction / np.linalg.norm(direction) * made.radius * rng.random() ** 0.2


@pytest.fixture
def made():
    return make_lower_bound(n_groups=3, group_sizes=[60, 30, 40], n_features=6, random_state=4)


def test_rows_are_unit_and_sizes_as_asked(made):
    np.testing.assert_allclose(np.linalg.norm(made.data, axis=1), made.data_norm)
    assert [int((made.groups == label).sum()) for label in made.group_labels] == [60, 30, 40]
    assert made.group_weights.tolist() == [1, 0, 0]
    assert (made.target.min(), made.target.max()) == made.target_bounds


def test_optimum_is_attained_by_the_first_group(made):
    risks = _risks(made, made.coef)
    assert risks[0] == pytest.approx(made.optimum, abs=1e-12)
    assert risks.max() == pytest.approx(made.optimum, abs=1e-12)
    assert np.linalg.norm(made.coef) == pytest.approx(made.radius)


@given(
    n_records=st.integers(40, 200),
    n_features=st.integers(2, 20),
    radius=st.floats(0.05, 9.0),
    epsilon=st.floats(0.3, 10),
    seed=st.integers(0, 2**32 - 1),
)
def test_worst_group_excess_is_at_least_that_of_the_first_group(
    n_records, n_features, radius, epsilon, seed
):
    made = make_lower_bound(
        group_sizes=n_records,
        n_features=n_features,
        radius=radius,
        epsilon=epsilon,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    assert _risks(made, made.coef).max() == pytest.approx(made.optimum, abs=1e-9)
    points = [_point_in_ball(made, rng) for _ in range(10)]
    for risks in (_risks(made, w) for w in points):
        assert risks[0] >= made.optimum - 1e-9
        assert risks[0] >= risks[1:].max()  # the hard group is the worst everywhere
    first, second = points[:2]
    ends = [_risks(made, w)[0] for w in (first, second, (first + second) / 2)]
    assert ends[2] == pytest.approx((ends[0] + ends[1]) / 2, abs=1e-9)  # linear on the ball


def test_no_solver_beats_the_optimum(made):
    def risk(w):
        return _risks(made, w * min(1.0, made.radius / np.linalg.norm(w)))[0]

    rng = np.random.default_rng(0)
    for _ in range(5):
        found = minimize(risk, _point_in_ball(made, rng), method="BFGS")
        assert found.fun >= made.optimum - 1e-9


def test_informative_rows_set_the_rate():
    made = make_lower_bound(
        n_features=100, group_sizes=1000, epsilon=0.5, radius=2.0, random_state=0
    )
    assert made.rate == pytest.approx(2.0 * 20 / 1000)
    hard = made.data[made.groups == made.group_labels[0]]
    assert np.linalg.norm(hard.mean(axis=0)) <= 20 / 1000 + 1e-12
    assert make_lower_bound(group_sizes=10, epsilon=1e-6, random_state=0).rate == 1.0


@pytest.mark.parametrize(
    ("wrong", "names"),
    [({"epsilon": 0}, "epsilon"), ({"n_groups": 3, "group_sizes": [5, 5]}, "group_sizes")],
)
def test_wrong_parameters(wrong, names):
    with pytest.raises(ValueError, match=names):
        make_lower_bound(**wrong)
