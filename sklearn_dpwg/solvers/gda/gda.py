"""Noisy gradient descent–ascent."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.minimax import (
    Regulariser,
    StronglyConvexSteps,
    descent_ascent,
    project_to_simplex,
)
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.centring.problem import largest_clip
from sklearn_dpwg.solvers.centring.releases import release_centre
from sklearn_dpwg.solvers.gda.paper import paper_plan
from sklearn_dpwg.solvers.gda.parameters import RULES, GDAParameters
from sklearn_dpwg.solvers.gda.planning import least_bound_plan
from sklearn_dpwg.solvers.gda.releases import GroupGame
from sklearn_dpwg.solvers.gda.schedule import GDASchedule
from sklearn_dpwg.solvers.heavy_ball import HeavyBall
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver


class GDA(GDAParameters, Solver):
    """Noisy gradient descent–ascent with Euclidean steps of the group weights.

    Every step takes noisy gradients of the group-weighted risk in the weights and in the group
    weights at one point, and moves both at once. It is `MGR` with projected steps in place of
    multiplicative ones, and with public regularisers. ``None`` means planned from public facts.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: `max_passes`, or ``⌈K^(2/3)⌉`` in the paper's schedule.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps 1/(ρt), T and noise from Kang et al., with the least constant that keeps
        the budget; it implies a uniform prior, plain averages, and no ceiling.
    weight_ridge : float, optional
        Strength ρ_w of the public ``ρ_w/2 ‖w - w₁‖²``; planned: 0, or the ρ of least bound in the
        paper's schedule, which has one for both players.
    group_ridge : float, optional
        Strength ρ_λ of the public ``-ρ_λ/2 ‖λ - π‖²``; planned: 0, or as `weight_ridge`.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    group_step : float, optional
        Step length of the group weights, positive; planned: by the noise on the risks and their
        assumed spread.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: a multiple of
        the largest loss of a model that predicts nothing. Infinity: no ceiling.
    aim : float, default=0.3
        Norm of the weights that step sizes are planned for, as a share of the radius.
    averaging : float, default=2/3
        Share of the points, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, default=150
        Number of passes over the rows, and so of steps, where `n_steps` is planned.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for a log loss or the squared error with an intercept.

    Notes
    -----
    A record of group i moves the weighted gradient by at most λ_i Γ/n_i and the clipped risk of
    its own group by at most b/n_i; regularisers are public and carry no noise. Step lengths follow
    earlier releases and public facts, multipliers are fixed. `docs/theory/gda.md` proves each.

    References
    ----------
    Kang, Liu, Li and Wang (2022), Stability and Generalization of Differentially Private Minimax
    Problems, Algorithm 1 and Theorem 1, whose accounting the note corrects.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import GDA
    >>> GDA(n_steps=50)
    GDA(n_steps=50)
    """

    name: ClassVar[str] = "gda"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, self)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, GDASchedule)
        weights, prior = np.zeros(problem.n_weights), np.asarray(schedule.prior)
        dual = prior
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
            if start.group_weights is not None:
                dual = project_to_simplex(start.group_weights)
        centring, unit = None, 1.0
        if schedule.is_centred:
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, unit = centring.view(data), centring.clip / largest_clip(problem.loss)
            weights = centring.to_centred(weights, problem)
        ridges = schedule.weight_ridge, schedule.group_ridge
        learned, group_weights = descent_ascent(
            GroupGame(plan, data, noise, unit=unit),
            StronglyConvexSteps(*ridges) if schedule.is_paper else _PlannedSteps(schedule, weights),
            weights,
            dual,
            regulariser=Regulariser(*ridges, center=weights, prior=prior),
            n_steps=schedule.n_steps,
            averaged=schedule.averaged,
        )
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, group_weights, schedule.n_steps)


class _PlannedSteps:
    """Heavy-ball steps of the weights, steps of one length of the group weights."""

    def __init__(self, schedule: GDASchedule, weights: FloatArray) -> None:
        self.ball, self.group_step = HeavyBall(schedule, len(weights)), schedule.group_step

    def push(
        self, step: int, slope: FloatArray, rise: FloatArray, noise_std: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the moves of both players."""
        return self.ball.push(slope, noise_std), self.group_step * rise
