"""Plans of the family: of least planning bound, and with noise by the papers' formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.accounting.calibration import predict_multiplier
from sklearn_dpwg.privacy.sensitivity.sums import weighting_slack
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import centring
from sklearn_dpwg.solvers.centring import SlopeLimit
from sklearn_dpwg.solvers.descent.releases import GRADIENT, GRADIENT_AND_RISKS, RISKS
from sklearn_dpwg.solvers.descent.rule import (
    Batches,
    HedgeRule,
    MGRParameters,
    MGRSchedule,
    RunNoise,
    StepRule,
)
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import by_loss, signal
from sklearn_dpwg.solvers.steps import CORRECTION, SumSensitivity, risk_spread

# Steps, on full passes or on Poisson batches.

# Root of the mean squared norm of a record's gradient, as a share of the Lipschitz constant, that
# step sizes on batches are planned for.
GRADIENT_SPREAD = 0.4

# Passes of a planned run of `AGS` and `GDA`, and the most of a paper's schedule.
PASSES = 150
# No more steps on batches are planned: accounting for them takes long.
MOST_BATCHES = 50_000


def planned_steps(problem: Problem, parameters: MGRParameters) -> int:
    """Return the number of steps: what the user set, or what reads the records so many times."""
    if parameters.n_steps is not None:
        return parameters.n_steps
    passes = parameters.max_passes or by_loss(problem.loss).passes
    return min(round(passes / parameters.sampling_rate), MOST_BATCHES)


def make_batches(rule: StepRule, rate: float, multiplier: float, risk_share: float) -> Batches:
    """Return the batches of a run."""
    problem, sums = rule.problem, rule.sums
    # the largest norms of weighted sums and of risks in units of the noise, over the records
    largest = sums.gradient_norm / (multiplier * (2.0 * sums.gradient_norm))
    return Batches(
        group_sizes=problem.group_sizes,
        rate=rate,
        multiplier=multiplier,
        gradient_bound=2.0 * sums.gradient_norm,
        feedback_range=sums.loss_range,
        center=sums.center,
        # of what is rounded before the change of variables, as sums of full passes pay for it
        rounding=2.0
        * problem.rounding_factor
        * weighting_slack(
            largest + 1.0 / multiplier,
            n_records=problem.n_records,
            n_groups=problem.roundings_of_a_mean,
        ),
        risk_share=risk_share,
        gradient_spread=GRADIENT_SPREAD * problem.lipschitz,
        cells=problem.cells,
    )


# Least planning bound, calibrated to a budget.


def learned_problem(problem: Problem, parameters: Any, budget: Budget) -> Problem:
    """Return what the weights are learned for: the problem, or that of centred or whitened rows.

    Rows are centred, and whitened, as asked for, or where planned steps are worth the price.
    """
    wanted, white = parameters.centring, getattr(parameters, "whitening", False)
    if wanted:
        centring.check_centring(problem, parameters.rules.owner)
    if wanted is None:
        is_fixed = getattr(parameters, "step_size", None) is not None
        wanted = not is_fixed and centring.is_worth_centring(problem)
    if not wanted:
        if white:
            raise InputError(
                f"whitening of {parameters.rules.owner} must be None or False where rows are not "
                "centred, got True."
            )
        return problem
    by = ""
    if white or (white is None and by_loss(problem.loss).whitens):
        by = centring.planned_whitening(problem, math.inf if white else budget.mu)
    limit = SlopeLimit(by_loss(problem.loss, signal(problem, budget)).clip_share, by)
    return centring.centred_problem(problem, limit)


def pay_for_passes(
    rule: StepRule, budget: Budget, *, gradient: str = GRADIENT
) -> tuple[tuple[Release, ...], RunNoise]:
    """Share a budget among what comes before the steps, gradients and group risks.

    The noise is that of the budget, which calibration rounds.
    """
    n_steps, visits = rule.n_steps, rule.visits
    before = centring.releases_before(rule.problem, math.sqrt(n_steps))
    left = 1.0 - sum(1.0 / release.noise_multiplier**2 for release in before) / n_steps
    mu = math.sqrt(left) * budget.mu
    share = rule.best_share(lambda at: rule.noise_of_passes(mu, at))
    wanted = math.sqrt(visits / n_steps / (left * (1.0 - share)))
    some = visits if visits < n_steps else None
    releases = [Release(gradient, "gaussian", wanted, n_steps, draws_per_record=some)]
    if rule.problem.n_groups > 1:
        releases.append(Release(RISKS, "gaussian", math.sqrt(1.0 / (left * share)), n_steps))
    calibrated = calibrate([*before, *releases], budget)
    return calibrated, rule.noise_of_passes(mu, share)


# Noise by the papers' formulas.


class PaperNoise(NamedTuple):
    """Noise by a paper's formulas: constants 1, or all noise times the least affordable factor."""

    releases: Sequence[Release]
    tau: float  # noise on the risks of the smallest group
    fields: dict[str, Any]  # of a schedule
    regret: float  # of the weights

    @classmethod
    def of(
        cls,
        problem: Problem,
        budget: Budget,
        n_steps: int,
        sigma: float,
        tau: float,
        *,
        taken: int,
        gradient: str = GRADIENT,
    ) -> PaperNoise:
        """Return σ on gradients and τ on risks of steps of which some number is taken.

        They are those of the smallest group; a larger one needs less in proportion to its size.
        """
        n, sums = min(problem.group_sizes), paper_sums(problem)
        releases: Sequence[Release] = [
            Release(gradient, "gaussian", sigma * n / sums.gradient_diameter, taken)
        ]
        if problem.n_groups > 1:
            releases = [*releases, Release(RISKS, "laplace", tau * n / sums.loss_range, taken)]
        true_epsilon = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
        factor = 1.0
        if true_epsilon > budget.epsilon:
            affordable = calibrate(releases, budget)
            factor = affordable[0].noise_multiplier / releases[0].noise_multiplier
            releases = affordable
        square = problem.lipschitz**2 + problem.n_weights * (sigma * factor) ** 2
        step_size = problem.diameter / math.sqrt(n_steps * square)
        fields = paper_fields(problem, sums, taken, averaged=n_steps, step_size=step_size)
        fields["remark"] = (
            f"the paper's noise with constant 1 costs epsilon = {rounded_up(true_epsilon)}; factor "
            f"on both noises: {factor:.4g}"
        )
        regret = problem.diameter * math.sqrt(square / n_steps)
        return cls(releases, tau * factor, fields, regret)


def paper_sums(problem: Problem) -> SumSensitivity:
    """Return what one record moves of the sums where losses have no ceiling."""
    return SumSensitivity.of(problem, ceiling=problem.constants.supremum)


def paper_fields(
    problem: Problem, sums: SumSensitivity, n_steps: int, *, averaged: int, step_size: float
) -> dict[str, Any]:
    """Return the fields of a schedule of plain steps, without a ceiling, for equal groups."""
    return {
        "n_steps": n_steps,
        "aim": 0.0,
        "step_size": step_size,
        "longest_step": step_size,
        "max_momentum": 0.0,
        "averaged": averaged,
        "gradient_diameter": sums.gradient_diameter,
        "ceiling": problem.constants.supremum,
        "feedback_range": sums.loss_range,
        "prior": (1.0 / problem.n_groups,) * problem.n_groups,
        "is_paper": True,
    }


# The plan of multiplicative group reweighting, on all records or on batches.


def least_bound_plan(problem: Problem, budget: Budget, parameters: MGRParameters) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the parameters leave open."""
    found = signal(problem, budget)
    learned = learned_problem(problem, parameters, budget)
    rule = HedgeRule.of(learned, parameters, planned_steps(problem, parameters), signal=found)
    make = _plan_of_passes if parameters.sampling_rate == 1.0 else _plan_of_batches
    return make(problem, rule, budget)


def _plan_of_passes(problem: Problem, rule: HedgeRule, budget: Budget) -> Plan:
    """Plan for steps that read every record, by the μ and share of the calibrated noise."""
    releases, _ = pay_for_passes(rule, budget)
    of_steps = releases[-1 if problem.n_groups == 1 else -2 :]
    mu, *of_risks = (math.sqrt(rule.n_steps) / each.noise_multiplier for each in of_steps)
    total, share, risk_stds = math.hypot(mu, *of_risks), 0.0, np.zeros(problem.n_groups)
    if of_risks:
        share = (of_risks[0] / total) ** 2
        of_sum = of_steps[1].noise_multiplier * (rule.feedback_range * problem.loss_noise)
        risk_stds = of_sum / np.array(problem.group_sizes)
    noise = rule.noise_of_passes(total, share)
    scale = rule.group_rate_at(noise) * risk_stds
    schedule, bounds = _schedule(rule, noise, budget, scale**2 / 2.0), rule.bound(noise)
    return Plan.of("mgr", problem, budget, releases=releases, schedule=schedule, bounds=bounds)


def _plan_of_batches(problem: Problem, rule: HedgeRule, budget: Budget) -> Plan:
    """Plan for steps that read Poisson batches; one joint release a step."""
    rate = rule.parameters.sampling_rate
    name = GRADIENT_AND_RISKS if problem.n_groups > 1 else GRADIENT
    guess = predict_multiplier(rule.n_steps, rate, budget)
    of_steps = Release(name, "gaussian", guess, rule.n_steps, sampling_rate=rate)
    before = centring.releases_before(rule.problem, budget.mu)
    releases = calibrate([*before, of_steps], budget)

    def batches_at(share: float) -> Batches:
        return make_batches(rule, rate, releases[-1].noise_multiplier, share)

    def noise_at(share: float) -> RunNoise:
        return _without_unheard(rule.noise_of_batches(batches_at(share)), problem)

    share = rule.best_share(noise_at)
    batches, noise = batches_at(share), noise_at(share)
    group_rate = rule.group_rate_at(noise)
    of_noise = np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        of_noise = batches.log_mean_exp_of_coins(group_rate)
        of_noise = of_noise + (group_rate * batches.risk_stds) ** 2 / 2.0
    schedule = _schedule(rule, noise, budget, of_noise, batches=batches)
    bounds = rule.bound(noise)
    return Plan.of("mgr", problem, budget, releases=releases, schedule=schedule, bounds=bounds)


def _without_unheard(noise: RunNoise, problem: Problem) -> RunNoise:
    """Return the noise that plans count: next to none for groups that no weight is moved to."""
    if problem.hidden is None:
        return noise
    squares = (np.asarray(problem.group_sizes) / problem.sizes_to_plan_for) ** 2
    return RunNoise(noise.gradient * squares, noise.risk * squares[: len(noise.risk)])


def _schedule(
    rule: HedgeRule, noise: RunNoise, budget: Budget, log_mean_exp: FloatArray, **others: Any
) -> MGRSchedule:
    """Return a schedule for the noise, and log E exp of what it adds to the groups' exponents."""
    problem, parameters = rule.problem, rule.parameters
    of_loss = by_loss(problem.loss, signal(problem, budget))
    adapts = parameters.group_rate is None and problem.n_groups > 1
    follows_level = adapts and parameters.loss_ceiling is None and others.get("batches") is None
    return MGRSchedule(
        **rule.planned(),
        lowest_loss=None if problem.hidden is None else problem.constants.infimum,
        step="weighted",
        group_rate=rule.group_rate_at(noise),
        noise_correction=() if adapts else tuple((CORRECTION * log_mean_exp).tolist()),
        adapts=adapts,
        assumed_spread=risk_spread(problem),
        ceiling_of_level=of_loss.ceiling_of_level if follows_level else math.inf,
        shrinks=adapts and of_loss.shrinks,
        **others,
    )
