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

# Largest noise on the running mean of a risk, over the assumed spread of the risks.
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
        weights, momentum = space.weights, descent.Momentum(schedule, plan.problem.n_weights)
        mean_risks, group_steps = np.zeros(n_groups), np.zeros(n_groups)
        # the first weights count where the average has one more point than there are steps
        weights_sum = float(schedule.n_averaged > schedule.n_steps) * weights

        def choose(risks: FloatArray) -> int:
            """Update the running means; return the group of the largest, the first of equals."""
            mean_risks[:] += (risks - mean_risks) / min(group_steps.sum() + 1.0, schedule.memory)
            group = int(np.argmax(mean_risks))
            group_steps[group] += 1.0
            return group

        for t in range(schedule.n_steps):
            gradient, noise_std = descent.release_chosen_group(plan, data, weights, choose, noise)
            weights = space.project(weights + momentum.push(gradient, noise_std))
            if t >= schedule.n_steps - schedule.n_averaged:
                weights_sum = weights_sum + weights
        learned, group_weights = weights_sum / schedule.n_averaged, group_steps / group_steps.sum()
        return Solution(learned, group_weights, n_iter=schedule.n_steps)


@dataclass(frozen=True, kw_only=True, repr=False)
class AGSSchedule(descent.DescentSchedule):
    """Everything that `AGS.run` needs besides the records and the noise."""

    memory: int  # steps in the running mean of released risks; 1 for the last step alone


class ChoiceRule(descent.StepRule):
    """Step sizes and planning bound where each step takes the group of the largest mean risk."""

    def memory(self, noise: descent.RunNoise) -> int:
        """Return the steps in the running mean of risks, so that its noise is small (`QUIET`)."""
        if self.problem.n_groups == 1:
            return 1
        allowed_std = QUIET * risk_spread(self.problem)
        needed = self.n_steps * float(noise.risk.mean()) / allowed_std**2
        return max(1, math.ceil(min(needed, self.n_steps)))

    def group_regret(self, noise: descent.RunNoise) -> FloatArray:
        """Return ``√(2 v log p)`` p times, v the largest variance of the mean risks, p groups."""
        p, largest_variance = self.problem.n_groups, float(noise.risk.max()) * self.n_steps
        return np.full(p, math.sqrt(2.0 * math.log(p) * largest_variance / self.memory(noise)))


def least_bound_plan(problem: Problem, budget: Budget, solver: AGS) -> Plan:
    """Plan with the noise and fractions of least bound, where the parameters are None."""
    n_steps = solver.n_steps or solver.max_passes or descent.PASSES
    rule = ChoiceRule(problem, solver, n_steps, effective_sample_size(problem, budget))
    releases, noise = descent.pay_for_passes(rule, budget)
    schedule = AGSSchedule(**rule.fields(), memory=rule.memory(noise))
    return Plan("ags", problem, budget, releases, schedule, rule.bound(noise), n_steps)


def paper_plan(problem: Problem, budget: Budget, solver: AGS) -> Plan:
    """Plan with the paper's formulas and constants of 1 (docs/theory/ags.md, section 5)."""
    n, p = min(problem.group_sizes), problem.n_groups
    log_delta, scale = math.log(1.0 / budget.delta), n * budget.epsilon
    paper_steps = problem.diameter * problem.lipschitz * scale
    paper_steps /= 16.0 * problem.loss_range * math.sqrt(log_delta)
    n_steps = max(2, min((solver.max_passes or descent.PASSES) + 1, math.floor(paper_steps)))
    noise = descent.paper_noise(problem, budget, n_steps, union=n * p)
    schedule = AGSSchedule(**noise.fields, memory=1)
    # the bound in the proof of Theorem 14: regret, and twice the largest noise on a risk
    excess = noise.regret
    if p > 1:
        excess += 16.0 * noise.tau * math.log(p * n * n_steps / 2.0)
    return Plan("ags", problem, budget, noise.releases, schedule, (excess,) * p, schedule.n_steps)
