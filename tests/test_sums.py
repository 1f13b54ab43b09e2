"""Sums that are rounded block by block: no record decides how others are rounded.

Every distance is computed without rounding, in rational numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

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
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.privacy import Budget, SumGrid, grid_step, summation_slack, weighting_slack
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.records import RecordEncoder
from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers import MGR, Moments, PhasedERM
from sklearn_dpwg.solvers.phased_erm.certificate import rounding_of_minimiser
from sklearn_dpwg.solvers.phased_erm.schedule import sensitivity
from sklearn_dpwg.solvers.sum_sensitivity import LARGEST_BLOCK, SumSensitivity
from tests.helpers.replay import Recorder, Shared

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


class PlainAbsoluteError(AbsoluteError):
    """The absolute error without a kernel, which NumPy adds up."""


def exact_difference(one, other) -> list[Fraction]:
    pairs = zip(np.ravel(one).tolist(), np.ravel(other).tolist(), strict=True)
    return [Fraction(a) - Fraction(b) for a, b in pairs]


def exact_squared(differences: list[Fraction]) -> Fraction:
    return sum((value**2 for value in differences), Fraction(0))


def laid_out(rows, layout, dtype=float):
    rows = np.asarray(rows, dtype=dtype)
    if layout == "csr":
        return csr_array(rows)
    return np.asfortranarray(rows) if layout == "columns" else np.ascontiguousarray(rows)


def make_risks(loss, rows, targets, sizes, *, layout="rows", dtype=float, scaling=0.0):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    encoder = RecordEncoder(len(sizes), 1.0)
    records = encoder.encode(laid_out(rows, layout, dtype), np.asarray(targets, float), codes)
    return GroupRisks(records, loss, scaling)


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
        return risks.sampled_sums(weights, who, ceiling=ceiling, center=center, grid=grid)

    def alone(risks):
        """Return what the record contributes, with no other beside it."""
        single = risks.part([np.arange(rank, rank + (i == group)) for i in range(3)])
        return single._sums(weights, ceiling, single._blocks())

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

N_ONES = 2**16


def adversary(first, *, layout="rows", dtype=float, loss=None, n_ones=N_ONES):
    """Return risks whose gradient sums are ones and then values of a quarter of a last digit."""
    tiny = np.float64(-0.26 * n_ones * 2.0**-52)
    column = np.concatenate([np.ones(n_ones + 1), np.full(n_ones, tiny)])
    column[0] = first
    rows = column[:, None] * np.full(4, 0.5)  # of norm 1, without rounding
    risks = make_risks(
        AbsoluteError() if loss is None else loss,
        rows,
        np.full(len(rows), -1.0),
        (len(rows),),
        layout=layout,
        dtype=dtype,
    )
    assert np.all(risks.records.row_scale == 1.0)
    return risks


def facts(risks, radius=1.0, sizes=None) -> Problem:
    sizes = risks.group_sizes if sizes is None else sizes
    prior = tuple(1.0 / len(sizes) for _ in sizes)
    n_features = risks.records.rows.shape[1]
    return Problem(risks.loss, sizes, n_features, radius, prior, risks.intercept_scaling)


def moves(one, other) -> Fraction:
    return exact_squared(exact_difference(one, other))


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
            risks.sampled_sums(np.zeros(1), [ranks], ceiling=9.0, center=0.0, grid=grid)[1]
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
    everybody = [np.arange(size) for size in sizes]
    joined = risks.sampled_sums(weights, everybody, ceiling=1.0, center=0.0, grid=grid)
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


# --- the numbers --------------------------------------------------------------------------------


@given(st.floats(1e-200, 1e200), st.integers(1, 2**52))
def test_the_step_is_the_finest_power_of_two_that_suffices(bound, n_terms):
    step = grid_step(bound, n_terms)
    assert math.frexp(step)[0] == 0.5
    total, limit = Fraction(bound) * n_terms, Fraction(step) * 2**52
    assert total <= limit
    assert total > limit * Fraction(2047, 4096)


def test_the_slack_is_the_formula():
    roundings = (2 * 1024 + 64) * Fraction(1, 2**53)
    exact = 2 * roundings / (1 - roundings) * 1024 * 3 + 5 * Fraction(1, 2**20)
    found = Fraction(summation_slack(3.0, step=2.0**-20, block_size=1024, n_dimensions=25))
    assert exact <= found <= exact * Fraction(1 + 2**-40)


@pytest.mark.parametrize("n_records", [10**3, 10**6, 10**9, 10**10])
def test_what_is_paid_for_rounding_is_small(n_records):
    problem = Problem(BinaryLogLoss(), (n_records, n_records // 10), 50, 22.4, (0.5, 0.5), 0.5)
    stated = SumSensitivity.of(problem, ceiling=1.0)
    added = 1e-4 * max(n_records / 1e10, 1e-4)
    assert 1.0 < stated.gradient_diameter / problem.gradient_diameter < 1.0 + added
    assert 1.0 < stated.gradient_norm / problem.lipschitz < 1.0 + added
    assert 1.0 < stated.loss_range / problem.constants.range_up_to(1.0) < 1.0 + added
    assert stated.grid.block_size <= LARGEST_BLOCK
    assert n_records * problem.lipschitz <= 2.0**52 * stated.grid.gradient_step


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 10**10), min_size=1, max_size=8),
    scale=st.floats(0.1, 10.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_weighted_means_of_exact_sums_err_by_no_more_than_is_paid(sizes, scale, seed):
    """λ·S/n in floating point, against rational numbers, for sums on the grid of any size."""
    rng = np.random.default_rng(seed)
    p, d = len(sizes), 4
    step = grid_step(scale, max(sizes))
    sums = rng.uniform(-1.0, 1.0, (p, d)) * scale / math.sqrt(d) * np.array(sizes)[:, None]
    sums = np.rint(sums / step) * step
    weights = rng.dirichlet(np.full(p, 0.3)) + 1e-300
    factors = np.array([1.0, 1.0, 1.0, 0.7])  # of the intercept
    found = weights @ (sums * factors / np.array(sizes, float)[:, None])
    exact = [
        sum(
            Fraction(float(weights[i]))
            * Fraction(float(sums[i, j]))
            * Fraction(float(factors[j]))
            / sizes[i]
            for i in range(p)
        )
        for j in range(d)
    ]
    error = exact_squared([Fraction(float(a)) - b for a, b in zip(found, exact, strict=True)])
    ratio = max(Fraction(float(w)) / n for w, n in zip(weights, sizes, strict=True))
    paid = Fraction(weighting_slack(scale, n_records=sum(sizes), n_groups=p)) * ratio
    assert 4 * error <= paid**2  # of both neighbours


# --- in runs -------------------------------------------------------------------------------------

BUDGET = Budget(1.0, 1e-6)


def two_groups(first, layout):
    """Return the adversary's risks beside a group of four records."""
    risks = adversary(first, layout=layout)
    rows, n = risks.records.rows, len(risks.records.targets)
    rows = np.vstack([rows.toarray() if layout == "csr" else rows, np.eye(4)])
    return make_risks(risks.loss, rows, np.full(n + 4, -1.0), (n, 4), layout=layout)


@pytest.mark.parametrize("layout", ["rows", "csr"])
@pytest.mark.parametrize("sampling_rate", [1.0, (0.5, 0.5)])
def test_the_adversary_moves_what_a_run_hands_over_by_no_more_than_is_stated(layout, sampling_rate):
    """A first step of MGR, all of whose coins fall the same way; without rounding on our side."""
    pair = [two_groups(x, layout) for x in (1.0, -1.0)]
    solver = MGR(n_steps=1, sampling_rate=sampling_rate)
    plan = solver.plan(facts(pair[0]), BUDGET)
    asked = []
    for risks in pair:
        source = Recorder(
            lambda release, value, sensitivity: value.copy(),
            sample_with=lambda sizes, release: tuple(np.arange(size) for size in sizes),
        )
        solver.run(plan, risks, source)
        asked.append(source.asked)
    for one, other in zip(*asked, strict=True):
        if isinstance(one, Shared):
            assert np.array_equal(one.units, other.units)
            scaled = [
                move / Fraction(unit)
                for move, unit in zip(
                    exact_difference(one.value, other.value), one.units.tolist(), strict=True
                )
            ]
            assert exact_squared(scaled) <= Fraction(float(one.sensitivities[0])) ** 2
        else:
            assert float(one.sensitivity) == float(other.sensitivity)
            assert moves(one.value, other.value) <= Fraction(float(one.sensitivity)) ** 2


@pytest.mark.parametrize("size", [10**9, 10**10])
@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        (MGR(n_steps=5), BinaryLogLoss()),
        (MGR(n_steps=5, sampling_rate=2.0**-5), BinaryLogLoss()),
        (PhasedERM(n_phases=3), BinaryLogLoss()),
        (PhasedERM(n_phases=3, composition="parallel"), BinaryLogLoss()),
        (Moments(), SquaredError()),
    ],
    ids=["passes", "batches", "phases", "disjoint parts", "moments"],
)
def test_every_solver_plans_billions_of_records(solver, loss, size):
    problem = Problem(loss, (size, size // 2), 20, 3.0, (0.6, 0.4), 0.5)
    plan = solver.plan(problem, BUDGET)
    assert 0.9 < plan.guarantee.epsilon <= 1.0
    assert 0.0 < plan.predicted_excess < loss.constants(1.0).zero_score
    if isinstance(solver, PhasedERM):
        for index in range(3):
            phase = plan.schedule.phase(index, np.array(problem.prior))
            exact = sensitivity(
                plan.schedule.solved,
                plan.schedule.sizes[index],
                problem.prior,
                mu_weights=phase.mu_weights,
                mu_groups=phase.mu_groups,
            )
            # the sums of centred rows are read before they are centred
            assert exact < phase.sensitivity < (1.03 if size < 10**10 else 1.3) * exact
    elif isinstance(solver, MGR):
        paid = SumSensitivity.of(problem, ceiling=1.0).gradient_diameter
        assert problem.gradient_diameter < paid < 1.001 * problem.gradient_diameter


# --- a certificate with a wrong gradient ----------------------------------------------------------


def gap_of(gradient, weights, mu, radius):
    step = project_to_ball(weights - gradient / mu, radius) - weights
    return -(gradient @ step) - 0.5 * mu * (step @ step)


@pytest.mark.parametrize("seed", range(40))
def test_a_wrong_gradient_moves_a_certificate_by_no_more_than_the_theorem(seed):
    """Quadratics on a ball, near and far from the solution, inside it and at its edge."""
    rng = np.random.default_rng(seed)
    d, mu, radius = 3, 10.0 ** rng.uniform(-2, 1), 1.0
    root = rng.standard_normal((d, d))
    hessian = root @ root.T * rng.choice([0.0, 0.01, 1.0]) + mu * np.eye(d)
    slope = rng.standard_normal(d) * rng.choice([0.1, 10.0])
    best = np.zeros(d)
    for _ in range(20_000):
        best = project_to_ball(best - (hessian @ best - slope) / np.linalg.norm(hessian, 2), radius)
    tightest = 0.0
    for _ in range(200):
        far = 10.0 ** rng.uniform(-6, 0)
        weights = project_to_ball(best + far * rng.standard_normal(d), radius)
        error = rng.standard_normal(d)
        error *= 10.0 ** rng.uniform(-6, 1) / np.linalg.norm(error)
        gap = gap_of(hessian @ weights - slope + error, weights, mu, radius)
        allowed = math.sqrt(2.0 * max(gap, 0.0) / mu) + 2.0 * np.linalg.norm(error) / mu
        distance = np.linalg.norm(weights - best)
        assert distance <= allowed + 1e-9
        tightest = max(tightest, distance / allowed)
    assert tightest > 0.01


def test_what_a_phase_pays_for_rounding_is_small():
    for size, added in ((10**4, 1e-4), (10**6, 1e-2)):
        problem = Problem(BinaryLogLoss(), (size, size), 50, 5.0, (0.5, 0.5), 0.5)
        for mu_groups in (math.inf, 0.1):
            rounding = rounding_of_minimiser(
                problem, (size, size), mu_weights=1e-3, mu_groups=mu_groups
            )
            assert 0.0 < rounding < added * problem.gradient_diameter / (2 * size * 1e-3)


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
        return np.concatenate([found for *_, found in joined._scored_blocks(weights)])

    everybody = scores(np.arange(401))
    for left_out in (0, 17, 400):
        others = np.delete(np.arange(401), left_out)
        assert np.array_equal(scores(others), everybody[others])
    assert np.array_equal(scores(np.array([17])), everybody[[17]])


def test_blocks_whose_rounding_has_no_bound_are_refused():
    summation_slack(1.0, step=1.0, block_size=2**51 - 64)
    with pytest.raises(ValueError, match="block_size must be below 2"):
        summation_slack(1.0, step=1.0, block_size=2**51)
