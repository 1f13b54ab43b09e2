"""The bound on the move of regularised weights for many groups and strengths at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.privacy.sensitivity import saddle_point_sensitivities
from tests.helpers.saddle_bounds import (
    bounds_of_all_groups,
    saddle_point_sensitivity,
    solutions_of_the_inequality,
)


def many_unlike_groups(rng, p):
    """Facts of many groups."""
    sizes = rng.integers(1, int(rng.choice([4, 60, 5000])), p)
    weights = rng.dirichlet(np.full(p, float(rng.choice([0.5, 5.0, 500.0])))) + 1e-9
    if rng.random() < 0.4:
        weights = sizes.astype(float)
    return {
        "group_sizes": sizes.tolist(),
        "prior": (weights / weights.sum()).tolist(),
        "lipschitz": 1.0,
        "gradient_diameter": float(rng.uniform(0.5, 2.0)),
        "loss_range": float(np.exp(rng.uniform(-1.0, 4.0))),
        "entropy_weight": float(np.exp(rng.uniform(-9.0, 2.0))),
    }


def test_many_groups_are_bounded_by_the_worst_of_them():
    """Each group alone, and random solutions of the inequality, at every strength of a plan."""
    rng = np.random.default_rng(5)
    strengths = np.geomspace(1e-5, 1e1, 3)
    n_searched = 0
    for _ in range(4):
        facts = many_unlike_groups(rng, int(rng.integers(70, 120)))
        claimed = saddle_point_sensitivities(**facts, strong_convexities=strengths)
        for strength, bound in zip(strengths, claimed, strict=True):
            one_by_one = bounds_of_all_groups(facts | {"strong_convexity": float(strength)})
            assert bound == pytest.approx(max(exact for _, exact in one_by_one), rel=1e-8)
            by_group = saddle_point_sensitivities(
                **facts, strong_convexities=[strength], by_group=True
            )
            simple = [min(each, facts["gradient_diameter"] / strength) for each, _ in one_by_one]
            np.testing.assert_allclose(by_group[0], simple, rtol=1e-8)
            assert (by_group[0] >= [exact for _, exact in one_by_one]).all()
            n_searched += bound < 0.99 * max(simple for simple, _ in one_by_one)
        worst = int(np.argmax([exact for _, exact in one_by_one]))
        result = solutions_of_the_inequality(
            rng, facts["group_sizes"][worst], facts["gradient_diameter"], facts["loss_range"],
            float(strengths[-1]), facts["entropy_weight"], facts["prior"][worst], 5000,
        )  # fmt: skip
        assert result.max() <= claimed[-1]
    assert n_searched >= 2


@st.composite
def facts_and_strengths(draw):
    """Few or many groups, alike or not, and strengths in any order."""
    n_groups = draw(st.sampled_from([1, 2, 3, 30, 70, 150]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = rng.integers(1, draw(st.sampled_from([2, 4, 30, 3000])), n_groups)
    weights = rng.dirichlet(np.full(n_groups, draw(st.sampled_from([0.3, 3.0, 1e4])))) + 1e-30
    if draw(st.booleans()):
        weights = sizes * np.exp(0.02 * rng.normal(size=n_groups))
    loss_range = 10.0 ** draw(st.floats(-1.0, 2.0))
    facts = {
        "group_sizes": sizes.tolist(),
        "prior": (weights / weights.sum()).tolist(),
        "lipschitz": 1.0,
        "gradient_diameter": draw(st.floats(0.5, 2.0)),
        "loss_range": loss_range,
        "entropy_weight": loss_range / sizes.min() / 10.0 ** draw(st.floats(-1.0, 4.0)),
    }
    strengths = draw(st.lists(st.floats(-8.0, 4.0), min_size=2, max_size=6))
    return facts, [10.0**each for each in strengths]


@given(case=facts_and_strengths(), seed=st.integers(0, 2**32))
def test_a_strength_has_one_bound_whatever_else_is_asked_and_no_move_is_above_it(case, seed):
    """Bit for bit: other strengths must not matter."""
    facts, strengths = case
    together = saddle_point_sensitivities(**facts, strong_convexities=strengths)
    backwards = saddle_point_sensitivities(**facts, strong_convexities=strengths[::-1])
    alone = [saddle_point_sensitivity(**facts, strong_convexity=each) for each in strengths]
    assert together.tolist() == alone
    assert backwards[::-1].tolist() == alone
    rng = np.random.default_rng(seed)
    groups = rng.permutation(len(facts["group_sizes"]))[:8]
    if len(facts["group_sizes"]) > 1:
        for group in groups:
            for strength, bound in zip(strengths, alone, strict=True):
                result = solutions_of_the_inequality(
                    rng, facts["group_sizes"][group], facts["gradient_diameter"],
                    facts["loss_range"], strength, facts["entropy_weight"],
                    facts["prior"][group], 1000,
                )  # fmt: skip
                assert result.max() <= bound
