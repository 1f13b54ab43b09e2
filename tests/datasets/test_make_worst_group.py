"""The generator with a known optimum: it is stationary, it is attained, and nothing beats it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.datasets import make_worst_group_classification as make

PROBLEMS = (
    {"n_easy": 2},
    {"boundary": True, "n_easy": 1},
    {"n_groups": 1},
    {"n_groups": 6, "n_easy": 5, "n_features": 3},
    {"n_features": 2, "boundary": True, "spread": 0.0},
)


@pytest.fixture(params=PROBLEMS, ids=str)
def made(request):
    return make(random_state=3, **request.param)


@given(
    n_groups=st.integers(1, 8),
    n_features=st.integers(1, 12),
    easy=st.floats(0, 1),
    radius=st.floats(0.1, 50),
    boundary=st.booleans(),
    spread=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_optimality_conditions(n_groups, n_features, easy, radius, boundary, spread, seed):
    n_easy = int(easy * (n_groups - 1))
    made = make(
        n_groups=n_groups,
        group_sizes=1,
        n_features=n_features,
        radius=radius,
        n_easy=n_easy,
        boundary=boundary,
        spread=spread,
        random_state=seed,
    )
    coef, weights, population = made.coef, made.group_weights, made.population
    hard = weights > 0
    assert hard.sum() == n_groups - n_easy
    assert weights.sum() == pytest.approx(1)
    norm = np.linalg.norm(coef)
    assert norm == pytest.approx(radius if boundary else radius / 2)

    risks = population.group_risks(coef)
    np.testing.assert_allclose(risks[hard], made.optimum, rtol=1e-12, atol=1e-15 * (1 + radius))
    assert (risks[~hard] < made.optimum).all()

    gradients = population.group_gradients(coef)
    mixture = weights @ gradients
    outward = -(mixture @ coef) / norm**2
    scale = np.linalg.norm(gradients[hard], axis=1).max() + 1e-3
    np.testing.assert_allclose(mixture + outward * coef, 0, atol=1e-11 * scale)
    if boundary:
        assert outward > 0
    else:
        np.testing.assert_allclose(mixture, 0, atol=1e-11 * scale)


def test_sizes_of_groups_and_fresh_samples():
    made = make(group_sizes=[3, 1, 2], n_groups=3, random_state=0)
    assert [int((made.groups == label).sum()) for label in made.group_labels] == [3, 1, 2]
    X, y, groups = made.population.sample(7, random_state=1)
    assert X.shape == (21, 5)
    assert y.shape == groups.shape == (21,)
    assert made.population.excess_risk(made.coef[None, :]) == pytest.approx(0.0, abs=1e-12)
    names = make(n_groups=12, random_state=0).group_labels
    assert list(names) == sorted(names)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_groups", 0),
        ("n_features", True),
        ("n_easy", 4),
        ("radius", float("nan")),
        ("radius", 51),
        ("spread", -0.1),
        ("spread", 1.5),
        ("group_sizes", 0),
    ],
)
def test_wrong_parameters(name, value):
    with pytest.raises(ValueError, match=f"^{name} "):
        make(**{name: value})
