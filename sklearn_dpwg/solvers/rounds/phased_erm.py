"""Minimax phased empirical risk minimisation with output perturbation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.risks.selection import keyed_parts
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers.centring import (
    SlopeLimit,
    centred_problem,
    check_centring,
    is_worth_centring,
)
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.rounds.certificate import Phase, solved_phase
from sklearn_dpwg.solvers.rounds.phases import RULES, PhasedERMParameters, Phases
from sklearn_dpwg.solvers.rounds.releases import WEIGHTS
from sklearn_dpwg.solvers.rounds.rounds import PhaseGame, Rounds, plan_of_rounds
from sklearn_dpwg.solvers.solver import FreshSolver, Game, Solution, by_loss, signal


class PhasedERM(PhasedERMParameters, FreshSolver):
    """Minimax phased ERM: exact regularised minimax solutions, released with Gaussian noise.

    Each phase finds the saddle point of the worst-group risk, regularised towards the weights that
    the phase before released and towards a prior over groups, and releases its weights with noise
    for the most that one record can move them. Between phases the group risks are released too,
    and move the prior of the next phase towards the groups that do badly. ``None`` means planned
    from public facts.

    Parameters
    ----------
    n_phases : int, optional
        Number of phases T, from 1 to 128. Planned: at most what `max_passes` pays for.
    schedule : {"planned", "paper"}, default="planned"
        "paper" is Algorithm 1 of Zhou and Bassily with the constants of their Theorem 2 (the noise
        larger where theirs would break the budget), projected in every phase; it sets everything
        else but `smoothing_width` and `horizon`.
    mu_weights : float, optional
        Regularisation μ_w of the weights in the last phase. Planned: by the noise.
    sharpening : float, optional
        Regularisation of each phase over that of the one before, from 1 to 10; phases that read
        fewer records have more in proportion.
    mu_groups : float, optional
        Regularisation μ_λ of the group weights within a phase; infinity keeps them at the prior.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    averaging : float, optional
        Share of the phases, the last ones, that is averaged; above 0, at most 1.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that the bound compares with, as a share of
        the radius, of 20 at most.
    smoothing_width : float, optional
        For a loss with kinks: how far from a kink, in the score, the loss that is minimised differs
        from it.
    max_passes : int, default=300
        Passes over the rows that a planned number of phases may take; 16 phases with 40 weights.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first. A call plays whole phases on its records.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for the log loss of two classes or the squared error with an intercept,
        where the radius is above 20 (4 for numbers): a ball that binds is one of rows.

    Notes
    -----
    A record of group i moves the minimiser of a phase by at most
    ``saddle_point_sensitivity(...)``, whatever the records are, and the noise multipliers are fixed
    in advance. The strengths μ_w follow from the noise, that is from earlier releases.
    The best response of the group player inside a phase is not private and is never kept.
    Records of ``fit_oracle`` and ``partial_fit`` are read once, in one phase, which has the whole
    budget to itself.
    `docs/theory/phased-erm.md` proves the privacy and derives the bound.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 1, Lemma 3, Theorem 2.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import PhasedERM
    >>> PhasedERM(n_phases=1)
    PhasedERM(n_phases=1)
    """

    name: ClassVar[str] = "phased-erm"
    knows_overlap: ClassVar[bool] = True
    reads_again: ClassVar[bool] = True

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        if self.schedule == "paper":
            raise InputError(
                "schedule of PhasedERM must be 'planned' unless neighbours="
                "'replace-one-within-group', got 'paper'."
            )

    def _check_game(self, problem: Problem) -> None:
        """Refuse groups without end, and those that overlap where parts are of disjoint ones."""
        super()._check_game(problem)
        if math.isinf(problem.n_records):
            raise InputError(
                "group_sizes must be finite for PhasedERM, which divides them among its phases, "
                "got inf."
            )
        if problem.cells is not None and (self.schedule == "paper" or problem.fresh_calls):
            raise InputError(
                "schedule of PhasedERM must be 'planned' for groups that overlap, and all records "
                f"there at once, got {self.schedule!r}."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, smoothing_width=self.smoothing_width)
        return plan_of_rounds(self.name, problem, budget, self, self._learned(problem, budget))

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        if not plan.problem.fresh_calls:
            raise InputError("plan must be for fresh records, got fresh_calls=0 in its problem.")
        return PhaseGame(plan, noise, start)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        if plan.problem.fresh_calls:
            return super()._run(plan, data, noise, start)
        game = PhaseGame(plan, noise, start)
        if not game.has_parts:
            data = game.centred(data)
            for _ in range(plan.n_steps):
                game.play(data)
            return game.finish()
        schedule = plan.schedule
        assert isinstance(schedule, Rounds)
        sizes = (schedule.phases.solved.group_sizes,) * plan.n_steps
        for part in keyed_parts(plan.problem.group_sizes, sizes, noise.rng):
            game.play(data.part(part))
        return game.finish()

    def _learned(self, problem: Problem, budget: Budget) -> Problem:
        """Return what the weights are learned for: the problem, or that of centred rows."""
        # several derivatives that are shortened together are no gradient of a convex function
        # and the smooth stand-in for a loss with kinks has no ends, which limit slopes
        is_convex = problem.loss.n_outputs == 1 and problem.loss.smooth
        if self.centring:
            if problem.fresh_calls:
                raise InputError("centring of PhasedERM must be None for fresh records, got True.")
            check_centring(problem, "PhasedERM")
            if not is_convex:
                raise InputError(
                    f"centring of PhasedERM needs a smooth loss of one output, got "
                    f"{problem.loss!r}."
                )
        # phases are solved in a ball of centred rows, which is another one where it binds
        is_room = problem.radius > problem.reach
        wanted = is_convex and is_room and is_worth_centring(problem) and not problem.fresh_calls
        is_centred = wanted if self.centring is None else self.centring
        limit = SlopeLimit(by_loss(problem.loss, signal(problem, budget)).clip_share)
        return centred_problem(problem, limit) if is_centred else problem


# The schedule of Zhou and Bassily: phases on disjoint parts, or on fresh records.

# Width of the parabola in place of a kink; the paper assumes a solver for any convex loss.
DEFAULT_WIDTH = 0.05


def paper_plan(problem: Problem, budget: Budget, *, smoothing_width: float | None = None) -> Plan:
    """Return the plan of the paper's formulas, whose noise is accounted for exactly.

    docs/theory/phased-erm.md, section 4, has the formulas. Where what a phase costs is more than
    the budget, as the paper's bound on the noise allows at large ε, it gets the least noise that
    keeps it. Logarithms that vanish for a single record are those of 2. That of η is of base 2, as
    the proof needs. (Zhou and Bassily 2024, Algorithm 1 and Theorem 2)
    """
    width, solved = 0.0, problem
    if not problem.loss.smooth:
        width = DEFAULT_WIDTH if smoothing_width is None else smoothing_width
        solved = replace(problem, loss=problem.loss.smoothed(width))
    n, p = min(problem.group_sizes), problem.n_groups
    n_phases = max(1, int(math.log2(n)))
    n_read = n // n_phases
    eta, etas, stds = _steps_and_noise(solved, budget, n_phases)
    mu_weights = [1.0 / (eta_t * n_read) for eta_t in etas]
    mu_groups = 1.0 / (eta * n) if p > 1 else math.inf
    prior = (1.0 / p,) * p
    part = replace(solved, group_sizes=(n_read,) * p, prior=prior)
    phases = [
        solved_phase(part, prior, mu_weights=each, mu_groups=mu_groups) for each in mu_weights
    ]
    papers = [std / phase.sensitivity for std, phase in zip(stds, phases, strict=True)]
    least = calibrate([Release(WEIGHTS, "gaussian", 1.0, 1)], budget)[0].noise_multiplier
    multipliers = tuple(max(each, least) for each in papers)
    true_epsilon = PrivacyGuarantee.from_releases(
        [Release(WEIGHTS, "gaussian", min(papers), 1)], budget.delta
    ).epsilon
    phases_of_plan = Phases(
        solved=part,
        n_phases=n_phases,
        averaged=1,
        multiplier=multipliers[0],
        mu_groups=mu_groups,
        mu_weights=tuple(mu_weights),
        smoothing_width=width,
        reads="a part of its own",
        remark=(
            f"the paper's noise costs epsilon = {rounded_up(true_epsilon)}; largest factor on it "
            f"to keep the budget: {max(np.divide(multipliers, papers)):.4g}"
        ),
    )
    drawn = [z * phase.sensitivity for z, phase in zip(multipliers, phases, strict=True)]
    bounds = np.full(p, _excess(solved, n_read, phases, drawn))
    releases = [Release(WEIGHTS, "gaussian", z, 1, part=t) for t, z in enumerate(multipliers)]
    return Plan.of(
        "phased-erm",
        problem,
        budget,
        releases=releases,
        schedule=Rounds(phases_of_plan),
        bounds=bounds,
        n_steps=n_phases,
    )


def _steps_and_noise(
    solved: Problem, budget: Budget, n_phases: int
) -> tuple[float, list[float], list[float]]:
    """Return η of Theorem 2, that of each phase, and the noise of each in Algorithm 1."""
    n, d, p = min(solved.group_sizes), solved.n_weights, solved.n_groups
    log2_n, log_total = math.log2(max(n, 2)), math.log(max(p * n, 2))
    log_delta, scale = math.log(1.0 / budget.delta), max(solved.lipschitz, solved.loss_range)
    eta = (solved.diameter / scale) * min(
        budget.epsilon / math.sqrt(72.0 * d * log2_n * log_delta),
        math.sqrt(p) / (log_total**0.75 * math.sqrt(p * n)),
    )
    etas = [eta * 2.0**-t for t in range(1, n_phases + 1)]
    stds = [
        6.0 * scale * math.sqrt(2.0 * log2_n * log_delta * eta * each) / budget.epsilon
        for each in etas
    ]
    return eta, etas, stds


def _excess(solved: Problem, n_read: int, phases: Sequence[Phase], stds: Sequence[float]) -> float:
    """Return the bounds of Lemma 4 for all phases, its constants 1, and what the last noise costs.

    A phase begins as far from its comparator as the noise before it is long, the first a diameter.
    One group has no player of groups, so any strength μ_λ, and infinity has the least bound.
    """
    d, p, lipschitz = solved.n_weights, solved.n_groups, solved.lipschitz
    log_n, log_np = math.log(max(n_read, 2)), math.log(max(p * n_read, 2))
    distances = [solved.diameter, *(std * math.sqrt(d) for std in stds)]
    excess = lipschitz * distances[-1]
    for phase, distance in zip(phases, distances[:-1], strict=True):
        moved = lipschitz / phase.mu_weights
        if p > 1:
            moved += solved.loss_range / math.sqrt(phase.mu_weights * phase.mu_groups)
            excess += phase.mu_groups * math.log(p)
        excess += phase.mu_weights * distance**2 + lipschitz * moved / n_read * log_n * log_np
        excess += solved.loss_range * math.sqrt(log_np / n_read)
    return excess
