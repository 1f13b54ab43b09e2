"""The order of an oracle is a function of keys, positions and coins, whatever records hold."""

from __future__ import annotations

import sqlite3

import numpy as np

from sklearn_dpwg.oracles import DatabaseOracle


def clinic(age_of_the_first, index="create index byage on v (clinic, age)", n=400):
    """Return a table of one clinic whose target says which record it is."""
    made = sqlite3.connect(":memory:")
    made.execute("create table v (id integer primary key, age real, cured integer, clinic text)")
    ages = np.random.default_rng(0).uniform(0, 1, n)
    ages[0] = age_of_the_first
    made.executemany(
        "insert into v values (?, ?, ?, 'east')",
        [(i + 1, float(age), i) for i, age in enumerate(ages)],
    )
    made.execute(index)
    made.commit()
    return made


def test_an_indexed_age_does_not_move_other_records():
    places = []
    for age in (0.0, 1.0):
        oracle = DatabaseOracle(
            clinic(age), "v", features=["age"], target="cured", groups="clinic", random_state=0
        )
        places.append(oracle.draw("east", 400)[1])
    assert (places[0] == places[1]).all()
