"""Minimax phased empirical risk minimisation with output perturbation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, flag, fraction, one_of, positive, whole, within
from sklearn_dpwg.data.oracles import RecordOracle, SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks, Risks
from sklearn_dpwg.data.risks.record_block import keyed_parts
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import centring, rounds, steps
from sklearn_dpwg.solvers.centring import CentredProblem, GradientClip, is_worth_centring
from sklearn_dpwg.solvers.plan import Plan, first_of_least
from sklearn_dpwg.solvers.solver import FreshSolver, Game, Solution, by_loss, effective_sample_size
from sklearn_dpwg.solvers.steps import Space, SumSensitivity

# Strengths that grow tenfold stay squarable so long; planning takes the square of the phases.
MAX_PHASES = 128
# Below it the noise overflows, whatever the records are.
_WEAKEST = 1e-30


@dataclass(eq=False, repr=False)
class PhasedERM(FreshSolver):
    """Minimax phased ERM: exact regularised minimax solutions, released with Gaussian noise.

    Each phase finds the saddle point of the worst-group risk, regularised towards the weights that
    the phase before released and towards a prior over groups, and releases its weights with noise.
    Group risks are released between phases, and move the prior towards the groups that do badly.
    ``None`` means planned from public facts.

    Parameters
    ----------
    n_phases : int, optional
        Number of phases T, from 1 to 128. Planned: at most what `max_passes` pays for.
    schedule : {"planned", "paper"}, default="planned"
        "paper" is Algorithm 1 of Zhou and Bassily with the constants of their Theorem 2, and more
        noise where theirs would break the budget; it sets all else but `smoothing_width` and
        `horizon`.
    mu_weights : float, optional
        Regularisation μ_w of the weights in the last phase. Planned: by the noise.
    sharpening : float, optional
        Regularisation of each phase over that of the one before, from 1 to 10; phases that read
        fewer records have more in proportion.
    mu_groups : float, optional
        Regularisation μ_λ of the group weights within a phase; infinity keeps them at the prior.
    risk_fraction : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    averaging : float, optional
        Share of the phases, the last ones, that is averaged; above 0, at most 1.
    initial_distance : float, default=0.3
        Distance from the first weights, 0 or a start, that the bound compares with, as a fraction
        of the radius, of 20 at most.
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
    The best response of the group player inside a phase is not private and is never kept. Fresh
    records are read in one phase, which has the whole budget. Proofs: `docs/theory/phased-erm.md`.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 1, Lemma 3, Theorem 2.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import PhasedERM
    >>> PhasedERM(n_phases=1)
    PhasedERM(n_phases=1)
    """

    n_phases: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    mu_weights: float | None = None
    sharpening: float | None = None
    mu_groups: float | None = None
    risk_fraction: float | None = None
    averaging: float | None = None
    initial_distance: float = 0.3
    smoothing_width: float | None = None
    max_passes: int = 300
    horizon: int = 10
    centring: bool | None = None

    name: ClassVar[str] = "phased-erm"
    set_by_paper: ClassVar[tuple[str, ...]] = (
        "n_phases",
        "mu_weights",
        "sharpening",
        "mu_groups",
        "risk_fraction",
        "averaging",
    )
    knows_overlap: ClassVar[bool] = True
    knows_hidden_groups: ClassVar[bool] = True
    reads_again: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules(
        "PhasedERM",
        schedule=one_of("planned", "paper"),
        centring=flag(or_none=True),
        n_phases=whole(1, MAX_PHASES, or_none=True),
        max_passes=whole(),
        horizon=whole(1, MAX_PHASES),
        mu_weights=positive(least=_WEAKEST, or_none=True),
        initial_distance=positive(),
        smoothing_width=positive(or_none=True),
        mu_groups=positive(least=_WEAKEST, or_infinite=True, or_none=True),
        risk_fraction=fraction(or_none=True),
        averaging=fraction(or_all=True, or_none=True),
        sharpening=within(1.0, 10.0, or_none=True),
    )

    def _check_problem(self, problem: Problem) -> None:
        """Refuse groups without end, and those that overlap where parts are of disjoint ones."""
        super()._check_problem(problem)
        if math.isinf(problem.n_records):
            raise InputError(
                "group_sizes must be finite for PhasedERM, which divides them among its phases, "
                "got inf."
            )
        if problem.cells is not None and problem.fresh_calls:
            raise InputError(
                "PhasedERM needs disjoint groups where records are read once: groups that overlap "
                "need all records there at once, as in fit."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        return plan(problem, budget, self)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        if not plan.problem.fresh_calls:
            raise InputError("plan must be for fresh records, got fresh_calls=0 in its problem.")
        return PhaseGame(plan, noise, start)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        if plan.problem.fresh_calls:
            return super()._run(plan, data, noise, start)
        game = PhaseGame(plan, noise, start)
        if game.has_parts:
            sizes = (game.schedule.solved.group_sizes,) * plan.n_steps
            parts = keyed_parts(plan.problem.group_sizes, sizes, noise.rng)
            reads: Iterable[Risks] = map(data.part, parts)
        else:
            reads = itertools.repeat(game.centred(data), plan.n_steps)
        for read in reads:
            game.play(read)
        return game.finish()


# The game, phase by phase.


class PhaseGame(Game):
    """Releases weights phase by phase, the group weights of each from the risks released."""

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        self._plan, self.schedule, self._noise = plan, plan.schedule, noise
        self._start, self._space = start, Space.of(plan, None, None, noise, start)
        self._weights = self._space.weights
        self._log_mixture = np.log(np.asarray(self.schedule.solved.prior))
        self._answered: list[FloatArray] = []
        # those of the paper, each with a release of its own
        self.has_parts = plan.releases[0].part is not None
        adapts = self.schedule.risks_multiplier > 0.0
        self._gain = steps.GainOfGroups(plan.problem, adapts=adapts)

    @property
    def is_over(self) -> bool:
        return len(self._answered) == self.schedule.n_phases

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        left = self.schedule.n_phases - len(self._answered)
        planned = self.schedule.solved.queue_sizes
        enough = min(have / size for have, size in zip(available, planned, strict=True))
        # the paper's phases have the sizes planned, others what comes, divided evenly
        n_played = int(min(left, enough if self.has_parts else enough + 0.5))
        for _ in range(n_played):
            sizes = planned if self.has_parts else [int(have) // n_played for have in available]
            self.play(self._draw(oracle, sizes))
        return n_played

    def finish(self) -> Solution:
        if not self._answered:
            return Solution(self._weights, None, 0)
        last = self._answered[-self.schedule.averaged :]
        learned = self._space.weights_of_rows(np.asarray(sum(last) / len(last)))
        return Solution(learned, None, len(self._answered), **self._gain.released)

    def centred(self, data: Risks) -> Risks:
        """Return all records as phases read them, after what centring releases."""
        solved = self.schedule.solved
        if isinstance(solved, CentredProblem):
            self._space = Space.of(self._plan, solved.limit, data, self._noise, self._start)
            self._weights = self._project(self._space.weights)
            # rows are as long as they came out
            assert self._space.centring is not None
            solved = replace(solved, stretch=float(self._space.centring.whitening.max()))
            self.schedule = replace(self.schedule, solved=solved)
        return self._space.view(data)

    def play(self, read: Risks) -> None:
        """Release the minimiser of the next phase on its records."""
        index, schedule, plan, noise = len(self._answered), self.schedule, self._plan, self._noise
        payer: int | None = None
        if self.has_parts:
            of_weights, *of_risks = plan.releases[index : index + 1]
        else:
            of_weights, *of_risks = centring.after_centring(plan.releases)
            if plan.problem.fresh_calls:
                payer, schedule = index, schedule.of_fresh(plan.problem, read.group_sizes)
        if index > 0 and of_risks:
            risks = rounds.release_risks(read, self._weights, schedule, noise, of_risks[0], payer)
            active, _ = steps.active(risks, np.zeros_like(risks), plan.problem)
            self._gain.push(active, schedule.risk_stds**2)
            rise = schedule.group_rate * active
            self._log_mixture = self._log_mixture + rise - schedule.correction
        mixture = steps.normalised(self._log_mixture, least=steps.MIN_PRIOR)
        mixture = self._gain.played(mixture)
        phase, solved = schedule.phase(index, mixture), schedule.solved
        released = rounds.release_weights(
            read, self._weights, mixture, phase, solved, noise, of_weights, payer
        )
        self._weights = self._project(released)
        self._answered.append(self._weights)

    def _project(self, weights: FloatArray) -> FloatArray:
        in_rows = self._space.project(weights)
        if self._space.centring is None:
            return in_rows
        # drawn towards 0 it stays in the ball of rows, and is in that of the phases
        return project_to_ball(in_rows, self._plan.problem.radius)

    def _draw(self, oracle: SampleOracle, sizes: Sequence[int]) -> GroupRisks:
        """Return the risks of fresh records, whose rows the oracle has shortened already."""
        problem = self._plan.problem
        if problem.hidden is not None:
            assert isinstance(oracle, RecordOracle)
            rows, targets, codes = oracle.draw_places(sizes[0])
        else:
            drawn = [oracle.draw(group, size) for group, size in enumerate(sizes)]
            rows = np.concatenate([rows for rows, _ in drawn])
            targets = np.concatenate([np.asarray(targets) for _, targets in drawn])
            codes = np.repeat(np.arange(problem.n_groups), sizes)
        encoder = RecordEncoder(problem.n_groups, 1.0, hides_groups=problem.hidden is not None)
        records = encoder.encode(rows, targets, codes)
        return GroupRisks(records, problem.loss, problem.intercept_scaling)


# The plan of least bound. What it may choose is on grids, so that better facts never choose worse.

PHASES = (1, 2, 4, 8, 11, 16)
RISK_FRACTIONS = (0.05, 0.1, 0.2)
AVERAGED = (0.0, 0.5)
# Equal strengths leave far more noise on the output where losses do not curve.
SHARPENINGS = (1.25, 1.6, 2.5)
WIDTHS = (1.0, 0.25, 0.1, 0.025)


def least_bound_plan(problem: Problem, budget: Budget, solver: PhasedERM) -> Plan:
    """Return the plan whose bound is least over whatever the parameters leave open."""
    learned = _learned_problem(problem, budget, solver)
    before = centring.releases_before(learned, budget.mu)
    mu = budget.mu * math.sqrt(centring.fraction_left(learned))
    prior = np.asarray(problem.prior)
    schedule, bounds = first_of_least(
        _possible_schedules(learned, mu, solver), lambda each: float(prior @ each[1])
    )
    n_phases, z = schedule.n_phases, schedule.risks_multiplier
    # a record is in one fresh phase, which alone reads it
    paid = 1 if problem.fresh_calls else None
    asked = [
        *before,
        Release(rounds.WEIGHTS, "gaussian", schedule.multiplier, n_phases, draws_per_record=paid),
    ]
    if z > 0.0:
        asked.append(Release(rounds.RISKS, "gaussian", z, n_phases - 1, draws_per_record=paid))
    releases = calibrate(asked, budget)
    # noise is scaled by one factor
    factor = releases[0].noise_multiplier / asked[0].noise_multiplier
    schedule = replace(schedule, risks_multiplier=factor * z)
    return Plan("phased-erm", problem, budget, releases, schedule, bounds, schedule.n_phases)


def _learned_problem(problem: Problem, budget: Budget, solver: PhasedERM) -> Problem:
    """Return what the weights are learned for: the problem, or that of centred rows."""
    # several derivatives that are shortened together are no gradient of a convex function
    # and the smooth stand-in for a loss with kinks has no ends, which limit slopes
    is_convex = problem.loss.n_outputs == 1 and problem.loss.smooth
    if solver.centring:
        if problem.fresh_calls:
            raise InputError("centring of PhasedERM must be None for fresh records, got True.")
        centring.check_centring(problem, "PhasedERM")
        if not is_convex:
            raise InputError(
                f"centring of PhasedERM needs a smooth loss of one output, got {problem.loss!r}."
            )
    is_centred = solver.centring
    if is_centred is None and not problem.fresh_calls:
        # phases are solved in a ball of centred rows, which is another one where it binds
        is_centred = is_convex and problem.radius > problem.reach and is_worth_centring(problem)
    limit = GradientClip(by_loss(problem.loss, effective_sample_size(problem, budget)).clip_norm)
    return centring.centred_problem(problem, limit) if is_centred else problem


def passes_of_a_phase(problem: Problem) -> int:
    """Return the passes of a phase: a dozen, and one for every eight weights of a Hessian."""
    return 12 + problem.n_weights // 8


def _possible_schedules(
    problem: Problem, mu: float, solver: PhasedERM
) -> Iterator[tuple[rounds.PhaseSchedule, FloatArray]]:
    """Yield every way to run that is left open, and its bound if a group is the worst-off one."""
    numbers = [solver.n_phases] if solver.n_phases else list(PHASES)
    calls = problem.fresh_calls
    if calls:
        # every call has whole phases, and every phase records of every group
        most = max(calls, min(MAX_PHASES, *problem.queue_sizes) // calls * calls)
        numbers = sorted({min(most, math.ceil(n / calls) * calls) for n in numbers})
    elif solver.n_phases is None:
        most = max(1, solver.max_passes // passes_of_a_phase(problem))
        numbers = [number for number in numbers if number <= most]
    fractions = RISK_FRACTIONS if solver.risk_fraction is None else (float(solver.risk_fraction),)
    for number in numbers:
        for fraction_of_risks in fractions if problem.n_groups > 1 and number > 1 else (0.0,):
            yield from _schedules_of(problem, mu, solver, number, fraction_of_risks)


def _schedules_of(
    problem: Problem, mu: float, solver: PhasedERM, n_phases: int, fraction_of_risks: float
) -> Iterator[tuple[rounds.PhaseSchedule, FloatArray]]:
    """Yield the ways to run so many phases, with bounds that add what both players owe."""
    # releases share the budget of the records that they read: all, or those of one phase
    n_weights, n_risks = n_phases, n_phases - 1
    if problem.fresh_calls:
        n_weights = n_risks = 1
        problem = rounds.part_of(problem, n_phases)
    constants = problem.constants
    multiplier = math.sqrt(n_risks / fraction_of_risks) / mu if fraction_of_risks > 0.0 else 0.0
    multiple = by_loss(problem.loss, mu * problem.typical_size).loss_clip
    loss_clip = min(multiple * constants.zero_score, constants.supremum)
    sums = SumSensitivity.of(problem, loss_clip=loss_clip)
    mu_groups = math.inf if solver.mu_groups is None else float(solver.mu_groups)
    rate, owed = 0.0, np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        noise = multiplier * (sums.loss_range * problem.loss_noise)
        variances = (noise / problem.sizes_to_plan_for) ** 2 / n_phases
        sharpness, owed = steps.hedge(problem, n_phases, variances)
        owed = np.minimum(owed, constants.zero_score)
        rate = sharpness / n_phases if multiplier > 0.0 else 0.0
        if multiplier == 0.0 and mu_groups < math.inf:
            owed = np.minimum(owed, -mu_groups * np.log(np.asarray(problem.prior)))
    averaging = AVERAGED if solver.averaging is None else (solver.averaging,)
    numbers_averaged = sorted({max(1, round(each * n_phases)) for each in averaging})
    sharpenings = SHARPENINGS if solver.sharpening is None else (float(solver.sharpening),)
    widths = WIDTHS if solver.smoothing_width is None else (solver.smoothing_width,)
    for width, averaged, sharpening in itertools.product(
        (0.0,) if problem.loss.smooth else widths,
        numbers_averaged,
        sharpenings if n_phases > 1 else (1.0,),
    ):
        solved = replace(problem, loss=problem.loss.smoothed(width)) if width else problem
        bound = _bound(
            initial_distance=solver.initial_distance * problem.reach,
            lipschitz=solved.lipschitz,
            trace=problem.loss.n_outputs * solved.smoothness,
            n_weights=problem.n_weights,
            # each phase is so many times as strong as the one before
            strength_ratios=tuple(sharpening ** (t + 1 - n_phases) for t in range(n_phases)),
            averaged=averaged,
        )
        fixed = None
        if solver.mu_weights is not None:
            fixed = tuple(float(solver.mu_weights * each) for each in bound.strength_ratios)
        schedule = rounds.PhaseSchedule(
            solved=solved,
            n_phases=n_phases,
            averaged=averaged,
            multiplier=math.sqrt(n_weights / (1.0 - fraction_of_risks)) / mu,
            mu_groups=mu_groups,
            mu_weights=fixed,
            bound=bound,
            loss_clip=loss_clip,
            sums=sums,
            risks_multiplier=multiplier,
            group_rate=rate,
        )
        moves_groups = problem.n_groups > 1 and n_phases > 1
        bounds = rounds.weights_bounds(schedule, solver.mu_weights, moves_groups=moves_groups)
        yield schedule, bounds + constants.lipschitz * width / 2.0 + owed


# a bound with the tables that an equal one may have made already
_bound = lru_cache(maxsize=4096)(rounds.DescentBound)


# The schedule of Zhou and Bassily: phases on disjoint parts, or on fresh records.

# Width of the parabola in place of a kink; the paper assumes a solver for any convex loss.
DEFAULT_WIDTH = 0.05


def paper_plan(problem: Problem, budget: Budget, solver: PhasedERM) -> Plan:
    """Return the plan of the paper's formulas: docs/theory/phased-erm.md, section 4.

    A phase that would cost more than the budget, as the paper's bound on the noise allows at large
    ε, gets the least noise that keeps it. The logarithm of η is of base 2, as the proof needs.
    """
    solved, width = problem, solver.smoothing_width or DEFAULT_WIDTH
    if not problem.loss.smooth:
        solved = replace(problem, loss=problem.loss.smoothed(width))
    n, p = min(problem.group_sizes), problem.n_groups
    n_phases = max(1, int(math.log2(n)))
    n_read = n // n_phases
    eta, etas, stds = _steps_and_noise(solved, budget, n_phases)
    mu_weights = [1.0 / (eta_t * n_read) for eta_t in etas]
    mu_groups = 1.0 / (eta * n) if p > 1 else math.inf
    prior = (1.0 / p,) * p
    part = replace(solved, group_sizes=(n_read,) * p, prior=prior)
    facts = {"mu_groups": mu_groups}
    phases = [rounds.solved_phase(part, prior, mu_weights=each, **facts) for each in mu_weights]
    papers = [std / phase.sensitivity for std, phase in zip(stds, phases, strict=True)]
    least = calibrate([Release(rounds.WEIGHTS, "gaussian", 1.0, 1)], budget)[0].noise_multiplier
    multipliers = tuple(max(each, least) for each in papers)
    true_epsilon = PrivacyGuarantee.from_releases(
        [Release(rounds.WEIGHTS, "gaussian", min(papers), 1)], budget.delta
    ).epsilon
    schedule = rounds.PhaseSchedule(
        solved=part,
        n_phases=n_phases,
        averaged=1,
        multiplier=multipliers[0],
        mu_groups=mu_groups,
        mu_weights=tuple(mu_weights),
        remark=(
            f"the paper's noise costs epsilon = {rounded_up(true_epsilon)}; largest factor on it "
            f"to keep the budget: {max(np.divide(multipliers, papers)):.4g}"
        ),
    )
    drawn = [z * phase.sensitivity for z, phase in zip(multipliers, phases, strict=True)]
    bounds = np.full(p, _excess(solved, n_read, phases, drawn))
    releases = tuple(
        Release(rounds.WEIGHTS, "gaussian", z, 1, part=t) for t, z in enumerate(multipliers)
    )
    return Plan("phased-erm", problem, budget, releases, schedule, bounds, n_phases)


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
    etas, both = [eta * 2.0**-t for t in range(1, n_phases + 1)], 2.0 * log2_n * log_delta * eta
    return eta, etas, [6.0 * scale * math.sqrt(both * each) / budget.epsilon for each in etas]


def _excess(
    solved: Problem, n_read: int, phases: Sequence[rounds.Phase], stds: Sequence[float]
) -> float:
    """Return Lemma 4's bounds for all phases, constants 1, and what the last noise costs."""
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
