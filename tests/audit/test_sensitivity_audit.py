"""A long attack on the sensitivity of the regularised worst-group weights; prints its verdicts."""

import math
import sys
from collections import defaultdict

import numpy as np
import pytest

from tests.helpers.saddle_bounds import lemma3_sensitivity, saddle_point_sensitivity
from tests.helpers.sensitivity_attacks import LOSSES, attack, climb, draw_case

pytestmark = pytest.mark.audit

N_DRAWN = 3000
N_CLIMBS, N_STEPS = 10, 60  # for each loss


def say(text):
    sys.stdout.write(f"\n  {text}")


def kinds(case, claimed):
    """Name what makes a case hard."""
    if len(case.sizes) == 1:
        yield "one group"
        return
    yield "several groups"
    yield f"{case.loss.__class__.__name__.strip('_')}, several groups"
    average = saddle_point_sensitivity(**case.facts | {"entropy_weight": math.inf})
    if claimed > 3 * average:
        yield "claim at least 3 times that of average risk"
    if case.facts["loss_range"] > case.mu_groups * max(case.sizes):
        yield "a record can change the odds of a group by a factor e"
    if min(case.sizes) > 3:
        yield "all groups above 3 records"
    if np.linalg.norm(case.center) > case.radius * 1.01:
        yield "centre outside the ball"


def test_no_neighbour_is_farther_than_claimed():
    rng = np.random.default_rng(7)
    tightest, counts, published = defaultdict(float), defaultdict(int), 0.0
    drawn = [(attack(case, rng)[0], case) for case in (draw_case(rng) for _ in range(N_DRAWN))]
    climbed = [
        pair
        for loss in LOSSES
        for seed in range(N_CLIMBS)
        for pair in climb(np.random.default_rng(seed), N_STEPS, loss)
    ]
    violations = 0
    for verdict, case in drawn + climbed:
        violations += verdict.ratio > 1.0
        for kind in kinds(case, verdict.claimed):
            counts[kind] += 1
            tightest[kind] = max(tightest[kind], verdict.ratio)
        facts = {k: v for k, v in case.facts.items() if k not in {"gradient_diameter", "prior"}}
        published = max(published, verdict.distance / lemma3_sensitivity(**facts))
    say(f"{len(drawn + climbed)} pairs of neighbours, {violations} farther apart than claimed")
    say("tightest ratio of what was observed to what is claimed:")
    for kind, ratio in tightest.items():
        say(f"{ratio:8.4f}  {kind} ({counts[kind]} pairs)")
    say(f"{published:8.4f}  of the published bound, all pairs")
    assert len(drawn + climbed) >= 5000
    assert violations == 0
    assert tightest["several groups"] > 0.95
