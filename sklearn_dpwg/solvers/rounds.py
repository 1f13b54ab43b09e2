"""One phase of `PhasedERM`: its optimality gap, sensitivity, bound on the excess and releases."""

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
_UNIT = 2.0**-53  # unit roundoff; factors like 1 + 16 _UNIT cover the rounding of a formula
# Roundings in a mean of exact sums in four parts, beside one for each cell of a group.
_ROUNDINGS_OF_A_MEAN = 16
# Largest absolute logarithm of a group weight.
_LOG_WEIGHT = 750.0
# Fraction that the certified distance to the exact solution may add to a sensitivity.
SLACK = 0.01


class Phase(NamedTuple):
    """Public numbers of one phase: strengths of its objective, optimality gap, sensitivity."""

    mu_weights: float  # regularisation μ_w of the weights
    mu_groups: float  # regularisation μ_λ of the group weights
    tolerance: float  # optimality gap, attainable on every data set
    sensitivity: float  # largest distance that replacing one record moves the computed weights
    total_weight: float  # bound on the sum of all records' weights in the objective; 1 for a mean


def solved_phase(solved: Problem, prior: Any, *, mu_weights: float, mu_groups: float) -> Phase:
    """Return the phase for a prior over groups and the strengths μ_w and μ_λ.

    Floating point can certify its gap on every data set. Its sensitivity covers that gap and the
    rounding of the certificate.
    """
    exact = sensitivities(solved, prior, mu_weights=[mu_weights], mu_groups=mu_groups)[0]
    tolerance, at_gap = gap_and_sensitivity(
        solved, float(exact), mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    # weights are in the ball, so a record moves them by at most its diameter, and rounding
    widest = solved.diameter * (1.0 + 8.0 * (solved.n_weights + 16.0) * _UNIT)
    sensitivity, total = min(float(at_gap), widest), total_weight(solved, mu_groups, prior)
    return Phase(mu_weights, mu_groups, float(tolerance), sensitivity, total)


def sensitivities(solved: Problem, prior: Any, *, mu_weights: Any, mu_groups: float) -> FloatArray:
    """Return how far replacing one record moves a phase's exact minimiser, for each μ_w.

    With overlapping groups this is the sum over the groups of a record (Lemma 3 of
    docs/theory/overlapping-groups.md), or the simpler Lemma 4 for fixed group weights (μ_λ = ∞).
    """
    gradient_error, loss_error = record_errors(solved, solved.constants.supremum)
    if solved.cells is not None and mu_groups == math.inf:
        diameter = solved.gradient_diameter + 2.0 * gradient_error
        moved = diameter * influence(solved, np.asarray(prior)) * (1.0 + 16.0 * _UNIT)
        return np.asarray(moved / np.asarray(mu_weights))
    facts: dict[str, Any] = {
        "lipschitz": solved.lipschitz + gradient_error,
        # two records, so two errors
        "gradient_diameter": solved.gradient_diameter + 2.0 * gradient_error,
        "loss_range": solved.loss_range + 2.0 * loss_error,
        "strong_convexities": mu_weights,
        "entropy_weight": mu_groups,
        "prior": prior,
    }
    if solved.hidden is not None:
        return hidden_group_sensitivities(normalisers=solved.group_sizes, **facts)
    facts["group_sizes"] = solved.group_sizes
    if solved.cells is None:
        return saddle_point_sensitivities(**facts)
    group_sensitivities = saddle_point_sensitivities(**facts, by_group=True)
    return np.array([solved.cells.influence(by_group) for by_group in group_sensitivities])


def gap_and_sensitivity(
    solved: Problem, exact: Any, *, mu_weights: Any, mu_groups: float, prior: Any = None
) -> tuple[Any, Any]:
    """Return the optimality gap of a phase, and its sensitivity at that gap.

    ``exact`` is the sensitivity of exact minimisers. Arguments and results are numbers, or arrays
    with an entry for each μ_w.
    """
    rounding = rounding_of_minimiser(
        solved, mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    slope, radius = total_weight(solved, mu_groups, prior) * solved.lipschitz, solved.radius
    attainable = attainable_gap(radius, slope, mu_weights, radius, mu_groups=mu_groups)
    # at a gap α each neighbour's weights are within √(2α/μ_w) of its minimiser: this adds SLACK
    # times the exact sensitivity, or as much as rounding adds if only that can be certified
    slack_gap = mu_weights * (SLACK * exact / 2.0) ** 2 / 2.0
    rounding_gap = np.minimum(attainable, mu_weights * (rounding / 2.0) ** 2 / 2.0)
    tolerance = np.maximum(slack_gap, rounding_gap)
    sensitivity = exact + 2.0 * np.sqrt(2.0 * tolerance / mu_weights) + rounding
    return tolerance, sensitivity * (1.0 + 16.0 * _UNIT)


def total_weight(solved: Problem, mu_groups: float, prior: Any = None) -> float:
    """Bound the sum of all records' weights in a phase's objective; it is 1 for public groups.

    A hidden group i may have a size n_i above its stand-in m_i (``group_sizes``). The sum
    ``Σ π_i n_i/m_i`` is at most ``K max_i π_i/m_i`` for fixed group weights π and K records, and
    ``K / min_i m_i`` for any π.
    """
    if solved.hidden is None:
        return 1.0
    divisors = np.asarray(solved.group_sizes, dtype=float)
    weights = np.ones(len(divisors)) if prior is None or mu_groups < math.inf else np.asarray(prior)
    return max(1.0, solved.n_records * float((weights / divisors).max()))


def rounding_of_minimiser(
    solved: Problem, *, mu_weights: Any, mu_groups: float, prior: Any = None
) -> Any:
    """Bound the distance that rounding adds between two neighbours' certified weights.

    It is ``4 δ/μ_w``, δ a bound on the error of the objective's gradient, and the rounding of the
    certified distances. A number, or an array with an entry for each μ_w.
    """
    gradient_error, loss_error = record_errors(solved, solved.constants.supremum)
    total = total_weight(solved, mu_groups, prior)
    n_groups, lipschitz = solved.n_groups, total * (solved.lipschitz + gradient_error)
    n_cells = 1 if solved.cells is None else len(solved.cells.sizes)
    mean_error = (_ROUNDINGS_OF_A_MEAN + n_cells) * _UNIT  # relative
    largest_loss = max(abs(solved.constants.supremum), abs(solved.constants.infimum)) + loss_error
    # errors of the logarithm of a group weight: of the risk over μ_λ, and of the exponent
    risk_error = total * (mean_error * largest_loss + loss_error) / mu_groups
    exponent_error = 4.0 * _UNIT * (total * solved.loss_range / mu_groups + _LOG_WEIGHT + n_groups)
    group_weights_error = min(2.0, math.expm1(min(2.0 * (risk_error + exponent_error), 2.0)))
    objective_error = (
        total * mean_error * solved.rounding_factor * (solved.summed_norm + gradient_error)
        + total * gradient_error
        + lipschitz * (group_weights_error + (n_groups + 8.0) * _UNIT)
        + 16.0 * _UNIT * mu_weights * solved.radius
    )
    # error of the computed distance √(2G/μ_w): docs/theory/phased-erm-sensitivity.md, section 6
    stretch = 4.0 + 2.0 * lipschitz / (mu_weights * solved.radius)
    distance_error = 16.0 * (solved.n_weights + 16.0) * _UNIT * solved.radius * np.sqrt(stretch)
    return 4.0 * objective_error / mu_weights + 2.0 * distance_error


# Candidate strengths: a fixed grid, so that better facts never lead to a worse choice.
STRENGTHS = np.geomspace(1e-8, 1e4, 145)
# Ratios of curvature to strength at which the bound is tabulated.
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-7, 1e16, 921)])
# Lagrange multipliers of the bound on the trace, which limits the sum of all curvatures.
_PRICES = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 73)])


@dataclass(frozen=True)
class DescentBound:
    """Bound on the excess risk of the averaged weights of noisy phases, at fixed group weights.

    Theorem 3 of docs/theory/phased-erm.md, with ``L σ √(2 V(0)/π)`` for the noise if that is less.
    """

    initial_distance: float  # norm a of the weights that the run is compared with
    lipschitz: float  # Lipschitz constant L of the loss in the weights
    trace: float  # bound on the trace of the Hessian of the loss of one record
    n_weights: int
    strength_ratios: tuple[float, ...]  # strength μ_w of each phase over that of the last phase
    n_averaged: int  # number of last phases whose weights are averaged

    def at_strengths(self, noise_stds: FloatArray) -> FloatArray:
        """Return the bound at each of `STRENGTHS`, given the last phase's noise σ at each."""
        bias, noise_per_variance, noise_per_std = self._curves
        noise = np.minimum(noise_per_variance * noise_stds**2, noise_per_std * noise_stds)
        return np.asarray(bias + noise)

    def best(self, noise_stds: FloatArray) -> float:
        """Return the last phase's strength of least bound, given its noise at each strength."""
        return float(STRENGTHS[int(np.argmin(self.at_strengths(noise_stds)))])

    @cached_property
    def _curves(self) -> tuple[FloatArray, FloatArray, float]:
        """Bias and noise over σ², both at each of `STRENGTHS`, and noise over σ."""
        kept_distance, variance = _tables(self.strength_ratios, self.n_averaged)
        largest_ratios = self.trace / STRENGTHS
        last = np.maximum(np.searchsorted(_RATIOS, largest_ratios, side="right") - 1, 1)
        bias = np.maximum.accumulate(_RATIOS * kept_distance**2)
        # β and V fall, so between two ratios a curve rises by at most this factor
        grid_factor = _RATIOS[2] / _RATIOS[1]
        priced = 0.5 * _RATIOS * variance - _PRICES[:, None] * _RATIOS
        dual = self.n_weights * np.maximum.accumulate(priced, axis=1)[:, last]
        noise = (dual + _PRICES[:, None] * largest_ratios).min(axis=0) * STRENGTHS
        noise[largest_ratios > _RATIOS[-1]] = np.inf  # beyond the tables: the term in σ is used
        slope = self.lipschitz * math.sqrt(2.0 * float(variance[0]) / math.pi)
        bias = 0.5 * grid_factor * self.initial_distance**2 * STRENGTHS * bias[last]
        return bias, grid_factor * noise, slope


@lru_cache(maxsize=512)
def _tables(strength_ratios: tuple[float, ...], n_averaged: int) -> tuple[FloatArray, FloatArray]:
    """Return β and V of Theorem 3 at each of `_RATIOS`, curvature over the last strength.

    β is the fraction of the initial distance left in the averaged weights, V their variance in
    units of the last phase's σ².
    """
    n_phases = len(strength_ratios)
    strengths = np.asarray(strength_ratios)[:, None]
    noise = 1.0 / np.asarray(strength_ratios)
    kept_fractions = strengths / (strengths + _RATIOS)  # of a distance, after a phase
    bias = np.zeros_like(_RATIOS)
    averaged_noise = np.zeros((n_phases, len(_RATIOS)))  # each phase's noise in the average
    remaining_noise = np.zeros((n_phases, len(_RATIOS)))  # each phase's noise in the weights
    distance = np.ones_like(_RATIOS)
    for phase in range(n_phases):
        distance = distance * kept_fractions[phase]
        remaining_noise[:phase] *= kept_fractions[phase]
        remaining_noise[phase] = noise[phase]
        if phase >= n_phases - n_averaged:
            bias += distance / n_averaged
            averaged_noise += remaining_noise / n_averaged
    return bias, (averaged_noise**2).sum(axis=0)


# With a finite μ_λ a sensitivity takes a search, so only every 6th strength has one computed.
_STRIDE = 6


def noise_stds(
    solved: Problem, prior: Any, *, mu_groups: float, multiplier: float, ratio: float = 1.0
) -> FloatArray:
    """Return a phase's noise at each strength ``ratio * STRENGTHS``: multiplier × sensitivity."""
    strengths = ratio * STRENGTHS
    if mu_groups == math.inf:  # sensitivities are inversely proportional to the strength
        exact = sensitivities(solved, prior, mu_weights=[1.0], mu_groups=mu_groups) / strengths
    else:
        knots = strengths[::_STRIDE]
        at_knots = sensitivities(solved, prior, mu_weights=knots, mu_groups=mu_groups)
        exact = np.exp(np.interp(np.log(strengths), np.log(knots), np.log(at_knots)))
    _, sensitivity = gap_and_sensitivity(
        solved, exact, mu_weights=strengths, mu_groups=mu_groups, prior=prior
    )
    return np.asarray(multiplier * sensitivity)


def weights_bounds(
    schedule: PhaseSchedule, mu_weights: float | None, *, moves_groups: bool
) -> FloatArray:
    """Return for each group the excess bound of the weights if that group is the worst-off one.

    The bound is at the last phase's strength ``mu_weights``, or the least over `STRENGTHS` where
    None. Noise is that with all group weight on the group if ``moves_groups``, else at the prior.
    """
    solved, mu_groups = schedule.solved, schedule.mu_groups
    multiplier, bound = schedule.multiplier, schedule.bound
    assert bound is not None
    prior_stds = noise_stds(solved, solved.prior, mu_groups=mu_groups, multiplier=multiplier)
    stds, row_of_group = prior_stds[None, :], np.zeros(solved.n_groups, dtype=int)
    if moves_groups:  # groups of one size share a row
        sizes, row_of_group = np.unique(solved.sizes_to_plan_for, return_inverse=True)
        exact = solved.gradient_diameter / (sizes[:, None] * STRENGTHS)  # diameter / (n_i μ_w)
        _, shifts = gap_and_sensitivity(solved, exact, mu_weights=STRENGTHS, mu_groups=mu_groups)
        stds = multiplier * shifts  # of the noise that hides how far a record shifts the minimiser
        if mu_groups < math.inf:  # a record moves the group weights too
            stds = np.maximum(stds, prior_stds)
    bound_rows = bound.at_strengths(stds)
    if mu_weights is None:
        return np.asarray(bound_rows.min(axis=1))[row_of_group]
    log_strength, log_grid = math.log(mu_weights), np.log(STRENGTHS)
    return np.array([np.interp(log_strength, log_grid, row) for row in bound_rows])[row_of_group]


@dataclass(frozen=True)
class PhaseSchedule:
    """All public numbers that a run of phases needs besides the records and the noise."""

    # problem that each phase solves: with the smooth loss, a phase's groups and the first prior
    solved: Problem
    n_phases: int
    n_averaged: int  # number of last phases whose weights are averaged
    multiplier: float  # noise of the first phase, per unit of sensitivity
    mu_groups: float  # regularisation μ_λ of the group player within a phase
    # regularisation μ_w in each phase; None where the bound chooses it by the noise
    mu_weights: tuple[float, ...] | None
    bound: DescentBound | None = None
    loss_clip: float = math.inf  # clip of a record's loss in the group risks
    sums: SumSensitivity | None = None  # how far a record moves the sums of clipped losses
    # noise per unit of sensitivity on these sums; 0 where none are released
    risks_multiplier: float = 0.0
    group_rate: float = 0.0  # step size η of the group weights
    remark: str = ""  # of the paper's schedule

    __repr__ = short_repr

    def phase(self, index: int, prior: FloatArray) -> Phase:
        """Return the phase of this index for a prior over groups, from public numbers only."""
        if self.mu_weights is not None:
            mu_weights = self.mu_weights[index]
        else:
            assert self.bound is not None
            ratio = self.bound.strength_ratios[index]
            facts = {"mu_groups": self.mu_groups, "multiplier": self.multiplier, "ratio": ratio}
            # the bound takes the last phase's noise: what it would be if all had this prior
            last_stds = ratio * noise_stds(self.solved, prior, **facts)
            mu_weights = ratio * self.bound.best(last_stds)
        return solved_phase(self.solved, prior, mu_weights=mu_weights, mu_groups=self.mu_groups)

    @property
    def risk_stds(self) -> FloatArray:
        """Standard deviation of the noise on the risk of each group."""
        problem = self.solved
        assert self.sums is not None
        sum_sensitivity = self.sums.loss_range * problem.loss_noise
        stds = self.risks_multiplier * sum_sensitivity / np.asarray(problem.group_sizes)
        if problem.hidden is not None:
            stds = np.sqrt(steps.active(stds, stds**2, problem)[1])
        return np.asarray(stds)

    @property
    def correction(self) -> FloatArray:
        """Half of log E exp(ηN), N the noise on each group's risk; subtracted from exponents."""
        return np.asarray(steps.CORRECTION * (self.group_rate * self.risk_stds) ** 2 / 2.0)

    def for_fresh_records(self, problem: Problem, sizes: Sequence[int]) -> Self:
        """Return the schedule for a phase on fresh records, given the public group sizes."""
        part = problem_of_one_phase(problem, self.n_phases)
        if part.hidden is None:
            part = replace(part, group_sizes=tuple(sizes))
        else:
            part = replace(part, hidden=replace(part.hidden, n_records=sum(sizes)))
        sums = SumSensitivity.of(part, loss_clip=self.loss_clip)
        return replace(self, solved=replace(part, loss=self.solved.loss), sums=sums)

    def __str__(self) -> str:
        sensitivity = self.phase(0, np.asarray(self.solved.prior)).sensitivity
        lines = [
            f"{self.n_phases} phase(s), of which the last {self.n_averaged} are averaged; in the "
            f"first a record moves the weights by at most {sensitivity:.3g}, noise "
            f"{self.multiplier * sensitivity:.3g}",
            str(self.solved.limit) if isinstance(self.solved, CentredProblem) else "",
            self.remark,
        ]
        return "\n".join(line for line in lines if line)


def problem_of_one_phase(problem: Problem, n_phases: int) -> Problem:
    """Return the problem on the records of one phase, where phases share them evenly."""
    sizes, hidden = (max(1, int(size) // n_phases) for size in problem.group_sizes), problem.hidden
    if hidden is not None:
        std, n_records = hidden.size_std / n_phases, max(1, hidden.n_records // n_phases)
        hidden = replace(hidden, n_records=n_records, count_std=std, n_calls=1)
    return replace(problem, group_sizes=tuple(sizes), hidden=hidden)


# Noisy releases of records. `payer` is the index of a phase whose fresh records no other reads.
# Newton's method reuses a Hessian after a step that left at most a tenth of the gap: half the time.
KEEP_HESSIAN = 0.1


def release_risks(
    risks: Risks,
    weights: FloatArray,
    schedule: PhaseSchedule,
    noise: NoiseSource,
    release: Release,
    payer: int | None = None,
) -> FloatArray:
    """Return each group's noisy mean of clipped losses at released weights.

    A record moves one sum of losses by at most the range of a loss (docs/theory/sums.md). Where
    groups are hidden, losses count relative to the middle of their range.
    """
    sums, problem = schedule.sums, schedule.solved
    assert sums is not None
    center = 0.0 if problem.hidden is None else sums.center
    losses, _ = risks.sums(weights, loss_clip=schedule.loss_clip, gradients=False, center=center)
    # noise is added to sums: a division before it would round the private numbers
    sensitivity = sums.loss_range * problem.loss_moves
    noisy = noise.gaussian(losses, sensitivity=sensitivity, release=release, payer=payer)
    # sizes of hidden groups are public stand-ins
    return steps.sums_of_groups(problem, noisy) / np.asarray(problem.group_sizes) + center


def release_weights(
    risks: Risks,
    center: FloatArray,
    prior: FloatArray,
    phase: Phase,
    solved: Problem,
    noise: NoiseSource,
    release: Release,
    payer: int | None = None,
) -> FloatArray:
    """Return a phase's minimiser, regularised towards the released weights ``center``, with noise.

    Only the noisy weights leave: the group weights, gap and step count lack privacy protection.
    """
    if solved.loss != risks.loss:  # a smooth stand-in for a loss with kinks
        risks = risks.with_loss(solved.loss)
    if solved.hidden is not None:
        low, high = solved.constants.infimum, solved.constants.supremum
        risks = risks.over(solved.group_sizes, loss_center=low + (high - low) / 2.0)
    point = solve_saddle_point(
        risks,
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
    # the tolerance is attainable on every data set, so that an error tells nothing of the records
    if not point.gap <= phase.tolerance:
        raise ArithmeticError("a phase was not solved to its public tolerance: a bug.")
    sensitivity = phase.sensitivity
    return noise.gaussian(point.weights, sensitivity=sensitivity, release=release, payer=payer)
