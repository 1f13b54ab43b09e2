"""Fits to oracles, whose order of records a public seed decides: the canary comes first."""

from __future__ import annotations

import sqlite3

import numpy as np

from sklearn_dpwg.data.oracles import DatabaseOracle, GeneratorOracle, InMemoryOracle
from tests.audit.front_door.data import one_group, released
from tests.audit.front_door.fits import online

# Rows of the database, and the seeds with which the canary comes in the first half.
N_STORED, DATABASE_SEED, MEMORY_SEED = 40, 0, 1


def from_oracle(oracle, size, label=0):
    """Learn in two rounds, of which the first is released, and the second for nothing."""
    model = online(n_rounds=2, batch_size=size // 2)
    model.fit_oracle(oracle, group_sizes={label: size}, n_features=2)
    return released(model), model.privacy_


def from_memory(canary):
    X, y, groups = one_group(canary)
    return from_oracle(InMemoryOracle(X, y, groups, random_state=MEMORY_SEED), 8)


def from_generator(canary):
    """Hand out a table piece by piece, which is a generator without any chance."""
    X, y, _ = one_group(canary)
    state = {"at": 0}

    def generate(group, size, rng):
        taken = slice(state["at"], state["at"] + size)
        state["at"] += size
        return X[taken], y[taken]

    return from_oracle(GeneratorOracle(generate), 8)


def from_database(canary):
    """Read a table with an index that the canary's age decides the place in, first or last.

    In the order of the index outcomes alternate: what moves all others by a place turns them over.
    """
    ages, outcomes = np.linspace(-0.4, 0.4, N_STORED), np.arange(N_STORED) % 2
    ages[0], outcomes[0] = (0.41 if canary else -0.41), int(canary)
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table visits (id integer primary key, age, dose, cured, clinic)")
        rows = zip(range(N_STORED), ages.tolist(), outcomes.tolist(), strict=True)
        connection.executemany("insert into visits values (?, ?, 0.9, ?, 'east')", rows)
        connection.execute("create index by_age on visits (clinic, age, dose, cured, id)")
        with DatabaseOracle(
            connection,
            "visits",
            features=["age", "dose"],
            target="cured",
            groups="clinic",
            key="id",
            random_state=DATABASE_SEED,
        ) as oracle:
            return from_oracle(oracle, N_STORED, "east")
