"""Phases: the bound that their strengths make least, and what a plan fixes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.solvers.centring import CentredProblem
from sklearn_dpwg.solvers.rounds.certificate import Phase, certified, sensitivities, solved_phase
from sklearn_dpwg.solvers.steps import shown

# Strengths that a plan may choose: a fixed grid, so that better facts never choose worse.
STRENGTHS = np.geomspace(1e-8, 1e4, 145)
# Ratios of curvature to strength at which the bound is evaluated, and prices of curvature.
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-7, 1e16, 921)])
_PRICES = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 73)])


@dataclass(frozen=True)
class DescentBound:
    """Bound on the excess of one averaged run of noisy phases with fixed group weights.

    For a quadratic risk, with b(h) the share of the first distance that the average keeps in a
    direction of curvature h and V(h) the variance of its noise over that of the last phase: Theorem
    3 of docs/theory/phased-erm.md, or ``L σ √(2 V(0)/π)`` for the noise, if that is less. Curvature
    enters through ``x = h/μ`` alone, so both are tabulated once.
    """

    aim: float  # norm a of the weights that the run is compared with
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
# With more sizes of groups than these, bounds are those of the next lower size of a grid.
MOST_SIZES, LEVELS_PER_OCTAVE = 256, 32


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
        found = sensitivities(solved, prior, mu_weights=some, mu_groups=mu_groups)
        exact = np.exp(np.interp(np.log(strengths), np.log(some), np.log(found)))
    _, paid = certified(solved, exact, mu_weights=strengths, mu_groups=mu_groups, prior=prior)
    return np.asarray(multiplier * paid)


def weights_bounds(
    solved: Problem,
    mu_weights: float | None,
    bound: DescentBound,
    *,
    multiplier: float,
    mu_groups: float,
    feedback: bool,
) -> FloatArray:
    """Return the weights' part of each group's bound, from the noise of the last phase."""
    stds = noise_stds(solved, solved.prior, mu_groups=mu_groups, multiplier=multiplier)
    rows, of_group = stds[None, :], np.zeros(solved.n_groups, dtype=int)
    if feedback:
        # all weight on one group; those of one size share a row
        last, of_group = _levels(tuple(solved.sizes_to_plan_for.tolist()))
        exact = solved.gradient_diameter / (last[:, None] * STRENGTHS)
        _, paid = certified(solved, exact, mu_weights=STRENGTHS, mu_groups=mu_groups)
        alone = multiplier * paid
        rows = alone if mu_groups == math.inf else np.maximum(alone, stds)
    at_strengths = bound.at_strengths(rows)
    if mu_weights is None:
        return np.asarray(at_strengths.min(axis=1))[of_group]
    chosen, grid = math.log(mu_weights), np.log(STRENGTHS)
    return np.array([np.interp(chosen, grid, row) for row in at_strengths])[of_group]


@lru_cache(maxsize=64)
def _levels(sizes: tuple[float, ...]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the distinct sizes, and which of them each group has.

    Of very many, sizes are taken down to a fixed grid, which makes bounds larger by at most 2 %.
    """
    wanted = np.asarray(sizes)
    levels, of_group = np.unique(wanted, return_inverse=True)
    if len(levels) > MOST_SIZES:
        wanted = 2.0 ** (np.floor(np.log2(wanted) * LEVELS_PER_OCTAVE) / LEVELS_PER_OCTAVE)
        levels, of_group = np.unique(wanted, return_inverse=True)
    return levels, of_group


@dataclass(frozen=True)
class Phases:
    """Everything that phases need besides the records, the prior of each and the noise."""

    # what each phase minimises, with the smooth loss, the groups that it reads and the first prior
    solved: Problem
    n_phases: int
    averaged: int  # how many of the last phases are averaged
    multiplier: float  # noise of the first phase, per unit of sensitivity
    mu_groups: float  # regularisation μ_λ of the group player within a phase
    # regularisation μ_w in each phase; None where the bound chooses it by the noise
    mu_weights: tuple[float, ...] | None
    bound: DescentBound | None = None
    smoothing_width: float = 0.0  # of the smooth stand-in for a loss with kinks
    remark: str = ""  # of the paper's schedule, each phase of which reads a part of its own

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

    def __str__(self) -> str:
        """Return a few lines for people."""
        return self.in_words()

    def in_words(self, *between: str) -> str:
        """Return a few lines for people, with what happens between phases."""
        n_phases, prior = self.n_phases, self.solved.prior
        records = "a part of its own" if self.remark else "all records"
        lines = [
            f"{n_phases} phase(s), each reads {records}; output is the average of the last "
            f"{self.averaged}"
        ]
        if isinstance(self.solved, CentredProblem):
            lines.append(str(self.solved.limit))
        first = self.phase(0, np.asarray(prior))
        lines.append(
            f"first phase: regularisation {first.mu_weights:.3g}, one record moves the weights by "
            f"at most {first.sensitivity:.3g}, noise {self.multiplier * first.sensitivity:.3g}"
        )
        if n_phases > 1:
            strengths = self.mu_weights or (self.bound and self.bound.strength_ratios) or (1.0,)
            rise = strengths[-1] / strengths[0]
            lines.append(f"the last phase has {rise:.3g} times the first's regularisation")
        if n_phases > 1 and self.remark:
            of_each = ", ".join([f"{self.solved.n_records:,}"] * min(n_phases, 8))
            lines.append(f"records of the phases: {of_each}{', ...' * (n_phases > 8)}")
        if len(prior) > 1:
            strength = "fixed within a phase"
            if self.mu_groups < math.inf:
                strength = f"regularisation {self.mu_groups:.3g} within a phase"
            lines += [f"group weights start at {shown(prior)}, {strength}", *between]
        if self.smoothing_width > 0.0:
            lines.append(f"kinks of the loss rounded off within {self.smoothing_width:.3g}")
        return "\n".join([*lines, self.remark] if self.remark else lines)
