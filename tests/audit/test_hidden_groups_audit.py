"""Attacks on who is in which group through the public API; `make audit` prints the verdicts."""

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.estimators import learn as module
from sklearn_dpwg.estimators import planning
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.solvers import MGR
from sklearn_dpwg.solvers import descent as mgr_releases
from tests.helpers.lower_bounds import DELTA, audited_mu, verdict
from tests.helpers.replay import Instead, wrap

pytestmark = [
    pytest.mark.audit,
    pytest.mark.filterwarnings(
        "ignore::sklearn_dpwg.exceptions.SeededNoiseWarning",
        "ignore::sklearn_dpwg.exceptions.WeakPlanWarning",
        "ignore::sklearn_dpwg.exceptions.NoProtectionWarning",
    ),
]

EPSILON, N_FITS, N_RECORDS = 4.0, 500, 40


def outcome(model):
    """Return what a fit shows, as numbers: noisy sizes, weights, and what the plan made of them."""
    bounds = np.log(model.plan_.predicted_excess_if_worst)
    return np.concatenate(
        [model.group_sizes_, model.coef_.ravel(), model.intercept_, model.group_weights_, bounds]
    )


def audited(n_fits=N_FITS, **parameters):
    """Return a lower bound on μ from fits that differ in the group of one record, and the claim.

    The record is the only one of its group, or there is none: what a plan that reads true sizes
    would show.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(N_RECORDS, 1))
    y = np.arange(N_RECORDS) % 2
    X[0], y[0] = 1.0, 1
    found = []
    for group in ("rare", "common"):
        groups = np.full(N_RECORDS, "common", dtype=object)
        groups[0] = group
        outputs = []
        for run in range(n_fits):
            model = DPWorstGroupClassifier(
                EPSILON, DELTA, solver=MGR(n_steps=2, centring=False), radius=3.0, data_norm=1.0,
                group_labels=["common", "rare"],
                random_state=2 * run + (group == "rare"), **parameters,
            )  # fmt: skip
            outputs.append(outcome(model.fit(X, y, groups=groups)))
        found.append(np.array(outputs))
    # a linear discriminant, fitted on runs of which the bound's thresholds are chosen
    n_first = n_fits // 5
    first = [each[:n_first] for each in found]
    spread = sum(np.cov(each.T) for each in first) + 1e-9 * np.eye(found[0].shape[1])
    direction = np.linalg.solve(spread, first[1].mean(axis=0) - first[0].mean(axis=0))
    return audited_mu(found[0] @ direction, found[1] @ direction), gdp_mu(EPSILON, DELTA)


@pytest.mark.parametrize("count_share", [0.03, 0.9])
def test_membership_through_the_public_api(count_share, monkeypatch):
    monkeypatch.setattr(planning, "COUNT_SHARE", count_share)
    mu, claimed = audited()
    assert not verdict(f"membership, counts have {count_share:g} of the budget", mu, claimed)


def true_sizes(patch):
    def count(real, release, counts, noise):
        real(release, counts, noise)
        return tuple(np.maximum(1, counts).tolist())

    wrap(patch, module, "release_sizes", count)


def quiet_counts(patch):
    def count(real, release, counts, noise):
        quiet = release.scaled(1e-3)
        return real(quiet, counts, type(noise)(0, [quiet]))

    wrap(patch, module, "release_sizes", count)


def a_true_size_in_one_normaliser(patch):
    def true_size(real, plan, data, *others):
        def sums(*arguments, **facts):
            losses, gradients = data.sums(*arguments, **facts)
            gradients[-1] *= plan.problem.group_sizes[-1] / max(1, data.group_sizes[-1])
            return losses, gradients

        return real(plan, Instead(data, sums=sums), *others)

    wrap(patch, mgr_releases, "from_pass", true_size)


@pytest.mark.parametrize("fault", [true_sizes, quiet_counts, a_true_size_in_one_normaliser])
def test_planted_faults(fault, monkeypatch):
    fault(monkeypatch)
    mu, claimed = audited(N_FITS // 2)
    assert verdict(f"planted: {fault.__name__}", mu, claimed)
