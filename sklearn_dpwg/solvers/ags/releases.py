"""Releases of a step: every line at which records meet noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.ags.schedule import AGSSchedule
from sklearn_dpwg.solvers.plan import Plan

GRADIENT = "gradient of one group"
RISKS = "group risks"


class Released(NamedTuple):
    """What a step releases."""

    gradient: FloatArray  # noisy gradient of the risk of one group; (n_weights,)
    group: int  # the group, chosen by released risks
    noise_std: float  # standard deviation of a coordinate of the gradient


def from_pass(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    choose: Callable[[FloatArray], int],
    noise: NoiseSource,
) -> Released:
    """Read all records; release the group risks, and the gradient of the group chosen by them.

    ``choose`` is given what was released of the risks and nothing else; with one group, a zero.
    That group alone pays for the gradient.
    """
    schedule = plan.schedule
    assert isinstance(schedule, AGSSchedule)
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    gradient_release, *risk_releases = plan.releases
    losses, gradients = data.sums(weights, ceiling=schedule.ceiling, grid=schedule.grid)
    risks = np.zeros(1)
    for release in risk_releases:
        add_noise = noise.gaussian if release.mechanism == "gaussian" else noise.laplace
        # sums, of which a record moves one: dividing them first would round them
        risks = add_noise(losses, sensitivity=schedule.feedback_range, release=release) / sizes
    group = choose(risks)
    sensitivity = float(schedule.gradient_diameter / sizes[group])
    gradient = noise.gaussian(
        gradients[group] / sizes[group],
        sensitivity=sensitivity,
        release=gradient_release,
        payer=group,
    )
    return Released(gradient, group, gradient_release.noise_multiplier * sensitivity)
