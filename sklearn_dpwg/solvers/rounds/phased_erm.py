"""Minimax phased empirical risk minimisation with output perturbation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, positive, whole
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks, Risks
from sklearn_dpwg.data.risks.selection import keyed_parts
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.objective import project_to_ball
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
from sklearn_dpwg.solvers.rounds.releases import WEIGHTS, release_weights
from sklearn_dpwg.solvers.rounds.rounds import (
    Rounds,
    first_weights,
    plan_of_rounds,
    run_rounds,
)
from sklearn_dpwg.solvers.solver import FreshSolver, Game, Solution, Solver, signal


class PhasedERM(PhasedERMParameters, Solver):
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
        else but `smoothing_width`. `FreshPhasedERM` is the same for an oracle or a stream.
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

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        if self.schedule == "paper":
            raise InputError(
                "schedule of PhasedERM must be 'planned' unless neighbours="
                "'replace-one-within-group', got 'paper'."
            )

    def _check_game(self, problem: Problem) -> None:
        """Refuse overlapping groups in the paper's schedule, whose parts are of disjoint groups."""
        super()._check_game(problem)
        if problem.cells is not None and self.schedule == "paper":
            raise InputError(
                "schedule of PhasedERM must be 'planned' for groups that overlap, got 'paper'."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, smoothing_width=self.smoothing_width)
        return plan_of_rounds(self.name, problem, budget, self, self._learned(problem, budget))

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        if isinstance(plan.schedule, Rounds):
            return run_rounds(plan, data, noise, start)
        game = PhaseGame(plan, noise, start)
        sizes = (game.sizes,) * plan.n_steps
        for part in keyed_parts(plan.problem.group_sizes, sizes, noise.rng):
            game.play(data.part(part))
        return game.finish()

    def _learned(self, problem: Problem, budget: Budget) -> Problem:
        """Return what the weights are learned for: the problem, or that of centred rows."""
        # several derivatives that are shortened together are no gradient of a convex function
        # and the smooth stand-in for a loss with kinks has no ends, which limit slopes
        is_convex = problem.loss.n_outputs == 1 and problem.loss.smooth
        if self.centring:
            check_centring(problem, "PhasedERM")
            if not is_convex:
                raise InputError(
                    f"centring of PhasedERM needs a smooth loss of one output, got "
                    f"{problem.loss!r}."
                )
        # phases are solved in a ball of centred rows, which is another one where it binds
        is_room = problem.radius > problem.reach
        wanted = is_convex and is_room and is_worth_centring(problem)
        is_centred = wanted if self.centring is None else self.centring
        limit = SlopeLimit.of(problem.loss, signal(problem, budget))
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
    schedule = Phases(
        solved=part,
        n_phases=n_phases,
        averaged=1,
        multiplier=multipliers[0],
        mu_groups=mu_groups,
        mu_weights=tuple(mu_weights),
        smoothing_width=width,
        remark=(
            f"the paper's noise costs epsilon = {rounded_up(true_epsilon)}; largest factor on it "
            f"to keep the budget: {max(np.divide(multipliers, papers)):.4g}"
        ),
    )
    drawn = [z * phase.sensitivity for z, phase in zip(multipliers, phases, strict=True)]
    bounds = np.full(p, _excess(solved, n_read, phases, drawn))
    releases = [Release(WEIGHTS, "gaussian", z, 1, part=t) for t, z in enumerate(multipliers)]
    facts = replace(problem, group_sizes=part.group_sizes)
    of_parts = [_plan_of_parts(facts, budget, schedule, bounds, [each]) for each in releases]
    return _plan_of_parts(problem, budget, schedule, bounds, releases, of_parts)


def _plan_of_parts(
    problem: Problem,
    budget: Budget,
    schedule: Phases,
    bounds: FloatArray,
    releases: Sequence[Release],
    children: Sequence[Plan] = (),
) -> Plan:
    """Return the plan of phases that read records of their own, or that of one of them."""
    n_phases = len(releases)
    return Plan.of(
        "phased-erm",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_phases,
        children=tuple(children),
        composition="parallel",
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


FRESH_RULES = Rules("FreshPhasedERM", smoothing_width=positive(or_none=True), horizon=whole())


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
        FRESH_RULES.check(self)

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if math.isinf(max(problem.group_sizes)):
            raise InputError(
                "group_sizes must be finite for FreshPhasedERM, which divides them among its "
                "phases, got inf."
            )
        return paper_plan(problem, budget, smoothing_width=self.smoothing_width)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        return PhaseGame(plan, noise, start)


class PhaseGame(Game):
    """A round is a phase of the paper's schedule, on records that no other phase reads."""

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        assert isinstance(plan.schedule, Phases)
        self._plan, self._phases, self._noise = plan, plan.schedule, noise
        self._weights = first_weights(plan.problem, start)
        self._n_played = 0
        self.sizes = self._phases.solved.group_sizes

    @property
    def is_over(self) -> bool:
        return self._n_played == self._phases.n_phases

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        before, left = self._n_played, np.array(available, dtype=float)
        while not self.is_over and (left >= self.sizes).all():
            left -= self.sizes
            self.play(self._draw(oracle))
        return self._n_played - before

    def finish(self) -> Solution:
        return Solution(self._weights.copy(), None, self._n_played)

    def play(self, read: Risks) -> None:
        """Release the minimiser of the next phase on its records."""
        solved, index = self._phases.solved, self._n_played
        prior = np.asarray(solved.prior)
        phase, release = self._phases.phase(index, prior), self._plan.releases[index]
        noisy = release_weights(read, self._weights, prior, phase, solved, self._noise, release)
        self._n_played += 1
        self._weights = project_to_ball(noisy, self._plan.problem.radius)

    def _draw(self, oracle: SampleOracle) -> GroupRisks:
        """Return the risks of fresh records, whose rows the oracle has shortened already."""
        problem = self._plan.problem
        drawn = [oracle.draw(group, size) for group, size in enumerate(self.sizes)]
        records = RecordEncoder(problem.n_groups, data_norm=1.0).encode(
            np.concatenate([rows for rows, _ in drawn]),
            np.concatenate([np.asarray(targets) for _, targets in drawn]),
            np.repeat(np.arange(problem.n_groups), self.sizes),
        )
        return GroupRisks(records, problem.loss, problem.intercept_scaling)
