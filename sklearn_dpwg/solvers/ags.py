"""Noisy gradient descent on the group that looks worst off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules
from sklearn_dpwg._repr import documented
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import descent
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, effective_sample_size
from sklearn_dpwg.solvers.steps import Space, risk_spread

# A running mean of risks is as short as noise allows, which is this much of the assumed spread.
QUIET = 0.1


@documented(descent.SHARED_PARAMETERS)
@dataclass(eq=False, repr=False, kw_only=True)
class AGS(descent.Descent):
    """Noisy gradient descent on the group that looks worst off, by released risks.

    Every step releases the risks of all groups with noise, takes the group that looks worst off,
    and moves the weights against the noisy gradient of that group alone. ``None`` means planned
    from public facts. Choosing one group a step saves nothing; it is here as the paper's.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: `max_passes`.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rate and noise from Zhou and Bassily's Theorems 13 and 14 with their
        constants set to 1 (both noises larger by one factor where that would break the budget),
        the last risks alone with Laplace noise, and the average of ``w_1, …, w_T``. Planned runs
        take groups by a running mean of released risks, over as many steps as their noise asks for.
    <shared>

    References
    ----------
    Zhou and Bassily (2024), Algorithm 5, Theorems 13 and 14; proofs are in `docs/theory/ags.md`.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import AGS
    >>> AGS(n_steps=50)
    AGS(n_steps=50)
    """

    name: ClassVar[str] = "ags"
    rules: ClassVar[Rules] = Rules("AGS", **descent.RULES)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        return plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, n_groups = plan.schedule, plan.problem.n_groups
        space = Space.of(plan, None, data, noise, start)
        weights, ball = space.weights, descent.Momentum(schedule, plan.problem.n_weights)
        mean, taken = np.zeros(n_groups), np.zeros(n_groups)
        total = float(schedule.averaged > schedule.n_steps) * weights

        def choose(risks: FloatArray) -> int:
            """Return the group whose mean risk so far is the largest, the first of equals."""
            mean[:] += (risks - mean) / min(taken.sum() + 1.0, schedule.memory)
            group = int(np.argmax(mean))
            taken[group] += 1.0
            return group

        for t in range(schedule.n_steps):
            released = descent.from_one_group(plan, data, weights, choose, noise)
            weights = space.project(weights + ball.push(*released))
            if t >= schedule.n_steps - schedule.averaged:
                total = total + weights
        return Solution(total / schedule.averaged, taken / taken.sum(), schedule.n_steps)


@dataclass(frozen=True, kw_only=True, repr=False)
class AGSSchedule(descent.DescentSchedule):
    """Everything that `AGS.run` needs besides the records and the noise."""

    # the mean of the released risks runs over about so many steps; 1 for the last ones alone
    memory: int


class ChoiceRule(descent.StepRule):
    """The rule where each step takes one group, by the mean of released risks."""

    def memory(self, noise: descent.RunNoise) -> int:
        """Return how many steps the mean of released risks, of such noise over a run, runs over."""
        if self.problem.n_groups == 1:
            return 1
        spread = QUIET * risk_spread(self.problem)
        needed = self.n_steps * float(noise.risk.mean()) / spread**2
        return max(1, math.ceil(min(needed, self.n_steps)))

    def of_groups(self, noise: descent.RunNoise) -> FloatArray:
        """Return ``√(2 v log p)``, v the largest variance of what groups are taken by."""
        p, loudest = self.problem.n_groups, float(noise.risk.max()) * self.n_steps
        return np.full(p, math.sqrt(2.0 * math.log(p) * loudest / self.memory(noise)))


def least_bound_plan(problem: Problem, budget: Budget, solver: AGS) -> Plan:
    """Plan by minimising the bound over whatever the parameters leave open."""
    n_steps = solver.n_steps or solver.max_passes or descent.PASSES
    rule = ChoiceRule(problem, solver, n_steps, effective_sample_size(problem, budget))
    paid, noise = descent.pay_for_passes(rule, budget)
    schedule = AGSSchedule(**rule.fields(), memory=rule.memory(noise))
    return Plan("ags", problem, budget, paid, schedule, rule.bound(noise), n_steps)


def paper_plan(problem: Problem, budget: Budget, solver: AGS) -> Plan:
    """Plan with the paper's formulas and constants of 1 (docs/theory/ags.md, section 5)."""
    n, p = min(problem.group_sizes), problem.n_groups
    log_delta, scale = math.log(1.0 / budget.delta), n * budget.epsilon
    steps = problem.diameter * problem.lipschitz * scale
    steps /= 16.0 * problem.loss_range * math.sqrt(log_delta)
    n_steps = max(2, min((solver.max_passes or descent.PASSES) + 1, math.floor(steps)))
    noise = descent.paper_noise(problem, budget, n_steps, n * p)
    schedule = AGSSchedule(**noise.fields, memory=1)
    # the bound in the proof of Theorem 14: regret, and twice the largest noise on a risk
    excess = noise.regret
    if p > 1:
        excess += 16.0 * noise.tau * math.log(p * n * n_steps / 2.0)
    return Plan("ags", problem, budget, noise.releases, schedule, (excess,) * p, schedule.n_steps)
