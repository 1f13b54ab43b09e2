"""A known population as group risks."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sklearn_dpwg._typing import FloatArray

# Differences of gradients over so long a step make Hessians, which only speed up a search whose
# certificate needs gradients alone.
DIFFERENCE = 1e-5


class KnownPopulation(Protocol):
    """What is asked of a population; those of `sklearn_dpwg.datasets` answer."""

    coef: FloatArray
    group_weights: FloatArray

    def group_risks(self, coef: FloatArray) -> FloatArray:
        """Return the expected loss of each group."""

    def group_gradients(self, coef: FloatArray) -> FloatArray:
        """Return the gradients of the expected losses."""


class PopulationRisks:
    """The expected losses of a population's groups, in place of means over records."""

    def __init__(self, population: KnownPopulation) -> None:
        self.population = population
        self.n_groups = len(population.group_weights)
        self.n_weights = len(population.coef)

    def risks(self, weights: FloatArray, *, ceiling: float | None = None) -> FloatArray:
        """Return the expected losses."""
        if ceiling is not None:
            raise ValueError(f"ceiling must be None for a population, got {ceiling!r}.")
        return self.population.group_risks(weights)

    def risks_and_gradients(
        self, weights: FloatArray, *, ceiling: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the expected losses and their gradients."""
        risks = self.risks(weights, ceiling=ceiling)
        return risks, self.population.group_gradients(weights)

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of a mixture, by differences of gradients, to about ten digits."""
        columns = [
            group_weights
            @ (
                self.population.group_gradients(weights + step)
                - self.population.group_gradients(weights - step)
            )
            for step in DIFFERENCE * np.eye(self.n_weights)
        ]
        found = np.array(columns) / (2.0 * DIFFERENCE)
        return np.asarray((found + found.T) / 2.0)
