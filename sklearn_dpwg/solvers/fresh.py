"""The contract of solvers that use each record once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from sklearn_dpwg.oracles import SampleOracle
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver


class Game(ABC):
    """A run that is under way: advance it as often as records come in, and look at the outcome.

    Exact sums and unused noise make it a secret: it cannot be copied or pickled.
    """

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether all planned rounds were played."""

    @abstractmethod
    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        """Play as many rounds as the records allow.

        Parameters
        ----------
        oracle : SampleOracle
            Draws encoded records of the groups 0, 1, ..., none of them used before.
        available : sequence of float
            How many it has of each group, a public fact; may be infinite.

        Returns
        -------
        int
            Rounds played, a function of public facts and releases. What is left is not used.
        """

    @abstractmethod
    def finish(self) -> Solution:
        """Return the outcome so far; the game may go on.

        Returns
        -------
        Solution
            Averages over the rounds played.
        """

    def __reduce__(self) -> NoReturn:
        raise TypeError("A game cannot be copied or pickled: it holds exact sums and unused noise.")


class FreshSolver(Solver):
    """A solver that draws fresh records: `begin` a game, advance it, finish it.

    ``horizon`` says how many calls of ``partial_fit`` a plan is for, each with as many records as
    the first.
    """

    horizon: int

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
            return self._play(plan, data, noise, start)
        return super().run(plan, data, noise, start=start)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return self._play(plan, data.as_oracle(noise.rng), noise, start)

    def _play(
        self, plan: Plan, oracle: SampleOracle, noise: NoiseSource, start: Solution | None
    ) -> Solution:
        game = self.begin(plan, noise, start=start)
        game.advance(oracle, plan.problem.group_sizes)
        return game.finish()
