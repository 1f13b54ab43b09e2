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

# Moments have an entry for each pair of weights.
MAX_WEIGHTS_OF_MOMENTS = 200

# Entries of a record's vector beside its row of norm 1: the constant, and the largest residual,
# √(1 + constant²), with which residuals have the least noise (benchmarks/moments.py constant).
CONSTANT, LENGTH = 0.75, 1.25

# What the sensitivity is larger by to pay for rounding.
ROUNDING = 5e-3

# Records of a group up to which both parts of its sums are exact (docs/theory/sums.md).
MAX_GROUP = 2**38

# Residuals are never clipped to less than this fraction of the target bound.
MIN_CLIP_NORM = 0.05

# Norm of the weights that the planning bound is for, as a fraction of the problem's `reach`.
INITIAL_DISTANCE = 0.3

# Residuals, and moves of the weights, in the last of several rounds, over those of a single one.
LEFT_BY_ROUNDS = 0.5


@dataclass(frozen=True)
class MomentsSchedule:
    """Everything that `Moments.run` needs besides the records and the noise."""

    multipliers: tuple[float, ...]  # noise multiplier of each round
    sensitivity: float  # by how much one record moves the sums of a round
    constant: float  # entry of a record's vector for the intercept; 0 without one
    length: float  # largest entry of a record's vector for the residual
    target_bound: float  # bound on residuals in the first round
    clip: float  # least bound on residuals in later rounds, over their root mean square
    ridge: float  # what keeps the model from fitting noise; see `robust_optimum`
    smoothing: float

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
    """Noisy second moments of every group, and the exact minimax optimum of what they show.

    For the squared error a group's risk is a quadratic function of the weights, whose coefficients
    are means of products of features and target. A round releases them for all groups with
    Gaussian noise: everything else is computed from that. A later round does the same with the
    residuals of the weights so far, clipped to a few times their root mean square, so that their
    noise is smaller in proportion; or with the targets again, where residuals are no smaller.

    Parameters
    ----------
    n_rounds : int, default=3
        Number of rounds, from 1 to 20.
    growth : float, default=2.0
        Share of the budget (of μ²) of each round over that of the one before.
    clip : float, default=2.0
        Least bound on residuals over their root mean square, after the first round. It grows with
        the root of the logarithm of how quiet the noise is.
    ridge : float, default=0.25
        Regularisation of the weights, over the norm of the noise of all groups' Hessian together.
    smoothing : float, default=3.0
        How unwilling the largest group risk is to rest on one group alone, over about what noise
        costs where it does.

    Notes
    -----
    Loud moments of groups with few records are pulled towards those of all groups as far as noise
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
        asked = [Release(MOMENTS, "gaussian", float(each), 1) for each in multipliers]
        releases = calibrate(asked, budget)
        has_constant = problem.intercept_scaling > 0.0
        constant, length = (CONSTANT, LENGTH) if has_constant else (0.0, 1.0)
        norm = math.sqrt(1.0 + constant**2 + length**2)
        _check_rounding(problem)
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
        return Plan(self.name, problem, budget, releases, schedule, bounds, self.n_rounds)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        sizes = np.asarray(problem.group_sizes, dtype=float)
        n_columns = problem.n_columns + 1
        weights, group_weights = np.zeros(problem.n_weights), np.asarray(problem.prior)
        center, clip = weights, schedule.target_bound
        mean = np.zeros((problem.n_groups, n_columns, n_columns))
        precision = np.zeros((n_columns, n_columns))
        for release in plan.releases:
            moments = release_moments(plan, release, data, center, clip, noise)
            # products of rows are the same in all rounds, those with residuals where the centre is
            fraction = release.noise_multiplier**-2
            mean = (precision * mean + fraction * moments) / (precision + fraction)
            precision += fraction
            stds = schedule.sensitivity / np.sqrt(precision[-1, -1]) / sizes
            stds_of_rows = schedule.sensitivity / np.sqrt(precision[0, 0]) / sizes
            known = _active(mean, stds, stds_of_rows, problem)
            weights, group_weights, mean_square, gain = _learned(
                *known, problem, schedule, center=center, clip=clip
            )
            # noise is about this large beside what is clipped, in groups of average loudness
            quiet = max(1.0, -math.log(min(1.0, float(known[1].mean()))))
            reach = max(schedule.clip, math.sqrt(quiet)) * math.sqrt(max(mean_square, 0.0))
            is_shorter, before = reach < schedule.target_bound, center
            # residuals that are no shorter than the targets are no better to know
            center, clip = np.zeros_like(weights), schedule.target_bound
            if is_shorter:
                center, clip = weights, max(reach, MIN_CLIP_NORM * schedule.target_bound)
            if is_shorter or before.any():
                precision[-1, :] = precision[:, -1] = 0.0
        return Solution(weights, group_weights, schedule.n_steps, **gain.released)


def _check_rounding(problem: Problem) -> None:
    """Refuse groups so large that rounding their sums, and their products with √2, would show."""
    # a record that changes its group moves the rounding of two sums; a group of cells is their sum
    n_sums = (1 if problem.hidden is None else 2) + problem.n_cells
    largest = problem.most_in_a_group
    if n_sums * largest * 2.0**-50 > ROUNDING / 5.0 or largest > MAX_GROUP:
        raise InputError(
            f"solver 'moments' cannot add up {largest:,} records of a group with "
            f"{problem.n_weights:,} weights exactly: choose 'mgr', or split the group."
        )


def excess_bound_by_group(problem: Problem, schedule: MomentsSchedule) -> FloatArray:
    """Return the planning bound for each group as the worst-off one (docs/theory/moments.md, 4).

    It is ``a √g_i + √(2 log p) (h_i + Σ_j π_j h_j)``, a the norm of the weights, g_i the variance
    of the gradient and h_i the standard deviation of the risk that the last round's noise adds.
    """
    sizes = problem.sizes_to_plan_for
    stds = schedule.sensitivity * schedule.multipliers[-1] / sizes
    initial_distance, ratio = INITIAL_DISTANCE * problem.reach, 1.0
    if schedule.constant > 0.0:
        ratio = max(1.0, problem.intercept_scaling / schedule.constant)
    target = schedule.target_bound / schedule.length
    square = (initial_distance * ratio) ** 2 + target**2
    if schedule.n_steps > 1:
        square *= LEFT_BY_ROUNDS**2
    bound = initial_distance * ratio * stds * math.sqrt(square * (problem.n_columns + 1) / 2.0)
    if problem.n_groups > 1:
        levels = stds * square / 2.0
        spread = levels + float(np.asarray(problem.prior) @ levels)
        bound = bound + math.sqrt(2.0 * math.log(problem.n_groups)) * spread
    return np.asarray(np.minimum(bound, problem.constants.zero_score))


def _active(
    moments: FloatArray, stds: FloatArray, stds_of_rows: FloatArray, problem: Problem
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return moments and deviations, those of the mean for hidden groups that may be empty."""
    is_active = problem.is_active
    if is_active.all():
        return moments, stds, stds_of_rows
    fractions = steps.active_fractions(problem)
    mean = np.tensordot(fractions, moments, 1)
    stds = np.where(is_active, stds, np.linalg.norm(fractions * stds))
    stds_of_rows = np.where(is_active, stds_of_rows, np.linalg.norm(fractions * stds_of_rows))
    return np.where(is_active[:, None, None], moments, mean), stds, stds_of_rows


def _learned(
    moments: FloatArray,
    stds: FloatArray,
    stds_of_rows: FloatArray,
    problem: Problem,
    schedule: MomentsSchedule,
    *,
    center: FloatArray,
    clip: float,
) -> tuple[FloatArray, FloatArray, float, steps.GainOfGroups]:
    """Return weights, mixture, the mean square of the residuals, and the gain of groups."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
    fractions = sizes / sizes.sum()
    of_rows = np.zeros(moments.shape[1:], dtype=bool)
    of_rows[:-1, :-1] = True
    # the square of the constant is no release
    free = np.ones_like(of_rows)
    if schedule.constant > 0.0:
        free[-2, -2] = False
    released = moments
    moments = shrunk(moments, stds_of_rows, of_rows & free)
    moments = shrunk(moments, stds, ~of_rows)
    # what columns of the release are multiplied by to be in the units of the weights
    units = np.ones(problem.n_columns + 1)
    units[-1] = clip / schedule.length
    if schedule.constant > 0.0:
        units[-2] = problem.intercept_scaling / schedule.constant
    pooled = 1.0 / math.sqrt(float((stds_of_rows**-2).sum()))
    facts: dict[str, Any] = {"center": center, "ridge": schedule.ridge, "radius": problem.radius}
    weights, group_weights = robust_optimum(
        moments,
        units,
        mean_noise=float((stds**2).mean()),
        pooled_noise=pooled,
        smoothing=schedule.smoothing,
        fractions=fractions,
        **facts,
    )

    def squares(weights: FloatArray, moments: FloatArray) -> tuple[FloatArray, float]:
        along = np.append(center - weights, 1.0) * units
        return (moments @ along) @ along, float(along @ along)

    mean_square = float(fractions @ squares(weights, moments)[0])
    prior = np.asarray(problem.prior)
    nothing = float(prior @ squares(np.zeros_like(weights), released)[0]) / 2.0
    gain = steps.GainOfGroups(problem, risk_of_nothing=nothing)
    of_all = mixed_optimum(moments, units, prior, stds=stds_of_rows, **facts)
    pooled_squares, length = squares(of_all, released)
    gain.push(pooled_squares / 2.0, (stds * length / 2.0) ** 2)
    if gain.fraction < 1.0:
        group_weights = gain.played(group_weights)
        weights = mixed_optimum(moments, units, group_weights, stds=stds_of_rows, **facts)
    return weights, group_weights, mean_square, gain


# Where records meet noise.


def release_moments(
    plan: Plan, release: Release, data: Risks, center: FloatArray, clip: float, noise: NoiseSource
) -> FloatArray:
    """Release each group's mean second moments of rows and of clipped residuals of a centre.

    An entry off the diagonal counts √2 times, so that the norm of what is released is that of the
    matrix, of which `moment_sensitivity` says how far a record moves it; the square of the constant
    is public and left out.
    """
    schedule, constant = plan.schedule, plan.schedule.constant
    sums = data.residual_moments(center, clip=clip, constant=constant, length=schedule.length)
    rows, columns = np.triu_indices(sums.shape[1])
    if constant > 0.0:
        is_free = (rows != sums.shape[1] - 2) | (columns != sums.shape[1] - 2)
        rows, columns = rows[is_free], columns[is_free]
    times = np.where(rows == columns, 1.0, math.sqrt(2.0))
    entries = sums[:, rows, columns] * times
    noisy = noise.gaussian(entries, sensitivity=schedule.sensitivity, release=release)
    sizes = np.asarray(plan.problem.group_sizes, dtype=float)
    moments = np.full(sums.shape, constant**2)
    moments[:, rows, columns] = moments[:, columns, rows] = noisy / times / sizes[:, None]
    return moments


# What noisy moments show.

# A slack is at most this fraction of the radius in the units that the ball sees.
SLACK_IN_BALL = 1e-3
# Gap to solve to, in units of the loss, or of risks that noise has made larger.
TOLERANCE = 1e-6
# Noise counts so many times when a group is pulled towards the others (benchmarks/moments.py).
CAUTION = 2.0


def shrunk(moments: FloatArray, stds: FloatArray, block: NDArray[np.bool_]) -> FloatArray:
    """Pull a block of each group's noisy moments towards all groups' as far as noise explains.

    Of the difference D from the mean with weights ``1/σ_i²`` the fraction
    ``(1 - 2 (k - 2) s²/‖D‖²)_+`` is kept, k the entries of a triangle of the block and s² the noise
    in D: James and Stein's estimate, with twice the noise.
    """
    n_entries = int(np.triu(block).sum())
    if len(moments) == 1 or n_entries < 3:
        return moments
    weights = stds.min() ** 2 / stds**2
    weights = weights / weights.sum()
    mean = np.tensordot(weights, moments, 1)
    difference = np.where(block, moments - mean, 0.0)
    noise = stds**2 * (1.0 - 2.0 * weights) + weights**2 @ stds**2
    squares = np.maximum((difference**2).sum(axis=(1, 2)), np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # of a group that has the mean's
        kept = np.maximum(1.0 - CAUTION * (n_entries - 2) * noise / squares, 0.0)
    return np.where(block, mean + kept[:, None, None] * difference, moments)


def positive_part(matrices: FloatArray) -> FloatArray:
    """Return the nearest positive semi-definite matrices: negative eigenvalues become zero."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


class NoisyRisks:
    """Quadratic group risks with slacks for noise: `RiskFunctions` of weights and slacks.

    The largest of ``w'H_i w/2 - b_i'w + c_i/2 - u_i + Σ_j u_j²/(2v)``, minimised over u, is
    ``max_λ Σ λ_i L_i(w) - v ‖λ‖²/2``, which does not rest on a single group for less than v.
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
        p, d = linear.shape
        n_slacks = p if smoothing > 0.0 else 0
        self.hessians = np.zeros((p, d + n_slacks, d + n_slacks))
        self.linear = np.zeros((p, d + n_slacks))
        self.hessians[:, :d, :d], self.linear[:, :d] = hessians, linear
        self.constants = constants
        if n_slacks:
            # no slack is above v, so in these units none is above SLACK_IN_BALL of the radius
            unit = smoothing / (SLACK_IN_BALL * radius)
            own = np.arange(p)
            self.linear[own, d + own] = unit
            self.hessians[:, d + own, d + own] = unit**2 / smoothing
        self.n_groups, self.n_weights = self.linear.shape
        self.group_sizes = (1,) * p

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
    """Minimise the largest risk that noisy moments show; return weights in the ball, and a mixture.

    `units` are what a column is multiplied by to be in the units of the weights, `mean_noise` the
    mean of σ_i² over groups, `pooled_noise` the deviation of the mean with weights ``1/σ_i²``. What
    `ridge` and `smoothing` are multiples of is in docs/theory/moments.md.
    """
    p, size, _ = moments.shape
    n_weights = size - 1
    identity, noise_norm = np.eye(n_weights), pooled_noise * math.sqrt(size)
    curvature = positive_part(moments[:, :-1, :-1]) + ridge * noise_norm * identity
    level = 0.0
    if p > 1 and smoothing > 0.0:
        mean = np.tensordot(fractions, curvature, 1) + noise_norm * identity
        inverse = np.linalg.inv(mean)
        level = smoothing * mean_noise * units[-1] ** 2 * float(np.trace(inverse)) / 2.0
    scale = units[:-1]
    hessians = curvature * scale[:, None] * scale
    linear = moments[:, :-1, -1] * (scale * units[-1])
    # risks are those of w - center: written in w
    images = hessians @ center
    constants = moments[:, -1, -1] * units[-1] ** 2 + (images + 2.0 * linear) @ center
    # a level common to all groups changes no optimum and would cost digits
    constants = constants - constants.mean()
    risks = NoisyRisks(hessians, linear + images, constants, smoothing=level, radius=radius)
    size_of_risks = max(1.0, float(np.abs(risks.linear[:, :n_weights]).max()) * radius)
    with one_blas_thread():
        point = smooth_optimum(
            risks, radius=radius, tolerance=TOLERANCE * size_of_risks, max_newton_steps=100
        )
    return point.weights[:n_weights], point.group_weights


def mixed_optimum(
    moments: FloatArray,
    units: FloatArray,
    mixture: FloatArray,
    *,
    center: FloatArray,
    stds: FloatArray,
    ridge: float,
    radius: float,
) -> FloatArray:
    """Minimise a mixture of the risks that noisy moments show, with the ridge of its own noise."""
    mean, scale = np.tensordot(mixture, moments, 1), units[:-1]
    noise_norm = math.sqrt(len(mean)) * float(np.linalg.norm(mixture * stds))
    hessian = positive_part(mean[:-1, :-1]) + ridge * noise_norm * np.eye(len(scale))
    hessian = hessian * scale[:, None] * scale
    linear = mean[:-1, -1] * (scale * units[-1]) + hessian @ center
    with one_blas_thread():
        return minimise_quadratic_on_ball(hessian, linear, radius, np.finfo(float).tiny)
