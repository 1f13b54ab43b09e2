"""Plans of least planning bound, calibrated to a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.privacy.accounting import predict_multiplier
from sklearn_dpwg.privacy.noise import SECONDS_PER_SECURE_COORDINATE
from sklearn_dpwg.solvers.centring import (
    CentredProblem,
    centred_problem,
    centring_releases,
    check_centring,
    in_words,
    is_worth_centring,
    least_unit,
)
from sklearn_dpwg.solvers.descent.batches import (
    Rates,
    Sampling,
    choose_sampling,
    make_batches,
    seconds_of,
)
from sklearn_dpwg.solvers.descent.releases import GRADIENT, GRADIENT_AND_RISKS, RISKS
from sklearn_dpwg.solvers.descent.rule import (
    MGRParameters,
    RunNoise,
    StepRule,
    noise_of_batches,
    noise_of_passes,
    without_unheard,
)
from sklearn_dpwg.solvers.descent.schedule import Batches, MGRSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import by_loss
from sklearn_dpwg.solvers.steps import CORRECTION, risk_spread

# For predicting time (benchmarks/plan_cost.py): what a fit plans, and what a step takes on top of
# what steps are compared by, whatever the records.
SECONDS_TO_PLAN, SECONDS_TO_PLAN_A_GROUP = 0.01, 4e-5
SECONDS_A_STEP, SECONDS_A_BATCH = 4e-4, 8e-4

# A plan whose secure noise takes so many seconds, and a quarter of the run, says what a run with
# so many times fewer steps would cost.
LONG_NOISE, FEWER_STEPS = 10.0, 4

# Group weights pay for the noise that they bring, at this share of what planning takes it to cost
# from μ = 1 on. Below it noise is no longer small beside what is learned, and costs more than in
# proportion: the share grows with 1/μ, up to this multiple.
NOISE_PRICE, DEAREST = 0.2, 2.0


def least_bound_plan(problem: Problem, budget: Budget, parameters: MGRParameters) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the parameters leave open."""
    learned = problem
    if is_centred(problem, parameters):
        learned = centred_problem(problem, unit=least_unit(problem.loss))
    sampling = choose_sampling(learned, budget, parameters)
    is_open = parameters.loss_ceiling is None and _adapts(problem, parameters)
    may_raise = is_open and sampling.is_full
    rule = StepRule.of(learned, parameters, sampling.n_steps, may_raise=may_raise)
    make = _plan_of_passes if sampling.is_full else _plan_of_batches
    plan = make(problem, rule, budget, parameters, sampling)
    return _with_cheaper(plan, problem, budget, parameters)


def _with_cheaper(plan: Plan, problem: Problem, budget: Budget, parameters: MGRParameters) -> Plan:
    """Return a plan that says what fewer steps cost, where secure noise is much of a long run."""
    noise = plan.n_steps * problem.n_weights * SECONDS_PER_SECURE_COORDINATE
    n_steps = plan.n_steps // FEWER_STEPS
    if parameters.n_steps is not None or n_steps < 1 or noise < LONG_NOISE:
        return plan
    if noise < plan.predicted_seconds / 4.0:
        return plan
    fewer = copy(parameters)
    fewer.n_steps = n_steps
    other = least_bound_plan(problem, budget, fewer)
    assert isinstance(plan.schedule, MGRSchedule)
    told = (
        f"noise on {problem.n_weights:,} weights takes {noise:.2g} of about "
        f"{plan.predicted_seconds:.2g} seconds: MGR(n_steps={n_steps}) takes about "
        f"{other.predicted_seconds:.2g} and has a bound of {other.predicted_excess:.3g} instead "
        f"of {plan.predicted_excess:.3g}"
    )
    remark = "; ".join(each for each in (plan.schedule.remark, told) if each)
    return replace(plan, schedule=replace(plan.schedule, remark=remark))


def is_centred(problem: Problem, parameters: MGRParameters) -> bool:
    """Return whether rows are centred: as asked for, or where it is worth its price."""
    if parameters.centring:
        check_centring(problem, "MGR")
    if parameters.centring is not None:
        return parameters.centring
    return parameters.step_size is None and is_worth_centring(problem)


def _plan_of_passes(
    problem: Problem, rule: StepRule, budget: Budget, parameters: MGRParameters, sampling: Sampling
) -> Plan:
    """Plan for steps that read every record."""
    n_steps, b = rule.n_steps, rule.feedback_range
    before = _releases_before(rule, math.sqrt(n_steps))
    left = 1.0 - sum(1.0 / release.noise_multiplier**2 for release in before) / n_steps
    risk_share = rule.best_share(
        lambda share: noise_of_passes(
            rule.problem, mu=math.sqrt(left) * budget.mu, risk_share=share, feedback_range=b
        ),
        parameters.risk_share,
    )
    multipliers = [math.sqrt(1.0 / (left * (1.0 - risk_share)))]
    releases = [Release(GRADIENT, "gaussian", multipliers[0], n_steps)]
    if problem.n_groups > 1:
        multipliers.append(math.sqrt(1.0 / (left * risk_share)))
        releases.append(Release(RISKS, "gaussian", multipliers[1], n_steps))
    calibrated = calibrate([*before, *releases], budget)
    of_steps = calibrated[len(before) :]
    # the μ and share of the calibrated noise
    mu = math.sqrt(n_steps) / of_steps[0].noise_multiplier
    risk_stds, multiplier = np.zeros(problem.n_groups), 0.0
    if problem.n_groups > 1:
        multiplier = of_steps[1].noise_multiplier
        mu_of_risks = math.sqrt(n_steps) / multiplier
        mu = math.hypot(mu, mu_of_risks)
        risk_share = (mu_of_risks / mu) ** 2
        risk_stds = multiplier * b / np.array(problem.group_sizes)
    noise = noise_of_passes(rule.problem, mu=mu, risk_share=risk_share, feedback_range=b)
    scale = rule.group_rate_at(noise) * risk_stds
    schedule = _schedule(
        rule,
        parameters,
        budget,
        gradient_multiplier=of_steps[0].noise_multiplier,
        risk_multiplier=multiplier,
        group_rate=rule.group_rate_at(noise),
        noise_correction=_floats(CORRECTION * (scale**2 / 2.0)),
        remark=sampling.remark,
    )
    return plan_of_schedule(problem, budget, calibrated, schedule, rule.bound(noise))


def _plan_of_batches(
    problem: Problem, rule: StepRule, budget: Budget, parameters: MGRParameters, sampling: Sampling
) -> Plan:
    """Plan for steps that read Poisson batches; one joint release a step."""
    n_steps = rule.n_steps
    name = GRADIENT_AND_RISKS if problem.n_groups > 1 else GRADIENT
    before, releases = _calibrated_by_part(
        _releases_before(rule, budget.mu), sampling.rates, n_steps, name, budget
    )
    multipliers = {release.sampling_rate: release.noise_multiplier for release in releases}

    def batches_at(share: float) -> Batches:
        return make_batches(rule, sampling.rates, multipliers, share)

    def noise_at(share: float) -> RunNoise:
        batches, n_weights = batches_at(share), problem.n_weights
        noise = noise_of_batches(batches, n_steps=n_steps, n_weights=n_weights)
        return without_unheard(noise, problem)

    risk_share = rule.best_share(noise_at, parameters.risk_share)
    batches, noise = batches_at(risk_share), noise_at(risk_share)
    group_rate = rule.group_rate_at(noise)
    correction = np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        correction = batches.log_mean_exp_of_coins(group_rate)
        correction += (group_rate * batches.risk_stds) ** 2 / 2.0
    schedule = _schedule(
        rule,
        parameters,
        budget,
        gradient_multiplier=0.0,
        risk_multiplier=0.0,
        group_rate=group_rate,
        noise_correction=_floats(CORRECTION * correction),
        batches=batches,
        remark=sampling.remark,
    )
    return plan_of_schedule(problem, budget, [*before, *releases], schedule, rule.bound(noise))


def _releases_before(rule: StepRule, mu: float) -> tuple[Release, ...]:
    """Return what is released before the first step, at its shares of μ²."""
    return centring_releases(mu) if isinstance(rule.problem, CentredProblem) else ()


def _calibrated_by_part(
    before: Sequence[Release], rates: Rates, n_steps: int, name: str, budget: Budget
) -> tuple[list[Release], list[Release]]:
    """Return what comes before the steps, and a release for each rate, in falling order.

    A record pays for one rate, which is calibrated together with what comes before: that has the
    largest noise which any of the rates asks for. No part is named if there is one rate only.
    """
    distinct = sorted(set(rates), reverse=True)
    releases: list[Release] = []
    loudest = list(before)
    for part, rate in enumerate(distinct):
        guess = predict_multiplier(n_steps, rate, budget)
        of_part = part if len(distinct) > 1 else None
        release = Release(name, "gaussian", guess, n_steps, part=of_part, sampling_rate=rate)
        *calibrated, release = calibrate([*before, release], budget)
        releases.append(release)
        loudest = [
            max(pair, key=lambda each: each.noise_multiplier)
            for pair in (
                zip(loudest, calibrated, strict=True) if part else zip(calibrated, strict=True)
            )
        ]
    return loudest, releases


def noise_price(rule: StepRule, budget: Budget) -> float:
    """Return what the group player pays for a unit of noise on the mean gradient."""
    share = NOISE_PRICE * min(max(1.0, 1.0 / budget.mu), DEAREST)
    return share * rule.aim / (2.0 * by_loss(rule.problem.loss).step_share)


def _schedule(
    rule: StepRule, parameters: MGRParameters, budget: Budget, **others: Any
) -> MGRSchedule:
    """Return a schedule of the rule's limits; `others` follow from the noise."""
    of_loss, adapts = by_loss(rule.problem.loss), _adapts(rule.problem, parameters)
    follows_level = adapts and parameters.loss_ceiling is None and others.get("batches") is None
    return MGRSchedule(
        step="weighted",
        n_steps=rule.n_steps,
        gradient_diameter=rule.sums.gradient_diameter,
        ceiling=rule.ceiling,
        feedback_range=rule.feedback_range,
        grid=rule.sums.grid,
        prior=rule.problem.prior,
        aim=0.0 if rule.is_fixed else rule.aim,
        step_size=rule.step_size,
        longest_step=rule.longest_step,
        max_momentum=rule.max_momentum,
        averaged=max(1, round(parameters.averaging * rule.n_steps)),
        step_share=of_loss.step_share,
        adapts=adapts,
        assumed_spread=risk_spread(rule.problem),
        noise_price=noise_price(rule, budget),
        ceiling_of_level=of_loss.ceiling_of_level if follows_level else math.inf,
        raised_ceiling=rule.raised_ceiling,
        raised_range=rule.sums.loss_range,
        shrinks=adapts and of_loss.shrinks,
        centring=in_words(rule.problem.loss) if isinstance(rule.problem, CentredProblem) else "",
        **_of_hidden_groups(rule.problem),
        **others,
    )


def _of_hidden_groups(problem: Problem) -> dict[str, Any]:
    """Return the fields of a schedule that are there where groups are hidden."""
    if problem.hidden is None:
        return {}
    ratios = problem.hidden.count_std / np.asarray(problem.group_sizes, dtype=float)
    return {
        "lowest_loss": problem.constants.infimum,
        "ratio_stds": _floats(ratios),
        "heard": tuple(bool(each) for each in problem.is_heard),
    }


def _adapts(problem: Problem, parameters: MGRParameters) -> bool:
    """Return whether group weights follow the spread of the risks and pay for noise."""
    return parameters.group_rate is None and problem.n_groups > 1


def _floats(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def plan_of_schedule(
    problem: Problem,
    budget: Budget,
    releases: Sequence[Release],
    schedule: MGRSchedule,
    bounds: FloatArray,
) -> Plan:
    """Return the plan of a schedule."""
    rates = (1.0,) * problem.n_groups if schedule.batches is None else schedule.batches.rates
    return Plan.of(
        "mgr",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=schedule.n_steps,
        seconds=seconds_of(problem, rates, schedule.n_steps)
        + schedule.n_steps * (SECONDS_A_STEP if schedule.batches is None else SECONDS_A_BATCH),
        seconds_to_plan=SECONDS_TO_PLAN + problem.n_groups * SECONDS_TO_PLAN_A_GROUP,
    )
