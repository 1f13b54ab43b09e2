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
        weights, momentum = space.weights, descent.Momentum(schedule, problem.n_weights)
        loss_level = LossLevel(schedule, problem) if schedule.follows_level else None
        gain = GainOfGroups(problem, adapts=schedule.adapts)
        first_mixture = np.asarray(schedule.prior)
        if start is not None and start.group_weights is not None:
            first_mixture = np.maximum(start.group_weights, 1e-300)  # positive, for the logarithm
        player = GroupWeights(schedule, np.log(first_mixture), gain)
        shrinkage = Shrinkage(problem.constants.zero_score, len(first_mixture))
        # 1.0 where the average has one more point than there are steps: the first one
        counts_start = float(schedule.n_averaged > schedule.n_steps)
        weights_sum, mixture_sum = counts_start * weights, counts_start * player.group_weights
        for t in range(schedule.n_steps):
            mixture = player.group_weights
            loss_clip = schedule.loss_clip if loss_level is None else loss_level.loss_clip
            if schedule.batches is None:
                step = descent.release_full_pass(plan, data, weights, mixture, noise, loss_clip)
            else:
                step = sampling.release_batch(plan, data, weights, mixture, noise, loss_clip)
            weights = space.project(weights + momentum.push(step.gradient, step.noise_std))
            if loss_level is not None:
                loss_level.push(step.risks, step.risk_variances, mixture)
            if len(first_mixture) > 1:
                player.push(step.risks, step.risk_variances)
            # sums take the weights after the step, so that the last releases count too
            if t >= schedule.n_steps - schedule.n_averaged:
                weights_sum, mixture_sum = weights_sum + weights, mixture_sum + player.group_weights
                if schedule.shrinks:
                    shrinkage.push(step.risks, step.risk_variances, mixture)
        learned, mixture = weights_sum / schedule.n_averaged, mixture_sum / schedule.n_averaged
        if schedule.shrinks and start is None:
            learned = learned * shrinkage.factor
        weights = space.weights_of_rows(learned)
        return Solution(weights, mixture, n_iter=schedule.n_steps, **gain.released)


@dataclass(frozen=True, kw_only=True, repr=False)
class MGRSchedule(descent.DescentSchedule):
    """Everything that `MGR.run` needs besides the records and the noise."""

    group_rate: float = 0.0  # rate η_λ of the multiplicative weights, where it is fixed
    # sampling rate and noise of Poisson batches; None where every step reads every record
    batches: sampling.Batches | None = None
    adapts: bool = False  # whether the rate follows released risks, in place of `group_rate`
    assumed_spread: float = 0.0  # standard deviation of the group risks that planning assumes
    # a step's loss clip over the mean released loss, up to `loss_clip` (`LossLevel`)
    clip_of_level: float = math.inf
    shrinks: bool = False  # whether averaged weights are multiplied by `Shrinkage.factor`

    @property
    def follows_level(self) -> bool:
        """Whether the loss clip of a step follows the mean of the losses released before."""
        return math.isfinite(self.clip_of_level)

    def __str__(self) -> str:
        return "\n".join([*([str(self.batches)] if self.batches else []), super().__str__()])


# What a run computes from released risks: group weights, the loss clip, shrinkage.

# Released variances that the assumed one counts for; least spread over the assumed one.
ASSUMED_STEPS, MIN_SPREAD = 10.0, 1.0 / 30.0
# Log weights differ by at most this + log p, so that a group far behind can still overtake.
MAX_LEAD = 4.0
# Steps whose released risks give the mean loss; standard deviations of its noise that are added;
# least loss clip, as a fraction of the planned one.
WINDOW, DEVIATIONS, MIN_LOSS_CLIP = 10, 2.0, 1e-3
# Standard deviations of its noise that are subtracted from a group's mean released risk.
SHRINK_DEVIATIONS = 0.5


class GroupWeights:
    """Hedge: weights ∝ exp(rate × released risks). Adaptive rate: docs/theory/mgr.md, 4a."""

    def __init__(self, schedule: MGRSchedule, log_weights: FloatArray, gain: GainOfGroups) -> None:
        self.schedule, self._log_weights, self._gain = schedule, log_weights, gain
        self.group_weights = gain.played(normalised(log_weights))  # of the next step; (n_groups,)
        # number and sum of the variances of the risks across groups
        self._n_spreads = ASSUMED_STEPS
        self._squared_spreads = ASSUMED_STEPS * schedule.assumed_spread**2
        # of the prior, not of `log_weights`: a start may have all weight on one group
        prior = np.asarray(schedule.prior)
        self._entropy = -float(prior @ np.log(prior))
        self.rate = schedule.group_rate  # rate η of the last step

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Update `group_weights` by a step's released risks; variances are those of their noise."""
        schedule = self.schedule
        if not schedule.adapts:
            self._log_weights = self._log_weights + schedule.group_rate * risks
            self.group_weights = normalised(self._log_weights)
            return
        self._gain.push(risks, variances)
        # η = θ/T with θ² = H(π) / (q²/T + mean_i v_i/2), q² the mean before this step
        horizon, noise = schedule.n_steps, float(variances.mean()) / 2.0
        least = (MIN_SPREAD * schedule.assumed_spread) ** 2
        squared_spread = max(self._squared_spreads / self._n_spreads, least)
        self.rate = math.sqrt(self._entropy / ((squared_spread + noise) / horizon)) / horizon
        weights = self.group_weights
        noisy_spread = float(weights @ (risks - weights @ risks) ** 2)
        self._squared_spreads += noisy_spread - float((weights * (1.0 - weights)) @ variances)
        self._n_spreads += 1.0
        exponents = self._log_weights + self.rate * risks
        max_lead = MAX_LEAD + np.log(len(risks))
        self._log_weights = np.maximum(exponents, exponents.max() - max_lead)
        self.group_weights = self._gain.played(normalised(self._log_weights))


class LossLevel:
    """A loss clip that falls with the mean released loss, so that less noise is needed."""

    def __init__(self, schedule: MGRSchedule, problem: Problem) -> None:
        self._schedule = schedule
        self._fractions = np.asarray(problem.group_sizes) / sum(problem.group_sizes)
        # of a step: mean losses over all records and under the group weights; their variances
        self._levels: deque[FloatArray] = deque(maxlen=WINDOW)

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Add a step: its released risks, the variances of their noise, its group weights."""
        mixtures = np.array([self._fractions, group_weights])
        self._levels.append(np.array([mixtures @ risks, mixtures**2 @ variances]))

    @property
    def loss_clip(self) -> float:
        """Clip of the next step: `clip_of_level` times an upper bound of the larger mean loss."""
        schedule = self._schedule
        if not self._levels:
            return schedule.loss_clip
        means, variances = np.mean(self._levels, axis=0)
        stds = np.sqrt(variances / len(self._levels))
        mean_loss = float((np.maximum(means, 0.0) + DEVIATIONS * stds).max())
        least = MIN_LOSS_CLIP * schedule.loss_clip
        return float(np.clip(schedule.clip_of_level * mean_loss, least, schedule.loss_clip))


class Shrinkage:
    """Factor on the averaged weights where a group's risk fell less: docs/theory/mgr.md, 4b."""

    def __init__(self, zero_risk: float, n_groups: int) -> None:
        self._zero_risk, self._n_steps = zero_risk, 0  # the risk at weights of 0
        self._risk_sums, self._variance_sums = np.zeros(n_groups), np.zeros(n_groups)
        self._weighted_risk_sum = 0.0

    def push(self, risks: FloatArray, variances: FloatArray, group_weights: FloatArray) -> None:
        """Add a step: its released risks, the variances of their noise, its group weights."""
        self._n_steps += 1
        self._risk_sums += risks
        self._variance_sums += variances
        self._weighted_risk_sum += float(group_weights @ risks)

    @property
    def factor(self) -> float:
        """What to multiply the averaged weights by, between 1/2 and 1."""
        mean_drop = self._zero_risk - self._weighted_risk_sum / self._n_steps
        if mean_drop <= 0.0:  # nothing was gained
            return 0.5
        stds = np.sqrt(self._variance_sums) / self._n_steps
        drops = self._zero_risk - self._risk_sums / self._n_steps + SHRINK_DEVIATIONS * stds
        return 0.5 * (1.0 + min(max(0.0, float(drops.min())) / mean_drop, 1.0))


# The plan of least bound, on all records or on batches.

# Most planned steps on batches: accounting for more takes long.
MAX_BATCHES = 50_000


def least_bound_plan(problem: Problem, budget: Budget, solver: MGR) -> Plan:
    """Plan with the noise and fractions of least bound, where the parameters are None."""
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
    constants = by_loss(learned.loss, effective_sample_size(learned, budget))
    adapts = problem.n_groups > 1
    follows_level = adapts and solver.loss_clip is None and batches is None
    schedule = MGRSchedule(
        **rule.fields(),
        lowest_loss=None if problem.hidden is None else learned.constants.infimum,
        batches=batches,
        adapts=adapts,
        assumed_spread=risk_spread(learned),
        clip_of_level=constants.clip_of_level if follows_level else math.inf,
        shrinks=adapts and constants.shrinks,
    )
    return Plan("mgr", problem, budget, releases, schedule, rule.bound(noise), n_steps)


def learned_problem(problem: Problem, solver: MGR, budget: Budget) -> Problem:
    """Return the problem as it is, or on centred rows where the solver centres (and whitens)."""
    is_centred, whitens = solver.centring, solver.whitening
    if is_centred:
        centring.check_centring(problem, "MGR")
    if is_centred is None:
        is_centred = solver.step_size is None and centring.is_worth_centring(problem)
    if whitens and not is_centred:
        raise InputError(
            "whitening of MGR must be None or False where rows are not centred, got True."
        )
    if not is_centred:
        return problem
    constants = by_loss(problem.loss, effective_sample_size(problem, budget))
    release_name = ""  # of the second moments that whitening needs
    if whitens or (whitens is None and constants.whitens):  # on request at any noise
        release_name = centring.planned_whitening(problem, math.inf if whitens else budget.mu)
    limit = centring.GradientClip(constants.clip_norm, whitening=release_name)
    return centring.centred_problem(problem, limit)


def _pay_for_batches(
    problem: Problem, rule: HedgeRule, budget: Budget
) -> tuple[tuple[Release, ...], descent.RunNoise, sampling.Batches]:
    """Calibrate the releases of steps on Poisson batches: gradient and risks together each step."""
    rate = rule.solver.sampling_rate
    name = sampling.GRADIENT_AND_RISKS if problem.n_groups > 1 else descent.GRADIENT
    guess = predict_multiplier(rule.n_steps, rate, budget)
    step_release = Release(name, "gaussian", guess, rule.n_steps, sampling_rate=rate)
    centring_releases = centring.releases_before(rule.problem, budget.mu)
    releases = calibrate([*centring_releases, step_release], budget)
    multiplier = releases[-1].noise_multiplier
    # hidden groups that are never weighted count in plans as larger: next to no noise
    squared_ratios = (np.asarray(problem.group_sizes) / problem.sizes_to_plan_for) ** 2

    def batches_at(risk_fraction: float) -> sampling.Batches:
        return sampling.Batches(rule.problem, rule.sums, rate, multiplier, risk_fraction)

    def noise_at(risk_fraction: float) -> descent.RunNoise:
        gradient, risk = batches_at(risk_fraction).noise_of_run(problem.n_weights, rule.n_steps)
        return descent.RunNoise(gradient * squared_ratios, risk * squared_ratios[: len(risk)])

    risk_fraction = rule.best_risk_fraction(noise_at)
    return releases, noise_at(risk_fraction), batches_at(risk_fraction)


class HedgeRule(descent.StepRule):
    """Step sizes and planning bound with multiplicative group weights."""

    solver: MGR

    def group_regret(self, noise: descent.RunNoise) -> FloatArray:
        return hedge(self.problem, self.n_steps, noise.risk)[1]


# The paper's schedule.


def paper_plan(problem: Problem, budget: Budget, solver: MGR) -> Plan:
    """Plan with the paper's formulas and constants of 1 (docs/theory/mgr.md, section 7)."""
    n, p, d = min(problem.group_sizes), problem.n_groups, problem.n_weights
    lipschitz, loss_range = problem.lipschitz, problem.loss_range
    log_delta = math.log(1.0 / budget.delta)
    paper_steps = (problem.diameter * lipschitz + loss_range * math.sqrt(math.log(p))) * (
        n**2 * budget.epsilon**2 / (lipschitz * loss_range * d * log_delta)
    )
    n_steps = max(2, min((solver.max_passes or descent.PASSES) + 1, math.floor(paper_steps)))
    noise = descent.paper_noise(problem, budget, n_steps, union=n_steps)
    feedback_bound = loss_range  # largest noisy risk, with high probability
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
