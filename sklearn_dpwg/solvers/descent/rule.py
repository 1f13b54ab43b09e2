"""The rule of steps: parameters, limits and ceiling of a run, and the bound once noise is known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg._checks import FloatArray, Rules, any_number, flag, one_of, positive, share, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.solvers.centring import CentredProblem, in_words
from sklearn_dpwg.solvers.descent.schedule import Batches
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import StepLimits, best_rate, loss_ceiling, risk_spread
from sklearn_dpwg.solvers.sums import SumSensitivity

# Heavy-ball momentum may remember at most a fifth of the run.
LONGEST_MEMORY = 0.2

# Steps of a smooth loss begin at most this many times as long as is safe for every data set. At
# epsilon = 1 nothing depends on it; at 4 steps of 1/H have 2.7 times the excess on the census, and
# 16/H does no better than 8/H (benchmarks/mgr_defaults.py BOLDNESS epsilon=4 census-income-kdd).
BOLDNESS = 8.0


@dataclass(eq=False, repr=False)
class DescentParameters:
    """Parameters of every solver of the family, which documents them; ``None`` means planned."""

    n_steps: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    risk_share: float | None = None
    loss_ceiling: float | None = None
    aim: float = 0.3
    averaging: float = 2 / 3
    max_passes: int = 150

    rules: ClassVar[Rules]

    def _check_parameters(self) -> None:
        self.rules.check(self)


# What each of them may be.
RULES: dict[str, Any] = {
    "n_steps": whole(or_none=True),
    "max_passes": whole(),
    "aim": positive(),
    "risk_share": share(or_none=True),
    "averaging": share(or_all=True),
    "loss_ceiling": any_number(or_none=True),
    "schedule": one_of("planned", "paper"),
}


class RunNoise(NamedTuple):
    """Variance of the mean over a run of what is released, noise and coins together."""

    # of the gradient, summed over its coordinates, if all weight is on the group; (n_groups,)
    gradient: FloatArray
    risk: FloatArray  # of the risk of the group; empty with one group; (n_groups,)


@dataclass(frozen=True, kw_only=True, repr=False)
class StepRule(StepLimits, ABC):
    """Steps, their limits and the loss ceiling of a run; what the group player owes is a solver's.

    The planning bound for a group as the worst-off one is that of docs/theory/mgr.md, section 6:
    the regret of projected gradient descent with noise once all weight is on the group, with the
    step as planned and as far as `longest_step` with `max_momentum` reaches (or of fixed steps,
    whatever the noise), plus the regret of the group player. A loss that is not smooth pays
    ``τ L²/(2T)`` as well, τ the total step. The planned limit ``aim/(L √T)`` on its steps keeps the
    total within 7 % of that of the best step.
    """

    problem: Problem
    parameters: Any  # what the user set
    # a record's loss counts for at most this much in the group risks, and where it is raised
    ceiling: float
    raised_ceiling: float
    is_fixed: bool  # whether every step is `step_size`, whatever the noise

    is_bold: ClassVar[bool] = True  # whether steps of a smooth loss begin longer than is safe
    largest_share: ClassVar[float] = 0.5  # of μ², for the group risks, where it is planned

    @classmethod
    def of(
        cls,
        problem: Problem,
        parameters: DescentParameters,
        n_steps: int,
        *,
        may_raise: bool = False,
        ridge: float = 0.0,
    ) -> Self:
        """Return what the parameters ask for; refuse a ceiling that no loss can be below."""
        ceiling = loss_ceiling(problem, parameters.loss_ceiling, parameters.rules.owner)
        raised = ceiling
        if may_raise:
            constants, multiple = problem.constants, by_loss(problem.loss).raised_ceiling
            raised = max(ceiling, min(multiple * constants.zero_score, constants.supremum))
        aim = parameters.aim * problem.radius
        wanted = getattr(parameters, "step_size", None)  # not every solver lets it be set
        boldness, max_momentum = 1.0, 0.0
        if wanted is not None:
            step_size = wanted
        elif math.isinf(problem.smoothness):
            # the best step without noise against a comparator of norm aim; momentum would rest
            # on 1/H
            step_size = aim / ((problem.lipschitz + ridge * aim) * math.sqrt(n_steps))
        else:
            step_size = 1.0 / (problem.smoothness + ridge)
            boldness = BOLDNESS if cls.is_bold else 1.0
            max_momentum = max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * n_steps))
        return cls(
            problem=problem,
            parameters=parameters,
            ceiling=ceiling,
            raised_ceiling=raised,
            is_fixed=wanted is not None,
            n_steps=n_steps,
            aim=aim,
            step_share=by_loss(problem.loss).step_share,
            step_size=step_size,
            longest_step=boldness * step_size,
            max_momentum=max_momentum,
        )

    @cached_property
    def sums(self) -> SumSensitivity:
        """What one record moves of the sums of gradients, and of losses up to the ceiling."""
        return SumSensitivity.of(self.problem, ceiling=self.raised_ceiling)

    @property
    def feedback_range(self) -> float:
        """Range b of the losses that the group risks count, rounding included."""
        return self.sums.loss_range - (self.raised_ceiling - self.ceiling)

    @property
    def diameter(self) -> float:
        """Γ, as planning counts it."""
        return self.problem.gradient_diameter

    @property
    def visits(self) -> int:
        """In how many steps a record pays for the gradient."""
        return self.n_steps

    def noise_of_passes(self, mu: float, share: float) -> RunNoise:
        """Return the noise of full passes, however many, with a share ρ of μ² for the risks.

        It is ``d s_i²`` with ``s_i = Γ/(n_i μ √(1-ρ))``, and ``v_i = (b/(n_i μ √ρ))²``.
        """
        problem = self.problem
        sizes = problem.sizes_to_plan_for
        gradient = self.diameter / (sizes * mu * math.sqrt(1.0 - share))
        risk = np.zeros(0)
        if problem.n_groups > 1:
            risk = (self.feedback_range / (sizes * mu)) ** 2 / share
        return RunNoise(problem.n_weights * gradient**2, risk)

    def bound(self, noise: RunNoise) -> FloatArray:
        """Return the planning bound for each group as the worst-off one."""
        bound = self.of_weights(noise.gradient)
        return bound + self.of_groups(noise) if self.problem.n_groups > 1 else bound

    def of_weights(
        self, gradient_variances: FloatArray, *, max_momentum: float | None = None
    ) -> FloatArray:
        """Return what the weights owe if all weight is on a group: ``aim²/(2τ) + τ d s_i²/2``."""
        problem, n_steps = self.problem, self.n_steps
        momentum = self.max_momentum if max_momentum is None else max_momentum
        reach = n_steps * self.longest_step / (1.0 - momentum)
        of_coordinate = np.sqrt(gradient_variances / problem.n_weights)
        total_step = np.minimum(self.step_share * self.aim / of_coordinate, reach)
        if self.is_fixed:
            total_step = np.full_like(gradient_variances, reach)
        bound = np.asarray(self.aim**2 / (2 * total_step) + total_step * gradient_variances / 2)
        if math.isinf(problem.smoothness):
            bound += total_step * problem.lipschitz**2 / (2 * n_steps)
        return bound

    @abstractmethod
    def of_groups(self, noise: RunNoise) -> FloatArray:
        """Return what the group player owes if a group is the worst-off one."""

    def excess(self, noise: RunNoise) -> float:
        """Return the prior average of the planning bound, by which plans are chosen."""
        return float(np.asarray(self.problem.prior) @ self.bound(noise))

    def best_share(self, noise_at: Callable[[float], RunNoise]) -> float:
        """Return the share of the budget for the group risks: what the user set, or the best."""
        if self.problem.n_groups == 1:
            return 0.0
        if self.parameters.risk_share is not None:
            return float(self.parameters.risk_share)
        found = minimize_scalar(
            lambda at: self.excess(noise_at(at)),
            bounds=(1e-3, self.largest_share),
            method="bounded",
        )
        return float(found.x)

    def limits(self) -> dict[str, Any]:
        """Return the fields of `StepLimits`."""
        found = {each.name: getattr(self, each.name) for each in fields(StepLimits)}
        return found | {"aim": 0.0} if self.is_fixed else found

    def planned(self) -> dict[str, Any]:
        """Return the fields of a `DescentSchedule`, but for its remark."""
        problem = self.problem
        return self.limits() | {
            "averaged": max(1, round(self.parameters.averaging * self.n_steps)),
            "gradient_diameter": self.sums.gradient_diameter,
            "ceiling": self.ceiling,
            "feedback_range": self.feedback_range,
            "grid": self.sums.grid,
            "prior": problem.prior,
            "centring": in_words(problem.loss) if isinstance(problem, CentredProblem) else "",
        }


# Multiplicative weights, on all records or on batches.


@dataclass(eq=False, repr=False, kw_only=True)
class MGRParameters(DescentParameters):
    """Parameters of `MGR`."""

    group_rate: float | None = None
    step_size: float | None = None
    max_seconds: float | None = None
    sampling_rate: float | Sequence[float] | None = None
    centring: bool | None = None

    def _paper_reads_all(self) -> None:
        """Refuse batches and limits on time for the paper's schedule."""
        rate, limit = self.sampling_rate, self.max_seconds
        if self.schedule == "paper" and (rate is not None or limit is not None):
            raise ValueError(
                "sampling_rate and max_seconds of MGR must be None with schedule='paper', whose "
                f"steps read all records, got {rate!r} and {limit!r}."
            )

    rules = Rules(
        "MGR",
        _paper_reads_all,
        **RULES,
        group_rate=positive(or_none=True),
        step_size=positive(or_none=True),
        max_seconds=positive(or_none=True),
        centring=flag(or_none=True),
    )


class HedgeRule(StepRule):
    """The rule with multiplicative group weights."""

    def sharpness(self, noise: RunNoise) -> float:
        """Return the user's θ = η_λ T, or that of least regret if any group may be the worst off.

        It is ``√(entropy(π) / (q²/T + mean_i v_i / 2))`` with q the assumed `risk_spread`: the
        prior's mean in place of the groups' own would let large groups set a rate at which the
        noise of small ones decides. 1 with one group, where it has no effect.
        """
        problem, n_steps = self.problem, self.n_steps
        if problem.n_groups == 1:
            return 1.0
        if self.parameters.group_rate is not None:
            return float(self.parameters.group_rate * n_steps)
        prior = np.asarray(problem.prior)
        entropy = -float(prior @ np.log(prior))
        return best_rate(
            entropy, risk_spread(problem) ** 2 / n_steps + float(noise.risk.mean()) / 2
        )

    def group_rate_at(self, noise: RunNoise) -> float:
        """Return the step size η_λ = θ/T of the group weights; 0 with one group."""
        return self.sharpness(noise) / self.n_steps if self.problem.n_groups > 1 else 0.0

    def of_groups(self, noise: RunNoise) -> FloatArray:
        sharpness = self.sharpness(noise)
        return np.asarray(
            -np.log(np.asarray(self.problem.prior)) / sharpness
            + sharpness * risk_spread(self.problem) ** 2 / self.n_steps
            + sharpness * (noise.risk + noise.risk.max()) / 4
        )

    def noise_of_batches(self, batches: Batches) -> RunNoise:
        """Return the noise of a run on Poisson batches: the variances of a step over T.

        They are those of the noise and of the coins, which for gradients is a model.
        """
        coordinates = self.problem.n_weights * batches.gradient_stds**2
        gradient = (coordinates + batches.sampling_variances) / self.n_steps
        return RunNoise(gradient, batches.risk_variances / self.n_steps)
