"""Parts of solvers' steps: ball, group weights, sums of losses and gradients, sensitivities."""

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

# Standard deviation of the group risks that planning assumes, over the loss at a score of 0.
SPREAD_OVER_ZERO_SCORE = 0.15
# Fraction of log E exp(noise) that is subtracted from a group's log weight (docs/theory/mgr.md, 4).
CORRECTION = 0.5
# Least group weight over the largest, where a minimiser needs positive ones.
MIN_PRIOR = math.exp(-600.0)


def risk_spread(problem: Problem) -> float:
    """Return the assumed standard deviation q of the risks across groups, for planning."""
    return SPREAD_OVER_ZERO_SCORE * problem.constants.zero_score


class Space(NamedTuple):
    """The weights' coordinates in a run: those of rows, or those of centred rows."""

    weights: FloatArray  # first weights of the run, in these coordinates; (n_weights,)
    problem: Problem
    centring: Centring | None  # None where rows are not centred

    @classmethod
    def of(
        cls,
        plan: Plan,
        limit: GradientClip | None,
        data: Risks | None,
        noise: NoiseSource,
        start: Solution | None,
    ) -> Space:
        """Return the space of a run from 0 or `start`; with a `limit`, release the centre first."""
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
        """Return the records, centred if the run centres rows."""
        return data if self.centring is None else self.centring.view(data)

    def project(self, weights: FloatArray) -> FloatArray:
        """Return the nearest weights that are in the ball as weights of uncentred rows."""
        if self.centring is not None:
            return self.centring.project(weights, self.problem)
        norm, radius = float(np.linalg.norm(weights)), self.problem.radius
        return weights if norm <= radius else weights * (radius / norm)

    def weights_of_rows(self, learned: FloatArray) -> FloatArray:
        """Map weights of this space to weights of uncentred rows that give the same scores."""
        if self.centring is None:
            return learned
        # an average of weights in the ball may leave it by rounding
        row_weights = self.centring.from_centred(learned, self.problem)
        return project_to_ball(row_weights, self.problem.radius)


def loss_clip(problem: Problem, stated_clip: float | None, owner: str, *, multiple: float) -> float:
    """Return the largest loss of a record in group risks; None means planned.

    Planned is `multiple` times the loss at a score of 0; `owner` names the solver in errors.
    """
    constants = problem.constants
    clip = multiple * constants.zero_score if stated_clip is None else stated_clip
    clip = min(clip, constants.supremum)
    if clip <= constants.infimum:
        raise InputError(
            f"loss_clip of {owner} must be above the smallest possible loss, "
            f"{constants.infimum:.3g}, got {clip:.3g}."
        )
    return clip


def active(
    risks: FloatArray, variances: FloatArray, problem: Problem
) -> tuple[FloatArray, FloatArray]:
    """Replace the risk, and its variance, of each group that may be empty by the others' mean.

    A group may be empty if its noisy count is below three standard deviations. Its released risk
    would be the middle of the losses' range, which may be the largest. Arrays are (n_groups,).
    """
    is_active = problem.is_active
    if len(risks) == 0 or is_active.all():
        return risks, variances
    fractions = active_fractions(problem)
    risks = np.where(is_active, risks, fractions @ risks)
    return risks, np.where(is_active, variances, fractions**2 @ variances)


def active_fractions(problem: Problem) -> FloatArray:
    """Return each group's fraction of the records, 0 if it may be empty (unless all may be)."""
    is_active = problem.is_active
    sizes = np.asarray(problem.group_sizes, dtype=float) * (is_active if is_active.any() else 1.0)
    return np.asarray(sizes / sizes.sum())


def influence(problem: Problem, group_weights: FloatArray) -> float:
    """Return the largest weight of one record in ``Σ_i λ_i mean_i``, λ the group weights.

    It is ``max_i λ_i/n_i``, and ``max_a Σ_{k∋a} λ_k/n_k`` over cells a where groups overlap.
    Replacing a record moves the mixed gradient by at most Γ times that
    (docs/theory/overlapping-groups.md, Lemma 1).
    """
    per_record = group_weights / np.asarray(problem.group_sizes, dtype=float)
    return float(per_record.max()) if problem.cells is None else problem.cells.influence(per_record)


def sums_of_groups(problem: Problem, released: FloatArray) -> FloatArray:
    """Return sums by group, (n_groups,), of released sums by group or, if quieter, by cell."""
    if problem.cells is None or not problem.cells.are_quieter:
        return released
    return np.asarray(problem.cells.membership @ released)


def hedge(problem: Problem, n_steps: int, variances: FloatArray) -> tuple[float, FloatArray]:
    """Return θ = ηT, η the best rate of multiplicative weights, and their regret, (n_groups,).

    Entry i is the regret if group i is the worst off. θ minimises the mean by the prior π:
    ``√(entropy(π) / (q²/T + mean_i v_i / 2))``, q the assumed `risk_spread` and v_i, `variances`,
    the variance of a group's mean released risk over T steps.
    """
    prior = np.asarray(problem.prior)
    spread = SPREAD_OVER_ZERO_SCORE * problem.constants.zero_score  # `risk_spread`
    entropy = -float(prior @ np.log(prior))
    theta = math.sqrt(entropy / (spread**2 / n_steps + float(variances.mean()) / 2))
    regret = -np.log(prior) / theta + theta * spread**2 / n_steps
    return theta, np.asarray(regret + theta * (variances + variances.max()) / 4)


def normalised(log_weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """Return weights ∝ exp(log_weights) that sum to 1; ratios to the largest are >= `least`."""
    weights = np.maximum(np.exp(log_weights - log_weights.max()), least)
    return np.asarray(weights / weights.sum())


def variance_between(means: FloatArray, variances: FloatArray) -> float:
    """Estimate the variance τ² of true means across groups, from noisy ones (Paule and Mandel).

    τ² solves ``Σ (x_i - m)²/(τ² + v_i) = n_groups - 1``, x the means, v the variances of their
    noise, m the precision-weighted mean; it is 0 where noise explains all differences.
    """
    between, variances = 0.0, np.maximum(variances, np.finfo(float).tiny)
    for _ in range(100):
        precisions = 1.0 / (between + variances)
        squares = (means - precisions @ means / precisions.sum()) ** 2
        excess = float(precisions @ squares) - (len(means) - 1)
        if between == 0.0 and excess <= 0.0:
            break
        # excess is convex and falls in τ²: from the left, Newton's steps stay left of the root
        step = excess / float(precisions**2 @ squares)
        between += step
        if step < 1e-9 * between:
            break
    return between


# How much the worst-off group gains by group weights, and how far to move them from the prior.

# Steps in the running mean of released risks; steps from which on the gain may only rise.
RUNNING_STEPS, FIRST_STEPS = 80, 15
# Variance of a record's loss, over the squared risk at weights of 0; factor on the variance of the
# noise, for caution; least drop of the mean risk, over the risk at 0; least risk at 0 by a noisy
# release, over the largest possible one.
LOSS_VARIANCE, NOISE_COUNTS, MIN_DROP, MIN_RISK = 0.2, 3.0, 0.04, 1e-3


class GainOfGroups:
    """Estimate what the worst-off group gains by group weights, and shrink these to the prior.

    With g the group's risk above the mean and D the drop of the mean risk since weights of 0, the
    gain in one direction is about ``E = g²/(4D)``, in all ``G = ByLoss.directions * E``. Learning d
    weights from n records costs ``d/(2n)``. So `fraction` is ``G/(G + d/(2n))``, the weight of the
    solver's group weights; the prior has the rest (docs/theory/people.md).
    """

    def __init__(
        self, problem: Problem, *, adapts: bool = True, risk_of_nothing: float = 0.0
    ) -> None:
        self._sizes = np.asarray(problem.group_sizes, dtype=float)
        self._prior, largest_zero_risk = np.asarray(problem.prior), problem.constants.zero_score
        constants = by_loss(problem.loss)
        # risk at weights of 0: known for a log loss, else given or (0.0) from the first release
        self._zero_risk = largest_zero_risk if constants.shrinks else risk_of_nothing
        self._directions = constants.directions
        self._least_zero_risk = MIN_RISK * largest_zero_risk
        corrected_weights = problem.optimism_correction * problem.n_weights
        self._costs = corrected_weights / (2.0 * self._sizes)
        # sums over the running steps, and the number of these
        self._risk_sums, self._variance_sums = np.zeros((2, len(self._sizes)))
        self._count, self._n_steps = 0.0, 0
        self._adapts = adapts and problem.n_groups > 1
        self.gain, self.gain_std = 0.0, 0.0
        self.fraction = 0.5 if self._adapts and corrected_weights else 1.0

    def push(self, risks: FloatArray, variances: FloatArray) -> None:
        """Update `gain` and `fraction` by a step's released risks, and variances of their noise."""
        if not self._adapts:
            return
        if not self._zero_risk:
            self._zero_risk = max(float(self._prior @ risks), self._least_zero_risk)
        decay = 1.0 - 1.0 / RUNNING_STEPS
        self._n_steps += 1
        self._risk_sums = decay * self._risk_sums + risks
        self._variance_sums = decay**2 * self._variance_sums + variances
        self._count = decay * self._count + 1.0
        noise = NOISE_COUNTS * self._variance_sums / self._count**2
        noise = noise + LOSS_VARIANCE * self._zero_risk**2 / self._sizes
        means = self._risk_sums / self._count
        mean_of_all = float(self._prior @ means)
        between = variance_between(means, noise)
        gaps = between / (between + noise) * (means - mean_of_all)  # shrunk for noise
        gaps -= self._prior @ gaps
        drop = max(self._zero_risk - mean_of_all, MIN_DROP * self._zero_risk)
        divisor = 4.0 * drop / self._directions  # G = g²/divisor
        worst = int(gaps.argmax())  # the group that looks worst off
        gain = float(gaps[worst] ** 2 / divisor)
        if self._n_steps <= FIRST_STEPS or gain > self.gain:
            self.gain = gain
            self.gain_std = float(2.0 * gaps[worst] * np.sqrt(noise[worst]) / divisor)
            gain_and_cost = gain + self._costs[worst]
            self.fraction = gain / gain_and_cost if gain_and_cost else 1.0

    def played(self, group_weights: FloatArray) -> FloatArray:
        """Return the solver's group weights, shrunk towards the prior; (n_groups,)."""
        return self.fraction * group_weights + (1.0 - self.fraction) * self._prior

    @property
    def released(self) -> dict[str, float]:
        """Fields of a `Solution` about the gain, computed from releases alone."""
        return {"group_gain": self.gain, "group_gain_std": self.gain_std} if self._adapts else {}


# Sums of losses and gradients over fresh records; sensitivities and rounding of sums.

# Losses are rounded by less than this fraction of the largest.
LOSS_UNIT = 2.0**-36
# Records whose gradients are summed at once.
BLOCK_ROWS = 2**11
_UNIT = 2.0**-53  # unit roundoff of double precision
# Roundings of a sum that do not grow with the records: of products, registers, weights.
_EXTRA_ROUNDINGS = 256


def batch_losses(
    problem: Problem, rows: FloatArray, targets: ArrayLike, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the losses of a batch, (n_rows,), and their derivatives by the scores."""
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


def gradient_sum(problem: Problem, rows: FloatArray, slopes: FloatArray, n_rows: int) -> FloatArray:
    """Return the sum of the first `n_rows` records' gradients; slopes are of `batch_losses`."""
    if n_rows > BLOCK_ROWS:  # block by block, so that rounding does not grow with the batch
        total = np.zeros(problem.n_weights)
        for start in range(0, n_rows, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, n_rows))
            total += gradient_sum(problem, rows[block], slopes[block], block.stop - start)
        return total
    rows, slopes = rows[:n_rows], slopes[:n_rows]
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
    """Bound the rounding error of a batch's sum, over n_records times the bound on one record."""
    n_roundings = 2.0 * BLOCK_ROWS + n_records / BLOCK_ROWS + 2.0 * n_groups + _EXTRA_ROUNDINGS
    return n_roundings * _UNIT / (1.0 - n_roundings * _UNIT)


def record_errors(problem: Problem, highest_loss: float) -> tuple[float, float]:
    """Bound the rounding errors of a record's gradient, in norm, and of its loss.

    Losses count up to `highest_loss`. Rounding of a score moves the slope by the curvature times as
    much; bounds at a jump of the slope hold for all values between (docs/theory/sums.md).
    """
    constants, score = problem.constants, problem.constants.score_bound
    curvature = constants.smoothness if constants.smoothness < np.inf else 1.0
    slope_scale = problem.slope_bound + max(1.0, curvature) * score
    loss_scale = abs(highest_loss) + (constants.lipschitz + 1.0) * score
    read_error = record_rounding(problem.norm_read * slope_scale, problem.n_weights)
    return problem.rounding_factor * read_error, record_rounding(loss_scale, problem.n_weights)


@dataclass(frozen=True)
class SumSensitivity:
    """Largest changes of `Risks.sums` by one record, with rounding: ``docs/theory/sums.md``."""

    # Γ: replacing a record of group i moves ``Σ_i λ_i mean_i`` of the gradients by Γ λ_i/n_i
    gradient_diameter: float
    # a record that joins a batch moves the sum of its group's gradients by this
    gradient_norm: float
    # b: replacing a record moves the sum of its group's losses by b; a record that joins a batch,
    # or changes its group, moves a sum of losses minus `center` by b/2
    loss_range: float
    center: float  # middle of the range of losses

    @classmethod
    def of(cls, problem: Problem, *, loss_clip: float) -> Self:
        """Return the sensitivities where losses count up to `loss_clip`."""
        constants = problem.constants
        highest = min(loss_clip, constants.supremum)
        gradient_error, loss_error = record_errors(problem, highest)
        # norm before the change of variables of centred rows, whose norm is rounding_factor
        factor, gradient = problem.rounding_factor, problem.summed_norm + gradient_error
        # a loss is rounded to a unit that follows the losses at weights eight times as long; the
        # sum of a group's losses minus the centre is rounded a few times and once a cell
        coarse = problem.loss.constants(8.0 * max(1.0, constants.score_bound))
        largest = max(abs(coarse.infimum), abs(min(coarse.supremum, loss_clip)), abs(highest))
        sum_rounding = (8.0 + 2.0 * problem.n_cells) * _UNIT * problem.most_in_a_group
        loss_slack = (largest + loss_error) * (LOSS_UNIT + sum_rounding)
        # rounding moves each output of a gradient towards 0: two gradients get no farther apart
        # than one is from 0, or, with several outputs, than two opposite ones
        diameter = max(problem.pair_diameter, problem.lipschitz)
        if problem.loss.n_outputs > 1:
            diameter = 2.0 * problem.lipschitz
        n_records, roundings = problem.n_records, problem.roundings_of_a_mean
        slack = weighting_slack(gradient, n_records=n_records, n_groups=roundings)
        return cls(
            gradient_diameter=diameter + 2.0 * gradient_error + factor * slack,
            gradient_norm=problem.lipschitz + gradient_error,
            loss_range=constants.range_up_to(loss_clip) + 2.0 * loss_error + loss_slack,
            center=constants.infimum + (highest - constants.infimum) / 2.0,
        )
