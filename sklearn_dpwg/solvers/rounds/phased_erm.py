"""Minimax phased empirical risk minimisation with output perturbation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, positive, whole
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks, Risks, keyed_parts
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Release,
    calibrate,
    lemma3_sensitivity,
)
from sklearn_dpwg.privacy.noise import SECONDS_PER_SECURE_COORDINATE
from sklearn_dpwg.solvers.centring import CentredProblem, centred_problem, release_centre
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan, MixtureSolver
from sklearn_dpwg.solvers.plan import Plan, first_of_least, predict_seconds
from sklearn_dpwg.solvers.rounds.planning import (
    MOST_PHASES,
    RULES,
    PhasedERMParameters,
    descent_bound,
    is_centred,
    least_bound_plan,
    numbers_averaged,
    numbers_of_phases,
    sharpenings,
    solved_problems,
    weights_bounds,
)
from sklearn_dpwg.solvers.rounds.releases import (
    RISKS,
    SECONDS_PER_ENTRY_OF_HESSIAN,
    WEIGHTS,
    passes_of_a_phase,
    plan_of_releases,
    release_risks,
    release_weights,
    releases_of,
)
from sklearn_dpwg.solvers.rounds.schedule import Phase, PhasedERMSchedule, solved_phase
from sklearn_dpwg.solvers.solver import FreshSolver, Game, Solution
from sklearn_dpwg.solvers.steps import LEAST_PRIOR, heard, normalised

# Plan of the phased solver with the constants of Zhou and Bassily.

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
    eta = _first_step(solved, budget)
    etas = [eta * 2.0**-t for t in range(1, n_phases + 1)]
    stds = [_noise_std(solved, budget, eta, eta_t) for eta_t in etas]
    mu_weights = [1.0 / (eta_t * n_read) for eta_t in etas]
    mu_groups = 1.0 / (eta * n) if p > 1 else math.inf
    sizes, prior = (n_read,) * p, (1.0 / p,) * p
    phases = [
        solved_phase(solved, sizes, prior, mu_weights=mu_w, mu_groups=mu_groups)
        for mu_w in mu_weights
    ]
    papers = [std / phase.sensitivity for std, phase in zip(stds, phases, strict=True)]
    least = calibrate([Release(WEIGHTS, "gaussian", 1.0, 1)], budget)[0].noise_multiplier
    multipliers = tuple(max(each, least) for each in papers)
    true_epsilon = PrivacyGuarantee.from_releases(
        [Release(WEIGHTS, "gaussian", min(papers), 1)], budget.delta
    ).epsilon
    schedule = PhasedERMSchedule(
        composition="parallel",
        sizes=(sizes,) * n_phases,
        solved=solved,
        smoothing_width=width,
        prior=prior,
        weights_multipliers=multipliers,
        risks_multiplier=0.0,
        mu_groups=(mu_groups,) * n_phases,
        averaged=1,
        mu_weights=tuple(mu_weights),
        remark=(
            f"the paper's noise costs epsilon = {true_epsilon:.4g}; largest factor on it to keep "
            f"the budget: {max(np.divide(multipliers, papers)):.4g}"
        ),
    )
    bounds = np.full(p, _excess(solved, sizes, phases, stds))
    return plan_of_releases(problem, budget, schedule, releases_of(schedule), bounds)


def _first_step(solved: Problem, budget: Budget) -> float:
    """Return η of Theorem 2."""
    n, d, p = min(solved.group_sizes), solved.n_weights, solved.n_groups
    total = p * n
    log2_n, log_total = math.log2(max(n, 2)), math.log(max(total, 2))
    log_delta = math.log(1.0 / budget.delta)
    return (solved.diameter / max(solved.lipschitz, solved.loss_range)) * min(
        budget.epsilon / math.sqrt(72.0 * d * log2_n * log_delta),
        math.sqrt(p) / (log_total**0.75 * math.sqrt(total)),
    )


def _noise_std(solved: Problem, budget: Budget, eta: float, eta_t: float) -> float:
    """Return the noise of a phase in Algorithm 1."""
    log2_n = math.log2(max(min(solved.group_sizes), 2))
    log_delta = math.log(1.0 / budget.delta)
    scale = max(solved.lipschitz, solved.loss_range)
    return 6.0 * scale * math.sqrt(2.0 * log2_n * log_delta * eta * eta_t) / budget.epsilon


def _excess(
    solved: Problem, sizes: Sequence[int], phases: Sequence[Phase], stds: Sequence[float]
) -> float:
    """Return the terms of Theorem 2's proof, the constants that it leaves out set to 1."""
    n, d, p = min(solved.group_sizes), solved.n_weights, solved.n_groups
    distances = [solved.diameter, *(std * math.sqrt(d) for std in stds)]
    excess = solved.lipschitz * distances[-1]
    for phase, distance in zip(phases, distances[:-1], strict=True):
        excess += phase.mu_weights * distance**2 / 2.0
        excess += solved.loss_range * math.sqrt(math.log(max(p * n, 2)) / sizes[0])
        if p > 1:
            excess += phase.mu_groups * math.log(p)
            excess += solved.lipschitz * lemma3_sensitivity(
                group_sizes=sizes,
                lipschitz=solved.lipschitz,
                loss_range=solved.loss_range,
                strong_convexity=phase.mu_weights,
                entropy_weight=phase.mu_groups,
            )
    return excess


# The paper's phased solver on fresh records: each phase draws its own.

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


# Phases as answers for fixed mixtures of groups.

# What who asks for mixtures decides, and how it is left to them.
SET_BY_CALLER: dict[str, tuple[object, ...]] = {
    "n_phases": (None,),
    "schedule": ("planned",),
    "mu_groups": (None, math.inf),
    "risk_share": (None,),
}


def plan_of_calls(problem: Problem, calls: Calls, parameters: PhasedERMParameters) -> MixturePlan:
    """Return the plan of the least bound over strengths, averages and the width of kinks."""
    if calls.n_calls > MOST_PHASES:
        raise ValueError(
            f"n_rounds must be at most {MOST_PHASES} where phases of PhasedERM answer, got "
            f"{calls.n_calls}."
        )
    multiplier, sizes = 1.0 / calls.mu, problem.group_sizes
    prior, ways = np.asarray(problem.prior), []
    for width, solved in solved_problems(problem, parameters.smoothing_width):
        for averaged, sharpening in itertools.product(
            numbers_averaged(parameters, calls.n_calls), sharpenings(parameters, calls.n_calls)
        ):
            bound = descent_bound(
                parameters, problem, solved, calls.n_calls, averaged=averaged, sharpening=sharpening
            )
            bounds = weights_bounds(
                problem,
                solved,
                parameters.mu_weights,
                sizes,
                bound,
                multiplier=multiplier,
                mu_groups=math.inf,
                feedback=problem.n_groups > 1 and calls.n_calls > 1,
            )
            bounds = bounds + problem.constants.lipschitz * width / 2.0
            ways.append((float(prior @ bounds), solved, width, bound, bounds))
    _, solved, width, bound, bounds = first_of_least(ways, itemgetter(0))
    fixed = None
    if parameters.mu_weights is not None:
        fixed = tuple(float(parameters.mu_weights * ratio) for ratio in bound.strength_ratios)
    schedule = PhasedERMSchedule(
        composition="sequential",
        sizes=(sizes,) * calls.n_calls,
        solved=solved,
        smoothing_width=width,
        prior=problem.prior,
        weights_multipliers=(multiplier,) * calls.n_calls,
        risks_multiplier=0.0,
        mu_groups=(math.inf,) * calls.n_calls,
        averaged=bound.averaged,
        mu_weights=fixed,
        bound=bound,
    )
    passes = passes_of_a_phase(problem) * calls.n_calls
    return MixturePlan(
        solver="phased-erm",
        problem=problem,
        calls=calls,
        release=calls.release(WEIGHTS),
        schedule=schedule,
        bounds=tuple(float(each) for each in bounds),
        averaged=bound.averaged,
        seconds=predict_seconds(problem, passes, n_draws=calls.n_calls)
        + calls.n_calls
        * problem.n_weights
        * (SECONDS_PER_SECURE_COORDINATE + SECONDS_PER_ENTRY_OF_HESSIAN * problem.n_weights),
    )


def schedule_of(plan: MixturePlan) -> PhasedERMSchedule:
    """Return the schedule of a run: with the noise that was paid for, and the released clip."""
    schedule = plan.schedule
    assert isinstance(schedule, PhasedERMSchedule)
    paid = (plan.release.noise_multiplier,) * plan.calls.n_calls
    solved = schedule.solved
    if isinstance(plan.problem, CentredProblem):
        assert isinstance(solved, CentredProblem)
        solved = replace(solved, clip=plan.problem.clip)
    return replace(schedule, weights_multipliers=paid, solved=solved)


# A phase takes Hessians apart, which with more weights takes longer than all steps of `MGR`.
MOST_WEIGHTS_OF_PHASES = 500


class PhasedERM(PhasedERMParameters, MixtureSolver):
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
        larger where theirs would break the budget); it sets everything else but `smoothing_width`.
        `FreshPhasedERM` is the same for an oracle or a stream.
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
        the radius.
    smoothing_width : float, optional
        For a loss with kinks: how far from a kink, in the score, the loss that is minimised differs
        from it.
    max_passes : int, default=300
        Passes over the rows that a planned number of phases may take; 16 phases with 40 weights.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for the log loss of two classes or the squared error with an intercept.

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

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        if self.schedule == "paper":
            raise ValueError(
                "solver 'phased-erm' with neighbours='replace-any' needs schedule='planned', got "
                "'paper'."
            )

    def suits(self, problem: Problem) -> bool:
        return problem.n_weights <= MOST_WEIGHTS_OF_PHASES

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, smoothing_width=self.smoothing_width)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, PhasedERMSchedule)
        parallel = schedule.composition == "parallel"
        if parallel:
            parts = keyed_parts(problem.group_sizes, schedule.sizes, noise.rng)
        releases = {(release.name, release.part): release for release in plan.releases}
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        centring = None
        if isinstance(schedule.solved, CentredProblem):
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, weights = centring.view(data), centring.to_centred(weights, problem)
            schedule = replace(schedule, solved=replace(schedule.solved, clip=centring.clip))
        log_prior = np.log(np.asarray(schedule.prior))
        total = np.zeros_like(weights)
        for t in range(schedule.n_phases):
            read = data.part(parts[t]) if parallel else data
            part = t if parallel else None
            if t > 0 and schedule.risks_multiplier > 0.0:
                # what stands for the sizes of hidden groups
                divisors = () if problem.hidden is None else (problem.group_sizes,)
                noisy_risks = release_risks(
                    data, weights, schedule, noise, releases[RISKS, None], *divisors
                )
                noisy_risks, _ = heard(noisy_risks, np.zeros_like(noisy_risks), problem)
                log_prior = log_prior + schedule.group_rate * noisy_risks
                log_prior = log_prior - schedule.noise_correction
            prior = normalised(log_prior, least=LEAST_PRIOR)
            noisy_weights = release_weights(
                read,
                weights,
                prior,
                schedule.phase(t, prior),
                schedule,
                noise,
                releases[WEIGHTS, part],
            )
            weights = project_to_ball(noisy_weights, problem.radius)
            if t >= schedule.n_phases - schedule.averaged:
                total += weights
        learned = total / schedule.averaged
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, None, schedule.n_phases)

    def _set_by_caller(self) -> dict[str, tuple[object, ...]]:
        return SET_BY_CALLER

    def mixture_problem(self, problem: Problem) -> Problem:
        return centred_problem(problem) if is_centred(problem, self) else problem

    def numbers_of_calls(self, problem: Problem) -> tuple[int, ...]:
        return numbers_of_phases(problem, self.max_passes)

    def plan_mixture(self, problem: Problem, calls: Calls) -> MixturePlan:
        return plan_of_calls(problem, calls, self)

    def run_mixture(
        self,
        plan: MixturePlan,
        group_weights: FloatArray,
        center: FloatArray,
        data: Risks,
        noise: NoiseSource,
        *,
        call: int,
        risks: FloatArray | None = None,
    ) -> FloatArray:
        schedule = schedule_of(plan)
        phase = schedule.phase(call, group_weights)
        noisy = release_weights(data, center, group_weights, phase, schedule, noise, plan.release)
        return project_to_ball(noisy, plan.problem.radius)
