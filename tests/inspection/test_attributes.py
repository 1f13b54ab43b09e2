"""One release of cells, told by each attribute."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.inspection import AuditResult, GroupAudit
from sklearn_dpwg.metrics.intervals import ratio_interval

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")

RNG = np.random.default_rng(0)
N = 4_000
GROUPS = pd.DataFrame(
    {"race": RNG.choice(["A", "B", "C"], size=N), "sex": RNG.choice(["f", "m"], size=N)}
)
Y = (RNG.random(N) < 0.4).astype(int)
SCORES = RNG.random(N) * np.where(GROUPS["race"] == "C", 0.7, 1.0)
LABELS = list(product("ABC", "fm"))


def audit(**parameters):
    known = {"epsilon": 1.0, "group_labels": LABELS, "random_state": 0}
    return GroupAudit(**(known | parameters))


def test_counts_are_those_of_all_cells_with_their_noise():
    result = audit().run(Y, SCORES, GROUPS)
    by = result.by_attribute()
    assert list(by) == ["race", "sex"]
    race, sex = by["race"], by["sex"]
    assert race.group_labels == ("A", "B", "C")
    assert (race.n_cells, sex.n_cells) == (2, 3)
    counts = np.array(result.counts)
    np.testing.assert_array_equal(race.counts, counts.reshape(3, 2, *counts.shape[1:]).sum(axis=1))
    np.testing.assert_array_equal(sex.counts, counts.reshape(3, 2, *counts.shape[1:]).sum(axis=0))
    hits, misses = race.cells()[2][:, 1].sum(), race.cells()[2][:, 0].sum()
    n_noisy = 2 * counts.shape[2]
    expected = ratio_interval(int(hits), int(misses), noise=result.noise, n_cells=(n_noisy,) * 2)
    assert race.rates("selection_rate")[2].high == expected.high
    assert race.privacy_ == result.privacy_
    assert AuditResult.from_json(race.to_json()) == race
    public = audit(sizes="public").run(Y, SCORES, GROUPS).by_attribute()["race"]
    assert public.sizes == tuple(int((GROUPS["race"] == value).sum()) for value in "ABC")


def test_one_column_is_its_own_attribute_and_names_may_be_missing():
    alone = audit(epsilon=np.inf, group_labels=list("ABC")).run(Y, SCORES, GROUPS["race"])
    assert alone.by_attribute() == {"race": alone}
    unnamed = audit(epsilon=np.inf).run(Y, SCORES, GROUPS.to_numpy())
    assert list(unnamed.by_attribute()) == ["0", "1"]


def test_combinations_that_were_not_declared_are_refused():
    result = audit(epsilon=np.inf).run(Y, SCORES, GROUPS)
    short = replace(result, group_labels=LABELS[:-1], counts=result.counts[:-1])
    with pytest.raises(ValueError, match=r"^group_labels of the audit must hold every combination"):
        short.by_attribute()


@pytest.mark.parametrize("n_runs", [60, pytest.param(600, marks=pytest.mark.audit)])
def test_intervals_of_sums_of_noisy_cells_cover(n_runs):
    rng, missed = np.random.default_rng(1), 0
    rates, labels = {"A": 0.5, "B": 0.4, "C": 0.3}, list(product("ABC", "uvwxyz"))
    for seed in range(n_runs):
        groups = pd.DataFrame({"race": rng.choice(list("ABC"), size=300)})
        groups["age"] = rng.choice(list("uvwxyz"), size=300)
        chosen = rng.random(300) < groups["race"].map(rates)
        asked = audit(epsilon=0.5, group_labels=labels, random_state=seed)
        race = asked.run(None, chosen.to_numpy(), groups, kind="decisions").by_attribute()["race"]
        actual = race.rates("selection_rate")
        missed += sum(not one.low <= rates[str(one.group)] <= one.high for one in actual)
    # with the noise of one cell 79 % would be covered
    assert missed <= 0.065 * 3 * n_runs
