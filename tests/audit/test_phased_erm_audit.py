"""Statistical attacks on what the phased solver promises; `make audit` prints the verdicts."""

import math

import numpy as np
import pytest

from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import PhasedERM, Solution
from tests.helpers.cases.rounds import phases
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.lower_bounds import DELTA, audited_mu, quiet_source, verdict
from tests.helpers.neighbours import random_data

pytestmark = pytest.mark.audit

RADIUS = 20.0
N_RUNS = 6000

SETTINGS = {
    "one phase": {"n_phases": 1, "mu_groups": math.inf},
    "one saddle point": {"n_phases": 1, "mu_groups": 3.0},
    "three phases on all records": {"n_phases": 3, "risk_share": 0.05},
}


def outputs(solver, plan, data, start, n_runs, seed):
    """Return the learned weights of many runs with fresh noise and fresh coins."""
    # an allowance that a faulty run cannot exhaust
    source = quiet_source(seed, list(plan.releases) * (3 * n_runs))
    return np.array([solver.run(plan, data, source, start=start).weights for _ in range(n_runs)])


def audited(solver, epsilon, n_runs=N_RUNS):
    """Return a lower bound on μ from outputs on a bad pair of neighbours, and the claim.

    A group of its own holds a record nearly at right angles to the weights, misclassified just so
    far that its loss is steep, which is mirrored across them.
    """
    problem = make_problem((1, 30), radius=RADIUS, scaling=0.0, prior=(0.97, 0.03))
    plan = solver.plan(problem, Budget(epsilon, DELTA))
    rows, targets = random_data(problem, 0)
    found = []
    for sign in (1.0, -1.0):
        rows = rows.copy()
        rows[:1], targets[:1] = (0.2, 0.98), -1.0
        rows[0] = (0.2, 0.98 * sign)
        data = make_data(problem, rows, targets)
        start = Solution(np.array([0.9 * RADIUS, 0.0]), None, 0)
        found.append(outputs(solver, plan, data, start, n_runs, seed=int(sign) + 1))
    # a linear discriminant, fitted on runs of which the bound's thresholds are chosen
    n_first = n_runs // 5
    first = np.vstack([each[:n_first] for each in found])
    direction = np.linalg.solve(
        np.cov(first.T), found[1][:n_first].mean(axis=0) - found[0][:n_first].mean(axis=0)
    )
    parts = {None: 0.0, **{release.part: 0.0 for release in plan.releases}}
    for release in plan.releases:
        parts[release.part] += release.max_count / release.noise_multiplier**2
    return audited_mu(found[0] @ direction, found[1] @ direction), math.sqrt(max(parts.values()))


@pytest.mark.parametrize("name", SETTINGS)
def test_outputs_of_runs(name):
    mu, claimed = audited(PhasedERM(mu_weights=1.0, **SETTINGS[name]), 4.0)
    assert not verdict(name, mu, claimed)
    if name == "one phase":
        assert mu > 0.5 * claimed  # so that the attack means something


PLANTED = {
    "half the sensitivity": {"sensitivity": 1 / 4},
    "a quarter of the regularisation": {"mu_weights": 1 / 8},
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults(name, monkeypatch):
    phases(**PLANTED[name])(monkeypatch)
    solver = PhasedERM(mu_weights=1.0, **SETTINGS["one phase"])
    mu, claimed = audited(solver, 4.0, N_RUNS // 2)
    assert verdict(f"planted: {name}", mu, claimed)
