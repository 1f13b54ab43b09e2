"""Noisy gradient descent on the group that looks worst off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, Rules, positive, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import descent
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, signal
from sklearn_dpwg.solvers.steps import GainOfGroups, Space, risk_spread, shown

# A planned θ is at most the first where risks are smoothed, as a running mean lags behind what it
# is the mean of, which no bound here knows (benchmarks/ags.py sharpness); and else at most the
# second, beyond which no group is handicapped by anything that matters.
SHARPEST_OF_MEANS, SHARPEST = 10.0, 1e6

# A running mean of risks is as short as noise allows, which is this much of the assumed spread.
QUIET = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class AGS(descent.Descent):
    """Noisy gradient descent on the group that looks worst off, by released risks.

    Every step releases the risks of all groups with noise, takes the group that looks worst off,
    and moves the weights against the noisy gradient of that group alone. ``None`` means planned
    from public facts. Choosing one group a step saves nothing; it is here as the paper's.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: `max_passes`. No more than `visits` times the number of groups
        are taken.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rate and noise from Zhou and Bassily's Theorems 13 and 14 with their
        constants set to 1 (both noises larger by one factor where that would break the budget),
        the last risks alone with Laplace noise, no handicap and the average of ``w_1, …, w_T``.
        Planned runs take groups by a running mean of released risks, over as many steps as their
        noise asks for.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much in the group risks. Planned: as `MGR`'s.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that step sizes are planned for, as a share
        of the radius, of 20 at most.
    averaging : float, default=0.5
        Share of the iterates, the last ones, that is averaged; above 0, at most 1.
    max_passes : int, optional
        Largest number of steps, of one pass over the rows each. Planned: as `MGR`'s.
    visits : int, optional
        Largest number V of steps that take any one group. A record pays for the gradients of its
        own group alone, so noise on these is that of V draws. Planned: T, as fewer would forbid
        what one group that is always the worst off needs.
    sharpness : float, optional
        θ: a group of prior weight π_i is taken as if its risk were smaller by ``log(1/π_i)/θ``;
        infinity leaves that out. Planned: the least of the planning bound.
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.

    Notes
    -----
    A record moves the vector of the group risks in one coordinate, and the gradient only in steps
    that take its group, at most V. Which group a step takes follows from earlier releases, so
    μ² = V/z_w² + T/z_λ² exactly. The noise source is told whose gradient it is and refuses the
    group's draw V + 1. `docs/theory/ags.md` proves this.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 5, Theorems 13 and 14.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import AGS
    >>> AGS(n_steps=50, visits=25)
    AGS(n_steps=50, visits=25)
    """

    visits: int | None = None
    sharpness: float | None = None
    step_size: float | None = None

    name: ClassVar[str] = "ags"
    rules: ClassVar[Rules] = Rules(
        "AGS",
        **descent.RULES,
        visits=whole(or_none=True),
        sharpness=positive(or_infinite=True, or_none=True),
        step_size=positive(or_none=True),
    )

    def _check_game(self, problem: Problem) -> None:
        """Refuse what counts by groups how often a record pays, where it is in several."""
        super()._check_game(problem)
        if problem.cells is not None and self.visits is not None:
            raise InputError(
                f"visits of AGS must be None for overlapping groups, got {self.visits!r}."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        return plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule = plan.schedule
        assert isinstance(schedule, AGSSchedule)
        space = Space.of(plan, schedule.centring, data, noise, start)
        weights = space.weights
        gain = GainOfGroups(plan.problem, adapts=not schedule.is_paper)
        choice = GroupChoice(schedule, gain)
        ball, total = descent.Momentum(schedule, len(weights)), np.zeros_like(weights)
        if schedule.averaged > schedule.n_steps:
            total = weights.copy()
        for t in range(schedule.n_steps):
            released = descent.from_one_group(plan, data, weights, choice.take, noise)
            weights = space.project(weights + ball.push(*released))
            if t >= schedule.n_steps - schedule.averaged:
                total = total + weights
        learned = total / schedule.averaged
        return Solution(learned, choice.shares, schedule.n_steps, **gain.released)


@dataclass(frozen=True, kw_only=True, repr=False)
class AGSSchedule(descent.DescentSchedule):
    """Everything that `AGS.run` needs besides the records and the noise."""

    visits: int  # V: a group is taken in at most so many steps
    # the mean of the released risks runs over about so many steps; 1 for the last ones alone
    memory: int
    # θ: a group of prior weight π_i is handicapped by `log(1/π_i)/θ`; infinity, by nothing
    sharpness: float

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = []
        if len(self.prior) > 1:
            heard = "the last" if self.memory == 1 else f"a running mean of {self.memory:,}"
            handicap = (
                ""
                if math.isinf(self.sharpness)
                else f", handicapped by log(1/prior)/{self.sharpness:.3g} for prior weights "
                f"{shown(self.prior)}"
            )
            lines.append(
                f"each step takes the group whose risk is the largest by {heard} released"
                f"{handicap}; losses counted up to {self.ceiling:.3g}"
            )
            if self.visits < self.n_steps:
                lines.append(f"no group is taken more than {self.visits:,} times")
        return self._text(f"average of {self._averaged}, one pass over the rows each", *lines)


class GroupChoice:
    """The group that each step takes: that which the game and the prior owe most weight."""

    def __init__(self, schedule: AGSSchedule, gain: GainOfGroups) -> None:
        self._gain, self._owed = gain, np.zeros(len(schedule.prior))
        self._memory, self._most = schedule.memory, schedule.visits
        self._handicap = -np.log(np.asarray(schedule.prior)) / schedule.sharpness
        self._mean = np.zeros(len(schedule.prior))
        self._n_heard = 0
        self.visits = np.zeros(len(schedule.prior), dtype=int)

    def take(self, risks: FloatArray, variances: FloatArray) -> int:
        """Return the group that a step with these released risks takes."""
        self._gain.push(risks, variances)
        self._n_heard += 1
        self._mean = self._mean + (risks - self._mean) / min(self._n_heard, self._memory)
        is_free = self.visits < self._most
        worst = np.argmax(np.where(is_free, self._mean - self._handicap, -np.inf))
        self._owed += self._gain.played(np.eye(len(risks))[worst])
        group = int(np.argmax(np.where(is_free, self._owed, -np.inf)))
        self._owed[group] -= 1.0
        self.visits[group] += 1
        return group

    @property
    def shares(self) -> FloatArray:
        """Return the share of the steps that each group was taken in."""
        return np.asarray(self.visits / self.visits.sum())


class ChoiceRule(descent.StepRule):
    """The rule where each step takes one group; what the choice owes is θ's."""

    solver: AGS
    is_bold = False
    largest_share = 0.9

    def __init__(self, problem: Problem, solver: AGS, n_steps: int, *, signal: float = 0.0) -> None:
        super().__init__(problem, solver, n_steps, signal=signal)
        # Γ with its rounding, and the largest number V of steps that take any one group
        self.diameter = self.sums.gradient_diameter
        self.visits = min(n_steps, solver.visits or n_steps)

    def memory(self, variances: FloatArray) -> int:
        """Return how many steps the mean of released risks, of such noise over a run, runs over."""
        if self.problem.n_groups == 1:
            return 1
        spread = QUIET * risk_spread(self.problem)
        needed = self.n_steps * float(variances.mean()) / spread**2
        return max(1, math.ceil(min(needed, self.n_steps)))

    def noise_of_passes(self, mu: float, share: float) -> descent.RunNoise:
        """Return the noise of the taken group's gradients, and of the mean of all risks."""
        gradient, risk = super().noise_of_passes(mu, share)
        return descent.RunNoise(gradient * self.visits / self.n_steps, risk)

    def sharpness(self, noise: descent.RunNoise) -> float:
        """Return θ of the user, or that of the least prior average of the bound."""
        if self.solver.sharpness is not None:
            return min(self.solver.sharpness, SHARPEST)
        if self.problem.n_groups == 1:
            return SHARPEST
        most, memory = SHARPEST, self.memory(noise.risk)
        if memory > 1:
            most = min(SHARPEST, SHARPEST_OF_MEANS * self.n_steps / memory)
        prior = np.asarray(self.problem.prior)
        best = minimize_scalar(
            lambda at: float(prior @ of_choice(prior, self._heard(noise), math.exp(at))),
            bounds=(math.log(1e-6), math.log(most)),
            method="bounded",
        )
        return math.exp(best.x)

    def _heard(self, noise: descent.RunNoise) -> FloatArray:
        """Return the variances of what groups are taken by."""
        return noise.risk * self.n_steps / self.memory(noise.risk)

    def of_groups(self, noise: descent.RunNoise) -> FloatArray:
        return of_choice(np.asarray(self.problem.prior), self._heard(noise), self.sharpness(noise))


def of_choice(prior: FloatArray, variances: FloatArray, sharpness: float) -> FloatArray:
    """Return log(1/π_i)/θ + log Σ_j π_j exp(θ² v_j/2) / θ."""
    logs = np.log(prior)
    exponents = logs + sharpness**2 * variances / 2.0
    most = exponents.max()
    return np.asarray((most + math.log(np.exp(exponents - most).sum()) - logs) / sharpness)


def least_bound_plan(problem: Problem, budget: Budget, solver: AGS) -> Plan:
    """Plan by minimising the bound over whatever the parameters leave open."""
    n_steps = solver.n_steps or solver.max_passes or descent.PASSES
    # fewer where all groups run out of visits
    n_steps = min(n_steps, (solver.visits or n_steps) * problem.n_groups)
    rule = ChoiceRule(problem, solver, n_steps, signal=signal(problem, budget))
    paid, noise = descent.pay_for_passes(rule, budget, gradient=descent.GRADIENT_OF_ONE_GROUP)
    schedule = AGSSchedule(
        **rule.fields(),
        visits=rule.visits,
        memory=rule.memory(noise.risk),
        sharpness=math.inf if solver.sharpness == math.inf else rule.sharpness(noise),
    )
    bounds = rule.bound(noise)
    return Plan.of("ags", problem, budget, releases=paid, schedule=schedule, bounds=bounds)


def paper_plan(problem: Problem, budget: Budget, solver: AGS) -> Plan:
    """Plan with the paper's formulas and constants of 1 (docs/theory/ags.md, section 5)."""
    n, p = min(problem.group_sizes), problem.n_groups
    lipschitz, loss_range, diameter = problem.lipschitz, problem.loss_range, problem.diameter
    log_delta = math.log(1.0 / budget.delta)
    scale = n * budget.epsilon
    steps = diameter * lipschitz * scale / (16.0 * loss_range * math.sqrt(log_delta))
    most = solver.max_passes or descent.PASSES
    n_steps = max(2, min(most + 1, math.floor(steps)))
    sigma = lipschitz * math.sqrt(n_steps * math.log(n * p / budget.delta) * log_delta) / scale
    tau = loss_range * math.sqrt(n_steps * log_delta) / scale
    noise = descent.paper_noise(
        problem, budget, n_steps, sigma, tau, gradient=descent.GRADIENT_OF_ONE_GROUP
    )
    schedule = AGSSchedule(**noise.fields, visits=n_steps - 1, memory=1, sharpness=math.inf)
    # the bound in the proof of Theorem 14: regret, and twice the largest noise on a risk
    excess = noise.regret
    if p > 1:
        excess += 16.0 * noise.tau * math.log(p * n * n_steps / 2.0)
    paid, bounds = noise.releases, np.full(p, excess)
    return Plan.of("ags", problem, budget, releases=paid, schedule=schedule, bounds=bounds)
