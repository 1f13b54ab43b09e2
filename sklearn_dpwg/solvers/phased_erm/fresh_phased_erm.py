"""The paper's phased solver on fresh records: each phase draws its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import Rules, positive, whole
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.oracles import SampleOracle
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.records import RecordEncoder
from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers.fresh import FreshSolver, Game
from sklearn_dpwg.solvers.phased_erm.paper import paper_plan
from sklearn_dpwg.solvers.phased_erm.releases import release_weights
from sklearn_dpwg.solvers.phased_erm.schedule import PhasedERMSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

RULES = Rules("FreshPhasedERM", smoothing_width=positive(or_none=True), horizon=whole())


class FreshPhasedERM(FreshSolver):
    """`PhasedERM` with the paper's schedule, for records that are drawn: an oracle, or a stream.

    The plan, its noise and the minimiser of a phase are those of ``PhasedERM(schedule="paper")``.
    What differs is where the records come from: phase t draws its n_t records of every group when
    it begins, where the fixed-data solver cuts the groups into parts. Between phases only released
    weights are kept.

    Parameters
    ----------
    smoothing_width : float, optional
        For a loss with kinks: how far from a kink, in the score, the loss that is minimised differs
        from it.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first. A call plays as many whole phases as its records are
        enough for.

    Notes
    -----
    A record is in one phase, so phases are paid for in parallel, as in `PhasedERM`
    (`docs/theory/phased-erm.md`). Which phase that is follows from counts and from the order of the
    oracle, which no record decides.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 1 and Theorem 2.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import FreshPhasedERM
    >>> FreshPhasedERM(horizon=4)
    FreshPhasedERM(horizon=4)
    """

    name: ClassVar[str] = "phased-erm"

    def __init__(self, *, smoothing_width: float | None = None, horizon: int = 10) -> None:
        self.smoothing_width = smoothing_width
        self.horizon = horizon

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if math.isinf(max(problem.group_sizes)):
            raise ValueError(
                "group_sizes must be finite for FreshPhasedERM, which divides them among its "
                "phases, got inf."
            )
        return paper_plan(problem, budget, smoothing_width=self.smoothing_width)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        return _PhaseGame(plan, noise, start)


class _PhaseGame(Game):
    """A round is a phase."""

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        assert isinstance(plan.schedule, PhasedERMSchedule)
        self._plan, self._schedule, self._noise = plan, plan.schedule, noise
        self._weights = np.zeros(plan.problem.n_weights)
        if start is not None:
            self._weights = project_to_ball(start.weights, plan.problem.radius)
        self._n_played = 0

    @property
    def is_over(self) -> bool:
        return self._n_played == self._schedule.n_phases

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        before, left = self._n_played, np.array(available, dtype=float)
        while not self.is_over:
            sizes = self._schedule.sizes[self._n_played]
            if (left < sizes).any():
                break
            left -= sizes
            self._play_phase(oracle, sizes)
        return self._n_played - before

    def finish(self) -> Solution:
        return Solution(self._weights.copy(), None, self._n_played)

    def _play_phase(self, oracle: SampleOracle, sizes: Sequence[int]) -> None:
        schedule, phase = self._schedule, self._n_played
        prior = np.asarray(schedule.prior)
        noisy = release_weights(
            self._draw(oracle, sizes),
            self._weights,
            prior,
            schedule.phase(phase, prior),
            schedule,
            self._noise,
            self._plan.releases[phase],
        )
        self._n_played += 1
        self._weights = project_to_ball(noisy, self._plan.problem.radius)

    def _draw(self, oracle: SampleOracle, sizes: Sequence[int]) -> GroupRisks:
        """Return the risks of fresh records, whose rows the oracle has shortened already."""
        problem = self._plan.problem
        drawn = [oracle.draw(group, size) for group, size in enumerate(sizes)]
        records = RecordEncoder(problem.n_groups, data_norm=1.0).encode(
            np.concatenate([rows for rows, _ in drawn]),
            np.concatenate([np.asarray(targets) for _, targets in drawn]),
            np.repeat(np.arange(problem.n_groups), sizes),
        )
        return GroupRisks(records, problem.loss, problem.intercept_scaling)
