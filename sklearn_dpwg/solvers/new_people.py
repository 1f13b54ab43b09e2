"""What new people of each group can expect of a fit, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.privacy import Budget

# What losses of a group's records differ by, as a share of what predicting nothing costs: the
# median over tasks, for classes and for numbers (benchmarks/new_people.py prints both).
SPREAD_OF_CLASSES, SPREAD_OF_NUMBERS = 0.52, 0.064
# A release of a group's risk lets a loss count up to so much of that.
MOST_OF_A_LOSS = 2.0
# With fewer records two standard errors are more than a third of the spread of losses: whatever
# such a group's records say, the people whom they stand for may be another case.
FEWEST_TO_TELL = 36

# By how much less the worst-off group loses, among people whom the model has not seen, than with a
# private model that knows no groups: quartiles over the choosing half of the population, as shares
# of what predicting nothing costs, at these ε. Public sizes, numbers of groups and of columns say
# nothing of where in between (benchmarks/new_people.py prints how little).
EPSILONS = (1.0, 4.0, 8.0)
GAINS = {
    "classes": ((-0.002, 0.015, 0.046), (0.003, 0.014, 0.075), (0.002, 0.023, 0.095)),
    "numbers": ((-0.007, -0.001, 0.003), (-0.001, 0.000, 0.006), (0.000, 0.001, 0.006)),
}
_MOST_ROWS = 5


@dataclass(frozen=True, eq=False)
class NewPeople:
    """Standard errors of the mean loss of each group's people, and what a fit gains for the worst.

    Typical numbers, measured on other tasks: no bound, and no release.
    """

    group_sizes: tuple[float, ...]
    # of a mean loss over the group's records, as a sample of its people; (n_groups,)
    sampling_std: FloatArray
    # of a release of that mean which takes all of the budget; 0 without privacy
    noise_std: FloatArray
    # quartiles of what the worst-off group gains over a private model that knows no groups, in
    # units of the loss; None for one group and other losses than were measured
    gain: tuple[float, float, float] | None
    records_per_person: int = 1  # most records of one person

    @property
    def untold(self) -> tuple[int, ...]:
        """Groups of possibly too few people to be told from chance at any ε; one is no group."""
        fewest, sizes = FEWEST_TO_TELL * self.records_per_person, self.group_sizes
        return tuple(i for i, n in enumerate(sizes) if n < fewest and len(sizes) > 1)

    def __str__(self) -> str:
        """Return a few lines: the smallest groups, and the gain."""
        order = np.argsort(self.group_sizes, kind="stable")
        lines = ["records in a group  +- by chance  +- by noise (of its mean loss, 2 std. errors)"]
        for i in order[:_MOST_ROWS]:
            told = "  may be too small to be told from chance" if i in self.untold else ""
            lines.append(
                f"{self.group_sizes[i]:>18,}  {2.0 * self.sampling_std[i]:>12.2g}"
                f"  {2.0 * self.noise_std[i]:>11.2g}{told}"
            )
        if len(order) > _MOST_ROWS:
            lines.append(f"less in {len(order) - _MOST_ROWS:,} larger group(s)")
        if self.gain is not None:
            low, middle, high = self.gain
            lines.append(
                f"on other tasks the worst-off group lost {middle:.2g} less than with a private "
                f"model that knows no groups, {low:.2g} to {high:.2g} in the middle half of them"
            )
        return "\n".join(lines)


def new_people(problem: Problem, budget: Budget, records_per_person: int = 1) -> NewPeople:
    """Return what new people can expect of a fit within a budget, that of a person."""
    # as many people as there are at least, each of whose records moves a mean
    sizes = np.asarray(problem.group_sizes, dtype=float) / records_per_person
    nothing = problem.constants.zero_score
    is_numbers = problem.loss.task == "regression"
    spread = (SPREAD_OF_NUMBERS if is_numbers else SPREAD_OF_CLASSES) * nothing
    return NewPeople(
        tuple(problem.group_sizes),
        spread / np.sqrt(sizes),
        MOST_OF_A_LOSS * nothing / (sizes * budget.mu),
        _gain(problem, budget, "numbers" if is_numbers else "classes"),
        records_per_person,
    )


def _gain(problem: Problem, budget: Budget, kind: str) -> tuple[float, float, float] | None:
    """Return quartiles between those measured, along the logarithm of ε; beyond, the last ones."""
    kernel = type(problem.loss).__dict__.get("kernel")
    if problem.n_groups == 1 or kernel not in ("binary_log", "squared_error"):
        return None
    at, known = math.log(max(budget.epsilon, 1e-9)), np.log(EPSILONS)
    if budget.epsilon < EPSILONS[0] / 2.0:  # nothing was measured there
        return None
    columns = np.array(GAINS[kind]).T * problem.constants.zero_score
    low, middle, high = (float(np.interp(at, known, column)) for column in columns)
    return low, middle, high
