"""Objective perturbation with approximate minima (AMP; Iyengar et al. 2019), accounted tightly.

With a random linear term b ~ N(0, σ²I), ŵ minimises

    J(w) = Σ f_i ℓ(w; z_i) + Λ/2 |w|² + b·w

up to a gradient no longer than γ, and ŵ plus Gaussian noise is released, projected to the radius.
ℓ is the loss with its slope limited to C/|x|: still convex, its gradient no longer than C.

Privacy, for replacing one record of factor at most f by another of its group (after the analysis
of Redberg, Koskela and Wang 2023 for adding one):

- The density of the exact minimiser at w is that of b = -Σ f_i ∇ℓ_i(w) - Λw times det ∇²J(w). The
  quotient of the determinants is at most 1 + fβ/Λ, β the most curvature φ''|x|² of a record: its
  logarithm κ is spent of ε.
- b moves by v = f(a u - a' u'), u and u' the directions of the two rows, |a|, |a'| ≤ C. The other
  part of the privacy loss, (2b·v + |v|²)/2σ², is convex in (a, a') and so at most its largest value
  at the four corners. These are ±fC(u + u') and ±fC(u - u'), orthogonal, with squared lengths that
  add up to (2fC)². By a union over the corners δ(ε) ≤ 2g(s) + 2g(s'), s + s' = μ² = (2fC/σ)², g(s)
  the δ at ε - κ of a Gaussian release of parameter √s. g(0) = 0 and g is convex where
  (ε - κ)² ≥ s + s²/4, which is checked: the sum is at most 2g(μ²).
- ŵ is within γ/Λ of the exact minimiser, so noise τ on it is one more Gaussian release, of
  parameter 2γ/(Λτ), and squares add up.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from utility.peers.clipped import BLOCK_ELEMENTS, ClippedGradients, project, seeded_normals
from utility.peers.tuning import single
from utility.peers.weightings import (
    WEIGHTINGS,
    largest_factor,
    record_factors,
    replace_sensitivity,
    total_mu,
)
from utility.tasks import Part, Task

CURVATURE_SHARES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.8)
CLIPS = (0.1, 0.25, 0.5, 0.7, 1.0)
# Of μ² for the noise on the minimiser, and that noise: too little to see in any loss.
OUTPUT_SHARE, OUTPUT_STD = 0.01, 0.01

# Tuning runs stop where no weight moves by as much, as the noise on the minimiser hides it.
TUNING_STEP, N_TUNING_STEPS, N_FINAL_STEPS = OUTPUT_STD, 30, 300
SHRINKS = 0.7


class Run(NamedTuple):
    """Parameters of one run."""

    curvature_share: float
    clip: float
    weighting: str


class Plan(NamedTuple):
    """What a run adds to its objective and to the minimiser."""

    strength: float
    linear_std: float
    output_std: float
    tolerance: float


def grid() -> list[Run]:
    """Return the grid."""
    return [Run(*each) for each in product(CURVATURE_SHARES, CLIPS, WEIGHTINGS)]


def largest_curvature(clip: float, bound: float, *, is_classification: bool) -> float:
    """Return β, the most curvature of a record's clipped loss in the direction of its row."""
    if not is_classification:
        return bound**2
    # s(1 - s) r² with s ≤ C/r: it grows with r, so the longest row has most
    largest = min(0.5, clip / bound)
    return largest * (1.0 - largest) * bound**2


def make_plan(
    sizes: np.ndarray,
    run: Run,
    epsilon: float,
    delta: float,
    bound: float,
    *,
    is_classification: bool,
) -> Plan:
    """Return regularisation, noise and tolerance that spend a budget."""
    factor = largest_factor(sizes, run.weighting)
    kappa = run.curvature_share * epsilon
    curvature = largest_curvature(run.clip, bound, is_classification=is_classification)
    strength = factor * curvature / np.expm1(kappa)
    mu = total_mu(epsilon - kappa, delta / 2.0)
    if (epsilon - kappa) ** 2 < mu**2 + mu**4 / 4.0:
        raise ValueError(f"epsilon = {epsilon:g} must be larger for delta = {delta:g}.")
    output_mu, linear_mu = mu * np.sqrt([OUTPUT_SHARE, 1.0 - OUTPUT_SHARE])
    return Plan(
        strength,
        replace_sensitivity(run.clip, factor) / linear_mu,
        OUTPUT_STD,
        OUTPUT_STD * strength * output_mu / 2.0,
    )


def perturb(
    task: Task, part: Part, runs: list[Run], plans: list[Plan], seeds: np.ndarray, *, is_final: bool
) -> dict[str, np.ndarray]:
    """Return what columns of equal weighting release; minima of tuning runs are not exact."""
    factors = record_factors(task, part, runs[0].weighting)
    assert all(run.weighting == runs[0].weighting for run in runs)
    strengths, stds, outputs, tolerances = np.array(plans).T
    d = part.rows.shape[1]
    clips = np.array([run.clip for run in runs])
    linear = stds * seeded_normals(seeds, 1, d)

    def problem(records: Part) -> Problem:
        return Problem(
            records,
            factors,
            clips,
            strengths,
            linear,
            is_classification=task.is_classification,
        )

    start = np.zeros((d, len(runs)))
    weights = problem(single(part)).majorise(start, N_TUNING_STEPS, TUNING_STEP)
    if is_final:
        weights = problem(part).polish(weights, tolerances)
    released = weights + outputs * seeded_normals(seeds, 2, d)
    return {"last": project(released, task.radius)}


class Problem:
    """Perturbed objectives of many columns, with C, Λ and b of each, and their minimisers."""

    def __init__(
        self,
        part: Part,
        factors: np.ndarray,
        clips: np.ndarray,
        strengths: np.ndarray,
        linear: np.ndarray,
        *,
        is_classification: bool,
    ) -> None:
        self.part, self.factors, self.clips = part, factors, clips
        self.strengths, self.linear = strengths, linear
        self.is_classification = is_classification
        self.sums = ClippedGradients(part, factors, clips, is_classification=is_classification)
        most = 0.25 if is_classification else 1.0
        weighted = part.rows * (most * factors).astype(part.rows.dtype)[:, None]
        self.values, self.vectors = np.linalg.eigh((part.rows.T @ weighted).astype(float))
        self.values = np.maximum(self.values, 0.0)

    def gradients(self, weights: np.ndarray) -> np.ndarray:
        """Return the gradients of the objectives."""
        return self.sums(weights) + self.strengths * weights + self.linear

    def majorise(self, weights: np.ndarray, n_steps: int, enough: float) -> np.ndarray:
        """Descend by the largest possible curvature, accelerated, restarted where it turns."""
        damping = self.values[:, None] + self.strengths
        ahead, ages = weights, np.zeros(weights.shape[1])
        for _ in range(n_steps):
            gradient = self.gradients(ahead)
            step = self.vectors @ ((self.vectors.T @ gradient) / damping)
            moved = ahead - step
            turned = np.sum(gradient * (moved - weights), axis=0) > 0.0
            ages = np.where(turned, 0.0, ages + 1.0)
            ahead = moved + ages / (ages + 3.0) * (moved - weights)
            weights = moved
            if np.abs(step).max() < enough:
                break
        return weights

    def polish(self, weights: np.ndarray, tolerances: np.ndarray) -> np.ndarray:
        """Return minimisers with gradients no longer than tolerances, by Newton's method."""
        k, d = weights.shape[1], len(weights)
        inverses = np.empty((k, d, d))
        self._renew(inverses, np.arange(k), weights)
        before = np.full(k, np.inf)
        for _ in range(N_FINAL_STEPS):
            gradient = self.gradients(weights)
            lengths = np.linalg.norm(gradient, axis=0)
            left = lengths > tolerances
            if not left.any():
                return weights
            slow = np.flatnonzero(left & (lengths > SHRINKS * before))
            if len(slow):
                # a step that is safe from anywhere, then Newton's from there
                weights[:, slow] = self._only(slow).majorise(weights[:, slow], 10, 0.0)
                self._renew(inverses, slow, weights)
                before[slow] = np.inf
                continue
            before = lengths
            weights = weights - left * np.einsum("kij,jk->ik", inverses, gradient)
        # clipped slopes have kinks, where Newton's steps may go back and forth
        for _ in range(N_FINAL_STEPS):
            lengths = np.linalg.norm(self.gradients(weights), axis=0)
            left = np.flatnonzero(lengths > tolerances)
            if not len(left):
                return weights
            weights[:, left] = self._only(left).majorise(weights[:, left], 300, 0.0)
        raise RuntimeError("The minimum of a perturbed objective was not reached.")

    def _only(self, columns: np.ndarray) -> Problem:
        """Return the problems of some columns."""
        return Problem(
            self.part,
            self.factors,
            self.clips[columns],
            self.strengths[columns],
            self.linear[:, columns],
            is_classification=self.is_classification,
        )

    def _renew(self, inverses: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> None:
        """Set inverse Hessians at the columns' own weights."""
        rows, targets, d = self.part.rows, self.part.targets, self.part.rows.shape[1]
        own = weights[:, columns].astype(rows.dtype)
        hessians = self.strengths[columns, None, None] * np.eye(d)
        step = max(64, BLOCK_ELEMENTS // max(d, len(columns)))
        for first in range(0, len(rows), step):
            block = slice(first, first + step)
            limits = self.clips[columns] * self.sums.inverse_norms[block, None]
            scores = rows[block] @ own
            if self.is_classification:
                with np.errstate(over="ignore"):
                    slopes = 1.0 / (1.0 + np.exp(targets[block, None] * scores))
                curvatures = slopes * (1.0 - slopes) * (slopes < limits)
            else:
                curvatures = (np.abs(scores - targets[block, None]) < limits).astype(float)
            curvatures *= self.factors[block, None]
            for place in range(len(columns)):
                hessians[place] += rows[block].T @ (rows[block] * curvatures[:, place, None])
        inverses[columns] = np.linalg.inv(hessians)
