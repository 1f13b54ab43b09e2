"""How far one record moves what a round of the online solver hands to noise, rounding included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy.prefix_sums import PrefixSums
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.batch_sums import rounding_of_sum
from sklearn_dpwg.solvers.sum_sensitivity import record_errors

_UNIT = 2.0**-53
# A weighted round has at most so many records of a group more than its rate: each role's are a
# share of whole records, dealt evenly in whole numbers.
_MORE_THAN_THE_RATE = 4


@dataclass(frozen=True)
class RoundSensitivity:
    """Sensitivities of a round: docs/theory/sums.md, section 9."""

    # by how much a record moves the sum of gradients of a round and, by rounding, all later rows of
    # the prefix sums, over the largest factor of a record
    gradient_diameter: float
    feedback_range: float  # by how much a record moves the sum of losses of its group in a round

    @classmethod
    def of(
        cls,
        problem: Problem,
        mechanism: PrefixSums,
        *,
        ceiling: float,
        play: Literal["weighted", "sampled"],
        weight_rates: FloatArray,
        feedback_rates: FloatArray,
    ) -> Self:
        """Return the numbers of a design from public facts alone."""
        constants, n_groups = problem.constants, problem.n_groups
        of_gradient, of_loss = record_errors(problem, min(ceiling, constants.supremum))
        gradient = problem.lipschitz + of_gradient
        loss_range = constants.range_up_to(ceiling) + 2.0 * of_loss
        if play == "weighted":
            n_weight = float((np.ceil(weight_rates) + _MORE_THAN_THE_RATE).sum())
            n_feedback = float(np.ceil(feedback_rates).max()) + _MORE_THAN_THE_RATE
        else:
            n_weight, n_feedback = float(weight_rates.max()), float(feedback_rates.max())
        # of the sums of both neighbours, and of the rows that these sums are in
        error = rounding_of_sum(n_weight, n_groups)
        of_sum = 2.0 * error + mechanism.rounding * (1.0 + error)
        diameter = problem.gradient_diameter + 2.0 * of_gradient + of_sum * n_weight * gradient
        feedback = (
            loss_range + 2.0 * rounding_of_sum(n_feedback, n_groups) * n_feedback * loss_range
        )
        return cls(diameter * (1.0 + 16.0 * _UNIT), feedback * (1.0 + 16.0 * _UNIT))
