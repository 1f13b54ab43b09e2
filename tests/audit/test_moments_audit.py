"""Statistical attacks on what the moments solver promises; `make audit` prints the verdicts."""

import math

import numpy as np
import pytest

from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import Moments
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.lower_bounds import DELTA, audited_mu, quiet_source, verdict
from tests.helpers.neighbours import random_data
from tests.helpers.replay import Instead, faulty, recorded, tampered

pytestmark = pytest.mark.audit

N_RUNS = 1500


def audited(solver, epsilon=4.0, *, released, n_runs=N_RUNS):
    """Return a lower bound on μ from runs on a bad pair of neighbours, and the claim.

    A group of a single record, whose target is at the one end or at the other. What is attacked
    are the releases, all rounds together, or the learned weights.
    """
    problem = make_problem((1, 30), loss=SquaredError(), radius=3.0, scaling=0.0)
    plan = solver.plan(problem, Budget(epsilon, DELTA))
    rows, targets = random_data(problem, 0)
    found = []
    for sign in (1.0, -1.0):
        rows, targets = rows.copy(), targets.copy()
        rows[0], targets[0] = (0.6, 0.8), sign
        data = make_data(problem, rows, targets)
        source = recorded(quiet_source(int(sign) + 1, list(plan.releases) * n_runs))
        outputs = []
        for _ in range(n_runs):
            source.asked.clear()
            weights = solver.run(plan, data, source).weights
            seen = [asked.answer[0] for asked in source.asked]
            outputs.append(np.concatenate(seen) if released else weights)
        found.append(np.array(outputs))
    # a linear discriminant, fitted on runs of which the bound's thresholds are chosen
    n_first = n_runs // 5
    first = [each[:n_first] for each in found]
    spread = sum(np.cov(each.T) for each in first)
    direction = np.linalg.solve(spread, first[1].mean(axis=0) - first[0].mean(axis=0))
    claimed = math.sqrt(sum(release.noise_multiplier**-2 for release in plan.releases))
    return audited_mu(found[0] @ direction, found[1] @ direction), claimed


@pytest.mark.parametrize(("n_rounds", "released"), [(1, True), (3, True), (3, False)])
def test_outputs_of_runs(n_rounds, released):
    name = f"{'releases' if released else 'weights'} of {n_rounds} round(s)"
    mu, claimed = audited(Moments(n_rounds), released=released)
    assert not verdict(name, mu, claimed)
    if released and n_rounds == 1:
        assert mu > 0.6 * claimed  # so that the attack means something


def half_the_sensitivity(run, plan, data, noise, start):
    source = tampered(noise, "second moments", lambda draw, value, stated: draw(value, stated / 2))
    return run(plan, data, source, start)


def longer_residuals(run, plan, data, noise, start):
    def read(center, **facts):
        return data.residual_moments(center, **{**facts, "length": 2 * facts["length"]})

    return run(plan, Instead(data, residual_moments=read), noise, start)


def more_than_the_root_of_two(run, plan, data, noise, start):
    """Count entries off the diagonal four times."""
    rows, columns = np.triu_indices(plan.problem.n_columns + 1)
    more = np.where(rows == columns, 1.0, 4.0 / math.sqrt(2.0))

    def gaussian(value, *, sensitivity, release):
        return noise.gaussian(value * more, sensitivity=sensitivity, release=release) / more

    return run(plan, data, Instead(noise, gaussian=gaussian), start)


PLANTED = [half_the_sensitivity, longer_residuals, more_than_the_root_of_two]


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults(fault):
    planted = faulty(Moments, fault)
    mu, claimed = audited(planted(1), released=True, n_runs=N_RUNS // 2)
    assert verdict(f"planted: {fault.__name__}", mu, claimed)
