"""Records with a canary, which gives away as much as one record can, and what is released of them.

Every table is the same for both neighbours but for the canary, which comes first.
"""

from __future__ import annotations

import numpy as np

EPSILON, DELTA = 8.0, 1e-6
N_OTHERS = 30


def table(canary, *, long=1.0, n_classes=2, values=None):
    """Return rows, targets and groups; the canary is alone in its group, and changes its target.

    `long` is the norm of its row; with `values` targets are numbers, these two the canary's.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(N_OTHERS + 1, 2))
    y = rng.integers(0, n_classes, size=N_OTHERS + 1)
    X[0], y[0] = np.multiply((0.6, 0.8), long), int(canary)
    groups = np.ones(N_OTHERS + 1, dtype=int)
    groups[0] = 0
    if values is not None:
        y = rng.uniform(-0.5, 0.5, size=N_OTHERS + 1)
        y[0] = values[int(canary)]
    return X, y, groups


def one_group(canary, n_records=8, values=None):
    """Return rows, targets and groups, the canary in one group with the others."""
    X, y, _ = table(canary, values=values)
    return X[:n_records], y[:n_records], np.zeros(n_records, dtype=int)


def pairs(canary, values=None):
    """Return two groups of eight, one of them the canary's."""
    X, y, _ = table(canary, values=values)
    return X[:16], y[:16], np.repeat([0, 1], 8)


def outlier(canary, n_records=20_000):
    """Return one group whose targets are all zero, but for the canary's."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(n_records, 2))
    y = np.zeros(n_records)
    X[0], y[0] = (0.6, 0.8), 1.0 if canary else -1.0
    return X, y, np.zeros(n_records, dtype=int)


def bounded(canary, ends=(-1.0, 1.0)):
    """Return rows for a scaler of bounds -1 and 1; the canary is at one of the two ends."""
    X, _, _ = table(False)
    X[0] = ends[int(canary)]
    return X


def released(model):
    """Return all numbers of a model that anybody may see; of group weights the logarithms."""
    group_weights = np.maximum(getattr(model, "group_weights_", ()), 1e-300)
    parts = [model.coef_, model.intercept_, np.log(group_weights)]
    return np.concatenate([np.ravel(part) for part in parts])
