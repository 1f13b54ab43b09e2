"""Fits that protect who is in which group: nothing but the counts' release sees true sizes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.estimators.fitting import Fitting
from sklearn_dpwg.estimators.spending import check_solution, spending
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.exceptions import PlanExceededError, SeededNoiseWarning
from sklearn_dpwg.privacy import Budget, Draw, NoiseSource
from sklearn_dpwg.problem import equal_sizes
from sklearn_dpwg.solvers.counts.releases import release_sizes


class StagedNoise:
    """What both stages of a fit have drawn, for whoever asks whether anything was."""

    def __init__(self, first: NoiseSource) -> None:
        self._sources = [first]

    def follow(self, random_state: Any, plan: Any) -> NoiseSource:
        """Return the source of the second stage; that noise is seeded was said of the first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            source = NoiseSource(random_state, plan.releases)
        self._sources.append(source)
        return source

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Every draw so far, in order."""
        return tuple(draw for source in self._sources for draw in source.draws)

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed."""
        return self._sources[0].seeded


def fit_hidden(
    estimator: Fitting,
    budget: Budget,
    rows: Any,
    encoded: FloatArray,
    codes: NDArray[np.intp],
    labels: NDArray[np.object_],
    targets: Targets,
) -> None:
    """Release noisy counts, plan for what they show, and learn within what was fixed before.

    What a fit shows, its plan, its warnings and errors after the counts, follows from the counts as
    released; whatever can be wrong otherwise shows before, with groups of equal size.
    """
    n_records, n_groups = len(codes), len(labels)
    solver = estimator._make_solver(budget)
    n_features = rows.shape[1]
    sizes = equal_sizes(n_records, n_groups)
    expected = estimator._problem(targets.loss, sizes, n_features, n_records)
    first = estimator._first_weights(targets, expected)
    plan = estimator._plan_of(solver, expected, budget, first)
    estimator._begin_fit()
    estimator._warn_about_budget(plan, budget)
    stage = plan.counts
    assert stage is not None
    noise = NoiseSource(estimator.random_state, stage.releases)
    both = StagedNoise(noise)
    with spending(both, budget, plan, estimator, estimator._fit_key) as guarantee:
        sizes = release_sizes(stage, codes, n_groups, noise)
        problem = estimator._problem(targets.loss, sizes, n_features, n_records)
        plan = estimator._plan_of(solver, problem, budget, first)
        if plan.counts != stage:
            raise PlanExceededError("what was fixed before the counts must not follow from them.")
        estimator._warn_about(plan, labels, budget, estimator._replan(solver, problem, budget))
        data = estimator._group_risks(rows, encoded, codes, problem)
        del rows, encoded, codes  # copies of them are not kept for as long as the solver runs
        of_solver = plan.second_stage
        source = both.follow(estimator.random_state, of_solver)
        solution = estimator._with_progress(
            of_solver, source, lambda: solver.run(of_solver, data, source, start=first)
        )
        check_solution(plan, solution, estimator.solver)
    estimator._keep_outcome(plan, guarantee, targets, labels, np.asarray(sizes), solution)
