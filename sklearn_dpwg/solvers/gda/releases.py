"""Releases of a step: the lines at which records meet noise."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.minimax import Released, project_to_simplex
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.gda.schedule import GDASchedule
from sklearn_dpwg.solvers.plan import Plan

GRADIENT = "gradient"
RISKS = "group risks"


class GroupGame:
    """The game of weights against group weights, ``Σ λ_i L_i(w)``, as noisy releases.

    Gradients are released in a unit of theirs: the plan counts a record for its diameter times it.
    """

    def __init__(self, plan: Plan, data: Risks, noise: NoiseSource, *, unit: float = 1.0) -> None:
        assert isinstance(plan.schedule, GDASchedule)
        self.schedule, self.data, self.noise, self.unit = plan.schedule, data, noise, unit
        self.radius = plan.problem.radius
        self.sizes = np.asarray(plan.problem.group_sizes, dtype=float)
        self.of_gradient, *self.of_risks = releases_of_steps(plan)

    def release(self, weights: FloatArray, dual: FloatArray) -> Released:
        """Read all records; release the gradient and, by a release of their own, the group risks.

        A record of group i moves the gradient by at most ``λ_i Γ/n_i`` and the sum of losses of its
        own group by at most b. The paper's schedule counts every group as the smallest.
        """
        schedule, sizes = self.schedule, self.sizes
        losses, gradients = self.data.sums(weights, ceiling=schedule.ceiling, grid=schedule.grid)
        influence = 1.0 / sizes.min() if schedule.is_paper else float((dual / sizes).max())
        gradient = self.noise.gaussian(
            dual @ (gradients / (self.unit * sizes[:, None])),
            sensitivity=float(schedule.gradient_diameter * influence),
            release=self.of_gradient,
        )
        risks = np.zeros_like(dual)
        for release in self.of_risks:
            # sums, of which a record moves one: dividing them first would round them
            ratios = sizes / sizes.min() if schedule.is_paper else np.ones_like(sizes)
            risks = (
                self.noise.gaussian(
                    losses, sensitivity=schedule.feedback_range * ratios, release=release
                )
                / sizes
            )
        noise_std = schedule.gradient_multiplier * schedule.gradient_diameter * influence
        return Released(self.unit * gradient, risks, self.unit * noise_std)

    def project_weights(self, weights: FloatArray) -> FloatArray:
        """Return the nearest weights in the ball."""
        return project_to_ball(weights, self.radius)

    def project_dual(self, dual: FloatArray) -> FloatArray:
        """Return the nearest group weights."""
        return project_to_simplex(dual)


def releases_of_steps(plan: Plan) -> tuple[Release, ...]:
    """Return the releases that every step makes, without those before the first."""
    assert isinstance(plan.schedule, GDASchedule)
    return plan.releases[2:] if plan.schedule.is_centred else plan.releases
