"""Releases of a step: where its records meet noise, on full passes and on batches.

All are given what earlier releases decided (the weights, the group weights) and hand over
gradients and risks with the noise that public facts and those weights ask for. What they return is
all that a run learns of the records. Gradients are released in a unit of theirs: the plan counts a
record for its diameter times it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.optimum.objective import on_simplex
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
    unit: float  # of gradients
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
            return cls(weights, data, 1.0, problem, None)
        before = plan.releases[: -len(after_centring(plan.releases))]
        centring = release_centre(problem, limit, data, noise, before)
        unit = centring.clip / limit.longest
        weights = centring.to_centred(weights, problem)
        return cls(weights, centring.view(data), unit, problem, centring)

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
    sensitivity: float | FloatArray,
    release: Release,
    noise: NoiseSource,
) -> FloatArray:
    """Release sums of losses, which a record moves so far, and divide those of groups by sizes.

    Dividing first would round what is released.
    """
    add_noise = noise.gaussian if release.mechanism == "gaussian" else noise.laplace
    noisy = add_noise(losses, sensitivity=sensitivity, release=release)
    sizes = np.asarray(problem.group_sizes, dtype=float)
    return np.asarray(sums_of_groups(problem, noisy) / sizes)


# Of multiplicative group reweighting, for all groups together.


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
    """Read all records; release the gradient and, by a release of their own, the group risks."""
    schedule = plan.schedule
    assert isinstance(schedule, MGRSchedule)
    ceiling, feedback_range, unit, center = limits
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    of_gradient, *of_risks = after_centring(plan.releases)
    relative: dict[str, Any] = {"center": center} if center else {}
    losses, gradients = data.sums(weights, ceiling=ceiling, **relative)
    gradients = gradients / (unit * sizes[:, None])
    if schedule.step == "weighted":
        gradient, most = group_weights @ gradients, influence(plan.problem, group_weights)
        typical = most
    else:
        drawn = int(noise.rng.choice(len(sizes), p=group_weights))
        gradient, most = gradients[drawn], 1.0 / sizes[drawn]
        typical = float(np.sqrt(group_weights @ sizes**-2.0))
    gradient = noise.gaussian(
        gradient,
        sensitivity=float(schedule.gradient_diameter * most),
        release=of_gradient,
    )
    risks = risk_stds = np.zeros(0)
    moved = feedback_range * plan.problem.loss_moves
    for release in of_risks:
        risks = _noisy_risks(losses, plan.problem, moved, release, noise)
        risks = risks + center if center else risks
        of_sum = release.noise_multiplier * (feedback_range * plan.problem.loss_noise)
        risk_stds = of_sum / sizes * (1.0 if release.mechanism == "gaussian" else np.sqrt(2.0))
    noise_std = unit * of_gradient.noise_multiplier * schedule.gradient_diameter * typical
    risks, variances = heard(risks, risk_stds**2, plan.problem)
    return StepRelease(unit * gradient, risks, noise_std, variances)


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
    batches, unit = schedule.batches, limits.unit
    losses, gradients = data.sampled_sums(
        weights,
        # where groups are hidden a coin a place, whatever the group
        noise.poisson_sample(release, by_place=plan.problem.hidden is not None),
        ceiling=schedule.ceiling,
        center=batches.center,
    )
    # by public sizes: how many joined is secret, and would let a record move the weight of others
    gradients = gradients / (unit * batches.expected_sizes[:, None])
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
    gradient = unit * released[: len(weights)]
    return StepRelease(gradient, noisy_risks, unit * noise_std, variances)


# Of active group selection: the gradient of one group.


class OneGroup(NamedTuple):
    """What a step that takes one group releases."""

    gradient: FloatArray  # noisy gradient of the risk of the group; (n_weights,)
    noise_std: float  # standard deviation of a coordinate of the gradient


def from_one_group(
    plan: Plan,
    data: Risks,
    weights: FloatArray,
    choose: Callable[[FloatArray], int],
    noise: NoiseSource,
) -> OneGroup:
    """Read all records; release the group risks, and the gradient of the group chosen by them.

    ``choose`` is given what was released of the risks and nothing else; with one group, a zero.
    That group alone pays for the gradient.
    """
    schedule = plan.schedule
    assert isinstance(schedule, AGSSchedule)
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    of_gradient, *of_risks = after_centring(plan.releases)
    losses, gradients = data.sums(weights, ceiling=schedule.ceiling)
    risks, moved = np.zeros(1), schedule.feedback_range * plan.problem.loss_moves
    for release in of_risks:
        risks = _noisy_risks(losses, plan.problem, moved, release, noise)
    group = choose(risks)
    sensitivity = float(schedule.gradient_diameter / sizes[group])
    gradient = noise.gaussian(
        gradients[group] / sizes[group],
        sensitivity=sensitivity,
        release=of_gradient,
        payer=group,
    )
    noise_std = of_gradient.noise_multiplier * sensitivity
    return OneGroup(gradient, noise_std)


# Of descent–ascent: both players' gradients at one point.


class Released(NamedTuple):
    """What a step of both players releases."""

    weights: FloatArray  # noisy gradient in the weights, which descend; (n_weights,)
    dual: FloatArray  # noisy group risks, which group weights ascend; (n_groups,)
    noise_std: float  # standard deviation of the noise on a coordinate of the gradient


class GroupGame:
    """The game of weights against group weights, ``Σ λ_i L_i(w)``, as noisy releases."""

    def __init__(self, plan: Plan, first: Beginning, noise: NoiseSource) -> None:
        assert isinstance(plan.schedule, GDASchedule)
        self.schedule, self.data, self.noise = plan.schedule, first.data, noise
        self.unit, self.first = first.unit, first
        self.problem = plan.problem
        self.sizes = np.asarray(plan.problem.group_sizes, dtype=float)
        self.of_gradient, *self.of_risks = after_centring(plan.releases)

    def release(self, weights: FloatArray, dual: FloatArray) -> Released:
        """Read all records; release the gradient and, by a release of their own, the group risks.

        A record of group i moves the gradient by at most ``λ_i Γ/n_i`` and the sum of losses of its
        own group by at most b; where groups overlap, by what `influence` and
        `Problem.loss_moves` say. The paper's schedule counts every group as the smallest.
        """
        schedule, sizes = self.schedule, self.sizes
        losses, gradients = self.data.sums(weights, ceiling=schedule.ceiling)
        most = 1.0 / sizes.min() if schedule.is_paper else influence(self.problem, dual)
        gradient = self.noise.gaussian(
            dual @ (gradients / (self.unit * sizes[:, None])),
            sensitivity=float(schedule.gradient_diameter * most),
            release=self.of_gradient,
        )
        risks = np.zeros_like(dual)
        ratios = sizes / sizes.min() if schedule.is_paper else np.ones_like(losses)
        for release in self.of_risks:
            of_sums = schedule.feedback_range * self.problem.loss_moves * ratios
            risks = _noisy_risks(losses, self.problem, of_sums, release, self.noise)
        noise_std = self.of_gradient.noise_multiplier * schedule.gradient_diameter * most
        return Released(self.unit * gradient, risks, self.unit * noise_std)

    def project_weights(self, weights: FloatArray) -> FloatArray:
        """Return the nearest weights in the ball."""
        return self.first.project(weights)

    def project_dual(self, dual: FloatArray) -> FloatArray:
        """Return the nearest group weights."""
        return on_simplex(dual)
