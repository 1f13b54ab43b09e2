"""Step rule of a run: step sizes, momentum, ceiling and group rate before the noise is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, Rules, any_number, flag, one_of, positive, share, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.solvers.descent.schedule import Batches
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import best_rate, loss_ceiling, risk_spread
from sklearn_dpwg.solvers.sums import SumSensitivity

# Planning bound on the excess risk, and the noise of a run that it counts.


class RunNoise(NamedTuple):
    """Variance of the mean over a run of what is released, noise and coins together."""

    # of the gradient, summed over its coordinates, if all weight is on the group; (n_groups,)
    gradient: FloatArray
    risk: FloatArray  # of the risk of the group; empty with one group; (n_groups,)


def noise_of_passes(
    problem: Problem, *, mu: float, risk_share: float, feedback_range: float
) -> RunNoise:
    """Return the noise of full passes, however many they are, with a share ρ of μ² for the risks.

    It is ``d s_i²`` with ``s_i = Γ/(n_i μ √(1-ρ))``, and ``v_i = (b/(n_i μ √ρ))²``.
    """
    sizes = problem.sizes_to_plan_for
    gradient = problem.gradient_diameter / (sizes * mu * math.sqrt(1.0 - risk_share))
    risk = np.zeros(0)
    if problem.n_groups > 1:
        risk = (feedback_range / (sizes * mu)) ** 2 / risk_share
    return RunNoise(problem.n_weights * gradient**2, risk)


def noise_of_batches(batches: Batches, *, n_steps: int, n_weights: int) -> RunNoise:
    """Return the noise of a run on Poisson batches: the variances of a step over T.

    They are those of the noise and of the coins, which for gradients is a model.
    """
    gradient = n_weights * batches.gradient_stds**2 + batches.sampling_variances
    return RunNoise(gradient / n_steps, batches.risk_variances / n_steps)


def without_unheard(noise: RunNoise, problem: Problem) -> RunNoise:
    """Return the noise that plans count: next to none for groups that no weight is moved to."""
    if problem.hidden is None:
        return noise
    squares = (np.asarray(problem.group_sizes) / problem.sizes_to_plan_for) ** 2
    return RunNoise(noise.gradient * squares, noise.risk * squares[: len(noise.risk)])


def excess_bound_by_group(
    problem: Problem,
    noise: RunNoise,
    *,
    n_steps: int,
    aim: float,
    step_size: float,
    max_momentum: float,
    sharpness: float,
    fixed_step: bool = False,
) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    It is that of docs/theory/mgr.md, section 6: the regret of projected gradient descent with noise
    once all weight is on group i, with the step as planned and as far as `step_size` with
    `max_momentum` reaches (or of fixed steps, whatever the noise), plus that of Hedge against group
    i. A loss that is not smooth pays ``τ L²/(2T)`` as well, τ the total step. The planned limit
    ``aim/(L √T)`` on its steps keeps the total within 7 % of that of the best step.
    """
    bound = descent_bound_by_group(
        problem,
        noise.gradient,
        n_steps=n_steps,
        aim=aim,
        step_size=step_size,
        max_momentum=max_momentum,
        fixed_step=fixed_step,
    )
    if problem.n_groups > 1:
        bound += (
            -np.log(np.asarray(problem.prior)) / sharpness
            + sharpness * risk_spread(problem) ** 2 / n_steps
            + sharpness * (noise.risk + noise.risk.max()) / 4
        )
    return np.asarray(bound)


def descent_bound_by_group(
    problem: Problem,
    gradient_variances: FloatArray,
    *,
    n_steps: int,
    aim: float,
    step_size: float,
    max_momentum: float,
    fixed_step: bool = False,
) -> FloatArray:
    """Return the first part of that bound: what the weights owe if all weight is on a group."""
    reach = n_steps * step_size / (1.0 - max_momentum)
    of_coordinate = np.sqrt(gradient_variances / problem.n_weights)
    total_step = np.minimum(by_loss(problem.loss).step_share * aim / of_coordinate, reach)
    if fixed_step:
        total_step = np.full_like(gradient_variances, reach)
    bound = np.asarray(aim**2 / (2 * total_step) + total_step * gradient_variances / 2)
    if math.isinf(problem.smoothness):
        bound += total_step * problem.lipschitz**2 / (2 * n_steps)
    return bound


def best_sharpness(problem: Problem, noise: RunNoise, *, n_steps: int) -> float:
    """Return the θ = η_λ T of least regret if any group may be the worst off.

    It is ``√(entropy(π) / (q²/T + mean_i v_i / 2))`` with q the assumed `risk_spread`: the prior's
    mean in place of the groups' own would let large groups set a rate at which the noise of small
    ones decides.
    """
    prior = np.asarray(problem.prior)
    entropy = -float(prior @ np.log(prior))
    return best_rate(entropy, risk_spread(problem) ** 2 / n_steps + float(noise.risk.mean()) / 2)


# Parameters of the multiplicative group reweighting solver, and what each may be.


@dataclass(eq=False, repr=False)
class MGRParameters:
    """Parameters of `MGR`, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    risk_share: float | None = None
    group_rate: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    step_size: float | None = None
    averaging: float = 2 / 3
    max_passes: int = 150
    max_seconds: float | None = None
    sampling_rate: float | Sequence[float] | None = None
    centring: bool | None = None


def _paper_reads_all(parameters: MGRParameters) -> None:
    """Refuse batches and limits on time for the paper's schedule."""
    rate, limit = parameters.sampling_rate, parameters.max_seconds
    if parameters.schedule == "paper" and (rate is not None or limit is not None):
        raise ValueError(
            "sampling_rate and max_seconds of MGR must be None with schedule='paper', whose steps "
            f"read all records, got {rate!r} and {limit!r}."
        )


RULES = Rules(
    "MGR",
    _paper_reads_all,
    n_steps=whole(or_none=True),
    max_passes=whole(),
    group_rate=positive(or_none=True),
    aim=positive(),
    step_size=positive(or_none=True),
    max_seconds=positive(or_none=True),
    risk_share=share(or_none=True),
    averaging=share(or_all=True),
    loss_ceiling=any_number(or_none=True),
    centring=flag(or_none=True),
    schedule=one_of("planned", "paper"),
)


# Heavy-ball momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# Steps of a smooth loss begin at most this many times as long as is safe for every data set. At
# epsilon = 1 nothing depends on it; at 4 steps of 1/H have 2.7 times the excess on the census, and
# 16/H does no better than 8/H (benchmarks/mgr_defaults.py BOLDNESS epsilon=4 census-income-kdd).
BOLDNESS = 8.0


@dataclass(frozen=True)
class StepRule:
    """Steps, their limits and the loss ceiling of a run; the bound follows from the noise."""

    problem: Problem
    n_steps: int  # steps T
    # a record's loss counts for at most this much in the group risks, and where it is raised
    ceiling: float
    raised_ceiling: float
    aim: float  # norm of the weights that step sizes are planned for
    step_size: float  # limits of the step rule
    longest_step: float
    max_momentum: float
    is_fixed: bool  # whether every step is `step_size`, whatever the noise
    group_rate: float | None  # step size of the group weights, where the user set it

    @classmethod
    def of(
        cls, problem: Problem, parameters: MGRParameters, n_steps: int, *, may_raise: bool = False
    ) -> StepRule:
        """Return what the parameters ask for; refuse a ceiling that no loss can be below."""
        ceiling = loss_ceiling(problem, parameters.loss_ceiling, "MGR")
        raised = ceiling
        if may_raise:
            constants, multiple = problem.constants, by_loss(problem.loss).raised_ceiling
            raised = max(ceiling, min(multiple * constants.zero_score, constants.supremum))
        aim = parameters.aim * problem.radius
        boldness = 1.0
        if parameters.step_size is not None:
            step_size, max_momentum = parameters.step_size, 0.0
        elif math.isinf(problem.smoothness):
            # the best step without noise against a comparator of norm aim; momentum would rest
            # on 1/H
            step_size, max_momentum = aim / (problem.lipschitz * math.sqrt(n_steps)), 0.0
        else:
            step_size = 1.0 / problem.smoothness
            boldness = BOLDNESS
            max_momentum = max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * n_steps))
        return cls(
            problem,
            n_steps,
            ceiling,
            raised,
            aim,
            step_size,
            boldness * step_size,
            max_momentum,
            parameters.step_size is not None,
            parameters.group_rate,
        )

    @cached_property
    def sums(self) -> SumSensitivity:
        """What one record moves of the sums of gradients, and of losses up to the ceiling."""
        return SumSensitivity.of(self.problem, ceiling=self.raised_ceiling)

    @property
    def feedback_range(self) -> float:
        """Range b of the losses that the group risks count, rounding included."""
        return self.sums.loss_range - (self.raised_ceiling - self.ceiling)

    def sharpness(self, noise: RunNoise) -> float:
        """Return θ = η_λ T of the user, or the best; 1 with one group, where it has no effect."""
        if self.problem.n_groups == 1:
            return 1.0
        if self.group_rate is not None:
            return self.group_rate * self.n_steps
        return best_sharpness(self.problem, noise, n_steps=self.n_steps)

    def group_rate_at(self, noise: RunNoise) -> float:
        """Return the step size η_λ = θ/T of the group weights; 0 with one group."""
        return self.sharpness(noise) / self.n_steps if self.problem.n_groups > 1 else 0.0

    def bound(self, noise: RunNoise) -> FloatArray:
        """Return the planning bound for each group as the worst-off one."""
        return excess_bound_by_group(
            self.problem,
            noise,
            n_steps=self.n_steps,
            aim=self.aim,
            step_size=self.longest_step,
            max_momentum=self.max_momentum,
            fixed_step=self.is_fixed,
            sharpness=self.sharpness(noise),
        )

    def excess(self, noise: RunNoise) -> float:
        """Return the prior average of the planning bound, by which plans are chosen."""
        return float(np.asarray(self.problem.prior) @ self.bound(noise))

    def best_share(self, noise_at: Callable[[float], RunNoise], share: float | None) -> float:
        """Return the share of the budget for the group risks: what the user set, or the best."""
        if self.problem.n_groups == 1:
            return 0.0
        if share is not None:
            return share
        found = minimize_scalar(
            lambda at: self.excess(noise_at(at)), bounds=(1e-3, 0.5), method="bounded"
        )
        return float(found.x)
