"""What the steps of a plan read: all records, or Poisson batches at which rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sklearn_dpwg.privacy import Budget, Release, calibrate, predict_multiplier
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.mgr.batches import Batches
from sklearn_dpwg.solvers.mgr.schedule import noise_of_batches, noise_of_passes
from sklearn_dpwg.solvers.mgr.step_rule import Outline
from sklearn_dpwg.solvers.plan import predict_seconds

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.mgr.mgr import MGR

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


class Reading(NamedTuple):
    """What the steps of a plan read.

    Parameters
    ----------
    rates : tuple of float
        Rate of each group; all 1 for full passes.
    n_steps : int
        Steps T.
    remark : str
        How it was chosen, for people; empty where nothing was to be chosen.
    """

    rates: Rates
    n_steps: int
    remark: str = ""

    @property
    def is_full(self) -> bool:
        """Whether every step reads all records."""
        return all(rate == 1.0 for rate in self.rates)


def seconds_of(problem: Problem, rates: Rates, n_steps: int) -> float:
    """Return the expected time of a run, with the calibration of its noise.

    Parameters
    ----------
    problem : Problem
        Public facts.
    rates : tuple of float
        Rate of each group; all 1 for full passes.
    n_steps : int
        Steps T.

    Returns
    -------
    float
        Seconds on two cores.
    """
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

    Parameters
    ----------
    problem : Problem
        Public facts.
    share : float
        Share of the records that are expected in a batch.

    Returns
    -------
    tuple of float
        Expected numbers in proportion to √π_i, which for a given batch size make the prior
        average of the coins' variances ``Σ π_i / (q_i n_i)`` least; each rate raised to the next
        power of two, at most 1.
    """
    roots = np.sqrt(np.asarray(problem.prior))
    wanted = share * problem.n_records * roots / roots.sum() / np.asarray(problem.group_sizes)
    return tuple(float(rate) for rate in np.minimum(1.0, 2.0 ** np.ceil(np.log2(wanted))))


def resolve_rates(sampling_rate: float | Sequence[float] | None, n_groups: int) -> Rates | None:
    """Return the rate of each group, or None where it is to be planned.

    Parameters
    ----------
    sampling_rate : None, float or sequence of float
        The parameter of MGR.
    n_groups : int
        Number of groups.

    Returns
    -------
    tuple of float or None
        The rates.

    Raises
    ------
    ValueError
        If there are not as many as groups, or one is out of range.
    """
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


def choose_reading(problem: Problem, budget: Budget, solver: MGR) -> Reading:
    """Choose between full passes and Poisson batches, and the number of steps.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    solver : MGR
        Its parameters; ``None`` means open.

    Returns
    -------
    Reading
        Rates and steps.

    Raises
    ------
    ValueError
        If `sampling_rate` is wrong, or the steps do not fit `max_seconds`.

    Notes
    -----
    A run may read `max_passes` times the records, and take no longer than so many full passes
    are predicted to take or, if that is less, `max_seconds`. Steps are as many as these limits
    allow. Where `sampling_rate` is open too, full passes are compared with batches of one half
    of the records, a quarter and so on, with the rates of `planned_rates`; those with the least
    planning bound are taken, with noise as `predict_multiplier` has it; but full passes unless
    the bound of batches is below `CLEAR_ADVANTAGE` of theirs.
    """
    rates = resolve_rates(solver.sampling_rate, problem.n_groups)
    full = (1.0,) * problem.n_groups
    limit = math.inf if solver.max_seconds is None else float(solver.max_seconds)
    may_sample = (
        solver.risk_noise == "gaussian"
        and budget.epsilon <= LARGEST_EPSILON
        and (solver.n_steps is None or limit < math.inf)
    )
    if rates is not None or not may_sample:
        chosen = full if rates is None else rates
        if solver.n_steps is None:
            accounts = seconds_of(problem, chosen, 0)
            limit = min(limit, seconds_of(problem, full, solver.max_passes) + accounts)
        reading = Reading(chosen, _affordable_steps(problem, chosen, solver, limit))
        if reading.n_steps > 0:
            return reading
        found = []
    else:
        if solver.n_steps is None:
            limit = min(limit, seconds_of(problem, full, solver.max_passes))
        found = [one for one in compare_readings(problem, budget, solver, limit) if one[1].n_steps]
    if not found:
        raise ValueError(
            f"max_seconds of MGR must allow for {solver.n_steps or 1:,} step(s), predicted to "
            f"take {seconds_of(problem, rates or full, solver.n_steps or 1):.2g} seconds, got "
            f"{solver.max_seconds!r}."
        )
    return _better(problem, found)


def compare_readings(
    problem: Problem, budget: Budget, solver: MGR, limit: float
) -> list[tuple[float, Reading]]:
    """Return the bounds of full passes and of batches of every size.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    solver : MGR
        Its parameters; ``None`` means open.
    limit : float
        Predicted seconds that a fit may take.

    Returns
    -------
    list of (float, Reading)
        Full passes first, with no steps if none fits; then the batches that fit.
    """
    found = []
    reading = Reading((1.0,) * problem.n_groups, 0)
    reading = reading._replace(n_steps=_affordable_steps(problem, reading.rates, solver, limit))
    outline = Outline.of(problem, solver, max(1, reading.n_steps))
    noise_at = partial(
        noise_of_passes, problem, mu=budget.mu, feedback_range=outline.feedback_range
    )
    share = outline.best_share(lambda at: noise_at(risk_share=at), solver.risk_share)
    found.append((outline.excess(noise_at(risk_share=share)), reading))
    seen = {reading.rates}
    for halvings in range(1, SMALLEST_BATCH + 1):
        rates = planned_rates(problem, 0.5**halvings)
        if rates in seen:
            continue
        seen.add(rates)
        n_steps = _affordable_steps(problem, rates, solver, limit)
        if solver.n_steps is None:
            n_steps = min(n_steps, LARGEST_STEPS)
        if 0 < n_steps <= min(LARGEST_STEPS, budget.delta / LEAST_DELTA_PER_STEP):
            outline = Outline.of(problem, solver, n_steps)
            multipliers = {rate: predict_multiplier(n_steps, rate, budget) for rate in set(rates)}
            batches = make_batches(outline, rates, multipliers, share)
            noise = noise_of_batches(batches, n_steps=n_steps, n_weights=problem.n_weights)
            found.append((outline.excess(noise), Reading(rates, n_steps)))
    return found


def _affordable_steps(problem: Problem, rates: Rates, solver: MGR, limit: float) -> int:
    """Return the planned number of steps, 0 if even one, or those asked for, do not fit."""
    fixed = seconds_of(problem, rates, 0)
    slack = 1.0 + 1e-9  # of the division
    in_time = (limit - fixed) / (seconds_of(problem, rates, 1) - fixed) * slack
    if solver.n_steps is not None:
        return solver.n_steps if solver.n_steps <= in_time else 0
    passes_a_step = float(np.dot(rates, problem.group_sizes)) / problem.n_records
    return max(0, math.floor(min(in_time, solver.max_passes / passes_a_step * slack)))


def _better(problem: Problem, found: list[tuple[float, Reading]]) -> Reading:
    """Return the reading of the least bound; batches only where that is clearly less."""
    passes = [one for one in found if one[1].is_full]
    batches = sorted((one for one in found if not one[1].is_full), key=lambda one: one[0])
    if not passes or not batches:
        name, other = ("full passes", "batches") if passes else ("Poisson batches", "full passes")
        remark = f"chosen: {name}, as no {other} fit into the same time"
        return (passes or batches)[0][1]._replace(remark=remark)
    kinds = [passes[0], batches[0]]
    texts = [
        f"{name} (bound {bound:.3g} with {reading.n_steps:,} steps in "
        f"{seconds_of(problem, reading.rates, reading.n_steps):.2g} seconds)"
        for name, (bound, reading) in zip(("full passes", "Poisson batches"), kinds, strict=True)
    ]
    if batches[0][0] < CLEAR_ADVANTAGE * passes[0][0]:
        kinds.reverse()
        texts.reverse()
    return kinds[0][1]._replace(remark=f"chosen: {texts[0]} over {texts[1]}")


def make_batches(
    outline: Outline, rates: Rates, multipliers: Mapping[float, float], risk_share: float
) -> Batches:
    """Return the batches of a run.

    Parameters
    ----------
    outline : Outline
        What the plan fixes before its noise.
    rates : tuple of float
        Rate of each group.
    multipliers : mapping from float to float
        Noise multiplier of each rate.
    risk_share : float
        Share of the squared sensitivity that the group risks may use.

    Returns
    -------
    Batches
        Groups of one rate are one part; the parts are in order of falling rate.
    """
    problem = outline.problem
    part_of = {rate: part for part, rate in enumerate(sorted(set(rates), reverse=True))}
    return Batches(
        group_sizes=problem.group_sizes,
        rates=rates,
        parts=tuple(part_of[rate] for rate in rates),
        multipliers=tuple(multipliers[rate] for rate in rates),
        gradient_bounds=tuple(
            problem.gradient_diameter if rate == 1.0 else 2.0 * problem.lipschitz for rate in rates
        ),
        feedback_range=outline.feedback_range,
        center=(problem.constants.infimum + outline.ceiling) / 2.0,
        risk_share=risk_share,
        gradient_spread=GRADIENT_SPREAD * problem.lipschitz,
    )


def calibrated_releases(rates: Rates, n_steps: int, name: str, budget: Budget) -> list[Release]:
    """Return the release of each part, calibrated by itself: a record pays for one of them.

    Parameters
    ----------
    rates : tuple of float
        Rate of each group.
    n_steps : int
        Steps T.
    name : str
        What is released.
    budget : Budget
        Budget of the run.

    Returns
    -------
    list of Release
        In order of falling rate; no part is named if there is one only.
    """
    distinct = sorted(set(rates), reverse=True)
    releases: list[Release] = []
    for part, rate in enumerate(distinct):
        guess = predict_multiplier(n_steps, rate, budget)
        of_part = part if len(distinct) > 1 else None
        release = Release(name, "gaussian", guess, n_steps, part=of_part, sampling_rate=rate)
        releases += calibrate([release], budget)
    return releases
