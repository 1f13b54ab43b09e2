"""Bounds on moves of saddle points, group by group, and moves that the inequality allows."""

import math

import numpy as np
from scipy.special import expit, logit

from sklearn_dpwg.privacy.sensitivity import saddle_point_sensitivities


def saddle_point_sensitivity(*, strong_convexity, **facts):
    """Return the bound at one strength."""
    return float(saddle_point_sensitivities(**facts, strong_convexities=[strong_convexity])[0])


def solutions_of_the_inequality(rng, n, gamma, b, mu_w, mu_l, weight, count):
    """Moves that the inequality of Theorem 1 allows, at random weights of the two neighbours."""
    swing = b / mu_l
    change = b / n / mu_l
    high = logit(weight) + swing
    rho = change * rng.uniform(0, 1, count) ** rng.choice([0.5, 1.0, 4.0], count)
    rho = np.minimum(rho, rng.choice([change, 5.0, 30.0], count) * rng.uniform(0, 1, count))
    low = logit(weight) - swing
    low = np.clip(-rho / 2 + rng.normal(size=count) * rng.choice([0.1, 2.0], count), low, high)
    rho = np.minimum(rho, high - low)
    lower, rise = expit(low), expit(low + rho) - expit(low)
    bounded = (lower * gamma / n + rise * gamma) / mu_w
    along = lower * gamma / (n * mu_w)
    free = 0.5 * (along + np.sqrt(along**2 + 4 * rise * np.maximum(b / n - mu_l * rho, 0) / mu_w))
    return np.minimum(bounded, free)


def lemma3_sensitivity(*, group_sizes, lipschitz, loss_range, strong_convexity, entropy_weight):
    """Return the bound of Zhou & Bassily (2024), Lemma 3: ``3/n (L/μ_w + B/√(μ_w μ_λ))``.

    n is the smallest group's size, and the weights are those of a solver whose gap is at most
    ``L²/(8n²μ_w) + B²/(8n²μ_λ)``.
    """
    of_values = loss_range / math.sqrt(strong_convexity * entropy_weight)
    return 3.0 / min(group_sizes) * (lipschitz / strong_convexity + of_values)
