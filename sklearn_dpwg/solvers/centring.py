"""Centred rows: the facts of a problem on them, and the releases that centre them."""

from __future__ import annotations

import math
from collections.abc import Sequence
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

# Second moments are released of up to so many columns d, where records times μ are at least so
# many times d√d; mean squares of more columns where they are at least so many times d.
MAX_COLUMNS, MIN_EFFECTIVE_SAMPLE_SIZE, MIN_EFFECTIVE_SAMPLE_SIZE_OF_COLUMNS = 200, 20.0, 100.0

# Records up to which sums of second moments are proved exact (docs/theory/centring.md, section 5).
MAX_RECORDS = 2**36

# Largest factor that a direction of rows is stretched by, and the least mean square of one that is
# told from smaller ones, as a fraction of the mean of all.
LONGEST_STRETCH, MIN_MEAN_SQUARE = 4.0, 0.01

# Entries of P are whole multiples of this, so that products with rows on their grid are exact.
WHITENING_STEP = 2.0**-18

# A limited loss may fall to its infimum over all scores; those up to here stand for all.
FAR = 1e8

# Value of the constant column behind centred rows, whose mean square is 1.
CONSTANT = 0.5

# Least root mean square of centred rows, and least mean square in deviations of its noise.
SHORTEST, DEVIATIONS = 2.0**-6, 2.0

# Names of what is released before the first step.
CENTRE, SPREAD = "mean row", "mean squared distance from it"
MOMENTS, SQUARES = "second moments of rows", "mean squares of columns"

# Fractions of μ² for them.
CENTRE_FRACTION, MOMENTS_FRACTION, SQUARES_FRACTION, SPREAD_FRACTION = 0.03, 0.03, 0.02, 0.01
BEFORE = {CENTRE: CENTRE_FRACTION, MOMENTS: MOMENTS_FRACTION}
BEFORE |= {SQUARES: SQUARES_FRACTION, SPREAD: SPREAD_FRACTION}


@dataclass(frozen=True)
class GradientClip:
    """How long a record's gradient may be, for the noise that a limit saves."""

    fraction: float  # of the root mean square of centred rows, which their scale makes 1
    # the release that rows are whitened by, `MOMENTS` or `SQUARES`; empty where they are not
    whitening: str = ""

    @property
    def clip(self) -> float:
        """Largest norm of a record's gradient."""
        return self.fraction * math.hypot(1.0, CONSTANT)

    def __str__(self) -> str:
        """Return what centring is, for previews."""
        white = f", half whitened by released {self.whitening}" if self.whitening else ""
        return f"rows relative to a released mean row{white}, slopes limited"


def is_worth_centring(problem: Problem) -> bool:
    """Return whether planned solvers centre rows: for some losses, with an intercept."""
    return by_loss(problem.loss).is_centred and problem.intercept_scaling > 0.0


def planned_whitening(problem: Problem, mu: float = math.inf) -> str:
    """Return what rows are whitened by, or nothing where noise leaves too little to see."""
    d, n_records = problem.n_features, problem.n_records
    is_few = d <= MAX_COLUMNS
    of_moments = MIN_EFFECTIVE_SAMPLE_SIZE * math.sqrt(d)
    needed = d * (of_moments if is_few else MIN_EFFECTIVE_SAMPLE_SIZE_OF_COLUMNS)
    is_loud = mu < math.inf and (d < 2 or n_records * mu < needed)
    if is_loud or n_records > MAX_RECORDS:
        return ""
    return MOMENTS if is_few else SQUARES


def check_centring(problem: Problem, owner: str) -> None:
    """Refuse to centre what has no intercept, or a loss whose slopes cannot be limited."""
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
    """A problem whose rows are ``u = (P (x - c), s₀)``, whatever the released centre c and P.

    `intercept_scaling` is s₀. Slopes are limited so that no gradient of a record is longer than
    the limit's `clip`.
    """

    limit: GradientClip = GradientClip(1.0)
    stretch: float = 1.0  # bound on ‖P‖
    norm_of_rows: float = 0.0  # bound on the norm of a row before it was centred

    __repr__ = short_repr

    @cached_property
    def constants(self) -> LossConstants:
        """Bounds of limited losses, which may be as low as the loss is out of reach, at least 0.

        Weights in the ball of rows score as rows do, those in the ball of centred rows as these.
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
        """Largest norm of what a record adds to the sums that are read, before they are centred."""
        return self.norm_read * self.slope_bound

    @cached_property
    def norm_read(self) -> float:
        """Norm of ``(x, 1)``."""
        return math.sqrt(2.0)

    @cached_property
    def slope_bound(self) -> float:
        """Slopes are limited to ``clip/‖u‖``, and no u is shorter than s₀."""
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
        """Return the smoothness H in the weights of rows up to a norm.

        The curvature of the log loss of two classes is at most its slope, which the limit keeps
        below clip/‖u‖; that of others is not.
        """
        bound = self.constants.smoothness * row_norm**2
        is_logistic = type(self.loss) is BinaryLogLoss
        return min(bound, self.limit.clip * row_norm) if is_logistic else bound


def centred_problem(problem: Problem, limit: GradientClip) -> CentredProblem:
    """Return the public facts of a problem once its rows are centred."""
    facts = {each.name: getattr(problem, each.name) for each in fields(Problem)}
    facts["intercept_scaling"] = CONSTANT
    facts["norm_of_rows"] = problem.row_norm
    stretch = (LONGEST_STRETCH if limit.whitening else 1.0) / SHORTEST
    return CentredProblem(**facts, limit=limit, stretch=stretch)


def row_sum_sensitivity(problem: Problem) -> float:
    """Return how far replacing one record moves the sum of all rows: 2, and its rounding, once."""
    return 2.0 + problem.n_records * 2.0**-51


@dataclass(frozen=True, eq=False)
class Centring:
    """A released centre, and what follows from it."""

    center: FloatArray  # the released centre, in the unit ball; (n_features,)
    clip: float  # no gradient of a record is longer
    whitening: FloatArray  # P, a symmetric matrix or a factor a column

    def view(self, data: Risks) -> Risks:
        """Return the risks of centred rows with limited slopes."""
        return data.centred(
            self.center, constant=CONSTANT, clip=self.clip, whitening=self.whitening
        )

    def from_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the weights of rows that score like weights of centred rows."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        matrix[:, :-1] = times(matrix[:, :-1], self.whitening)
        constants = CONSTANT * matrix[:, -1] - matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / problem.intercept_scaling
        return matrix.ravel()

    def to_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the weights of centred rows that score like weights of rows."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        constants = problem.intercept_scaling * matrix[:, -1] + matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / CONSTANT
        is_matrix = self.whitening.ndim == 2
        inverse = np.linalg.inv(self.whitening) if is_matrix else 1.0 / self.whitening
        matrix[:, :-1] = times(matrix[:, :-1], np.asarray(inverse, dtype=float))
        return matrix.ravel()

    def project(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the nearest weights of centred rows whose weights of rows are in the ball.

        With ``A u`` the weights of rows, they are ``(I + ν A'A)⁻¹ u`` for the ν at which their norm
        is the radius. Along the axes of P, with factors p, A'A is ``diag(p², 0) + r r'``,
        ``r = (-p c, CONSTANT)/s``.
        """
        radius, outputs = problem.radius, problem.loss.n_outputs
        if np.linalg.norm(self.from_centred(weights, problem)) <= radius:
            return weights
        factors, axes = self._axes
        turned = weights.reshape(outputs, -1).copy()
        center = self.center
        if axes is not None:
            turned[:, :-1], center = turned[:, :-1] @ axes, center @ axes
        squares = np.append(factors**2, 0.0)
        along = np.append(-factors * center, CONSTANT) / problem.intercept_scaling

        def at(multiplier: float) -> FloatArray:
            scaled = 1.0 / (1.0 + multiplier * squares)
            moved = along * scaled
            fractions = multiplier * (turned @ moved) / (1.0 + multiplier * (along @ moved))
            return turned * scaled - np.outer(fractions, moved)

        def excess(log_multiplier: float) -> float:
            point = at(math.exp(log_multiplier))
            norm = math.hypot(*(np.sqrt(squares) * point).ravel(), *(point @ along))
            return math.log(norm / radius)

        most = 0.0
        while excess(most) > 0.0:
            most += 5.0
        least = most - 200.0
        if excess(least) <= 0.0:  # outside by rounding alone
            return weights
        nearest = at(math.exp(brentq(excess, least, most, xtol=1e-13)))
        if axes is not None:
            nearest[:, :-1] = nearest[:, :-1] @ axes.T
        return np.asarray(nearest.ravel())

    @cached_property
    def _axes(self) -> tuple[FloatArray, FloatArray | None]:
        """Factors p of P along its axes, and the axes where they are not the columns."""
        if self.whitening.ndim == 1:
            return self.whitening, None
        with one_blas_thread():
            factors, axes = np.linalg.eigh(self.whitening)
        return factors, axes


def fractions_before(problem: Problem) -> dict[str, float]:
    """Return fractions of μ² of what is released before the first step: nothing as rows are."""
    if not isinstance(problem, CentredProblem):
        return {}
    return {name: BEFORE[name] for name in (CENTRE, problem.limit.whitening, SPREAD) if name}


def fraction_left(problem: Problem) -> float:
    """Return the fraction of μ² that is left for the steps."""
    return reduce(sub, fractions_before(problem).values(), 1.0)


def releases_before(problem: Problem, mu: float) -> tuple[Release, ...]:
    """Return the releases before the first step, which take their fractions of μ²."""
    return tuple(
        Release(name, "gaussian", 1.0 / (mu * math.sqrt(fraction)), 1)
        for name, fraction in fractions_before(problem).items()
    )


def after_centring(releases: Sequence[Release]) -> tuple[Release, ...]:
    """Return the releases of a plan that its steps make, without those before the first."""
    return tuple(each for each in releases if each.name not in BEFORE)


def release_centre(plan: Plan, limit: GradientClip, data: Risks, noise: NoiseSource) -> Centring:
    """Release the centre, second moments where they are planned, and the spread around the centre.

    Replacing a record moves the sum of rows by at most 2 and that of squared distances, each cut at
    1, by at most 1, and both by their rounding. The noisy mean is shrunk by the positive part of
    ``1 - d s²/‖c‖²`` (James and Stein), with s its noise, and drawn into the unit ball; rows are
    scaled to a mean square of 1. All three read released numbers only.
    """
    problem = plan.problem
    of_rows, *of_moments, of_squares = (each for each in plan.releases if each.name in BEFORE)
    n_records, d = problem.n_records, problem.n_features
    sensitivity = row_sum_sensitivity(problem)
    total = data.row_sum()
    mean = noise.gaussian(total, sensitivity=sensitivity, release=of_rows) / n_records
    variance = d * (of_rows.noise_multiplier * sensitivity / n_records) ** 2
    square = float(mean @ mean)
    shrunk = max(0.0, 1.0 - variance / square) if square > 0.0 else 0.0
    center = project_to_ball(shrunk * mean, 1.0)
    whitening: FloatArray = np.ones(d)
    for release in of_moments:
        whitening = _release_whitening(problem, data, noise, release, mean, center)
    whitening = on_grid(whitening)
    squares = np.array([data.spread(center, whitening=whitening)])
    (noisy,) = noise.gaussian(squares, sensitivity=sensitivity - 1.0, release=of_squares)
    least = max(SHORTEST**2, DEVIATIONS * of_squares.noise_multiplier / n_records)
    scale = 1.0 / math.sqrt(np.clip(float(noisy) / n_records, min(least, 1.0), 1.0))
    return Centring(center, limit.clip, on_grid(scale * whitening))


def moment_sum_sensitivity(problem: Problem) -> float:
    """Return how far replacing one record moves the second moments of all rows, or of columns.

    ``‖x x' - y y'‖² = ‖x‖⁴ + ‖y‖⁴ - 2 (x·y)²`` is at most 2, and so is ``Σ_j (x_j² - y_j²)²``,
    whose terms are at most ``x_j⁴ + y_j⁴``; with the rounding of the sum and of products with √2.
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
    """Release second moments, and return what makes rows half white by them."""
    n_records, d = problem.n_records, problem.n_features
    columns_alone = release.name == SQUARES
    sums = data.second_moments(columns_alone=columns_alone)
    at = np.arange(d) if columns_alone else np.triu_indices(d)
    counted = 1.0 if columns_alone else np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    sensitivity = moment_sum_sensitivity(problem)
    noisy = noise.gaussian(sums[at] * counted, sensitivity=sensitivity, release=release)
    moments = np.zeros_like(sums)
    moments[at] = noisy / counted / n_records
    std = release.noise_multiplier * sensitivity / n_records
    if columns_alone:
        return whitening_factors(moments + center * (center - 2.0 * mean), 2.0 * std)
    moments[at[::-1]] = moments[at]
    moments += np.outer(center, center) - np.outer(center, mean) - np.outer(mean, center)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(moments)
        whitening = (vectors * whitening_factors(values, std * math.sqrt(2.0 * d))) @ vectors.T
    return np.asarray(whitening + whitening.T) / 2.0


def on_grid(whitening: FloatArray) -> FloatArray:
    """Return the nearest P whose products with rows are exact."""
    return np.asarray(np.rint(whitening / WHITENING_STEP) * WHITENING_STEP)


def whitening_factors(mean_squares: FloatArray, noise: float) -> FloatArray:
    """Return factors m^(-1/4) k of directions of mean squares m, which leave the mean of all."""
    least = max(noise, MIN_MEAN_SQUARE * float(mean_squares.mean()), np.finfo(float).tiny)
    values = np.maximum(mean_squares, least)
    roots = np.sqrt(values)
    factors = np.sqrt(values.sum() / roots.sum() / roots)
    return np.asarray(np.minimum(factors, LONGEST_STRETCH - 0.01))
