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
from sklearn_dpwg.solvers.plan import Plan, first_with_least_bound
from sklearn_dpwg.solvers.solver import FreshSolver, Game, Solution, by_loss, effective_sample_size
from sklearn_dpwg.solvers.steps import Space, SumSensitivity

# Squares of strengths that grow tenfold a phase stay finite; planning takes its square in time.
MAX_PHASES = 128
# Least regularisation: below it the noise overflows, whatever the records are.
_WEAKEST = 1e-30


@dataclass(eq=False, repr=False)
class PhasedERM(FreshSolver):
    """Minimax phased ERM: exact regularised minimax solutions, released with Gaussian noise.

    Each phase finds the saddle point of the worst-group risk, regularised towards the weights that
    the phase before released and towards a prior over groups, and releases its weights with noise.
    Group risks are released between phases, and move the prior towards groups of high risk.
    ``None`` means planned from public facts.

    Parameters
    ----------
    n_phases : int, optional
        Number of phases T, from 1 to 128. Planned: at most what `max_passes` pays for.
    schedule : {"planned", "paper"}, default="planned"
        "paper" is Algorithm 1 of Zhou and Bassily with the constants of their Theorem 2, and more
        noise where theirs would exceed the budget; then only `smoothing_width` and `horizon` may
        be set.
    mu_weights : float, optional
        Regularisation μ_w of the weights in the last phase. Planned: by the noise.
    sharpening : float, optional
        Ratio of μ_w in each phase to μ_w in the phase before, from 1 to 10.
    mu_groups : float, optional
        Regularisation μ_λ of the group weights within a phase; infinity keeps them at the prior.
    risk_fraction : float, optional
        Fraction of the budget (of μ²) spent on group risks, between 0 and 1.
    averaging : float, optional
        Fraction of the phases, counted from the last, whose weights are averaged; above 0, at most
        1.
    initial_distance : float, default=0.3
        Distance from the first weights, 0 or a start, that the bound compares with, as a fraction
        of the radius, of 20 at most.
    smoothing_width : float, optional
        For a loss with kinks: distance from a kink, in the score, up to which a smooth curve
        replaces the loss.
    max_passes : int, default=300
        Most passes over the rows for a planned number of phases; 16 phases with 40 weights.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first. A call plays whole phases on its records.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for the log loss of two classes or the squared error with an intercept,
        where the radius is above 20 (4 for numbers): a ball that binds is one of rows.

    Notes
    -----
    The group weights that solve a phase are not private and are never kept. Each fresh record is
    read in one phase, which has the whole budget. Proofs: `docs/theory/phased-erm.md`.

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
        """Raise InputError for infinite groups, and for overlapping groups of fresh records."""
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
        make_plan = paper_plan if self.schedule == "paper" else least_bound_plan
        return make_plan(problem, budget, self)

    def begin(self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None) -> Game:
        if not plan.problem.fresh_calls:
            raise InputError("plan must be for fresh records, got fresh_calls=0 in its problem.")
        return PhaseGame(plan, noise, start)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        if plan.problem.fresh_calls:
            return super()._run(plan, data, noise, start)
        game = PhaseGame(plan, noise, start)
        if game.has_parts:  # the paper's phases read disjoint parts of the records
            sizes = (game.schedule.solved.group_sizes,) * plan.n_steps
            parts = keyed_parts(plan.problem.group_sizes, sizes, noise.rng)
            phase_data: Iterable[Risks] = map(data.part, parts)
        else:
            phase_data = itertools.repeat(game.centred(data), plan.n_steps)
        for risks in phase_data:
            game.play(risks)
        return game.finish()


class PhaseGame(Game):
    """Plays phases: each releases weights, for group weights that follow the released risks."""

    def __init__(self, plan: Plan, noise: NoiseSource, start: Solution | None) -> None:
        self._plan, self.schedule, self._noise = plan, plan.schedule, noise
        self._start, self._space = start, Space.of(plan, None, None, noise, start)  # not centred
        self._weights = self._space.weights
        self._log_group_weights = np.log(np.asarray(self.schedule.solved.prior))
        self._phase_weights: list[FloatArray] = []  # weights that each phase released
        # whether phases read disjoint parts, each with its own release, as in the paper
        self.has_parts = plan.releases[0].part is not None
        releases_risks = self.schedule.risks_multiplier > 0.0
        self._gain = steps.GainOfGroups(plan.problem, adapts=releases_risks)

    @property
    def is_over(self) -> bool:
        return len(self._phase_weights) == self.schedule.n_phases

    def advance(self, oracle: SampleOracle, available: Sequence[float]) -> int:
        n_left = self.schedule.n_phases - len(self._phase_weights)
        planned_sizes = self.schedule.solved.queue_sizes
        n_covered = min(n / size for n, size in zip(available, planned_sizes, strict=True))
        # the paper's phases have the planned sizes, others share the available records evenly
        n_played = int(min(n_left, n_covered if self.has_parts else n_covered + 0.5))
        for _ in range(n_played):
            sizes = planned_sizes if self.has_parts else [int(n) // n_played for n in available]
            self.play(self._draw(oracle, sizes))
        return n_played

    def finish(self) -> Solution:
        n_played = len(self._phase_weights)
        if not n_played:
            return Solution(self._weights, group_weights=None, n_iter=0)
        last_weights = self._phase_weights[-self.schedule.n_averaged :]
        average = self._space.weights_of_rows(np.asarray(sum(last_weights) / len(last_weights)))
        return Solution(average, group_weights=None, n_iter=n_played, **self._gain.released)

    def centred(self, data: Risks) -> Risks:
        """Release the centre if the plan has one, and return the records with centred rows."""
        solved = self.schedule.solved
        if isinstance(solved, CentredProblem):
            self._space = Space.of(self._plan, solved.limit, data, self._noise, self._start)
            self._weights = self._project(self._space.weights)
            # the released whitening decides how long rows are
            assert self._space.centring is not None
            solved = replace(solved, stretch=float(self._space.centring.whitening.max()))
            self.schedule = replace(self.schedule, solved=solved)
        return self._space.view(data)

    def play(self, data: Risks) -> None:
        """Play the next phase on its records: release group risks, then the phase's minimiser."""
        index, plan, noise = len(self._phase_weights), self._plan, self._noise
        schedule, payer = self.schedule, None
        if self.has_parts:
            weights_release, *risk_releases = plan.releases[index : index + 1]
        else:
            phase_releases = [one for one in plan.releases if one.name not in centring.BEFORE]
            weights_release, *risk_releases = phase_releases
            if plan.problem.fresh_calls:
                payer = index
                schedule = schedule.for_fresh_records(plan.problem, data.group_sizes)
        if index > 0 and risk_releases:
            release, weights = risk_releases[0], self._weights
            risks = rounds.release_risks(data, weights, schedule, noise, release, payer)
            active_risks, _ = steps.active(risks, np.zeros_like(risks), plan.problem)
            self._gain.push(active_risks, schedule.risk_stds**2)
            rise = schedule.group_rate * active_risks
            self._log_group_weights = self._log_group_weights + rise - schedule.correction
        group_weights = steps.normalised(self._log_group_weights, least=steps.MIN_PRIOR)
        group_weights = self._gain.played(group_weights)
        phase, solved = schedule.phase(index, group_weights), schedule.solved
        noisy_weights = rounds.release_weights(
            data, self._weights, group_weights, phase, solved, noise, weights_release, payer
        )
        self._weights = self._project(noisy_weights)
        self._phase_weights.append(self._weights)

    def _project(self, weights: FloatArray) -> FloatArray:
        """Return the weights in the ball of the problem and, with centring, in that of phases."""
        projected = self._space.project(weights)
        if self._space.centring is None:
            return projected
        # this only shortens the weights, which keeps them in the first ball
        return project_to_ball(projected, self._plan.problem.radius)

    def _draw(self, oracle: SampleOracle, sizes: Sequence[int]) -> GroupRisks:
        """Return the risks of fresh records, so many of each group; the oracle clips the rows."""
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


# The plan with the least bound. Its choices are on grids, so that better facts never choose worse.
PHASE_COUNTS = (1, 2, 4, 8, 11, 16)
RISK_FRACTIONS = (0.05, 0.1, 0.2)
AVERAGED_FRACTIONS = (0.0, 0.5)  # of the phases; at least the last one counts
# A ratio of 1 leaves far more noise on the weights where losses have little curvature.
SHARPENINGS = (1.25, 1.6, 2.5)
SMOOTHING_WIDTHS = (1.0, 0.25, 0.1, 0.025)


def least_bound_plan(problem: Problem, budget: Budget, solver: PhasedERM) -> Plan:
    """Return the plan with the least bound over all parameters that are None."""
    solved = _solved_problem(problem, budget, solver)
    centring_releases = centring.releases_before(solved, budget.mu)
    mu = budget.mu * math.sqrt(centring.fraction_left(solved))
    prior = np.asarray(problem.prior)
    schedule, bounds = first_with_least_bound(
        _possible_schedules(solved, mu, solver), lambda candidate: float(prior @ candidate[1])
    )
    n_phases, z_risks = schedule.n_phases, schedule.risks_multiplier
    # a fresh record is read in one phase only
    paid = 1 if problem.fresh_calls else None
    planned = [
        *centring_releases,
        Release(rounds.WEIGHTS, "gaussian", schedule.multiplier, n_phases, draws_per_record=paid),
    ]
    if z_risks > 0.0:
        risks = Release(rounds.RISKS, "gaussian", z_risks, n_phases - 1, draws_per_record=paid)
        planned.append(risks)
    releases = calibrate(planned, budget)
    # calibration scales all noise by one factor
    factor = releases[0].noise_multiplier / planned[0].noise_multiplier
    schedule = replace(schedule, risks_multiplier=factor * z_risks)
    return Plan("phased-erm", problem, budget, releases, schedule, bounds, n_steps=n_phases)


def _solved_problem(problem: Problem, budget: Budget, solver: PhasedERM) -> Problem:
    """Return the problem that phases solve: that of centred rows, or the given one."""
    # centring clips derivatives: clipping several together leaves no gradient of a convex loss,
    # and the smooth stand-in for a loss with kinks has no bounds on its slopes to clip at
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
        # the ball of weights on centred rows is another ball, which matters where it is small
        is_centred = is_convex and problem.radius > problem.reach and is_worth_centring(problem)
    if not is_centred:
        return problem
    clip_norm = by_loss(problem.loss, effective_sample_size(problem, budget)).clip_norm
    return centring.centred_problem(problem, GradientClip(clip_norm))


def _possible_schedules(
    problem: Problem, mu: float, solver: PhasedERM
) -> Iterator[tuple[rounds.PhaseSchedule, FloatArray]]:
    """Yield every schedule that the parameters allow at a budget μ, with each group's bound."""
    counts = [solver.n_phases] if solver.n_phases else list(PHASE_COUNTS)
    n_calls = problem.fresh_calls
    if n_calls:
        # every call has whole phases, and every phase records of every group
        most = max(n_calls, min(MAX_PHASES, *problem.queue_sizes) // n_calls * n_calls)
        counts = sorted({min(most, math.ceil(count / n_calls) * n_calls) for count in counts})
    elif solver.n_phases is None:
        passes_of_a_phase = 12 + problem.n_weights // 8  # usually; Hessians cost by their weights
        most = max(1, solver.max_passes // passes_of_a_phase)
        counts = [count for count in counts if count <= most]
    fractions = RISK_FRACTIONS if solver.risk_fraction is None else (float(solver.risk_fraction),)
    for n_phases in counts:
        for risk_fraction in fractions if problem.n_groups > 1 and n_phases > 1 else (0.0,):
            yield from _schedules_of_phases(problem, mu, solver, n_phases, risk_fraction)


def _schedules_of_phases(
    problem: Problem, mu: float, solver: PhasedERM, n_phases: int, risk_fraction: float
) -> Iterator[tuple[rounds.PhaseSchedule, FloatArray]]:
    """Yield the schedules of `_possible_schedules` with n_phases, and risk_fraction of μ²."""
    # releases share the budget of the records that they read: all, or those of one phase
    n_weight_releases, n_risk_releases = n_phases, n_phases - 1
    if problem.fresh_calls:
        n_weight_releases = n_risk_releases = 1
        problem = rounds.problem_of_one_phase(problem, n_phases)
    constants = problem.constants
    risks_multiplier = math.sqrt(n_risk_releases / risk_fraction) / mu if risk_fraction else 0.0
    clip_multiple = by_loss(problem.loss, mu * problem.typical_size).loss_clip
    loss_clip = min(clip_multiple * constants.zero_score, constants.supremum)
    sums = SumSensitivity.of(problem, loss_clip=loss_clip)
    mu_groups = math.inf if solver.mu_groups is None else float(solver.mu_groups)
    group_rate, group_regret = 0.0, np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        noise = risks_multiplier * (sums.loss_range * problem.loss_noise)
        variances = (noise / problem.sizes_to_plan_for) ** 2 / n_phases
        total_rate, group_regret = steps.hedge(problem, n_phases, variances)
        group_regret = np.minimum(group_regret, constants.zero_score)
        group_rate = total_rate / n_phases if risks_multiplier > 0.0 else 0.0
        if risks_multiplier == 0.0 and mu_groups < math.inf:
            entropy_cost = -mu_groups * np.log(np.asarray(problem.prior))
            group_regret = np.minimum(group_regret, entropy_cost)
    averaging = AVERAGED_FRACTIONS if solver.averaging is None else (solver.averaging,)
    averaged_counts = sorted({max(1, round(part * n_phases)) for part in averaging})
    sharpenings = SHARPENINGS if solver.sharpening is None else (float(solver.sharpening),)
    widths = SMOOTHING_WIDTHS if solver.smoothing_width is None else (solver.smoothing_width,)
    for width, n_averaged, sharpening in itertools.product(
        (0.0,) if problem.loss.smooth else widths,
        averaged_counts,
        sharpenings if n_phases > 1 else (1.0,),
    ):
        solved = replace(problem, loss=problem.loss.smoothed(width)) if width else problem
        bound = _bound(
            initial_distance=solver.initial_distance * problem.reach,
            lipschitz=solved.lipschitz,
            trace=problem.loss.n_outputs * solved.smoothness,
            n_weights=problem.n_weights,
            strength_ratios=tuple(sharpening ** (t + 1 - n_phases) for t in range(n_phases)),
            n_averaged=n_averaged,
        )
        mu_weights = None
        if solver.mu_weights is not None:
            mu_weights = tuple(float(solver.mu_weights * ratio) for ratio in bound.strength_ratios)
        schedule = rounds.PhaseSchedule(
            solved=solved,
            n_phases=n_phases,
            n_averaged=n_averaged,
            multiplier=math.sqrt(n_weight_releases / (1.0 - risk_fraction)) / mu,
            mu_groups=mu_groups,
            mu_weights=mu_weights,
            bound=bound,
            loss_clip=loss_clip,
            sums=sums,
            risks_multiplier=risks_multiplier,
            group_rate=group_rate,
        )
        moves_groups = problem.n_groups > 1 and n_phases > 1
        bounds = rounds.weights_bounds(schedule, solver.mu_weights, moves_groups=moves_groups)
        # a smoothed loss is at most L times half its width away from the loss
        yield schedule, bounds + constants.lipschitz * width / 2.0 + group_regret


# equal arguments return the same bound, whose curves are computed once
_bound = lru_cache(maxsize=4096)(rounds.DescentBound)


# Width of the parabola in place of a kink; the paper assumes that any convex loss can be solved.
DEFAULT_WIDTH = 0.05


def paper_plan(problem: Problem, budget: Budget, solver: PhasedERM) -> Plan:
    """Return the plan of the paper's formulas: docs/theory/phased-erm.md, section 4.

    At large ε the paper's noise may cost more than the budget; such a phase gets the least noise
    within the budget. The logarithm in η has base 2, as the proof needs.
    """
    solved, width = problem, solver.smoothing_width or DEFAULT_WIDTH
    if not problem.loss.smooth:
        solved = replace(problem, loss=problem.loss.smoothed(width))
    smallest_size, n_groups = min(problem.group_sizes), problem.n_groups
    n_phases = max(1, int(math.log2(smallest_size)))
    n_read = smallest_size // n_phases  # records of each group in a phase
    eta, etas, stds = _steps_and_noise(solved, budget, n_phases)
    mu_weights = [1.0 / (eta_t * n_read) for eta_t in etas]
    mu_groups = 1.0 / (eta * smallest_size) if n_groups > 1 else math.inf
    prior = (1.0 / n_groups,) * n_groups
    part = replace(solved, group_sizes=(n_read,) * n_groups, prior=prior)
    facts = {"mu_groups": mu_groups}
    phases = [rounds.solved_phase(part, prior, mu_weights=mu, **facts) for mu in mu_weights]
    paper_multipliers = [std / phase.sensitivity for std, phase in zip(stds, phases, strict=True)]
    least = calibrate([Release(rounds.WEIGHTS, "gaussian", 1.0, 1)], budget)[0].noise_multiplier
    multipliers = tuple(max(multiplier, least) for multiplier in paper_multipliers)
    true_epsilon = PrivacyGuarantee.from_releases(
        [Release(rounds.WEIGHTS, "gaussian", min(paper_multipliers), 1)], budget.delta
    ).epsilon
    schedule = rounds.PhaseSchedule(
        solved=part,
        n_phases=n_phases,
        n_averaged=1,
        multiplier=multipliers[0],
        mu_groups=mu_groups,
        mu_weights=tuple(mu_weights),
        remark=(
            f"the paper's noise costs epsilon = {rounded_up(true_epsilon)}; largest factor on it "
            f"to keep the budget: {max(np.divide(multipliers, paper_multipliers)):.4g}"
        ),
    )
    noise_stds = [z * phase.sensitivity for z, phase in zip(multipliers, phases, strict=True)]
    bounds = np.full(n_groups, _excess_bound(solved, n_read, phases, noise_stds))
    releases = tuple(
        Release(rounds.WEIGHTS, "gaussian", z, 1, part=t) for t, z in enumerate(multipliers)
    )
    return Plan("phased-erm", problem, budget, releases, schedule, bounds, n_steps=n_phases)


def _steps_and_noise(
    solved: Problem, budget: Budget, n_phases: int
) -> tuple[float, list[float], list[float]]:
    """Return η of Theorem 2, and each phase's step size η_t and noise deviation (Algorithm 1)."""
    n, d, p = min(solved.group_sizes), solved.n_weights, solved.n_groups
    log2_n, log_total = math.log2(max(n, 2)), math.log(max(p * n, 2))
    log_delta, scale = math.log(1.0 / budget.delta), max(solved.lipschitz, solved.loss_range)
    eta = (solved.diameter / scale) * min(
        budget.epsilon / math.sqrt(72.0 * d * log2_n * log_delta),
        math.sqrt(p) / (log_total**0.75 * math.sqrt(p * n)),
    )
    etas = [eta * 2.0**-t for t in range(1, n_phases + 1)]
    factor = 2.0 * log2_n * log_delta * eta
    stds = [6.0 * scale * math.sqrt(factor * eta_t) / budget.epsilon for eta_t in etas]
    return eta, etas, stds


def _excess_bound(
    solved: Problem, n_read: int, phases: Sequence[rounds.Phase], stds: Sequence[float]
) -> float:
    """Return the paper's excess bound: Lemma 4 over all phases, with constants 1, and the noise."""
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
