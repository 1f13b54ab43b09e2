"""The pass of whole numbers: what a record adds, that sums are exact, and faults that would show.

Sums are compared without rounding, in rational numbers.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data import rows as rows_module
from sklearn_dpwg.data import whole_numbers as module
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.whole_numbers import limited as limited_loss
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.losses.classification import exp, log, log1p
from sklearn_dpwg.losses.registry import LOSSES
from sklearn_dpwg.privacy.sensitivity import moment_sensitivity
from sklearn_dpwg.solvers.centring import (
    GradientClip,
    centred_problem,
    moment_sum_sensitivity,
    row_sum_sensitivity,
)
from sklearn_dpwg.solvers.steps import SumSensitivity
from tests.helpers.group_data import make_risks as drawn_risks
from tests.helpers.group_data import naive
from tests.helpers.selections import EveryRecord, Listed, with_records
from tests.helpers.storage import RestlessEngine, in_blocks
from tests.helpers.sum_cases import PlainAbsoluteError, adversary, facts, make_risks, moves

EVERY_LOSS = (
    *(kind(3) if kind is MultinomialLogLoss else kind() for kind in LOSSES),
    BinaryLogLoss(0.85),
    PlainAbsoluteError(),
)
LAYOUTS = ("rows", "columns", "csr")
SIZES, CEILING = (9, 1, 6), 0.7


def some_targets(loss, rng, n):
    if loss.task == "multiclass":
        return rng.integers(0, loss.n_outputs, n).astype(float)
    return rng.choice([-1.0, 1.0], n) * (1.0 if loss.task == "binary" else rng.random(n))


def some_rows(rng, n, d=3):
    """Return rows of all lengths, some above 1, some next to nothing."""
    rows = rng.standard_normal((n, d)) * 2.0 ** -rng.choice([0, 0, 9, 52], (n, 1))
    rows[rng.random((n, d)) < 0.3] = 0.0
    return rows


def some_risks(loss, rng, *, layout="rows", dtype=float, scaling=0.5, limited=False):
    n = sum(SIZES)
    rows = some_rows(rng, n)
    risks = make_risks(
        loss, rows, some_targets(loss, rng, n), SIZES, layout=layout, dtype=dtype, scaling=scaling
    )
    if limited:
        risks = risks.centred(np.full(3, 0.1), constant=0.25, clip=0.4)
    return risks, rows.astype(dtype).astype(float)


def fractions(array):
    return [Fraction(each) for each in np.ravel(array).tolist()]


def in_fractions(parts):
    """Return what parts of sums add up to, without rounding."""
    return [sum(column) for column in zip(*map(fractions, parts), strict=True)]


# --- what each record adds, and that the sums are the sum of it ----------------------------------


def check_rows(risks, rows):
    """Assert that rows are whole, cut towards zero and none longer than 1."""
    whole = risks.handles[0].records.rows
    whole = np.asarray(whole.toarray() if isinstance(whole, csr_array) else whole, dtype=float)
    assert np.array_equal(whole * 2.0**16, np.rint(whole * 2.0**16))
    assert ((whole * 2.0**16) ** 2).sum(axis=1).max() <= 2.0**32
    exact = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    assert (np.abs(whole) <= np.abs(exact) * (1.0 + 1e-13)).all()
    assert (np.abs(whole - exact) < 1.1 * 2.0**-16).all()
    return whole


def due(risks, weights, whole, index):
    """Return the loss and the slopes of a record at its exact score for the cut weights."""
    loss, records = risks.loss, risks.handles[0].records
    matrix, intercepts = risks.split_weights(weights)
    unit = 2.0 ** (math.frexp(np.linalg.norm(matrix))[1] - 36)
    scores = []
    for of_output, intercept in zip(matrix, intercepts, strict=True):
        terms = [Fraction(math.trunc(w / unit)) * Fraction(unit) for w in of_output.tolist()]
        score = sum(w * x for w, x in zip(terms, fractions(whole[index]), strict=True))
        scores.append(float(score) + float(intercept))
    given = np.array(scores) if loss.n_outputs == 1 else np.array([scores])
    target, limits = records.targets[[index]], records.slope_limits
    if limits is None:
        value, slope = loss.value_and_derivative(given, target)
    else:
        value, slope = limited_loss(loss, given, target, limits[[index]])
    return value, slope.reshape(1, -1)


def check(risks, rows, weights):
    """Assert what the page of proof says of a pass."""
    whole, block = check_rows(risks, rows), risks.handles[0]
    split = risks.split_weights(weights)
    units = module._units(risks.loss, *split, CEILING)
    totals = [Fraction(0)] * 3, [Fraction(0)] * (3 * risks.loss.n_outputs * 4)
    for index in range(sum(SIZES)):
        group = int(np.searchsorted(np.cumsum(SIZES), index, side="right"))
        rank = index - sum(SIZES[:group])
        alone = block.part(Listed([np.arange(rank, rank + (i == group)) for i in range(3)]))
        losses, slopes = map(in_fractions, alone.sums(*split, loss_clip=CEILING))
        value, slope = due(risks, weights, whole, index)
        loss = min(float(value[0]), CEILING)
        assert Fraction(loss) - Fraction(units[0]) < losses[group] <= Fraction(loss)
        of_record = np.array(slopes, dtype=object).reshape(3, risks.loss.n_outputs, 4)
        assert not of_record[np.arange(3) != group].any()
        for output, exact in enumerate(slope[0].tolist()):
            *of_row, added = of_record[group, output]
            assert abs(exact) - units[1] < abs(added) <= abs(Fraction(exact))
            assert added * Fraction(exact) >= 0
            assert of_row == [added * each for each in fractions(whole[index])]
        for total, one in zip(totals, (losses, slopes), strict=True):
            total[:] = [a + b for a, b in zip(total, one, strict=True)]
    for total, sums in zip(totals, block.sums(*split, loss_clip=CEILING), strict=True):
        assert total == in_fractions(sums)


@given(
    loss=st.sampled_from(EVERY_LOSS),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    limited=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_record_adds_what_it_adds_alone_and_no_more_than_it_should(
    loss, layout, dtype, limited, seed
):
    rng = np.random.default_rng(seed)
    risks, rows = some_risks(loss, rng, layout=layout, dtype=dtype, limited=limited)
    weights = rng.standard_normal(risks.n_weights) * rng.choice([0.1, 1.0, 7.0])
    check(risks, rows, weights)


def strained(patch):
    """Use all of the 53 digits: sums of four rows reach the most that floats hold."""
    for name, value in {"SLOPE_BITS": 35, "LOSS_BITS": 51, "BLOCK_ROWS": 4}.items():
        patch.setattr(module, name, value)
    patch.setattr(module, "ENTRIES_PER_BLOCK", 1)
    patch.setattr(module, "MIN_ROWS", 4)


def _levels(of_losses=np.trunc, of_slopes=np.trunc):
    calls = itertools.count()  # losses of a block first, then its slopes

    def whole(values, unit, n_levels):
        return (of_slopes if next(calls) % 2 else of_losses)(values / unit)

    return lambda patch: patch.setattr(module, "_whole", whole)


def _upwards(values):
    return np.copysign(np.ceil(np.abs(values)), values)


def _rows(way):
    def rows(entries, data_norm):
        norms = np.maximum(np.sqrt(rows_module._squares(entries)), data_norm)
        return way(rows_module._of_entries(entries, 2.0**16 / norms) * entries) * 2.0**-16

    return lambda patch: patch.setattr(rows_module, "_cut", rows)


def _pass(**wrong):
    def whole_sums(*arguments, **options):
        return module.whole_sums(*arguments, **options | wrong)

    return lambda patch: patch.setattr(RecordBlock, "sums", whole_sums)


def _unit_of_who_takes_part(patch):
    units = module._units

    def whole_sums(block, *arguments, **options):
        scale = 2.0 ** -(len(block.records.targets) % 7)
        patch.setattr(module, "_units", lambda *some: tuple(scale * u for u in units(*some)))
        return module.whole_sums(block, *arguments, **options)

    patch.setattr(RecordBlock, "sums", whole_sums)


def _without_limits(patch):
    def whole_sums(block, *arguments, **options):
        records = replace(block.records, slope_limits=None)
        return module.whole_sums(RecordBlock(records, block.loss), *arguments, **options)

    patch.setattr(RecordBlock, "sums", whole_sums)


def _without_split(total, sums, split):
    total[0] += sums


FAULTS = {
    "a slope rounded up": _levels(of_slopes=_upwards),
    "a slope rounded to the nearest": _levels(of_slopes=np.rint),
    "a slope not cut": _levels(of_slopes=lambda values: values),
    "a loss rounded up": _levels(of_losses=np.ceil),
    "a loss not cut": _levels(of_losses=lambda values: values),
    "a row not cut": _rows(lambda values: values),
    "a row rounded to the nearest": _rows(np.rint),
    "weights not cut": lambda patch: patch.setattr(module, "cut_weights", lambda weights: weights),
    "gradients above 2^53": lambda patch: patch.setattr(module, "SLOPE_BITS", 44),
    "losses above 2^53": lambda patch: patch.setattr(module, "LOSS_BITS", 57),
    "a total above 2^53": lambda patch: patch.setattr(module, "add_split", _without_split),
    "weights in single precision": lambda patch: patch.setattr(
        module, "cut_weights", lambda weights: weights.astype(np.float32)
    ),
    "a unit that who takes part decides": _unit_of_who_takes_part,
    "no clip": _pass(loss_clip=math.inf),
    "no limits of slopes": _without_limits,
}


def checked(limited, loss=None):
    rng = np.random.default_rng(5)
    risks, rows = some_risks(loss or BinaryLogLoss(), rng, limited=limited)
    check(risks, rows, 3.0 * rng.standard_normal(risks.n_weights))


@pytest.mark.parametrize("limited", [False, True])
def test_all_digits_are_enough(limited, monkeypatch):
    strained(monkeypatch)
    checked(limited)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault, monkeypatch):
    strained(monkeypatch)
    FAULTS[fault](monkeypatch)
    with pytest.raises(AssertionError):
        checked(limited=fault == "no limits of slopes")


# --- neighbours ----------------------------------------------------------------------------------


@given(
    loss=st.sampled_from(EVERY_LOSS),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    limited=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_neighbour_moves_a_sum_by_more_than_is_paid(loss, layout, dtype, limited, seed):
    """One record replaced, joining a batch, or opposite to itself: the furthest that it can be."""
    rng = np.random.default_rng(seed)
    n, place = sum(SIZES), int(rng.integers(sum(SIZES)))
    rows, targets = some_rows(rng, n), some_targets(loss, rng, n)
    rows[place] = 5.0 * rng.standard_normal(3)
    others, other_targets = rows.copy(), targets.copy()
    others[place] *= -rng.choice([1.0, 0.1])
    other_targets[place] = some_targets(loss, rng, 1)[0] if rng.random() < 0.7 else targets[place]
    pair = [
        make_risks(loss, *each, SIZES, layout=layout, dtype=dtype, scaling=0.5)
        for each in ((rows, targets), (others, other_targets))
    ]
    problem = facts(pair[0], radius=3.0)
    assert (
        moves(*(risks.row_sum() for risks in pair)) <= Fraction(row_sum_sensitivity(problem)) ** 2
    )
    at = np.triu_indices(3)
    times = np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    moments = [risks.second_moments(columns_alone=False)[at] * times for risks in pair]
    assert moves(*moments) <= Fraction(moment_sum_sensitivity(problem)) ** 2
    spreads = [risks.spread(np.full(3, 0.2)) for risks in pair]
    assert abs(Fraction(spreads[0]) - Fraction(spreads[1])) <= 1
    limited = limited and loss.has_ends
    if limited:
        problem = centred_problem(problem, GradientClip(0.4))
        facts_of_view = {"constant": problem.intercept_scaling, "clip": problem.limit.clip}
        pair = [risks.centred(np.full(3, 0.2), **facts_of_view) for risks in pair]
    weights = rng.standard_normal(problem.n_weights)
    weights *= 3.0 / np.linalg.norm(weights) / (3.0 if limited else 1.0)
    stated = SumSensitivity.of(problem, loss_clip=CEILING)
    group = int(np.searchsorted(np.cumsum(SIZES), place, side="right"))
    rank = place - sum(SIZES[:group])
    joins = [np.arange(size) for size in SIZES]
    leaves = [np.delete(each, rank) if i == group else each for i, each in enumerate(joins)]
    for read, due in (
        (lambda risks: risks.sums(weights, loss_clip=CEILING, center=stated.center), 1.0),
        (partial(sampled, weights=weights, who=joins, center=stated.center), 1.0),
    ):
        (losses, gradients), (other_losses, other_gradients) = map(read, pair)
        assert moves(gradients, other_gradients) <= Fraction(stated.gradient_diameter) ** 2
        assert moves(losses, other_losses) <= (Fraction(stated.loss_range) * Fraction(due)) ** 2
    (losses, gradients), (other_losses, other_gradients) = (
        sampled(pair[0], weights=weights, who=who, center=stated.center) for who in (joins, leaves)
    )
    assert moves(gradients, other_gradients) <= Fraction(stated.gradient_norm) ** 2
    assert moves(losses, other_losses) <= (Fraction(stated.loss_range) / 2) ** 2


def sampled(risks, *, weights, who, center):
    return risks.sampled_sums(weights, Listed(who), loss_clip=CEILING, center=center)


@given(seed=st.integers(0, 2**32 - 1), scaling=st.sampled_from([0.0, 0.5]))
def test_no_neighbour_moves_residual_moments_by_more_than_is_paid(seed, scaling):
    rng, n = np.random.default_rng(seed), sum(SIZES)
    rows, targets = some_rows(rng, n), rng.uniform(-1.0, 1.0, n)
    others = rows.copy()
    others[3] = 9.0 * rng.standard_normal(3)
    scales = {"clip": 0.4, "constant": 0.75 if scaling else 0.0, "length": 1.25}
    weights = rng.standard_normal(3 + (scaling > 0))
    norm = math.hypot(1.0, scales["constant"], scales["length"])
    result = [
        make_risks(SquaredError(), each, targets, SIZES, scaling=scaling).residual_moments(
            weights, **scales
        )
        for each in (rows, others)
    ]
    assert moves(*result) <= Fraction(moment_sensitivity(norm)) ** 2


# --- the adversary: around a power of two one record decides how all later ones are rounded -------


@pytest.mark.parametrize("n_blocks", [1, 40])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_adversary_moves_sums_by_no_more_than_is_stated(layout, n_blocks):
    """Blocks of storage are cut anywhere, and added in another order on either side."""
    pair = [adversary(x, layout=layout) for x in (1.0, -1.0)]
    stated = SumSensitivity.of(facts(pair[0]), loss_clip=2.0)
    stored = [
        in_blocks(risks, n_blocks, 9, engine=RestlessEngine(seed))
        for seed, risks in enumerate(pair)
    ]
    zero = np.zeros(4)
    for read in (
        lambda risks: risks.sums(zero, loss_clip=2.0),
        lambda risks: risks.sampled_sums(zero, EveryRecord(), loss_clip=2.0, center=0.0),
    ):
        (losses, gradients), (other_losses, others) = map(read, stored)
        assert moves(gradients, others) <= Fraction(stated.gradient_diameter) ** 2
        assert moves(gradients, others) >= Fraction(2 * (1 - 2**-20)) ** 2  # the attack is on
        assert moves(losses, other_losses) <= Fraction(stated.loss_range) ** 2


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "layout"), [*zip(EVERY_LOSS, 4 * LAYOUTS, strict=False)], ids=repr
)
def test_sums_are_those_of_single_records(loss, layout):
    rng = np.random.default_rng(3)
    for sizes, d in (((40, 1, 300, 7), 5), ((9, 8), 700)):
        rows = rng.standard_normal((sum(sizes), d))
        targets = some_targets(loss, rng, sum(sizes))
        risks = make_risks(loss, rows, targets, sizes, layout=layout, scaling=0.5)
        plain = risks if layout != "csr" else with_records(risks, rows=risks.records.rows.toarray())
        weights = 2.0 * rng.standard_normal(risks.n_weights)
        values, gradients, _ = naive(plain, weights)
        losses, slopes = risks.risks_and_gradients(weights)
        np.testing.assert_allclose(losses, values, rtol=1e-12)
        np.testing.assert_allclose(slopes, gradients, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(risks.risks(weights), losses)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=repr)
def test_far_and_small_weights_have_finite_sums(loss):
    rows = np.array([[1.0], [-1.0], [1e-300], [0.0]] * 2)
    targets = np.repeat([1.0, 0.0 if loss.task == "multiclass" else -1.0], 4)
    risks = make_risks(loss, rows, targets, (8,))
    for size in (0.0, 1e-300, 1e3, 1e8):
        result = risks.risks_and_gradients(size * np.linspace(1.0, -1.0, loss.n_outputs))
        assert all(np.isfinite(each).all() for each in result)


def test_small_losses_and_sums_of_many_records_keep_their_digits():
    value = make_risks(BinaryLogLoss(), [[1.0]], [1.0], (1,)).risks(np.array([20.0]))
    np.testing.assert_allclose(value, math.log1p(math.exp(-20.0)), rtol=1e-7)
    residuals = np.random.default_rng(0).uniform(-1.0, 1.0, 300_000)
    result = make_risks(SquaredError(), np.zeros((300_000, 1)), residuals, (300_000,)).risks(
        np.zeros(1)
    )
    exact = float(np.sum(residuals.astype(np.longdouble) ** 2) / 600_000)
    np.testing.assert_allclose(result, exact, rtol=1e-14)


def test_groups_and_blocks_without_records_have_no_sums():
    risks = drawn_risks(SquaredError(), (5, 3))
    some = risks.records.take([np.arange(0), np.arange(3)])
    weights = np.ones((1, 3)), np.ones(1)
    totals, sums = GroupRisks(some, risks.loss).handles[0].sums(*weights)
    assert not totals[:, 0].any()
    assert not sums[:, 0].any()
    nobody = GroupRisks(some.take([np.arange(0)] * 2), risks.loss).handles[0].sums(*weights)
    assert not any(part.any() for part in nobody)


@pytest.mark.parametrize(
    ("formula", "exact", "ends"),
    [
        (exp, mpmath.exp, (-700.0, 0.0)),
        (log1p, mpmath.log1p, (1e-300, 1.0)),
        (log, mpmath.log, (1.0, 1e3)),
    ],
)
def test_formulas_err_by_less_than_is_assumed(formula, exact, ends):
    rng = np.random.default_rng(0)
    numbers = rng.uniform(*ends, 3000)
    if formula is not log:
        numbers[:1000] *= 2.0 ** -rng.uniform(0.0, 60.0, 1000)
    edges = np.log(2.0) * np.arange(-10.0, 0.0, 0.5) if ends[0] < 0 else [1.0]
    numbers = np.concatenate([numbers, *(np.nextafter(edges, to) for to in ends)])
    numbers = np.clip(numbers, *ends)
    numbers = numbers[numbers != 1.0] if formula is log else numbers
    with mpmath.workdps(40):
        exacts = [exact(mpmath.mpf(float(number))) for number in numbers]
        result = map(mpmath.mpf, formula(numbers).tolist())
        errors = [abs(one / each - 1) for one, each in zip(result, exacts, strict=True)]
    assert max(errors) < 2.5 * 2.0**-53
