"""Centred rows: the facts of a problem on them, and the two releases that centre them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg._stored import Stored
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import Loss, LossConstants
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import NoiseSource, Release, SumGrid
from sklearn_dpwg.privacy.sensitivity import grid_step, summation_slack
from sklearn_dpwg.solvers.solver import by_loss

# Shares of μ² for the mean row and for the mean squared distance from it.
CENTRE_SHARE, SPREAD_SHARE = 0.03, 0.01
SHARE_LEFT = 1.0 - CENTRE_SHARE - SPREAD_SHARE

# Value of the constant column behind centred rows.
CONSTANT = 0.25

# A gradient of one record is at most this long, and longer in proportion to the `signal` from here
# on: the bias of a limit that most records reach costs more than noise does.
LONGEST_GRADIENT, LONGEST_BINDS = 0.6, 300.0

_UNIT = 2.0**-53


@dataclass(frozen=True)
class SlopeLimit(Stored):
    """How long a record's gradient may be, planned for the noise that a limit saves."""

    share: float  # of the root mean square of centred rows, which is released
    longest: float  # the most that may be released; noise is planned for it

    @classmethod
    def of(cls, loss: Loss, signal: float) -> SlopeLimit:
        """Return the limit at a `signal`; the mean squared distance is released as at most 1."""
        share = by_loss(loss, signal).clip_share
        longest = LONGEST_GRADIENT * max(1.0, signal / LONGEST_BINDS)
        return cls(share, min(longest, share * math.hypot(1.0, CONSTANT)))

    @property
    def least_unit(self) -> float:
        """Least limit that may be released, in units of the largest: no row is shorter than s₀."""
        return self.share * CONSTANT / self.longest

    def at(self, mean_square: float) -> float:
        """Return the limit for a released mean squared norm of centred rows."""
        return min(self.longest, self.share * math.sqrt(mean_square))

    def __str__(self) -> str:
        """Return what centring is, for previews."""
        return (
            "rows relative to a released mean row; a record's gradient counts up to a norm of "
            f"{self.share:.3g} times their released root mean square"
        )


def is_worth_centring(problem: Problem) -> bool:
    """Return whether planned solvers centre rows: for some losses, with an intercept."""
    return by_loss(problem.loss).is_centred and problem.intercept_scaling > 0.0


def check_centring(problem: Problem, owner: str) -> None:
    """Refuse to centre what has no intercept, or a loss whose slopes cannot be limited."""
    if problem.intercept_scaling == 0.0:
        raise InputError(
            f"centring of {owner} needs an intercept, which takes up the centre, but there is none."
        )
    if type(problem.loss).__dict__.get("kernel") is None:
        raise InputError(
            f"centring of {owner} needs a loss with a compiled kernel, which limits slopes, got "
            f"{problem.loss!r}."
        )


@dataclass(frozen=True)
class CentredProblem(Problem):
    """A problem whose rows are ``u = (x - c, s₀)``, whatever the released centre c.

    `intercept_scaling` is s₀. Slopes are limited so that no gradient of a record is longer than
    `clip`, the planned limit's longest until one is released. Gradients may be read in units, down
    to `unit` of theirs, in which a record counts for `clip` whatever the released limit is.
    """

    limit: SlopeLimit = SlopeLimit(1.0, LONGEST_GRADIENT)
    clip: float = LONGEST_GRADIENT
    unit: float = 1.0

    __repr__ = short_repr

    @cached_property
    def constants(self) -> LossConstants:
        """Bounds of limited losses, as low as the loss is at any score, out of reach or not."""
        found = self.loss.constants(self.radius * self.row_norm)
        return replace(found, infimum=min(0.0, found.infimum))

    @property
    def row_norm(self) -> float:
        """Bound √(4 + s₀²) on the norm of a row: x and c are in the unit ball."""
        return math.hypot(2.0, self.intercept_scaling)

    @property
    def lipschitz(self) -> float:
        """Largest norm of a record's gradient."""
        return self.clip

    @property
    def gradient_diameter(self) -> float:
        """Largest distance between two records' gradients."""
        return 2.0 * self.clip

    @property
    def summed_norm(self) -> float:
        """Largest norm of what a record adds to the sums that are read, before they are centred."""
        return math.sqrt(2.0) * self.constants.lipschitz

    @property
    def rounding_factor(self) -> float:
        """Bound on the norm of the map of sums over ``(x, 1)`` to sums over u, in these units."""
        return math.sqrt(2.0 + CONSTANT**2) / self.unit

    @property
    def smoothness(self) -> float:
        """Smoothness H in the weights.

        The curvature of the log loss of two classes is at most its slope, which the limit keeps
        below clip/‖u‖; that of others is not.
        """
        bound = super().smoothness
        is_logistic = type(self.loss).__dict__.get("kernel") == "binary_log"
        return min(bound, self.clip * self.row_norm) if is_logistic else bound


def centred_problem(problem: Problem, limit: SlopeLimit, *, unit: float = 1.0) -> CentredProblem:
    """Return the public facts of a problem once its rows are centred."""
    facts = {each.name: getattr(problem, each.name) for each in fields(Problem)}
    facts["intercept_scaling"] = CONSTANT
    return CentredProblem(**facts, limit=limit, clip=limit.longest, unit=unit)


def row_sum_grid(problem: Problem) -> SumGrid:
    """Return the grid on which rows are added up."""
    return SumGrid(loss_step=0.0, gradient_step=grid_step(2.0, problem.n_records))


def row_sum_sensitivity(problem: Problem) -> float:
    """Return how far replacing one record moves the sum of all rows."""
    grid = row_sum_grid(problem)
    longest = 1.0 + 2.0**-40  # the rounding of its factor
    return 2.0 * longest + summation_slack(
        grid.gradient_step, n_dimensions=max(problem.n_features, 1)
    )


CENTRE, SPREAD = "mean row", "mean squared distance from it"


@dataclass(frozen=True, eq=False)
class Centring(Stored):
    """A released centre, and what follows from it."""

    center: FloatArray  # the released centre, in the unit ball; (n_features,)
    clip: float  # no gradient of a record is longer

    def view(self, data: Risks) -> Risks:
        """Return the risks of centred rows with limited slopes."""
        return data.centred(self.center, constant=CONSTANT, clip=self.clip)

    def from_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the weights of rows, in the ball, that score like weights of centred rows."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        constants = CONSTANT * matrix[:, -1] - matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / problem.intercept_scaling
        return project_to_ball(matrix.ravel(), problem.radius)

    def to_centred(self, weights: FloatArray, problem: Problem) -> FloatArray:
        """Return the weights of centred rows that score like weights of rows."""
        matrix = weights.reshape(problem.loss.n_outputs, -1).copy()
        constants = problem.intercept_scaling * matrix[:, -1] + matrix[:, :-1] @ self.center
        matrix[:, -1] = constants / CONSTANT
        return project_to_ball(matrix.ravel(), problem.radius)


def centring_releases(mu: float) -> tuple[Release, Release]:
    """Return the two releases, which take their shares of μ²."""
    return (
        Release(CENTRE, "gaussian", 1.0 / (mu * math.sqrt(CENTRE_SHARE)), 1),
        Release(SPREAD, "gaussian", 1.0 / (mu * math.sqrt(SPREAD_SHARE)), 1),
    )


def release_centre(
    problem: Problem,
    limit: SlopeLimit,
    data: Risks,
    noise: NoiseSource,
    of_rows: Release,
    of_squares: Release,
) -> Centring:
    """Release the centre and the spread of all records around it.

    Replacing a record moves the sum of rows by at most 2 and that of squared distances, each cut at
    1, by at most 1. The noisy mean is shrunk by the positive part of ``1 - d s²/‖c‖²`` (James and
    Stein), with s its noise, and drawn into the unit ball: both read released numbers only.
    """
    n_records, d = problem.n_records, problem.n_features
    sensitivity = row_sum_sensitivity(problem)
    total = data.row_sum(grid=row_sum_grid(problem))
    center = noise.gaussian(total, sensitivity=sensitivity, release=of_rows) / n_records
    variance = d * (of_rows.noise_multiplier * sensitivity / n_records) ** 2
    square = float(center @ center)
    shrunk = max(0.0, 1.0 - variance / square) if square > 0.0 else 0.0
    center = project_to_ball(shrunk * center, 1.0)
    step = grid_step(1.0, n_records)
    squares = np.array([data.spread(center, step=step)])
    noisy = float(noise.gaussian(squares, sensitivity=1.0, release=of_squares)[0])
    mean_square = float(np.clip(noisy / n_records, 0.0, 1.0)) + CONSTANT**2
    return Centring(center, limit.at(mean_square))
