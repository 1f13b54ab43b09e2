"""Choice between full passes and Poisson batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from sklearn_dpwg.data.problem import Problem, with_equal_groups
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.accounting import predict_multiplier
from sklearn_dpwg.privacy.sensitivity import weighting_slack
from sklearn_dpwg.solvers.descent.rule import HedgeRule, MGRParameters, StepRule
from sklearn_dpwg.solvers.descent.schedule import Batches
from sklearn_dpwg.solvers.plan import first_of_least, predict_seconds

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
        batch_size=float(np.dot(rates, problem.group_sizes)) if sampled else None,
    )


def planned_rates(problem: Problem, share: float) -> Rates:
    """Return rates for batches of about a share of all records.

    Expected numbers are in proportion to √π_i, which for a given batch size make the prior average
    of the coins' variances ``Σ π_i / (q_i n_i)`` least; each rate is raised to the next power of
    two, at most 1. Hidden groups all have the share itself: a record pays for one rate, whatever
    its group.
    """
    if problem.hidden is not None:
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
        raise ValueError(f"{rule}, got {sampling_rate!r}.")
    given: list[Any] = (
        list(sampling_rate) if isinstance(sampling_rate, Iterable) else [sampling_rate] * n_groups
    )
    if len(given) != n_groups:
        raise ValueError(f"{rule}, {n_groups} here, got {len(given)}: {sampling_rate!r}.")
    for rate in given:
        if isinstance(rate, bool | np.bool_) or not isinstance(rate, Real) or not 0.0 < rate <= 1.0:  # type: ignore[operator]
            raise ValueError(f"{rule}, got {sampling_rate!r}.")
    return tuple(float(rate) for rate in given)


def choose_sampling(problem: Problem, budget: Budget, parameters: MGRParameters) -> Sampling:
    """Choose between full passes and Poisson batches, and the number of steps.

    A run may read `max_passes` times the records, and take no longer than so many full passes
    are predicted to take or, if that is less, `max_seconds`. Steps are as many as these limits
    allow; where they allow for none, or not for those asked for, the limit is refused. Where
    `sampling_rate` is open too, full passes are compared with batches of one half of the records, a
    quarter and so on, with the rates of `planned_rates`; those with the least planning bound are
    taken, with noise as `predict_multiplier` has it; but full passes unless the bound of batches is
    below `CLEAR_ADVANTAGE` of theirs.

    Where groups are hidden the choice is made as for groups of equal size, so that what is sampled,
    and how often, is fixed before their sizes are released; and all have one rate.
    """
    if problem.hidden is not None:
        problem = with_equal_groups(problem)
    rates = resolve_rates(parameters.sampling_rate, problem.n_groups)
    full = (1.0,) * problem.n_groups
    limit = math.inf if parameters.max_seconds is None else float(parameters.max_seconds)
    may_sample = budget.epsilon <= LARGEST_EPSILON and (
        parameters.n_steps is None or limit < math.inf
    )
    if rates is None and may_sample:
        if parameters.n_steps is None:
            limit = min(limit, seconds_of(problem, full, parameters.max_passes))
        found = [one for one in options(problem, budget, parameters, limit) if one.sampling.n_steps]
        if found:
            return _better(problem, found)
    else:
        chosen = full if rates is None else rates
        if parameters.n_steps is None:
            accounts = seconds_of(problem, chosen, 0)
            limit = min(limit, seconds_of(problem, full, parameters.max_passes) + accounts)
        sampling = Sampling(chosen, _affordable_steps(problem, chosen, parameters, limit))
        if sampling.n_steps > 0:
            return sampling
    n_steps = parameters.n_steps or 1
    raise ValueError(
        f"max_seconds of MGR must allow for {n_steps:,} step(s), predicted to take "
        f"{seconds_of(problem, rates or full, n_steps):.2g} seconds, got "
        f"{parameters.max_seconds!r}."
    )


def options(
    problem: Problem, budget: Budget, parameters: MGRParameters, limit: float
) -> list[Option]:
    """Return full passes, with no steps if none fits into the seconds, then batches that fit."""
    full = (1.0,) * problem.n_groups
    n_steps = _affordable_steps(problem, full, parameters, limit)
    rule = HedgeRule.of(problem, parameters, max(1, n_steps))
    share = rule.best_share(lambda at: rule.noise_of_passes(budget.mu, at))
    bound = rule.excess(rule.noise_of_passes(budget.mu, share))
    found = [Option(bound, Sampling(full, n_steps))]
    seen = {full}
    for halvings in range(1, SMALLEST_BATCH + 1):
        rates = planned_rates(problem, 0.5**halvings)
        if rates in seen:
            continue
        seen.add(rates)
        n_steps = _affordable_steps(problem, rates, parameters, limit)
        if parameters.n_steps is None:
            n_steps = min(n_steps, LARGEST_STEPS)
        if 0 < n_steps <= min(LARGEST_STEPS, budget.delta / LEAST_DELTA_PER_STEP):
            rule = HedgeRule.of(problem, parameters, n_steps)
            multipliers = {rate: predict_multiplier(n_steps, rate, budget) for rate in set(rates)}
            noise = rule.noise_of_batches(make_batches(rule, rates, multipliers, share))
            found.append(Option(rule.excess(noise), Sampling(rates, n_steps)))
    return found


def _affordable_steps(
    problem: Problem, rates: Rates, parameters: MGRParameters, limit: float
) -> int:
    """Return the planned number of steps, 0 if even one, or those asked for, do not fit."""
    fixed = seconds_of(problem, rates, 0)
    slack = 1.0 + 1e-9  # of the division
    in_time = (limit - fixed) / (seconds_of(problem, rates, 1) - fixed) * slack
    if parameters.n_steps is not None:
        return parameters.n_steps if parameters.n_steps <= in_time else 0
    passes_a_step = float(np.dot(rates, problem.group_sizes)) / problem.n_records
    return max(0, math.floor(min(in_time, parameters.max_passes / passes_a_step * slack)))


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
        rounding=2.0
        * weighting_slack(
            largest + 1.0 / min(of_groups),
            n_records=problem.n_records,
            n_groups=problem.n_groups,
        ),
        risk_share=risk_share,
        gradient_spread=GRADIENT_SPREAD * problem.lipschitz,
    )
