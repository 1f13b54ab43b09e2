"""The contract of every solver: plan from public facts, then run within the plan."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from sklearn.base import BaseEstimator

from sklearn_dpwg._checks import FloatArray, Rules
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError, InputTypeError, PlanExceededError
from sklearn_dpwg.losses import BinaryLogLoss, Loss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.privacy.noise.source import NeverCopied
from sklearn_dpwg.solvers.plan import Plan


@dataclass(frozen=True, eq=False)
class Solution:
    """What a run hands back; every field is public or a paid release.

    Parameters
    ----------
    weights : ndarray of shape (n_weights,)
        Learned weights, inside the ball.
    group_weights : ndarray of shape (n_groups,) or None
        Weights of the groups, where the solver releases them.
    n_iter : int
        Steps taken.
    group_gain, group_gain_std : float, optional
        Decrease of the worst group's risk among new people that weighting the groups brings, where
        the solver estimates it, and the standard error of the estimate.
    """

    weights: FloatArray
    group_weights: FloatArray | None
    n_iter: int
    group_gain: float | None = None
    group_gain_std: float | None = None


class Solver(BaseEstimator, ABC):
    """Base class of the solvers of worst-group problems under a privacy budget.

    `plan` and `run` check their arguments and call `_plan` and `_run`, which a subclass defines.
    Parameters of a solver are public; ``None`` leaves a parameter to the plan.
    """

    name: ClassVar[str]
    # allowed values of the parameters
    rules: ClassVar[Rules] = Rules("Solver")
    # parameters that must keep their defaults with schedule="paper"
    set_by_paper: ClassVar[tuple[str, ...]] = ()
    # whether a run depends on its starting point
    uses_start: ClassVar[bool] = True
    # whether sensitivities are proved for overlapping groups, and for hidden groups
    knows_overlap: ClassVar[bool] = False
    knows_hidden_groups: ClassVar[bool] = False

    @property
    def room(self) -> float:
        """Default radius of the ball, over the problem's `reach`; papers' noise grows with it."""
        return 3.0 if getattr(self, "schedule", "") == "paper" else 50.0

    @final
    def plan(self, problem: Problem, budget: Budget) -> Plan:
        """Plan a run from public facts, and check that the plan keeps to the budget.

        Parameters
        ----------
        problem : Problem
            Public facts of the problem.
        budget : Budget
            Privacy budget of the whole run.

        Returns
        -------
        Plan
            Releases with their noise, steps, predictions and guarantee.
        """
        self._check_parameters()
        self._check_budget(budget)
        self._check_problem(problem)
        plan = self._plan(problem, budget)
        if type(plan) is not Plan:
            raise InputTypeError(f"_plan of solver {self.name!r} must return a Plan, got {plan!r}.")
        # a plan may bound the slopes of the loss; all other facts must be those of the problem
        losses = (problem.loss, problem.loss.with_bounded_slope())
        if plan.problem.loss not in losses or replace(plan.problem, loss=problem.loss) != problem:
            raise PlanExceededError(f"solver {self.name!r} planned for another problem.")
        if plan.budget != budget:
            raise PlanExceededError(
                f"solver {self.name!r} planned for {plan.budget!r}, but {budget!r} was asked for."
            )
        plan.guarantee  # noqa: B018 - raises where the releases cost more than the budget
        return plan

    def run(
        self, plan: Plan, data: Risks, noise: NoiseSource, *, start: Solution | None = None
    ) -> Solution:
        """Learn the weights from the records, with the planned releases and no others.

        Parameters
        ----------
        plan : Plan
            Plan that `plan` returned for this problem.
        data : Risks
            The private records.
        noise : NoiseSource
            Source of the plan's releases.
        start : Solution, optional
            Public or already released point to start from.

        Returns
        -------
        Solution
            Learned weights.
        """
        data = self._adapt(plan, data)
        check_match(plan.problem, data)
        if plan.problem.cells is not None:
            data = data.overlapping(plan.problem.cells)
        return self._run(plan, data, noise, start)

    def _check_parameters(self) -> None:
        """Raise InputError for a value that breaks the rules or the paper's schedule."""
        self.rules.check(self)
        if getattr(self, "schedule", "") != "paper":
            return
        for name in self.set_by_paper:
            value, default = getattr(self, name), getattr(type(self), name)
            if value != default:
                raise InputError(
                    f"{name} of {self.rules.owner} must be {default!r} with schedule='paper', "
                    f"which sets it, got {value!r}."
                )

    def _check_budget(self, budget: Budget) -> None:
        """Raise InputError for an infinite epsilon; the exact solver overrides this check."""
        if budget.epsilon == math.inf:
            raise InputError(
                f"solver {self.name!r} adds noise and needs a finite epsilon, got inf."
            )

    def _check_problem(self, problem: Problem) -> None:
        """Raise InputError for hidden or overlapping groups where this solver has no proof."""
        hides_groups, has_overlap = problem.hidden is not None, problem.cells is not None
        if hides_groups and not self.knows_hidden_groups:
            raise InputError(
                f"solver {self.name!r} needs neighbours='replace-one-within-group', so that groups "
                "are public: 'replace-one' is for 'auto', 'mgr', 'moments', 'oco', "
                "'online-to-batch' and 'phased-erm'."
            )
        if has_overlap and not self.knows_overlap:
            raise InputError(
                f"solver {self.name!r} needs disjoint groups, as with overlap='cells': groups that "
                "overlap are for 'auto', 'ags', 'exact', 'gda', 'mgr', 'moments' and "
                "'phased-erm'."
            )
        if (hides_groups or has_overlap) and getattr(self, "schedule", "planned") == "paper":
            raise InputError(
                f"schedule of {type(self).__name__} must be 'planned' unless groups are disjoint "
                "and neighbours='replace-one-within-group', got 'paper'."
            )

    @abstractmethod
    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        """Return the plan for a checked problem and budget; `plan` calls this."""

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        """Return the records with the loss of the plan; by default the records as they are."""
        return data

    @abstractmethod
    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        """Return the solution for records that match the plan; `run` calls this."""


def check_match(problem: Problem, data: Risks) -> None:
    """Raise InputError where public facts of the records differ from those the noise is for."""
    names = "group sizes"
    planned_facts: tuple[Any, ...] = (problem.cell_sizes,)
    record_facts: tuple[Any, ...] = (data.cell_sizes,)
    if problem.hidden is not None:  # sizes of hidden groups are private
        names = "records, groups"
        planned_facts = (problem.n_records, problem.n_groups)
        record_facts = (sum(data.group_sizes), data.n_groups)
    planned_facts += (problem.loss, problem.n_weights, problem.intercept_scaling)
    record_facts += (data.loss, data.n_weights, data.intercept_scaling)
    if planned_facts != record_facts:
        raise InputError(
            f"The plan is for other records: it has ({names}, loss, weights, intercept scaling) = "
            f"{planned_facts}, the records have {record_facts}."
        )
    if problem.hidden is not None and not data.hides_groups:
        raise InputError(
            "The plan is for records whose groups are hidden: encode them with hides_groups=True."
        )


class Game(NeverCopied, ABC):
    """State of a run that plays rounds as records arrive; `finish` returns the solution so far.

    A game holds exact sums and unused noise, which are secret.
    """

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether all planned rounds were played."""

    @abstractmethod
    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        """Play as many rounds as the records allow, and return the number of rounds played.

        ``available`` holds the number of unused records of each group, which may be infinite;
        where groups are hidden, one number for all. Only public numbers and releases decide rounds.
        """

    @abstractmethod
    def finish(self) -> Solution:
        """Return the weights averaged over the rounds played; more rounds may follow."""


class FreshSolver(Solver):
    """Base class of solvers that read each record once: `begin` a game, advance it, finish it.

    ``horizon`` is the number of ``partial_fit`` calls a plan covers, all with as many records as
    the first call.
    """

    horizon: int
    # whether ``fit``, which has all records at once, reads them more than once
    reads_again: ClassVar[bool] = False

    @property
    def room(self) -> float:
        return 3.0  # the papers' radius, whatever the schedule

    @abstractmethod
    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        """Return a new game, which has read no records yet.

        Parameters
        ----------
        plan : Plan
            Plan that `plan` returned for this problem.
        noise : NoiseSource
            Source of the plan's releases.
        start : Solution, optional
            Public or already released point to start from.

        Returns
        -------
        Game
            Game before its first round.
        """

    def run(
        self,
        plan: Plan,
        data: Risks | SampleOracle,
        noise: NoiseSource,
        *,
        start: Solution | None = None,
    ) -> Solution:
        """Play a whole game on fixed records, shuffled once within each group, or on an oracle."""
        if isinstance(data, SampleOracle):
            if plan.problem.hidden is not None:
                raise InputError("an oracle needs neighbours='replace-one-within-group'.")
            return self._play(plan, data, noise, start)
        return super().run(plan, data, noise, start=start)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return self._play(plan, data.as_oracle(noise.rng), noise, start)

    def _play(
        self, plan: Plan, oracle: SampleOracle, noise: NoiseSource, start: Solution | None
    ) -> Solution:
        """Play a game until the planned rounds or the oracle's records end."""
        game = self.begin(plan, noise, start=start)
        game.advance(oracle, plan.problem.queue_sizes)
        return game.finish()


@dataclass(frozen=True)
class ByLoss:
    """Planning constants of one class of losses, chosen with ``benchmarks/ablation.py``."""

    # step size as a fraction of `initial_distance/(s √T)`, at T steps and noise s per coordinate
    step_fraction: float = 0.14
    # clip of a record's loss, as a multiple of the constant `zero_score`, the most at weights of 0
    loss_clip: float = 2.16
    clip_norm: float = 0.9  # clip of gradient norms over the root mean square of centred rows
    # where finite: clip of the losses of a step, as a multiple of the mean released loss
    clip_of_level: float = math.inf
    is_centred: bool = False  # default: whether rows are centred
    # whether learned weights shrink towards 0 where the worst-off group gained less than the
    # others; needs a loss that is the same for all records at weights of 0
    shrinks: bool = False
    whitens: bool = False  # default: whether centred rows are whitened
    # gain of group weights in all directions, over the gain along the measured one, from the
    # learned weights to 0
    directions: float = 3.0
    passes: int = 150  # of a planned run of `MGR`; few steps would oscillate around kinks

    def loosened_for(self, effective_sample_size: float) -> ByLoss:
        """Return the constants with the larger clips of a large sample, whose noise is small."""
        slope_factor = max(1.0, effective_sample_size / SLOPES_BIND) ** SLOPES_LOOSEN
        loss_factor = 1.0 + math.log(max(1.0, effective_sample_size / LOSSES_BIND))
        return replace(
            self,
            clip_norm=slope_factor * self.clip_norm,
            loss_clip=loss_factor * self.loss_clip,
            clip_of_level=loss_factor * self.clip_of_level,
        )


# Clips trade bias for noise, so they grow as noise vanishes: from these effective sample sizes on,
# those of slopes with this power of the size, those of losses with its logarithm.
SLOPES_BIND, SLOPES_LOOSEN, LOSSES_BIND = 2_000.0, 0.3, 1_500.0
# A lower loss clip would hide a group's few, large losses.
LOG_LOSS = ByLoss(loss_clip=4.33, is_centred=True, shrinks=True, whitens=True, passes=60)
# Slopes of the squared error are residuals, most of them small beside the largest.
SQUARED_ERROR = ByLoss(
    loss_clip=1.0, clip_norm=0.4, clip_of_level=6.0, is_centred=True, directions=30.0, passes=60
)
BY_LOSS: dict[type[Loss], ByLoss] = {
    BinaryLogLoss: LOG_LOSS,
    MultinomialLogLoss: LOG_LOSS,
    SquaredError: SQUARED_ERROR,
}


def by_loss(loss: Loss, effective_sample_size: float = 0.0) -> ByLoss:
    """Return the planning constants of a loss, with clips for the effective sample size."""
    return BY_LOSS.get(type(loss), ByLoss()).loosened_for(effective_sample_size)


def effective_sample_size(problem: Problem, budget: Budget) -> float:
    """Return μ times a typical group's size: about 1 over the noise on that group's mean."""
    return budget.mu * problem.typical_size
