"""Public numbers of the phased solver: objective of each phase and how far a record moves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import BLOCK_ROWS
from sklearn_dpwg.optimum.saddle_point import attainable_gap
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.privacy.sensitivity import hidden_group_sensitivities, saddle_point_sensitivities
from sklearn_dpwg.solvers.centring import CentredProblem, in_words
from sklearn_dpwg.solvers.mixture import MixturePlan
from sklearn_dpwg.solvers.steps import CORRECTION, heard, shown
from sklearn_dpwg.solvers.sums import on_step, record_errors

# Rounding of the certificate of a phase: docs/theory/sums.md, section 6.

_UNIT = 2.0**-53
# Roundings of a sum beside one a term: of products, of vector registers, of tasks.
_EXTRA_ROUNDINGS = 128
# Digits that a logarithm of a group weight may take before the point, as roundings.
_LOG_WEIGHT = 750.0
# The certified distance to the exact solution may add this share to a sensitivity, where floating
# point can show so small a gap.
SLACK = 0.01


def rounding_of_mean(size: int) -> float:
    """Bound the error of the mean of so many terms of norm 1, added up block by block."""
    n_additions = 2.0 * BLOCK_ROWS + _EXTRA_ROUNDINGS
    # what rounding takes from sums of blocks is kept and given back, so that these count squared
    n_blocks = (size / BLOCK_ROWS + 1.0) * _UNIT
    of_block = n_additions * _UNIT / (1.0 - n_additions * _UNIT)
    return of_block + 2.0 * (n_blocks / (1.0 - n_blocks)) ** 2


def total_weight(
    solved: Problem, sizes: Sequence[int], mu_groups: float, prior: Any = None
) -> float:
    """Bound how often records count together, in units of their mean.

    Hidden groups may be larger than what stands for their sizes: for given group weights
    ``Σ π_i n_i/m_i`` is at most ``K max_i π_i/m_i``, and for any weights ``K / min_i m_i``.
    """
    if solved.hidden is None:
        return 1.0
    divisors = np.asarray(sizes, dtype=float)
    weights = np.ones(len(divisors)) if prior is None or mu_groups < math.inf else np.asarray(prior)
    return max(1.0, solved.n_records * float((weights / divisors).max()))


def rounding_of_minimiser(
    solved: Problem,
    sizes: Sequence[int],
    *,
    mu_weights: Any,
    mu_groups: float,
    prior: Any = None,
) -> Any:
    """Bound how much farther apart rounding lets two neighbours' certified weights be.

    It is ``4 δ/μ_w``, where δ bounds the error of a gradient of the objective, and what evaluating
    the certificate adds; one number for each strength if there are several.
    """
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    total = total_weight(solved, sizes, mu_groups, prior)
    n_groups, lipschitz = len(sizes), total * (solved.lipschitz + of_gradient)
    relative = rounding_of_mean(max(sizes) if solved.hidden is None else solved.n_records)
    loss = max(abs(solved.constants.supremum), abs(solved.constants.infimum)) + of_loss
    # of the logarithm of a group weight: of its risk, and of the exponent itself
    risk = total * (relative * loss + of_loss) / mu_groups
    exponent = 4.0 * _UNIT * (total * solved.loss_range / mu_groups + _LOG_WEIGHT + n_groups)
    of_weights = min(2.0, math.expm1(min(2.0 * (risk + exponent), 2.0)))
    error = (
        total * relative * solved.rounding_factor * (solved.summed_norm + of_gradient)
        + total * of_gradient
        + lipschitz * (of_weights + (n_groups + 8.0) * _UNIT)
        + 16.0 * _UNIT * mu_weights * solved.radius
    )
    # a step of the certificate ends at most so many radii away from the centre
    stretch = 4.0 + 2.0 * lipschitz / (mu_weights * solved.radius)
    of_step = 16.0 * (solved.n_weights + 16.0) * _UNIT * solved.radius * np.sqrt(stretch)
    return 4.0 * error / mu_weights + 2.0 * of_step


def certified(
    solved: Problem,
    sizes: Sequence[int],
    exact: Any,
    *,
    mu_weights: Any,
    mu_groups: float,
    prior: Any = None,
) -> tuple[Any, Any]:
    """Return the gap that a phase must certify and the sensitivity that pays for it.

    From the sensitivity of exact solutions; both one for each strength if there are several. The
    gap is a public number that floating point can show on every data set. What a run pays is
    `capped`.
    """
    rounding = rounding_of_minimiser(
        solved, sizes, mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    slope = total_weight(solved, sizes, mu_groups, prior) * solved.lipschitz
    attainable = attainable_gap(
        solved.radius, slope, mu_weights, solved.radius, mu_groups=mu_groups
    )
    # a gap α is two distances √(2α/μ_w): a hundredth of the exact one, or what rounding is worth
    wanted = mu_weights * (SLACK * exact / 2.0) ** 2 / 2.0
    visible = np.minimum(attainable, mu_weights * (rounding / 2.0) ** 2 / 2.0)
    tolerance = np.maximum(wanted, visible)
    paid = exact + 2.0 * np.sqrt(2.0 * tolerance / mu_weights) + rounding
    return tolerance, paid * (1.0 + 16.0 * _UNIT)


def capped(solved: Problem, paid: Any) -> Any:
    """Return a sensitivity, at most the diameter of the ball, in which all weights are.

    Strengths are planned without it: a bound would fall again where the strength is so small that
    noise of the ball's size no longer grows, and choose to learn nothing.
    """
    return np.minimum(paid, solved.diameter * (1.0 + 8.0 * (solved.n_weights + 16.0) * _UNIT))


# Bound on what noisy proximal steps cost, and the regularisation that makes it least.

# Strengths that a plan may choose: a fixed grid, so that better facts never choose worse.
STRENGTHS = np.geomspace(1e-8, 1e4, 145)
# Ratios of curvature to strength at which the bound is evaluated, and prices of curvature.
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-7, 1e16, 921)])
_PRICES = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 73)])


class Choice(NamedTuple):
    """Strength of the grid, and the bound on the excess risk with it."""

    strength: float
    bound: float


@dataclass(frozen=True)
class DescentBound:
    """Bound on the excess of one averaged run of noisy phases with fixed group weights.

    For a quadratic risk, with b(h) the share of the first distance that the average keeps in a
    direction of curvature h and V(h) the variance of its noise over that of the last phase: Theorem
    3 of docs/theory/phased-erm.md, or ``L σ √(2 V(0)/π)`` for the noise, if that is less. Curvature
    enters through ``x = h/μ`` alone, so both are tabulated once.
    """

    aim: float  # norm a of the weights that the run is compared with
    lipschitz: float  # constant L of the loss in the weights
    trace: float  # bound on the trace of the Hessian of the loss of one record
    n_weights: int  # d
    strength_ratios: tuple[float, ...]  # strength of each phase over that of the last one
    averaged: int  # how many of the last phases are averaged

    def at_strengths(self, noise_stds: FloatArray) -> FloatArray:
        """Return the bound at every strength of the grid, given the last phase's noise at each."""
        bias, noise, slope = self._curves
        return np.asarray(bias + np.minimum(noise * noise_stds**2, slope * noise_stds))

    def best(self, noise_stds: FloatArray) -> Choice:
        """Return the strength of the last phase that makes the bound least."""
        bounds = self.at_strengths(noise_stds)
        index = int(np.argmin(bounds))
        return Choice(float(STRENGTHS[index]), float(bounds[index]))

    @cached_property
    def _curves(self) -> tuple[FloatArray, FloatArray, float]:
        """Return bias, noise over σ² and noise over σ: the first two for every strength."""
        kept, variance = _tables(self.strength_ratios, self.averaged)
        limits = self.trace / STRENGTHS
        last = np.maximum(np.searchsorted(_RATIOS, limits, side="right") - 1, 1)
        bias = np.maximum.accumulate(_RATIOS * kept**2)
        # b and V fall, so between two ratios a curve rises by at most this factor
        cell = _RATIOS[2] / _RATIOS[1]
        priced = 0.5 * _RATIOS * variance - _PRICES[:, None] * _RATIOS
        dual = self.n_weights * np.maximum.accumulate(priced, axis=1)[:, last]
        noise = (dual + _PRICES[:, None] * limits).min(axis=0) * STRENGTHS
        noise[limits > _RATIOS[-1]] = np.inf  # beyond the tables; the other bound holds
        slope = self.lipschitz * math.sqrt(2.0 * float(variance[0]) / math.pi)
        return 0.5 * cell * self.aim**2 * STRENGTHS * bias[last], cell * noise, slope


@lru_cache(maxsize=512)
def _tables(strength_ratios: tuple[float, ...], averaged: int) -> tuple[FloatArray, FloatArray]:
    """Return b and V at every ratio of curvature to the last phase's strength."""
    n_phases = len(strength_ratios)
    strengths = np.asarray(strength_ratios)[:, None]
    noise = 1.0 / np.asarray(strength_ratios)
    kept = strengths / (strengths + _RATIOS)
    bias = np.zeros_like(_RATIOS)
    sums = np.zeros((n_phases, len(_RATIOS)))  # of each phase's noise in the average
    shares = np.zeros((n_phases, len(_RATIOS)))  # of each phase's noise still there
    distance = np.ones_like(_RATIOS)
    for phase in range(n_phases):
        distance = distance * kept[phase]
        shares[:phase] *= kept[phase]
        shares[phase] = noise[phase]
        if phase >= n_phases - averaged:
            bias += distance / averaged
            sums += shares / averaged
    return bias, (sums**2).sum(axis=0)


# With a finite μ_λ a sensitivity takes a search, so it is computed at every so many strengths.
_STRIDE = 6


class Phase(NamedTuple):
    """Objective of one phase, the gap that it is solved to, and its sensitivity."""

    mu_weights: float  # regularisation μ_w
    mu_groups: float  # regularisation μ_λ
    tolerance: float  # gap that is reached on every data set
    sensitivity: float  # largest distance that one record moves what is found
    total_weight: float = 1.0  # bound on how often records count together, in units of their mean
    sizes: tuple[int, ...] = ()  # numbers of records, or what stands for them


@dataclass(frozen=True)
class PhasedERMSchedule:
    """Everything that a run of `PhasedERM` needs besides the records and the noise."""

    # whether every phase reads all records, or each a part of its own
    composition: Literal["sequential", "parallel"]
    sizes: tuple[tuple[int, ...], ...]  # for each phase, the records of each group that it reads
    solved: Problem  # with the smooth loss that the phases minimise
    smoothing_width: float  # of the smooth stand-in for a loss with kinks; 0 for a smooth loss
    prior: tuple[float, ...]  # group weights π of the first phase
    weights_multipliers: tuple[float, ...]  # for each phase, noise per unit of sensitivity
    risks_multiplier: float  # the same on the group risks; 0 where none are released
    mu_groups: tuple[float, ...]  # regularisation μ_λ of the group player in each phase
    averaged: int  # how many of the last phases are averaged
    # regularisation μ_w in each phase; None where the bound chooses it by the noise
    mu_weights: tuple[float, ...] | None = None
    bound: DescentBound | None = None
    ceiling: float = math.inf  # a record's loss counts for at most this much in the group risks
    feedback_range: float = 0.0  # a record moves the sum of its group's losses by at most this
    grid: SumGrid | None = None  # blocks and steps of these sums
    lowest_loss: float = 0.0  # infimum of the losses that the group risks count
    group_rate: float = 0.0  # step size η of the group weights between phases
    remark: str = ""

    __repr__ = short_repr

    @property
    def n_phases(self) -> int:
        """Number of phases T."""
        return len(self.sizes)

    def phase(self, index: int, prior: FloatArray) -> Phase:
        """Return a phase from public facts and its prior, which earlier releases led to."""
        sizes, mu_groups = self.sizes[index], self.mu_groups[index]
        if self.mu_weights is not None:
            mu_weights = self.mu_weights[index]
        else:
            assert self.bound is not None
            ratio = self.bound.strength_ratios[index]
            stds = noise_stds(
                self.solved,
                sizes,
                prior,
                mu_groups=mu_groups,
                multiplier=self.weights_multipliers[index],
                ratio=ratio,
            )
            # what the last phase's would be if all phases had this prior
            mu_weights = ratio * self.bound.best(stds * ratio).strength
        return solved_phase(self.solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups)

    @property
    def noise_correction(self) -> FloatArray:
        """What is subtracted from the exponents: half of log E exp(ηN) of the noise N."""
        stds = self.risks_multiplier * self.feedback_range / np.asarray(self.sizes[0])
        if self.solved.hidden is not None:
            stds = np.sqrt(heard(stds, stds**2, self.solved)[1])
        return np.asarray(CORRECTION * (self.group_rate * stds) ** 2 / 2.0)

    @property
    def center(self) -> float:
        """What losses are taken relative to in the group risks: 0 where groups are public."""
        if self.solved.hidden is None or self.grid is None:
            return 0.0
        lowest = self.lowest_loss
        return on_step(lowest + (self.ceiling - lowest) / 2.0, self.grid.loss_step)

    @property
    def _rise(self) -> float:
        """Regularisation of the last phase over that of the first, for the same group weights."""
        if self.mu_weights is not None:
            return self.mu_weights[-1] / self.mu_weights[0]
        assert self.bound is not None
        return 1.0 / self.bound.strength_ratios[0]

    def __str__(self) -> str:
        """Return a few lines for people."""
        records = "all records" if self.composition == "sequential" else "a part of its own"
        lines = [
            f"{self.n_phases} phase(s), each reads {records}; output is the average of the last "
            f"{self.averaged}"
        ]
        if isinstance(self.solved, CentredProblem):
            lines.append(in_words(self.solved.loss))
        first = self.phase(0, np.asarray(self.prior))
        std = self.weights_multipliers[0] * first.sensitivity
        lines.append(
            f"first phase: regularisation {first.mu_weights:.3g}, one record moves the weights by "
            f"at most {first.sensitivity:.3g}, noise {std:.3g}"
        )
        if self.n_phases > 1:
            lines.append(f"the last phase has {self._rise:.3g} times the first's regularisation")
        if self.composition == "parallel" and self.n_phases > 1:
            totals = ", ".join(f"{sum(sizes):,}" for sizes in self.sizes[:8])
            lines.append(f"records of the phases: {totals}{', ...' * (self.n_phases > 8)}")
        if len(self.prior) > 1:
            strength = "fixed within a phase"
            if self.mu_groups[0] < math.inf:
                strength = f"regularisation {self.mu_groups[0]:.3g} within a phase"
            lines.append(f"group weights start at {shown(self.prior)}, {strength}")
            if self.risks_multiplier > 0.0:
                lines.append(
                    f"between phases their rate is {self.group_rate:.3g}, losses counted up to "
                    f"{self.ceiling:.3g}"
                )
        if self.smoothing_width > 0.0:
            lines.append(f"kinks of the loss rounded off within {self.smoothing_width:.3g}")
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)


def solved_phase(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: float,
    mu_groups: float,
) -> Phase:
    """Return a phase with the gap that it must certify and the sensitivity that follows.

    The gap is a public number that floating point can show on every data set. The sensitivity pays
    for the gap and for the rounding of its certificate.
    """
    exact = sensitivity(solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups)
    tolerance, paid = certified(
        solved, sizes, exact, mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    total = total_weight(solved, sizes, mu_groups, prior)
    return Phase(
        mu_weights, mu_groups, float(tolerance), float(capped(solved, paid)), total, tuple(sizes)
    )


def sensitivity(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: float,
    mu_groups: float,
) -> float:
    """Return how far replacing one record moves the exact minimiser of a phase."""
    at = [mu_weights]
    return float(sensitivities(solved, sizes, prior, mu_weights=at, mu_groups=mu_groups)[0])


def sensitivities(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: Sequence[float] | FloatArray,
    mu_groups: float,
) -> FloatArray:
    """Return the same at several strengths."""
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    if solved.hidden is not None:
        return hidden_group_sensitivities(
            normalisers=sizes,
            lipschitz=solved.lipschitz + of_gradient,
            gradient_diameter=solved.gradient_diameter + 2.0 * of_gradient,
            loss_range=solved.loss_range + 2.0 * of_loss,
            strong_convexities=mu_weights,
            entropy_weight=mu_groups,
            prior=prior,
        )
    return saddle_point_sensitivities(
        group_sizes=sizes,
        lipschitz=solved.lipschitz + of_gradient,
        gradient_diameter=solved.gradient_diameter + 2.0 * of_gradient,
        loss_range=solved.loss_range + 2.0 * of_loss,
        strong_convexities=mu_weights,
        entropy_weight=mu_groups,
        prior=prior,
    )


def noise_stds(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_groups: float,
    multiplier: float,
    ratio: float = 1.0,
) -> FloatArray:
    """Return the noise of a phase at each of `STRENGTHS` times its ratio to the last one's."""
    strengths = ratio * STRENGTHS
    if mu_groups == math.inf:
        # inversely proportional to the strength
        at_one = sensitivities(solved, sizes, prior, mu_weights=[1.0], mu_groups=mu_groups)
        exact = at_one / strengths
    else:
        some = strengths[::_STRIDE]
        found = sensitivities(solved, sizes, prior, mu_weights=some, mu_groups=mu_groups)
        exact = np.exp(np.interp(np.log(strengths), np.log(some), np.log(found)))
    _, paid = certified(
        solved, sizes, exact, mu_weights=strengths, mu_groups=mu_groups, prior=prior
    )
    return np.asarray(multiplier * paid)


# Public numbers of the moments solver.


@dataclass(frozen=True)
class MomentsSchedule:
    """Everything that `Moments.run` needs besides the records and the noise."""

    multipliers: tuple[float, ...]  # noise multiplier of each round
    sensitivity: float  # by how much one record moves the sums of a round
    constant: float  # entry of a record's vector for the intercept; 0 without one
    length: float  # largest entry of a record's vector for the residual
    step: float  # what entries are rounded to multiples of
    sum_step: float  # what the sums of a block of records are rounded to multiples of
    target_bound: float  # bound on residuals in the first round
    clip: float  # least bound on residuals in later rounds, over their root mean square
    ridge: float  # what keeps the model from fitting noise; see `robust_optimum`
    smoothing: float

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.multipliers)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.n_rounds} round(s), one pass over the rows each: every group's second moments "
            "of rows and residuals",
            f"one record moves them by at most {self.sensitivity:.4g}, only those of its group",
        ]
        if self.n_rounds > 1:
            lines.append(
                f"residuals clipped to at least {self.clip:.3g} times their root mean square; "
                "targets themselves in the first round, and where residuals are no smaller"
            )
        return "\n".join(lines)


# Public numbers of the best-response solver.


@dataclass(frozen=True)
class BestResponseSchedule:
    """Everything that a run of `BestResponse` needs besides the records and the noise."""

    base: MixturePlan  # what the base solver does in its calls, one a round
    prior: tuple[float, ...]  # group weights π of the first round
    risks_multiplier: float = (
        0.0  # noise per unit of sensitivity on the risks; 0 where there are none
    )
    ceiling: float = math.inf  # a record's loss counts for at most this much in the group risks
    feedback_range: float = 0.0  # a record moves the sum of its group's losses by at most this
    grid: SumGrid | None = None  # blocks and steps of these sums
    group_rate: float = 0.0  # step size η of the group weights

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds R."""
        return self.base.calls.n_calls

    @property
    def noise_correction(self) -> FloatArray:
        """What is subtracted from the exponents: half of log E exp(ηN) of the noise N."""
        sizes = np.asarray(self.base.problem.group_sizes)
        stds = self.risks_multiplier * self.feedback_range / sizes
        return np.asarray(CORRECTION * (self.group_rate * stds) ** 2 / 2.0)

    def __str__(self) -> str:
        """Return a few lines for people."""
        averaged = self.base.averaged
        lines = [
            f"{self.n_rounds} round(s), each reads all records; in each {self.base.solver!r} "
            "answers for the group weights of the round",
            "output is the answer of the last round"
            if averaged == 1
            else f"output is the average of the last {averaged} answers",
        ]
        problem = self.base.problem
        if isinstance(problem, CentredProblem):
            lines.append(in_words(problem.loss))
        if len(self.prior) > 1:
            lines.append(f"group weights start at {shown(self.prior)}, fixed within a round")
            if self.risks_multiplier > 0.0:
                lines.append(
                    f"between rounds their rate is {self.group_rate:.3g}, losses counted up to "
                    f"{self.ceiling:.3g}"
                )
        lines += [f"base: {line}" for line in str(self.base.schedule).splitlines()]
        return "\n".join(lines)
