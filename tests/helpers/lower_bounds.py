"""Lower bounds on what a mechanism gives away, from many of its outputs on two neighbours.

A mechanism that is μ-GDP allows no test between two neighbours with
Φ⁻¹(1 - false alarms) - Φ⁻¹(misses) > μ. A threshold is chosen on a fifth of the runs and both error
rates are bounded on the others (Clopper-Pearson), which gives a lower bound on μ that is wrong once
in a thousand.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy import stats

from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.gaussian import gdp_epsilon

DELTA = 1e-6
WRONG = 1e-3  # how often a lower bound may be above the truth


def say(text):
    sys.stdout.write(f"\n  {text}")


def quiet_source(seed, releases=()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NoiseSource(seed, releases)


def error_bounds(null, other):
    """Return upper bounds on false alarms and misses of the best threshold of the first fifth."""
    n_first = len(null) // 5
    thresholds = np.quantile(
        np.concatenate([null[:n_first], other[:n_first]]), np.linspace(0.02, 0.98, 97)
    )
    alarms = np.array([(null[:n_first] > t).mean() for t in thresholds])
    misses = np.array([(other[:n_first] <= t).mean() for t in thresholds])
    gains = -stats.norm.ppf(upper_bound(alarms, n_first)) - stats.norm.ppf(
        upper_bound(misses, n_first)
    )
    threshold = thresholds[int(np.argmax(gains))]
    rest = len(null) - n_first
    return (
        float(upper_bound((null[n_first:] > threshold).mean(), rest)),
        float(upper_bound((other[n_first:] <= threshold).mean(), rest)),
    )


def upper_bound(rate, n, wrong=WRONG):
    """Return Clopper and Pearson's bounds on probabilities, each too low with that half."""
    count = np.round(np.asarray(rate) * n)
    return np.where(
        count >= n, 1.0, stats.beta.ppf(1 - wrong / 2, count + 1, np.maximum(n - count, 1))
    )


def audited_mu(null, other):
    alarms, misses = error_bounds(null, other)
    return max(0.0, float(-stats.norm.ppf(alarms) - stats.norm.ppf(misses)))


def verdict(name, mu, claimed_mu):
    say(
        f"{name}: audited mu >= {mu:.3f} (epsilon >= {gdp_epsilon(DELTA, mu) if mu else 0.0:.3f}), "
        f"claimed mu = {claimed_mu:.3f} (epsilon = {gdp_epsilon(DELTA, claimed_mu):.3f}), "
        f"{mu / claimed_mu:.0%}: {'BROKEN' if mu > claimed_mu else 'holds'}"
    )
    return mu > claimed_mu
