"""Full passes or Poisson batches: excess and time.

The same solver with the same budget of privacy and of predicted seconds, once on full passes and
once on the best Poisson batches that planning knows of: steps, share of the records that a step
reads, planning bound, excess worst-group risk over the optimum (five seeds, with half the width of
its 95 % interval), predicted seconds, and seconds of the runs with secure noise (one run,
calibration apart). A star marks what is planned by default. The last column is the root of the
mean squared norm of a record's gradient at the end, over the Lipschitz constant: planning assumes
``GRADIENT_SPREAD``.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import common
import numpy as np

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.losses import BinaryLogLoss
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers.descent.planning import options, seconds_of

N_SEEDS = 5
EPSILONS = (0.1, 1.0, 8.0)
LIMITS: tuple[float | None, ...] = (None, 3.0)
SCALING = 0.5


class Case(NamedTuple):
    """A data set as planning and running want it."""

    name: str
    problem: Problem
    data: GroupRisks
    yardstick: GroupRisks
    optimum: float

    def excess(self, weights: np.ndarray) -> float:
        """Return the excess of weights, whose intercept is in units of its constant column."""
        in_units = weights.copy()
        in_units[-1] *= self.data.intercept_scaling / self.yardstick.intercept_scaling
        return float(self.yardstick.risks(in_units).max() - self.optimum)


def real(name: str) -> Case:
    """Return a real data set with the default parameters of its estimator."""
    bunch = load_dataset(name)
    yardstick = common.unit_risks(bunch)
    model = common.make_estimator(bunch, solver="mgr")
    plan = model.plan(**common.public_facts(bunch))
    data = GroupRisks(yardstick.records, yardstick.loss, plan.problem.intercept_scaling)
    return Case(name, plan.problem, data, yardstick, bunch.entry.reference_optimum)


def synthetic(n_records: int = 1_000_000, n_features: int = 50, n_groups: int = 10) -> Case:
    """Return a large matrix, its groups of different slopes and sizes."""
    rng = np.random.default_rng(0)
    sizes = (
        n_records * np.geomspace(1.0, 10.0, n_groups) / np.geomspace(1, 10, n_groups).sum()
    ).astype(int)
    codes = np.repeat(np.arange(n_groups), sizes)
    rows = rng.standard_normal((len(codes), n_features)) / np.sqrt(n_features)
    slopes = 10.0 * rng.standard_normal(n_features) + 5.0 * rng.standard_normal(
        (n_groups, n_features)
    )
    scores = np.concatenate(
        [rows[codes == group] @ slopes[group] / np.sqrt(n_features) for group in range(n_groups)]
    )
    targets = np.where(scores * 4.0 + rng.logistic(size=len(codes)) > 0, 1.0, -1.0)
    data = common.risks_of(rows, targets, codes, BinaryLogLoss(), scaling=SCALING)
    prior = tuple(float(size) / len(codes) for size in sizes)
    problem = Problem(data.loss, data.group_sizes, n_features, 20.0, prior, SCALING)
    best = worst_group_optimum(data, radius=20.0)
    return Case(
        f"{n_records:,} x {n_features}", problem, data, data, float(data.risks(best.weights).max())
    )


def spread(case: Case, weights: np.ndarray) -> float:
    """Return the root mean squared norm of a record's gradient over the Lipschitz constant."""
    records, loss = case.data.records, case.data.loss
    some = np.random.default_rng(0).choice(len(records.targets), 20_000)
    rows = records.rows[some] * records.row_scale[some, None]
    scaling = case.data.intercept_scaling
    scores = rows @ weights[:-1] + scaling * weights[-1]
    slopes = loss.value_and_derivative(scores, records.targets[some])[1]
    squares = slopes**2 * ((rows**2).sum(axis=1) + scaling**2)
    return float(np.sqrt(squares.mean()) / case.problem.lipschitz)


def report(case: Case, epsilon: float, limit: float | None) -> None:
    """Print one line for each side."""
    budget = Budget(epsilon, common.DELTA)
    planned = MGR(max_seconds=limit).plan(case.problem, budget)
    within = seconds_of(case.problem, (1.0,) * case.problem.n_groups, MGR().max_passes)
    within = within if limit is None else min(within, limit)
    found = options(case.problem, budget, MGR(max_seconds=limit), within)
    for kind in (True, False):
        _, sampling = min(
            (one for one in found if one.sampling.is_full == kind and one.sampling.n_steps),
            key=lambda option: option.bound,
        )
        solver = MGR(sampling.n_steps, sampling_rate=sampling.rates)
        plan = solver.plan(case.problem, budget)
        runs = common.weights_of_runs(solver, case.problem, case.data, range(N_SEEDS), budget)
        mean, half = common.interval(np.array([case.excess(weights) for weights in runs]))
        secure = NoiseSource(None, plan.releases)
        taken = common.seconds(partial(solver.run, plan, case.data, secure))
        star = "*" if (planned.schedule.batches is None) == kind else " "
        share = float(np.dot(sampling.rates, case.problem.group_sizes)) / case.problem.n_records
        facts = (f"{epsilon:g}", "none" if limit is None else f"{limit:g} s")
        steps = (("passes" if kind else "batches") + star, f"{plan.n_steps:,}", f"{share:.4f}")
        figures = (f"{plan.predicted_excess:.4f}", f"{mean:.5f} ± {half:.5f}")
        times = (f"{plan.predicted_seconds:.1f}", f"{taken:.1f}", f"{spread(case, runs[0]):.2f}")
        common.row(case.name, (*facts, *steps, *figures, *times), 19)


def table(name: str) -> None:
    """Print the lines of one data set."""
    titles = ("epsilon", "limit", "steps on", "steps", "share", "bound", "excess")
    common.row("data set", (*titles, "pred. s", "run s", "spread"), 19)
    case = synthetic() if name == "synthetic" else real(name)
    for epsilon in EPSILONS:
        for limit in LIMITS:
            report(case, epsilon, limit)


if __name__ == "__main__":
    names = ("adult", "census-income-kdd", "synthetic")
    common.run_tables({name: partial(table, name) for name in names})
