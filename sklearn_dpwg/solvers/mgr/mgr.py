"""Noisy gradient descent with multiplicative group reweighting."""

from __future__ import annotations

from copy import copy
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.centring.problem import largest_clip
from sklearn_dpwg.solvers.centring.releases import release_centre
from sklearn_dpwg.solvers.heavy_ball import HeavyBall
from sklearn_dpwg.solvers.mgr import mixture, releases
from sklearn_dpwg.solvers.mgr.group_weights import GroupWeights
from sklearn_dpwg.solvers.mgr.hidden_losses import HiddenLosses
from sklearn_dpwg.solvers.mgr.limits import PlannedLimits
from sklearn_dpwg.solvers.mgr.loss_level import LossLevel
from sklearn_dpwg.solvers.mgr.paper import paper_plan
from sklearn_dpwg.solvers.mgr.parameters import RULES, MGRParameters
from sklearn_dpwg.solvers.mgr.planning import least_bound_plan
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule
from sklearn_dpwg.solvers.mgr.shrinkage import Shrinkage
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan, MixtureSolver
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution


class MGR(MGRParameters, MixtureSolver):
    """Noisy gradient descent with multiplicative group reweighting, on all records or batches.

    Every step takes a noisy gradient of the group-weighted risk, moves the weights within their
    ball, and raises the weights of groups whose noisy risks are high. ``None`` means planned
    from public facts.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: as many as `max_passes` and `max_seconds` allow.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rates and noise from Zhou and Bassily's Theorems 9 and 10 with
        their constants set to 1 (the noise's larger where 1 would break the budget): the gradient
        of one group, drawn from the group weights, Laplace noise on the risks, a uniform prior.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    group_rate : float, optional
        Step size η_λ of the group weights, positive: Hedge at this rate. Planned: by the spread of
        the released risks, and weight on a group has to make up for the noise that it brings.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: 2.16
        times the largest loss of a model that predicts nothing, and three times that once released
        risks show that it hides a group; for the squared error as much as that largest loss, or
        six times the mean released loss where it is less. Infinity: no ceiling.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a share
        of the radius.
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.
    averaging : float, default=2/3
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, default=150
        Largest number of passes over the rows that a planned `n_steps` may use; batches may take no
        longer than so many passes either.
    max_seconds : float, optional
        Largest predicted time of a fit's steps and calibration, in seconds on two cores with secure
        noise. What is predicted follows from public facts, and is no clock.
    sampling_rate : float or sequence of float, optional
        Probability with which a record joins a step, the same for all groups or one for each in
        the order of the group labels: Poisson batches. 1 reads every record in every step.
        Planned: 1, unless the bound of batches is clearly less within the same time, as it is
        for some hundred thousand records or a small `max_seconds`.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for a log loss or the squared error with an intercept, where steps
        are planned.

    Notes
    -----
    A record of group i moves the weighted gradient by at most λ_i Γ/n_i and the clipped risk of
    its own group by at most b/n_i, so each step releases a gradient with noise
    ``z_w Γ max_i λ_i/n_i`` and risks with noise ``z_λ b/n_i``, for multipliers z fixed in
    advance; the step sizes follow earlier releases. `docs/theory/mgr.md` proves each.

    On batches a step releases both together. A record that may join or not counts with the norm of
    its gradient, at most L, in place of a distance, and every group pays at its own rate, whether
    or not any of its records joined. Sums are divided by the expected size of a batch.

    For smooth losses steps begin up to 8/H long, shrink towards 1/H where released gradients show
    that they are too long, and momentum stands in for longer ones (`HeavyBall`). A loss that is
    not smooth takes plain steps, none longer than ``aim/(L √T)``, the best without noise.

    The default of `aim` is the middle of a flat minimum over six classification and two regression
    data sets (``benchmarks/mgr_defaults.py`` prints it, with those of `averaging` and
    `max_passes`).

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

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        """Refuse what is not proved, or not fixed before counts are released."""
        reason = ""
        if self.schedule == "paper":
            reason = "schedule='planned', got 'paper'"
        elif len(set(np.ravel(np.asarray(self.sampling_rate, dtype=object)))) > 1:
            reason = f"one sampling_rate for all groups, got {self.sampling_rate!r}"
        if reason:
            raise ValueError(f"solver 'mgr' with neighbours='replace-any' needs {reason}.")

    def for_persons(self) -> MGR:
        """Return one that plans full passes, where `sampling_rate` is open."""
        if self.schedule == "paper" or self.sampling_rate is not None:
            return self
        found = copy(self)
        found.sampling_rate = 1.0
        return found

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, max_passes=self.max_passes)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, MGRSchedule)
        release = releases.from_pass if schedule.batches is None else releases.from_batch
        weights, log_group_weights = _first_weights(problem, schedule, start)
        centring, unit = None, 1.0
        if schedule.is_centred:
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, unit = centring.view(data), centring.clip / largest_clip(problem.loss)
            weights = centring.to_centred(weights, problem)
        following = _limits_of_run(schedule, problem)
        gradient_noise = unit * schedule.gradient_noise(problem)
        players = GroupWeights(schedule, log_group_weights, gradient_noise)
        ball = HeavyBall(schedule, len(weights))
        shrinkage = Shrinkage(problem.constants.zero_score, problem.n_groups)
        weights_sum, group_weights_sum = np.zeros_like(weights), np.zeros(problem.n_groups)
        if schedule.averaged > schedule.n_steps:
            weights_sum, group_weights_sum = weights.copy(), players.current.copy()
        for t in range(schedule.n_steps):
            limits = following.limits(unit)
            released = release(plan, data, weights, players.current, noise, limits)
            move = ball.push(released.gradient, released.noise_std)
            weights = project_to_ball(weights + move, problem.radius)
            feedback = released.risks, released.risk_variances, players.current
            following.push(*feedback)
            if problem.n_groups > 1 and following.is_heard:
                players.push(released.risks, released.risk_variances)
            # after the step, so that the last releases count too
            if t >= schedule.n_steps - schedule.averaged:
                weights_sum += weights
                group_weights_sum += players.current
                if schedule.shrinks and following.is_heard:
                    shrinkage.push(*feedback)
        learned = weights_sum / schedule.averaged
        if schedule.shrinks and start is None:
            learned *= shrinkage.kept
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, group_weights_sum / schedule.averaged, schedule.n_steps)

    def _set_by_caller(self) -> dict[str, tuple[object, ...]]:
        return mixture.SET_BY_CALLER

    def mixture_problem(self, problem: Problem) -> Problem:
        return mixture.learned_problem(problem, self)

    def numbers_of_calls(self, problem: Problem) -> tuple[int, ...]:
        return mixture.numbers_of_calls(self)

    def plan_mixture(self, problem: Problem, calls: Calls) -> MixturePlan:
        return mixture.plan_of_calls(problem, calls, self)

    def run_mixture(
        self,
        plan: MixturePlan,
        group_weights: FloatArray,
        center: FloatArray,
        data: Risks,
        noise: NoiseSource,
        *,
        call: int,
        risks: FloatArray | None = None,
    ) -> FloatArray:
        return mixture.run_call(plan, group_weights, center, data, noise)


def _limits_of_run(schedule: MGRSchedule, problem: Problem) -> PlannedLimits:
    """Return what sets the limits of each step."""
    if schedule.follows_level:
        return LossLevel(schedule, problem)
    return HiddenLosses(schedule) if schedule.may_raise else PlannedLimits(schedule)


def _first_weights(
    problem: Problem, schedule: MGRSchedule, start: Solution | None
) -> tuple[FloatArray, FloatArray]:
    """Return the weights and the logarithms of the group weights that a run starts with."""
    weights, log_group_weights = np.zeros(problem.n_weights), np.log(np.asarray(schedule.prior))
    if start is not None:
        weights = project_to_ball(start.weights, problem.radius)
        if start.group_weights is not None:
            log_group_weights = np.log(np.maximum(start.group_weights, 1e-300))
    return weights, log_group_weights
