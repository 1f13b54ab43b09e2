"""Group risks against one record at a time, and many blocks against one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.risks import record_block as risks_module
from sklearn_dpwg.data.risks.record_block import RecordBlock, keyed_parts
from sklearn_dpwg.data.risks.risks import LocalEngine
from sklearn_dpwg.data.rows import linear_scores
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, Quantile, SquaredError
from sklearn_dpwg.privacy.noise.poisson import PoissonSample
from sklearn_dpwg.solvers.centring import WHITENING_STEP
from tests.helpers.group_data import make_risks, naive
from tests.helpers.selections import Listed, with_records
from tests.helpers.storage import RestlessEngine, in_blocks
from tests.helpers.sum_cases import PlainAbsoluteError, laid_out

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3), MultinomialLogLoss(5))
SHAPES = ((7, 1, 30), (25,), (1,) * 12, (64, 65, 128, 129))


@pytest.fixture(params=LOSSES, ids=repr)
def loss(request):
    return request.param


def check(risks, seed=0):
    rng = np.random.default_rng(seed)
    weights = 2.0 * rng.normal(size=risks.n_weights)
    group_weights = rng.dirichlet(np.ones(risks.n_groups))
    values, gradients, hessians = naive(risks, weights)
    np.testing.assert_allclose(risks.risks(weights), values, rtol=1e-12)
    both = risks.risks_and_gradients(weights)
    np.testing.assert_allclose(both[0], values, rtol=1e-12)
    np.testing.assert_allclose(both[1], gradients, rtol=1e-10, atol=1e-14)
    hessian = risks.hessian(weights, group_weights)
    expected = np.einsum("i,ijk->jk", group_weights, hessians)
    np.testing.assert_allclose(hessian, expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-15)


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_everything(loss, sizes, intercept):
    check(make_risks(loss, sizes, intercept=intercept))


@pytest.mark.parametrize("block_bytes", [1, 8 * 3 * 65])
def test_block_boundaries(loss, block_bytes, monkeypatch):
    monkeypatch.setattr(risks_module, "BLOCK_BYTES", block_bytes)
    check(make_risks(loss, (63, 64, 65, 200)))


@pytest.mark.parametrize("loss_clip", [0.3, 0.8, 100.0])
def test_ceiling_caps_each_record_not_the_mean(loss, loss_clip):
    risks = make_risks(loss, (30, 11, 1))
    weights = np.random.default_rng(3).normal(size=risks.n_weights)
    capped, gradients, _ = naive(risks, weights, loss_clip)
    np.testing.assert_allclose(risks.risks(weights, loss_clip=loss_clip), capped, rtol=1e-12)
    both = risks.risks_and_gradients(weights, loss_clip=loss_clip)
    np.testing.assert_allclose(both[0], capped, rtol=1e-12)
    np.testing.assert_allclose(both[1], gradients, rtol=1e-10, atol=1e-14)
    if loss_clip == 0.8:
        assert np.any(np.minimum(risks.risks(weights), loss_clip) > capped + 1e-6)


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, csr_array])
def test_part_holds_whole_records_of_its_groups(loss, layout):
    risks = make_risks(loss, (7, 1, 30, 64))
    rows, names = risks.records.rows, np.linspace(0.1, 0.5, 102)
    risks = with_records(risks, rows=layout(rows), slope_limits=names)
    rng, sizes = np.random.default_rng(0), zip((7, 1, 30, 64), (3, 1, 30, 20), strict=True)
    part = risks.part(Listed([np.sort(rng.choice(*size, replace=False)) for size in sizes]))
    assert part.group_sizes == (3, 1, 30, 20)
    result = np.searchsorted(names, part.records.slope_limits)
    assert len(set(result)) == 54
    of_group = np.searchsorted([7, 8, 38], result, "right")
    np.testing.assert_array_equal(of_group, np.repeat([0, 1, 2, 3], [3, 1, 30, 20]))
    drawn = part.records.rows.toarray() if layout is csr_array else part.records.rows
    np.testing.assert_array_equal(drawn, rows[result])
    np.testing.assert_array_equal(part.records.targets, risks.records.targets[result])
    weights = np.random.default_rng(1).normal(size=risks.n_weights)
    # groups drawn in full have their own risk
    np.testing.assert_allclose(part.risks(weights)[1:3], risks.risks(weights)[1:3], rtol=1e-12)
    assert (part.n_passes, risks.n_passes) == (1, 1)


# Many blocks.

BLOCK_LOSSES = (BinaryLogLoss(), MultinomialLogLoss(3), SquaredError(1.0), PlainAbsoluteError())
SIZES = (37, 1, 90)
MOMENTS = {"clip": 1.0, "constant": 0.75, "length": 1.25}


def _white(n):
    """Return a symmetric matrix whose products with rows are exact."""
    result = np.eye(n) + 0.1 * np.cos(np.add.outer(np.arange(n), np.arange(n)))
    return np.rint(result / WHITENING_STEP) * WHITENING_STEP


def inexact(risks, weights):
    """Return what blocks answer that is not added up in whole numbers alone."""
    some = np.linspace(0.2, 0.8, risks.n_groups)
    result = [
        risks.risks(weights, loss_clip=0.8),
        *risks.risks_and_gradients(weights),
        risks.over(np.full(risks.n_groups, 7.0), loss_center=0.3).risks(weights),
    ]
    if risks.loss.n_outputs > 1:
        return [*result, risks.hessian(weights, some)]
    smooth = risks.with_loss(BinaryLogLoss())
    for white in (None, _white(3)):
        view = smooth.centred(np.full(3, 0.1), constant=0.25, clip=0.4, whitening=white)
        result += [*view.risks_and_gradients(weights), view.hessian(weights, some)]
    return [*result, smooth.hessian(weights, some)]


@pytest.mark.parametrize("layout", ["rows", "columns", "csr"])
@pytest.mark.parametrize("loss", BLOCK_LOSSES, ids=repr)
def test_many_blocks_answer_as_one_to_rounding(loss, layout):
    rng = np.random.default_rng(0)
    rows = laid_out(rng.standard_normal((sum(SIZES), 3)), layout)
    one = make_risks(loss, SIZES, intercept=0.5, rows=rows)
    weights = rng.standard_normal(one.n_weights)
    many = in_blocks(one, 5, engine=RestlessEngine())
    for result, expected in zip(inexact(many, weights), inexact(one, weights), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_parts_and_parts_of_parts_hold_the_same_records(n_blocks, seed):
    rng = np.random.default_rng(seed)
    one = make_risks(BinaryLogLoss(), SIZES)
    one.records.targets[:] = np.arange(128)  # who is who
    many = in_blocks(one, n_blocks, seed, engine=RestlessEngine())
    parts = keyed_parts(SIZES, [[size // 3 for size in SIZES]] * 2, rng)
    for part in parts:
        few, same = many.part(part), one.part(part)
        assert few.group_sizes == same.group_sizes
        assert few.n_passes == 0
        assert names(few) == names(same)
        fewer = [rng.integers(0, size + 1, 2) for size in few.group_sizes]
        again = Listed([np.arange(*sorted(ends)) for ends in fewer])
        assert names(few.part(again)) == names(same.part(again))


def names(risks):
    """Return the targets of each group."""
    by_group = [[] for _ in risks.group_sizes]
    for block in risks.handles:
        starts = block.records.starts
        for group, of_group in enumerate(by_group):
            of_group += block.records.targets[starts[group] : starts[group + 1]].tolist()
    return by_group


def test_records_in_several_blocks_have_no_oracle():
    risks = in_blocks(make_risks(BinaryLogLoss(), SIZES), 2)
    with pytest.raises(ValueError, match=r"in memory, in one block, .* got 2 block\(s\) of Local"):
        risks.as_oracle(np.random.default_rng(0))


@given(
    loss=st.sampled_from([*BLOCK_LOSSES, Hinge(), Quantile(0.8)]),
    layout=st.sampled_from(["rows", "csr"]),
    dtype=st.sampled_from([np.float64, np.float32]),
    n_features=st.sampled_from([1, 5, 60]),
    is_sorted=st.booleans(),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_border_changes_a_bit_of_what_is_released(
    loss, layout, dtype, n_features, is_sorted, cuts, seed
):
    """Blocks that are encoded each by itself; targets where slopes jump, rows of all lengths."""
    rng, n = np.random.default_rng(seed), 120
    rows = rng.standard_normal((n, n_features)).astype(dtype)
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[rng.random(n) < 0.2] *= 1e3
    codes = rng.integers(0, 3, n)
    codes = np.sort(codes) if is_sorted else codes
    weights = rng.standard_normal(loss.n_outputs * (n_features + 1))
    weights /= np.linalg.norm(weights)
    encoder = RecordEncoder(3, 1.0)
    targets = rng.choice([-1.0, 1.0], n)
    if loss.task == "multiclass":
        targets = rng.integers(0, loss.n_outputs, n).astype(float)
    elif loss.task == "regression":
        whole = encoder.encode(laid_out(rows, layout, dtype), targets, np.zeros(n, np.intp))
        targets = linear_scores(whole.rows, weights[None, :-1])[:, 0] + 0.5 * weights[-1]

    def stored(edges):
        blocks, ranks = [], np.zeros(3, dtype=int)
        for first, last in pairwise(edges):
            part = laid_out(rows[first:last], layout, dtype), targets[first:last], codes[first:last]
            blocks.append(RecordBlock(encoder.encode(*part), loss, 0.5, first_ranks=tuple(ranks)))
            ranks = ranks + np.bincount(codes[first:last], minlength=3)
        facts = {"loss": loss, "intercept_scaling": 0.5, "group_sizes": tuple(ranks.tolist())}
        engine = RestlessEngine() if len(blocks) > 1 else LocalEngine()
        return Risks(engine, blocks, n_features=n_features, **facts)

    def released(risks):
        center = np.full(n_features, 0.5 / n_features)
        sample = PoissonSample(0.4, bytes(range(32)))
        result = [
            *risks.sums(weights, loss_clip=3.0),
            risks.sums(weights, loss_clip=0.8, gradients=False, center=2.0**-4)[0],
            *risks.sampled_sums(weights, sample, loss_clip=3.0, center=0.25),
            risks.row_sum(),
            *(risks.second_moments(columns_alone=alone) for alone in (True, False)),
        ]
        factors = (None, np.linspace(0.5, 2.0, n_features), _white(n_features))
        result += [np.array(risks.spread(center, whitening=white)) for white in factors]
        if loss.has_ends:
            for white in factors:
                view = risks.centred(center, constant=0.25, clip=0.3, whitening=white)
                result += view.sums(weights, loss_clip=3.0)
        if loss.n_outputs == 1:
            result.append(risks.residual_moments(weights, **MOMENTS))
        return result

    one, many = stored([0, n]), stored([0, *sorted(cuts), n])
    for result, expected in zip(released(many), released(one), strict=True):
        np.testing.assert_array_equal(result, expected)
