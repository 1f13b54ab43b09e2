"""Steps of both players: what group weights and weights take from releases and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.sensitivity import record_rounding, weighting_slack
from sklearn_dpwg.solvers.centring import Centring, GradientClip, release_centre
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, by_loss

# Standard deviation of the group risks that planning assumes, over what predicting nothing costs.
SPREAD_OVER_ZERO_SCORE = 0.15

# Share of log E exp of the noise that a group's exponent is corrected by.
CORRECTION = 0.5

# A mixture's weight is at least this of its largest, where what minimises it needs positive ones.
MIN_PRIOR = math.exp(-600.0)


def risk_spread(problem: Problem) -> float:
    """Return the standard deviation of the group risks that planning assumes."""
    return SPREAD_OVER_ZERO_SCORE * problem.constants.zero_score


class Space(NamedTuple):
    """First weights of a run, and what they are of: rows, or centred rows where it centres."""

    weights: FloatArray
    problem: Problem
    centring: Centring | None

    @classmethod
    def of(
        cls,
        plan: Plan,
        limit: GradientClip | None,
        data: Risks | None,
        noise: NoiseSource,
        start: Solution | None,
    ) -> Space:
        """Release the centre, where there is a limit; begin at 0 or at a start in the ball."""
        problem = plan.problem
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        if limit is None:
            return cls(weights, problem, None)
        assert data is not None
        centre = release_centre(plan, limit, data, noise)
        return cls(centre.to_centred(weights, problem), problem, centre)

    def view(self, data: Risks) -> Risks:
        """Return the records as steps see them."""
        return data if self.centring is None else self.centring.view(data)

    def project(self, weights: FloatArray) -> FloatArray:
        """Return the nearest weights that are in the ball, as weights of rows."""
        if self.centring is not None:
            return self.centring.project(weights, self.problem)
        norm, radius = float(np.linalg.norm(weights)), self.problem.radius
        return weights if norm <= radius else weights * (radius / norm)

    def weights_of_rows(self, learned: FloatArray) -> FloatArray:
        """Return the weights of rows as they are."""
        if self.centring is None:
            return learned
        # an average of weights in the ball is in it, but for rounding
        rows = self.centring.from_centred(learned, self.problem)
        return project_to_ball(rows, self.problem.radius)


def loss_clip(problem: Problem, asked: float | None, owner: str, *, multiple: float) -> float:
    """Return the most that a record's loss counts for in the group risks; planned where None."""
    constants = problem.constants
    planned = multiple * constants.zero_score
    loss_clip = min(planned if asked is None else asked, constants.supremum)
    if loss_clip <= constants.infimum:
        raise InputError(
            f"loss_clip of {owner} must be above the smallest possible loss, "
            f"{constants.infimum:.3g}, got {loss_clip:.3g}."
        )
    return loss_clip


def active(
    risks: FloatArray, variances: FloatArray, problem: Problem
) -> tuple[FloatArray, FloatArray]:
    """Return released risks and variances, the mean's for groups that may as well be empty.

    The risk of an empty group is the number that losses are taken relative to, which may be the
    largest of all: so hidden groups below three standard deviations of their count are not active.
    """
    is_active = problem.is_active
    if len(risks) == 0 or is_active.all():
        return risks, variances
    fractions = active_fractions(problem)
    risks = np.where(is_active, risks, fractions @ risks)
    return risks, np.where(is_active, variances, fractions**2 @ variances)


def active_fractions(problem: Problem) -> FloatArray:
    """Return the groups' fractions of the records, 0 of those that may as well be empty."""
    is_active = problem.is_active
    sizes = np.asarray(problem.group_sizes, dtype=float) * (is_active if is_active.any() else 1.0)
    return np.asarray(sizes / sizes.sum())


def influence(problem: Problem, group_weights: FloatArray) -> float:
    """Return the most that a record weighs in a mixture of group means.

    It is ``max_i λ_i/n_i``, and ``max_a Σ_{k∋a} λ_k/n_k`` over cells a where groups overlap: a
    record that is replaced moves the mixture of gradients by at most Γ times it.
    (docs/theory/overlapping-groups.md, Lemma 1)
    """
    fractions = group_weights / np.asarray(problem.group_sizes, dtype=float)
    return float(fractions.max()) if problem.cells is None else problem.cells.influence(fractions)


def sums_of_groups(problem: Problem, released: FloatArray) -> FloatArray:
    """Return noisy sums of losses of the groups, of what is released: theirs, or those of cells."""
    if problem.cells is None or not problem.cells.are_quieter:
        return released
    return np.asarray(problem.cells.membership @ released)


def hedge(problem: Problem, n_steps: int, variances: FloatArray) -> tuple[float, FloatArray]:
    """Return θ = ηT of multiplicative weights and what they owe to each group as the worst-off one.

    θ has the least regret if any group may be the worst off:
    ``√(entropy(π) / (q²/T + mean_i v_i / 2))`` with q the assumed `risk_spread` and v_i the
    variance of the mean of a group's released risks.
    """
    prior, spread = np.asarray(problem.prior), risk_spread(problem)
    entropy = -float(prior @ np.log(prior))
    sharpness = math.sqrt(entropy / (spread**2 / n_steps + float(variances.mean()) / 2))
    owed = -np.log(prior) / sharpness + sharpness * spread**2 / n_steps
    return sharpness, np.asarray(owed + sharpness * (variances + variances.max()) / 4)


def normalised(log_weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """Return the distribution of log weights, each at least `least` of the largest."""
    weights = np.maximum(np.exp(log_weights - log_weights.max()), least)
    return np.asarray(weights / weights.sum())


def variance_between(means: FloatArray, variances: FloatArray) -> float:
    """Return the variance τ² of what groups' true numbers are drawn with, by Paule and Mandel.

    It is that for which ``Σ (x_i - m)²/(τ² + v_i)``, m the mean by these weights, is the number of
    groups less 1; 0 where noise explains all of it.
    """
    between, variances = 0.0, np.maximum(variances, np.finfo(float).tiny)
    for _ in range(100):
        precisions = 1.0 / (between + variances)
        squares = (means - precisions @ means / precisions.sum()) ** 2
        excess = float(precisions @ squares) - (len(means) - 1)
        if between == 0.0 and excess <= 0.0:
            break
        # what is solved is convex and falls: from the left Newton's steps stay left of the root
        step = excess / float(precisions**2 @ squares)
        between += step
        if step < 1e-9 * between:
            break
    return between


# What groups can gain, and how far the game is played.

# Steps that the mean of released risks runs over, and steps after which its gain counts.
RUNNING_STEPS, FIRST_STEPS = 80, 15

# Variance of a loss from record to record, as a fraction of the square of what predicting nothing
# costs; how many times that of the noise counts; the least drop of the mean risk, as a fraction;
# and the least that predicting nothing may cost by a noisy release, as a fraction of the most.
LOSS_VARIANCE, NOISE_COUNTS, MIN_DROP, MIN_RISK = 0.2, 3.0, 0.04, 1e-3


class GainOfGroups:
    """How much weights on groups can gain, by released risks, and what fraction of the game.

    A group whose risk is above that of all by a gap g, where learning has lowered the risk of all
    by D, can gain about ``E = g²/(4D)``; to learn d weights from its n records costs ``d/(2n)``.
    So the game has the fraction ``1/(1 + d/(2 n G))``, G being `ByLoss.directions` times E, and the
    groups' fractions of the records have the rest (docs/theory/people.md).
    """

    def __init__(
        self, problem: Problem, *, adapts: bool = True, risk_of_nothing: float = 0.0
    ) -> None:
        self._sizes = np.asarray(problem.group_sizes, dtype=float)
        self._prior, nothing = np.asarray(problem.prior), problem.constants.zero_score
        # the risk at weights of 0: that of a log loss is known, others are released first of all
        of_loss = by_loss(problem.loss)
        self._nothing = nothing if of_loss.shrinks else risk_of_nothing
        self._directions = of_loss.directions
        self._least = MIN_RISK * nothing
        of_weights = problem.optimism_correction * problem.n_weights
        self._costs = of_weights / (2.0 * self._sizes)
        self._total, self._variances = np.zeros((2, len(self._sizes)))
        self._count, self._n_steps = 0.0, 0
        self._adapts = adapts and problem.n_groups > 1
        self.gain, self.error = 0.0, 0.0
        self.fraction = 0.5 if self._adapts and of_weights else 1.0

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Take in the released risks of a step, and the variances of their noise."""
        if not self._adapts:
            return
        kept = 1.0 - 1.0 / RUNNING_STEPS
        if not self._nothing:
            self._nothing = max(float(self._prior @ risks), self._least)
        self._n_steps += 1
        self._total = kept * self._total + risks
        self._variances = kept**2 * self._variances + variances
        self._count = kept * self._count + 1.0
        noise = NOISE_COUNTS * self._variances / self._count**2
        noise = noise + LOSS_VARIANCE * self._nothing**2 / self._sizes
        means = self._total / self._count
        of_all = float(self._prior @ means)
        between = variance_between(means, noise)
        gaps = between / (between + noise) * (means - of_all)
        gaps -= self._prior @ gaps
        drop = 4.0 * max(self._nothing - of_all, MIN_DROP * self._nothing) / self._directions
        worst = int(gaps.argmax())
        gain = float(gaps[worst] ** 2 / drop)
        if self._n_steps <= FIRST_STEPS or gain > self.gain:
            self.gain, self.error = gain, float(2.0 * gaps[worst] * np.sqrt(noise[worst]) / drop)
            paid = gain + self._costs[worst]
            self.fraction = gain / paid if paid else 1.0

    def played(self, of_game: FloatArray) -> FloatArray:
        """Return the group weights that are played, where those of the game are these."""
        return self.fraction * of_game + (1.0 - self.fraction) * self._prior

    @property
    def released(self) -> dict[str, float]:
        """What a `Solution` says of the gain."""
        return {"group_gain": self.gain, "group_gain_std": self.error} if self._adapts else {}


# Sums of losses and gradients: over fresh records, and how far a record and rounding move them.

# Losses are cut by less than this fraction of the largest.
LOSS_UNIT = 2.0**-36
# Records of a batch whose gradients are added before the next ones.
BLOCK_ROWS = 2**11
_UNIT = 2.0**-53
# Roundings of a sum beside one or two a record of a block: of products, registers, weights.
_EXTRA_ROUNDINGS = 256


def batch_losses(
    problem: Problem, rows: FloatArray, targets: ArrayLike, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the losses of a batch and their slopes in the scores."""
    scaling, n_outputs = problem.intercept_scaling, problem.loss.n_outputs
    if n_outputs == 1:
        scores = rows @ weights[:-1] + scaling * weights[-1] if scaling > 0 else rows @ weights
    else:
        matrix = weights.reshape(n_outputs, -1)
        if scaling > 0:
            scores = rows @ matrix[:, :-1].T + scaling * matrix[:, -1]
        else:
            scores = rows @ matrix.T
    return problem.loss.value_and_derivative(np.asarray(scores), np.asarray(targets))


def gradient_sum(
    problem: Problem, rows: FloatArray, slopes: FloatArray, n_weight: int
) -> FloatArray:
    """Return the sum of the gradients of a batch's first records, those for the weights."""
    if n_weight > BLOCK_ROWS:  # block by block, so that rounding does not grow with the batch
        total = np.zeros(problem.n_weights)
        for start in range(0, n_weight, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, n_weight))
            total += gradient_sum(problem, rows[block], slopes[block], block.stop - start)
        return total
    rows, slopes = rows[:n_weight], slopes[:n_weight]
    scaling = problem.intercept_scaling
    if problem.loss.n_outputs == 1:
        if scaling == 0:
            return np.asarray(slopes @ rows)
        gradient = np.empty(rows.shape[1] + 1)
        gradient[:-1] = slopes @ rows
        gradient[-1] = scaling * slopes.sum()
        return gradient
    matrix = slopes.T @ rows
    if scaling > 0:
        matrix = np.column_stack([matrix, scaling * slopes.sum(axis=0)])
    return np.asarray(matrix.ravel())


def rounding_of_sum(n_records: float, n_groups: int) -> float:
    """Bound the error of the sum of a batch, over the number of records times a record's bound."""
    n_roundings = 2.0 * BLOCK_ROWS + n_records / BLOCK_ROWS + 2.0 * n_groups + _EXTRA_ROUNDINGS
    return n_roundings * _UNIT / (1.0 - n_roundings * _UNIT)


def record_errors(problem: Problem, highest: float) -> tuple[float, float]:
    """Return what rounding adds to a record's gradient and to its loss, counted up to a number.

    A slope follows the score's rounding as steeply as the loss curves; where it jumps, constants
    hold for all slopes between.
    """
    constants, score = problem.constants, problem.constants.score_bound
    steepness = constants.smoothness if constants.smoothness < np.inf else 1.0
    slope = problem.slope_bound + max(1.0, steepness) * score
    loss = abs(highest) + (constants.lipschitz + 1.0) * score
    return (
        problem.rounding_factor * record_rounding(problem.norm_read * slope, problem.n_weights),
        record_rounding(loss, problem.n_weights),
    )


@dataclass(frozen=True)
class SumSensitivity:
    """How far one record moves the sums of `Risks.sums` and `Risks.sampled_sums`.

    Rounding is included: ``docs/theory/sums.md``.
    """

    # by how much replacing a record moves a weighted sum of group means, over the ratio of its
    # group's weight to its size
    gradient_diameter: float
    # by how much a record that joins a batch moves the sum of its group's gradients
    gradient_norm: float
    # by how much replacing a record moves the sum of its group's losses, and twice what one that
    # joins a batch, or leaves its group for another, moves the sum of losses minus the center
    loss_range: float
    center: float  # middle of the range of losses

    @classmethod
    def of(cls, problem: Problem, *, loss_clip: float) -> Self:
        """Return the numbers of a problem whose losses count up to a clip."""
        constants = problem.constants
        highest = min(loss_clip, constants.supremum)
        of_gradient, of_loss = record_errors(problem, highest)
        # as they are read: a change of variables may follow
        factor, gradient = problem.rounding_factor, problem.summed_norm + of_gradient
        # a loss is cut to a unit of what losses may be at weights twice as long, and the sum of a
        # group's, the centre taken off, is rounded a few times and once a cell
        coarse = problem.loss.constants(8.0 * max(1.0, constants.score_bound))
        largest = max(abs(coarse.infimum), abs(min(coarse.supremum, loss_clip)), abs(highest))
        rounded = (8.0 + 2.0 * problem.n_cells) * _UNIT * problem.most_in_a_group
        loss = (largest + of_loss) * (LOSS_UNIT + rounded)
        # cutting moves gradients towards 0, each output by itself: not farther apart than one from
        # 0, or than two opposite ones
        diameter = max(problem.pair_diameter, problem.lipschitz)
        if problem.loss.n_outputs > 1:
            diameter = 2.0 * problem.lipschitz
        n_records, roundings = problem.n_records, problem.roundings_of_a_mean
        slack = weighting_slack(gradient, n_records=n_records, n_groups=roundings)
        return cls(
            gradient_diameter=diameter + 2.0 * of_gradient + factor * slack,
            gradient_norm=problem.lipschitz + of_gradient,
            loss_range=constants.range_up_to(loss_clip) + 2.0 * of_loss + loss,
            center=constants.infimum + (highest - constants.infimum) / 2.0,
        )
