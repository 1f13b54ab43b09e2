"""Sums that are rounded block by block: no record decides how others are rounded.

Every distance is computed without rounding, in rational numbers.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.kernels import Blocks, partition
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
from sklearn_dpwg.privacy import SumGrid, summation_slack
from sklearn_dpwg.risks import EveryRecord, GroupRisks
from sklearn_dpwg.solvers.sum_sensitivity import SumSensitivity
from tests.helpers.selections import Listed, everybody
from tests.helpers.storage import RestlessEngine, in_blocks
from tests.helpers.sum_cases import (
    PlainAbsoluteError,
    adversary,
    exact_difference,
    exact_squared,
    facts,
    make_risks,
    moves,
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


@given(
    st.lists(st.sets(st.integers(0, 60)), min_size=1, max_size=4),
    st.integers(1, 20),
    st.data(),
)
def test_who_else_joins_moves_nobody_to_another_block(ranks, block_ranks, data):
    def mates(joined):
        """Map every record that joined to those in its block."""
        arrays = [np.array(sorted(group), dtype=np.intp) for group in joined]
        blocks = Blocks.of_ranks(arrays, block_ranks)
        flat = [(group, rank) for group, these in enumerate(joined) for rank in sorted(these)]
        found = {}
        for first, last in zip(blocks.edges[:-1], blocks.edges[1:], strict=True):
            for record in flat[first:last]:
                found[record] = set(flat[first:last])
        assert len(found) == len(flat)
        for group in range(len(joined)):
            of_group = blocks.edges[blocks.starts[group]], blocks.edges[blocks.starts[group + 1]]
            assert {g for g, _ in flat[slice(*of_group)]} <= {group}
        return found

    group = data.draw(st.integers(0, len(ranks) - 1))
    newcomer = (group, data.draw(st.integers(0, 60)))
    with_it = [set(these) for these in ranks]
    with_it[group].add(newcomer[1])
    before, after = mates(ranks), mates(with_it)
    for record, others in before.items():
        assert after[record] - {newcomer} == others - {newcomer}
        assert all(rank // block_ranks == record[1] // block_ranks for _, rank in others)


# --- the lemma: what rounding adds to what one record contributes ------------------------------


@settings(max_examples=150, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    block_size=st.sampled_from([1, 3, 16, 1024]),
    coarseness=st.sampled_from([2.0**-44, 2.0**-20, 2.0**-6]),
    scaling=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounding_adds_no_more_than_the_slack(
    loss, layout, dtype, block_size, coarseness, scaling, seed
):
    """A record replaced, joining or leaving, against what it contributes on its own."""
    rng = np.random.default_rng(seed)
    sizes, d = (37, 1, 20), 3
    n = sum(sizes)
    rows = rng.standard_normal((n, d)) * 2.0 ** -rng.choice([0, 0, 30, 52], (n, 1))
    rows[rng.random((n, d)) < 0.3] = 0.0
    targets = some_targets(loss, rng, n)
    weights = rng.standard_normal(loss.n_outputs * (d + (scaling > 0)))
    weights /= np.linalg.norm(weights)
    bound = 20.0
    grid = SumGrid(coarseness, coarseness / 4.0, block_size)
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

    def alone(risks):
        """Return what the record contributes, with no other beside it."""
        single = risks.part(Listed([np.arange(rank, rank + (i == group)) for i in range(3)]))
        return single.sums(weights, ceiling=ceiling, grid=SumGrid(0.0, 0.0, 2**11))

    mine, theirs = alone(here), alone(there)
    slack = [
        summation_slack(bound, step=grid.loss_step, block_size=block_size),
        summation_slack(
            bound, step=grid.gradient_step, block_size=block_size, n_dimensions=len(weights)
        ),
    ]
    off = [np.array([0.0, 0.0, 0.0]), 0.0]
    off[0][group] = center
    cases = [
        (here.sums(weights, ceiling=ceiling, grid=grid),
         there.sums(weights, ceiling=ceiling, grid=grid), mine, theirs, (0.0, 0.0)),
        (sampled(here, present), sampled(there, present), mine, theirs, (0.0, 0.0)),
        (sampled(here, present), sampled(here, absent), mine,
         (np.zeros_like(mine[0]), np.zeros_like(mine[1])), off),
    ]  # fmt: skip
    for one, other, own, replaced, taken_off in cases:
        for kind in range(2):
            moved = exact_difference(one[kind], other[kind])
            due = exact_difference(own[kind], replaced[kind])
            center_of = np.broadcast_to(taken_off[kind], np.shape(one[kind])).ravel().tolist()
            beyond = [a - b + Fraction(c) for a, b, c in zip(moved, due, center_of, strict=True)]
            # what the record contributes on its own was itself rounded once
            allowed = Fraction(slack[kind]) + Fraction(bound) * Fraction(2) ** -50
            assert exact_squared(beyond) <= allowed**2


# --- the adversary: around a power of two one record decides how all later ones are rounded ------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [AbsoluteError(), PlainAbsoluteError()], ids=["compiled", "numpy"])
def test_the_adversary_moves_sums_by_no_more_than_is_stated(layout, dtype, loss):
    pair = [adversary(x, layout=layout, dtype=dtype, loss=loss) for x in (1.0, -1.0)]
    stated = SumSensitivity.of(facts(pair[0]), ceiling=2.0)
    zero = np.zeros(4)
    (losses, gradients), (other_losses, others) = (
        risks.sums(zero, ceiling=2.0, grid=stated.grid) for risks in pair
    )
    assert moves(gradients, others) <= Fraction(stated.gradient_diameter) ** 2
    assert moves(gradients, others) >= Fraction(2 * (1 - 2**-20)) ** 2  # the attack is on
    assert moves(losses, other_losses) <= Fraction(stated.loss_range) ** 2


@pytest.mark.parametrize("n_blocks", [2, 7, 40])
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
        lambda risks: risks.sums(zero, ceiling=2.0, grid=stated.grid),
        lambda risks: risks.sampled_sums(
            zero, everybody_joins, ceiling=2.0, center=0.0, grid=stated.grid
        ),
    ):
        (losses, gradients), (other_losses, others) = map(read, stored)
        assert moves(gradients, others) <= Fraction(stated.gradient_diameter) ** 2
        assert moves(gradients, others) >= Fraction(2 * (1 - 2**-20)) ** 2  # the attack is on
        assert moves(losses, other_losses) <= Fraction(stated.loss_range) ** 2


@pytest.mark.parametrize("layout", ["rows", "csr"])  # by columns a thousand rows are added first
def test_the_adversary_is_seen_without_the_grid(layout):
    """Sums that are added up record by record move by more: what was released before."""
    pair = [adversary(x, layout=layout) for x in (1.0, -1.0)]
    stated = SumSensitivity.of(facts(pair[0]), ceiling=2.0)
    plain = SumGrid(0.0, 0.0, 2**30)
    one, other = (risks.sums(np.zeros(4), ceiling=2.0, grid=plain)[1] for risks in pair)
    assert moves(one, other) > Fraction(stated.gradient_diameter) ** 2


def test_blocks_by_position_are_seen(monkeypatch):
    """Whoever joins a batch shifts the others; blocks by position would round them all anew."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (4000, 1))
    grid = SumGrid(2.0**-6, 2.0**-6, 8)
    allowed = Fraction(1.0 + summation_slack(1.0, step=2.0**-6, block_size=8))
    everybody = np.arange(0, 4000, 2)

    def move(first):
        rows[0] = first
        risks = make_risks(AbsoluteError(), rows, np.full(4000, -1.0), (4000,))
        with_it, without = (
            risks.sampled_sums(np.zeros(1), Listed([ranks]), ceiling=9.0, center=0.0, grid=grid)[1]
            for ranks in (everybody, everybody[1:])
        )
        return moves(with_it, without)

    assert max(move(1.0), move(-1.0)) <= allowed**2
    by_position = lambda ranks, size: Blocks.of(np.array([0, len(ranks[0])]), size)  # noqa: E731
    monkeypatch.setattr(Blocks, "of_ranks", by_position)
    assert max(move(1.0), move(-1.0)) > allowed**2


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", [Huber(), PlainAbsoluteError(), MultinomialLogLoss(3)], ids=repr)
def test_sums_are_multiples_whatever_the_tasks_and_the_order_of_blocks(monkeypatch, layout, loss):
    rng = np.random.default_rng(1)
    sizes = (3000, 1200)
    rows = rng.standard_normal((4200, 20))
    risks = make_risks(loss, rows, some_targets(loss, rng, 4200), sizes, layout=layout)
    weights = rng.standard_normal(risks.n_weights)
    stated = SumSensitivity.of(facts(risks, radius=9.0), ceiling=1.0)
    grid = replace(stated.grid, block_size=100)
    losses, gradients = risks.sums(weights, ceiling=1.0, grid=grid)
    for values, step in ((losses, grid.loss_step), (gradients, grid.gradient_step)):
        multiples = values / step
        assert np.array_equal(multiples, np.rint(multiples))
        assert np.abs(multiples).max() < 2.0**52
    alone = risks.sums(weights, ceiling=1.0, grid=grid, gradients=False)
    assert np.array_equal(alone[0], losses)
    assert alone[1].shape == (2, 0)
    for tasks in (1, 7):
        monkeypatch.setattr(partition, "MAX_TASKS", tasks)
        again = risks.sums(weights, ceiling=1.0, grid=grid)
        assert np.array_equal(again[0], losses)
        assert np.array_equal(again[1], gradients)
    # blocks of each group in another order
    order = np.concatenate([
        start + (np.arange(size).reshape(-1, 100)[::-1]).ravel()
        for start, size in ((0, 3000), (3000, 1200))
    ])  # fmt: skip
    records = risks.records.take([order[:3000], order[3000:] - 3000])
    if layout == "columns":
        records = replace(records, rows=np.asfortranarray(records.rows))
    permuted = GroupRisks(records, loss, 0.0).sums(weights, ceiling=1.0, grid=grid)
    assert np.array_equal(permuted[0], losses)
    assert np.array_equal(permuted[1], gradients)
    # a batch of everybody is a full pass, unless its copy lies in memory by rows instead
    joined = risks.sampled_sums(weights, everybody(sizes), ceiling=1.0, center=0.0, grid=grid)
    assert np.array_equal(joined[0], losses)
    assert layout == "columns" or np.array_equal(joined[1], gradients)


def test_wide_sparse_rows_are_rounded_as_narrow_ones():
    """Where rows are wide, only the places of entries are rounded; the others are zero."""
    rng = np.random.default_rng(2)
    narrow = rng.standard_normal((50, 4))
    wide = np.zeros((50, 4000))
    wide[:, ::1000] = narrow
    targets = rng.choice([-1.0, 1.0], 50)
    grid = SumGrid(2.0**-12, 2.0**-12, 16)
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
