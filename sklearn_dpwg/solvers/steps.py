"""Steps of both players: what group weights and weights take from releases and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy.noise import LARGEST_QUOTIENT
from sklearn_dpwg.solvers.solver import by_loss

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of what predicting nothing can cost: what groups that carry weight differ by in practice. The
# worst case of Hoeffding, 0.5 of the range, would plan a group rate that is many times smaller.
SPREAD_OVER_ZERO_SCORE = 0.15

# Half of log E exp of the noise is subtracted from a group's exponent: all of it would drive out
# small groups that are truly the worst off, none would let noise alone raise them
# (benchmarks/population_defaults.py CORRECTION).
CORRECTION = 0.5

# A mixture's weight is at least this of its largest, where what minimises it needs positive ones.
LEAST_PRIOR = math.exp(-600.0)


def risk_spread(problem: Problem) -> float:
    """Return the standard deviation of the group risks that planning assumes."""
    return SPREAD_OVER_ZERO_SCORE * problem.constants.zero_score


def loss_ceiling(
    problem: Problem,
    wanted: float | None,
    owner: str,
    *,
    multiple: float | None = None,
) -> float:
    """Return the most that a record's loss counts for in the group risks; planned where None."""
    constants = problem.constants
    multiple = by_loss(problem.loss).ceiling if multiple is None else multiple
    ceiling = multiple * constants.zero_score if wanted is None else wanted
    ceiling = min(ceiling, constants.supremum)
    if ceiling <= constants.infimum:
        raise ValueError(
            f"loss_ceiling of {owner} must be above the smallest possible loss, "
            f"{constants.infimum:.3g}, got {ceiling:.3g}."
        )
    return ceiling


def heard(
    risks: FloatArray, variances: FloatArray, problem: Problem
) -> tuple[FloatArray, FloatArray]:
    """Return released risks and variances, the mean's for groups that may as well be empty.

    The risk of an empty group is the number that losses are taken relative to, which may be the
    largest of all: so hidden groups below three standard deviations of their count are not heard.
    """
    is_heard = problem.is_heard
    if len(risks) == 0 or is_heard.all():
        return risks, variances
    shares = np.asarray(problem.group_sizes, dtype=float) * (is_heard if is_heard.any() else 1.0)
    shares = shares / shares.sum()
    return (
        np.where(is_heard, risks, shares @ risks),
        np.where(is_heard, variances, shares**2 @ variances),
    )


def refuse_rounding(quotient: float, who: str, cure: str) -> None:
    """Refuse sums so large beside what one record can move that their rounding may show it."""
    if quotient > LARGEST_QUOTIENT:
        raise ValueError(
            f"{who} times its largest loss is {quotient:.2g} times what one record can move, where "
            f"rounding may show a record: {cure}."
        )


def best_rate(divided: float, multiplied: float) -> float:
    """Return the minimiser √(a/b) of ``a/x + b x``, the regret of a group player at rate x."""
    return math.sqrt(divided / multiplied)


def rounds_regret(
    problem: Problem, n_rounds: int, *, noise_multiplier: float
) -> tuple[float, FloatArray]:
    """Return sharpness θ = ηR of R rounds, and what the group player owes if a group is the worst.

    The bound of multiplicative weights whose risks have noise of standard deviation
    ``noise_multiplier/n_i`` in all rounds but the first, which plays the prior; at most what
    predicting nothing costs.
    """
    prior = np.asarray(problem.prior)
    variance = np.zeros(problem.n_groups)
    if noise_multiplier > 0.0:
        read = np.asarray(problem.group_sizes, dtype=float)
        if problem.hidden is not None:
            read = np.where(problem.is_heard, read, problem.n_records)
        variance = (noise_multiplier / read) ** 2
    entropies = -np.log(prior)
    spread = risk_spread(problem) ** 2 / n_rounds
    quadratic = spread + (variance + variance.max()) / (4.0 * n_rounds)
    counted = float(variance.mean())
    sharpness = best_rate(float(prior @ entropies), spread + counted / (2.0 * n_rounds))
    regret = entropies / sharpness + sharpness * quadratic
    return sharpness, np.minimum(regret, problem.constants.zero_score)


def log_mean_exp_laplace(scale: FloatArray) -> FloatArray:
    """Return log E exp(N) of Laplace noise of a scale; scale² from 1 on, where it is infinite."""
    square = scale**2
    return np.maximum(square, -np.log1p(-np.minimum(square, 0.9)))


def normalised(log_weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """Return the distribution of log weights, each at least `least` of the largest.

    SciPy's softmax takes longer than a pass over few records.
    """
    weights = np.maximum(np.exp(log_weights - log_weights.max()), least)
    return np.asarray(weights / weights.sum())


def shown(group_weights: tuple[float, ...]) -> str:
    """Return the first few group weights, for people."""
    first = ", ".join(f"{weight:.2g}" for weight in group_weights[:6])
    return f"({first}{', ...' if len(group_weights) > 6 else ''})"


# Heavy-ball momentum whose longest step follows the noisy gradients.

# A noisy gradient points uphill along the velocity if it does so by more than this many standard
# deviations of its noise, which noise alone does in one step of 740.
UPHILL = 3.0

# What is left of the longest step after that; 0.5 and 0.8 did worse on the census, where 1 would do
# best, which promises no end of the shortening (benchmarks/mgr_defaults.py SHORTER epsilon=4
# census-income-kdd).
SHORTER = 0.9


@dataclass(frozen=True, kw_only=True, repr=False)
class StepLimits:
    """Numbers of a step rule that a plan fixes."""

    n_steps: int  # number of steps T, for which step sizes are planned
    # distance from the first weights that step sizes are planned for; 0 where every step is
    # `step_size` long
    aim: float
    # length of a planned step, as a share of `aim/(s √T)` for a coordinate's noise s
    step_share: float = 0.0
    # longest plain step that is safe for every data set: 1/H where planned, `aim/(L √T)` for a loss
    # that is not smooth
    step_size: float
    # longest plain step that is tried; where it is longer than `step_size`, `HeavyBall` shortens it
    # as released gradients ask for
    longest_step: float
    max_momentum: float  # largest heavy-ball momentum

    __repr__ = short_repr


def step_and_momentum(
    limits: StepLimits, noise_std: float, *, longest: float | None = None
) -> tuple[float, float]:
    """Return step length and momentum for a gradient with noise of a standard deviation.

    The deviation follows from earlier releases. Together they move like a plain step of
    ``step_share aim / (noise_std √T)``, as far as plain steps up to `longest` (by default
    `step_size`) and `max_momentum` allow.
    """
    if limits.aim == 0.0:
        return limits.step_size, 0.0
    longest = limits.step_size if longest is None else longest
    effective = limits.step_share * limits.aim / (noise_std * math.sqrt(limits.n_steps))
    momentum = min(max(0.0, 1.0 - longest / effective), limits.max_momentum)
    return min(effective * (1.0 - momentum), longest), momentum


class HeavyBall:
    """The velocity of the weights, from released gradients only.

    A step may be as long as `longest_step` as long as the velocity points downhill. Where a
    gradient clearly points the other way, the ball has run through a valley: its velocity is set to
    zero, and the longest step shrinks to nine tenths, or to 2/h if that is less, with h the
    curvature along the velocity by the last two gradients. It never falls below `step_size`,
    which is safe for every data set. (O'Donoghue and Candès 2015, Adaptive restart for accelerated
    gradient schemes, section 3.2; with the noise's standard deviation as the threshold)
    """

    def __init__(self, limits: StepLimits, n_weights: int) -> None:
        self.limits = limits
        self.velocity: FloatArray = np.zeros(n_weights)
        self.longest = limits.longest_step
        self._last_gradient = self.velocity

    def push(self, gradient: FloatArray, noise_std: float) -> FloatArray:
        """Return the next move of the weights, for a released gradient and the std of its noise."""
        limits, velocity = self.limits, self.velocity
        if limits.longest_step > limits.step_size:
            uphill = float(gradient @ velocity)
            if uphill > UPHILL * noise_std * float(np.linalg.norm(velocity)):
                change = uphill - float(self._last_gradient @ velocity)
                stable = 2.0 * float(velocity @ velocity) / change if change > 0.0 else np.inf
                self.longest = max(min(SHORTER * self.longest, stable), limits.step_size)
                velocity = np.zeros_like(velocity)
            self._last_gradient = gradient
        step_size, momentum = step_and_momentum(limits, noise_std, longest=self.longest)
        self.velocity = momentum * velocity - step_size * gradient
        return self.velocity
