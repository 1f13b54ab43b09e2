"""Public numbers of the best-response solver."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import SumGrid
from sklearn_dpwg.solvers.centring.problem import CentredProblem, in_words
from sklearn_dpwg.solvers.group_player import CORRECTION, shown
from sklearn_dpwg.solvers.mixture import MixturePlan


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
