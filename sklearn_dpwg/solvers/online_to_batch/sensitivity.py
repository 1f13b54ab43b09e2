"""How far one record moves the gradient difference of a round, rounding included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy.prefix_sums import PrefixSums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.batch_sums import rounding_of_sum
from sklearn_dpwg.solvers.sum_sensitivity import record_errors

_UNIT = 2.0**-53
# A round has at most so many records of a group more than its rate: whole numbers, dealt evenly.
_MORE_THAN_THE_RATE = 2


def round_weight(step: int, power: float) -> float:
    """Return β_t = t^k, and 0 for t = 0 whatever k is: 0^0 would be 1."""
    return float(step) ** power if step else 0.0


@dataclass(frozen=True)
class DifferenceSensitivity:
    """Sensitivities of all rounds: docs/theory/online-to-batch.md, section 2."""

    gradient_diameter: float  # diameter Γ of the gradients that a record can have at one point
    smoothness: float  # smoothness H of a record's loss in the weights
    rounding: float  # what rounding adds for each unit of β_t + β_{t-1}
    stretch: float  # factor, a touch above 1, for the rounding of the rows of the prefix sums

    @classmethod
    def of(cls, problem: Problem, mechanism: PrefixSums, rates: FloatArray) -> Self:
        """Return the numbers of a plan from public facts alone."""
        of_gradient, _ = record_errors(problem, problem.constants.supremum)
        gradient, diameter = problem.lipschitz + of_gradient, problem.gradient_diameter
        n_read = float((np.ceil(rates) + _MORE_THAN_THE_RATE).sum())
        error = rounding_of_sum(n_read, problem.n_groups)
        # a difference is at most as many times longer than its sensitivity as there are records,
        # and as gradients are longer than their diameter
        longest = n_read * max(1.0, gradient / diameter) * (1.0 + error)
        # of the norm of a step, of the products here
        of_norm = 2.0 * (problem.n_weights + 64.0) * _UNIT
        return cls(
            gradient_diameter=diameter,
            smoothness=problem.smoothness,
            rounding=2.0 * of_gradient + 2.0 * error * n_read * gradient,
            stretch=(1.0 + mechanism.rounding * longest) * (1.0 + of_norm),
        )

    def of_round(self, weight: float, before: float, moved: float) -> float:
        """Return Δ_t for a record that counts once: β_t, β_{t-1} and the distance ‖x_t - x_{t-1}‖.

        The gradients of two records at one point differ by Γ at most; how either changes between
        two points is the distance times a matrix between 0 and H, and two such differ by H.
        """
        return float(self.of_rounds(np.array(weight), np.array(before), np.array(moved)))

    def of_rounds(self, weights: FloatArray, before: FloatArray, moved: FloatArray) -> FloatArray:
        """Return the same for many rounds."""
        diameter = self.gradient_diameter
        changed = np.minimum(self.smoothness * moved, 2.0 * diameter)
        exact = np.abs(weights - before) * diameter + before * changed
        return np.asarray(self.stretch * (exact + (weights + before) * self.rounding))


def round_weights(n_rounds: int, power: float) -> FloatArray:
    """Return β_1, …, β_n."""
    return np.asarray(np.arange(1.0, n_rounds + 1.0) ** power)
