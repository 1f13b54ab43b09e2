"""Samples save passes and decide nothing: whatever they hold, all records have the last word."""

import pytest

from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.optimum.worst_group import (
    nested_samples,
    smooth_optimum,
)
from tests.helpers.group_data import make_risks


def solve(risks, radius=4.0):
    return worst_group_optimum(risks, radius=radius)


# --- the optimum -------------------------------------------------------------------------------

CASES = {
    "plain": (BinaryLogLoss(), (6_000, 3_000, 1_500), 4.0, {}),
    "one group": (BinaryLogLoss(), (9_000,), 30.0, {}),
    "ball active": (BinaryLogLoss(), (6_000, 3_000), 0.3, {}),
    "separable": (BinaryLogLoss(), (6_000, 3_000), 20.0, {"label_noise": 0.0, "apart": 0.0}),
    "a group of one record": (BinaryLogLoss(), (8_000, 1), 10.0, {}),
    "a small group apart": (BinaryLogLoss(), (9_000, 40), 10.0, {"seed": 5}),
    "squared error": (SquaredError(1.0), (6_000, 3_000, 1_500), 4.0, {}),
    "multinomial": (MultinomialLogLoss(3), (6_000, 3_000, 1_500), 8.0, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_what_no_sample_began_in_few_passes(case):
    loss, sizes, radius, settings = CASES[case]
    risks = make_risks(loss, sizes, **settings)
    assert len(nested_samples(risks)) >= 1
    result = solve(risks, radius)
    n_passes = risks.n_passes
    assert result.gap <= 1e-8
    assert n_passes <= 20
    plain = smooth_optimum(risks, radius=radius)
    reached, expected = (risks.risks(pair.weights).max() for pair in (result, plain))
    # each is within its gap of the same optimum
    assert reached == pytest.approx(expected, abs=1e-8 + plain.gap)
