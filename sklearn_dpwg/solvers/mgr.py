"""Noisy gradient descent with multiplicative group reweighting."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, flag, fraction, positive
from sklearn_dpwg._repr import documented
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.accounting.calibration import predict_multiplier
from sklearn_dpwg.solvers import batches as sampling
from sklearn_dpwg.solvers import centring, descent
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, by_loss, effective_sample_size
from sklearn_dpwg.solvers.steps import GainOfGroups, Space, hedge, normalised, risk_spread


@documented(descent.SHARED_PARAMETERS)
@dataclass(eq=False, repr=False, kw_only=True)
class MGR(descent.Descent):
    """Noisy gradient descent with multiplicative group reweighting, on all records or batches.

    Every step takes a noisy gradient of the group-weighted risk, moves the weights within their
    ball, and raises the weights of groups whose noisy risks are high. ``None`` means planned
    from public facts.

    Parameters
    ----------
    n_steps : int, optional
        Number of steps T; planned: as many as `max_passes` allow.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes steps, rates and noise from Zhou and Bassily's Theorems 9 and 10 with
        their constants set to 1 (the noise's larger where 1 would break the budget): the gradient
        of one group, drawn from the group weights, Laplace noise on the risks, a uniform prior.
        Steps are at most `max_passes`.
    <shared>
    step_size : float, optional
        A fixed plain step size without momentum, instead of the planned rule.
    sampling_rate : float, default=1.0
        Probability with which a record joins a step, above 0: Poisson batches. 1 reads every
        record in every step.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for a log loss or the squared error with an intercept, where steps
        are planned.
    whitening : bool, optional
        Whether centred rows are half whitened by released second moments, of columns alone where
        there are more than 200. Planned: for a log loss, where records are many enough.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 3, Theorems 9 and 10; proofs are in `docs/theory/mgr.md`.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import MGR
    >>> MGR(n_steps=50)
    MGR(n_steps=50)
    """

    step_size: float | None = None
    sampling_rate: float = 1.0
    centring: bool | None = None
    whitening: bool | None = None

    name: ClassVar[str] = "mgr"
    set_by_paper: ClassVar[tuple[str, ...]] = ("sampling_rate",)
    knows_hidden_groups: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules(
        "MGR",
        **descent.RULES,
        step_size=positive(or_none=True),
        sampling_rate=fraction(or_all=True),
        centring=flag(or_none=True),
        whitening=flag(or_none=True),
    )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        plan = paper_plan if self.schedule == "paper" else least_bound_plan
        return plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        space = Space.of(plan, schedule.centring, data, noise, start)
        data = space.view(data)
        weights, ball = space.weights, descent.Momentum(schedule, problem.n_weights)
        level = LossLevel(schedule, problem) if schedule.follows_level else None
        gain = GainOfGroups(problem, adapts=schedule.adapts)
        first = np.asarray(schedule.prior)
        if start is not None and start.group_weights is not None:
            first = np.maximum(start.group_weights, 1e-300)
        players = GroupWeights(schedule, np.log(first), gain)
        shrinkage = Shrinkage(problem.constants.zero_score, len(first))
        counts_start = float(schedule.averaged > schedule.n_steps)
        total, mixture = counts_start * weights, counts_start * players.current
        for t in range(schedule.n_steps):
            asked = plan, data, weights, players.current, noise
            if schedule.batches is None:
                loss_clip = schedule.loss_clip if level is None else level.loss_clip
                released = descent.from_pass(*asked, loss_clip)
            else:
                released = sampling.from_batch(*asked, schedule.batches, schedule.loss_clip)
            weights = space.project(weights + ball.push(released.gradient, released.noise_std))
            feedback = released.risks, released.risk_variances, players.current
            if level is not None:
                level.push(*feedback)
            if len(first) > 1:
                players.push(released.risks, released.risk_variances)
            # after the step, so that the last releases count too
            if t >= schedule.n_steps - schedule.averaged:
                total, mixture = total + weights, mixture + players.current
                if schedule.shrinks:
                    shrinkage.push(*feedback)
        learned, mixture = total / schedule.averaged, mixture / schedule.averaged
        if schedule.shrinks and start is None:
            learned = learned * shrinkage.kept
        weights = space.weights_of_rows(learned)
        return Solution(weights, mixture, schedule.n_steps, **gain.released)


@dataclass(frozen=True, kw_only=True, repr=False)
class MGRSchedule(descent.DescentSchedule):
    """Everything that `MGR.run` needs besides the records and the noise."""

    group_rate: float = 0.0  # step size η_λ of the multiplicative weights, where they do not adapt
    # who joins a step and with how much noise; by default a step reads every record
    batches: sampling.Batches | None = None
    adapts: bool = False  # whether `GroupWeights` follow released risks, in place of `group_rate`
    assumed_spread: float = 0.0  # standard deviation of the group risks that planning assumes
    # losses count up to this multiple of the mean released loss, where it is less (`LossLevel`)
    clip_of_level: float = math.inf
    shrinks: bool = False  # whether the averaged weights do (`Shrinkage`)

    @property
    def follows_level(self) -> bool:
        """Whether the clip of losses follows the level of the released ones."""
        return math.isfinite(self.clip_of_level)

    def __str__(self) -> str:
        return "\n".join([*([str(self.batches)] if self.batches else []), super().__str__()])


# What a run takes from released risks: group weights, the clip of losses, shrinkage.

# The assumed spread of the group risks counts like so many released ones; its least fraction.
ASSUMED_STEPS, MIN_SPREAD = 10.0, 1.0 / 30.0

# A group leads another by at most this and log p in its exponent, so that others can overtake it.
MAX_LEAD = 4.0

# Steps whose released risks tell the level of losses; deviations of its noise that it is raised by,
# and the least fraction of the planned clip.
WINDOW, DEVIATIONS, MIN_LOSS_CLIP = 10, 2.0, 1e-3

# A group's mean risk is believed to be lower than released by so many deviations of its noise.
SHRINK_DEVIATIONS = 0.5


class GroupWeights:
    """Hedge on released risks, at the paper's rate or one that follows their spread."""

    def __init__(self, schedule: MGRSchedule, log_weights: FloatArray, gain: GainOfGroups) -> None:
        self.schedule, self._log_weights, self._gain = schedule, log_weights, gain
        self.current = gain.played(normalised(log_weights))
        # squared spreads: how many, and their sum
        self._n_spreads = ASSUMED_STEPS
        self._spread = ASSUMED_STEPS * schedule.assumed_spread**2
        # the prior's: a start may have all weight on one group
        prior = np.asarray(schedule.prior)
        self._entropy = -float(prior @ np.log(prior))
        self.rate = schedule.group_rate  # of the last step

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Take in the released risks of a step, and the variances of their noise and coins."""
        schedule = self.schedule
        if not schedule.adapts:
            self._log_weights = self._log_weights + schedule.group_rate * risks
            self.current = normalised(self._log_weights)
            return
        self._gain.push(risks, variances)
        # θ/T with θ² = H(π) / (q²/T + mean_i v_i/2) for the spread q so far, without this step
        horizon, noise = schedule.n_steps, float(variances.mean()) / 2.0
        least = (MIN_SPREAD * schedule.assumed_spread) ** 2
        spread = max(self._spread / self._n_spreads, least)
        self.rate = math.sqrt(self._entropy / ((spread + noise) / horizon)) / horizon
        weights = self.current
        spread = float(weights @ (risks - weights @ risks) ** 2)
        self._spread += spread - float((weights * (1.0 - weights)) @ variances)
        self._n_spreads += 1.0
        exponents = self._log_weights + self.rate * risks
        lead = MAX_LEAD + np.log(len(risks))
        self._log_weights = np.maximum(exponents, exponents.max() - lead)
        self.current = self._gain.played(normalised(self._log_weights))


class LossLevel:
    """A clip that follows the mean released loss, of all records or under the group weights."""

    def __init__(self, schedule: MGRSchedule, problem: Problem) -> None:
        self._schedule = schedule
        self._fractions = np.asarray(problem.group_sizes) / sum(problem.group_sizes)
        self._levels: deque[FloatArray] = deque(maxlen=WINDOW)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""
        fractions = np.array([self._fractions, group_weights])
        self._levels.append(np.array([fractions @ risks, fractions**2 @ variances]))

    @property
    def loss_clip(self) -> float:
        """The clip of the next step: a multiple of the larger mean loss, but for rare noise."""
        schedule = self._schedule
        if not self._levels:
            return schedule.loss_clip
        means, variances = np.mean(self._levels, axis=0)
        deviations = np.sqrt(variances / len(self._levels))
        level = float((np.maximum(means, 0.0) + DEVIATIONS * deviations).max())
        least = MIN_LOSS_CLIP * schedule.loss_clip
        return float(np.clip(schedule.clip_of_level * level, least, schedule.loss_clip))


class Shrinkage:
    """How far averages shrink where the worst-off group gained less: docs/theory/mgr.md, 4b."""

    def __init__(self, risk_of_nothing: float, n_groups: int) -> None:
        self._risk_of_nothing, self._n_steps = risk_of_nothing, 0
        self._risks, self._variances = np.zeros(n_groups), np.zeros(n_groups)
        self._weighted_risk = 0.0

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Take in the risks of a step, the variances of their noise and the weights of the step."""
        self._n_steps += 1
        self._risks += risks
        self._variances += variances
        self._weighted_risk += float(group_weights @ risks)

    @property
    def kept(self) -> float:
        """Share of the weights to keep, between a half and 1."""
        drop = self._risk_of_nothing - self._weighted_risk / self._n_steps
        if drop <= 0.0:
            return 0.5
        stds = np.sqrt(self._variances) / self._n_steps
        drops = self._risk_of_nothing - self._risks / self._n_steps + SHRINK_DEVIATIONS * stds
        return 0.5 * (1.0 + min(max(0.0, float(drops.min())) / drop, 1.0))


# The plan of least bound, on all records or on batches.

# No more steps on batches are planned: accounting for them takes long.
MAX_BATCHES = 50_000


def least_bound_plan(problem: Problem, budget: Budget, solver: MGR) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the parameters leave open."""
    n_steps = solver.n_steps
    if n_steps is None:
        passes = solver.max_passes or by_loss(problem.loss).passes
        n_steps = min(round(passes / solver.sampling_rate), MAX_BATCHES)
    learned = learned_problem(problem, solver, budget)
    rule = HedgeRule(learned, solver, n_steps, effective_sample_size(problem, budget))
    if solver.sampling_rate == 1.0:
        batches, (releases, noise) = None, descent.pay_for_passes(rule, budget)
    else:
        releases, noise, batches = _pay_for_batches(problem, rule, budget)
    of_loss = by_loss(learned.loss, effective_sample_size(learned, budget))
    adapts = problem.n_groups > 1
    follows_level = adapts and solver.loss_clip is None and batches is None
    schedule = MGRSchedule(
        **rule.fields(),
        lowest_loss=None if problem.hidden is None else learned.constants.infimum,
        batches=batches,
        adapts=adapts,
        assumed_spread=risk_spread(learned),
        clip_of_level=of_loss.clip_of_level if follows_level else math.inf,
        shrinks=adapts and of_loss.shrinks,
    )
    return Plan("mgr", problem, budget, releases, schedule, rule.bound(noise), n_steps)


def learned_problem(problem: Problem, solver: MGR, budget: Budget) -> Problem:
    """Return what the weights are learned for: the problem, or that of centred or whitened rows."""
    is_centred, white = solver.centring, solver.whitening
    if is_centred:
        centring.check_centring(problem, "MGR")
    if is_centred is None:
        is_centred = solver.step_size is None and centring.is_worth_centring(problem)
    if white and not is_centred:
        raise InputError(
            "whitening of MGR must be None or False where rows are not centred, got True."
        )
    if not is_centred:
        return problem
    by, of_loss = "", by_loss(problem.loss, effective_sample_size(problem, budget))
    if white or (white is None and of_loss.whitens):
        by = centring.planned_whitening(problem, math.inf if white else budget.mu)
    return centring.centred_problem(problem, centring.GradientClip(of_loss.clip_norm, by))


def _pay_for_batches(
    problem: Problem, rule: HedgeRule, budget: Budget
) -> tuple[tuple[Release, ...], descent.RunNoise, sampling.Batches]:
    """Pay for steps that read Poisson batches; one joint release a step."""
    rate = rule.solver.sampling_rate
    name = sampling.GRADIENT_AND_RISKS if problem.n_groups > 1 else descent.GRADIENT
    guess = predict_multiplier(rule.n_steps, rate, budget)
    of_steps = Release(name, "gaussian", guess, rule.n_steps, sampling_rate=rate)
    before = centring.releases_before(rule.problem, budget.mu)
    releases = calibrate([*before, of_steps], budget)
    # plans count next to no noise for groups that no weight is moved to
    squares = (np.asarray(problem.group_sizes) / problem.sizes_to_plan_for) ** 2

    def batches_at(fraction: float) -> sampling.Batches:
        z = releases[-1].noise_multiplier
        return sampling.Batches(rule.problem, rule.sums, rate, z, fraction)

    def noise_at(fraction: float) -> descent.RunNoise:
        noise = batches_at(fraction).noise_of_run(problem.n_weights, rule.n_steps)
        return descent.RunNoise(noise.gradient * squares, noise.risk * squares[: len(noise.risk)])

    fraction = rule.best_fraction(noise_at)
    return releases, noise_at(fraction), batches_at(fraction)


class HedgeRule(descent.StepRule):
    """The rule with multiplicative group weights."""

    solver: MGR

    def of_groups(self, noise: descent.RunNoise) -> FloatArray:
        return hedge(self.problem, self.n_steps, noise.risk)[1]


# The paper's schedule.


def paper_plan(problem: Problem, budget: Budget, solver: MGR) -> Plan:
    """Plan with the paper's formulas and constants of 1 (docs/theory/mgr.md, section 7)."""
    n, p, d = min(problem.group_sizes), problem.n_groups, problem.n_weights
    lipschitz, loss_range = problem.lipschitz, problem.loss_range
    log_delta = math.log(1.0 / budget.delta)
    steps = (problem.diameter * lipschitz + loss_range * math.sqrt(math.log(p))) * (
        n**2 * budget.epsilon**2 / (lipschitz * loss_range * d * log_delta)
    )
    n_steps = max(2, min((solver.max_passes or descent.PASSES) + 1, math.floor(steps)))
    noise = descent.paper_noise(problem, budget, n_steps, n_steps)
    feedback_bound = loss_range
    if p > 1:
        feedback_bound += 8.0 * noise.tau * max(0.0, math.log(p * n * n_steps / 2.0))
    schedule = MGRSchedule(
        **noise.fields,
        step="sampled",
        group_rate=math.sqrt(math.log(p) / (n_steps * feedback_bound**2)),
    )
    # the regret bounds in the proof of Theorem 10
    excess = noise.regret + 2.0 * feedback_bound * math.sqrt(math.log(p) / n_steps)
    return Plan("mgr", problem, budget, noise.releases, schedule, (excess,) * p, schedule.n_steps)
