"""Bound on what noisy proximal steps cost, and the regularisation that makes it least."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray

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
