"""The bound on the move of regularised weights for many groups and strengths at once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.privacy.sensitivity import saddle_point_sensitivities
from tests.helpers.saddle_bounds import (
    saddle_point_sensitivity,
    solutions_of_the_inequality,
)


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
