"""The average risk of a stream, by noisy sums of gradient differences."""

from __future__ import annotations

import math
from typing import ClassVar

from sklearn_dpwg.learners import make_learner
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.fresh import FreshSolver
from sklearn_dpwg.solvers.online_to_batch.game import OnlineToBatchGame
from sklearn_dpwg.solvers.online_to_batch.paper import paper_plan
from sklearn_dpwg.solvers.online_to_batch.parameters import RULES, OnlineToBatchParameters
from sklearn_dpwg.solvers.online_to_batch.planning import least_bound_plan
from sklearn_dpwg.solvers.online_to_batch.schedule import OnlineToBatchSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution


class OnlineToBatch(OnlineToBatchParameters, FreshSolver):
    """Minimises the risk of one distribution, or of a fixed mixture of groups, in one pass.

    Every record is used once, so records may come from a stream, a simulator or a database as well
    as from arrays. An online learner is told the gradient of the whole risk at an average of its
    weights, which noisy prefix sums of gradient differences keep up to date. The groups' `prior` is
    the mixture: with the default, the average risk of all records. It is *not* for the worst
    group, and never chosen by ``"auto"``. ``None`` means planned from public facts.

    Parameters
    ----------
    learner : str or Learner, default="optimistic"
        Who plays the weights: "optimistic" (its regret follows how much gradients differ between
        records), "ftrl", "gradient-descent", "parameter-free" (its regret follows the distance from
        the start, but it needs tens of thousands of rounds), or an instance such as
        ``FTRL(strength=50.0)``.
    power : float, optional
        Round t counts in the output by t to this power k, from 0 to 10. Planned: 1. The paper's is
        3 for a parameter-free learner.
    noise : {"toeplitz", "honaker", "tree", "independent"}, optional
        Mechanism of the prefix sums. Planned: Toeplitz, which has the least noise. The paper's
        is the tree.
    n_rounds : int, optional
        Most rounds that read records; the output is the weights after the last.
    batch_size : int, optional
        Records of a round, of all groups together. Where groups have no end, 1.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes batches of 1 unless `batch_size` says more, the binary tree unless `noise`
        does, and the paper's formula for the noise with exact accounting.
    convexity : float, default=0.0
        Strong convexity μ_c: what is minimised is the risk plus μ_c/2 times the squared distance
        from the start, and the learner is told so. 0 for none.
    aim : float, default=0.4
        Norm of the weights that the learner's strength is planned for, as a share of the radius.
    max_rounds : int, default=256
        Largest number of rounds that a plan may choose by itself.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first.

    Notes
    -----
    With β_t = t^k and the average x_t of the learner's weights, a record of group i in a round of
    b_i moves that round's difference by at most λ_i/b_i times
    (β_t - β_{t-1}) Γ + β_{t-1} min(H ‖x_t - x_{t-1}‖, 2Γ), known before the round is read; all sums
    are one Gaussian release. `docs/theory/online-to-batch.md` proves it. The loss must be smooth.

    References
    ----------
    Zhang, Tran and Cutkosky (2022), *Differentially private online-to-batch for smooth losses*,
    Algorithm 1.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OnlineToBatch
    >>> OnlineToBatch("ftrl", n_rounds=20)
    OnlineToBatch(learner='ftrl', n_rounds=20)
    """

    name: ClassVar[str] = "online-to-batch"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def suits(self, problem: Problem) -> bool:
        return False  # what may read records again does better on all that was measured

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if not math.isfinite(problem.smoothness):
            raise ValueError(
                f"loss must be smooth for solver 'online-to-batch', whose noise follows how much "
                f"gradients change, got {problem.loss!r}, which has kinks."
            )
        if self.schedule == "paper":
            return paper_plan(problem, budget, self)
        return least_bound_plan(problem, budget, self)

    def begin(
        self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None
    ) -> OnlineToBatchGame:
        schedule = plan.schedule
        assert isinstance(schedule, OnlineToBatchSchedule)
        return OnlineToBatchGame(plan, schedule, make_learner(self.learner), noise, start)
