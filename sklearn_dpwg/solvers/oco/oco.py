"""Worst-group learning from any private online learner."""

from __future__ import annotations

from typing import ClassVar

from sklearn_dpwg.learners import make_learner
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.fresh import FreshSolver
from sklearn_dpwg.solvers.oco.game import OCOGame
from sklearn_dpwg.solvers.oco.paper import paper_plan
from sklearn_dpwg.solvers.oco.parameters import RULES, OCOParameters
from sklearn_dpwg.solvers.oco.planning import least_bound_plan
from sklearn_dpwg.solvers.oco.sampled_game import SampledGame
from sklearn_dpwg.solvers.oco.schedule import OCOSchedule
from sklearn_dpwg.solvers.oco.weighted_game import WeightedGame
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

GAMES: dict[str, type[OCOGame]] = {"weighted": WeightedGame, "sampled": SampledGame}


class OCO(OCOParameters, FreshSolver):
    """A private online learner plays weights against a player of groups, on fresh records.

    Every record is used once, by one of the two players, so each player has the whole budget, and
    records may come from a stream, a simulator or a database as well as from arrays. The weights
    player learns from noisy prefix sums of gradients, the group player from noisy losses of
    batches. ``None`` means planned from public facts.

    Parameters
    ----------
    learner : str or Learner, default="ftrl"
        Who plays the weights: "ftrl" (then it is DP-FTRL), "gradient-descent", or an instance
        such as ``FTRL(strength=50.0)``.
    play : {"weighted", "sampled"}, default="weighted"
        "weighted": a round takes records of every group and weighs their gradients; all groups
        are used up together. "sampled": Algorithm 2 of the paper; a round takes records of one
        group, drawn from the group weights, and play ends when a drawn group has run out.
    noise : {"toeplitz", "honaker", "tree", "independent"}, optional
        Mechanism of the prefix sums. Toeplitz, the planned one, has the least noise and remembers a
        number a weight and round, the trees a number a weight and doubling. The paper's is the
        tree.
    n_rounds : int, optional
        Most rounds T.
    batch_size : int, optional
        Records of a round for the weights, of all groups together in a weighted game. Where
        groups have no end, 1.
    weight_share : float, optional
        Share of the records that the weights player gets, between 0 and 1.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes a sampled game with batches of 1, a uniform prior, the binary tree unless
        `noise` says otherwise, and the rates of Theorem 7 and Corollary 8.
    group_rate : float, optional
        Step size of the group player, positive.
    loss_ceiling : float, optional
        Each record's loss counts for at most this much for the group player; planned: half again
        the largest loss of a model that predicts nothing. Infinity: no ceiling.
    aim : float, default=0.4
        Distance from the first weights, 0 or a start, that the learner's strength is planned for,
        as a share of the radius.
    averaging : float, default=2.0
        Round t counts in the averages by t to this power; 0 is the paper's plain average.
    max_rounds : int, default=256
        Largest number of rounds that a plan may choose by itself.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first.

    Notes
    -----
    In a weighted game a record of group i moves the gradient of one round by at most
    Γ λ_i/b_i, in a sampled one by Γ/b, with b or b_i the records of a round; in either case it
    moves one noisy loss by B/b. `docs/theory/oco.md` proves what follows, for records whose place
    depends on everything released before.

    A planned strength follows the noise of the sums as far as it is public: it grows where weight
    moves to a small group. `benchmarks/oco.py` prints the table that the defaults are from.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 2, Theorems 6 and 7, Corollary 8; Kairouz et al. (2021).

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OCO
    >>> OCO(noise="honaker", n_rounds=100)
    OCO(n_rounds=100, noise='honaker')
    """

    name: ClassVar[str] = "oco"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, self)
        return least_bound_plan(problem, budget, self)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> OCOGame:
        schedule = plan.schedule
        assert isinstance(schedule, OCOSchedule)
        learner = make_learner(self.learner)
        return GAMES[schedule.play](plan, schedule, learner, noise, start)
