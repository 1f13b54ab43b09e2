"""Sums whose terms are rounded one by one: no record decides how others are rounded.

Every distance is computed without rounding, in rational numbers.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn_dpwg.data.kernels import passes as partition
from sklearn_dpwg.data.kernels.passes import Blocks

from sklearn_dpwg.data.risks import GroupRisks, record_block
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    MultinomialLogLoss,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.privacy.sensitivity.sums import SumGrid, summation_slack
from sklearn_dpwg.solvers.steps import SumSensitivity
from tests.helpers.selections import EveryRecord, Listed, everybody
from tests.helpers.storage import RestlessEngine, in_blocks
from tests.helpers.sum_cases import (
    PlainAbsoluteError,
    adversary,
    exact_difference,
    facts,
    make_risks,
    moves,
    rounded_by_blocks,
)

LOSSES = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    MultinomialLogLoss(3),
    SquaredError(),
    Hinge(),
    SmoothedHinge(0.3),
    SquaredHinge(),
    Huber(),
    AbsoluteError(),
    Quantile(0.8),
)
LAYOUTS = ("rows", "columns", "csr")


def some_targets(loss, rng, n):
    if loss.task == "multiclass":
        return rng.integers(0, loss.n_outputs, n).astype(float)
    return rng.choice([-1.0, 1.0], n) * (1.0 if loss.task == "binary" else rng.random(n))


# --- blocks ------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 12))
def test_blocks_hold_every_row_once(sizes, block_rows):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = Blocks.of(starts, block_rows)
    for group, (first, last) in enumerate(pairwise(starts)):
        edges = blocks.edges[blocks.starts[group] : blocks.starts[group + 1] + 1]
        if first < last:
            assert edges.tolist() == [*range(first, last, block_rows), last]
    assert len(blocks.edges) == blocks.starts[-1] + 1


# --- the lemma: what rounding adds to what one record contributes ------------------------------


@given(
    loss=st.sampled_from(LOSSES),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    coarseness=st.sampled_from([2.0**-44, 2.0**-20, 2.0**-6]),
    scaling=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounding_adds_no_more_than_the_slack(loss, layout, dtype, coarseness, scaling, seed):
    """A record replaced, joining or leaving, moves sums by what it adds on its own: no bit more."""
    rng = np.random.default_rng(seed)
    sizes, d = (37, 1, 20), 3
    n = sum(sizes)
    rows = rng.standard_normal((n, d)) * 2.0 ** -rng.choice([0, 0, 30, 52], (n, 1))
    rows[rng.random((n, d)) < 0.3] = 0.0
    targets = some_targets(loss, rng, n)
    weights = rng.standard_normal(loss.n_outputs * (d + (scaling > 0)))
    weights /= np.linalg.norm(weights)
    grid = SumGrid(coarseness, coarseness / 4.0)
    center, ceiling = coarseness * np.rint(0.3 / coarseness), 2.0
    place = int(rng.integers(0, n))
    other_rows, other_targets = rows.copy(), targets.copy()
    other_rows[place] = rng.standard_normal(d) * 2.0 ** -rng.choice([0, 30])
    other_targets[place] = some_targets(loss, rng, 1)[0]

    options = {"layout": layout, "dtype": dtype, "scaling": scaling}
    here = make_risks(loss, rows, targets, sizes, **options)
    there = make_risks(loss, other_rows, other_targets, sizes, **options)
    batch = [np.flatnonzero(rng.random(size) < 0.5) for size in sizes]
    group = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
    rank = place - sum(sizes[:group])
    present = [*batch]
    present[group] = np.union1d(batch[group], [rank])
    absent = [*batch]
    absent[group] = np.setdiff1d(batch[group], [rank])

    def sampled(risks, who):
        return risks.sampled_sums(weights, Listed(who), ceiling=ceiling, center=center, grid=grid)

    def alone(risks, grid):
        """Return what the record contributes, with no other beside it."""
        single = risks.part(Listed([np.arange(rank, rank + (i == group)) for i in range(3)]))
        return single.sums(weights, ceiling=ceiling, grid=grid)

    mine, theirs = alone(here, grid), alone(there, grid)
    nothing = (np.zeros_like(mine[0]), np.zeros_like(mine[1]))
    off = [np.array([0.0, 0.0, 0.0]), np.zeros_like(mine[1])]
    off[0][group] = center
    cases = [
        (here.sums(weights, ceiling=ceiling, grid=grid),
         there.sums(weights, ceiling=ceiling, grid=grid), theirs, nothing),
        (sampled(here, present), sampled(there, present), theirs, nothing),
        (sampled(here, present), sampled(here, absent), nothing, off),
    ]  # fmt: skip
    for one, other, instead, taken_off in cases:
        for kind in range(2):
            moved = exact_difference(one[kind], other[kind])
            due = exact_difference(mine[kind], instead[kind])
            centers = np.ravel(taken_off[kind]).tolist()
            assert moved == [a - Fraction(c) for a, c in zip(due, centers, strict=True)]
    # and that is what it contributes, but for half a step in every coordinate
    slacks = (
        summation_slack(grid.loss_step),
        summation_slack(grid.gradient_step, n_dimensions=len(weights)),
    )
    for risks, found in ((here, mine), (there, theirs)):
        exact = alone(risks, SumGrid(0.0, 0.0))
        for kind, slack in enumerate(slacks):
            assert moves(found[kind], exact[kind]) <= (Fraction(slack) / 2) ** 2


# --- the adversary: around a power of two one record decides how all later ones are rounded ------


def assert_moved_as_stated(stated, one, other):
    (losses, gradients), (other_losses, others) = one, other
    assert moves(gradients, others) <= Fraction(stated.gradient_diameter) ** 2
    assert moves(gradients, others) >= Fraction(2 * (1 - 2**-20)) ** 2  # the attack is on
    assert moves(losses, other_losses) <= Fraction(stated.loss_range) ** 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [AbsoluteError(), PlainAbsoluteError()], ids=["compiled", "numpy"])
def test_the_adversary_moves_sums_by_no_more_than_is_stated(layout, dtype, loss):
    pair = [adversary(x, layout=layout, dtype=dtype, loss=loss) for x in (1.0, -1.0)]
    stated = SumSensitivity.of(facts(pair[0]), ceiling=2.0)
    assert_moved_as_stated(stated, *(risks.sums(np.zeros(4), ceiling=2.0) for risks in pair))


@pytest.mark.parametrize("n_blocks", [2, 40])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_adversary_moves_sums_of_stored_blocks_by_no_more_than_is_stated(layout, n_blocks):
    """Blocks of storage are cut anywhere, and added in another order on either side."""
    pair = [adversary(x, layout=layout) for x in (1.0, -1.0)]
    stated = SumSensitivity.of(facts(pair[0]), ceiling=2.0)
    stored = [
        in_blocks(risks, n_blocks, 9, engine=RestlessEngine(seed))
        for seed, risks in enumerate(pair)
    ]
    zero, everybody_joins = np.zeros(4), EveryRecord()
    for read in (
        lambda risks: risks.sums(zero, ceiling=2.0),
        lambda risks: risks.sampled_sums(zero, everybody_joins, ceiling=2.0, center=0.0),
    ):
        assert_moved_as_stated(stated, *map(read, stored))


@pytest.mark.parametrize("layout", ["rows", "csr"])  # by columns a thousand rows are added first
def test_the_adversary_is_seen_without_the_grid(layout, monkeypatch):
    """Sums that are added up record by record move by more: what was released before."""
    monkeypatch.setattr(record_block, "BLOCK_ROWS", 2**30)
    pair = [adversary(x, layout=layout) for x in (1.0, -1.0)]
    stated = SumSensitivity.of(facts(pair[0]), ceiling=2.0)
    plain = SumGrid(0.0, 0.0)
    one, other = (risks.sums(np.zeros(4), ceiling=2.0, grid=plain)[1] for risks in pair)
    assert moves(one, other) > Fraction(stated.gradient_diameter) ** 2


def with_and_without(first, loss):
    """Return the sums of half of 4,000 records with the first, and without it."""
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 1))
    rows[0] = first
    risks = make_risks(loss, rows, np.full(4000, -1.0), (4000,))
    facts = {"ceiling": 9.0, "center": 0.0, "grid": SumGrid(2.0**-6, 2.0**-6)}
    return [
        risks.sampled_sums(np.zeros(1), Listed([np.arange(start, 4000, 2)]), **facts)[1]
        for start in (0, 2)
    ]


@pytest.mark.parametrize("loss", [AbsoluteError(), PlainAbsoluteError()], ids=["compiled", "numpy"])
def test_whoever_joins_shifts_the_others_and_rounds_none_of_them_anew(loss):
    for first in (1.0, -1.0):
        assert exact_difference(*with_and_without(first, loss)) == [Fraction(first)]


def test_sums_that_are_rounded_by_blocks_are_seen(monkeypatch):
    """Without a record all others would be rounded anew: many steps."""
    monkeypatch.setattr(record_block, "weighted_row_sums", rounded_by_blocks)
    moved = max(moves(*with_and_without(first, PlainAbsoluteError())) for first in (1.0, -1.0))
    assert moved > Fraction(1.0 + summation_slack(2.0**-6)) ** 2


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", [Huber(), PlainAbsoluteError(), MultinomialLogLoss(3)], ids=repr)
def test_sums_are_multiples_whatever_the_tasks_and_the_order_of_records(monkeypatch, layout, loss):
    rng = np.random.default_rng(1)
    sizes = (3000, 1200)
    rows = rng.standard_normal((4200, 20))
    risks = make_risks(loss, rows, some_targets(loss, rng, 4200), sizes, layout=layout)
    weights = rng.standard_normal(risks.n_weights)
    stated = SumSensitivity.of(facts(risks, radius=9.0), ceiling=1.0)
    grid = stated.grid
    losses, gradients = found = risks.sums(weights, ceiling=1.0, grid=grid)

    def assert_same(others):
        assert all(map(np.array_equal, others, found))

    for values, step in ((losses, grid.loss_step), (gradients, grid.gradient_step)):
        multiples = values / step
        assert np.array_equal(multiples, np.rint(multiples))
        assert np.abs(multiples).max() < 2.0**52
    alone = risks.sums(weights, ceiling=1.0, grid=grid, gradients=False)
    assert np.array_equal(alone[0], losses)
    assert alone[1].shape == (2, 0)
    for tasks in (1, 7):
        monkeypatch.setattr(partition, "MAX_TASKS", tasks)
        assert_same(risks.sums(weights, ceiling=1.0, grid=grid))
    # records of each group in another order, in blocks of other lengths
    records = risks.records.take([rng.permutation(size) for size in sizes])
    if layout == "columns":
        records = replace(records, rows=np.asfortranarray(records.rows))
    monkeypatch.setattr(record_block, "BLOCK_ROWS", 37)
    assert_same(GroupRisks(records, loss, 0.0).sums(weights, ceiling=1.0, grid=grid))
    # a batch of everybody is a full pass; its copy lies by rows
    rows = risks.records.rows
    if layout == "columns":
        rows = np.ascontiguousarray(rows)
    by_rows = GroupRisks(replace(risks.records, rows=rows), loss, 0.0)
    joined = risks.sampled_sums(weights, everybody(sizes), ceiling=1.0, center=0.0, grid=grid)
    assert all(map(np.array_equal, joined, by_rows.sums(weights, ceiling=1.0, grid=grid)))


def test_wide_sparse_rows_are_rounded_as_narrow_ones():
    """Where rows are wide, only the places of entries are rounded; the others are zero."""
    rng = np.random.default_rng(2)
    narrow = rng.standard_normal((50, 4))
    wide = np.zeros((50, 4000))
    wide[:, ::1000] = narrow
    targets = rng.choice([-1.0, 1.0], 50)
    grid = SumGrid(2.0**-12, 2.0**-12)
    weights = rng.standard_normal(4)
    wide_weights = np.zeros(4000)
    wide_weights[::1000] = weights
    found = [
        make_risks(BinaryLogLoss(), rows, targets, (30, 20), layout="csr").sums(
            at, ceiling=3.0, grid=grid
        )
        for rows, at in ((narrow, weights), (wide, wide_weights))
    ]
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1][:, ::1000])
    assert np.count_nonzero(found[1][1]) == np.count_nonzero(found[0][1])


class OfThreeOutputs(MultinomialLogLoss):
    """A loss without a kernel."""


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("loss", [PlainAbsoluteError(), OfThreeOutputs(3)])
def test_scores_do_not_depend_on_other_rows(loss, layout):
    """Who else joined a batch is secret, and a product of matrices rounds by how many they are."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(401, 50)) / np.sqrt(50)
    risks = make_risks(loss, rows, np.zeros(401), (401,), layout=layout)
    weights = rng.normal(size=risks.n_weights)

    def scores(positions):
        joined = GroupRisks(risks.records.take([positions]), loss, 0.0)
        assert joined.records.rows.flags.c_contiguous
        return np.concatenate([found for *_, found in joined.handles[0]._scored_blocks(weights)])

    everybody = scores(np.arange(401))
    for left_out in (0, 17, 400):
        others = np.delete(np.arange(401), left_out)
        assert np.array_equal(scores(others), everybody[others])
    assert np.array_equal(scores(np.array([17])), everybody[[17]])
