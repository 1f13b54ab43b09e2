"""Noisy gradient descent with multiplicative group reweighting."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.descent import planning, releases
from sklearn_dpwg.solvers.descent.group_weights import (
    GroupWeights,
    LossLevel,
    PlannedLimits,
    Shrinkage,
)
from sklearn_dpwg.solvers.descent.rule import MGRParameters, MGRSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver
from sklearn_dpwg.solvers.steps import GainOfGroups, Momentum


class MGR(MGRParameters, Solver):
    """Noisy gradient descent with multiplicative group reweighting, on all records or batches.

    Every step takes a noisy gradient of the group-weighted risk, moves the weights within their
    ball, and raises the weights of groups whose noisy risks are high. ``None`` means planned
    from public facts.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: as many as `max_passes` allow.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rates and noise from Zhou and Bassily's Theorems 9 and 10 with
        their constants set to 1 (the noise's larger where 1 would break the budget): the gradient
        of one group, drawn from the group weights, Laplace noise on the risks, a uniform prior.
        Steps are at most `max_passes`.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: 4.33
        times the loss of a model that predicts nothing for a log loss, 2.16 times the largest for
        others; for the squared error as much as that, or six times the mean released loss where it
        is less. Infinity: no ceiling.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a share
        of the radius, of 20 at most.
    averaging : float, default=0.5
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, optional
        Largest number of passes over the rows that a planned `n_steps` may use. Planned: 60, and
        150 for a loss with kinks and in the paper's schedule.
    group_rate : float, optional
        Step size η_λ of the group weights, positive: Hedge at this rate. Planned: by the spread of
        the released risks, and the game is played as far as groups can gain by it.
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.
    sampling_rate : float, default=1.0
        Probability with which a record joins a step, above 0: Poisson batches. 1 reads every
        record in every step.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for a log loss or the squared error with an intercept, where steps
        are planned.
    whitening : bool, optional
        Whether centred rows are half whitened by released second moments, of columns alone where
        there are more than 200. Planned: for a log loss, where records are many enough.

    Notes
    -----
    A record of group i moves the weighted gradient by at most λ_i Γ/n_i and the clipped risk of
    its own group by at most b/n_i, so each step releases a gradient with noise
    ``z_w Γ max_i λ_i/n_i`` and risks with noise ``z_λ b/n_i``, for multipliers z fixed in
    advance; on batches both together. Step sizes follow earlier releases. `docs/theory/mgr.md`
    proves each.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 3, Theorems 9 and 10.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import MGR
    >>> MGR(n_steps=50)
    MGR(n_steps=50)
    """

    name: ClassVar[str] = "mgr"
    knows_overlap: ClassVar[bool] = True

    def _check_hidden_groups(self) -> None:
        """Refuse what is not proved, or not fixed before counts are released."""
        if self.schedule == "paper":
            raise InputError(
                "schedule of MGR must be 'planned' unless neighbours="
                "'replace-one-within-group', got 'paper'."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, max_passes=self.max_passes or planning.PASSES)
        return planning.least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem, n_groups = plan.schedule, plan.problem, plan.problem.n_groups
        assert isinstance(schedule, MGRSchedule)
        release = releases.from_pass if schedule.batches is None else releases.from_batch
        first = releases.Beginning.of(plan, data, noise, start)
        weights, ball = first.weights, Momentum(schedule, problem.n_weights)
        following = _limits_of_run(schedule, problem)
        gain = GainOfGroups(problem, adapts=schedule.adapts)
        players = GroupWeights(schedule, _log_group_weights(schedule, start), gain)
        shrinkage = Shrinkage(problem.constants.zero_score, n_groups)
        total, mixture = np.zeros_like(weights), np.zeros(n_groups)
        if schedule.averaged > schedule.n_steps:
            total, mixture = weights.copy(), players.current.copy()
        for t in range(schedule.n_steps):
            released = release(
                plan, first.data, weights, players.current, noise, following.limits()
            )
            move = ball.push(released.gradient, released.noise_std)
            weights = first.project(weights + move)
            feedback = released.risks, released.risk_variances, players.current
            following.push(*feedback)
            if n_groups > 1:
                players.push(released.risks, released.risk_variances)
            # after the step, so that the last releases count too
            if t >= schedule.n_steps - schedule.averaged:
                total, mixture = total + weights, mixture + players.current
                if schedule.adapts:
                    shrinkage.push(*feedback)
        learned, mixture = total / schedule.averaged, mixture / schedule.averaged
        if schedule.shrinks and start is None:
            learned = learned * shrinkage.kept
        weights = first.weights_of_rows(learned)
        return Solution(weights, mixture, schedule.n_steps, **gain.released)


def _limits_of_run(schedule: MGRSchedule, problem: Problem) -> PlannedLimits:
    """Return what sets the limits of each step."""
    if schedule.follows_level:
        return LossLevel(schedule, problem)
    return PlannedLimits(schedule)


def _log_group_weights(schedule: MGRSchedule, start: Solution | None) -> FloatArray:
    """Return the logarithms of the group weights that a run starts with."""
    if start is None or start.group_weights is None:
        return np.log(np.asarray(schedule.prior))
    return np.log(np.maximum(start.group_weights, 1e-300))


# The paper's schedule.


def paper_plan(problem: Problem, budget: Budget, *, max_passes: int) -> Plan:
    """Plan with the paper's formulas, at most `max_passes` steps, and account for them exactly.

    T - 1 steps average ``w_1, …, w_T``, from T = 2 on. The constants that Theorem 9 leaves open
    are 1, and both noises grow by the least factor that exact accounting asks for;
    docs/theory/mgr.md, section 7, has the formulas. (Zhou and Bassily 2024, Theorems 9 and 10 and
    the proof in Appendix C.1)
    """
    n, p = min(problem.group_sizes), problem.n_groups
    n_steps, sigma, tau = _steps_and_noise(problem, budget, max_passes)
    noise = planning.PaperNoise.of(problem, budget, n_steps, sigma, tau, taken=n_steps - 1)
    feedback_bound = problem.loss_range
    if p > 1:
        feedback_bound += 8.0 * noise.tau * max(0.0, math.log(p * n * n_steps / 2.0))
    schedule = MGRSchedule(
        **noise.fields,
        step="sampled",
        group_rate=math.sqrt(math.log(p) / (n_steps * feedback_bound**2)),
        noise_correction=(0.0,) * p,
    )
    # the regret bounds in the proof of Theorem 10
    excess = noise.regret + 2.0 * feedback_bound * math.sqrt(math.log(p) / n_steps)
    paid, bounds = noise.releases, np.full(p, excess)
    return Plan.of("mgr", problem, budget, releases=paid, schedule=schedule, bounds=bounds)


def _steps_and_noise(problem: Problem, budget: Budget, max_passes: int) -> tuple[int, float, float]:
    """Return T, σ and τ with the universal constant 1; at least one step is taken."""
    n, d = min(problem.group_sizes), problem.n_weights
    lipschitz, loss_range = problem.lipschitz, problem.loss_range
    log_delta = math.log(1.0 / budget.delta)
    steps = (problem.diameter * lipschitz + loss_range * math.sqrt(math.log(problem.n_groups))) * (
        n**2 * budget.epsilon**2 / (lipschitz * loss_range * d * log_delta)
    )
    n_steps = max(2, min(max_passes + 1, math.floor(steps)))
    sigma = (
        lipschitz
        * math.sqrt(n_steps * math.log(n_steps / budget.delta) * log_delta)
        / (n * budget.epsilon)
    )
    return n_steps, sigma, loss_range * math.sqrt(n_steps * log_delta) / (n * budget.epsilon)
