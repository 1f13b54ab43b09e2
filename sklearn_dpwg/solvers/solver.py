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
        How much weights on groups gain for the worst-off one among new people, where it is known,
        and its standard error.
    """

    weights: FloatArray
    group_weights: FloatArray | None
    n_iter: int
    group_gain: float | None = None
    group_gain_std: float | None = None


class Solver(BaseEstimator, ABC):
    """A way to solve worst-group problems under a budget.

    `plan` and `run` are templates that check what they are given; a solver writes `_plan` and
    `_run`. Parameters of a solver are public; ``None`` means planned.
    """

    name: ClassVar[str]
    # what its parameters may be, and which of them the paper's schedule sets itself
    rules: ClassVar[Rules] = Rules("Solver")
    set_by_paper: ClassVar[tuple[str, ...]] = ()
    # whether a run depends on where it begins
    uses_start: ClassVar[bool] = True
    # whether sensitivities are proved for groups that overlap, and for groups that are hidden
    knows_overlap: ClassVar[bool] = False
    knows_hidden_groups: ClassVar[bool] = False

    @property
    def room(self) -> float:
        """Radius that nobody states, in units of the `reach`: the papers' noise or steps follow it.

        Elsewhere the ball is so large that it binds nowhere that data can tell.
        """
        return 3.0 if getattr(self, "schedule", "") == "paper" else 50.0

    @final
    def plan(self, problem: Problem, budget: Budget) -> Plan:
        """Decide everything that can be decided from public facts.

        Parameters
        ----------
        problem : Problem
            Public facts of the problem.
        budget : Budget
            Privacy budget of the whole run.

        Returns
        -------
        Plan
            Releases with their noise, steps, predictions, guarantee.
        """
        self._check_parameters()
        self._check_budget(budget)
        self._check_problem(problem)
        plan = self._plan(problem, budget)
        if type(plan) is not Plan:
            raise InputTypeError(f"_plan of solver {self.name!r} must return a Plan, got {plan!r}.")
        stated = (problem.loss, problem.loss.with_bounded_slope())
        if plan.problem.loss not in stated or replace(plan.problem, loss=problem.loss) != problem:
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
        """Learn from the records, releasing no more than the plan.

        Parameters
        ----------
        plan : Plan
            What `plan` returned for this problem.
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
        self.rules.check(self)
        for name in self.set_by_paper if getattr(self, "schedule", "") == "paper" else ():
            value, planned = getattr(self, name), getattr(type(self), name)
            if value != planned:
                raise InputError(
                    f"{name} of {self.rules.owner} must be {planned!r} with schedule='paper', "
                    f"which sets it, got {value!r}."
                )

    def _check_budget(self, budget: Budget) -> None:
        """Refuse a budget that the solver has no use for."""
        if budget.epsilon == math.inf:
            raise InputError(
                f"solver {self.name!r} adds noise and needs a finite epsilon, got inf."
            )

    def _check_problem(self, problem: Problem) -> None:
        """Refuse groups that are hidden or overlap where that is not proved; no paper's are."""
        is_hidden, overlap = problem.hidden is not None, problem.cells is not None
        if is_hidden and not self.knows_hidden_groups:
            raise InputError(
                f"solver {self.name!r} needs neighbours='replace-one-within-group', so that groups "
                "are public: 'replace-one' is for 'auto', 'mgr', 'moments', 'oco', "
                "'online-to-batch' and 'phased-erm'."
            )
        if overlap and not self.knows_overlap:
            raise InputError(
                f"solver {self.name!r} needs disjoint groups, as with overlap='cells': groups that "
                "overlap are for 'auto', 'ags', 'exact', 'gda', 'mgr', 'moments' and "
                "'phased-erm'."
            )
        if (is_hidden or overlap) and getattr(self, "schedule", "planned") == "paper":
            raise InputError(
                f"schedule of {type(self).__name__} must be 'planned' unless groups are disjoint "
                "and neighbours='replace-one-within-group', got 'paper'."
            )

    @abstractmethod
    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        """Return the plan; parameters and budget are checked."""

    def _adapt(self, plan: Plan, data: Risks) -> Risks:
        """Return the records as the plan takes them."""
        return data

    @abstractmethod
    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        """Learn from records that the plan is for."""


def check_match(problem: Problem, data: Risks) -> None:
    """Refuse records that the noise was not planned for; only public facts are compared.

    Where groups are hidden their sizes are none.
    """
    is_hidden, names = problem.hidden is not None, "group sizes"
    of_plan: tuple[Any, ...] = (problem.cell_sizes,)
    of_records: tuple[Any, ...] = (data.cell_sizes,)
    if is_hidden:
        names, of_plan = "records, groups", (problem.n_records, problem.n_groups)
        of_records = (sum(data.group_sizes), data.n_groups)
    of_plan += (problem.loss, problem.n_weights, problem.intercept_scaling)
    of_records += (data.loss, data.n_weights, data.intercept_scaling)
    if of_plan != of_records:
        raise InputError(
            f"The plan is for other records: it has ({names}, loss, weights, intercept scaling) = "
            f"{of_plan}, the records have {of_records}."
        )
    if is_hidden and not data.hides_groups:
        raise InputError(
            "The plan is for records whose groups are hidden: encode them with hides_groups=True."
        )


# The contract of solvers that use each record once.


class Game(NeverCopied, ABC):
    """A run that is under way: advance it as often as records come in, and look at the outcome.

    Exact sums and unused noise make it a secret.
    """

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether all planned rounds were played."""

    @abstractmethod
    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        """Play as many rounds as the records allow; return how many were played.

        ``available`` says how many unused records the oracle has of each group, or of all where
        groups are hidden; it may be infinite. Rounds follow from public facts and releases.
        """

    @abstractmethod
    def finish(self) -> Solution:
        """Return the averages over the rounds played; the game may go on."""


class FreshSolver(Solver):
    """A solver that draws fresh records: `begin` a game, advance it, finish it.

    ``horizon`` says how many calls of ``partial_fit`` a plan is for, each with as many records as
    the first.
    """

    horizon: int
    # whether it reads records as often as it likes where all are there, as in ``fit``
    reads_again: ClassVar[bool] = False

    @property
    def room(self) -> float:
        return 3.0

    @abstractmethod
    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        """Begin a game; nothing is drawn from the records yet.

        Parameters
        ----------
        plan : Plan
            What `plan` returned for this problem.
        noise : NoiseSource
            Source of the plan's releases.
        start : Solution, optional
            Public or already released point to start from.

        Returns
        -------
        Game
            Before its first round.
        """

    def run(
        self,
        plan: Plan,
        data: Risks | SampleOracle,
        noise: NoiseSource,
        *,
        start: Solution | None = None,
    ) -> Solution:
        """Play from beginning to end; of fixed records each group is shuffled once."""
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
        game = self.begin(plan, noise, start=start)
        game.advance(oracle, plan.problem.queue_sizes)
        return game.finish()


# Planning constants that are other ones for other losses.


@dataclass(frozen=True)
class ByLoss:
    """What a planned run takes from its loss, measured by ``benchmarks/ablation.py``."""

    # length of a step, over `initial_distance/(s √T)` for a coordinate's noise s
    step_fraction: float = 0.14
    # losses count up to this multiple of what predicting nothing can cost
    loss_clip: float = 2.16
    clip_norm: float = 0.9  # of gradients, over the root mean square of centred rows
    # where finite, losses of a step count up to this multiple of the mean released loss
    clip_of_level: float = math.inf
    is_centred: bool = False  # whether rows are centred where nobody says so
    # whether learned weights shrink where the worst-off group gained less than the others:
    # `zero_score` is the loss at weights of 0, whatever the record
    shrinks: bool = False
    whitens: bool = False  # whether centred rows are whitened where nobody says so
    # what group weights gain is seen along one ray, from the weights of all to 0; all directions
    # together have so many times as much
    directions: float = 3.0
    passes: int = 150  # of a planned run of `MGR`; steps at kinks circle where they are few

    def at(self, effective_sample_size: float) -> ByLoss:
        """Return what limits are where there is little noise for them to save: ever looser."""
        slopes = max(1.0, effective_sample_size / SLOPES_BIND) ** SLOPES_LOOSEN
        losses = 1.0 + math.log(max(1.0, effective_sample_size / LOSSES_BIND))
        return replace(
            self,
            clip_norm=slopes * self.clip_norm,
            loss_clip=losses * self.loss_clip,
            clip_of_level=losses * self.clip_of_level,
        )


# What cuts slopes and losses trades bias for noise, so it loosens as noise vanishes: slopes with a
# power of the `effective_sample_size` from here on, losses with its logarithm.
SLOPES_BIND, SLOPES_LOOSEN, LOSSES_BIND = 2_000.0, 0.3, 1_500.0

# A lower clip would hide a group's few, large losses.
LOG_LOSS = ByLoss(loss_clip=4.33, is_centred=True, shrinks=True, whitens=True, passes=60)
# Its slopes are residuals, most of them small beside the largest.
SQUARED_ERROR = ByLoss(
    loss_clip=1.0, clip_norm=0.4, clip_of_level=6.0, is_centred=True, directions=30.0, passes=60
)

BY_LOSS: dict[type[Loss], ByLoss] = {
    BinaryLogLoss: LOG_LOSS,
    MultinomialLogLoss: LOG_LOSS,
    SquaredError: SQUARED_ERROR,
}


def by_loss(loss: Loss, effective_sample_size: float = 0.0) -> ByLoss:
    """Return the constants of a loss, which are its class's own."""
    return BY_LOSS.get(type(loss), ByLoss()).at(effective_sample_size)


def effective_sample_size(problem: Problem, budget: Budget) -> float:
    """Return μ times the size of a typical group: about one over the noise on its mean."""
    return budget.mu * problem.typical_size
