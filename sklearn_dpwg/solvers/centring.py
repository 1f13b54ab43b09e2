"""Centred and whitened rows: public facts of a problem on them, and the private releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from operator import sub

import numpy as np
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.risks.record_block import times
from sklearn_dpwg.data.threads import one_blas_thread
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import BinaryLogLoss, LossConstants
from sklearn_dpwg.optimum.saddle_point import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import by_loss

# Up to so many columns d, a matrix of second moments whitens rows, else mean squares of columns;
# planned for at least so many effective records (records times μ) per d√d, and per d.
MAX_COLUMNS, MIN_EFFECTIVE_SAMPLE_SIZE, MIN_EFFECTIVE_SAMPLE_SIZE_OF_COLUMNS = 200, 20.0, 100.0
# Records up to which sums of second moments are proved exact (docs/theory/centring.md, section 5).
MAX_RECORDS = 2**36
# Largest stretch of a direction of rows by whitening; least mean square of a direction, over the
# mean of all: smaller ones count as this.
LONGEST_STRETCH, MIN_MEAN_SQUARE = 4.0, 0.01
# Entries of P are whole multiples of this, so that products with rows on their grid are exact.
WHITENING_STEP = 2.0**-18
# A limited loss may fall to its infimum over all scores, here over those up to this.
FAR = 1e8
# Value of the constant column behind centred rows, whose mean square is 1.
CONSTANT = 0.5
# Least root mean square of centred rows, and least mean square in deviations of its noise.
SHORTEST, DEVIATIONS = 2.0**-6, 2.0
# Names of the releases before the first step.
CENTRE, SPREAD = "mean row", "mean squared distance from it"
MOMENTS, SQUARES = "second moments of rows", "mean squares of columns"
# Their fractions of μ².
CENTRE_FRACTION, MOMENTS_FRACTION, SQUARES_FRACTION, SPREAD_FRACTION = 0.03, 0.03, 0.02, 0.01
BEFORE = {CENTRE: CENTRE_FRACTION, MOMENTS: MOMENTS_FRACTION}
BEFORE |= {SQUARES: SQUARES_FRACTION, SPREAD: SPREAD_FRACTION}


@dataclass(frozen=True)
class GradientClip:
    """How rows are centred: the limit on a record's gradient, which saves noise; whitening."""

    fraction: float  # of the root mean square norm of centred rows with their constant
    # name of the release that whitens rows, `MOMENTS` or `SQUARES`; empty for none
    whitening: str = ""

    @property
    def clip(self) -> float:
        """Largest norm of a record's gradient."""
        return self.fraction * math.hypot(1.0, CONSTANT)

    def __str__(self) -> str:
        """Return the line about centring in a printed plan."""
        white = f", half whitened by released {self.whitening}" if self.whitening else ""
        return f"rows relative to a released mean row{white}, slopes limited"


def is_worth_centring(problem: Problem) -> bool:
    """Return whether planned solvers centre rows: for some losses, with an intercept."""
    return by_loss(problem.loss).is_centred and problem.intercept_scaling > 0.0


def planned_whitening(problem: Problem, mu: float = math.inf) -> str:
    """Return the name of the release to whiten rows by; "" if its noise at μ is too large."""
    d, n_records = problem.n_features, problem.n_records
    has_few_columns = d <= MAX_COLUMNS
    of_matrix = MIN_EFFECTIVE_SAMPLE_SIZE * math.sqrt(d)
    per_column = of_matrix if has_few_columns else MIN_EFFECTIVE_SAMPLE_SIZE_OF_COLUMNS
    is_too_noisy = mu < math.inf and (d < 2 or n_records * mu < d * per_column)
    if is_too_noisy or n_records > MAX_RECORDS:
        return ""
    return MOMENTS if has_few_columns else SQUARES


def check_centring(problem: Problem, owner: str) -> None:
    """Raise InputError without an intercept, or for a loss whose slopes cannot be limited."""
    if problem.intercept_scaling == 0.0:
        raise InputError(
            f"centring of {owner} needs an intercept, which takes up the centre, but there is none."
        )
    if not problem.loss.has_ends:
        raise InputError(
            f"centring of {owner} needs a loss with ends(), which limits slopes, got "
            f"{problem.loss!r}."
        )
    if problem.loss.constants(FAR).infimum < 0.0:
        raise InputError(
            f"centring of {owner} needs a loss of at least 0 at every score, got {problem.loss!r}."
        )


@dataclass(frozen=True)
class CentredProblem(Problem):
    """Public facts of a problem on rows ``u = (P (x - c), s₀)``, for every centre c and matrix P.

    `intercept_scaling` is s₀. Losses are flattened so that no record's gradient is longer than
    ``limit.clip``.
    """

    limit: GradientClip = GradientClip(1.0)
    stretch: float = 1.0  # bound on the spectral norm ‖P‖
    norm_of_rows: float = 0.0  # bound on the norm of a row before it was centred

    __repr__ = short_repr

    @cached_property
    def constants(self) -> LossConstants:
        """Bounds of the losses for weights in the ball of rows or in that of centred rows.

        Limited losses may be lower than the loss at reachable scores, but not below 0.
        """
        bounds = self.loss.constants(self.radius * max(self.row_norm, self.norm_of_rows))
        return replace(bounds, infimum=min(0.0, bounds.infimum))

    @cached_property
    def row_norm(self) -> float:
        """Bound √(4 ‖P‖² + s₀²) on the norm of a row: x and c are in the unit ball."""
        return math.hypot(2.0 * self.stretch, self.intercept_scaling)

    @cached_property
    def lipschitz(self) -> float:
        """Largest norm of a record's gradient."""
        return self.limit.clip

    @cached_property
    def gradient_diameter(self) -> float:
        """Largest distance between two records' gradients."""
        return 2.0 * self.limit.clip

    @cached_property
    def summed_norm(self) -> float:
        """Largest norm of a record's gradient on ``(x, 1)``, on which sums are computed first."""
        return self.norm_read * self.slope_bound

    @cached_property
    def norm_read(self) -> float:
        """Bound on the norm of ``(x, 1)``."""
        return math.sqrt(2.0)

    @cached_property
    def slope_bound(self) -> float:
        """Largest derivative of a loss: the limit is ``clip/‖u‖``, and ‖u‖ is at least s₀."""
        return min(self.constants.lipschitz, self.limit.clip / self.intercept_scaling)

    @cached_property
    def rounding_factor(self) -> float:
        """Bound on the norm of the map of sums over ``(x, 1)`` to sums over u."""
        return math.sqrt(2.0 * self.stretch**2 + CONSTANT**2)

    @cached_property
    def roundings_of_a_mean(self) -> int:
        d = {MOMENTS: self.n_features, SQUARES: 1}.get(self.limit.whitening, 0)
        return self.n_groups + self.n_cells + math.ceil((d + 2) * math.sqrt(d))

    @cached_property
    def smoothness(self) -> float:
        return self._smoothness(self.row_norm)

    @cached_property
    def usual_smoothness(self) -> float:
        return self._smoothness(math.hypot(2.0, CONSTANT))

    def _smoothness(self, row_norm: float) -> float:
        """Return the smoothness H of a loss in the weights, for rows up to a norm."""
        bound = self.constants.smoothness * row_norm**2
        # the curvature of a logistic loss is at most its slope, which is limited to clip/‖u‖
        is_logistic = type(self.loss) is BinaryLogLoss
        return min(bound, self.limit.clip * row_norm) if is_logistic else bound


def centred_problem(problem: Problem, limit: GradientClip) -> CentredProblem:
    """Return the public facts of a problem on centred rows, with a limit on gradients."""
    facts = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    facts["intercept_scaling"] = CONSTANT
    facts["norm_of_rows"] = problem.row_norm
    stretch = (LONGEST_STRETCH if limit.whitening else 1.0) / SHORTEST
    return CentredProblem(**facts, limit=limit, stretch=stretch)


def row_sum_sensitivity(problem: Problem) -> float:
    """Return the L2 sensitivity of the sum of all rows: 2, and 2⁻⁵¹ a record for rounding."""
    return 2.0 + problem.n_records * 2.0**-51


@dataclass(frozen=True, eq=False)
class Centring:
    """The released map from rows x to centred rows ``P (x - c)``, and the maps of weights."""

    center: FloatArray  # the released centre c, in the unit ball; (n_features,)
    clip: float  # limit on the norm of a record's gradient
    whitening: FloatArray  # P: symmetric, (n_features, n_features), or its diagonal, (n_features,)

    def view(self, data: Risks) -> Risks:
        """Return the risks of centred rows with limited gradients."""
        return data.centred(
            self.center, constant=CONSTANT, clip=self.clip, whitening=self.whitening
        )

    def from_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Map weights for centred rows to weights for rows that give the same scores."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        matrix[:, :-1] = times(matrix[:, :-1], self.whitening)
        constants = CONSTANT * matrix[:, -1] - matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / problem.intercept_scaling
        return matrix.ravel()

    def to_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Map weights for rows to weights for centred rows that give the same scores."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        constants = problem.intercept_scaling * matrix[:, -1] + matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / CONSTANT
        is_matrix = self.whitening.ndim == 2
        inverse = np.linalg.inv(self.whitening) if is_matrix else 1.0 / self.whitening
        matrix[:, :-1] = times(matrix[:, :-1], np.asarray(inverse, dtype=float))
        return matrix.ravel()

    def project(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the nearest weights for centred rows whose weights for rows are in the ball.

        With A for `from_centred` and w for `weights`, they are ``(I + ν A'A)⁻¹ w``, ν such that the
        norm of A times them is the radius. Along the axes of P, with eigenvalues p, A'A is
        ``diag(p², 0) + r r'``, ``r = (-p c, CONSTANT)/intercept_scaling``.
        """
        radius = problem.radius
        if np.linalg.norm(self.from_centred(weights, problem)) <= radius:
            return weights
        eigenvalues, axes = self._eigenvalues_and_axes
        rotated, center = weights.reshape(problem.loss.n_outputs, -1).copy(), self.center
        if axes is not None:
            rotated[:, :-1], center = rotated[:, :-1] @ axes, center @ axes
        squares = np.append(eigenvalues**2, 0.0)
        rank_one = np.append(-eigenvalues * center, CONSTANT) / problem.intercept_scaling

        def point_at(multiplier: float) -> FloatArray:
            """Return (I + ν A'A)⁻¹ w by the formula of Sherman and Morrison."""
            inverse = 1.0 / (1.0 + multiplier * squares)
            scaled = rank_one * inverse
            shifts = multiplier * (rotated @ scaled) / (1.0 + multiplier * (rank_one @ scaled))
            return rotated * inverse - np.outer(shifts, scaled)

        def log_excess(log_multiplier: float) -> float:
            """Return log(‖A point‖/radius), which falls with ν."""
            point = point_at(math.exp(log_multiplier))
            norm = math.hypot(*(np.sqrt(squares) * point).ravel(), *(point @ rank_one))
            return math.log(norm / radius)

        upper = 0.0  # bracket of log ν
        while log_excess(upper) > 0.0:
            upper += 5.0
        lower = upper - 200.0
        if log_excess(lower) <= 0.0:  # outside the ball by rounding alone
            return weights
        nearest = point_at(math.exp(brentq(log_excess, lower, upper, xtol=1e-13)))
        if axes is not None:
            nearest[:, :-1] = nearest[:, :-1] @ axes.T
        return np.asarray(nearest.ravel())

    @cached_property
    def _eigenvalues_and_axes(self) -> tuple[FloatArray, FloatArray | None]:
        """Eigenvalues p of P and its eigenvectors, None where P is diagonal."""
        if self.whitening.ndim == 1:
            return self.whitening, None
        with one_blas_thread():
            eigenvalues, axes = np.linalg.eigh(self.whitening)
        return eigenvalues, axes


def centring_fractions(problem: Problem) -> dict[str, float]:
    """Return the releases before the first step and their fractions of μ²; {} if not centred."""
    if not isinstance(problem, CentredProblem):
        return {}
    return {name: BEFORE[name] for name in (CENTRE, problem.limit.whitening, SPREAD) if name}


def fraction_left(problem: Problem) -> float:
    """Return the fraction of μ² that centring leaves for the steps."""
    return reduce(sub, centring_fractions(problem).values(), 1.0)


def releases_before(problem: Problem, mu: float) -> tuple[Release, ...]:
    """Return the releases that centre rows, at their fractions of a budget of μ²."""
    return tuple(
        Release(name, "gaussian", 1.0 / (mu * math.sqrt(fraction)), 1)
        for name, fraction in centring_fractions(problem).items()
    )


def release_centre(plan: Plan, limit: GradientClip, data: Risks, noise: NoiseSource) -> Centring:
    """Release the mean row, planned second moments and the mean squared distance; return the map.

    Replacing a record moves the sum of rows by at most 2, and the sum of squared distances, each
    cut at 1, by at most 1, plus rounding. Noisy numbers alone are processed further.
    """
    problem = plan.problem
    centring_releases = [release for release in plan.releases if release.name in BEFORE]
    mean_release, *moments_release, spread_release = centring_releases
    n_records, d = problem.n_records, problem.n_features
    sensitivity = row_sum_sensitivity(problem)
    row_sum = noise.gaussian(data.row_sum(), sensitivity=sensitivity, release=mean_release)
    mean = row_sum / n_records
    # shrink the noisy mean (James and Stein) by the squared norm of its noise, relative to its own
    variance = d * (mean_release.noise_multiplier * sensitivity / n_records) ** 2
    squared_norm = float(mean @ mean)
    shrinkage = max(0.0, 1.0 - variance / squared_norm) if squared_norm > 0.0 else 0.0
    center = project_to_ball(shrinkage * mean, 1.0)
    whitening: FloatArray = np.ones(d)
    for release in moments_release:  # one or none
        whitening = _release_whitening(problem, data, noise, release, mean, center)
    whitening = on_grid(whitening)
    # sensitivity 1, as each square is at most 1, and rounding; then scale to a mean square of 1
    squares = np.array([data.spread(center, whitening=whitening)])
    (noisy,) = noise.gaussian(squares, sensitivity=sensitivity - 1.0, release=spread_release)
    least = max(SHORTEST**2, DEVIATIONS * spread_release.noise_multiplier / n_records)
    scale = 1.0 / math.sqrt(np.clip(float(noisy) / n_records, min(least, 1.0), 1.0))
    return Centring(center, clip=limit.clip, whitening=on_grid(scale * whitening))


def moment_sum_sensitivity(problem: Problem) -> float:
    """Return the L2 sensitivity of the second moments, of all rows or of columns alone.

    ``‖x x' - y y'‖² = ‖x‖⁴ + ‖y‖⁴ - 2 (x·y)²`` is at most 2, and so is ``Σ_j (x_j² - y_j²)²``,
    whose terms are at most ``x_j⁴ + y_j⁴``. Rounding of the sum, and of products with √2, is added.
    """
    return moment_sensitivity(1.0) + problem.n_records * 2.0**-49


def _release_whitening(
    problem: Problem,
    data: Risks,
    noise: NoiseSource,
    release: Release,
    mean: FloatArray,
    center: FloatArray,
) -> FloatArray:
    """Release second moments of rows; return their power -1/4 around `center`, times a factor.

    It is a matrix, (d, d), or with moments of columns alone a diagonal, (d,).
    """
    n_records, d = problem.n_records, problem.n_features
    columns_alone = release.name == SQUARES
    sums = data.second_moments(columns_alone=columns_alone)
    # an upper triangle whose entries off the diagonal count √2: its L2 norm is the matrix's
    entries = np.arange(d) if columns_alone else np.triu_indices(d)
    scales = 1.0 if columns_alone else np.where(entries[0] == entries[1], 1.0, math.sqrt(2.0))
    sensitivity = moment_sum_sensitivity(problem)
    noisy = noise.gaussian(sums[entries] * scales, sensitivity=sensitivity, release=release)
    moments = np.zeros_like(sums)
    moments[entries] = noisy / scales / n_records
    std = release.noise_multiplier * sensitivity / n_records
    if columns_alone:  # noise: two standard deviations
        return whitening_factors(moments + center * (center - 2.0 * mean), noise=2.0 * std)
    moments[entries[::-1]] = moments[entries]
    moments += np.outer(center, center) - np.outer(center, mean) - np.outer(mean, center)
    # √(2d) standard deviations: about the largest eigenvalue of the noise
    noise_norm = std * math.sqrt(2.0 * d)
    with one_blas_thread():
        eigenvalues, vectors = np.linalg.eigh(moments)
        whitening = (vectors * whitening_factors(eigenvalues, noise=noise_norm)) @ vectors.T
    return np.asarray(whitening + whitening.T) / 2.0


def on_grid(whitening: FloatArray) -> FloatArray:
    """Return P rounded to multiples of `WHITENING_STEP`, whose products with rows are exact."""
    return np.asarray(np.rint(whitening / WHITENING_STEP) * WHITENING_STEP)


def whitening_factors(mean_squares: FloatArray, noise: float) -> FloatArray:
    """Return factors k m^(-1/4) for mean squares m above `noise`; k keeps the sum of the m."""
    least = max(noise, MIN_MEAN_SQUARE * float(mean_squares.mean()), np.finfo(float).tiny)
    values = np.maximum(mean_squares, least)
    roots = np.sqrt(values)
    factors = np.sqrt(values.sum() / roots.sum() / roots)
    return np.asarray(np.minimum(factors, LONGEST_STRETCH - 0.01))  # 0.01 for rounding to a grid
