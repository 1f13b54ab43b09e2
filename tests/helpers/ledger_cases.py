"""Private fits on a few records, and what a ledger around them must say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy.gaussian import gdp_epsilon, gdp_mu
from sklearn_dpwg.solvers import MGR

DELTA = 1e-6
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(400, 2))
Y = X[:, 0]


def model(**parameters):
    public = {"data_norm": 1.0, "target_bounds": (-1, 1), "group_by": ones}
    return DPWorstGroupRegressor(**public | {"solver": MGR(n_steps=3), "delta": DELTA} | parameters)


def ones(rows):
    return np.ones(len(rows))


def ledger(epsilon=10.0, **parameters):
    return PrivacyLedger(epsilon, DELTA, **parameters)


def assert_spent(book, n_fits, each=1.0):
    assert len(book.rows) == n_fits
    assert {row.state for row in book.rows} <= {"spent"}
    mu = gdp_mu(each, DELTA) * math.sqrt(n_fits)
    assert book.epsilon_spent == pytest.approx(gdp_epsilon(DELTA, mu) if n_fits else 0, rel=1e-4)
