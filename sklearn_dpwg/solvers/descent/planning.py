"""Plans of the family: of least planning bound, and with noise by the papers' formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem, with_equal_groups
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.accounting import predict_multiplier
from sklearn_dpwg.privacy.noise import SECONDS_PER_SECURE_COORDINATE
from sklearn_dpwg.privacy.sensitivity import weighting_slack
from sklearn_dpwg.privacy.statement import rounded_up
from sklearn_dpwg.solvers import centring
from sklearn_dpwg.solvers.centring import CentredProblem, SlopeLimit
from sklearn_dpwg.solvers.descent.releases import GRADIENT, GRADIENT_AND_RISKS, RISKS
from sklearn_dpwg.solvers.descent.rule import (
    Batches,
    DescentSchedule,
    HedgeRule,
    MGRParameters,
    MGRSchedule,
    RunNoise,
    StepRule,
)
from sklearn_dpwg.solvers.plan import Plan, first_of_least, predict_seconds
from sklearn_dpwg.solvers.solver import by_loss, signal
from sklearn_dpwg.solvers.steps import CORRECTION, PRICE_BINDS, SumSensitivity, risk_spread

# Choice between full passes and Poisson batches.

Rates = tuple[float, ...]

# Root of the mean squared norm of a record's gradient, as a share of the Lipschitz constant, that
# step sizes on batches are planned for (benchmarks/mgr_sampling.py prints what it is on data).
GRADIENT_SPREAD = 0.4

# Planned rates are powers of two, so that few different ones are accounted for; batches are
# planned from one half of the records down to this power of one half.
SMALLEST_BATCH = 12

# No batches are planned beyond these, where the accountant of sampled releases is slow or cannot
# resolve δ; the errors of its Fourier transforms add up to steps times 2^-53.
LARGEST_EPSILON = 20.0
LARGEST_STEPS = 50_000
LEAST_DELTA_PER_STEP = 2.0**-50

# Batches are planned only where their bound is below this share of that of full passes. Bounds tell
# less than half of it: at 0.48 to 0.63 full passes lose less on the census, at 0.51 to 0.66 batches
# on made data (benchmarks/mgr_sampling.py). For full passes more can be stated, such as the
# guarantee for several rows of a person.
CLEAR_ADVANTAGE = 0.5

# One calibration by privacy-loss distributions.
SECONDS_PER_ACCOUNT = 0.5

# Passes of a planned run: where there is little noise, steps would be the limit; their number grows
# with the root of the `signal` from here on, as far as they take no more than so many seconds, and
# the fewest do in any case. Batches are planned only where a limit on time does not allow for 40.
PASSES, MOST_PASSES, PASSES_BIND = 150, 1_000, 2_000.0
ENOUGH_SECONDS, FEWEST_PASSES, PASSES_BEFORE_BATCHES = 10.0, 60, 40


def most_passes(problem: Problem, parameters: Any, signal: float) -> int:
    """Return the most passes that a run may take: what the user set, or as noise deserves."""
    if parameters.max_passes is not None:
        return int(parameters.max_passes)
    deserved = min(PASSES * math.sqrt(max(1.0, signal / PASSES_BIND)), MOST_PASSES)
    in_time = ENOUGH_SECONDS / seconds_of(problem, (1.0,) * problem.n_groups, 1)
    return int(min(deserved, max(in_time, FEWEST_PASSES)))


class Sampling(NamedTuple):
    """Records that the steps of a plan read."""

    rates: Rates  # rate of each group; all 1 for full passes
    n_steps: int  # steps T
    remark: str = ""  # how it was chosen, for people; empty where nothing was to be chosen

    @property
    def is_full(self) -> bool:
        """Whether every step reads all records."""
        return all(rate == 1.0 for rate in self.rates)


class Option(NamedTuple):
    """A way to sample, and its planning bound."""

    bound: float  # prior average of the planning bound, with noise as it is predicted
    sampling: Sampling  # rates and steps


def seconds_of(problem: Problem, rates: Rates, n_steps: int) -> float:
    """Return the expected seconds of a run on two cores, with the calibration of its noise."""
    sampled = {rate for rate in rates if rate < 1.0}
    has_risks = problem.n_groups > 1
    n_draws = 2 if has_risks and not sampled else 1
    n_coordinates = problem.n_weights + (problem.n_groups if has_risks else 0)
    return len(sampled) * SECONDS_PER_ACCOUNT + predict_seconds(
        problem,
        n_steps,
        n_draws=n_steps * n_draws,
        n_coordinates=n_steps * n_coordinates,
        batch_size=batch_size(problem, rates) if sampled else None,
    )


def batch_size(problem: Problem, rates: Rates) -> float:
    """Return how many records a step is expected to read; where groups overlap, each once."""
    if problem.cells is not None:
        return float(rates[0] * problem.n_records)
    return float(np.dot(rates, problem.group_sizes))


def planned_rates(problem: Problem, share: float) -> Rates:
    """Return rates for batches of about a share of all records.

    Expected numbers are in proportion to √π_i, which for a given batch size make the prior average
    of the coins' variances ``Σ π_i / (q_i n_i)`` least; each rate is raised to the next power of
    two, at most 1. Groups that are hidden or overlap all have the share itself: a record pays for
    one rate, whatever its groups.
    """
    if problem.hidden is not None or problem.cells is not None:
        return (share,) * problem.n_groups
    roots = np.sqrt(np.asarray(problem.prior))
    wanted = share * problem.n_records * roots / roots.sum() / np.asarray(problem.group_sizes)
    return tuple(float(rate) for rate in np.minimum(1.0, 2.0 ** np.ceil(np.log2(wanted))))


def resolve_rates(sampling_rate: float | Sequence[float] | None, n_groups: int) -> Rates | None:
    """Return the rate of each group, or None where it is to be planned; refuse what is no rate."""
    if sampling_rate is None:
        return None
    rule = "sampling_rate of MGR must be above 0, at most 1, one number or one a group"
    if isinstance(sampling_rate, str | bytes | Mapping):
        raise InputError(f"{rule}, got {sampling_rate!r}.")
    given: list[Any] = (
        list(sampling_rate) if isinstance(sampling_rate, Iterable) else [sampling_rate] * n_groups
    )
    if len(given) != n_groups:
        raise InputError(f"{rule}, {n_groups} here, got {len(given)}: {sampling_rate!r}.")
    for rate in given:
        if isinstance(rate, bool | np.bool_) or not isinstance(rate, Real) or not 0.0 < rate <= 1.0:  # type: ignore[operator]
            raise InputError(f"{rule}, got {sampling_rate!r}.")
    return tuple(float(rate) for rate in given)


def choose_sampling(problem: Problem, budget: Budget, parameters: MGRParameters) -> Sampling:
    """Choose between full passes and Poisson batches, and the number of steps.

    A run may read `max_passes` times the records, and take no longer than so many full passes
    are predicted to take or, if that is less, `max_seconds`. Steps are as many as these limits
    allow; where they allow for none, or not for those asked for, the limit is refused. Where
    `sampling_rate` is open too, and time does not allow for `PASSES_BEFORE_BATCHES`, full passes
    are compared with batches of one half of the records, a quarter and so on, with the rates of
    `planned_rates`; those with the least planning bound are taken, with noise as
    `predict_multiplier` has it; but full passes unless the bound of batches is below
    `CLEAR_ADVANTAGE` of theirs.

    Where groups are hidden the choice is made as for groups of equal size, so that what is sampled,
    and how often, is fixed before their sizes are released; and all have one rate.
    """
    if problem.hidden is not None:
        problem = with_equal_groups(problem)
        if isinstance(problem, CentredProblem):  # whose limit follows from sizes
            whitening = problem.limit.whitening
            planned = SlopeLimit.of(problem.loss, signal(problem, budget), whitening)
            problem = replace(problem, limit=planned, clip=planned.longest, unit=planned.least_unit)
    rates = resolve_rates(parameters.sampling_rate, problem.n_groups)
    full = (1.0,) * problem.n_groups
    limit = math.inf if parameters.max_seconds is None else float(parameters.max_seconds)
    passes = most_passes(problem, parameters, signal(problem, budget))
    in_time = parameters.n_steps or min(passes, PASSES_BEFORE_BATCHES)
    is_short = seconds_of(problem, full, in_time) > limit
    if rates is None and is_short and budget.epsilon <= LARGEST_EPSILON:
        if parameters.n_steps is None:
            limit = min(limit, seconds_of(problem, full, passes))
        found = [one for one in options(problem, budget, parameters, limit) if one.sampling.n_steps]
        if found:
            return _better(problem, found)
    else:
        chosen = full if rates is None else rates
        if parameters.n_steps is None:
            accounts = seconds_of(problem, chosen, 0)
            limit = min(limit, seconds_of(problem, full, passes) + accounts)
        n_steps = _affordable_steps(problem, chosen, parameters, limit, passes)
        sampling = Sampling(chosen, n_steps)
        if sampling.n_steps > 0:
            return sampling
    n_steps = parameters.n_steps or 1
    raise InputError(
        f"max_seconds of MGR must allow for {n_steps:,} step(s), predicted to take "
        f"{seconds_of(problem, rates or full, n_steps):.2g} seconds, got "
        f"{parameters.max_seconds!r}."
    )


def options(
    problem: Problem, budget: Budget, parameters: MGRParameters, limit: float
) -> list[Option]:
    """Return full passes, with no steps if none fits into the seconds, then batches that fit."""
    full = (1.0,) * problem.n_groups
    found = signal(problem, budget)
    passes = most_passes(problem, parameters, found)
    n_steps = _affordable_steps(problem, full, parameters, limit, passes)
    rule = HedgeRule.of(problem, parameters, max(1, n_steps), signal=found)
    share = rule.best_share(lambda at: rule.noise_of_passes(budget.mu, at))
    bound = rule.excess(rule.noise_of_passes(budget.mu, share))
    ways = [Option(bound, Sampling(full, n_steps))]
    seen = {full}
    for halvings in range(1, SMALLEST_BATCH + 1):
        rates = planned_rates(problem, 0.5**halvings)
        if rates in seen:
            continue
        seen.add(rates)
        n_steps = _affordable_steps(problem, rates, parameters, limit, passes)
        if parameters.n_steps is None:
            n_steps = min(n_steps, LARGEST_STEPS)
        if 0 < n_steps <= min(LARGEST_STEPS, budget.delta / LEAST_DELTA_PER_STEP):
            rule = HedgeRule.of(problem, parameters, n_steps, signal=found)
            multipliers = {rate: predict_multiplier(n_steps, rate, budget) for rate in set(rates)}
            noise = rule.noise_of_batches(make_batches(rule, rates, multipliers, share))
            ways.append(Option(rule.excess(noise), Sampling(rates, n_steps)))
    return ways


def _affordable_steps(
    problem: Problem, rates: Rates, parameters: MGRParameters, limit: float, passes: int
) -> int:
    """Return the planned number of steps, 0 if even one, or those asked for, do not fit."""
    fixed = seconds_of(problem, rates, 0)
    slack = 1.0 + 1e-9  # of the division
    in_time = (limit - fixed) / (seconds_of(problem, rates, 1) - fixed) * slack
    if parameters.n_steps is not None:
        return parameters.n_steps if parameters.n_steps <= in_time else 0
    passes_a_step = 1.0 if min(rates) == 1.0 else batch_size(problem, rates) / problem.n_records
    return max(0, math.floor(min(in_time, passes / passes_a_step * slack)))


def _better(problem: Problem, found: list[Option]) -> Sampling:
    """Return the sampling of the least bound; batches only where that is clearly less."""
    passes = [option for option in found if option.sampling.is_full]
    batches = [option for option in found if not option.sampling.is_full]
    if not passes or not batches:
        name, other = ("full passes", "batches") if passes else ("Poisson batches", "full passes")
        remark = f"chosen: {name}, as no {other} fit into the same time"
        best = first_of_least(found, lambda option: option.bound)
        return best.sampling._replace(remark=remark)
    kinds = [passes[0], first_of_least(batches, lambda option: option.bound)]
    texts = [
        f"{name} (bound {bound:.3g} with {sampling.n_steps:,} steps in "
        f"{seconds_of(problem, sampling.rates, sampling.n_steps):.2g} seconds)"
        for name, (bound, sampling) in zip(("full passes", "Poisson batches"), kinds, strict=True)
    ]
    if kinds[1].bound < CLEAR_ADVANTAGE * kinds[0].bound:
        kinds.reverse()
        texts.reverse()
    return kinds[0].sampling._replace(remark=f"chosen: {texts[0]} over {texts[1]}")


def make_batches(
    rule: StepRule, rates: Rates, multipliers: Mapping[float, float], risk_share: float
) -> Batches:
    """Return the batches of a run, the noise multiplier of each rate given.

    Groups of one rate are one part; the parts are in order of falling rate.
    """
    problem, sums = rule.problem, rule.sums
    part_of = {rate: part for part, rate in enumerate(sorted(set(rates), reverse=True))}
    bounds = [sums.gradient_diameter if rate == 1.0 else 2.0 * sums.gradient_norm for rate in rates]
    of_groups = [multipliers[rate] for rate in rates]
    # the largest norms of weighted sums and of risks in units of the noise, over the records
    largest = sums.gradient_norm / float(np.multiply(of_groups, bounds).min())
    return Batches(
        group_sizes=problem.group_sizes,
        rates=rates,
        parts=tuple(part_of[rate] for rate in rates),
        multipliers=tuple(of_groups),
        gradient_bounds=tuple(bounds),
        feedback_range=sums.loss_range,
        center=sums.center,
        # of what is rounded before the change of variables, as sums of full passes pay for it
        rounding=2.0
        * problem.rounding_factor
        * weighting_slack(
            largest + 1.0 / min(of_groups),
            n_records=problem.n_records,
            n_groups=problem.roundings_of_a_mean,
        ),
        risk_share=risk_share,
        gradient_spread=GRADIENT_SPREAD * problem.lipschitz,
        cells=problem.cells,
    )


class Cost(NamedTuple):
    """Seconds beside passes and noise, whatever the records (benchmarks/plan_cost.py)."""

    a_step: float
    to_plan: float = 0.0  # what a fit plans
    to_plan_a_group: float = 0.0


def plan_of(
    solver: str,
    problem: Problem,
    budget: Budget,
    releases: Sequence[Release],
    schedule: DescentSchedule,
    bounds: FloatArray,
    cost: Cost,
    *,
    rates: Rates | None = None,
) -> Plan:
    """Return the plan of a schedule, whose steps read every record or batches of these rates."""
    n_steps = schedule.n_steps
    seconds = seconds_of(problem, rates or (1.0,) * problem.n_groups, n_steps)
    return Plan.of(
        solver,
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=n_steps,
        seconds=seconds + n_steps * cost.a_step,
        seconds_to_plan=cost.to_plan + problem.n_groups * cost.to_plan_a_group,
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
    limit = SlopeLimit.of(problem.loss, signal(problem, budget), by)
    return centring.centred_problem(problem, limit, unit=limit.least_unit)


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
        "grid": sums.grid,
        "prior": (1.0 / problem.n_groups,) * problem.n_groups,
    }


# The plan of multiplicative group reweighting, on all records or on batches.

# What a step costs on top of what steps are compared by.
COST_OF_PASSES = Cost(4e-4, 0.01, 4e-5)
COST_OF_BATCHES = COST_OF_PASSES._replace(a_step=8e-4)

# A plan whose secure noise takes so many seconds, and a quarter of the run, says what a run with
# so many times fewer steps would cost.
LONG_NOISE, FEWER_STEPS = 10.0, 4

# Group weights pay for the noise that they bring, at this share of what planning takes it to cost
# from μ = 1 on. Below it noise is no longer small beside what is learned, and costs more than in
# proportion: the share grows with 1/μ, up to this multiple.
# Where there is little, it costs in proportion to its square: the share falls with the `signal`
# from here on.
NOISE_PRICE, DEAREST = 0.2, 2.0


def least_bound_plan(problem: Problem, budget: Budget, parameters: MGRParameters) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the parameters leave open."""
    found = signal(problem, budget)
    learned = learned_problem(problem, parameters, budget)
    sampling = choose_sampling(learned, budget, parameters)
    is_open = parameters.loss_ceiling is None and _adapts(problem, parameters)
    may_raise = is_open and sampling.is_full
    rule = HedgeRule.of(learned, parameters, sampling.n_steps, signal=found, may_raise=may_raise)
    make = _plan_of_passes if sampling.is_full else _plan_of_batches
    plan = make(problem, rule, budget, sampling)
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


def _plan_of_passes(problem: Problem, rule: HedgeRule, budget: Budget, sampling: Sampling) -> Plan:
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
    schedule = _schedule(rule, noise, budget, scale**2 / 2.0, remark=sampling.remark)
    bounds = rule.bound(noise)
    return plan_of("mgr", problem, budget, releases, schedule, bounds, COST_OF_PASSES)


def _plan_of_batches(problem: Problem, rule: HedgeRule, budget: Budget, sampling: Sampling) -> Plan:
    """Plan for steps that read Poisson batches; one joint release a step."""
    name = GRADIENT_AND_RISKS if problem.n_groups > 1 else GRADIENT
    before, releases = _calibrated_by_part(
        centring.releases_before(rule.problem, budget.mu),
        sampling.rates,
        rule.n_steps,
        name,
        budget,
    )
    multipliers = {release.sampling_rate: release.noise_multiplier for release in releases}

    def batches_at(share: float) -> Batches:
        return make_batches(rule, sampling.rates, multipliers, share)

    def noise_at(share: float) -> RunNoise:
        return _without_unheard(rule.noise_of_batches(batches_at(share)), problem)

    share = rule.best_share(noise_at)
    batches, noise = batches_at(share), noise_at(share)
    rate = rule.group_rate_at(noise)
    of_noise = np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        of_noise = batches.log_mean_exp_of_coins(rate) + (rate * batches.risk_stds) ** 2 / 2.0
    schedule = _schedule(rule, noise, budget, of_noise, batches=batches, remark=sampling.remark)
    return plan_of(
        "mgr",
        problem,
        budget,
        [*before, *releases],
        schedule,
        rule.bound(noise),
        COST_OF_BATCHES,
        rates=sampling.rates,
    )


def _without_unheard(noise: RunNoise, problem: Problem) -> RunNoise:
    """Return the noise that plans count: next to none for groups that no weight is moved to."""
    if problem.hidden is None:
        return noise
    squares = (np.asarray(problem.group_sizes) / problem.sizes_to_plan_for) ** 2
    return RunNoise(noise.gradient * squares, noise.risk * squares[: len(noise.risk)])


def _calibrated_by_part(
    before: Sequence[Release], rates: Rates, n_steps: int, name: str, budget: Budget
) -> tuple[list[Release], list[Release]]:
    """Return what comes before the steps, and a release for each rate, in falling order.

    A record pays for one rate, which is calibrated together with what comes before: that has the
    largest noise which any of the rates asks for. No part is named if there is one rate only.
    """
    distinct = sorted(set(rates), reverse=True)
    calibrated = []
    for part, rate in enumerate(distinct):
        guess = predict_multiplier(n_steps, rate, budget)
        of_part = part if len(distinct) > 1 else None
        release = Release(name, "gaussian", guess, n_steps, part=of_part, sampling_rate=rate)
        calibrated.append(calibrate([*before, release], budget))
    loudest = [
        max(each, key=lambda release: release.noise_multiplier)
        for each in zip(*(releases[:-1] for releases in calibrated), strict=True)
    ]
    return loudest, [releases[-1] for releases in calibrated]


def quietness(problem: Problem, budget: Budget) -> float:
    """Return how many times the `signal` is that from which on a price of noise falls, or 1."""
    return max(1.0, signal(problem, budget) / PRICE_BINDS)


def noise_price(rule: StepRule, budget: Budget) -> float:
    """Return what the group player pays for a unit of noise on the mean gradient."""
    share = NOISE_PRICE * min(max(1.0, 1.0 / budget.mu), DEAREST)
    share /= quietness(rule.problem, budget)
    return share * rule.aim / (2.0 * rule.step_share)


def _schedule(
    rule: HedgeRule, noise: RunNoise, budget: Budget, log_mean_exp: FloatArray, **others: Any
) -> MGRSchedule:
    """Return a schedule for the noise, and log E exp of what it adds to the groups' exponents."""
    problem, parameters = rule.problem, rule.parameters
    of_loss = by_loss(problem.loss, signal(problem, budget))
    adapts = _adapts(problem, parameters)
    follows_level = adapts and parameters.loss_ceiling is None and others.get("batches") is None
    return MGRSchedule(
        **rule.planned(),
        **_of_hidden_groups(problem),
        step="weighted",
        group_rate=rule.group_rate_at(noise),
        noise_correction=() if adapts else _floats(CORRECTION * log_mean_exp),
        adapts=adapts,
        forgets=adapts and of_loss.forgets,
        assumed_spread=risk_spread(problem),
        noise_price=noise_price(rule, budget),
        sampling_price=problem.price_of_sampling(budget.mu) if adapts else 0.0,
        max_group_weight=problem.max_group_weight,
        quiet=quietness(problem, budget),
        ceiling_of_level=of_loss.ceiling_of_level if follows_level else math.inf,
        raised_ceiling=rule.raised_ceiling,
        raised_range=rule.sums.loss_range,
        shrinks=adapts and of_loss.shrinks,
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
