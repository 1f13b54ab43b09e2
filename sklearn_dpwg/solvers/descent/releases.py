"""Releases of a step: where its records meet noise, on full passes and on batches.

All are given what earlier releases decided (the weights, the group weights) and hand over
gradients and risks with the noise that public facts and those weights ask for. What they return is
all that a run learns of the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.solvers.centring import Centring, after_centring, release_centre
from sklearn_dpwg.solvers.descent.group_weights import Limits
from sklearn_dpwg.solvers.descent.rule import (
    AGSSchedule,
    DescentSchedule,
    GDASchedule,
    MGRSchedule,
)
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution
from sklearn_dpwg.solvers.steps import heard, influence, sums_of_groups

GRADIENT = "gradient"
GRADIENT_OF_ONE_GROUP = "gradient of one group"
RISKS = "group risks"
GRADIENT_AND_RISKS = "gradient and group risks"


class Beginning(NamedTuple):
    """What a run begins with: its first weights and records, of centred rows where it centres."""

    weights: FloatArray
    data: Risks
    problem: Problem
    centring: Centring | None

    @classmethod
    def of(cls, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Beginning:
        """Release the centre, where planned; begin at 0 or at a start, drawn into the ball."""
        problem = plan.problem
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        assert isinstance(plan.schedule, DescentSchedule)
        limit = plan.schedule.centring
        if limit is None:
            return cls(weights, data, problem, None)
        centring = release_centre(plan, limit, data, noise)
        weights = centring.to_centred(weights, problem)
        return cls(weights, centring.view(data), problem, centring)

    def project(self, weights: FloatArray) -> FloatArray:
        """Return the nearest weights that are in the ball, as weights of rows."""
        if self.centring is None:
            return project_to_ball(weights, self.problem.radius)
        return self.centring.project(weights, self.problem)

    def weights_of_rows(self, learned: FloatArray) -> FloatArray:
        """Return the weights of rows as they are."""
        if self.centring is None:
            return learned
        # an average of weights in the ball is in it, but for rounding
        rows = self.centring.from_centred(learned, self.problem)
        return project_to_ball(rows, self.problem.radius)


def _noisy_risks(
    losses: FloatArray,
    problem: Problem,
    feedback_range: float | FloatArray,
    release: Release,
    noise: NoiseSource,
) -> tuple[FloatArray, FloatArray]:
    """Release sums of losses, of which a record moves one so far; return risks and variances.

    What was released is divided by the sizes: dividing first would round it.
    """
    is_gaussian = release.mechanism == "gaussian"
    add_noise = noise.gaussian if is_gaussian else noise.laplace
    sizes = np.asarray(problem.group_sizes, dtype=float)
    noisy = add_noise(losses, sensitivity=feedback_range * problem.loss_moves, release=release)
    of_sum = release.noise_multiplier * (feedback_range * problem.loss_noise)
    stds = of_sum / sizes * (1.0 if is_gaussian else np.sqrt(2.0))
    return np.asarray(sums_of_groups(problem, noisy) / sizes), np.asarray(stds**2)


# Of multiplicative group reweighting and descent–ascent, for all groups together.


class StepRelease(NamedTuple):
    """What a step releases."""

    # noisy gradient of the weighted sum of the group risks, or of the risk of a drawn group;
    # (n_weights,)
    gradient: FloatArray
    risks: FloatArray  # noisy group risks; empty with one group; (n_groups,)
    # standard deviation of a coordinate of the gradient that the step size is chosen for
    noise_std: float
    # variance of the noise on the risks and of the coins; empty with one group; (n_groups,)
    risk_variances: FloatArray


def from_pass(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    group_weights: FloatArray,
    noise: NoiseSource,
    limits: Limits,
) -> StepRelease:
    """Read all records; release the gradient and, by a release of their own, the group risks.

    A record of group i moves the gradient by at most ``λ_i Γ/n_i`` and the sum of losses of its own
    group by at most b; where groups overlap, by what `influence` and `Problem.loss_moves` say.
    """
    schedule, problem = plan.schedule, plan.problem
    assert isinstance(schedule, GDASchedule | MGRSchedule)
    ceiling, feedback_range, center = limits
    sizes = np.asarray(problem.group_sizes, dtype=float)
    of_gradient, *of_risks = after_centring(plan.releases)
    relative: dict[str, Any] = {"center": center} if center else {}
    losses, gradients = data.sums(weights, ceiling=ceiling, **relative)
    gradients = gradients / sizes[:, None]
    ranges: float | FloatArray = feedback_range
    if schedule.step == "sampled":
        drawn = int(noise.rng.choice(len(sizes), p=group_weights))
        gradient, most = gradients[drawn], 1.0 / sizes[drawn]
        typical = float(np.sqrt(group_weights @ sizes**-2.0))
    else:
        gradient, most = group_weights @ gradients, influence(problem, group_weights)
        if schedule.step == "like the smallest group":
            most, ranges = 1.0 / sizes.min(), feedback_range * (sizes / sizes.min())
        typical = most
    gradient = noise.gaussian(
        gradient,
        sensitivity=float(schedule.gradient_diameter * most),
        release=of_gradient,
    )
    risks = variances = np.zeros(0)
    for release in of_risks:
        risks, variances = _noisy_risks(losses, problem, ranges, release, noise)
        risks = risks + center if center else risks
    noise_std = of_gradient.noise_multiplier * schedule.gradient_diameter * typical
    risks, variances = heard(risks, variances, problem)
    return StepRelease(gradient, risks, noise_std, variances)


def from_batch(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    group_weights: FloatArray,
    noise: NoiseSource,
    limits: Limits,
) -> StepRelease:
    """Draw a Poisson batch; release its gradient and its group risks together."""
    schedule = plan.schedule
    (release,) = after_centring(plan.releases)
    assert isinstance(schedule, MGRSchedule)
    assert schedule.batches is not None
    batches = schedule.batches
    losses, gradients = data.sampled_sums(
        weights,
        # where groups are hidden a coin a place, whatever the group
        noise.poisson_sample(release, by_place=plan.problem.hidden is not None),
        ceiling=schedule.ceiling,
        center=batches.center,
    )
    # by public sizes: how many joined is secret, and would let a record move the weight of others
    gradients = gradients / batches.expected_sizes[:, None]
    risks, risk_stds = losses / batches.expected_sizes, batches.risk_stds
    released = noise.shared_gaussian(
        np.concatenate([group_weights @ gradients, risks[: len(risk_stds)]]),
        units=np.concatenate(
            [np.full(len(weights), batches.gradient_std(group_weights)), risk_stds]
        ),
        sensitivities=[1.0 / release.noise_multiplier + batches.rounding],
        releases=[release],
    )
    noise_std = batches.step_std(group_weights, n_weights=len(weights))
    noisy_risks = batches.center + released[len(weights) :]
    noisy_risks, variances = heard(noisy_risks, batches.risk_variances, plan.problem)
    gradient = released[: len(weights)]
    return StepRelease(gradient, noisy_risks, noise_std, variances)


# Of active group selection: the gradient of one group.


def from_one_group(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    choose: Callable[[FloatArray, FloatArray], int],
    noise: NoiseSource,
) -> tuple[FloatArray, float]:
    """Read all records; release the group risks, and the gradient of the group chosen by them.

    ``choose`` is given what was released of the risks, with variances, and nothing else; with one
    group, zeros. That group alone pays for the gradient, which is returned with the standard
    deviation of its noise.
    """
    schedule = plan.schedule
    assert isinstance(schedule, AGSSchedule)
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    of_gradient, *of_risks = after_centring(plan.releases)
    losses, gradients = data.sums(weights, ceiling=schedule.ceiling)
    risks = variances = np.zeros(1)
    for release in of_risks:
        facts = plan.problem, schedule.feedback_range, release, noise
        risks, variances = _noisy_risks(losses, *facts)
    group = choose(risks, variances)
    sensitivity = float(schedule.gradient_diameter / sizes[group])
    gradient = noise.gaussian(
        gradients[group] / sizes[group],
        sensitivity=sensitivity,
        release=of_gradient,
        payer=group,
    )
    return gradient, of_gradient.noise_multiplier * sensitivity
