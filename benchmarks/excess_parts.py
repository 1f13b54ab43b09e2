"""What the excess of default classifiers is made of, and what an oracle would leave of it.

On tasks of the choosing half, one a source, at δ = 1e-5: the geometric mean of the excess
worst-group loss (each at least 1e-3, means of three seeds) over that of the defaults' `MGR`,

- without the noise of the risks, of the gradients, of both, all else as planned;
- of an oracle that knows the exact mean row, the exact Hessian and the group weights λ of the exact
  minimax optimum, and meets noise in one gradient only, released with all of μ² but what centring
  takes, at the exact minimum of a mixture: noise as if gradients were clipped, which they are not.
  That mixture lies between the groups' sizes and λ, and a ridge is a multiple of the noise: both
  are either one for all tasks at an ε or chosen for each task in hindsight;
- of the same oracle on rows that are whitened by their exact second moments, about the mean.

None is a lower bound: others release other things.

    python benchmarks/excess_parts.py
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from population_defaults import DELTA, FLOORS, SEEDS, mean_excess, tasks
from scipy.optimize import minimize, nnls
from scipy.special import expit
from utility.tasks import Task

from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.solvers.centring import CONSTANT, LONGEST_GRADIENT, SHARE_LEFT
from sklearn_dpwg.solvers.descent import releases

EPSILONS = (1.0, 2.0, 4.0, 8.0)
KIND = "log loss"
ORACLE_SEEDS = 16
# From the groups' sizes (0) to the weights of the optimum (1); times the noise of a coordinate.
MIXTURES = (0.0, 0.25, 0.5, 0.75, 1.0)
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# A gradient's norm over the root mean square of rows.
CLIP_SHARE = 0.9
# Directions with less variance beside the largest are left out of whitened rows.
LEAST_VARIANCE = 1e-6
# Groups within this of the largest risk carry weight at the optimum.
ACTIVE = 1e-4


class Silent:
    """A noise source that leaves some releases as they are."""

    def __init__(self, source: Any, names: tuple[str, ...]) -> None:
        self._source, self._names = source, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def gaussian(self, value: Any, *, sensitivity: float, release: Release) -> Any:
        """Draw as the source would, and add it to other releases only."""
        noisy = self._source.gaussian(value, sensitivity=sensitivity, release=release)
        return np.asarray(value, dtype=float) if release.name in self._names else noisy


def without_noise(*names: str) -> Callable[..., Any]:
    """Return a step of full passes that adds no noise to some releases."""
    step = releases.from_pass

    def silent(plan: Any, data: Any, w: Any, group_weights: Any, noise: Any, limits: Any) -> Any:
        return step(plan, data, w, group_weights, Silent(noise, names), limits)

    return silent


def fitted_excess(task: Task, epsilon: float, *silent: str) -> float:
    """Return the mean excess of fits without the noise of some releases."""
    with patch.object(releases, "from_pass", without_noise(*silent)):
        return max(mean_excess(task, epsilon, solver="mgr"), FLOORS[KIND])


class Oracle:
    """Minima of mixtures on rows about their mean, with noise in one gradient."""

    def __init__(self, task: Task, *, whitens: bool) -> None:
        self.task, self.sizes = task, task.group_sizes
        self.codes, self.targets = task.train.codes, task.train.targets
        rows = task.train.rows[:, :-1]
        self.center = rows.mean(axis=0)
        self.scaling, self.constant = np.eye(rows.shape[1]), CONSTANT
        longest = LONGEST_GRADIENT
        if whitens:
            centred = rows - self.center
            values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
            kept = values > LEAST_VARIANCE * values.max()
            self.scaling = vectors[:, kept] / np.sqrt(values[kept])
            self.constant, longest = 1.0, np.inf
        columns = (rows - self.center) @ self.scaling
        self.rows = np.column_stack([columns, np.full(len(rows), self.constant)])
        norms = np.linalg.norm(self.rows, axis=1)
        self.clip = min(longest, CLIP_SHARE * float(np.sqrt(np.mean(norms**2))))
        self.proportional = self.sizes / self.sizes.sum()
        self.optimal = self._optimal_group_weights()

    def excess(self, epsilon: float) -> dict[tuple[float, float], float]:
        """Return the mean excess of each mixture and ridge."""
        mu = float(np.sqrt(SHARE_LEFT)) * Budget(epsilon, DELTA).mu
        rng, found = np.random.default_rng(0), {}
        for mixture in MIXTURES:
            group_weights = mixture * self.optimal + (1.0 - mixture) * self.proportional
            std = 2.0 * self.clip * float((group_weights / self.sizes).max()) / mu
            weights, hessian = self._minimum(group_weights)
            noise = std * rng.standard_normal((len(weights), ORACLE_SEEDS))
            for ridge in RIDGES:
                damped = hessian + ridge * std * np.eye(len(weights))
                learned = np.linalg.solve(damped, (hessian @ weights)[:, None] + noise)
                mean = float(self.task.train_excess(self._on_unit_rows(learned)).mean())
                found[mixture, ridge] = max(mean, FLOORS[KIND])
        return found

    def _optimal_group_weights(self) -> np.ndarray:
        """Return the weights of the groups at which the gradients at the optimum cancel."""
        optimum = np.array(self.task.optima["worst-group"]["weights"])
        margins = self.targets * (self.task.train.rows @ optimum)
        losses, slopes = np.logaddexp(0.0, -margins), -self.targets * expit(-margins)
        groups = range(len(self.sizes))
        risks = np.array([losses[self.codes == group].mean() for group in groups])
        gradients = np.array(
            [slopes[self.codes == group] @ self.rows[self.codes == group] for group in groups]
        )
        active = risks > risks.max() - ACTIVE
        sums = np.vstack([(gradients[active] / self.sizes[active, None]).T, np.ones(active.sum())])
        found, _ = nnls(sums, np.append(np.zeros(self.rows.shape[1]), 1.0))
        weights = np.zeros(len(self.sizes))
        weights[active] = found / found.sum()
        return weights

    def _minimum(self, group_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the minimum of a mixture of the risks, and its Hessian there."""
        factors = (group_weights / self.sizes)[self.codes]

        def value_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
            margins = self.targets * (self.rows @ weights)
            slopes = -self.targets * expit(-margins)
            return float(factors @ np.logaddexp(0.0, -margins)), (factors * slopes) @ self.rows

        start = np.zeros(self.rows.shape[1])
        weights = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B").x
        chances = expit(self.rows @ weights)
        curved = self.rows * (factors * chances * (1.0 - chances))[:, None]
        return weights, curved.T @ self.rows

    def _on_unit_rows(self, weights: np.ndarray) -> np.ndarray:
        """Return the columns of weights that score alike on rows with a constant of 1."""
        slopes = self.scaling @ weights[:-1]
        return np.vstack([slopes, self.constant * weights[-1] - self.center @ slopes])


def show(what: str, logs: np.ndarray) -> None:
    """Print geometric means, from logarithms of shape (n_tasks, n_epsilons)."""
    print(f"{what:<58}" + "".join(f"{each:8.2f}" for each in np.exp(logs.mean(axis=0))), flush=True)


def main() -> None:
    """Print the table."""
    every = tasks(KIND)
    base = np.log([[fitted_excess(task, epsilon) for epsilon in EPSILONS] for task in every])
    print(f"{len(every)} tasks, {len(SEEDS)} seeds; excess over the defaults' MGR, by epsilon")
    print(f"{'':<58}" + "".join(f"{epsilon:>8g}" for epsilon in EPSILONS))
    for what, silent in (
        ("no noise in risks", (releases.RISKS,)),
        ("no noise in gradients", (releases.GRADIENT,)),
        ("no noise in either", (releases.RISKS, releases.GRADIENT)),
    ):
        found = [[fitted_excess(task, epsilon, *silent) for epsilon in EPSILONS] for task in every]
        show(what, np.log(found) - base)
    choices = list(product(MIXTURES, RIDGES))
    for name, whitens in (("oracle", False), ("whitened", True)):
        oracles = [Oracle(task, whitens=whitens) for task in every]
        known = [[oracle.excess(epsilon) for epsilon in EPSILONS] for oracle in oracles]
        found = [[[at[each] for each in choices] for at in of_task] for of_task in known]
        logs = np.log(found) - base[..., None]
        fixed = logs.mean(axis=0).argmin(axis=1)
        show(
            f"{name}, the best mixture and ridge for all tasks",
            np.stack([logs[:, k, each] for k, each in enumerate(fixed)], axis=1),
        )
        show(f"{name}, mixture and ridge of each task in hindsight", logs.min(axis=2))


if __name__ == "__main__":
    main()
