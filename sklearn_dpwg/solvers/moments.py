"""Regression for the worst-off group from noisy second moments."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, Rules, at_least_zero, positive, whole
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.threads import one_blas_thread
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.optimum.saddle_point import minimise_quadratic_on_ball
from sklearn_dpwg.optimum.worst_group import smooth_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity
from sklearn_dpwg.solvers import steps
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution, Solver

MOMENTS = "second moments"

# Most weights for `auto` to choose this solver: moments have an entry for each pair of weights.
MAX_WEIGHTS_OF_MOMENTS = 200
# Entries of a record's vector beside its row of norm 1: the constant, and the largest residual.
# √(1 + constant²) gives residuals the least noise (benchmarks/moments.py constant).
CONSTANT, LENGTH = 0.75, 1.25
# Relative increase of the sensitivity that covers rounding.
ROUNDING = 5e-3
# Records of a group up to which both parts of its sums are exact (docs/theory/sums.md).
MAX_GROUP = 2**38
# Residuals are never clipped to less than this fraction of the target bound.
MIN_CLIP_NORM = 0.05
# Norm of the weights that the planning bound is for, as a fraction of the problem's `reach`.
INITIAL_DISTANCE = 0.3
# Assumed ratio of residuals, and of moves of the weights, after several rounds to those after one.
LEFT_BY_ROUNDS = 0.5


@dataclass(frozen=True)
class MomentsSchedule:
    """All public numbers that a run of `Moments` needs besides the records and the noise."""

    multipliers: tuple[float, ...]  # noise multiplier of each round
    sensitivity: float  # largest L2 distance that one record moves the sums of a round
    constant: float  # entry of a record's vector for the intercept; 0 without one
    length: float  # largest entry of a record's vector for the residual
    target_bound: float  # clip of residuals in the first round
    clip: float  # least clip of residuals in later rounds, over their root mean square
    ridge: float  # regularisation of the weights, a parameter of `Moments`
    smoothing: float  # weight of ‖λ‖² for the group weights λ, a parameter of `Moments`

    __repr__ = short_repr

    @property
    def n_steps(self) -> int:
        """Number of rounds."""
        return len(self.multipliers)

    def __str__(self) -> str:
        return (
            f"{self.n_steps} round(s) of every group's second moments, which a record moves by at "
            f"most {self.sensitivity:.4g}"
        )


@dataclass(eq=False, repr=False)
class Moments(Solver):
    """Noisy second moments of every group, and the minimax optimum of the risks they define.

    For the squared error a group's risk is a quadratic function of the weights, whose coefficients
    are means of products of features and target. A round releases these means for all groups with
    Gaussian noise, and computes weights from them alone. A later round replaces the targets by
    residuals of the latest weights, clipped to a few times their root mean square, so that their
    noise is smaller in proportion; it keeps the targets where residuals are no smaller.

    Parameters
    ----------
    n_rounds : int, default=3
        Number of rounds, from 1 to 20.
    growth : float, default=2.0
        Ratio of the budget (μ²) of each round to that of the round before.
    clip : float, default=2.0
        Least clip of residuals over their root mean square, after the first round. The clip grows
        with the root of the logarithm of the inverse noise.
    ridge : float, default=0.25
        Regularisation of the weights, over the norm of the noise of all groups' Hessian together.
    smoothing : float, default=3.0
        Strength v that spreads the group weights λ over several groups, by the term ``-v ‖λ‖²/2``;
        over the estimated cost of noise where all weight is on one group.

    Notes
    -----
    Noisy moments of groups with few records are pulled towards those of all groups as far as noise
    explains the difference (James and Stein). `docs/theory/moments.md` proves the privacy.

    References
    ----------
    D. Vu and A. Slavkovic (2009), Differential Privacy for Clinical Trial Data. Y.-X. Wang (2018),
    Revisiting differentially private linear regression, arXiv:1803.02596.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import Moments
    >>> Moments(n_rounds=2)
    Moments(n_rounds=2)
    """

    n_rounds: int = 3
    _: KW_ONLY
    growth: float = 2.0
    clip: float = 2.0
    ridge: float = 0.25
    smoothing: float = 3.0

    name: ClassVar[str] = "moments"
    uses_start: ClassVar[bool] = False
    knows_overlap: ClassVar[bool] = True
    knows_hidden_groups: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules(
        "Moments",
        n_rounds=whole(1, 20),
        growth=positive(),
        clip=positive(),
        ridge=at_least_zero(),
        smoothing=at_least_zero(),
    )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        loss = problem.loss
        if not isinstance(loss, SquaredError):
            raise InputError(
                f"solver {self.name!r} is for loss 'squared_error' alone, whose risks are "
                f"quadratic, got {loss!r}."
            )
        fractions = float(self.growth) ** np.arange(self.n_rounds)
        multipliers = 1.0 / np.sqrt(fractions / fractions.sum())
        proposed = [Release(MOMENTS, "gaussian", float(z), 1) for z in multipliers]
        releases = calibrate(proposed, budget)
        has_constant = problem.intercept_scaling > 0.0
        constant, length = (CONSTANT, LENGTH) if has_constant else (0.0, 1.0)
        norm = math.sqrt(1.0 + constant**2 + length**2)
        _check_group_sizes(problem)
        schedule = MomentsSchedule(
            multipliers=tuple(release.noise_multiplier for release in releases),
            sensitivity=(1.0 + ROUNDING) * moment_sensitivity(norm) * problem.group_moves,
            constant=constant,
            length=length,
            target_bound=loss.target_bound,
            clip=float(self.clip),
            ridge=float(self.ridge),
            smoothing=float(self.smoothing),
        )
        bounds = excess_bound_by_group(problem, schedule)
        return Plan(self.name, problem, budget, releases, schedule, bounds, n_steps=self.n_rounds)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        sizes = np.asarray(problem.group_sizes, dtype=float)
        n_columns = problem.n_columns + 1
        weights, group_weights = np.zeros(problem.n_weights), np.asarray(problem.prior)
        center, clip = weights, schedule.target_bound
        mean = np.zeros((problem.n_groups, n_columns, n_columns))  # of all rounds, by precision
        precision = np.zeros((n_columns, n_columns))
        for release in plan.releases:
            moments = release_moments(plan, release, data, center, clip, noise)
            round_precision = release.noise_multiplier**-2
            mean = (precision * mean + round_precision * moments) / (precision + round_precision)
            precision += round_precision
            stds = schedule.sensitivity / np.sqrt(precision[-1, -1]) / sizes
            row_stds = schedule.sensitivity / np.sqrt(precision[0, 0]) / sizes
            active_mean, stds, row_stds = _active_moments(mean, stds, row_stds, problem)
            weights, group_weights, mean_square, gain = _weights_from_moments(
                active_mean, stds, row_stds, problem, schedule, center=center, clip=clip
            )
            # stds are about the noise over the clip, so this is the log of the inverse noise
            log_precision = max(1.0, -math.log(min(1.0, float(stds.mean()))))
            next_clip = max(schedule.clip, math.sqrt(log_precision))
            next_clip *= math.sqrt(max(mean_square, 0.0))
            had_residuals = center.any()
            # the next round reads residuals if they are shorter than the targets
            has_residuals = next_clip < schedule.target_bound
            center, clip = np.zeros_like(weights), schedule.target_bound
            if has_residuals:
                center, clip = weights, max(next_clip, MIN_CLIP_NORM * schedule.target_bound)
            if has_residuals or had_residuals:  # another centre: their moments begin anew
                precision[-1, :] = precision[:, -1] = 0.0
        return Solution(weights, group_weights, schedule.n_steps, **gain.released)


def _check_group_sizes(problem: Problem) -> None:
    """Raise InputError for groups so large that `ROUNDING` would not cover rounding their sums."""
    # a record that changes its group moves the rounding of two sums; a group of cells is their sum
    n_sums = (1 if problem.hidden is None else 2) + problem.n_cells
    largest = problem.most_in_a_group
    if n_sums * largest * 2.0**-50 > ROUNDING / 5.0 or largest > MAX_GROUP:
        raise InputError(
            f"solver 'moments' cannot add up {largest:,} records of a group with "
            f"{problem.n_weights:,} weights exactly: choose 'mgr', or split the group."
        )


def excess_bound_by_group(problem: Problem, schedule: MomentsSchedule) -> FloatArray:
    """Return for each group the bound on the excess risk if that group is the worst-off one.

    ``a √g_i + √(2 log p) (h_i + Σ_j π_j h_j)``: a is the norm of the weights, g_i the variance of
    the last round's noise in the gradient, h_i its deviation in the risk (docs/theory/moments.md).
    """
    sizes = problem.sizes_to_plan_for
    stds = schedule.sensitivity * schedule.multipliers[-1] / sizes
    initial_distance, ratio = INITIAL_DISTANCE * problem.reach, 1.0
    if schedule.constant > 0.0:
        ratio = max(1.0, problem.intercept_scaling / schedule.constant)
    target_norm = schedule.target_bound / schedule.length
    squared_norm = (initial_distance * ratio) ** 2 + target_norm**2  # ‖u‖² of the page
    if schedule.n_steps > 1:
        squared_norm *= LEFT_BY_ROUNDS**2
    gradient_factor = math.sqrt(squared_norm * (problem.n_columns + 1) / 2.0)
    bound = initial_distance * ratio * stds * gradient_factor
    if problem.n_groups > 1:
        risk_stds = stds * squared_norm / 2.0
        spread = risk_stds + float(np.asarray(problem.prior) @ risk_stds)
        bound = bound + math.sqrt(2.0 * math.log(problem.n_groups)) * spread
    return np.asarray(np.minimum(bound, problem.constants.zero_score))


def _active_moments(
    moments: FloatArray, stds: FloatArray, row_stds: FloatArray, problem: Problem
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the arguments, with the mean over groups for hidden groups that may be empty."""
    is_active = problem.is_active
    if is_active.all():
        return moments, stds, row_stds
    fractions = steps.active_fractions(problem)
    mean = np.tensordot(fractions, moments, 1)
    stds = np.where(is_active, stds, np.linalg.norm(fractions * stds))
    row_stds = np.where(is_active, row_stds, np.linalg.norm(fractions * row_stds))
    return np.where(is_active[:, None, None], moments, mean), stds, row_stds


def _weights_from_moments(
    moments: FloatArray,
    stds: FloatArray,
    row_stds: FloatArray,
    problem: Problem,
    schedule: MomentsSchedule,
    *,
    center: FloatArray,
    clip: float,
) -> tuple[FloatArray, FloatArray, float, steps.GainOfGroups]:
    """Return weights, group weights, the mean square of the residuals, and the gain of groups.

    ``moments`` are each group's noisy means, with residuals of the weights ``center``; ``stds`` and
    ``row_stds`` the noise of each group on products with residuals, and of rows with rows.
    """
    sizes = np.asarray(problem.group_sizes, dtype=float)
    fractions = sizes / sizes.sum()
    is_of_rows = np.zeros(moments.shape[1:], dtype=bool)
    is_of_rows[:-1, :-1] = True
    # the square of the constant is public: it has no noise
    is_noisy = np.ones_like(is_of_rows)
    if schedule.constant > 0.0:
        is_noisy[-2, -2] = False
    noisy_moments = moments
    moments = shrunk_moments(moments, row_stds, is_of_rows & is_noisy)
    moments = shrunk_moments(moments, stds, ~is_of_rows)
    # factors from the units of the release to those of rows and targets
    units = np.ones(problem.n_columns + 1)
    units[-1] = clip / schedule.length
    if schedule.constant > 0.0:
        units[-2] = problem.intercept_scaling / schedule.constant
    facts: dict[str, Any] = {"center": center, "ridge": schedule.ridge, "radius": problem.radius}
    weights, group_weights = robust_optimum(
        moments,
        units,
        mean_noise=float((stds**2).mean()),
        pooled_noise=1.0 / math.sqrt(float((row_stds**-2).sum())),
        smoothing=schedule.smoothing,
        fractions=fractions,
        **facts,
    )

    def mean_squares(weights: FloatArray, moments: FloatArray) -> tuple[FloatArray, float]:
        """Return each group's mean squared residual, and by what the noise is multiplied in it."""
        direction = np.append(center - weights, 1.0) * units
        return (moments @ direction) @ direction, float(direction @ direction)

    mean_square = float(fractions @ mean_squares(weights, moments)[0])
    prior = np.asarray(problem.prior)
    # half a mean square is a risk: here that of weights of 0, which predict nothing
    risk_of_nothing = float(prior @ mean_squares(np.zeros_like(weights), noisy_moments)[0]) / 2.0
    gain = steps.GainOfGroups(problem, risk_of_nothing=risk_of_nothing)
    prior_weights = mixed_optimum(moments, units, prior, stds=row_stds, **facts)
    prior_squares, noise_factor = mean_squares(prior_weights, noisy_moments)
    gain.push(prior_squares / 2.0, (stds * noise_factor / 2.0) ** 2)
    if gain.fraction < 1.0:
        group_weights = gain.played(group_weights)
        weights = mixed_optimum(moments, units, group_weights, stds=row_stds, **facts)
    return weights, group_weights, mean_square, gain


def release_moments(
    plan: Plan, release: Release, data: Risks, center: FloatArray, clip: float, noise: NoiseSource
) -> FloatArray:
    """Release each group's mean second moments of rows and of residuals of the weights ``center``.

    Residuals are clipped at ``clip``. Entries off the diagonal are released times √2, so that the
    L2 norm of a triangle is that of the matrix, which `moment_sensitivity` is for.
    """
    schedule, constant = plan.schedule, plan.schedule.constant
    sums = data.residual_moments(center, clip=clip, constant=constant, length=schedule.length)
    rows, columns = np.triu_indices(sums.shape[1])
    if constant > 0.0:  # the square of the constant is public
        is_private = (rows != sums.shape[1] - 2) | (columns != sums.shape[1] - 2)
        rows, columns = rows[is_private], columns[is_private]
    factors = np.where(rows == columns, 1.0, math.sqrt(2.0))
    entries = sums[:, rows, columns] * factors
    noisy = noise.gaussian(entries, sensitivity=schedule.sensitivity, release=release)
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    moments = np.full(sums.shape, constant**2)
    moments[:, rows, columns] = moments[:, columns, rows] = noisy / factors / sizes[:, None]
    return moments


# A slack is at most this fraction of the radius, so that the ball hardly limits it.
SLACK_IN_BALL = 1e-3
# Optimality gap, in units of the loss, or of risks that noise has made larger.
TOLERANCE = 1e-6
# Factor on the noise where a group is pulled towards the others (benchmarks/moments.py).
CAUTION = 2.0


def shrunk_moments(moments: FloatArray, stds: FloatArray, block: NDArray[np.bool_]) -> FloatArray:
    """Return each group's noisy moments, with a block pulled towards the mean of all groups.

    James and Stein's estimate, with twice the noise: of the difference D from the mean with weights
    ``1/σ_i²`` it keeps the fraction ``(1 - 2 (k - 2) s²/‖D‖²)_+``, k the entries of a triangle of
    the block and s² the variance of the noise in D.
    """
    n_entries = int(np.triu(block).sum())
    if len(moments) == 1 or n_entries < 3:
        return moments
    precisions = stds.min() ** 2 / stds**2
    weights = precisions / precisions.sum()
    mean = np.tensordot(weights, moments, 1)
    difference = np.where(block, moments - mean, 0.0)
    variances = stds**2 * (1.0 - 2.0 * weights) + weights**2 @ stds**2
    squares = np.maximum((difference**2).sum(axis=(1, 2)), np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # where a group's moments equal the mean
        kept_fractions = np.maximum(1.0 - CAUTION * (n_entries - 2) * variances / squares, 0.0)
    return np.where(block, mean + kept_fractions[:, None, None] * difference, moments)


def positive_part(matrices: FloatArray) -> FloatArray:
    """Return the nearest positive semi-definite matrices: negative eigenvalues become zero."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


class NoisyRisks:
    """Quadratic group risks ``L_i(w) = w'H_i w/2 - b_i'w + c_i/2``, as `RiskFunctions`.

    With `smoothing` v > 0 each group has a slack u_i, appended to the weights. The maximum over i
    of ``L_i(w) - u_i + Σ_j u_j²/(2v)``, minimised over u, is ``max_λ Σ λ_i L_i(w) - v ‖λ‖²/2``:
    all weight is on a single group only if its risk is above all others by v.
    """

    def __init__(
        self,
        hessians: FloatArray,
        linear: FloatArray,
        constants: FloatArray,
        *,
        smoothing: float,
        radius: float,
    ) -> None:
        n_groups, d = linear.shape
        n_slacks = n_groups if smoothing > 0.0 else 0
        self.hessians = np.zeros((n_groups, d + n_slacks, d + n_slacks))
        self.linear = np.zeros((n_groups, d + n_slacks))
        self.hessians[:, :d, :d], self.linear[:, :d] = hessians, linear
        self.constants = constants
        if n_slacks:
            # no slack is above v, so in these units none is above SLACK_IN_BALL of the radius
            unit = smoothing / (SLACK_IN_BALL * radius)
            groups = np.arange(n_groups)
            self.linear[groups, d + groups] = unit
            self.hessians[:, d + groups, d + groups] = unit**2 / smoothing
        self.n_groups, self.n_weights = self.linear.shape
        self.group_sizes = (1,) * n_groups

    def risks(self, weights: FloatArray, *, loss_clip: float | None = None) -> FloatArray:
        return self.risks_and_gradients(weights)[0]

    def risks_and_gradients(
        self, weights: FloatArray, *, loss_clip: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        images = self.hessians @ weights
        risks = (0.5 * images - self.linear) @ weights + 0.5 * self.constants
        return risks, images - self.linear

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        return np.asarray(np.tensordot(group_weights, self.hessians, 1))


def robust_optimum(
    moments: FloatArray,
    units: FloatArray,
    *,
    center: FloatArray,
    mean_noise: float,
    pooled_noise: float,
    ridge: float,
    smoothing: float,
    fractions: FloatArray,
    radius: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the weights in the ball that minimise the largest noisy risk, and the group weights.

    A column of the moments times its entry in `units` is in the units of rows and targets.
    `mean_noise` is the mean of σ_i² over groups, `pooled_noise` the deviation of the mean with
    weights ``1/σ_i²``. docs/theory/moments.md, 3, defines the units of `ridge` and `smoothing`.
    """
    n_groups, n_columns, _ = moments.shape
    n_weights = n_columns - 1
    identity, noise_norm = np.eye(n_weights), pooled_noise * math.sqrt(n_columns)
    curvatures = positive_part(moments[:, :-1, :-1]) + ridge * noise_norm * identity
    smoothing_level = 0.0
    if n_groups > 1 and smoothing > 0.0:
        mean = np.tensordot(fractions, curvatures, 1) + noise_norm * identity
        trace = float(np.trace(np.linalg.inv(mean)))
        smoothing_level = smoothing * mean_noise * units[-1] ** 2 * trace / 2.0
    scale = units[:-1]
    hessians = curvatures * scale[:, None] * scale
    linear = moments[:, :-1, -1] * (scale * units[-1])
    # moments define risks as functions of w - center; these are the coefficients in w
    images = hessians @ center
    constants = moments[:, -1, -1] * units[-1] ** 2 + (images + 2.0 * linear) @ center
    # a level common to all groups changes no optimum and would cost digits
    constants = constants - constants.mean()
    risks = NoisyRisks(
        hessians, linear + images, constants, smoothing=smoothing_level, radius=radius
    )
    risk_scale = max(1.0, float(np.abs(risks.linear[:, :n_weights]).max()) * radius)
    with one_blas_thread():
        point = smooth_optimum(
            risks, radius=radius, tolerance=TOLERANCE * risk_scale, max_newton_steps=100
        )
    return point.weights[:n_weights], point.group_weights


def mixed_optimum(
    moments: FloatArray,
    units: FloatArray,
    group_weights: FloatArray,
    *,
    center: FloatArray,
    stds: FloatArray,
    ridge: float,
    radius: float,
) -> FloatArray:
    """Return the weights in the ball that minimise the noisy risks' mean with these group weights.

    Other arguments are as for `robust_optimum`; ``stds`` is the noise on products of rows.
    """
    mean, scale = np.tensordot(group_weights, moments, 1), units[:-1]
    noise_norm = math.sqrt(len(mean)) * float(np.linalg.norm(group_weights * stds))
    hessian = positive_part(mean[:-1, :-1]) + ridge * noise_norm * np.eye(len(scale))
    hessian = hessian * scale[:, None] * scale
    linear = mean[:-1, -1] * (scale * units[-1]) + hessian @ center
    with one_blas_thread():
        return minimise_quadratic_on_ball(hessian, linear, radius, np.finfo(float).tiny)
