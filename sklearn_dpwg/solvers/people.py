"""Group weights for new people, without privacy: risks among them are estimated, not played on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.losses import Loss, LossConstants
from sklearn_dpwg.optimum.saddle_point import solve_saddle_point, worst_group_optimum
from sklearn_dpwg.solvers.solver import Solution
from sklearn_dpwg.solvers.steps import variance_between

# Shares of the minimax weights in the mixture, the rest the groups' shares of the records; and
# ridges, as multiples of the variance ``Σ λ_i²/n_i`` of a mixture.
SHARES, RIDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), (3.0, 1.0, 0.3, 0.001)

# Gap of the weighted fits, in units of the loss; and the share of it that a Hessian is kept for.
TOLERANCE, KEEP_HESSIAN = 1e-6, 0.1


@dataclass(frozen=True)
class _Squares(Loss):
    """Squares of losses as values, and of their slopes as curvature: so passes add up variances."""

    loss: Loss
    name: ClassVar[str] = "squares"

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        return self.loss.n_outputs

    def value_and_derivative(
        self, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        values, slopes = self.loss.value_and_derivative(scores, targets)
        return values**2, slopes

    def curvature(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        slopes = self.loss.value_and_derivative(scores, targets)[1]
        return slopes**2 if slopes.ndim == 1 else slopes[:, :, None] * slopes[:, None, :]

    def constants(self, score_bound: float) -> LossConstants:
        return self.loss.constants(score_bound)


class Candidate(NamedTuple):
    """A weighted fit, and what new people of each group are estimated to lose by it."""

    weights: FloatArray
    mixture: FloatArray  # λ; (n_groups,)
    risks: FloatArray  # among new people, before they are drawn together; (n_groups,)


class PeopleRule:
    """Chooses how far group weights leave the shares of the records, by risks among new people.

    Of a fit to weights λ with Hessian H, new people of group i lose ``λ_i tr(H⁻¹ V_i)/n_i`` more
    than its n_i records, with V_i the covariance of their gradients (Takeuchi 1976). Estimated
    risks are drawn together as far as sampling explains what they differ by, or the maximum takes
    the unluckiest group. Of fits between the average risk and the minimax of the records, with
    ridges, the one of the least largest risk is taken. (docs/theory/people.md)
    """

    def __init__(self, data: Risks, problem: Problem) -> None:
        self.data, self.problem, self.n_steps = data, problem, 0
        self.squares = data.with_loss(_Squares(data.loss))
        self.sizes = np.asarray(problem.group_sizes, dtype=float)
        self.correction = problem.optimism_correction

    def solve(self, tolerance: float) -> Solution:
        """Return the chosen fit, and what group weights gain by it."""
        minimax = worst_group_optimum(self.data, radius=self.problem.radius, tolerance=tolerance)
        self.n_steps += minimax.n_newton_steps
        pooled = self._fits(self.sizes / self.sizes.sum())
        together = self._together(pooled[-1])

        def largest(fit: Candidate) -> float:
            return float((together @ fit.risks).max())

        fits = list(pooled)
        for share in SHARES[1:]:
            move = minimax.group_weights - pooled[0].mixture
            fits += self._fits(pooled[0].mixture + share * move)
        blind, best = min(pooled, key=largest), min(fits, key=largest)
        gain = largest(blind) - largest(best), self._error(blind, best)
        return Solution(best.weights, best.mixture, self.n_steps, gain)

    def _fits(self, mixture: FloatArray) -> list[Candidate]:
        """Return the fits to group weights, a ridge each."""
        found: list[Candidate] = []
        variance = float(mixture**2 @ (1.0 / self.sizes))
        for ridge in RIDGES:
            solved = solve_saddle_point(
                self.data,
                radius=self.problem.radius,
                prior=mixture,
                mu_weights=ridge * variance,
                mu_groups=math.inf,
                start=found[-1].weights if found else None,
                tolerance=TOLERANCE,
                keep_hessian=KEEP_HESSIAN,
            )
            self.n_steps += solved.n_newton_steps
            risks, gradients = self.data.risks_and_gradients(solved.weights)
            hessian = self.data.hessian(solved.weights, mixture)
            hessian[np.diag_indices_from(hessian)] += ridge * variance
            factor = cho_factor(hessian, check_finite=False)
            traces = [
                np.trace(cho_solve(factor, self._covariance(group, solved.weights, gradients)))
                for group in range(len(risks))
            ]
            optimism = self.correction * mixture * np.array(traces) / self.sizes
            found.append(Candidate(solved.weights, mixture, risks + optimism))
        return found

    def _covariance(self, group: int, weights: FloatArray, gradients: FloatArray) -> FloatArray:
        """Return the covariance of the gradients of a group's records."""
        one = np.eye(len(gradients))[group]
        found = self.squares.hessian(weights, one) - np.outer(gradients[group], gradients[group])
        return np.asarray(found * (self.sizes[group] / max(self.sizes[group] - 1.0, 1.0)))

    def _together(self, fit: Candidate) -> FloatArray:
        """Return the matrix that draws estimated risks together, by empirical Bayes."""
        records = self.data.risks(fit.weights)
        variances = (self.squares.risks(fit.weights) - records**2) / np.maximum(self.sizes - 1, 1)
        variances = self.correction * variances + np.finfo(float).tiny
        between = variance_between(fit.risks, variances)
        precisions = 1.0 / (between + variances)
        believed = between * precisions
        return np.diag(believed) + np.outer(1.0 - believed, precisions / precisions.sum())

    def _error(self, blind: Candidate, best: Candidate) -> float:
        """Return the standard error of a gain, of the group that is worst off without weights."""
        group, move = int(blind.risks.argmax()), best.weights - blind.weights
        _, gradients = self.data.risks_and_gradients(best.weights)
        covariance = self._covariance(group, best.weights, gradients)
        return math.sqrt(max(float(move @ covariance @ move), 0.0) / self.sizes[group])
