"""Neighbours solved to tiny gaps: none is farther apart than claimed, and wrong claims are caught.

`make audit` runs more than 5,000 of them.
"""

import math
from itertools import product

import numpy as np
import pytest

from tests.helpers.saddle_bounds import saddle_point_sensitivity
from tests.helpers.sensitivity_attacks import LOSSES, attack, climb, draw_case

# cases that are drawn, and climbs of a loss with their steps
FEW, MANY = (60, 2, 18), (3000, 10, 60)


@pytest.fixture(
    scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.audit)], ids=["few", "many"]
)
def verdicts(request):
    """Verdicts on drawn cases and on cases that climb, with the cases."""
    n_drawn, n_climbs, n_steps = request.param
    rng = np.random.default_rng(0)
    result = []
    for _ in range(n_drawn):
        case = draw_case(rng)
        result.append((attack(case, rng)[0], case))
    for loss, seed in product(LOSSES, range(n_climbs)):
        result += climb(np.random.default_rng(seed), n_steps, loss)
    return result


def test_no_neighbour_is_farther_than_claimed(verdicts):
    assert len(verdicts) >= 200
    assert max(verdict.ratio for verdict, _ in verdicts) <= 1.0


def test_the_attacks_are_worth_something(verdicts):
    ratios = np.array([verdict.ratio for verdict, _ in verdicts])
    several = np.array([len(case.sizes) > 1 for _, case in verdicts])
    # the certificates leave nothing open that could hide a violation
    assert max(verdict.slack / verdict.claimed for verdict, _ in verdicts) < 0.01
    assert ratios[several].max() > 0.95
    assert np.mean(ratios > 0.5) > 0.1
    norms = np.array([np.linalg.norm(case.center) / case.radius for _, case in verdicts])
    assert norms.min() < 0.9
    assert norms.max() > 1.1


def half(facts):
    return 0.5 * saddle_point_sensitivity(**facts)


def largest_size_for_all(facts):
    sizes = [max(facts["group_sizes"])] * len(facts["group_sizes"])
    return saddle_point_sensitivity(**facts | {"group_sizes": sizes})


def no_value_term(facts):
    prior = np.array(facts["prior"])
    swing = facts["loss_range"] / facts["entropy_weight"]
    most = prior / (prior + (1 - prior) * math.exp(-min(swing, 700.0)))
    least = most * facts["gradient_diameter"] / np.array(facts["group_sizes"])
    return float(least.max()) / facts["strong_convexity"]


def prior_for_largest_weight(facts):
    return saddle_point_sensitivity(**facts | {"entropy_weight": math.inf})


@pytest.mark.parametrize(
    "wrong", [half, largest_size_for_all, no_value_term, prior_for_largest_weight]
)
def test_a_planted_wrong_bound_is_caught(verdicts, wrong):
    caught = [
        verdict.distance - verdict.slack > 1.001 * wrong(case.facts) for verdict, case in verdicts
    ]
    assert any(caught)


def test_an_attack_replaces_one_record_within_its_group():
    rng = np.random.default_rng(1)
    case = draw_case(rng)
    _, neighbour = attack(case, rng)
    assert neighbour.sizes == case.sizes
    assert np.sum(np.any(neighbour.rows != case.rows, axis=1)) <= 1
