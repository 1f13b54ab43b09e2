"""A phase of `PhasedERM`: the gap it is solved to, how far one record moves it, its releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.optimum.saddle_point import attainable_gap, solve_saddle_point
from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.sensitivity import hidden_group_sensitivities, saddle_point_sensitivities
from sklearn_dpwg.solvers import steps
from sklearn_dpwg.solvers.centring import CentredProblem
from sklearn_dpwg.solvers.steps import SumSensitivity, influence, record_errors

WEIGHTS, RISKS = "phase weights", "group risks"

_UNIT = 2.0**-53
# Of a mean of sums that are exact, in four parts, beside one for each cell of a group.
_ROUNDINGS_OF_A_MEAN = 16
# Digits that a logarithm of a group weight may take before the point, as roundings.
_LOG_WEIGHT = 750.0
# Share that the certified distance to the exact solution may add to a sensitivity.
SLACK = 0.01


class Phase(NamedTuple):
    """Objective of one phase, the gap that it is solved to, and its sensitivity."""

    mu_weights: float  # regularisation μ_w
    mu_groups: float  # regularisation μ_λ
    tolerance: float  # gap that is reached on every data set
    sensitivity: float  # largest distance that one record moves what is found
    total_weight: float  # bound on how often records count together, in units of their mean


def solved_phase(solved: Problem, prior: Any, *, mu_weights: float, mu_groups: float) -> Phase:
    """Return a phase around a prior with the gap that it must certify and its sensitivity.

    The gap is a public number that floating point can show on every data set. The sensitivity pays
    for the gap and for the rounding of its certificate.
    """
    exact = sensitivities(solved, prior, mu_weights=[mu_weights], mu_groups=mu_groups)[0]
    tolerance, paid = certified(
        solved, float(exact), mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    # of weights in the ball, which are no farther apart than it is wide
    widest = solved.diameter * (1.0 + 8.0 * (solved.n_weights + 16.0) * _UNIT)
    sensitivity, total = min(float(paid), widest), total_weight(solved, mu_groups, prior)
    return Phase(mu_weights, mu_groups, float(tolerance), sensitivity, total)


def sensitivities(solved: Problem, prior: Any, *, mu_weights: Any, mu_groups: float) -> FloatArray:
    """Return how far replacing one record moves the exact minimiser of a phase, by strength.

    Where groups overlap it is the sum over the groups of a record; if group weights are fixed, what
    a record weighs in the mixture times the diameter of gradients, over the strength
    (docs/theory/overlapping-groups.md, Lemmas 3 and 4).
    """
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    if solved.cells is not None and mu_groups == math.inf:
        diameter = solved.gradient_diameter + 2.0 * of_gradient
        moved = diameter * influence(solved, np.asarray(prior)) * (1.0 + 16.0 * _UNIT)
        return np.asarray(moved / np.asarray(mu_weights))
    facts: dict[str, Any] = {
        "lipschitz": solved.lipschitz + of_gradient,
        "gradient_diameter": solved.gradient_diameter + 2.0 * of_gradient,
        "loss_range": solved.loss_range + 2.0 * of_loss,
        "strong_convexities": mu_weights,
        "entropy_weight": mu_groups,
        "prior": prior,
    }
    if solved.hidden is not None:
        return hidden_group_sensitivities(normalisers=solved.group_sizes, **facts)
    facts["group_sizes"] = solved.group_sizes
    if solved.cells is None:
        return saddle_point_sensitivities(**facts)
    of_groups = saddle_point_sensitivities(**facts, by_group=True)
    return np.array([solved.cells.influence(each) for each in of_groups])


def certified(
    solved: Problem, exact: Any, *, mu_weights: Any, mu_groups: float, prior: Any = None
) -> tuple[Any, Any]:
    """Return the gap that a phase must certify and the sensitivity that pays for it.

    From the sensitivity of exact solutions; both one for each strength if there are several.
    """
    rounding = rounding_of_minimiser(
        solved, mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    slope, radius = total_weight(solved, mu_groups, prior) * solved.lipschitz, solved.radius
    attainable = attainable_gap(radius, slope, mu_weights, radius, mu_groups=mu_groups)
    # a gap α is two distances √(2α/μ_w): a hundredth of the exact one, or what rounding is worth
    fine = mu_weights * (SLACK * exact / 2.0) ** 2 / 2.0
    visible = np.minimum(attainable, mu_weights * (rounding / 2.0) ** 2 / 2.0)
    tolerance = np.maximum(fine, visible)
    paid = exact + 2.0 * np.sqrt(2.0 * tolerance / mu_weights) + rounding
    return tolerance, paid * (1.0 + 16.0 * _UNIT)


def total_weight(solved: Problem, mu_groups: float, prior: Any = None) -> float:
    """Bound how often records count together, in units of their mean.

    Hidden groups may be larger than what stands for their sizes: for given group weights
    ``Σ π_i n_i/m_i`` is at most ``K max_i π_i/m_i``, and for any weights ``K / min_i m_i``.
    """
    if solved.hidden is None:
        return 1.0
    divisors = np.asarray(solved.group_sizes, dtype=float)
    weights = np.ones(len(divisors)) if prior is None or mu_groups < math.inf else np.asarray(prior)
    return max(1.0, solved.n_records * float((weights / divisors).max()))


# Rounding of the certificate: docs/theory/phased-erm-sensitivity.md.


def rounding_of_minimiser(
    solved: Problem, *, mu_weights: Any, mu_groups: float, prior: Any = None
) -> Any:
    """Bound how much farther apart rounding lets two neighbours' certified weights be.

    It is ``4 δ/μ_w``, where δ bounds the error of a gradient of the objective, and what evaluating
    the certificate adds; one number for each strength if there are several.
    """
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    total = total_weight(solved, mu_groups, prior)
    n_groups, lipschitz = solved.n_groups, total * (solved.lipschitz + of_gradient)
    n_cells = 1 if solved.cells is None else len(solved.cells.sizes)
    relative = (_ROUNDINGS_OF_A_MEAN + n_cells) * _UNIT
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


# The bound that strengths make least.

# What a strength is chosen from: a grid, so that better facts never choose worse.
STRENGTHS = np.geomspace(1e-8, 1e4, 145)
# Ratios of curvature to strength at which the bound is evaluated, and prices of curvature.
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-7, 1e16, 921)])
_PRICES = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 73)])


@dataclass(frozen=True)
class DescentBound:
    """Bound on the excess of one averaged run of noisy phases with fixed group weights.

    Theorem 3 of docs/theory/phased-erm.md for quadratic risks, or ``L σ √(2 V(0)/π)`` for the noise
    if that is less, by tables of what an average keeps at each ratio of curvature to strength.
    """

    initial_distance: float  # norm a of the weights that the run is compared with
    lipschitz: float  # L, in the weights
    trace: float  # bound on the trace of the Hessian of the loss of one record
    n_weights: int
    strength_ratios: tuple[float, ...]  # strength of each phase over that of the last one
    averaged: int  # how many of the last phases are averaged

    def at_strengths(self, noise_stds: FloatArray) -> FloatArray:
        """Return the bound at every strength of the grid, given the last phase's noise at each."""
        bias, noise, slope = self._curves
        return np.asarray(bias + np.minimum(noise * noise_stds**2, slope * noise_stds))

    def best(self, noise_stds: FloatArray) -> float:
        """Return the strength of the last phase that makes the bound least."""
        return float(STRENGTHS[int(np.argmin(self.at_strengths(noise_stds)))])

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
        return 0.5 * cell * self.initial_distance**2 * STRENGTHS * bias[last], cell * noise, slope


@lru_cache(maxsize=512)
def _tables(strength_ratios: tuple[float, ...], averaged: int) -> tuple[FloatArray, FloatArray]:
    """Return b and V at every ratio of curvature to the last phase's strength."""
    n_phases = len(strength_ratios)
    strengths = np.asarray(strength_ratios)[:, None]
    noise = 1.0 / np.asarray(strength_ratios)
    kept = strengths / (strengths + _RATIOS)
    bias = np.zeros_like(_RATIOS)
    sums = np.zeros((n_phases, len(_RATIOS)))  # of each phase's noise in the average
    fractions = np.zeros((n_phases, len(_RATIOS)))  # of each phase's noise still there
    distance = np.ones_like(_RATIOS)
    for phase in range(n_phases):
        distance = distance * kept[phase]
        fractions[:phase] *= kept[phase]
        fractions[phase] = noise[phase]
        if phase >= n_phases - averaged:
            bias += distance / averaged
            sums += fractions / averaged
    return bias, (sums**2).sum(axis=0)


# With a finite μ_λ a sensitivity takes a search, so it is computed at every so many strengths.
_STRIDE = 6


def noise_stds(
    solved: Problem, prior: Any, *, mu_groups: float, multiplier: float, ratio: float = 1.0
) -> FloatArray:
    """Return the noise of a phase at each of `STRENGTHS` times its ratio to the last one's."""
    strengths = ratio * STRENGTHS
    if mu_groups == math.inf:
        # inversely proportional to the strength
        exact = sensitivities(solved, prior, mu_weights=[1.0], mu_groups=mu_groups) / strengths
    else:
        some = strengths[::_STRIDE]
        known = sensitivities(solved, prior, mu_weights=some, mu_groups=mu_groups)
        exact = np.exp(np.interp(np.log(strengths), np.log(some), np.log(known)))
    _, paid = certified(solved, exact, mu_weights=strengths, mu_groups=mu_groups, prior=prior)
    return np.asarray(multiplier * paid)


def weights_bounds(
    schedule: PhaseSchedule, mu_weights: float | None, *, moves_groups: bool
) -> FloatArray:
    """Return the weights' part of each group's bound, from the noise of the last phase."""
    solved, mu_groups = schedule.solved, schedule.mu_groups
    z, bound = schedule.multiplier, schedule.bound
    assert bound is not None
    stds = noise_stds(solved, solved.prior, mu_groups=mu_groups, multiplier=z)
    rows, of_group = stds[None, :], np.zeros(solved.n_groups, dtype=int)
    if moves_groups:
        # all weight on one group; those of one size share a row
        last, of_group = np.unique(solved.sizes_to_plan_for, return_inverse=True)
        exact = solved.gradient_diameter / (last[:, None] * STRENGTHS)
        _, paid = certified(solved, exact, mu_weights=STRENGTHS, mu_groups=mu_groups)
        rows = z * paid if mu_groups == math.inf else np.maximum(z * paid, stds)
    at_strengths = bound.at_strengths(rows)
    if mu_weights is None:
        return np.asarray(at_strengths.min(axis=1))[of_group]
    chosen, grid = math.log(mu_weights), np.log(STRENGTHS)
    return np.array([np.interp(chosen, grid, row) for row in at_strengths])[of_group]


@dataclass(frozen=True)
class PhaseSchedule:
    """Everything that a run needs besides the records and the noise."""

    # what each phase minimises, with the smooth loss, the groups that it reads and the first prior
    solved: Problem
    n_phases: int
    averaged: int  # how many of the last phases are averaged
    multiplier: float  # noise of the first phase, per unit of sensitivity
    mu_groups: float  # regularisation μ_λ of the group player within a phase
    # regularisation μ_w in each phase; None where the bound chooses it by the noise
    mu_weights: tuple[float, ...] | None
    bound: DescentBound | None = None
    # a record's loss counts for at most this much in the group risks
    loss_clip: float = math.inf
    sums: SumSensitivity | None = None  # by how much a record moves the sums of these losses
    # noise per unit of sensitivity on them; 0 where none are released
    risks_multiplier: float = 0.0
    group_rate: float = 0.0  # step size η of the group weights
    remark: str = ""  # of the paper's schedule

    __repr__ = short_repr

    def phase(self, index: int, prior: FloatArray) -> Phase:
        """Return a phase from public facts and its prior, which earlier releases led to."""
        if self.mu_weights is not None:
            mu_weights = self.mu_weights[index]
        else:
            assert self.bound is not None
            ratio = self.bound.strength_ratios[index]
            facts = {"mu_groups": self.mu_groups, "multiplier": self.multiplier, "ratio": ratio}
            # what the last phase's would be if all phases had this prior
            stds = ratio * noise_stds(self.solved, prior, **facts)
            mu_weights = ratio * self.bound.best(stds)
        return solved_phase(self.solved, prior, mu_weights=mu_weights, mu_groups=self.mu_groups)

    @property
    def risk_stds(self) -> FloatArray:
        """Standard deviation of the noise on the risk of each group."""
        problem = self.solved
        assert self.sums is not None
        of_sum = self.sums.loss_range * problem.loss_noise
        stds = self.risks_multiplier * of_sum / np.asarray(problem.group_sizes)
        if problem.hidden is not None:
            stds = np.sqrt(steps.active(stds, stds**2, problem)[1])
        return np.asarray(stds)

    @property
    def correction(self) -> FloatArray:
        """What is subtracted from exponents: half of log E exp(ηN) of the noise N on risks."""
        return np.asarray(steps.CORRECTION * (self.group_rate * self.risk_stds) ** 2 / 2.0)

    def of_fresh(self, problem: Problem, sizes: Sequence[int]) -> Self:
        """Return the same for a phase of so many fresh records, which are public numbers."""
        part = part_of(problem, self.n_phases)
        if part.hidden is None:
            part = replace(part, group_sizes=tuple(sizes))
        else:
            part = replace(part, hidden=replace(part.hidden, n_records=sum(sizes)))
        sums = SumSensitivity.of(part, loss_clip=self.loss_clip)
        return replace(self, solved=replace(part, loss=self.solved.loss), sums=sums)

    def __str__(self) -> str:
        first = self.phase(0, np.asarray(self.solved.prior))
        lines = [
            f"{self.n_phases} phase(s), of which the last {self.averaged} are averaged; in the "
            f"first a record moves the weights by at most {first.sensitivity:.3g}, noise "
            f"{self.multiplier * first.sensitivity:.3g}",
            str(self.solved.limit) if isinstance(self.solved, CentredProblem) else "",
            self.remark,
        ]
        return "\n".join(line for line in lines if line)


def part_of(problem: Problem, n_phases: int) -> Problem:
    """Return the facts of what one of so many phases on fresh records reads."""
    sizes, hidden = (max(1, int(size) // n_phases) for size in problem.group_sizes), problem.hidden
    if hidden is not None:
        std, n_records = hidden.size_std / n_phases, max(1, hidden.n_records // n_phases)
        hidden = replace(hidden, n_records=n_records, count_std=std, n_calls=1)
    return replace(problem, group_sizes=tuple(sizes), hidden=hidden)


# Where records meet noise. The payer of a draw is the phase that alone reads fresh records.

# A step of Newton's method that leaves a tenth of the gap keeps its Hessian: that halves the time.
KEEP_HESSIAN = 0.1


def release_risks(
    read: Risks,
    weights: FloatArray,
    schedule: PhaseSchedule,
    noise: NoiseSource,
    release: Release,
    payer: int | None = None,
) -> FloatArray:
    """Return the clipped risks of the records at released weights, with noise.

    A record moves one sum of losses by at most the range of a loss (docs/theory/sums.md). Where
    groups are hidden, losses count relative to the middle of their range.
    """
    sums, problem = schedule.sums, schedule.solved
    assert sums is not None
    center = 0.0 if problem.hidden is None else sums.center
    losses, _ = read.sums(weights, loss_clip=schedule.loss_clip, gradients=False, center=center)
    # sums, of which a record moves those of its groups: dividing them first would round them
    moved = sums.loss_range * problem.loss_moves
    noisy = noise.gaussian(losses, sensitivity=moved, release=release, payer=payer)
    # by what stands for the sizes of hidden groups
    return steps.sums_of_groups(problem, noisy) / np.asarray(problem.group_sizes) + center


def release_weights(
    read: Risks,
    center: FloatArray,
    prior: FloatArray,
    phase: Phase,
    solved: Problem,
    noise: NoiseSource,
    release: Release,
    payer: int | None = None,
) -> FloatArray:
    """Return the minimiser of a phase around released weights, with noise.

    Its group weights, its gap and its number of steps are not private and stay here.
    """
    if solved.loss != read.loss:  # a smooth stand-in for a loss with kinks
        read = read.with_loss(solved.loss)
    if solved.hidden is not None:
        low, high = solved.constants.infimum, solved.constants.supremum
        read = read.over(solved.group_sizes, loss_center=low + (high - low) / 2.0)
    point = solve_saddle_point(
        read,
        radius=solved.radius,
        prior=prior,
        mu_weights=phase.mu_weights,
        mu_groups=phase.mu_groups,
        center=center,
        tolerance=phase.tolerance,
        lipschitz=phase.total_weight * solved.lipschitz,
        smoothness=phase.total_weight * solved.smoothness,
        keep_hessian=KEEP_HESSIAN,
    )
    # the tolerance is within reach on every data set, so this is never about the records
    if not point.gap <= phase.tolerance:
        raise ArithmeticError("a phase was not solved to its public tolerance: a bug.")
    moved = phase.sensitivity
    return noise.gaussian(point.weights, sensitivity=moved, release=release, payer=payer)
