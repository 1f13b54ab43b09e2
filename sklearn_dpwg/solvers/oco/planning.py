"""How a plan of the online solver is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.learners import SumNoise, make_learner
from sklearn_dpwg.privacy import (
    LARGEST_QUOTIENT,
    SECONDS_PER_SECURE_CALL,
    SECONDS_PER_SECURE_COORDINATE,
    Budget,
    Release,
    calibrate,
)
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, PrefixSums, make_prefix_sums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.oco.designs import Design, designs
from sklearn_dpwg.solvers.oco.schedule import OCOSchedule, StrengthRule
from sklearn_dpwg.solvers.plan import SECONDS_PER_ENTRY, Plan

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.oco.oco import OCO


SUMS = "gradient sums"
LOSSES = "group losses"

# As in MGR: losses count up to this multiple of what predicting nothing can cost.
CEILING_OVER_ZERO_SCORE = 1.5

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of the feedback range; between MGR's tenth and Hoeffding's 0.35, as group weights that follow the
# noise of single batches cost more.
RISK_SPREAD = 0.2

# For planning: what a round costs beside its records and its noise, and each group in it.
SECONDS_PER_ROUND = 4e-5
SECONDS_PER_GROUP = 2e-5


@dataclass(frozen=True)
class _Noise:
    """Noise multipliers of both players, each for the whole budget."""

    gradient: Release
    feedback: Release | None

    @classmethod
    def within(cls, problem: Problem, budget: Budget, n_rounds: int) -> _Noise:
        one_part = problem.n_groups == 1
        sums = Release(SUMS, "gaussian", 1.0, 1, part=None if one_part else 0)
        (gradient,) = calibrate([sums], budget)
        if one_part:
            return cls(gradient, None)
        # rounds read disjoint batches: a record is in one of them and pays for one
        losses = Release(LOSSES, "laplace", 1.0, n_rounds, part=1, draws_per_record=1)
        return cls(gradient, calibrate([losses], budget)[0])

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradient,) if self.feedback is None else (self.gradient, self.feedback)

    @property
    def feedback_multiplier(self) -> float:
        return 0.0 if self.feedback is None else self.feedback.noise_multiplier


def planned_plan(problem: Problem, budget: Budget, solver: OCO) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the solver leaves open.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    solver : OCO
        Its parameters; ``None`` means open.

    Returns
    -------
    Plan
        Calibrated to the budget.

    Raises
    ------
    ValueError
        If the groups are too small or unbounded for what is asked.
    """
    learner = make_learner(solver.learner)
    ceiling = _ceiling(problem, solver)
    noise = _Noise.within(problem, budget, 1)
    best: tuple[float, OCOSchedule, FloatArray] | None = None
    for design in designs(problem, solver):
        mechanism = make_prefix_sums(
            solver.noise, n_steps=design.n_rounds, n_dimensions=problem.n_weights
        )
        schedule = _schedule(problem, solver, design, noise, ceiling, mechanism, learner.strength)
        by_group = excess_bound_by_group(problem, schedule)
        average = float(np.asarray(problem.prior) @ by_group)
        if best is None or average < best[0]:
            best = average, schedule, by_group
    assert best is not None
    _, schedule, by_group = best
    return _plan(
        problem, budget, _Noise.within(problem, budget, schedule.n_rounds), schedule, by_group
    )


def excess_bound_by_group(problem: Problem, schedule: OCOSchedule) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    Parameters
    ----------
    problem : Problem
        Public facts.
    schedule : OCOSchedule
        The schedule.

    Returns
    -------
    ndarray of shape (n_groups,)
        For group i the strength rule's bound for all weight on group i, plus the group player's
        regret against group i.

    Notes
    -----
    `docs/theory/oco.md`, section 6, writes it down and says what of it is a theorem.
    """
    n_rounds, rate = schedule.n_rounds, schedule.group_rate
    sizes = np.asarray(problem.group_sizes, dtype=float)
    weight_rates = np.asarray(schedule.weight_rates)
    feedback_rates = np.asarray(schedule.feedback_rates)
    sampled = schedule.play == "sampled"
    # where all weight is on one group, a sampled game ends when that group does
    played = np.full(len(sizes), float(n_rounds))
    if sampled:
        played = np.minimum(sizes / (weight_rates + feedback_rates), n_rounds)
    unit = schedule.gradient_multiplier * schedule.worst_std * schedule.gradient_diameter
    bound = np.array(
        [
            schedule.strength_rule.bound(unit / weight_rate, rounds)
            for weight_rate, rounds in zip(weight_rates, played, strict=True)
        ]
    )
    if len(sizes) > 1:
        start, steady = _group_terms(problem, schedule, played)
        bound += start / rate + rate * steady
    return bound


def _group_terms(
    problem: Problem, schedule: OCOSchedule, played: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what the group player's rate divides, and what it multiplies, for each group."""
    start = -np.log(np.asarray(schedule.prior)) / played
    units = schedule.feedback_range / np.asarray(schedule.feedback_rates)
    variance = 2.0 * (schedule.feedback_multiplier * units) ** 2
    if schedule.play == "sampled":
        square = schedule.feedback_bound**2 + variance
        return start, 0.5 * problem.n_groups * square
    # a group with fewer records than rounds is heard of in some rounds only
    heard = np.minimum(1.0, np.asarray(schedule.feedback_rates))
    return start, (RISK_SPREAD * schedule.feedback_range) ** 2 + 0.5 * variance * heard


def _schedule(
    problem: Problem,
    solver: OCO,
    design: Design,
    noise: _Noise,
    ceiling: float,
    mechanism: PrefixSums,
    strength: float | None,
) -> OCOSchedule:
    several, n_rounds = problem.n_groups > 1, design.n_rounds
    feedback_range = problem.constants.range_up_to(ceiling)
    feedback_bound = feedback_range
    if several and design.play == "sampled":
        unit = noise.feedback_multiplier * feedback_range / float(design.feedback_rates[0])
        # the paper's: with this much room no noise of T rounds is likely to be clipped
        feedback_bound += 2.0 * unit * math.log(max(n_rounds, 2))

    def schedule(group_rate: float) -> OCOSchedule:
        correction = np.zeros(problem.n_groups)
        if several and design.play == "weighted":
            scale = group_rate * noise.feedback_multiplier * feedback_range / design.feedback_rates
            correction = log_mean_exp_laplace(scale)
        return OCOSchedule(
            play=design.play,
            n_rounds=n_rounds,
            noise=solver.noise,
            gradient_multiplier=noise.gradient.noise_multiplier,
            feedback_multiplier=noise.feedback_multiplier,
            gradient_diameter=problem.gradient_diameter,
            ceiling=ceiling,
            infimum=problem.constants.infimum,
            feedback_range=feedback_range,
            prior=problem.prior,
            weight_rates=tuple(design.weight_rates.tolist()),
            feedback_rates=tuple(design.feedback_rates.tolist()),
            group_rate=group_rate,
            feedback_bound=feedback_bound,
            noise_correction=tuple(correction.tolist()),
            strength_rule=StrengthRule(
                n_rounds=n_rounds,
                aim=solver.aim * problem.radius,
                smoothness=problem.smoothness * problem.loss.n_outputs,
                lipschitz=problem.lipschitz,
                fixed=strength,
            ),
            averaging=float(solver.averaging),
            worst_std=mechanism.worst_standard_deviation,
        )

    if not several:
        return schedule(0.0)
    if solver.group_rate is not None:
        return schedule(float(solver.group_rate))
    played = np.full(problem.n_groups, float(n_rounds))
    start, steady = _group_terms(problem, schedule(0.0), played)
    prior = np.asarray(problem.prior)
    return schedule(math.sqrt(float(prior @ start) / float(prior @ steady)))


def _ceiling(problem: Problem, solver: OCO) -> float:
    constants = problem.constants
    ceiling = solver.loss_ceiling
    if ceiling is None:
        ceiling = CEILING_OVER_ZERO_SCORE * constants.zero_score
    ceiling = min(ceiling, constants.supremum)
    if ceiling <= constants.infimum:
        raise ValueError(
            f"loss_ceiling of OCO must be above the smallest possible loss, "
            f"{constants.infimum:.3g}, got {ceiling:.3g}."
        )
    return float(ceiling)


def log_mean_exp_laplace(scale: FloatArray) -> FloatArray:
    """Return log E exp(N) of Laplace noise N of each scale; scale² where it is infinite.

    Parameters
    ----------
    scale : ndarray
        Scales, at least 0.

    Returns
    -------
    ndarray
        Logarithms.
    """
    square = scale**2
    return np.maximum(square, -np.log1p(-np.minimum(square, 0.9)))


def paper_plan(problem: Problem, budget: Budget, solver: OCO) -> Plan:
    """Plan with the paper's parameters and account for the noise exactly.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    solver : OCO
        Its `n_rounds`, `batch_size`, `noise` and `learner` count; the last chooses γ.

    Returns
    -------
    Plan
        A sampled game with one record a round for each player unless `batch_size` says more, a
        uniform prior, U and η of Theorem 7, plain averages, and γ by the learner's regret bound.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 2, Theorem 7 and Corollary 8.
    """
    p, several = problem.n_groups, problem.n_groups > 1
    own = 1 if solver.batch_size is None else int(solver.batch_size)
    other = own if several else 0
    if math.isinf(problem.n_records) and solver.n_rounds is None:
        raise ValueError(
            "n_rounds of OCO must be set where a group has no end (a size of infinity), got None."
        )
    most = problem.n_records / (own + other)
    n_rounds = max(1, int(most if solver.n_rounds is None else min(solver.n_rounds, most)))
    noise = _Noise.within(problem, budget, n_rounds)
    constants = problem.constants
    # "B/(b ε)" with the paper's pure ε: exact accounting lets a touch less noise do
    bound = problem.loss_range
    if several:
        unit = noise.feedback_multiplier * problem.loss_range / other
        bound += 2.0 * unit * math.log(max(n_rounds, 2))
    mechanism = make_prefix_sums(solver.noise, n_steps=n_rounds, n_dimensions=problem.n_weights)
    multiplier = noise.gradient.noise_multiplier
    learned = make_learner(solver.learner).plan(
        n_steps=n_rounds,
        radius=problem.radius,
        gradient_norm=problem.lipschitz,
        noise=SumNoise.of(mechanism, multiplier, problem.gradient_diameter / own),
    )
    rate = math.sqrt(math.log(p) / (p * n_rounds)) / bound
    schedule = OCOSchedule(
        play="sampled",
        n_rounds=n_rounds,
        noise=solver.noise,
        gradient_multiplier=multiplier,
        feedback_multiplier=noise.feedback_multiplier,
        gradient_diameter=problem.gradient_diameter,
        ceiling=constants.supremum,
        infimum=constants.infimum,
        feedback_range=problem.loss_range,
        prior=(1.0 / p,) * p,
        weight_rates=(float(own),) * p,
        feedback_rates=(float(other),) * p,
        group_rate=rate,
        feedback_bound=bound,
        noise_correction=(0.0,) * p,
        strength_rule=StrengthRule(
            n_rounds=n_rounds,
            aim=problem.radius,
            smoothness=problem.smoothness * problem.loss.n_outputs,
            lipschitz=problem.lipschitz,
            fixed=learned.strength,
        ),
        averaging=0.0,
        worst_std=mechanism.worst_standard_deviation,
        remark="the paper's parameters, with noise accounted for exactly",
    )
    # the two regrets in the proof of Theorem 7, the second as Auer et al. (2002) bound it
    excess = learned.regret_bound / n_rounds
    if several:
        excess += math.log(p) / (rate * n_rounds) + 2.0 * rate * p * bound**2
    return _plan(problem, budget, noise, schedule, np.full(p, excess))


def _plan(
    problem: Problem,
    budget: Budget,
    noise: _Noise,
    schedule: OCOSchedule,
    by_group: FloatArray,
) -> Plan:
    several, n_rounds = problem.n_groups > 1, schedule.n_rounds
    rates = np.add(schedule.weight_rates, schedule.feedback_rates)
    weighted = schedule.play == "weighted"
    largest = float(rates.max()) * schedule.ceiling / schedule.feedback_range
    if several and largest > LARGEST_QUOTIENT:
        raise ValueError(
            f"a batch of {rates.max():,.3g} records times its largest loss is {largest:.2g} times "
            f"what one record can move, where rounding may show a record: take more rounds."
        )
    n_drawn = n_rounds * float(rates.sum() if weighted else rates[0])
    mechanism = make_prefix_sums(schedule.noise, n_steps=n_rounds, n_dimensions=problem.n_weights)
    groups_a_round = problem.n_groups if weighted else 1
    seconds = (
        n_rounds * (SECONDS_PER_ROUND + groups_a_round * SECONDS_PER_GROUP)
        + 2.0 * n_drawn * problem.n_columns * problem.loss.n_outputs * SECONDS_PER_ENTRY
        + mechanism.secure_seconds
    )
    if several:
        per_round = SECONDS_PER_SECURE_CALL + groups_a_round * SECONDS_PER_SECURE_COORDINATE
        seconds += n_rounds * per_round
    return Plan.of(
        "oco",
        problem,
        budget,
        releases=noise.releases,
        schedule=schedule,
        bounds=by_group,
        n_steps=n_rounds,
        seconds=seconds,
        early_stop=not weighted,
        n_drawn=round(min(n_drawn, problem.n_records)),
    )


def check_parameters(solver: OCO) -> None:
    """Refuse what is out of range.

    Parameters
    ----------
    solver : OCO
        Its parameters.

    Raises
    ------
    ValueError
        If a parameter is out of range or of a wrong type.
    TypeError
        If the learner is neither a name nor a learner.
    """
    for name in ("n_rounds", "batch_size", "horizon", "max_rounds"):
        value = getattr(solver, name)
        is_open = value is None and name in ("n_rounds", "batch_size")
        if not is_open and not (_is(value, Integral) and value >= 1):
            raise ValueError(f"{name} of OCO must be a positive whole number, got {value!r}.")
    for name in ("group_rate", "aim"):
        value = getattr(solver, name)
        is_open = value is None and name != "aim"
        if not is_open and not (_is(value, Real) and 0.0 < value < math.inf):
            raise ValueError(f"{name} of OCO must be positive and finite, got {value!r}.")
    share, averaging, ceiling = solver.weight_share, solver.averaging, solver.loss_ceiling
    if share is not None and not (_is(share, Real) and 0.0 < share < 1.0):
        raise ValueError(f"weight_share of OCO must be between 0 and 1, got {share!r}.")
    if not (_is(averaging, Real) and 0.0 <= averaging <= 100.0):
        raise ValueError(f"averaging of OCO must be from 0 to 100, got {averaging!r}.")
    if ceiling is not None and (not _is(ceiling, Real) or math.isnan(ceiling)):
        raise ValueError(f"loss_ceiling of OCO must be a number, got {ceiling!r}.")
    for name, choices in (
        ("play", ("weighted", "sampled")),
        ("schedule", ("planned", "paper")),
        ("noise", tuple(sorted(PREFIX_SUMS))),
    ):
        if getattr(solver, name) not in choices:
            raise ValueError(
                f"{name} of OCO must be one of {choices}, got {getattr(solver, name)!r}."
            )
    try:
        make_learner(solver.learner)
    except (ValueError, TypeError) as error:
        raise type(error)(str(error).replace("learner must", "learner of OCO must", 1)) from None


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
